// Calls: how kernels have critical sections run.
//
//   gravel_critical_call<deposit>(bank, key, amount);             // one call
//   gravel_critical_ask<withdraw>(bank, slot, key, amount);       // the answer goes to *slot, in symmetric memory
//
//   __shared__ gravel_critical_sender<account, deposit> out;      // gathers calls to service blocks of the caller's PE
//   out.begin(bank);                                              // all threads of the block
//   ... out.call<deposit>(key, amount);                           // divergent: any lanes, any number of times
//   out.end();                                                    // all threads of the block
//
// In place. A call whose keys all belong to the caller's PE may run where it is made: the caller takes the locks beside
// the records, runs the section and releases the locks. If a lock is taken, the caller releases those it has and sends
// the call. So a key with many concurrent calls soon stays with its service block, and other keys are free.
#pragma once
#include "lib/critical/in_place.cuh"
#include "lib/critical/key_service.cuh"

/// The handle with which kernels call: plain data, from gravel_critical_sections::handle().
/// @scope lane, from divergent code
/// @completion on return
/// @errors a handle that is closed: the job ends with a message
/// @source synchronization servers (ASPLOS 2019)
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

  /// The record of a key of this PE, for kernels that run while there are no calls; nullptr: it is another PE's key.
  /// @param key below the number of keys
  GRAVEL_DEVICE Record* record(uint32_t key) const {
    check_open("record()");
    return key < table.keys && table.pe_of(key) == table.my_pe ? &table.slots[table.number_of(key)].record : nullptr;
  }
};

namespace gravel::detail {

/// A call of section S, as a message, and how it runs.
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

  /// Writes the message. `p`: keys, then arguments. False: a key is out of range.
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
  /// Adds the slot for the answer. False: the slot is not in this PE's heap, or is misaligned.
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
  /// The lowest key.
  GRAVEL_DEVICE uint32_t first_key() const {
    uint32_t low = keys[0];
    for (uint32_t i = 1; i < n; ++i) low = keys[i] < low ? keys[i] : low;
    return low;
  }
  /// Writes the word that names the record at which the call begins.
  GRAVEL_DEVICE void address(const handle_type& to) {
    m.word[0] = to.table.number_of(first_key()) << layout::bits | kind;
  }

