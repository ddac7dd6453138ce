// gravel_t: all that a kernel, a handler or a host thread needs to send. It is plain data, passed by value. There is no
// hidden state, so no relocatable device code is needed.
#pragma once
#include <type_traits>

#include "lib/base/device_error.hpp"
#include "lib/base/get_window.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/queue.hpp"
#include "lib/base/wait_report.hpp"
#if GRAVEL_CUDA
#include "device/simt.hpp"
#endif

namespace gravel::detail {

struct block_scratch;

/// A word on which a fetching operation waits for its answer. `state`: free, taken, or answered (release by the
/// receiver [R1]).
struct reply_cell {
  static constexpr uint64_t is_free = 0, taken = 1, answered = 2;
  uint64_t state, value;
};

/// Counts of messages that no queue counts. Many lanes add to them all the time, so groups of multiprocessors have
/// lines of their own: a single line would delay the messages themselves.
struct alignas(64) route_counters {
  static constexpr uint32_t lines = 64;
  uint64_t in_place;  ///< route `self`
  uint64_t to_peers;  ///< route `peer`
};

/// Counters in the producers' memory, to which many lanes add: one set for kernels and handlers (GPU memory), one for
/// host threads.
struct device_counters {
  get_window gets;
  alignas(64) uint64_t host_gets_done[2];  ///< in the kernels' set: `done` of the gets of host threads
  alignas(64) uint64_t reply_tickets;      ///< spreads fetching operations over the reply cells
  alignas(64) uint64_t error_claimed;      ///< not 0: an error is claimed; the first error counts
  route_counters routes[route_counters::lines];

  /// Returns the caller's line.
  GRAVEL_BOTH route_counters& here() {
#if GRAVEL_ON_GPU
    uint32_t processor;
    asm("mov.u32 %0, %%smid;" : "=r"(processor));
    return routes[processor % route_counters::lines];
#else
    return routes[0];
#endif
  }
  uint64_t in_place() const { return sum(&route_counters::in_place); }
  uint64_t to_peers() const { return sum(&route_counters::to_peers); }

 private:
  uint64_t sum(uint64_t route_counters::*of) const {
    uint64_t all = 0;
    for (const route_counters& line : routes) all += load_relaxed(&(line.*of));
    return all;
  }
};

/// The ids of the handlers that gravel_init was given, as a set that may hold a few other ids too. It is part of the
/// handle, so a send checks it at the cost of one bit.
struct handler_set {
  uint64_t bits[4];
  GRAVEL_BOTH void add(uint32_t id) { bits[id / 64 % 4] |= uint64_t{1} << id % 64; }
  GRAVEL_BOTH bool may_hold(uint32_t id) const { return bits[id / 64 % 4] >> id % 64 & 1; }
  static constexpr handler_set all() { return {{~0ull, ~0ull, ~0ull, ~0ull}}; }
};

enum class sender : uint8_t { kernel, handler, host };

}  // namespace gravel::detail

/// Handle of this PE. gravel_handle() returns it for kernels, gravel_host_handle() for host threads; a handler gets its
/// own. It is valid from gravel_init to gravel_finalize.
struct gravel_t {
  uint32_t my_pe, n_pes;
  gravel::detail::sender from;
  bool self_in_place;   ///< route `self` may be used from here
  bool on_host;         ///< for host threads and handlers on the host
  uint16_t stamp;       ///< gravel::valid_stamp in handles that may be used now
  uint32_t bulk_units;  ///< largest message of gravel_put_bulk, in units
  char* heap;           ///< symmetric heap of this PE
  uint64_t heap_bytes;
  gravel::detail::queue direct;  ///< for single messages
  gravel::detail::queue block;   ///< for thread blocks
  gravel::detail::device_counters* counters;
  gravel::detail::reply_cell* cells;
  uint64_t n_cells;  ///< also the most gets that may be under way, of kernels and of host threads each
  gravel::detail::device_error* error;
  gravel::detail::lane_waits* waits;  ///< of kernels: reports of long waits
  void* const* contexts;  ///< in a handler's handle: the pointer of gravel_set_context for each handler of the list
  const gravel::detail::peer_link* peers;  ///< by PE; nullptr: route `peer` is not used from here
  const uint32_t* peer_pes;                ///< [n_peers]: PEs that have a ring, in the order of their bins
  gravel::detail::handler_set handlers;
  gravel::detail::block_scratch* scratch;  ///< of collectives of kernels, symmetric; device/collective.cuh
  const gravel::detail::ring_line* lines;  ///< [n_lines]: of the rings from this PE; all words of others are 0
  uint32_t n_lines;
  uint32_t n_peers;
  bool peers_directly;  ///< block senders also send to peers one by one
  bool all_mapped;      ///< kernels of each PE reach the memory of all PEs; the same at all PEs
};
static_assert(std::is_trivially_copyable_v<gravel_t>);

