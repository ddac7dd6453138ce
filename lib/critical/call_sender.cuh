// Senders: gather a block's calls on their way to service blocks. call.cuh says how kernels use them.
//
// A call that does not run where it is made is gathered in shared memory with others that have the same destination: in
// a bin for each service block of the caller's PE (gravel_service_sender), or in a bin for each peer (peer_bins).
// Before that, calls of one key are combined: the calls of a warp (combine.cuh), and with a table those of the block
// (call_table.cuh).
#pragma once
#include "device/block_add.hpp"
#include "device/block_sender.cuh"
#include "device/peer_bins.cuh"
#include "device/service_sender.cuh"
#include "lib/critical/call.cuh"
#include "lib/critical/call_table.cuh"

namespace gravel::detail {

/// Bins for calls to service blocks of this PE. GATHERS: false for nested sections, whose calls leave one by one.
template <class Service, uint32_t BLOCKS, bool GATHERS>
struct call_bins : gravel_service_sender<Service, BLOCKS> {};
template <class Service, uint32_t BLOCKS>
struct call_bins<Service, BLOCKS, false> {
  static constexpr uint32_t bytes_of_block = 0;
  GRAVEL_DEVICE void begin(const gravel_service_handle<Service>&, uint32_t, uint32_t) {}
  GRAVEL_DEVICE void end() {}
};

/// Shared memory of a sender, without some words and without the tables of a large sender.
constexpr uint32_t sender_bytes = 40 * 1024;
/// Number of service blocks for which a sender gathers calls: 64 calls of `bytes` bytes for each, in `room` bytes.
constexpr uint32_t gathered_blocks(uint64_t bytes, uint64_t room = sender_bytes) {
  const uint64_t fit = room / (64 * bytes);
  if (fit > 32) return 32;
  return fit < 1 ? 1 : static_cast<uint32_t>(fit);
}

/// Bytes of the bins for calls to up to three peers, for calls of any size. With one peer, half of a bin is a chunk.
constexpr uint32_t far_call_bytes = 12 * 1024;
/// Bins for calls to peers, where the calls run when they arrive. They leave in whole chunks. FAR: are there such bins?
/// Their messages lie in memory of the sender, or in memory of bins of this PE's service blocks, which are fewer then.
template <class Service, bool FAR>
class far_calls {
 public:
  /// Empties the bins. `in_place`: sections may run in place. Thread scope: one lane; the block synchronizes
  /// afterwards.
  GRAVEL_DEVICE void begin(const gravel_t& g, unit* memory, bool in_place) {
    bins_.begin(g, in_place ? far_call_bytes / sizeof(unit) : 0);
    memory_ = memory;
    ticket_ = 0;
    sent_ = judged_ = 0;
    contended_ = 1;
  }
  /// Decides whether this block gathers calls for peers. It does not if keys are contended: many calls would arrive at
  /// once for a key that is taken, and would fill the rings of the service blocks there. The keys of this PE show the
  /// contention, since each PE has as many: `failed` of the group's calls found such a key taken. Keys count as
  /// contended until enough calls are known: otherwise a block with few calls would have sent all of them by then.
  /// Thread scope: the leader of a group.
  GRAVEL_DEVICE void judge(const gravel_t& g, uint32_t calls, uint32_t failed) {
    const uint32_t more = failed << 16 | calls, both = block_add_relaxed(&judged_, more) + more, all = both & 0xffff;
    if (all < sample) return;
    store_relaxed<scope::shared>(&contended_, static_cast<uint32_t>((both >> 16) * few * g.n_pes >= all));
    store_relaxed<scope::shared>(&judged_, 0u);
  }
  GRAVEL_DEVICE bool is_used() const { return bins_.in_use != 0; }
  /// The route of calls to `pe`: its bin, if calls are gathered.
  GRAVEL_DEVICE peer_route route_to(uint32_t pe) {
    const peer_route route = bins_.route_to(pe);
    return load_relaxed<scope::shared>(&contended_) == 0 && route.is_bin() && bins_.take(message::kind)
               ? route
               : peer_route::other();
  }
  /// Adds a call to the bin of its route. A lane without a call has another route. Thread scope: lanes that are
  /// together.
  GRAVEL_DEVICE void add(const gravel_t& g, peer_route route, uint32_t block, const typename Service::message& call) {
    message m;
    m.fill(block, call);
    bins_.template add<message::kind>(g, memory_, route, m.data, &sent_);
  }
  /// Sends what is in the bins. Thread scope: block, converged.
  GRAVEL_DEVICE void end(const gravel_t& g, uint32_t rank, uint32_t size) {
    bins_.finish(g, memory_, &ticket_, rank, size, &sent_);
    __syncthreads();
    if (rank != 0 || sent_ == 0) return;
    fetch_add<scope::device>(&g.counters->here().to_peers, uint64_t{sent_});
    ring_doorbells(g);
    sent_ = 0;
  }