  /// Runs the section here, if its keys are free and belong to this PE. False: it has not run. The lane waits for
  /// nothing while it has a key. It takes its keys, runs and releases them in one round of the loop: other lanes of its
  /// warp may try to take the same keys.
  ///
  /// If another caller has a key, the key will be free soon. For several keys it is cheaper to wait for any key than to
  /// send the call from service block to service block: a key that is held meanwhile causes other keys to be held.
  /// Thread scope: lane.
  GRAVEL_DEVICE bool run_in_place(const handle_type& to) {
    const auto& table = to.table;
    if (!table.in_place) return false;
    for (uint32_t i = 0; i < n; ++i)
      if (table.pe_of(keys[i]) != table.my_pe) return false;
    if constexpr (n == 1)
      return answer_if(
          to, in_place::template run_on<scope::device>(table.slots + table.number_of(keys[0]), m.word, answer));
    else if constexpr (table_type::in_words) return answer_if(to, run_soon<n>([&] { return run_on_words<false>(to); }));
    else return answer_if(to, run_soon<n>([&] { return run_by_locks(to); }));
  }
  /// Does the call have a key of another PE, and may the section try to run here all the same? Only pure sections may,
  /// on records of PEs whose memory is mapped here.
  GRAVEL_DEVICE bool may_run_at_peer([[maybe_unused]] const handle_type& to) const {
    if constexpr (runs_at_peers) {
      if (!to.table.in_place || !to.service.g.peers) return false;
      for (uint32_t i = 0; i < n; ++i)
        if (to.table.pe_of(keys[i]) != to.table.my_pe) return true;
    }
    return false;
  }
  /// Runs the section here on records of other PEs. False: it has not run.
  __device__ GRAVEL_NOINLINE bool run_at_peer([[maybe_unused]] const handle_type& to) {
    if constexpr (runs_at_peers) {
      for (uint32_t i = 0; i < n; ++i)
        if (!to.table.slot_anywhere(to.service.g, keys[i])) return false;
      if constexpr (n == 1)
        return answer_if(to, in_place::template run_on<scope::system>(to.table.slot_anywhere(to.service.g, keys[0]),
                                                                      m.word, answer));
      else return answer_if(to, run_soon<n>([&] { return run_on_words<true>(to); }));
    }
    return false;
  }
  /// Reserves room for the call at all PEs [U2]. Thread scope: lane, divergent.
  GRAVEL_DEVICE void reserve(const handle_type& to) {
    const auto& rooms = to.table.rooms;
    const lane_group group = lane_group::active();
    uint64_t ticket = 0;
    if (group.is_leader()) ticket = fetch_add<scope::device>(rooms.tickets, uint64_t{group.size()});
    ticket = group.from_leader(ticket) + group.rank();
    const uint32_t place = static_cast<uint32_t>(ticket & (rooms.calls - 1)),
                   round = static_cast<uint32_t>(ticket / rooms.calls);
    for (relax wait; load_acquire<scope::device>(&rooms.done[place]) != round; wait()) {  // [U2]
    }
    m.word[layout::at_ticket] = to.table.my_pe * rooms.calls + place;
    for (uint32_t i = 0; i < n; ++i) m.word[layout::at_keys + i] = keys[i];
  }
  /// Sends the call to the service block of its lowest key. Thread scope: lane, divergent.
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
  /// Writes the answer into the slot, if the section has run here. Its keys are released already, so no other caller
  /// waits for this.
  GRAVEL_DEVICE bool answer_if(const handle_type& to, bool ran) const {
    if constexpr (traits::answers)
      if (ran) send_answer<layout, answerer::caller>(to.service.g, m.word, answer.value);
    return ran;
  }
  static constexpr bool runs_at_peers = traits::pure && (n == 1 || table_type::in_words);
  /// Runs a section of several keys, if the locks of all of them are free. It takes them in ascending order. If one is
  /// not free, it releases those below and returns the state of that key.
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
  /// Runs the section on copies of the records, one for each key. For equal keys it uses the first copy.
  GRAVEL_DEVICE void run_on(Record* values) {
    if constexpr (n == 2) {  // an array with an index known only at run time would lie in memory
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
  /// Releases the keys below `end`.
  template <class Table>
  GRAVEL_DEVICE void release_below(const Table& table, uint64_t end) const {
    for (uint32_t i = 0; i < n; ++i)
      if (keys[i] < end && same_as(i) == i) table.release(table.number_of(keys[i]));
  }
  /// Like run_by_locks(), where record and lock are one word. It reads all words at once, and takes them by compare and
  /// swap in ascending order of keys. A pure section needs no release order for its stores: a party that takes a word
  /// has its record. FAR: some keys may be peers'.
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
        if (which == i) {
          expected = seen[i];
          its = at[i];
          is_far = far[i];
        }
      const slot_word mine = table_type::word_of(table_type::slot_of(expected).record, key_state::client);
      bool has = false;
      if (is_far) has = swap_slot<scope::system>(its, expected, mine);
      else if constexpr (traits::pure) has = swap_slot(its, expected, mine);
      else has = swap_slot_acquire(its, expected, mine);  // [U1]
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
      else store_slot(at[i], word);  // [U1]
    }
    return found;
  }
  /// The first key that equals key i.
  GRAVEL_DEVICE uint32_t same_as(uint32_t i) const {
    uint32_t first = i;
    for (uint32_t j = i; j-- > 0;)
      if (keys[j] == keys[i]) first = j;
    return first;
  }
  /// Separates the keys from the arguments, and writes both. False: a key is out of range.
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
      // A negative key is larger than any key, as an unsigned number.
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

/// Has section S run for its keys, and drops its answer. With nested sections it waits while this PE has as many calls
/// in progress as the option `calls` says.
/// @tparam S one of the sections
/// @param to from gravel_critical_sections::handle()
/// @param p the keys of the section, then its arguments
/// @scope lane, from divergent code, in kernels of gravel_launch; not in service blocks or handlers
/// @completion on return the call has run here, or is in flight; after gravel_wait_quiescent it has run
/// @errors a key out of range, a handle that is closed: the job ends with a message
/// @source synchronization servers (ASPLOS 2019)
template <class S, class Record, class... Sections, class... P>
GRAVEL_DEVICE void gravel_critical_call(const gravel_critical_handle<Record, Sections...>& to, P... p) {
  to.check_open("gravel_critical_call");
  gravel::detail::section_call<S, Record, Sections...> call;
  if (call.write(to, p...) && !call.run_in_place(to) && !(call.may_run_at_peer(to) && call.run_at_peer(to)))
    call.send(to);
}

/// Has section S run for its keys, and gets its answer by a put into `*slot`.
/// @tparam S one of the sections
/// @param to from gravel_critical_sections::handle()
/// @param slot symmetric memory of the caller's PE
/// @param p the keys of the section, then its arguments
/// @return true if the section has run here: then the answer is in the return value, too
/// @scope lane, from divergent code, in kernels of gravel_launch; not in service blocks or handlers
/// @completion gravel_wait_until on `*slot`, or gravel_wait_quiescent
/// @errors a key or a slot out of range, a handle that is closed: the job ends with a message
/// @source synchronization servers (ASPLOS 2019)
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
