// Calls: how kernels have critical sections run.
//
//   gravel_server_call<deposit>(bank, key, amount);             // one by one
//   gravel_server_ask<withdraw>(bank, slot, key, amount);       // the answer goes to *slot, symmetric memory of the caller
//
//   __shared__ gravel_server_sender<account, deposit> out;      // gathers for servers of the own PE
//   out.begin(bank);                                            // all threads of the block
//   ... out.call<deposit>(key, amount);                         // divergent: any lanes, any number of times
//   out.end();                                                  // all threads of the block
//
// A call whose keys are all of the own PE may run where it is made (`in place`): the caller takes the words beside the records, runs the section,
// and gives them back; if one is taken, it gives back those it has, and sends the call. So a key for which many call at once soon belongs to its
// server, and the others to nobody.
#pragma once
#include "device/block_sender.cuh"
#include "device/service_sender.cuh"
#include "lib/server/call_table.cuh"
#include "lib/server/server.cuh"

/// What kernels need to call: plain data, from gravel_servers::handle().
template <class Record, class... Sections>
struct gravel_server_handle {
  using server = gravel::key_server<Record, Sections...>;
  gravel_service_handle<server> service;
  gravel::server_table<typename server::layout> table;
  static constexpr const char* what = "the servers of";
  GRAVEL_DEVICE void check_open(const char* call) const { gravel::check_open(service.g, service.opening, call, what, server::name); }

  /// The record of a key of this PE, for kernels that run while nobody calls; nullptr: another PE's. Thread scope: lane.
  GRAVEL_DEVICE Record* record(uint32_t key) const {
    check_open("record()");
    return key < table.keys && table.pe_of(key) == table.my_pe ? &table.slots[table.number_of(key)].record : nullptr;
  }
};

/// What has become of a section that was asked for. True: it has run here, and its answer, which lies in the slot as well, is `value`.
template <class T>
struct gravel_server_answer {
  bool here = false;
  T value{};
  GRAVEL_BOTH operator bool() const { return here; }
};
template <>
struct gravel_server_answer<void> {
  bool here = false;
  GRAVEL_BOTH operator bool() const { return here; }
};

namespace gravel {

/// A call of section S, as it is written down.
template <class S, class Record, class... Sections>
struct section_call {
  using handle_type = gravel_server_handle<Record, Sections...>;
  using layout = call_layout<Record, Sections...>;
  static constexpr uint32_t kind = layout::template kind_of<S>();
  static_assert(kind < layout::sections, "these servers do not have this section");
  using traits = section_traits<Record, std::conditional_t<(kind < layout::sections), S, typename first_type<Sections...>::type>>;
  static constexpr uint32_t n = traits::keys;
  uint32_t keys[n];
  typename layout::message m;
  gravel_server_answer<typename traits::result> answer{};

  /// `p`: keys, then arguments. False: a key is none.
  template <class... P>
  GRAVEL_DEVICE bool write([[maybe_unused]] const handle_type& to, [[maybe_unused]] P... p) {
    static_assert(kind == layout::sections || sizeof...(P) == n + traits::arguments::count,
                  "the section takes another number of keys or arguments");
    if constexpr (sizeof...(P) == n + traits::arguments::count) {
      for (uint32_t i = 0; i < layout::words; ++i) m.word[i] = 0;
      return split<0>(to, p...);
    } else {
      return false;
    }
  }
  /// False: `slot` is not in this PE's heap, or misaligned.
  GRAVEL_DEVICE bool ask([[maybe_unused]] const gravel_t& g, [[maybe_unused]] const typename traits::result* slot) {
    static_assert(traits::answers, "this section answers nothing");
    if constexpr (traits::answers) {
      const auto offset = static_cast<uint64_t>(reinterpret_cast<const char*>(slot) - g.heap);
      if (!lies_in_heap(offset, sizeof(*slot), g.heap_bytes) || offset % sizeof(*slot) != 0) {
        report_error(g, message_fault::bad_slot, op::am, g.my_pe, offset, sizeof(*slot));
        return false;
      }
      const uint64_t where = uint64_t{g.my_pe} << 40 | (offset + 1);
      m.word[layout::at_slot] = static_cast<uint32_t>(where);
      m.word[layout::at_slot + 1] = static_cast<uint32_t>(where >> 32);
    }
    return true;
  }
  GRAVEL_DEVICE uint32_t first_key() const {
    uint32_t low = keys[0];
    for (uint32_t i = 1; i < n; ++i) low = keys[i] < low ? keys[i] : low;
    return low;
  }
  GRAVEL_DEVICE void address(const handle_type& to) { m.word[0] = to.table.number_of(first_key()) << layout::bits | kind; }

