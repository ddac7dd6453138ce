// Record table: where the records lie, and the lock word of each key. It is plain data, the same for callers and
// service blocks of a PE.
//
// Key k belongs to PE k % n_pes and has number k / n_pes there. The key belongs to the service block with that number
// modulo the number of service blocks. Beside each record lies its lock word. The two lowest bits are the state of the
// key:
//
//   free        no party has the key; callers that run sections in place take it                     [U1] acquire
//   client      a caller runs a section in place; it releases the key at once                        [U1] release
//   service     the service block has the key: callers send their calls. Only the service block changes the word now
//   held        a nested call that is in progress has the record; the service block parks calls for the key. The other
//               bits of the word are 1 + the room of the last parked call, or 0 if none is parked. The parked calls
//               form a ring, from the last one to the first
//
// Without sections in place only the service block uses the word, and `free` and `service` mean the same. With them,
// the service block takes a key from `free` like callers do. It releases the key [U1] when no more concurrent calls
// come for it: then callers may run sections in place again.
//
// A service block that finds a caller there writes `service` into the word nevertheless, so that other callers send
// their calls and do not compete with it for the key. It has the key only after it has taken it from `free`, which the
// caller writes in any case (take_from_clients).
#pragma once
#include "lib/critical/section.hpp"
#include "lib/critical/slot_word.cuh"

namespace gravel::detail {

/// The state of a key, in its lock word.
enum class key_state : uint32_t { free, client, service, held };

constexpr uint32_t key_state_bits = 2;
GRAVEL_BOTH constexpr key_state state_in(uint32_t lock) {
  return static_cast<key_state>(lock & ((1u << key_state_bits) - 1));
}

/// Do a record and its lock fit into one slot_word?
template <class Record>
constexpr bool is_slot_word = sizeof(Record) > 4 && sizeof(Record) <= 12;

/// Alignment of a slot of `bytes` bytes, with which it spans as few lines of memory as possible, unless that would
/// waste more than a quarter of the memory.
constexpr uint32_t slot_alignment(uint32_t bytes, uint32_t least) {
  uint32_t whole = 1;
  while (whole < bytes) whole *= 2;
  if (whole <= 128 && whole * 3 <= bytes * 4) return whole;
  return least > 4 ? least : 4;
}
template <class Record>
constexpr uint32_t slot_alignment_of = slot_alignment((sizeof(Record) + 3) / 4 * 4 + 4, alignof(Record));

/// A record and its lock word.
template <class Record>
struct alignas(is_slot_word<Record> ? 16 : slot_alignment_of<Record>) key_slot {
  Record record;
  uint32_t lock;
};

/// Rooms for parked calls of nested sections. A call reserves its room at all PEs before it is sent: number PE * calls
/// + place. The call with ticket t has place t % calls, and waits until t / calls earlier calls in this place are
/// complete. `done[place]` counts those [U2].
template <class Layout>
struct block_rooms {
  static constexpr uint64_t most =
      (uint64_t{1} << (32 - key_state_bits)) - 2;  ///< rooms of all PEs together: as many as a lock word can name
  uint32_t calls;                                  ///< calls of each PE that are in progress at once; a power of two
  uint64_t* tickets;                               ///< number of calls that kernels of this PE have made
  uint32_t* done;                                  ///< [calls], symmetric
  uint32_t* next;                                  ///< [n_pes * calls] of a parked call: the room of the next one
  uint32_t* parked;                                ///< [n_pes * calls][Layout::words]
  GRAVEL_BOTH static uint64_t bytes(uint32_t calls, uint32_t n_pes) {
    return 256 + uint64_t{calls} * sizeof(uint32_t) * (1 + n_pes * (1 + uint64_t{Layout::words}));
  }
};

/// The records of a PE and their locks.
template <class Layout>
struct record_table {
  using record = typename Layout::record;
  using slot = key_slot<record>;
  /// Record and lock are read, written and swapped together, by all parties, while there are calls.
  static constexpr bool in_words = is_slot_word<record> && has_slot_words;
  slot* slots;  ///< symmetric: [keys of this PE]
  uint64_t keys;
  uint32_t n_pes, my_pe, blocks;
  bool by_locks;   ///< exclusion by locks, not by owners
  bool in_place;   ///< callers and arriving calls may run sections in place
  bool in_shared;  ///< records lie in the service blocks' shared memory; never together with in_place
  block_rooms<Layout> rooms;

  GRAVEL_BOTH uint32_t pe_of(uint32_t key) const { return key % n_pes; }
  GRAVEL_BOTH uint32_t number_of(uint32_t key) const { return key / n_pes; }
  GRAVEL_BOTH uint32_t key_of(uint32_t number) const { return number * n_pes + my_pe; }
  GRAVEL_BOTH uint32_t block_of(uint32_t number) const { return number % blocks; }
  /// Largest number of keys of a PE.
  GRAVEL_BOTH static uint64_t keys_of_pe(uint64_t keys, uint32_t n_pes) { return (keys + n_pes - 1) / n_pes; }