namespace gravel::detail {

// Functions of the host runtime for host threads (host/pe/gravel.cpp). Host threads cannot load from a GPU's memory:
// these copy.
void copy_from_device(void* to, const void* from, uint64_t bytes);
/// Returns true if host threads must not load from this address.
bool is_device_memory(const void*);

/// The stamp of valid handles, on the host. It finds handles that were never initialized, and handles that were kept
/// past gravel_finalize. Handles made by hand, in tests, have stamp 0.
GRAVEL_API extern uint16_t valid_stamp;
struct handle_stamp {
  static constexpr uint16_t before_init = 1, valid = 0x4752, after_finalize = 2;
};
/// Throws gravel::error: `call` cannot use this handle.
[[noreturn]] void refuse_handle(const gravel_t& g, const char* call);
[[noreturn]] void refuse_handle(const gravel_t& g, op o);
[[noreturn]] void refuse_handle(const gravel_t& g, other_call call);

/// Throws if the handle is not valid. On the GPU an empty handle is found only where this costs nothing: it has no PEs,
/// hence no PE in range, so report_error finds it. A stale handle looks like a valid one there.
template <class What>
GRAVEL_BOTH void check_handle(const gravel_t& g, What call) {
#if !GRAVEL_ON_GPU
  if (g.stamp != valid_stamp) [[unlikely]]
    refuse_handle(g, call);
#endif
}
/// As check_handle(), for calls that name no PE.
template <class What>
GRAVEL_BOTH void check_handle_everywhere(const gravel_t& g, What call) {
  check_handle(g, call);
#if GRAVEL_ON_GPU
  if (g.n_pes == 0) {
    // There is no place to write to. The host says what may be wrong (cuda_check). It is not printf: where kernels are
    // loaded when first used, the first launch of a kernel with printf waits until all running kernels have ended (seen
    // on an H200, CUDA 13.0).
    __trap();
    __builtin_unreachable();
  }
#endif
}

/// Returns true if the caller's error is the first of this PE. Only the first error counts.
GRAVEL_BOTH bool claim_error(const gravel_t& g, op o) {
  check_handle_everywhere(g, o);
  return compare_swap_acquire<scope::device>(&g.counters->error_claimed, uint64_t{0}, uint64_t{1});
}
GRAVEL_BOTH void fill_error(const gravel_t& g, message_fault fault, op o, uint32_t pe, uint64_t offset, uint64_t bytes,
                            uint64_t arrived) {
  g.error->operation = static_cast<uint64_t>(o);
  g.error->pe = pe;
  g.error->offset = offset;
  g.error->bytes = bytes;
  g.error->arrived = arrived;
  store_release(&g.error->code, static_cast<uint64_t>(fault) + 1);  // [E1]
}

#if GRAVEL_ON_GPU
/// Not inlined, since many places check for errors. What it needs of the handle comes by value, so that the handle need
/// not lie in memory.
__device__ GRAVEL_NOINLINE inline void report_error_of(uint32_t n_pes, device_counters* counters, device_error* error,
                                                       message_fault fault, op o, uint32_t pe, uint64_t offset,
                                                       uint64_t bytes, uint64_t arrived) {
  gravel_t g{};
  g.n_pes = n_pes;
  g.counters = counters;
  g.error = error;
  if (claim_error(g, o)) fill_error(g, fault, o, pe, offset, bytes, arrived);
}
#endif
/// Records the first error of this PE; the job ends with a message that names it. The operation itself is dropped.
GRAVEL_BOTH void report_error(const gravel_t& g, message_fault fault, op o, uint32_t pe, uint64_t offset,
                              uint64_t bytes, uint64_t arrived = 0) {
#if GRAVEL_ON_GPU
  report_error_of(g.n_pes, g.counters, g.error, fault, o, pe, offset, bytes, arrived);
#else
  if (claim_error(g, o)) fill_error(g, fault, o, pe, offset, bytes, arrived);
#endif
}

/// Finds the offset of a symmetric address. If the address or the PE is wrong, reports it and returns false: the
/// operation is not to be sent. The handle has been checked.
GRAVEL_BOTH bool locate_unchecked(const gravel_t& g, const void* address, uint32_t bytes, uint32_t align, int pe, op o,
                                  uint64_t* offset) {
  *offset = static_cast<uint64_t>(static_cast<const char*>(address) - g.heap);
  message_fault fault = message_fault::fine;
  if (static_cast<uint32_t>(pe) >= g.n_pes) fault = message_fault::bad_pe;
  else if (*offset >= g.heap_bytes || bytes > g.heap_bytes - *offset) fault = message_fault::outside_heap;
  else if (*offset % align) fault = message_fault::misaligned;
  if (fault == message_fault::fine) return true;
  report_error(g, fault, o, static_cast<uint32_t>(pe), *offset, bytes);
  return false;
}
/// Checks the handle, then does as locate_unchecked().
GRAVEL_BOTH bool locate(const gravel_t& g, const void* address, uint32_t bytes, uint32_t align, int pe, op o,
                        uint64_t* offset) {
  check_handle(g, o);
  return locate_unchecked(g, address, bytes, align, pe, o, offset);
}

/// Finds the offset of the address in this PE's own heap at which an operation stores its answer. Reports a wrong
/// address.
GRAVEL_BOTH bool locate_destination(const gravel_t& g, const void* address, uint32_t bytes, uint32_t align, op o,
                                    uint64_t* offset) {
  *offset = static_cast<uint64_t>(static_cast<const char*>(address) - g.heap);
  if (*offset < g.heap_bytes && bytes <= g.heap_bytes - *offset && *offset % align == 0) return true;
  report_error(g, message_fault::bad_destination, o, g.my_pe, *offset, bytes);
  return false;
}

}  // namespace gravel::detail
