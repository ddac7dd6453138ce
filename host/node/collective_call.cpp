#include "host/node/collective_call.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/message.hpp"

namespace gravel::detail {
namespace {

constexpr const char* names[] = {GRAVEL_COLLECTIVES(GRAVEL_TEXT)};

std::string name_of_type(uint64_t type) {
  static constexpr const char* types[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t", "int32_t",
                                          "int64_t", "float",    "double",   "half",     "bfloat16"};
  static_assert(std::size(types) == static_cast<size_t>(value_type::count));
  return type < std::size(types) ? types[type] : "unknown";
}

}  // namespace

const char* name_of(collective_kind kind) {
  return kind < collective_kind::count ? names[static_cast<uint32_t>(kind)] : "an unknown collective";
}

std::string text_of(const collective_call& call) {
  const char* const name = name_of(call.kind);
  const auto [a, b] = call.arguments;
  switch (call.kind) {
    case collective_kind::allocate: return fmt::format("{} of {} bytes", name, a);
    case collective_kind::release:
      return a == no_object ? fmt::format("{} of a null pointer", name)
                            : fmt::format("{} of the object at offset {:#x}", name, a);
    case collective_kind::unregister_range: return fmt::format("{} of the memory at offset {:#x}", name, a);
    case collective_kind::broadcast: return fmt::format("{} of {} bytes from PE {}", name, a, b);
    case collective_kind::gather: return fmt::format("{} of {} bytes", name, a);
    default:
      const bool has_type = call.kind >= collective_kind::sum && call.kind <= collective_kind::inclusive_scan;
      return has_type ? fmt::format("{} of {} {}", name, a, name_of_type(b)) : name;
  }
}

std::string mismatch(const collective_call& one, const collective_call& other) {
  const collective_call& a = one.pe < other.pe ? one : other;
  const collective_call& b = one.pe < other.pe ? other : one;
  if (a.kind == b.kind && a.number == b.number && std::equal(a.arguments, a.arguments + 2, b.arguments)) return {};
  if (a.kind == b.kind && a.number == b.number)
    return fmt::format("the PEs' arguments differ: PE {} calls {}, PE {} {}", a.pe, text_of(a), b.pe, text_of(b));
  for (const auto& [waits, leaves] : {std::pair{&a, &b}, {&b, &a}})
    if (leaves->kind == collective_kind::finalize && waits->kind != collective_kind::finalize)
      return fmt::format("PE {} waits in {}, PE {} has called gravel_finalize", waits->pe, text_of(*waits), leaves->pe);
  return fmt::format("the PEs call different collectives: PE {} {}, PE {} {} (their collective calls number {} and {})",
                     a.pe, text_of(a), b.pe, text_of(b), a.number, b.number);
}

}  // namespace gravel::detail
