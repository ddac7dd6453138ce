// Key service: what a service block does with the calls that arrive. For each key only one call runs at a time.
//
// The code is made for these policies. Those marked * are known at compile time, from the types of record and sections;
// the others are options of gravel_critical_sections, and words of record_table.
//
//   policy          choices                                                                 name
//   record storage  record and lock in one 16-byte word, for records of 5 to 12 bytes *     table_type::in_words
//                   or a record and a lock word *, in device memory
//                   or shared memory of the block, with a copy in device memory             table.in_shared
//   running record  in registers while its calls run: nested, or up to 32 bytes *           in_registers
//                   else in device memory, or in a copy in shared memory                    warp_copies,
//                   if the key has at least 4 calls of a warp *                             calls_for_copy
//   exclusion       owners: one lane owns a key; no lock                                    not table.by_locks
//                   locks: words in the block's shared memory                               table.by_locks
//   place           service blocks only, or in place too: by callers, and on arrival        table.in_place
//   keys of a call  one, or several: nested sections *                                      layout::nested
//   combining       calls of a warp for one key become one, for a section with combine() *  layout::combines
//
// All combinations exist, except these:
//   - Records in shared memory are in_registers ones, and exclude running in place: callers cannot reach them.
//   - The service block combines with exclusion by owners only. A section that combines has one key and no answer.
//   - Calls do not run on arrival if any section is nested.
//
// Exclusion by owners. The block deals calls to its warps by their keys, through shared memory. Of 32 calls that a warp
// reads, the first lane of each key runs all calls of that key, one after the other. So two lanes never have the same
// key.
// Exclusion by locks, as in the paper (synchronization servers, ASPLOS 2019, section 3.1). Each lane tries to take the
// lock of its call's key. Keys may share a lock.
//
// Nested sections. A call of several keys visits their owners in ascending order of keys. Each owner but the last one
// holds its key and writes its record into the call. The last owner runs the section and returns the records to the
// others. Calls for a held key are parked, in the room that their caller has reserved, and run when the key is
// returned.
// Invariants: keys are held in ascending order, so no holders wait for each other in a ring. Room is reserved before a
// call is sent, so no service block waits for room.
//
// The model is test/models/key_service.pml.
#pragma once
#include "device/service_kernel.cuh"
#include "lib/critical/combine.cuh"
#include "lib/critical/in_place.cuh"

namespace gravel::detail {

/// The name of the service is that of the first section.
template <class S>
struct name_of_section {
  static constexpr const char* value = "";  // gravel_critical_sections reports that it is missing
};
template <class S>
requires has_name<S>
struct name_of_section<S> {
  static constexpr const char* value = S::name;
};

/// The service (device/service.cuh) whose blocks run critical sections.
template <class Record, class... Sections>
struct key_service {
  using layout = call_layout<Record, Sections...>;
  using message = typename layout::message;
  using here_type = gravel_service_block<key_service>;
  static constexpr const char* name = name_of_section<typename first_type<Sections...>::type>::value;
  static constexpr uint32_t threads = [] {
    if (!GRAVEL_CUDA) return 64;
    if (sizeof(message) <= 48) return 512;
    return sizeof(message) <= 96 ? 256 : 128;
  }();
  /// A block reads a window of calls at a time; each thread reads some of them.
  static constexpr uint32_t warps = threads / 32, calls_of_thread = sizeof(message) <= 24 ? 2 : 1,
                            window = threads * calls_of_thread;
  static constexpr uint32_t lock_words = 4096;         ///< number of locks for exclusion by locks, as in the paper
  static constexpr uint32_t shared_bytes = 16 * 1024;  ///< shared memory of a service block for records
  /// Records of nested sections and small records are in registers while their calls run. Others stay in device memory.
  /// If several calls of such a record wait, they run on a copy in shared memory: on device memory each call would wait
  /// until the writes of the one before can be read back.
  static constexpr bool in_registers = layout::nested || sizeof(Record) <= 32;
  /// Records of a service block that fit into its shared memory.
  static constexpr uint32_t shared_records = in_registers ? shared_bytes / sizeof(Record) : 0;
  static constexpr uint32_t warp_copies =
      in_registers ? 0 : shared_bytes / warps / sizeof(Record);  ///< copies per warp
  static constexpr uint32_t calls_for_copy = 4;                  ///< a record with this many calls is copied

  record_table<layout> table;