  /// Runs the section here if its keys are free and of this PE. Thread scope: lane. It waits for nothing while it has a key; and it runs, and gives them
  /// back, in the round in which it took them: its neighbours in the warp may try for the same, or for others that are taken.
  ///
  /// What another client has will be free soon. Of several keys it is cheaper to wait for any than to have the call go from server to server: a key that
  /// is held meanwhile makes others be held.
  GRAVEL_DEVICE bool run_in_place(const handle_type& to) {
    const auto& table = to.table;
    if (!table.in_place) return false;
    for (uint32_t i = 0; i < n; ++i)
      if (table.pe_of(keys[i]) != table.my_pe) return false;
    if constexpr (n == 1) return tell(to, run_on_slot<scope::device>(table.slots + table.number_of(keys[0])));
    else if constexpr (table_type::in_words) return tell(to, run_soon([&] { return run_on_words<false>(to); }));
    else return tell(to, run_soon([&] { return run_by_locks(to); }));
  }
  /// The same where a key is another PE's, whose memory is mapped here: of a section that touches nothing but its records. Is there such a way?
  GRAVEL_DEVICE bool may_run_at_peer([[maybe_unused]] const handle_type& to) const {
    if constexpr (runs_at_peers) {
      if (!to.table.in_place || !to.service.g.peers) return false;
      for (uint32_t i = 0; i < n; ++i)
        if (to.table.pe_of(keys[i]) != to.table.my_pe) return true;
    }
    return false;
  }
  __device__ GRAVEL_NOINLINE bool run_at_peer([[maybe_unused]] const handle_type& to) {
    if constexpr (runs_at_peers) {
      for (uint32_t i = 0; i < n; ++i)
        if (!to.table.slot_anywhere(to.service.g, keys[i])) return false;
      if constexpr (n == 1) return tell(to, run_on_slot<scope::system>(to.table.slot_anywhere(to.service.g, keys[0])));
      else return tell(to, run_soon([&] { return run_on_words<true>(to); }));
    }
    return false;
  }
  /// Reserves room for the call at all PEs [K2]. Thread scope: lane, divergent.
  GRAVEL_DEVICE void reserve(const handle_type& to) {
    const auto& rooms = to.table.rooms;
    const lane_group group = lane_group::active();
    uint64_t ticket = 0;
    if (group.is_leader()) ticket = fetch_add<scope::device>(rooms.tickets, uint64_t{group.size()});
    ticket = group.from_leader(ticket) + group.rank();
    const uint32_t place = static_cast<uint32_t>(ticket & (rooms.calls - 1)), round = static_cast<uint32_t>(ticket / rooms.calls);
    for (relax wait; load_acquire<scope::device>(&rooms.done[place]) != round; wait()) {  // [K2]
    }
    m.word[layout::at_ticket] = to.table.my_pe * rooms.calls + place;
    for (uint32_t i = 0; i < n; ++i) m.word[layout::at_keys + i] = keys[i];
  }
  /// Thread scope: lane, divergent.
  GRAVEL_DEVICE void send(const handle_type& to) {
    if constexpr (layout::nested) reserve(to);
    address(to);
    const uint32_t low = first_key();
    gravel_service_send(to.service, static_cast<int>(to.table.pe_of(low)), to.table.server_of(to.table.number_of(low)), m);
  }