 private:
  using message = am_message<gravel_service_delivery<Service>>;
  static_assert(message::is_compact);
  peer_bins bins_;
  unit* memory_;
  uint64_t ticket_;
  static constexpr uint32_t sample = GRAVEL_CUDA ? 256 : 32,
                            few = 8;  ///< number of calls that are judged together; one in `few` for own keys may fail
  uint32_t sent_, contended_;
  uint32_t judged_;  ///< low 16 bits: calls; high 16 bits: how many of them failed
};
template <class Service>
class far_calls<Service, false> {
 public:
  GRAVEL_DEVICE void begin(const gravel_t&, unit*, bool) {}
  GRAVEL_DEVICE static peer_route route_to(uint32_t) { return peer_route::other(); }
  GRAVEL_DEVICE void add(const gravel_t&, peer_route, uint32_t, const typename Service::message&) {}
  GRAVEL_DEVICE void end(const gravel_t&, uint32_t, uint32_t) {}
};

/// Number of service blocks for which a sender of these sections gathers calls, if it uses `less` bytes for other
/// things.
template <class Record, class... Sections>
constexpr uint32_t blocks_with(uint64_t less) {
  return gathered_blocks(sizeof(typename call_layout<Record, Sections...>::message), sender_bytes - less);
}

/// Bytes of a combining sender's tables, for all sections together; its bins have as much less. 12 KiB if the bins then
/// still gather for 16 service blocks, else 6 KiB.
template <class Record, class... Sections>
constexpr uint32_t call_table_bytes = blocks_with<Record, Sections...>(12 * 1024) >= 16 ? 12 * 1024 : 6 * 1024;

/// Number of places of a combining sender's tables.
template <class Record, class... Sections>
constexpr uint32_t usual_places = places_in<Record, Sections...>(call_table_bytes<Record, Sections...>);

/// All senders. BLOCKS: number of service blocks of this PE for which calls are gathered; with nested sections calls
/// leave one by one. PLACES: number of keys in the table of each section that has `combine` (call_table.cuh); 0: only
/// calls of a warp are combined.
template <uint32_t BLOCKS, uint32_t PLACES, class Record, class... Sections>
struct critical_sender {
  using handle_type = gravel_critical_handle<Record, Sections...>;
  using layout = call_layout<Record, Sections...>;
  static constexpr uint32_t blocks = BLOCKS;
  /// Number of service blocks for which calls are gathered if this PE has peers: bins for peers may take memory of
  /// others.
  static constexpr uint32_t blocks_beside_peers() {
    if constexpr (gathers_far) return BLOCKS - spare;
    else return BLOCKS;
  }
  static constexpr uint32_t shared_bytes = 0;  ///< bytes of dynamic shared memory, for gravel_launch_config