  /// Prepares the block's shared memory. All threads of the block call it when the kernel starts.
  __device__ void begin(const here_type& here) const {
    workspace& mine = space();
    for (uint32_t i = here.rank(); i < bins; i += threads) mine.owners.count[i] = 0;
    if (table.by_locks)
      for (uint32_t i = here.rank(); i < lock_words; i += threads) mine.lock[i] = 0;
    if (in_registers && table.in_shared)
      for (uint32_t i = here.rank(); number(here, i) < own_keys(); i += threads)
        records()[i] = table.slots[number(here, i)].record;
  }

  /// May calls run when they arrive from another PE? Nested calls go from service block to service block instead.
  static constexpr bool polls_arrivals = !layout::nested;
  /// Runs a call of another PE at once, if its key is free. False: it has not run.
  GRAVEL_DEVICE bool arrive(const gravel_t& g, const message& call) const {
    return table.in_place && (run_arrived<Sections>(g, call.word) || ...);
  }

  /// Runs the calls of a batch. All threads of the block call it.
  __device__ void operator()(const here_type& here, const gravel_service_batch<message>& batch) const {
    if (table.by_locks) run_by_locks(here, batch);
    else run_by_owners(here, batch);
  }

 private:
  /// Calls are dealt to bins by their keys, and each bin belongs to one warp. So the calls of a key lie together, with
  /// few calls of other keys.
  static constexpr uint32_t bins = 128;
  /// Number of calls of a key that are read before the first of them runs.
  static constexpr uint32_t read_ahead = [] {
    if (layout::nested) return 1;
    if (sizeof(message) <= 16) return 8;
    return sizeof(message) <= 48 ? 4 : 2;
  }();
  struct owner_space {
    message calls[window + read_ahead];  ///< the window's calls by bin; the last ones are read but not used
    uint32_t count[bins];                ///< calls of each bin; 0 between windows
  };
  union workspace {
    owner_space owners;
    uint32_t lock[lock_words];
  };
  GRAVEL_DEVICE static workspace& space() {
    __shared__ __align__(16) char bytes[sizeof(workspace)];
    return *reinterpret_cast<workspace*>(bytes);
  }
  /// Shared memory for records: all of the block, or the copies of its warps.
  GRAVEL_DEVICE static Record* records() {
    __shared__ __align__(16) char bytes[shared_bytes];
    return reinterpret_cast<Record*>(bytes);
  }
  GRAVEL_DEVICE uint64_t own_keys() const { return record_table<layout>::keys_of_pe(table.keys, table.n_pes); }
  /// The number of the block's i-th key.
  GRAVEL_DEVICE uint64_t number(const here_type& here, uint32_t i) const {
    return uint64_t{i} * table.blocks + here.number();
  }

  /// A key that this lane has taken: only this lane may use its record, until close().
  struct open_key {
    std::conditional_t<in_registers, Record, Record*> kept;
    uint32_t number;
    uint32_t parked;  ///< 1 + the room of the last parked call; 0: no call is parked
    bool held;        ///< a nested call holds the key
    bool was_held;    ///< it did so at open()
    GRAVEL_DEVICE Record& record() {
      if constexpr (in_registers) return kept;
      else return *kept;
    }
  };
  using table_type = record_table<layout>;
  static constexpr bool pure = (section_traits<Record, Sections>::pure && ...);