 private:
  using table_type = server_table<layout>;
  /// The answer of a section that has run here goes into the slot when its keys are given back: nobody waits for that.
  GRAVEL_DEVICE bool tell(const handle_type& to, bool ran) const {
    if constexpr (traits::answers)
      if (ran) send_answer<layout>(to.service.g, m.word, answer.value, true);
    return ran;
  }
  static constexpr bool runs_at_peers = traits::pure && (n == 1 || table_type::in_words);
  /// Tries again while others have a key that will soon be free. `once`: runs the section if its keys are free, and returns who had one.
  template <class F>
  GRAVEL_DEVICE static bool run_soon(const F& once) {
    constexpr uint32_t attempts = n > 1 ? 256 : 16;
    bool ran = false, tries = true;
    relax wait;
    GRAVEL_NO_UNROLL
    for (uint32_t attempt = 0; tries; ++attempt) {
      const key_state found = once();
      ran = found == key_state::free;
      tries = !ran && attempt + 1 < attempts && (n > 1 || found == key_state::client);
      if (tries) wait();
    }
    return ran;
  }
  /// Of one key.
  template <scope WHERE>
  GRAVEL_DEVICE bool run_on_slot(typename table_type::slot* slot) {
    if constexpr (table_type::in_words) return run_on_word<WHERE>(reinterpret_cast<slot_word*>(slot));
    else
      return run_soon([&] {
        const key_state found = table_type::template take_slot<WHERE>(slot, key_state::client);
        if (found != key_state::free) return found;
        run(slot->record);
        table_type::template give_slot<WHERE>(slot);
        return key_state::free;
      });
  }
  /// Of several keys: if the locks beside their records are free; they are taken from that of the lowest key on. Who had one, if it was taken: then those
  /// below are given back.
  GRAVEL_DEVICE key_state run_by_locks(const handle_type& to) {
    const auto& table = to.table;
    for (uint32_t key = first_key();;) {
      const uint32_t number = table.number_of(key);
      const key_state found = table.take(number, key_state::client);
      if (found != key_state::free) {
        give_below(table, key);
        return found;
      }
      const uint32_t next = next_key<n>(keys, key);
      if (next == key) break;
      key = next;
    }
    Record values[n];
    for (uint32_t i = 0; i < n; ++i) values[i] = table.slots[table.number_of(keys[i])].record;
    run_on(values);
    for (uint32_t i = 0; i < n; ++i)
      if (same_as(i) == i) table.slots[table.number_of(keys[i])].record = values[i];
    give_below(table, ~uint64_t{0});
    return key_state::free;
  }
  template <class... R>
  GRAVEL_DEVICE void run(R&... records) {
    if constexpr (traits::answers) answer.value = run_section<S, layout>(m.word, records...);
    else run_section<S, layout>(m.word, records...);
  }
  /// `values`: of the keys. Of the same key the first is used.
  GRAVEL_DEVICE void run_on(Record* values) {
    if constexpr (n == 2) {  // no array that is indexed by what is known only when it runs: that would be in memory
      if (keys[0] == keys[1]) run(values[0], values[0]);
      else run(values[0], values[1]);
    } else {
      uint32_t at[n];
      for (uint32_t i = 0; i < n; ++i) at[i] = same_as(i);
      if constexpr (traits::answers) answer.value = run_nested<S, layout>(m.word, values, at, std::make_index_sequence<n>());
      else run_nested<S, layout>(m.word, values, at, std::make_index_sequence<n>());
    }
  }
  template <class Table>
  GRAVEL_DEVICE void give_below(const Table& table, uint64_t end) const {
    for (uint32_t i = 0; i < n; ++i)
      if (keys[i] < end && same_as(i) == i) table.give(table.number_of(keys[i]));
  }
  /// As run_by_locks, where record and lock are one word: all words are read at once, and swapped if they are still so, from that of the lowest key on. Of a
  /// section that only changes records nobody needs to be told in what order its words are written: who takes one has its value. FAR: some may be peers'.
  template <bool FAR>
  GRAVEL_DEVICE key_state run_on_words(const handle_type& to) {
    slot_word* at[n];
    bool far[n];
    slot_word seen[n];
    Record values[n];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) {
      far[i] = FAR && to.table.pe_of(keys[i]) != to.table.my_pe;
      at[i] =
          reinterpret_cast<slot_word*>(FAR ? to.table.slot_anywhere(to.service.g, keys[i]) : to.table.slots + to.table.number_of(keys[i]));
      seen[i] = far[i] ? load_slot<scope::system>(at[i]) : load_slot(at[i]);
    }
    key_state found = key_state::free;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) {
      const auto slot = table_type::slot_of(seen[i]);
      values[i] = slot.record;
      if (found == key_state::free) found = state_in(slot.lock);
    }
    uint32_t taken = 0;  // a bit for each key
    for (uint32_t rank = 0; rank < n && found == key_state::free; ++rank) {
      uint32_t which = n;
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < n; ++i)
        if (same_as(i) == i && rank_of<n>(keys, keys[i]) == rank) which = i;
      if (which == n) break;
      slot_word expected = seen[0], *its = at[0];
      bool is_far = far[0];
      GRAVEL_UNROLL
      for (uint32_t i = 1; i < n; ++i)
        if (which == i) expected = seen[i], its = at[i], is_far = far[i];
      const slot_word mine = table_type::word_of(table_type::slot_of(expected).record, key_state::client);
      const bool has = is_far         ? swap_slot<scope::system>(its, expected, mine)
                       : traits::pure ? swap_slot(its, expected, mine)
                                      : swap_slot_acquire(its, expected, mine);  // [K1]
      if (has) taken |= 1u << which;
      else found = key_state::client;
    }
    if (found == key_state::free) {
      run_on(values);
      if constexpr (!traits::pure) thread_fence<scope::device>();
    }
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) {
      if (!(taken >> i & 1)) continue;
      const slot_word word = table_type::word_of(values[i], key_state::free);
      if (far[i]) store_slot<scope::system>(at[i], word);
      else store_slot(at[i], word);  // [K1]
    }
    return found;
  }
  /// run_in_place where record and lock are one word. What only changes the record is done with a copy, which is then put in its place if nobody has
  /// changed it meanwhile. After some attempts the key is contended.
  template <scope WHERE>
  GRAVEL_DEVICE bool run_on_word(slot_word* at) {
    slot_word seen = load_slot<WHERE>(at);
    for (uint32_t attempt = 0; attempt < 3; ++attempt) {
      auto slot = table_type::slot_of(seen);
      if (state_in(slot.lock) != key_state::free) return false;
      if constexpr (traits::pure && !traits::answers) {
        run(slot.record);
        if (swap_slot<WHERE>(at, seen, table_type::word_of(slot.record, key_state::free))) return true;
      } else if (swap_slot_acquire<WHERE>(at, seen, table_type::word_of(slot.record, key_state::client))) {  // [K1]
        run(slot.record);
        store_slot_release<WHERE>(at, table_type::word_of(slot.record, key_state::free));  // [K1]
        return true;
      }
    }
    return false;
  }
  GRAVEL_DEVICE uint32_t same_as(uint32_t i) const {
    uint32_t first = i;
    for (uint32_t j = i; j-- > 0;)
      if (keys[j] == keys[i]) first = j;
    return first;
  }
  template <uint32_t I, class... P>
  GRAVEL_DEVICE bool split(const handle_type& to, P... p) {
    if constexpr (I == n) {
      traits::write(m.word + layout::at_arguments, typename traits::arguments{}, p...);
      return true;
    } else {
      return split_key<I>(to, p...);
    }
  }
  template <uint32_t I, class K, class... P>
  GRAVEL_DEVICE bool split_key(const handle_type& to, K key, P... p) {
    static_assert(std::is_integral_v<K> || std::is_enum_v<K>, "the keys of a section are whole numbers");
    if constexpr (std::is_integral_v<K> || std::is_enum_v<K>) {
      keys[I] = static_cast<uint32_t>(key);
      // Below zero: larger than any.
      if (const auto whole = static_cast<uint64_t>(key); (sizeof(K) > 4 ? whole : uint64_t{keys[I]}) >= to.table.keys) {
        report_error(to.service.g, message_fault::bad_key, op::am, to.table.my_pe, whole, to.table.keys);
        return false;
      }
      return split<I + 1>(to, p...);
    } else {
      return false;
    }
  }
};

}  // namespace gravel