  /// Begins to gather. Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const handle_type& to) {
    to.check_open("gravel_critical_sender");
    if (!enter_block(to.service.g, team_call::critical_sender_begin)) return;
    __syncthreads();
    if (rank() == 0) {
      if (has_begun_ == yes) report_error(to.service.g, message_fault::sender_begun, op::am, to.table.my_pe, 0, 0);
      has_begun_ = yes;
      to_ = to;
      far_.begin(to.service.g, far_memory(), to.table.in_place);
    }
    (begin_table<Sections>(), ...);
    bins_.begin(to.service, 0, gathers_far && to.service.g.n_peers > 0 ? spare : 0);
    __syncthreads();
  }
  /// Calls like gravel_critical_call. Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE void call(P... p) {
    check_begun("gravel_critical_sender::call");
    section_call<S, Record, Sections...> c;
    if (c.write(to_, p...)) pass(c);
  }
  /// Asks like gravel_critical_ask. A kernel must not wait for the answer before end(): the call may still be in a bin.
  /// Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE gravel_critical_answer<typename section_traits<Record, S>::result> ask(
      typename section_traits<Record, S>::result* slot, P... p) {
    check_begun("gravel_critical_sender::ask");
    section_call<S, Record, Sections...> c;
    c.answer.here = c.write(to_, p...) && c.ask(to_.service.g, slot) && pass(c);
    return c.answer;
  }
  /// Sends what is left. begin() may follow. Thread scope: block, converged.
  GRAVEL_DEVICE void end() {
    if (!enter_block(to_.service.g, team_call::critical_sender_end)) return;
    __syncthreads();
    if constexpr (PLACES > 0) (empty_table<Sections>(), ...);
    bins_.end();
    far_.end(to_.service.g, rank(), size());
    if (rank() == 0) has_begun_ = 0;
    __syncthreads();
  }

 private:
  template <class S>
  static constexpr bool has_table = PLACES > 0 && section_traits<Record, S>::combines;
  /// Value of has_begun_. Shared memory is not initialized, so it is a number that is unlikely to be there.
  static constexpr uint32_t yes = 0x5e7de201;
  /// Checks that the sender is between begin() and end(). Only on the CPU backend, like check_open().
  GRAVEL_DEVICE void check_begun([[maybe_unused]] const char* call) {
#if !GRAVEL_ON_GPU
    if (has_begun_ != yes)
      fail_text(std::string(call) + " was called before begin() of the sender, or after its end()");
    to_.check_open(call);
#endif
  }
  GRAVEL_DEVICE static uint32_t rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  GRAVEL_DEVICE static uint32_t size() { return blockDim.x * blockDim.y * blockDim.z; }
  GRAVEL_DEVICE static uint32_t block_number() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  template <class S>
  GRAVEL_DEVICE void begin_table() {
    if constexpr (has_table<S>) tables_.template of<S>().begin(rank(), size(), block_number() * 0x85ebca6bu);
  }
  template <class S>
  GRAVEL_DEVICE void empty_table() {
    if constexpr (has_table<S>)
      tables_.template of<S>().empty(rank(), size(), [&](uint32_t key, const auto& value) {
        section_call<S, Record, Sections...> c;
        if (c.write(to_, key, value)) make(lane_group::active(), true, c);
      });
  }

  /// Combines the lanes' calls, and makes those that are left. True: the lane's call has run here.
  template <class S>
  GRAVEL_DEVICE bool pass(section_call<S, Record, Sections...>& c) {
    using traits = section_traits<Record, S>;
    const lane_group group = lane_group::active();
    bool calls = true;
    if constexpr (traits::combines) {  // lanes that call together combine their calls of one key
      using argument = typename first_type<typename traits::arguments>::type;
      auto value = read_words<argument>(c.m.word + layout::at_arguments);
      calls = combine_equal<S>(group.mask(), group.lane(), c.keys[0], value) != 0;
      if constexpr (has_table<S>)
        if (tables_.template of<S>().keep(group, calls, c.keys[0], value)) calls = false;
      write_words(c.m.word + layout::at_arguments, value);
    }
    return make(group, calls, c);
  }
  /// Runs or sends the calls of those lanes of `group` that have one. True: the lane's call has run here.
  template <class S>
  GRAVEL_DEVICE bool make(const lane_group& group, bool calls, section_call<S, Record, Sections...>& c) {
    if constexpr (gathers_far)
      if (far_.is_used()) {
        auto sent = c;  // a copy: what is passed by address lies in memory, and c would for all calls
        const bool ran = make_beside_peers(group, calls, sent);
        c.answer = sent.answer;
        return ran;
      }
    bool ran = false;
    if (calls) ran = c.run_in_place(to_);
    if (calls && !ran && c.may_run_at_peer(to_)) {
      auto there = c;
      ran = there.run_at_peer(to_);
      c.answer = there.answer;
    }
    group.sync();  // calls that did not run leave together: calls for other PEs share a chunk
    if (calls && !ran) {
      auto sent = c;
      gather(sent);
    }
    // Lanes that have called together continue together: their next calls may be combined, and leave together.
    group.sync();
    return ran;
  }
  /// Like make(), if calls for peers are gathered. Not inlined: a PE without peers does not pay for its registers.
  template <class S>
  __device__ GRAVEL_NOINLINE bool make_beside_peers(const lane_group group, bool calls,
                                                    section_call<S, Record, Sections...>& c) {
    const uint32_t pe = to_.table.pe_of(c.keys[0]);
    bool ran = false;
    if (calls) ran = c.run_in_place(to_);
    const uint32_t all = group.ballot(calls), failed = group.ballot(calls && !ran && pe == to_.table.my_pe);
    if (group.is_leader()) far_.judge(to_.service.g, lane_group::popcount(all), lane_group::popcount(failed));
    const peer_route route = calls && !ran ? far_.route_to(pe) : peer_route::other();
    const bool is_far = route.is_bin();
    if (calls && !ran && !is_far && c.may_run_at_peer(to_)) ran = c.run_at_peer(to_);
    group.sync();                                    // like make()
    if (group.ballot(is_far)) gather_far(c, route);  // lanes without such a call take part: whole warps are faster
    if (calls && !ran && !is_far) gather(c);
    group.sync();
    return ran;
  }
  /// Sends a call, or puts it into a bin. Not inlined: its callers mostly run sections, with half of its registers.
  template <class S>
  __device__ GRAVEL_NOINLINE void gather(section_call<S, Record, Sections...>& c) {
    if constexpr (layout::nested) {
      c.send(to_);
    } else {
      c.address(to_);
      bins_.send(static_cast<int>(to_.table.pe_of(c.keys[0])), to_.table.block_of(to_.table.number_of(c.keys[0])), c.m);
    }
  }

  /// Puts a call into the bin of a peer.
  template <class S>
  __device__ GRAVEL_NOINLINE void gather_far(section_call<S, Record, Sections...>& c, peer_route route) {
    c.address(to_);
    far_.add(to_.service.g, route, to_.table.block_of(to_.table.number_of(c.keys[0])), c.m);
  }

  using service_type = key_service<Record, Sections...>;
  using bins_type = call_bins<service_type, BLOCKS, !layout::nested>;
  /// Is there room for calls to peers besides bins and tables?
  static constexpr bool has_room =
      BLOCKS * bins_type::bytes_of_block + far_call_bytes <=
      sender_bytes -
          (PLACES > 0 && PLACES <= usual_places<Record, Sections...> ? call_table_bytes<Record, Sections...> : 0);
  /// If not: the number of service blocks whose bins they use.
  static constexpr uint32_t spare = [] {
    if constexpr (layout::nested || has_room) return 0u;
    else return (far_call_bytes + bins_type::bytes_of_block - 1) / bins_type::bytes_of_block;
  }();
  static constexpr bool gathers_far =
      !layout::nested && am_message<gravel_service_delivery<service_type>>::is_compact && spare < BLOCKS;
  GRAVEL_DEVICE unit* far_memory() {
    if constexpr (gathers_far && has_room) return far_memory_;
    else if constexpr (gathers_far) return bins_.spare_memory(spare);
    else return nullptr;
  }

  uint32_t has_begun_;
  handle_type to_;
  far_calls<service_type, gathers_far> far_;
  bins_type bins_;
  unit far_memory_[gathers_far && has_room ? far_call_bytes / sizeof(unit) : 1];
  call_tables<PLACES, Record, Sections...> tables_;
};

