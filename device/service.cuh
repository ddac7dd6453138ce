// Services: messages for blocks that own a part of the data.
//
// A service is a kernel that stays resident while it is open. Each of its blocks, a service block, has rings of its own
// (lib/base/service_rings.hpp) and, mostly, data that no other block touches.
//
//   struct bank {
//     static constexpr const char* name = "bank";
//     struct message { uint32_t account; int32_t amount; };
//     int64_t* balance;                                     // in this PE's device memory
//     __device__ void operator()(const gravel_service_block<bank>& here,
//                                const gravel_service_batch<message>& batch) const {
//       for (uint32_t i = here.rank(); i < batch.size(); i += here.size()) ...
//     }
//   };
//   gravel_init<gravel_service_delivery<bank>>();
//   gravel_service<bank> service(bank{...}, {.blocks = 32});                 // host/pe/service.hpp
//   gravel_launch(kernel, grid, block, service.handle());
//   ... in the kernel: gravel_service_send(handle, pe, block, {account, 5});  // or gravel_service_sender
//
// A service may also have these members:
//   __device__ void begin(const gravel_service_block<bank>& here) const
//     All threads of a block call it when the kernel starts, which it does again after each pause. It fills shared
//     memory.
//   static constexpr bool polls_arrivals = true;
//   GRAVEL_DEVICE bool arrive(const gravel_t& g, const message& m) const
//     The handler that takes a message of another PE calls it first: on many lanes at once, beside the service blocks.
//     It must not wait. It returns true if the message is done; else the message goes to its service block.
//
// A message to this PE goes into a ring in its device's memory. A message to another PE is an active message. Its
// handler puts it into a second ring of the service block, and never waits: if the ring has no room, the handler sends
// the message to its own PE again, so that it is kept as all messages of handlers are.
#pragma once
#include "device/am.cuh"
#include "lib/base/service_rings.hpp"