/// Has section S run with `p`: its keys, then its arguments. Returns when it has run here, or the call is on its way; gravel_wait_quiescent says when
/// it has run. What it answers is dropped. In servers with nested sections it waits while as many calls as the option `calls` says are under way.
/// For kernels of gravel_launch, not for servers and handlers. Thread scope: lane, divergent.
template <class S, class Record, class... Sections, class... P>
GRAVEL_DEVICE void gravel_server_call(const gravel_server_handle<Record, Sections...>& to, P... p) {
  to.check_open("gravel_server_call");
  gravel::section_call<S, Record, Sections...> call;
  if (call.write(to, p...) && !call.run_in_place(to) && !(call.may_run_at_peer(to) && call.run_at_peer(to))) call.send(to);
}

/// The same; what the section returns is put into *slot, symmetric memory of the caller's PE (a put as gravel_put: gravel_wait_until sees it, and it is
/// there after gravel_wait_quiescent). What it returns is true if it has run here: then the answer is there, and in what is returned.
template <class S, class Record, class... Sections, class... P>
GRAVEL_DEVICE gravel_server_answer<typename gravel::section_traits<Record, S>::result> gravel_server_ask(
    const gravel_server_handle<Record, Sections...>& to, typename gravel::section_traits<Record, S>::result* slot, P... p) {
  to.check_open("gravel_server_ask");
  gravel::section_call<S, Record, Sections...> call;
  if (!call.write(to, p...) || !call.ask(to.service.g, slot)) return {};
  call.answer.here = call.run_in_place(to) || (call.may_run_at_peer(to) && call.run_at_peer(to));
  if (!call.answer.here) call.send(to);
  return call.answer;
}

