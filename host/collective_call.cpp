#include "host/collective_call.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

constexpr const char* names[] = {"no collective",    "gravel_init",      "gravel_barrier_all", "gravel_wait_quiescent",
                                 "gravel_sum_all",   "gravel_min_all",   "gravel_max_all",     "gravel_malloc",
                                 "gravel_free",      "gravel_broadcast", "gravel_allgather",   "a scan",
                                 "a reduction",      "gravel_finalize"};
static_assert(std::size(names) == static_cast<size_t>(collective_kind::count));

}  // namespace

std::string text_of(const collective_call& call) {
  const std::string name = call.kind < collective_kind::count ? names[static_cast<uint32_t>(call.kind)] : "an unknown collective";
  const auto [a, b] = call.arguments;
  switch (call.kind) {
    case collective_kind::allocate:
      return fmt::format("{} of {} bytes", name, a);
    case collective_kind::release:
      return a == no_object ? name + " of a null pointer" : fmt::format("{} of the object at offset {:#x}", name, a);
    default:
      return name;
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
  return fmt::format("the PEs call different collectives: PE {} {}, PE {} {} (their collective calls number {} and {})", a.pe,
                     text_of(a), b.pe, text_of(b), a.number, b.number);
}

}  // namespace gravel
