#include "host/aggregator/cpu_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <regex>

#include "lib/base/error.hpp"

namespace gravel::detail {

cpu_set::cpu_set(hwloc_const_bitmap_t set) : set_(set ? hwloc_bitmap_dup(set) : hwloc_bitmap_alloc()) {
  if (!set_) throw std::bad_alloc();
}

cpu_set cpu_set::parse(const std::string& text) {
  // hwloc accepts a text of which it understands a part, and reads "3-1" as an empty set. Five digits are the limit, so
  // that a large number does not use up memory.
  static const std::regex list("[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*");
  if (!std::regex_match(text, list)) fail("'{}' is not a list of processors (example: 0-3,8)", text);
  cpu_set all;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    cpu_set some;
    if (hwloc_bitmap_list_sscanf(some.get(), part.c_str()) != 0 || some.empty())
      fail("'{}' is not a list of processors: '{}' names none", text, part);
    all = all | some;
  }
  return all;
}

std::string cpu_set::text() const {
  char* raw = nullptr;
  if (hwloc_bitmap_list_asprintf(&raw, get()) < 0) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(void*)> owned(raw, std::free);
  return raw;
}

}  // namespace gravel::detail
