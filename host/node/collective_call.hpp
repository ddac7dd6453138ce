// What PEs call together. Each collective call says what it is, so that PEs that call different things are told so
// instead of waiting for each other, or getting each other's numbers.
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
  X(close_service, "gravel_service::close")
enum class collective_kind : uint32_t { GRAVEL_COLLECTIVES(GRAVEL_NAME) count };
/// Of the call in programs.
const char* name_of(collective_kind);

/// One call of one PE. Kind and arguments are the same at all PEs, or the job ends.
struct collective_call {
  uint64_t number;  ///< of the PE's collective calls of whatever kind, from 1; 0: none
  collective_kind kind;
  uint32_t pe;
  uint64_t arguments[2];  ///< what they mean depends on the kind, see text_of()
};
static_assert(sizeof(collective_call) == 32);

/// gravel_free of a null pointer, which stands where others have an offset.
constexpr uint64_t no_object = ~0ull;

/// "gravel_malloc of 256 bytes".
std::string text_of(const collective_call&);
/// Why these two cannot be the same call of a job; empty if they can.
std::string mismatch(const collective_call&, const collective_call&);

/// pe_control::waiting: a call in one word, for PEs that wait for each other without their aggregator. Of kinds that
/// have no arguments.
constexpr uint64_t waiting_word(uint64_t number, collective_kind kind) {
  return number << 8 | static_cast<uint64_t>(kind);
}
constexpr collective_call call_of_waiting_word(uint64_t word, uint32_t pe) {
  return {word >> 8, static_cast<collective_kind>(word & 0xff), pe, {0, 0}};
}

}  // namespace gravel::detail