namespace gravel {

/// Bins, where there are any.
template <class Server, uint32_t SERVERS, bool GATHERS>
struct call_bins : gravel_service_sender<Server, SERVERS> {};
template <class Server, uint32_t SERVERS>
struct call_bins<Server, SERVERS, false> {
  GRAVEL_DEVICE void begin(const gravel_service_handle<Server>&) {}
  GRAVEL_DEVICE void end() {}
};

/// Of how many servers a sender gathers calls of so many bytes: 64 for each server, in `room` bytes.
constexpr uint32_t gathered_servers(uint64_t bytes, uint64_t room = 40 * 1024) {
  const uint64_t fit = room / (64 * bytes);
  return fit > 32 ? 32 : fit < 1 ? 1 : static_cast<uint32_t>(fit);
}

/// gravel_server_sender. SERVERS: of how many servers calls are gathered; calls for other PEs, and of servers with nested sections, leave one by one.
/// PLACES: keys for which calls of the block become one (lib/server/call_table.cuh), of each section that has `combine`; 0: those of a warp alone do.
template <uint32_t SERVERS, uint32_t PLACES, class Record, class... Sections>
struct server_sender {
  using handle_type = gravel_server_handle<Record, Sections...>;
  using layout = call_layout<Record, Sections...>;
  static constexpr uint32_t servers = SERVERS;
  static constexpr uint32_t shared_bytes = 0;  ///< of dynamic shared memory, for gravel_launch_config

  /// Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const handle_type& to) {
    to.check_open("gravel_server_sender");
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) to_ = to;
    (begin_table<Sections>(), ...);
    bins_.begin(to.service);
    __syncthreads();
  }
  /// As gravel_server_call. Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE void call(P... p) {
    to_.check_open("gravel_server_sender::call");
    section_call<S, Record, Sections...> c;
    if (c.write(to_, p...)) pass(c);
  }
  /// As gravel_server_ask; but who waits for the answer before end() may wait for ever. Thread scope: lane, divergent.
  template <class S, class... P>
  GRAVEL_DEVICE gravel_server_answer<typename section_traits<Record, S>::result> ask(typename section_traits<Record, S>::result* slot,
                                                                                     P... p) {
    to_.check_open("gravel_server_sender::ask");
    section_call<S, Record, Sections...> c;
    c.answer.here = c.write(to_, p...) && c.ask(to_.service.g, slot) && pass(c);
    return c.answer;
  }
  /// Hands over what is left. Thread scope: block, converged. begin() may follow.
  GRAVEL_DEVICE void end() {
    if constexpr (PLACES > 0) {
      __syncthreads();
      (empty_table<Sections>(), ...);
    }
    bins_.end();
    __syncthreads();
  }

 private:
  template <class S>
  static constexpr bool has_table = PLACES > 0 && section_traits<Record, S>::combines;
  GRAVEL_DEVICE static uint32_t rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  GRAVEL_DEVICE static uint32_t size() { return blockDim.x * blockDim.y * blockDim.z; }
  GRAVEL_DEVICE static uint32_t block_number() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
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
    bool ran = false;
    if (calls) ran = c.run_in_place(to_);
    if (calls && !ran && c.may_run_at_peer(to_)) {
      auto there = c;
      ran = there.run_at_peer(to_);
      c.answer = there.answer;
    }
    group.sync();  // what did not run here leaves together: calls for other PEs share a chunk
    if (calls && !ran) {
      auto sent = c;  // else what is passed by address would be in memory for all that run here, too
      gather(sent);
    }
    group.sync();  // lanes that have called together go on together: their next calls may become one, and leave together
    return ran;
  }
  /// No part of its callers, whose lanes mostly run their sections: they need half of its registers.
  template <class S>
  __device__ GRAVEL_NOINLINE void gather(section_call<S, Record, Sections...>& c) {
    if constexpr (layout::nested) {
      c.send(to_);
    } else {
      c.address(to_);
      bins_.send(static_cast<int>(to_.table.pe_of(c.keys[0])), to_.table.server_of(to_.table.number_of(c.keys[0])), c.m);
    }
  }

  handle_type to_;
  call_bins<key_server<Record, Sections...>, SERVERS, !layout::nested> bins_;
  call_tables<PLACES, Record, Sections...> tables_;
};