/// Bytes of a large sender's tables: shared memory that is left besides bins of 40 KiB and a large cache.
constexpr uint32_t large_table_bytes = 96 * 1024;

template <uint32_t PLACES, class Record, class... Sections>
using sender_with =
    critical_sender<blocks_with<Record, Sections...>(PLACES > 0 ? call_table_bytes<Record, Sections...> : 0), PLACES,
                    Record, Sections...>;
template <class Record, class... Sections>
using large_sender_with = critical_sender<blocks_with<Record, Sections...>(0),
                                          places_in<Record, Sections...>(large_table_bytes), Record, Sections...>;

}  // namespace gravel::detail

/// Gathers a block's calls to the service blocks of its PE. It lies in shared memory: 256 bytes for each word of a call
/// and each service block, 40 KiB at most. So it gathers for 32 service blocks if a call has up to 20 bytes, and for
/// fewer if calls are larger (`blocks`). Calls to other service blocks leave one by one.
template <class Record, class... Sections>
using gravel_critical_sender = gravel::detail::sender_with<0, Record, Sections...>;

/// A sender that combines all calls of one key that the block makes between begin() and end(), for sections with
/// `combine`. Its table of keys takes 6 KiB of shared memory, or 12 KiB if calls are short; its bins have as much less.
/// A result of combine() may stand for all calls of a block, so its type must hold that. Sections that are nested or
/// answer do not combine: their calls go like those of a gravel_critical_sender.
template <class Record, class... Sections>
using gravel_critical_combining_sender =
    gravel::detail::sender_with<gravel::detail::usual_places<Record, Sections...>, Record, Sections...>;