namespace gravel::detail {

/// Services, and with them critical sections and queues of remote tasks, are opened and closed while a job runs. Each
/// opening has a number, which handles carry. On the host it is also in `open_now` until the memory behind the
/// handles is freed. Number 0 is for handles inside a service, and for handles made by hand in tests.
inline constexpr uint32_t opening_places = 64;
GRAVEL_API extern uint32_t open_now[opening_places];
/// Throws gravel::error: `call` cannot use a handle of `what`.
[[noreturn]] void refuse_closed(const char* call, const char* what, const char* name);
/// Throws if the handle is not one, or if it is a handle of something that was closed. As check_handle(), it checks on
/// the host only.
GRAVEL_BOTH void check_open([[maybe_unused]] const gravel_t& g, [[maybe_unused]] uint32_t opening,
                            [[maybe_unused]] const char* call, [[maybe_unused]] const char* what,
                            [[maybe_unused]] const char* name) {
#if !GRAVEL_ON_GPU
  check_handle(g, call);
  if (load_relaxed(&open_now[opening % opening_places]) != opening) [[unlikely]]
    refuse_closed(call, what, name);
#endif
}

/// Number of threads of a service block.
template <class Service>
GRAVEL_BOTH constexpr uint32_t service_threads() {
  if constexpr (requires { Service::threads; }) return Service::threads;
  else return 256;
}

/// Checks the rules for a service. Each broken rule is one line of the compiler.
template <class Service>
struct service_check {
  using message = typename Service::message;
  static_assert(has_name<Service>, "a service has a name: static constexpr const char* name = \"...\";");
  static_assert(std::is_trivially_copyable_v<Service>,
                "a service is copied to its kernel byte by byte: use pointers into device memory");
  static_assert(std::is_trivially_copyable_v<message> && std::is_default_constructible_v<message>,
                "a service's messages are copied byte by byte");
  static_assert(sizeof(message) % 4 == 0 && sizeof(message) <= 128 && alignof(message) <= 16,
                "a service's message has 4 to 128 bytes, in words of 4");
  static_assert(service_threads<Service>() % 32 == 0 && service_threads<Service>() >= 32 &&
                    service_threads<Service>() <= 1024,
                "a service block has 32 to 1024 threads, in whole warps");
  static constexpr bool good = true;
};

/// True if a service polls arrivals: messages of other PEs before they go to a service block.
template <class Service>
constexpr bool polls_arrivals = [] {
  if constexpr (requires { Service::polls_arrivals; }) return Service::polls_arrivals;
  else return false;
}();

/// Data of the handler of a service. In device memory.
template <class Service>
struct service_context {
  service_view view;
  alignas(16) Service service;  ///< if it polls arrivals; else not set
};

/// Writes one message for each lane of `group` into a chunk that its leader has claimed, and publishes the chunk.
/// Thread scope: the group.
template <class M>
GRAVEL_DEVICE void fill_chunk(const service_near_ring& ring, const lane_group& group, uint64_t ticket,
                              const M& message) {
  reinterpret_cast<M*>(ring.messages(ticket))[group.rank()] = message;
  group.sync();
  if (group.is_leader()) ring.publish(ticket, group.size());
}

/// Puts a message into a service block's far ring if it has room at once. Returns false if it has none. The lanes act
/// together also if their service blocks differ. Thread scope: the lanes of `lanes`.
template <class M>
GRAVEL_DEVICE bool deliver(const service_view& view, const lane_group& lanes, uint32_t block, const M& message) {
  const uint32_t alike = lanes.match(block), first = lane_group::lowest(alike), rank = lanes.rank_in(alike);
  service_block& to = view.block(block);
  far_claim claim{};
  if (lanes.lane() == first) claim = claim_far(to, lane_group::popcount(alike));
  lanes.sync();  // what one lane has acquired, all may write
  const uint64_t ticket = lanes.from_lane(claim.first, first) + rank;
  const bool fits = rank < lanes.from_lane(claim.n, first);
  if (fits) {
    const service_far_ring ring = view.far(block);
    *ring.at<M>(ticket) = message;
    gravel::detail::ring<scope::device>::publish(ring.word(ticket), ticket);
  }
  lanes.sync();
  if (fits && rank == 0) wake_block(view, to);
  return fits;
}

}  // namespace gravel::detail

/// The handler that takes a service's messages from other PEs. It is to be given to gravel_init. Callers that must not
/// wait, such as handlers of the program, send by it: gravel_am<gravel_service_delivery<S>>(g, pe, block, message). So
/// do host threads.
template <class Service>
struct gravel_service_delivery {
  static constexpr const char* name = Service::name;
  static constexpr bool batch = true;
  using context = gravel::detail::service_context<Service>;
  using message = typename Service::message;
  GRAVEL_HANDLER void operator()([[maybe_unused]] const gravel_t& g, [[maybe_unused]] context* mine,
                                 [[maybe_unused]] const gravel_batch& lanes, [[maybe_unused]] uint32_t block,
                                 [[maybe_unused]] message m) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    using namespace gravel::detail;
    const bool is_fresh = (block & polled) == 0;
    block &= ~polled;
    bool is_for_block = is_known(g, mine->view, block);
    if constexpr (polls_arrivals<Service>) is_for_block = is_for_block && !(is_fresh && mine->service.arrive(g, m));
    deliver_or_send_again(g, mine->view, lanes, is_for_block, block, m);
#endif
  }
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  /// Takes the messages `first`, `first + step`, ... below `n` of a row (device/apply.cuh).
  static constexpr bool takes_rows = gravel::detail::polls_arrivals<Service>;
  GRAVEL_DEVICE static void take_row(const gravel_t& g, const context& mine, const uint32_t* at, uint32_t first,
                                     uint32_t step, uint32_t n) {
    using namespace gravel::detail;
    constexpr uint32_t words = 1 + sizeof(message) / 4;
    const service_view view = mine.view;
    const Service service = mine.service;
    for (uint32_t i = first; i < n; i += step) {
      uint32_t word[words];
      load_message(at + i * words, word);
      const uint32_t block = word[0] & ~polled;
      message m;
      __builtin_memcpy(&m, word + 1, sizeof(message));
      bool is_for_block = is_known(g, view, block);
      if constexpr (takes_rows) is_for_block = is_for_block && !(word[0] == block && service.arrive(g, m));
      if (is_for_block) deliver_or_send_again(g, view, lane_group::active(), true, block, m);
    }
  }

 private:
  /// A bit of the number of a service block: the message has been polled as an arrival, and left to the block. Without
  /// this bit, a message that a full ring sends round again would be polled each time, and could run where others, and
  /// perhaps the block, wait for the same thing.
  static constexpr uint32_t polled = 1u << 31;
  GRAVEL_DEVICE static bool is_known(const gravel_t& g, const gravel::detail::service_view& view, uint32_t block) {
    if (block < view.shape.blocks) return true;
    gravel::detail::report_error(g, gravel::detail::message_fault::bad_service_block, gravel::detail::op::am, g.my_pe,
                                 block, view.shape.blocks);
    return false;
  }
  /// Delivers the messages of the lanes with `is_for_block` to their service blocks. If a block has no room, the
  /// message is sent to this PE again.
  __device__ GRAVEL_NOINLINE static void deliver_or_send_again(const gravel_t& g,
                                                               const gravel::detail::service_view& view,
                                                               const gravel_batch& lanes, bool is_for_block,
                                                               uint32_t block, message m) {
    const uint32_t some = lanes.ballot(is_for_block);
    if (is_for_block && !gravel::detail::deliver(view, lanes.part(some), block, m))
      gravel_am<gravel_service_delivery>(g, static_cast<int>(g.my_pe), block | polled, m);
  }