/// Shared memory of a combining sender's tables, of all sections together; its bins have so much less. Twice as much where bins of the rest still gather
/// for half of the servers that there may be.
template <class Record, class... Sections>
constexpr uint32_t call_table_bytes = gathered_servers(sizeof(typename call_layout<Record, Sections...>::message), 28 * 1024) >= 16
                                          ? 12 * 1024
                                          : 6 * 1024;

/// Of a large sender: as many places as there is shared memory for beside bins of 40 KiB, and a large cache.
constexpr uint32_t large_table_bytes = 96 * 1024;

template <uint32_t PLACES, class Record, class... Sections>
using sender_with = server_sender<gathered_servers(sizeof(typename call_layout<Record, Sections...>::message),
                                                   40 * 1024 - (PLACES > 0 ? call_table_bytes<Record, Sections...> : 0)),
                                  PLACES, Record, Sections...>;

}  // namespace gravel

/// Gathers a block's calls to the servers of its PE. In shared memory: 256 bytes for each word of a call and server, 40 KiB at most; so for 32 servers
/// if a call has up to 20 bytes, and for fewer of larger ones (`servers`). If there are more, calls leave one by one.
template <class Record, class... Sections>
using gravel_server_sender = gravel::sender_with<0, Record, Sections...>;

/// The same for sections with `combine`: calls of one key that the block makes between begin() and end() become few, by a table of keys in 6 KiB of
/// shared memory, 12 if calls are short; bins have so much less. What combine() returns may then stand for all calls of a block, and has to hold them. Sections that
/// nest or answer do not combine: their calls go as a gravel_server_sender's do.
template <class Record, class... Sections>
using gravel_server_combining_sender =
    gravel::sender_with<gravel::places_in<Record, Sections...>(gravel::call_table_bytes<Record, Sections...>), Record, Sections...>;

/// The same for a block that has a multiprocessor for itself, in its dynamic shared memory: with tables of 96 KiB, beside bins of 40. So all lanes of a
/// multiprocessor have one table, and a key that is called for a few times in ten thousand stays in it.
template <class Record, class... Sections>
struct gravel_server_large_sender
    : gravel::server_sender<gravel::gathered_servers(sizeof(typename gravel::call_layout<Record, Sections...>::message)),
                            gravel::places_in<Record, Sections...>(gravel::large_table_bytes), Record, Sections...> {
  using base = gravel::server_sender<gravel::gathered_servers(sizeof(typename gravel::call_layout<Record, Sections...>::message)),
                                     gravel::places_in<Record, Sections...>(gravel::large_table_bytes), Record, Sections...>;
  static constexpr uint32_t shared_bytes = sizeof(base);
  static_assert(shared_bytes <= 227 * 1024, "this gravel_server_large_sender does not fit the 227 KiB of shared memory of a block");
  /// The sender in the block's dynamic shared memory, `offset` bytes (a multiple of 16) behind its beginning: launch the kernel with so many bytes more
  /// than `shared_bytes`. begin() reports a block that has less, and ends it. Thread scope: lane.
  GRAVEL_DEVICE static gravel_server_large_sender& dynamic(uint32_t offset = 0) {
    return *reinterpret_cast<gravel_server_large_sender*>(gravel_dynamic_shared() + offset);
  }

  /// Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const typename base::handle_type& to) {
    const auto end = static_cast<uint64_t>(reinterpret_cast<char*>(this + 1) - gravel_dynamic_shared());
    if (end > gravel_dynamic_shared_bytes()) gravel::leave_without_memory(to.service.g, static_cast<uint32_t>(end));
    base::begin(to);
  }
};

/// A sender of any kind, for kernels that are written for all: the large one is dynamic, the others are in static shared memory. Thread scope: lane.
template <class Sender>
GRAVEL_DEVICE Sender& gravel_sender_of_block() {
  if constexpr (Sender::shared_bytes > 0) {
    return Sender::dynamic();
  } else {
    __shared__ Sender out;
    return out;
  }
}
