// Calls: how kernels have critical sections run.
//
//   gravel_critical_call<deposit>(bank, key, amount);             // one by one
//   gravel_critical_ask<withdraw>(bank, slot, key, amount);       // the answer goes to *slot, symmetric memory of the caller
//
//   __shared__ gravel_critical_sender<account, deposit> out;      // gathers for service blocks of the own PE
//   out.begin(bank);                                            // all threads of the block
//   ... out.call<deposit>(key, amount);                         // divergent: any lanes, any number of times
//   out.end();                                                  // all threads of the block
//
// A call whose keys are all of the own PE may run where it is made (`in place`): the caller takes the words beside the records, runs the section,
// and gives them back; if one is taken, it gives back those it has, and sends the call. So a key for which many call at once soon belongs to its
// service block, and the others to nobody.
#pragma once
#include "lib/critical/in_place.cuh"
#include "lib/critical/key_service.cuh"

/// What kernels need to call: plain data, from gravel_critical_sections::handle().
/// @scope lane, from divergent code
/// @completion on return
/// @errors a handle that is closed: the job ends with a message
/// @source synchronization service blocks (ASPLOS 2019)
template <class Record, class... Sections>
struct gravel_critical_handle {
  using service_type = gravel::detail::key_service<Record, Sections...>;
  gravel_service_handle<service_type> service;
  gravel::detail::record_table<typename service_type::layout> table;
  static constexpr const char* what = "the critical sections of";
  /// @internal
  GRAVEL_DEVICE void check_open(const char* call) const {
    gravel::detail::check_open(service.g, service.opening, call, what, service_type::name);
  }

  /// The record of a key of this PE, for kernels that run while nobody calls; nullptr: another PE's.
  /// @param key below the number of keys
  GRAVEL_DEVICE Record* record(uint32_t key) const {
    check_open("record()");
    return key < table.keys && table.pe_of(key) == table.my_pe ? &table.slots[table.number_of(key)].record : nullptr;
  }
};

namespace gravel::detail {

/// A call of section S, as it is written down.
template <class S, class Record, class... Sections>
struct section_call {
  using handle_type = gravel_critical_handle<Record, Sections...>;
  using layout = call_layout<Record, Sections...>;
  static constexpr uint32_t kind = layout::template kind_of<S>();
  static_assert(kind < layout::sections, "these critical sections do not have this section");
  using section = std::conditional_t<(kind < layout::sections), S, typename first_type<Sections...>::type>;
  using traits = section_traits<Record, section>;
  static constexpr uint32_t n = traits::keys;
  uint32_t keys[n];
  typename layout::message m;
  gravel_critical_answer<typename traits::result> answer{};

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
  GRAVEL_DEVICE void address(const handle_type& to) {
    m.word[0] = to.table.number_of(first_key()) << layout::bits | kind;
  }

  /// Runs the section here if its keys are free and of this PE. Thread scope: lane. It waits for nothing while it has a
  /// key; and it runs, and gives them back, in the round in which it took them: its neighbours in the warp may try for
  /// the same, or for others that are taken.
  ///
  /// What another client has will be free soon. Of several keys it is cheaper to wait for any than to have the call go
  /// from service block to service block: a key that is held meanwhile makes others be held.
  GRAVEL_DEVICE bool run_in_place(const handle_type& to) {
    const auto& table = to.table;
    if (!table.in_place) return false;
    for (uint32_t i = 0; i < n; ++i)
      if (table.pe_of(keys[i]) != table.my_pe) return false;
    if constexpr (n == 1)
      return tell(to, in_place::template run_on<scope::device>(table.slots + table.number_of(keys[0]), m.word, answer));
    else if constexpr (table_type::in_words) return tell(to, run_soon<n>([&] { return run_on_words<false>(to); }));
    else return tell(to, run_soon<n>([&] { return run_by_locks(to); }));
  }
  /// The same where a key is another PE's, whose memory is mapped here: of a section that touches nothing but its
  /// records. Is there such a way?
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
      if constexpr (n == 1)
        return tell(to, in_place::template run_on<scope::system>(to.table.slot_anywhere(to.service.g, keys[0]), m.word,
                                                                 answer));
      else return tell(to, run_soon<n>([&] { return run_on_words<true>(to); }));
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
    const uint32_t place = static_cast<uint32_t>(ticket & (rooms.calls - 1)),
                   round = static_cast<uint32_t>(ticket / rooms.calls);
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
    gravel_service_send(to.service, static_cast<int>(to.table.pe_of(low)), to.table.block_of(to.table.number_of(low)),
                        m);
  }