/// A combining sender for a block that has a multiprocessor for itself. It lies in dynamic shared memory, with tables
/// of 96 KiB besides bins of 40 KiB. So all lanes of a multiprocessor share one table, and a key of a few calls in ten
/// thousand stays in it.
/// @scope block, converged
/// @completion after end(): gravel_wait_quiescent
/// @errors a block that has too little shared memory: the job ends with a message
/// @source synchronization servers (ASPLOS 2019)
template <class Record, class... Sections>
struct gravel_critical_large_sender : gravel::detail::large_sender_with<Record, Sections...> {
  using base = gravel::detail::large_sender_with<Record, Sections...>;
  static constexpr uint32_t shared_bytes = sizeof(base);
  static_assert(shared_bytes <= 227 * 1024,
                "this gravel_critical_large_sender does not fit the 227 KiB of shared memory of a block");
  /// The sender in the block's dynamic shared memory. The kernel must be launched with at least `offset` + shared_bytes
  /// of it: otherwise begin() reports an error and ends the block.
  /// @param offset bytes from the beginning of the dynamic shared memory, a multiple of 16
  /// @scope lane
  GRAVEL_DEVICE static gravel_critical_large_sender& dynamic(uint32_t offset = 0) {
    return *reinterpret_cast<gravel_critical_large_sender*>(gravel_dynamic_shared() + offset);
  }

  /// Begins to gather.
  /// @param to from gravel_critical_sections::handle()
  GRAVEL_DEVICE void begin(const typename base::handle_type& to) {
    const auto end = static_cast<uint64_t>(reinterpret_cast<char*>(this + 1) - gravel_dynamic_shared());
    if (end > gravel_dynamic_shared_bytes())
      gravel::detail::leave_without_memory(to.service.g, static_cast<uint32_t>(end));
    base::begin(to);
  }
};

/// The block's sender of type Sender, for kernels that work with any sender. The large one lies in dynamic shared
/// memory, the others in static shared memory.
/// @return the sender
/// @scope lane
/// @completion on return
/// @errors none
/// @source Gravel
template <class Sender>
GRAVEL_DEVICE Sender& gravel_sender_of_block() {
  if constexpr (Sender::shared_bytes > 0) {
    return Sender::dynamic();
  } else {
    __shared__ Sender out;
    return out;
  }
}