  /// Takes a key, and reads its record.
  GRAVEL_DEVICE open_key open(uint32_t number) const {
    open_key k;
    k.number = number;
    uint32_t lock = 0;
    if constexpr (table_type::in_words) {
      if (layout::nested || !table.in_shared) lock = open_word(k);
    } else if (table.in_place) {
      table.take_from_clients(number);
      if constexpr (layout::nested) lock = load_relaxed<scope::device>(&table.slots[number].lock);
    } else if constexpr (layout::nested) {
      lock = load_relaxed<scope::device>(&table.slots[number].lock);
    }
    k.held = k.was_held = layout::nested && state_in(lock) == key_state::held;
    k.parked = k.held ? lock >> key_state_bits : 0;
    if constexpr (!in_registers) k.kept = &table.slots[number].record;
    else if (table.in_shared) k.kept = records()[number / table.blocks];
    else if constexpr (!table_type::in_words) k.kept = table.slots[number].record;
    return k;
  }
  /// Takes a key whose record and lock are one word, and reads the record. Returns the lock.
  GRAVEL_DEVICE uint32_t open_word([[maybe_unused]] open_key& k) const {
    if constexpr (table_type::in_words) {
      // take_from_clients() compares only the lock: callers may change the record again and again.
      if (table.in_place) table.take_from_clients(k.number);
      const auto slot = table_type::slot_of(load_slot(table.word(k.number)));
      k.kept = slot.record;
      return slot.lock;
    }
    return 0;
  }
  /// Writes the record, and returns the key. If there were several calls at once (`contended`), the service block keeps
  /// the key, so that callers send their calls. It does not keep keys of nested sections: nested calls wait until keys
  /// are free.
  GRAVEL_DEVICE void close(const open_key& k, bool contended) const {
    auto& slot = table.slots[k.number];
    const bool keeps = k.held || (!layout::nested && contended);
    if constexpr (in_registers)
      if (table.in_shared) records()[k.number / table.blocks] = k.kept;
    if constexpr (table_type::in_words) {
      key_state state = key_state::free;
      if (k.held) state = key_state::held;
      else if (table.in_place && keeps) state = key_state::service;
      const slot_word word = table_type::word_of(k.kept, state, k.held ? k.parked : 0);
      if (pure || keeps || !table.in_place) store_slot(table.word(k.number), word);
      else store_slot_release(table.word(k.number), word);  // [U1]
      return;
    }
    if constexpr (in_registers)
      slot.record = k.kept;  // for records in shared memory, too: the host and other kernels read it
    if constexpr (layout::nested) {
      if (k.held)
        store_relaxed<scope::device>(&slot.lock, static_cast<uint32_t>(key_state::held) | k.parked << key_state_bits);
      else if (k.was_held) store_relaxed<scope::device>(&slot.lock, static_cast<uint32_t>(key_state::service));
    }
    if (table.in_place && !keeps) table.release(k.number);
  }