 private:
  using table_type = record_table<layout>;
  using in_place = section_in_place<section, layout>;
  /// The answer of a section that has run here goes into the slot when its keys are given back: nobody waits for that.
  GRAVEL_DEVICE bool tell(const handle_type& to, bool ran) const {
    if constexpr (traits::answers)
      if (ran) send_answer<layout, answerer::caller>(to.service.g, m.word, answer.value);
    return ran;
  }
  static constexpr bool runs_at_peers = traits::pure && (n == 1 || table_type::in_words);
  /// Of several keys: if the locks beside their records are free; they are taken from that of the lowest key on. Who
  /// had one, if it was taken: then those below are given back.
  GRAVEL_DEVICE key_state run_by_locks(const handle_type& to) {
    const auto& table = to.table;
    for (uint32_t key = first_key();;) {
      const uint32_t number = table.number_of(key);
      const key_state found = table.take(number, key_state::client);
      if (found != key_state::free) {
        release_below(table, key);
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
    release_below(table, ~uint64_t{0});
    return key_state::free;
  }
  template <class... R>
  GRAVEL_DEVICE void run(R&... records) {
    in_place::run(m.word, answer, records...);
  }
  /// `values`: of the keys. Of the same key the first is used.
  GRAVEL_DEVICE void run_on(Record* values) {
    if constexpr (n == 2) {  // no array that is indexed by what is known only when it runs: that would be in memory
      if (keys[0] == keys[1]) run(values[0], values[0]);
      else run(values[0], values[1]);
    } else {
      uint32_t at[n];
      for (uint32_t i = 0; i < n; ++i) at[i] = same_as(i);
      if constexpr (traits::answers)
        answer.value = run_nested<S, layout>(m.word, values, at, std::make_index_sequence<n>());
      else run_nested<S, layout>(m.word, values, at, std::make_index_sequence<n>());
    }
  }
  template <class Table>
  GRAVEL_DEVICE void release_below(const Table& table, uint64_t end) const {
    for (uint32_t i = 0; i < n; ++i)
      if (keys[i] < end && same_as(i) == i) table.give(table.number_of(keys[i]));
  }
  /// As run_by_locks, where record and lock are one word: all words are read at once, and swapped if they are still so,
  /// from that of the lowest key on. Of a section that only changes records nobody needs to be told in what order its
  /// words are written: who takes one has its value. FAR: some may be peers'.
  template <bool FAR>
  GRAVEL_DEVICE key_state run_on_words(const handle_type& to) {
    slot_word* at[n];
    bool far[n];
    slot_word seen[n];
    Record values[n];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) {
      far[i] = FAR && to.table.pe_of(keys[i]) != to.table.my_pe;
      at[i] = reinterpret_cast<slot_word*>(FAR ? to.table.slot_anywhere(to.service.g, keys[i])
                                               : to.table.slots + to.table.number_of(keys[i]));
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

}  // namespace gravel::detail

/// Has section S run for its keys. What it returns is dropped. With nested sections it waits while as many calls as the
/// option `calls` says are under way.
/// @tparam S a section of the service blocks
/// @param to from gravel_critical_sections::handle()
/// @param p the keys of the section, then its arguments
/// @scope lane, from divergent code, kernels of gravel_launch. Not service blocks and handlers
/// @completion on return the call has run here, or is on its way; gravel_wait_quiescent: it has run
/// @errors a key out of range, a handle that is closed: the job ends with a message
/// @source synchronization service blocks (ASPLOS 2019)
template <class S, class Record, class... Sections, class... P>
GRAVEL_DEVICE void gravel_critical_call(const gravel_critical_handle<Record, Sections...>& to, P... p) {
  to.check_open("gravel_critical_call");
  gravel::detail::section_call<S, Record, Sections...> call;
  if (call.write(to, p...) && !call.run_in_place(to) && !(call.may_run_at_peer(to) && call.run_at_peer(to)))
    call.send(to);
}

/// Has section S run for its keys, and gets what it returns, by a put into `*slot`.
/// @tparam S a section of the service blocks
/// @param to from gravel_critical_sections::handle()
/// @param slot symmetric memory of the caller's PE
/// @param p the keys of the section, then its arguments
/// @return true if the section has run here: then the answer is there already
/// @scope lane, from divergent code, kernels of gravel_launch. Not service blocks and handlers
/// @completion gravel_wait_until on `*slot`, or gravel_wait_quiescent
/// @errors a key or a slot out of range, a handle that is closed: the job ends with a message
/// @source synchronization service blocks (ASPLOS 2019)
template <class S, class Record, class... Sections, class... P>
GRAVEL_DEVICE gravel_critical_answer<typename gravel::detail::section_traits<Record, S>::result> gravel_critical_ask(
    const gravel_critical_handle<Record, Sections...>& to,
    typename gravel::detail::section_traits<Record, S>::result* slot, P... p) {
  to.check_open("gravel_critical_ask");
  gravel::detail::section_call<S, Record, Sections...> call;
  if (!call.write(to, p...) || !call.ask(to.service.g, slot)) return {};
  call.answer.here = call.run_in_place(to) || (call.may_run_at_peer(to) && call.run_at_peer(to));
  if (!call.answer.here) call.send(to);
  return call.answer;
}
