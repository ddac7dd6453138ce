// Senders: a block's calls, gathered on their way to service blocks. How kernels use them is said in call.cuh.
//
// A call that does not run where it is made waits in shared memory until others have the same way: in a bin for each
// service block of the own PE (gravel_service_sender), or, if it is for a peer, in one for each peer (peer_bins). Calls of one
// key become one before that: those of a warp, and with a table those of the block.
#pragma once
#include "device/block_add.hpp"
#include "device/block_sender.cuh"
#include "device/peer_bins.cuh"
#include "device/service_sender.cuh"
#include "lib/critical/call.cuh"
#include "lib/critical/call_table.cuh"

namespace gravel::detail {

/// Bins, where there are any.
template <class Service, uint32_t BLOCKS, bool GATHERS>
struct call_bins : gravel_service_sender<Service, BLOCKS> {};
template <class Service, uint32_t BLOCKS>
struct call_bins<Service, BLOCKS, false> {
  static constexpr uint32_t bytes_of_block = 0;
  GRAVEL_DEVICE void begin(const gravel_service_handle<Service>&, uint32_t, uint32_t) {}
  GRAVEL_DEVICE void end() {}
};

/// Shared memory of a sender, but for some words and, of a large one, its tables.
constexpr uint32_t sender_bytes = 40 * 1024;
/// Of how many service blocks a sender gathers calls of so many bytes: 64 for each service block, in `room` bytes.
constexpr uint32_t gathered_servers(uint64_t bytes, uint64_t room = sender_bytes) {
  const uint64_t fit = room / (64 * bytes);
  return fit > 32 ? 32 : fit < 1 ? 1 : static_cast<uint32_t>(fit);
}

/// Of the bins for calls to service blocks of up to three peers, of calls of any size; with one peer, half of a bin is a
/// chunk.
constexpr uint32_t far_call_bytes = 12 * 1024;
/// Bins for calls that go to service blocks of peers, where they run when they arrive: what the block calls there leaves in
/// whole chunks. FAR: are there any? The messages lie in memory that the sender has for them, or that bins of the own
/// service blocks lend.
template <class Service, bool FAR>
class far_calls {
 public:
  /// `in_place`: sections run where their records lie, if nobody is there. Thread scope: one lane; the block
  /// synchronizes behind it.
  GRAVEL_DEVICE void begin(const gravel_t& g, unit* memory, bool in_place) {
    bins_.begin(g, in_place ? far_call_bytes / sizeof(unit) : 0);
    memory_ = memory;
    ticket_ = 0;
    sent_ = judged_ = 0;
    contended_ = 1;
  }
  /// Who calls for keys that many want does not gather: what arrives in heaps for a key that is taken is the service blocks'
  /// there, whose rings are soon full. The keys of the own PE tell, which are as many as those of each other: `failed`
  /// of the group's calls found theirs taken. Until that is known keys are contended: a block that calls for short
  /// would else have sent all when it knows. Thread scope: the leader of a group.
  GRAVEL_DEVICE void judge(const gravel_t& g, uint32_t calls, uint32_t failed) {
    const uint32_t more = failed << 16 | calls, both = block_add_relaxed(&judged_, more) + more, all = both & 0xffff;
    if (all < sample) return;
    store_relaxed<scope::shared>(&contended_, static_cast<uint32_t>((both >> 16) * few * g.n_pes >= all));
    store_relaxed<scope::shared>(&judged_, 0u);
  }
  GRAVEL_DEVICE bool is_used() const { return bins_.in_use != 0; }
  /// Of calls to `pe`; peer_bins::most and above: none.
  GRAVEL_DEVICE uint32_t bin_of(uint32_t pe) {
    const uint32_t bin = bins_.way_to(pe);
    return load_relaxed<scope::shared>(&contended_) == 0 && bin < peer_bins::most && bins_.take(message::kind)
               ? bin
               : uint32_t{peer_bins::to_self};
  }
  /// `bin`: of a lane that has no call, to_self. Thread scope: lanes that are together.
  GRAVEL_DEVICE void add(const gravel_t& g, uint32_t bin, uint32_t block, const typename Service::message& call) {
    message m;
    m.fill(block, call);
    bins_.template add<message::kind>(g, memory_, bin, m.data, &sent_);
  }
  /// Thread scope: block, converged.
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
                            few = 8;  ///< of calls that are judged together; one of so many for own keys may fail
  uint32_t sent_, contended_;
  uint32_t judged_;  ///< calls, and above 16 bits how many of them failed
};
template <class Service>
class far_calls<Service, false> {
 public:
  GRAVEL_DEVICE void begin(const gravel_t&, unit*, bool) {}
  GRAVEL_DEVICE static uint32_t bin_of(uint32_t) { return peer_bins::to_self; }
  GRAVEL_DEVICE void add(const gravel_t&, uint32_t, uint32_t, const typename Service::message&) {}
  GRAVEL_DEVICE void end(const gravel_t&, uint32_t, uint32_t) {}
};

/// Of how many service blocks a sender of these sections gathers calls if it has `less` bytes for other things.
template <class Record, class... Sections>
constexpr uint32_t sections_with(uint64_t less) {
  return gathered_servers(sizeof(typename call_layout<Record, Sections...>::message), sender_bytes - less);
}

/// Shared memory of a combining sender's tables, of all sections together; its bins have so much less. Twice as much
/// where bins of the rest still gather for half of the service blocks that there may be.
template <class Record, class... Sections>
constexpr uint32_t call_table_bytes = sections_with<Record, Sections...>(12 * 1024) >= 16 ? 12 * 1024 : 6 * 1024;

/// Places of a combining sender's tables.
template <class Record, class... Sections>
constexpr uint32_t usual_places = places_in<Record, Sections...>(call_table_bytes<Record, Sections...>);

/// gravel_critical_sender. BLOCKS: of how many service blocks of the own PE calls are gathered; of those with nested sections
/// calls leave one by one. PLACES: keys for which calls of the block become one (lib/critical/call_table.cuh), of each
/// section that has `combine`; 0: those of a warp alone do.
template <uint32_t BLOCKS, uint32_t PLACES, class Record, class... Sections>
struct critical_sender {
  using handle_type = gravel_critical_handle<Record, Sections...>;
  using layout = call_layout<Record, Sections...>;
  static constexpr uint32_t blocks = BLOCKS;
  /// The same where this PE has peers: bins for these take memory of the others.
  static constexpr uint32_t blocks_beside_peers() {
    if constexpr (gathers_far) return BLOCKS - spare;
    else return BLOCKS;
  }
  static constexpr uint32_t shared_bytes = 0;  ///< of dynamic shared memory, for gravel_launch_config

