// Descriptions of collective calls. Each PE says which collective it calls. So PEs that call different collectives end
// with a message, instead of waiting for each other or getting wrong results.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/platform.hpp"

namespace gravel::detail {

#define GRAVEL_COLLECTIVES(X)                \
  X(none, "no collective")                   \
  X(init, "gravel_init")                     \
  X(barrier, "gravel_barrier_all")           \
  X(quiescence, "gravel_wait_quiescent")     \
  X(allocate, "gravel_malloc")               \
  X(release, "gravel_free")                  \
  X(broadcast, "gravel_broadcast")           \
  X(gather, "gravel_allgather")              \
  X(sum, "gravel_sum_all")                   \
  X(minimum, "gravel_min_all")               \
  X(maximum, "gravel_max_all")               \
  X(bit_and, "gravel_and_all")               \
  X(bit_or, "gravel_or_all")                 \
  X(bit_xor, "gravel_xor_all")               \
  X(exclusive_scan, "gravel_scan_exclusive") \
  X(inclusive_scan, "gravel_scan_inclusive") \
  X(finalize, "gravel_finalize")             \
  X(open_service, "gravel_service")          \
  X(close_service, "gravel_service::close")  \
  X(register_range, "gravel_register")       \
  X(unregister_range, "gravel_unregister")   \
  X(share, "gravel_malloc or gravel_register, which passes memory on")
enum class collective_kind : uint32_t { GRAVEL_COLLECTIVES(GRAVEL_NAME) count };
/// Name of the call in programs.
const char* name_of(collective_kind);

/// One call of one PE. Kind and arguments are the same at all PEs, or the job ends.
struct collective_call {
  uint64_t number;  ///< number among all collective calls of the PE, from 1; 0: none
  collective_kind kind;
  uint32_t pe;
  uint64_t arguments[2];  ///< their meaning depends on the kind, see text_of()
};
static_assert(sizeof(collective_call) == 32);

/// gravel_free of a null pointer passes this instead of an offset.
constexpr uint64_t no_object = ~0ull;

/// Text of a call, such as "gravel_malloc of 256 bytes".
std::string text_of(const collective_call&);
/// Why these two cannot be one call of the job; empty if they can.
std::string mismatch(const collective_call&, const collective_call&);

/// The word of pe_control::waiting: a call for which PEs wait without their aggregator. Only kinds without arguments
/// have such a word.
constexpr uint64_t waiting_word(uint64_t number, collective_kind kind) {
  return number << 8 | static_cast<uint64_t>(kind);
}
constexpr collective_call call_of_waiting_word(uint64_t word, uint32_t pe) {
  return {word >> 8, static_cast<collective_kind>(word & 0xff), pe, {0, 0}};
}

}  // namespace gravel::detail
