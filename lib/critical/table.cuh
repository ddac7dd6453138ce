// Where the records of service blocks lie, and who has a key: plain data, the same for clients and service blocks of a PE.
//
// Key k belongs to PE k % n_pes, has number k / n_pes there, and belongs to the service block of that number modulo the service blocks. In front of all that
// touch a record stands the word beside it, `lock`, whose two lowest bits are:
//
//   free        nobody has it; clients that run sections in place take it                            [K1] acquire
//   client      a client runs a section in place; gives it back at once                               [K1] release
//   service block      its service block has it: clients send their calls. Only the service block changes it from here on
//   held        a nested call that is under way has its value; calls for it are parked by the service block. Of those the word says the last: its other bits
//               are 1 + the room that this call has reserved; 0: none is parked. The calls make a ring, from the last to the first
//
// Without sections in place only the service block reads and writes the word, and `free` and `block` mean the same. The service block takes a key from
// `free` as clients do, and gives it back [K1] when calls for it no longer meet: then clients may run in place again.
//
// A service block that finds a client there writes `block` into the word all the same: so that others who want the key send their calls, and it is not one of
// thousands that try. It has the key only when it has taken it from `free`, which the client writes whatever is there (take_from_clients).
#pragma once
#include "lib/critical/section.hpp"
#include "lib/critical/slot_word.cuh"

namespace gravel::detail {

enum class key_state : uint32_t { free, client, service, held };

constexpr uint32_t key_state_bits = 2;
GRAVEL_BOTH constexpr key_state state_in(uint32_t lock) {
  return static_cast<key_state>(lock & ((1u << key_state_bits) - 1));
}

/// Do a record and its lock make one slot_word?
template <class Record>
constexpr bool is_slot_word = sizeof(Record) > 4 && sizeof(Record) <= 12;

/// Of a slot of so many bytes: that it does not lie in more lines of memory than it must, unless this would take more
/// than a third of memory.
constexpr uint32_t slot_alignment(uint32_t bytes, uint32_t least) {
  uint32_t whole = 1;
  while (whole < bytes) whole *= 2;
  return whole <= 128 && whole * 3 <= bytes * 4 ? whole : least > 4 ? least : 4;
}
template <class Record>
constexpr uint32_t slot_alignment_of = slot_alignment((sizeof(Record) + 3) / 4 * 4 + 4, alignof(Record));

template <class Record>
struct alignas(is_slot_word<Record> ? 16 : slot_alignment_of<Record>) key_slot {
  Record record;
  uint32_t lock;
};

/// Rooms: each call of nested sections has reserved one at all PEs before it is sent, PE * calls + place. `done[place]`
/// counts the calls of this PE that had the place and are complete [K2]: the call with ticket t has place t % calls,
/// and waits until t / calls calls have had it.
template <class Layout>
struct block_rooms {
  static constexpr uint64_t most =
      (uint64_t{1} << (32 - key_state_bits)) - 2;  ///< of all PEs together: what a lock has room for
  uint32_t calls;                                  ///< of each PE, under way at once; a power of two
  uint64_t* tickets;                               ///< calls of this PE's kernels
  uint32_t* done;                                  ///< [calls], symmetric
  uint32_t* next;                                  ///< [n_pes * calls] rooms of parked calls: who waits behind
  uint32_t* parked;                                ///< [n_pes * calls][Layout::words]
  GRAVEL_BOTH static uint64_t bytes(uint32_t calls, uint32_t n_pes) {
    return 256 + uint64_t{calls} * sizeof(uint32_t) * (1 + n_pes * (1 + uint64_t{Layout::words}));
  }
};

template <class Layout>
struct record_table {
  using record = typename Layout::record;
  using slot = key_slot<record>;
  /// Record and lock are read, written and swapped together, by all who touch them while calls are under way.
  static constexpr bool in_words = is_slot_word<record> && has_slot_words;
  slot* slots;  ///< symmetric: [keys of this PE]
  uint64_t keys;
  uint32_t n_pes, my_pe, blocks;
  bool by_locks, in_place, in_shared;
  block_rooms<Layout> rooms;