#endif
};

/// Handle with which kernels send to a service: plain data, from gravel_service::handle().
/// @scope any
/// @completion on return
/// @errors none
/// @source Gravel
template <class Service>
struct gravel_service_handle {
  gravel_t g;
  gravel::detail::service_view view;
  bool in_service;   ///< the caller is a service block, and does not wait for others
  uint32_t opening;  ///< number of the opening, for check_open()

  /// Number of service blocks of each PE.
  GRAVEL_BOTH uint32_t blocks() const { return view.shape.blocks; }
};

/// Sends a message to a service block of `pe`. Lanes that send to the same block together share a chunk. For thousands
/// of messages a gravel_service_sender is faster. Waits while the ring of a service block of this PE is full; a service
/// block itself never waits for another.
/// @param to from gravel_service::handle()
/// @param pe 0 to gravel_n_pes(g) - 1
/// @param block number of the service block, below to.blocks()
/// @param message copied, 4 to 128 bytes
/// @scope lane, from divergent code, kernels of gravel_launch; service blocks
/// @completion gravel_wait_quiescent, or gravel_service::close(): the service block has worked on it
/// @errors a service that is closed, a number or a PE out of range: the job ends with a message
/// @source Gravel
template <class Service>
GRAVEL_DEVICE void gravel_service_send(const gravel_service_handle<Service>& to, int pe, uint32_t block,
                                       const typename Service::message& message) {
  using namespace gravel::detail;
  check_open(to.g, to.opening, "gravel_service_send", "service", Service::name);
  if (block >= to.blocks())
    return report_error(to.g, message_fault::bad_service_block, op::am, static_cast<uint32_t>(pe), block, to.blocks());
  if (static_cast<uint32_t>(pe) != to.g.my_pe)
    return gravel_am<gravel_service_delivery<Service>>(to.g, pe, block, message);
  const lane_group all = lane_group::active();
  if (to.in_service) {
    if (!deliver(to.view, all, block, message)) gravel_am<gravel_service_delivery<Service>>(to.g, pe, block, message);
    return;
  }
  const lane_group group = all.part(all.match(block));
  const service_near_ring ring = to.view.near(block);
  const uint64_t ticket = group.is_leader() ? claim_near(to.view.block(block), ring.chunks) : 0;
  fill_chunk(ring, group, group.from_leader(ticket), message);
}