  /// Thread scope: block, converged.
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
  /// As gravel_critical_call. Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE void call(P... p) {
    check_begun("gravel_critical_sender::call");
    section_call<S, Record, Sections...> c;
    if (c.write(to_, p...)) pass(c);
  }
  /// As gravel_critical_ask; but who waits for the answer before end() may wait for ever. Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE gravel_critical_answer<typename section_traits<Record, S>::result> ask(
      typename section_traits<Record, S>::result* slot, P... p) {
    check_begun("gravel_critical_sender::ask");
    section_call<S, Record, Sections...> c;
    c.answer.here = c.write(to_, p...) && c.ask(to_.service.g, slot) && pass(c);
    return c.answer;
  }
  /// Hands over what is left. Thread scope: block, converged. begin() may follow.
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
  /// In shared memory, which begins with whatever was there: no number that is likely.
  static constexpr uint32_t yes = 0x5e7de201;
  /// On the CPU backend alone, as gravel::check_open: there each call can be asked whether it may be made.
  GRAVEL_DEVICE void check_begun([[maybe_unused]] const char* call) {
#if !GRAVEL_ON_GPU
    if (has_begun_ != yes)
      fail_text(std::string(call) + " was called before begin() of the sender, or behind its end()");
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

  /// True: it has run here.
  template <class S>
  GRAVEL_DEVICE bool pass(section_call<S, Record, Sections...>& c) {
    using traits = section_traits<Record, S>;
    const lane_group group = lane_group::active();
    bool calls = true;
    if constexpr (traits::combines) {  // one call for those of one key that lanes make together
      using argument = typename first_type<typename traits::arguments>::type;
      auto value = read_words<argument>(c.m.word + layout::at_arguments);
      calls = combine_equal<S>(group.mask(), group.lane(), c.keys[0], value) != 0;
      if constexpr (has_table<S>)
        if (tables_.template of<S>().keep(group, calls, c.keys[0], value)) calls = false;
      write_words(c.m.word + layout::at_arguments, value);
    }
    return make(group, calls, c);
  }
  /// Of the lanes of `group` those that have a call. True: it has run here.
  template <class S>
  GRAVEL_DEVICE bool make(const lane_group& group, bool calls, section_call<S, Record, Sections...>& c) {
    if constexpr (gathers_far)
      if (far_.is_used()) {
        auto sent = c;  // else what is passed by address would be in memory for all that run here, too
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
    group.sync();  // what did not run here leaves together: calls for other PEs share a chunk
    if (calls && !ran) {
      auto sent = c;
      gather(sent);
    }
    group
        .sync();  // lanes that have called together go on together: their next calls may become one, and leave together
    return ran;
  }
  /// The same where calls for peers are gathered. Apart: a PE without peers need not carry what this needs.
  template <class S>
  __device__ GRAVEL_NOINLINE bool make_beside_peers(const lane_group group, bool calls,
                                                    section_call<S, Record, Sections...>& c) {
    const uint32_t pe = to_.table.pe_of(c.keys[0]);
    bool ran = false;
    if (calls) ran = c.run_in_place(to_);
    const uint32_t all = group.ballot(calls), failed = group.ballot(calls && !ran && pe == to_.table.my_pe);
    if (group.is_leader()) far_.judge(to_.service.g, lane_group::popcount(all), lane_group::popcount(failed));
    const uint32_t bin = calls && !ran ? far_.bin_of(pe) : uint32_t{peer_bins::to_self};
    const bool is_far = bin < peer_bins::most;
    if (calls && !ran && !is_far && c.may_run_at_peer(to_)) ran = c.run_at_peer(to_);
    group.sync();                                  // as in make()
    if (group.ballot(is_far)) gather_far(c, bin);  // lanes without such a call come along: whole warps are quicker
    if (calls && !ran && !is_far) gather(c);
    group.sync();
    return ran;
  }
  /// No part of its callers, whose lanes mostly run their sections: they need half of its registers.
  template <class S>
  __device__ GRAVEL_NOINLINE void gather(section_call<S, Record, Sections...>& c) {
    if constexpr (layout::nested) {
      c.send(to_);
    } else {
      c.address(to_);
      bins_.send(static_cast<int>(to_.table.pe_of(c.keys[0])), to_.table.block_of(to_.table.number_of(c.keys[0])), c.m);
    }
  }

  template <class S>
  __device__ GRAVEL_NOINLINE void gather_far(section_call<S, Record, Sections...>& c, uint32_t bin) {
    c.address(to_);
    far_.add(to_.service.g, bin, to_.table.block_of(to_.table.number_of(c.keys[0])), c.m);
  }

  using service_type = key_service<Record, Sections...>;
  using bins_type = call_bins<service_type, BLOCKS, !layout::nested>;
  /// Of calls for peers: have they memory beside bins and tables? Else of how many service blocks the bins lend theirs.
  static constexpr bool has_room =
      BLOCKS * bins_type::bytes_of_block + far_call_bytes <=
      sender_bytes -
          (PLACES > 0 && PLACES <= usual_places<Record, Sections...> ? call_table_bytes<Record, Sections...> : 0);
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

/// Of a large sender: as many places as there is shared memory for beside bins of 40 KiB, and a large cache.
constexpr uint32_t large_table_bytes = 96 * 1024;

template <uint32_t PLACES, class Record, class... Sections>
using sender_with =
    critical_sender<sections_with<Record, Sections...>(PLACES > 0 ? call_table_bytes<Record, Sections...> : 0), PLACES,
                    Record, Sections...>;
template <class Record, class... Sections>
using large_sender_with = critical_sender<sections_with<Record, Sections...>(0),
                                          places_in<Record, Sections...>(large_table_bytes), Record, Sections...>;

}  // namespace gravel::detail

/// Gathers a block's calls to the service blocks of its PE. In shared memory: 256 bytes for each word of a call and service block, 40
/// KiB at most; so for 32 service blocks if a call has up to 20 bytes, and for fewer of larger ones (`blocks`). If there are
/// more, calls leave one by one.
template <class Record, class... Sections>
using gravel_critical_sender = gravel::detail::sender_with<0, Record, Sections...>;

/// The same for sections with `combine`: calls of one key that the block makes between begin() and end() become few, by
/// a table of keys in 6 KiB of shared memory, 12 if calls are short; bins have so much less. What combine() returns may
/// then stand for all calls of a block, and has to hold them. Sections that nest or answer do not combine: their calls
/// go as a gravel_critical_sender's do.
template <class Record, class... Sections>
using gravel_critical_combining_sender =
    gravel::detail::sender_with<gravel::detail::usual_places<Record, Sections...>, Record, Sections...>;

/// The same for a block that has a multiprocessor for itself, in its dynamic shared memory: with tables of 96 KiB,
/// beside bins of 40. So all lanes of a multiprocessor have one table, and a key that is called for a few times in ten
/// thousand stays in it.
/// @scope block, converged
/// @completion after end(): gravel_wait_quiescent
/// @errors a block that has too little shared memory: the job ends with a message
/// @source synchronization service blocks (ASPLOS 2019)
template <class Record, class... Sections>
struct gravel_critical_large_sender : gravel::detail::large_sender_with<Record, Sections...> {
  using base = gravel::detail::large_sender_with<Record, Sections...>;
  static constexpr uint32_t shared_bytes = sizeof(base);
  static_assert(shared_bytes <= 227 * 1024,
                "this gravel_critical_large_sender does not fit the 227 KiB of shared memory of a block");
  /// The sender in the block's dynamic shared memory: launch the kernel with shared_bytes more than `offset`. begin()
  /// reports a block that has less, and ends it.
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

/// A sender of any kind, for kernels that are written for all: the large one is dynamic, the others are in static
/// shared memory.
/// @return the block's
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