  /// Tries to take a key. Returns its state before: `free` means that the caller has it now. It does not read the word
  /// first, since the key is mostly free. Thread scope: lane.
  GRAVEL_DEVICE key_state take(uint32_t number, key_state as) const {
    return take_slot<scope::device>(slots + number, as);
  }
  /// Releases a key.
  GRAVEL_DEVICE void release(uint32_t number) const { release_slot<scope::device>(slots + number); }
  /// The service block takes a key, and waits for a caller that runs in place. Such a caller waits for nothing. Thread
  /// scope: lane.
  GRAVEL_DEVICE void take_from_clients(uint32_t number) const {
    bool is_marked = false;  // this lane has written `service` into the word, while a caller still runs in place
    for (relax wait;; wait()) {
      const key_state found = take(number, key_state::service);
      if (found == key_state::free || (found >= key_state::service && !is_marked)) return;
      if (found == key_state::client)
        is_marked |= compare_swap_acquire<scope::device>(&slots[number].lock, static_cast<uint32_t>(key_state::client),
                                                         static_cast<uint32_t>(key_state::service));
    }
  }
  // Taking and releasing a slot that may be another PE's. The owner uses device scope and other PEs use system scope:
  // the owner's L2 cache carries out both, as for the operations of device/in_place.cuh.
  template <scope S>
  GRAVEL_DEVICE static key_state take_slot(slot* at, key_state as) {
    return state_in(
        swap_acquire<S>(&at->lock, static_cast<uint32_t>(key_state::free), static_cast<uint32_t>(as)));  // [U1]
  }
  template <scope S>
  GRAVEL_DEVICE static void release_slot(slot* at) {
    store_release<S>(&at->lock, static_cast<uint32_t>(key_state::free));  // [U1]
  }
  /// A key's slot, also at another PE; nullptr: that PE's memory is not mapped here. Thread scope: lane.
  GRAVEL_DEVICE slot* slot_anywhere(const gravel_t& g, uint32_t key) const {
    const uint32_t pe = pe_of(key);
    if (pe == my_pe) return slots + number_of(key);
    char* const heap = peer_heap(g, static_cast<int>(pe));
    return heap ? reinterpret_cast<slot*>(heap + (reinterpret_cast<const char*>(slots) - g.heap)) + number_of(key)
                : nullptr;
  }

  // ---- for slots that are slot_words
  GRAVEL_DEVICE slot_word* word(uint32_t number) const { return reinterpret_cast<slot_word*>(slots + number); }
  GRAVEL_DEVICE static slot slot_of(const slot_word& w) {
    unpacked_value<slot> s;
    __builtin_memcpy(static_cast<void*>(&s.value), &w, sizeof(w));
    return s.value;
  }
  GRAVEL_DEVICE static slot_word word_of(const record& r, key_state state, uint32_t parked = 0) {
    const slot s{r, static_cast<uint32_t>(state) | parked << key_state_bits};
    slot_word w;
    __builtin_memcpy(&w, &s, sizeof(w));
    return w;
  }
};

/// A put that is not inlined: calls that arrive are answered in many places of one kernel.
template <class T>
__device__ GRAVEL_NOINLINE void put_answer(const gravel_t& g, T* to, T answer, int pe) {
  gravel_put(g, to, answer, pe);
}
/// The party that sends an answer.
enum class answerer {
  caller,   ///< answers its own PE at once
  service,  ///< answers any PE; the put is inlined, as the next calls of the key wait for it
  arrival   ///< answers any PE; the put is not inlined
};
/// Sends the answer to the call's slot, if the caller wants an answer.
template <class Layout, answerer WHO, class T>
GRAVEL_DEVICE void send_answer(const gravel_t& g, const uint32_t* call, T answer) {
  const uint64_t slot = call[Layout::at_slot] | uint64_t{call[Layout::at_slot + 1]} << 32;
  constexpr uint64_t place = (uint64_t{1} << 40) - 1;
  if (!slot) return;
  T* const to = reinterpret_cast<T*>(g.heap + (slot & place) - 1);
  if constexpr (WHO == answerer::caller) put_in_place(as_numbers(to), as_number<T>(answer));
  else if constexpr (WHO == answerer::service) gravel_put(g, to, answer, static_cast<int>(slot >> 40));
  else put_answer(g, to, answer, static_cast<int>(slot >> 40));
}

/// Runs a section with the arguments of the message. Returns its answer.
template <class S, class Layout, class... R>
GRAVEL_DEVICE auto run_section(const uint32_t* call, R&... records) {
  using traits = section_traits<typename Layout::record, S>;
  return traits::run(call + Layout::at_arguments, typename traits::arguments{}, records...);
}

/// Runs a nested section on the records values[at[0]], values[at[1]], ...
template <class S, class Layout, size_t... I>
GRAVEL_DEVICE auto run_nested(const uint32_t* call, typename Layout::record* values, const uint32_t* at,
                              std::index_sequence<I...>) {
  return run_section<S, Layout>(call, values[at[I]]...);
}

}  // namespace gravel::detail
