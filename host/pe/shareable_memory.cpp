#include "host/pe/shareable_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>

#include "host/node/sealed_memory.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// A mapping of this process, as /proc/self/maps shows it.
struct file_mapping {
  uint64_t begin, end, offset, inode;
  dev_t device;
  bool is_shared;

  bool continues(const file_mapping& before) const {
    return begin == before.end && inode == before.inode && device == before.device && is_shared == before.is_shared &&
           offset == before.offset + (before.end - before.begin);
  }
};

/// The mapping that contains this address. The kernel may show it in parts.
std::optional<file_mapping> mapping_at(uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  std::optional<file_mapping> found;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    char rights[5] = "";
    const int fields = std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &begin, &end, rights, &offset,
                                   &major_number, &minor_number, &inode);
    if (fields != 7) continue;
    const file_mapping next{begin, end, offset, inode, makedev(major_number, minor_number), rights[3] == 's'};
    if (found && next.continues(*found)) found->end = next.end;
    else if (found && found->end > address) break;
    else found = next;
  }
  if (!found || address < found->begin || address >= found->end) return std::nullopt;
  return found;
}

/// A descriptor of the file of a mapping; none: no open one refers to it.
owned_descriptor descriptor_of(const file_mapping& m) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
  if (!all) fail_errno("opening /proc/self/fd");
  while (const dirent* entry = readdir(all.get())) {
    const int number = std::atoi(entry->d_name);
    struct stat status {};
    if (entry->d_name[0] == '.' || fstat(number, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const bool is_it = status.st_ino == m.inode && status.st_dev == m.device;
    if (!is_it) continue;
    owned_descriptor copy(fcntl(number, F_DUPFD_CLOEXEC, 3));
    if (!copy) fail_errno("duplicating the descriptor of a memfd");
    return copy;
  }
  return {};
}

/// The mapping of a whole memfd that contains this address, with the file.
struct whole_mapping {
  file_mapping place;
  owned_descriptor file;
};
whole_mapping whole_mapping_at(uint64_t address) {
  const std::optional<file_mapping> found = mapping_at(address);
  const void* const at = reinterpret_cast<const void*>(address);
  if (!found || !found->is_shared || found->inode == 0)
    fail("{} lies in no shared mapping of a file, which other PEs could map. {} (on the CPU backend: a mapped memfd)",
         at, two_ways);
  owned_descriptor file = descriptor_of(*found);
  if (!file) fail("the descriptor of the memfd at {} is closed: keep it open until gravel_register has returned", at);
  if (found->offset != 0) fail("a part of a memfd is mapped at {}: map it from its begin to its end", at);
  check_sealed(file.get(), "the memfd of gravel_register", found->end - found->begin);
  return {*found, std::move(file)};
}

}  // namespace

shareable_memory find_shared_mappings(const char* at, uint64_t bytes) {
  shareable_memory found;
  const uint64_t first = reinterpret_cast<uintptr_t>(at), end = first + bytes;
  for (uint64_t next = first; next < end;) {
    const file_mapping place = whole_mapping_at(next).place;
    if (found.pieces.empty()) found.begin = reinterpret_cast<const char*>(place.begin);
    found.pieces.push_back(place.end - place.begin);
    next = place.end;
  }
  return found;
}

owned_descriptor descriptor_of_mapping(const char* begin, uint64_t bytes) {
  whole_mapping found = whole_mapping_at(reinterpret_cast<uintptr_t>(begin));
  if (found.place.begin != reinterpret_cast<uintptr_t>(begin) || found.place.end - found.place.begin != bytes)
    fail("the mapping at {} has changed during gravel_register", static_cast<const void*>(begin));
  return std::move(found.file);
}

}  // namespace gravel::detail