  GRAVEL_BOTH uint32_t pe_of(uint32_t key) const { return key % n_pes; }
  GRAVEL_BOTH uint32_t number_of(uint32_t key) const { return key / n_pes; }
  GRAVEL_BOTH uint32_t key_of(uint32_t number) const { return number * n_pes + my_pe; }
  GRAVEL_BOTH uint32_t block_of(uint32_t number) const { return number % blocks; }
  /// Of each PE.
  GRAVEL_BOTH static uint64_t keys_of_pe(uint64_t keys, uint32_t n_pes) { return (keys + n_pes - 1) / n_pes; }

  /// Takes a free key; returns who had it. It is taken without a look before: mostly it is free, and who has it is told
  /// as well. Thread scope: lane.
  GRAVEL_DEVICE key_state take(uint32_t number, key_state as) const {
    return take_slot<scope::device>(slots + number, as);
  }
  GRAVEL_DEVICE void give(uint32_t number) const { release_slot<scope::device>(slots + number); }
  /// For the key's service block, in whose hands it is when this returns. Who runs in place waits for nothing. Thread scope:
  /// lane.
  GRAVEL_DEVICE void take_from_clients(uint32_t number) const {
    bool told = false;  // what says `block` is what this lane has written, while a client is inside
    for (relax wait;; wait()) {
      const key_state found = take(number, key_state::service);
      if (found == key_state::free || (found >= key_state::service && !told)) return;
      if (found == key_state::client)
        told |= compare_swap_acquire<scope::device>(&slots[number].lock, static_cast<uint32_t>(key_state::client),
                                                    static_cast<uint32_t>(key_state::service));
    }
  }
  // The same of a slot that may be another PE's, with which memory it has device scope for its owner and system scope
  // for others: both are carried out by the owner's L2 cache, as those of device/in_place.cuh are.
  template <scope S>
  GRAVEL_DEVICE static key_state take_slot(slot* at, key_state as) {
    return state_in(
        swap_acquire<S>(&at->lock, static_cast<uint32_t>(key_state::free), static_cast<uint32_t>(as)));  // [K1]
  }
  template <scope S>
  GRAVEL_DEVICE static void release_slot(slot* at) {
    store_release<S>(&at->lock, static_cast<uint32_t>(key_state::free));  // [K1]
  }
  /// A key's slot, also at another PE; nullptr: that PE's memory is not mapped here. Thread scope: lane.
  GRAVEL_DEVICE slot* slot_anywhere(const gravel_t& g, uint32_t key) const {
    const uint32_t pe = pe_of(key);
    if (pe == my_pe) return slots + number_of(key);
    char* const heap = peer_heap(g, static_cast<int>(pe));
    return heap ? reinterpret_cast<slot*>(heap + (reinterpret_cast<const char*>(slots) - g.heap)) + number_of(key)
                : nullptr;
  }

  // ---- where a slot is a slot_word
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

/// Not inlined: what arrives answers in many places of one kernel.
template <class T>
__device__ GRAVEL_NOINLINE void put_answer(const gravel_t& g, T* to, T answer, int pe) {
  gravel_put(g, to, answer, pe);
}
/// Who answers. A caller: its own PE, at once. A service block: anybody; the calls of a key wait for this one after the other,
/// so all of a put is in line.
enum class answerer { caller, service, arrival };
/// To who asked, if anybody did.
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

/// Runs the section with the message's arguments; returns its answer.
template <class S, class Layout, class... R>
GRAVEL_DEVICE auto run_section(const uint32_t* call, R&... records) {
  using traits = section_traits<typename Layout::record, S>;
  return traits::run(call + Layout::at_arguments, typename traits::arguments{}, records...);
}

/// Runs the nested section whose records are values[at[0]], values[at[1]] ...
template <class S, class Layout, size_t... I>
GRAVEL_DEVICE auto run_nested(const uint32_t* call, typename Layout::record* values, const uint32_t* at,
                              std::index_sequence<I...>) {
  return run_section<S, Layout>(call, values[at[I]]...);
}

}  // namespace gravel::detail