  /// Exclusion by owners. Thread scope: block.
  GRAVEL_DEVICE void run_by_owners(const here_type& here, const gravel_service_batch<message>& batch) const {
    owner_space& mine = space().owners;
    const uint32_t lane = here.rank() % 32, warp = here.rank() / 32, size = batch.size();
    for (uint32_t from = 0; from < size; from += window) {
      message call[calls_of_thread];
      uint32_t to[calls_of_thread], place[calls_of_thread] = {};
      GRAVEL_UNROLL
      for (uint32_t t = 0; t < calls_of_thread; ++t) {
        const uint32_t i = from + t * threads + here.rank();
        if (i < size) call[t] = batch[i];
      }
      GRAVEL_UNROLL
      for (uint32_t t = 0; t < calls_of_thread; ++t) {
        bool is = from + t * threads + here.rank() < size;
        to[t] = bins;
        if constexpr (layout::combines) {
          __syncwarp();
          (combine<Sections>(here, call[t], is), ...);
          __syncwarp();
        }
        if (is) to[t] = (call[t].word[0] >> layout::bits) * 0x9e3779b1u >> 16 & (bins - 1);
        place[t] = place_in(mine.count, to[t], lane);
      }
      __syncthreads();
      // Where each bin begins: a prefix sum. Each lane has four bins: `within` is the sums inside them, `before` the
      // sum of all bins before them.
      uint32_t count[bins / 32], before = 0;
      uint64_t within = 0;
      GRAVEL_UNROLL
      for (uint32_t b = 0; b < bins / 32; ++b) {
        count[b] = mine.count[lane * (bins / 32) + b];
        within |= uint64_t{before} << 16 * b;
        before += count[b];
      }
      const uint32_t of_lane = before;
      for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, before, step);
        if (lane >= step) before += other;
      }
      const uint32_t all = __shfl_sync(~0u, before, 31);
      before -= of_lane;
      const auto begin_of = [&](uint32_t bin) {
        const int at = static_cast<int>(bin / (bins / 32)) % 32;
        const uint64_t inside = __shfl_sync(~0u, within, at) >> bin % (bins / 32) * 16;
        return __shfl_sync(~0u, before, at) + static_cast<uint32_t>(inside & 0xffff);
      };
      GRAVEL_UNROLL
      for (uint32_t t = 0; t < calls_of_thread; ++t) {
        const uint32_t begin = begin_of(to[t] % bins);
        if (to[t] < bins) mine.calls[begin + place[t]] = call[t];
      }
      const uint32_t first = begin_of(warp * (bins / warps));
      const uint32_t end = warp + 1 < warps ? begin_of((warp + 1) * (bins / warps) % bins) : all;
      __syncthreads();
      for (uint32_t i = here.rank(); i < bins; i += threads) mine.count[i] = 0;
      for (uint32_t at = first; at < end;) at += run_together(here, mine.calls + at, end - at, lane);
      __syncthreads();
    }
  }
  /// Counts this lane's call in its bin. Returns its place there. Thread scope: warp, converged.
  GRAVEL_DEVICE static uint32_t place_in(uint32_t* count, uint32_t bin, uint32_t lane) {
    // Concurrent calls often have one key. Then one lane adds for all: additions of lanes to one word would serialize.
    int alike = 0;
    __match_all_sync(~0u, bin, &alike);
    if (alike) {
      uint32_t before = 0;
      if (lane == 0 && bin < bins) before = block_add_relaxed(&count[bin], 32);
      return __shfl_sync(~0u, before, 0) + lane;
    }
    return bin < bins ? block_add_relaxed(&count[bin], 1) : 0;
  }

  /// Runs the first of `n` calls: the first 32, or, if these have one key, all calls in a row that have it. Returns how
  /// many ran. Thread scope: warp, converged.
  GRAVEL_DEVICE uint32_t run_together(const here_type& here, const message* calls, uint32_t n, uint32_t lane) const {
    const bool mine = lane < n;
    const uint32_t number = mine ? calls[lane].word[0] >> layout::bits : ~0u;
    const uint32_t same = __match_any_sync(~0u, number);
    if (__all_sync(~0u, same == ~0u)) {
      // One key. There may be more than 32 of its calls in a row.
      uint32_t row = 32;
      for (;;) {
        const bool is = row + lane < n && calls[row + lane].word[0] >> layout::bits == number;
        const uint32_t those = __ballot_sync(~0u, is);
        if (those != ~0u) {
          row += static_cast<uint32_t>(__ffs(static_cast<int>(~those)) - 1);
          break;
        }
        row += 32;
      }
      if (lane == 0) {
        open_key k = open(number);
        on_copy(k, here, 0, [&] { run_row(here, calls, row, k); });
        close(k, true);
      }
      __syncwarp();
      return row;
    }
    const bool runs = mine && lane_group::lowest(same) == lane;
    uint32_t copy = warp_copies;
    if constexpr (warp_copies > 0) {
      const bool has_many = runs && lane_group::popcount(same) >= calls_for_copy;
      const uint32_t those = __ballot_sync(~0u, has_many);
      if (has_many) copy = lane_group::popcount(those & ((1u << lane) - 1));
    }
    if (runs) {
      open_key k = open(number);
      on_copy(k, here, copy, [&] { apply_all(here, calls, same, k); });
      close(k, (same & (same - 1)) != 0);
    }
    __syncwarp();  // another lane may run the next calls of a key
    return n < 32 ? n : 32;
  }
  /// Calls f() with the record in copy `number` of the warp, if the warp has that many copies.
  template <class F>
  GRAVEL_DEVICE void on_copy([[maybe_unused]] open_key& k, [[maybe_unused]] const here_type& here,
                             [[maybe_unused]] uint32_t number, const F& f) const {
    if constexpr (warp_copies > 0) {
      Record* const own = k.kept;
      const bool is_copied = number < warp_copies;
      if (is_copied) {
        k.kept = records() + here.rank() / 32 * warp_copies + number;
        *k.kept = *own;
      }
      f();
      if (is_copied) *own = *k.kept;
      k.kept = own;
    } else {
      f();
    }
  }
  /// Runs the calls of one key, one after the other. `which`: a bit for each of them.
  GRAVEL_DEVICE void apply_all(const here_type& here, const message* calls, uint32_t which, open_key& k) const {
    const uint32_t first = lane_group::lowest(which), n = lane_group::popcount(which);
    if (which >> first == ~0u >> (32 - n)) return run_row(here, calls + first, n, k);
    for (; which; which &= which - 1) apply(here, calls[lane_group::lowest(which)].word, k);
  }
  /// Runs n calls of one key that lie in a row: reads several, then runs them.
  GRAVEL_DEVICE void run_row(const here_type& here, const message* calls, uint32_t n, open_key& k) const {
    message now[read_ahead];
    uint32_t i = 0;
    for (; i + read_ahead <= n; i += read_ahead) {
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < read_ahead; ++j) now[j] = calls[i + j];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < read_ahead; ++j) apply(here, now[j].word, k);
    }
    if (i == n) return;
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < read_ahead; ++j) now[j] = calls[i + j];
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < read_ahead; ++j)
      if (i + j < n) apply(here, now[j].word, k);
  }
  /// Combines the lanes' calls of section S for one key into one call. `is`: this lane has a call. Thread scope: warp,
  /// converged.
  template <class S>
  GRAVEL_DEVICE void combine([[maybe_unused]] const here_type& here, message& call, bool& is) const {
    using traits = section_traits<Record, S>;
    if constexpr (traits::combines) {
      using argument = typename first_type<typename traits::arguments>::type;
      const bool such = is && (call.word[0] & layout::kind_mask) == layout::template kind_of<S>();
      const uint32_t those = __ballot_sync(~0u, such);
      if (such) {
        auto value = read_words<argument>(call.word + layout::at_arguments);
        is = combine_equal<S>(those, lane_group::of(~0u).lane(), call.word[0], value) != 0;
        if (is) write_words(call.word + layout::at_arguments, value);
        if constexpr (layout::nested)
          if (!is) complete(here, call.word);  // a call that is part of another one needs no room
      }
      __syncwarp();
    }
  }
  /// Exclusion by locks. Thread scope: block.
  GRAVEL_DEVICE void run_by_locks(const here_type& here, const gravel_service_batch<message>& batch) const {
    for (uint32_t i = here.rank(); i < batch.size(); i += threads) {
      const message call = batch[i];
      const uint32_t number = call.word[0] >> layout::bits;
      uint32_t* const lock = &space().lock[number / table.blocks % lock_words];
      // A lane that has taken the lock releases it in the same round: other lanes of its warp may wait for it.
      bool waits = true, contended = false;
      for (relax wait; waits;) {
        if (compare_swap_acquire<scope::block>(lock, 0u, 1u)) {
          open_key k = open(number);
          apply(here, call.word, k);
          close(k, contended);
          store_release<scope::block>(lock, 0u);
          waits = false;
        } else {
          contended = true;
          wait();
        }
      }
    }
  }

  // ---- one call, by the lane that has its key
  /// Runs or parks a call, or takes back a key.
  GRAVEL_DEVICE void apply(const here_type& here, const uint32_t* call, open_key& k) const {
    if constexpr (layout::nested) {
      if ((call[0] & layout::kind_mask) == layout::key_return) return advance(here, call, k);
      if (k.held) return park(call, k);
    }
    run(here, call, k);
  }
  GRAVEL_DEVICE void run(const here_type& here, const uint32_t* call, open_key& k) const {
    (run_if<Sections>(here, call, k), ...);
  }
  template <class S>
  GRAVEL_DEVICE void run_if(const here_type& here, const uint32_t* call, open_key& k) const {
    if (!is_of<S>(call)) return;
    if constexpr (section_traits<Record, S>::keys == 1) {
      answer<S>(here, call, [&] { return run_section<S, layout>(call, k.record()); });
      if constexpr (layout::nested) complete(here, call);
    } else {
      visit<S>(here, call, k);
    }
  }

  /// Is it a call of section S?
  template <class S>
  GRAVEL_DEVICE static bool is_of(const uint32_t* call) {
    return (call[0] & layout::kind_mask) == layout::template kind_of<S>();
  }
  /// Runs a call of section S that has arrived, like callers run theirs in place. False: it has not run.
  template <class S>
  GRAVEL_DEVICE bool run_arrived([[maybe_unused]] const gravel_t& g, [[maybe_unused]] const uint32_t* call) const {
    if constexpr (section_traits<Record, S>::keys == 1) {
      using in_place = section_in_place<S, layout>;
      typename in_place::answer_type answer;
      if (!is_of<S>(call) ||
          !in_place::template run_on<scope::device>(table.slots + (call[0] >> layout::bits), call, answer))
        return false;
      if constexpr (in_place::traits::answers) send_answer<layout, answerer::arrival>(g, call, answer.value);
      return true;
    }
    return false;
  }

  /// Runs `section`, and sends its answer to the caller if the section has one.
  template <class S, class F>
  GRAVEL_DEVICE static void answer([[maybe_unused]] const here_type& here, [[maybe_unused]] const uint32_t* call,
                                   const F& section) {
    if constexpr (section_traits<Record, S>::answers) send_answer<layout, answerer::service>(here.g, call, section());
    else section();
  }

  // ---- nested sections
  /// A nested call is at one of its keys, which no call holds. Holds the key and sends the call to its next key; or
  /// runs it, if this is its last key.
  template <class S>
  __device__ GRAVEL_NOINLINE void visit(const here_type& here, const uint32_t* call, open_key& k) const {
    constexpr uint32_t n = section_traits<Record, S>::keys;
    const uint32_t* const keys = call + layout::at_keys;
    const uint32_t mine = table.key_of(k.number);
    const uint32_t next = next_key<n>(keys, mine);
    if (next != mine) {
      message onward;
      for (uint32_t i = 0; i < layout::words; ++i) onward.word[i] = call[i];
      write_words(onward.word + layout::at_values + rank_of<n>(keys, mine) * layout::record_words, k.record());
      onward.word[0] = table.number_of(next) << layout::bits | layout::template kind_of<S>();
      k.held = true;
      return send(here, next, onward);
    }
    Record values[n];  // by rank of the key
    uint32_t at[n];
    const uint32_t last = rank_of<n>(keys, mine);
    for (uint32_t r = 0; r < last; ++r)
      values[r] = read_words<Record>(call + layout::at_values + r * layout::record_words);
    values[last] = k.record();
    for (uint32_t i = 0; i < n; ++i) at[i] = rank_of<n>(keys, keys[i]);
    answer<S>(here, call, [&] { return run_nested<S, layout>(call, values, at, std::make_index_sequence<n>()); });
    k.record() = values[last];
    for (uint32_t i = 0, returned = 0; i < n; ++i) {
      if (keys[i] == mine || (returned >> at[i] & 1)) continue;
      returned |= 1u << at[i];
      message back;
      for (uint32_t w = 0; w < layout::words; ++w) back.word[w] = 0;
      back.word[0] = table.number_of(keys[i]) << layout::bits | layout::key_return;
      write_words(back.word + layout::at_values, values[at[i]]);
      send(here, keys[i], back);
    }
    complete(here, call);
  }
  GRAVEL_DEVICE void send(const here_type& here, uint32_t key, const message& m) const {
    gravel_service_send(here.handle, static_cast<int>(table.pe_of(key)), table.block_of(table.number_of(key)), m);
  }
  /// A call is complete: its caller may use the room for another call.
  GRAVEL_DEVICE void complete(const here_type& here, const uint32_t* call) const {
    const uint32_t room = call[layout::at_ticket], pe = room / table.rooms.calls, place = room % table.rooms.calls;
    if (pe == table.my_pe) fetch_add_release<scope::device>(&table.rooms.done[place], 1u);  // [U2]
    else gravel_inc(here.g, &table.rooms.done[place], static_cast<int>(pe));
  }
  /// Parks a call, as the last one in the ring of those that wait for the key.
  GRAVEL_DEVICE void park(const uint32_t* call, open_key& k) const {
    const uint32_t room = call[layout::at_ticket];
    const auto& rooms = table.rooms;
    for (uint32_t i = 0; i < layout::words; ++i) rooms.parked[uint64_t{room} * layout::words + i] = call[i];
    if (k.parked == 0) {
      rooms.next[room] = room;
    } else {
      rooms.next[room] = rooms.next[k.parked - 1];
      rooms.next[k.parked - 1] = room;
    }
    k.parked = room + 1;
  }
  /// A key is returned, with its record. Runs the parked calls, until one of them holds the key.
  __device__ GRAVEL_NOINLINE void advance(const here_type& here, const uint32_t* call, open_key& k) const {
    k.record() = read_words<Record>(call + layout::at_values);
    k.held = false;
    while (k.parked && !k.held) {
      const auto& rooms = table.rooms;
      const uint32_t last = k.parked - 1, first = rooms.next[last];
      message waited;
      for (uint32_t i = 0; i < layout::words; ++i) waited.word[i] = rooms.parked[uint64_t{first} * layout::words + i];
      if (first == last) k.parked = 0;
      else rooms.next[last] = rooms.next[first];
      run(here, waited.word, k);  // from here on another call may use its room
    }
  }
};

}  // namespace gravel::detail
