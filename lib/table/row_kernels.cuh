// Kernels of bulk calls on a table of rows: read rows by their ids, and update them.
//
// Problem. A row lies at any PE. Rows have 4 bytes to 64 KiB, and ids arrive in any order, also repeated.
//
// Solution. A warp reads a batch of rows by plain loads: its lanes find one row each, and then all lanes copy the units
// of all rows of the batch, several loads under way for each lane. Consecutive lanes write consecutive units of the
// result. Rows of owners whose memory is not mapped are staged before (row_requests.cuh). Updates go through the
// block's sender, by every route.
//
// A row that does not exist is reported, which ends the job. What is read for it is 0.
#pragma once
#include <algorithm>
#include <string>
#include <type_traits>

#include "host/launch_alone.cuh"
#include "lib/table/hot_absorber.cuh"
#include "lib/table/pair_updates.cuh"
#include "lib/table/rows_view.cuh"

namespace gravel::detail {

constexpr uint32_t row_lanes = 256;                 // of a block
constexpr uint32_t warps_of_rows = row_lanes / 32;  // of a block
constexpr uint32_t units_under_way = 8;             // loads of a lane that are under way
constexpr uint64_t most_row_bytes = uint64_t{1} << 16;

/// What the lanes of a warp copy at once: units of 4, 8 or 16 bytes.
struct alignas(16) row_unit_16 {
  uint64_t word[2];
};

/// Checks the bytes of a row. `what`: whose rows they are.
inline void check_row_bytes(const char* what, uint64_t bytes) {
  if (bytes < 4 || bytes > most_row_bytes || bytes % 4)
    fail_text(what + std::string(": rows of ") + std::to_string(bytes) + " bytes; a multiple of 4 from 4 to " +
              std::to_string(most_row_bytes) + " is possible");
}
/// Returns whether the PEs pass different values. Collective.
inline bool differs(uint64_t value) { return gravel_min_all(value) != gravel_max_all(value); }

/// Returns the blocks that a device can run at once.
inline uint64_t most_row_blocks() {
  const uint64_t processors = current_backend().multiprocessors();
  return processors ? processors * 8 : 2;
}
/// Returns the blocks of a call by messages, or of one that reads memory of the host.
inline uint64_t message_row_blocks() { return std::max<uint64_t>(current_backend().multiprocessors() / 2, 2); }

/// Returns whether the table has the row, and reports it if not.
GRAVEL_DEVICE bool check_row(const gravel_t& g, const rows_view& table, uint64_t row, uint64_t place) {
  if (table.has(row)) return true;
  const uint64_t shown = place < ~0u ? place : ~0u;
  report_error(g, message_fault::bad_row, op::none, static_cast<uint32_t>(shown), row, table.dealing.rows());
  return false;
}

/// Rows of other PEs that are kept here, and the places where a row is found: a hash table with open addressing.
struct row_cache_view {
  static constexpr uint64_t no_row = ~uint64_t{0};
  static constexpr uint32_t slot_bits = 24;
  const char* rows;        ///< [slot][row_bytes]
  const uint64_t* places;  ///< [mask + 1]: row << slot_bits | slot, or no_row; nullptr: no row is kept
  uint64_t mask;           ///< one less than a power of 2; there is a place with no_row

  GRAVEL_BOTH static uint64_t first_place(uint64_t row) { return row * 0x9E3779B97F4A7C15u >> 32; }
  /// Returns a row that is kept here; nullptr if it is not. The index of its id does not matter.
  template <class T>
  GRAVEL_DEVICE const T* find(uint64_t, uint64_t row, uint64_t row_bytes) const {
    if (!places) return nullptr;
    for (uint64_t at = first_place(row);; ++at) {
      const uint64_t place = places[at & mask];
      if (place == no_row) return nullptr;
      if (place >> slot_bits == row)
        return reinterpret_cast<const T*>(rows + (place & ((1u << slot_bits) - 1)) * row_bytes);
    }
  }
};
/// No cache.
struct no_row_cache {};

/// Rows of a batch of a warp: enough for all loads of its lanes, and not so many that other warps have none.
inline uint32_t batch_of(uint64_t rows, uint64_t units_of_row, uint64_t warps) {
  const uint64_t enough = std::clamp<uint64_t>(32 * units_under_way / units_of_row, 1, 32);
  return static_cast<uint32_t>(std::clamp<uint64_t>(rows / std::max<uint64_t>(warps, 1), 1, enough));
}

/// out[i] = row ids[i], for i below n. `held`: where rows of other PEs are looked for first; rows that it does not have
/// are mapped. `before`: ids of the call in front of these.
template <class Unit, class Id, class Held>
__global__ void __launch_bounds__(row_lanes)
    gather_rows(const __grid_constant__ gravel_t g, const __grid_constant__ rows_view table,
                const __grid_constant__ Held held, Unit* out, const Id* ids, uint64_t n, uint32_t batch,
                uint64_t before) {
  __shared__ mapped_sender others;
  others.begin(g);
  const uint32_t lane = threadIdx.x % 32;
  const auto units = static_cast<uint32_t>(table.row_bytes / sizeof(Unit));
  // at / units = at * inverse >> 32: right for the at below 2^16 and units up to 2^14 that there are.
  const uint64_t inverse = (uint64_t{1} << 32) / units + 1;
  const uint64_t step = uint64_t{gridDim.x} * warps_of_rows * batch;
  for (uint64_t first = (uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32) * batch; first < n; first += step) {
    const auto rows = static_cast<uint32_t>(n - first < batch ? n - first : batch);
    const Unit* row = nullptr;
    if (lane < rows) {
      const auto id = static_cast<uint64_t>(ids[first + lane]);
      if (check_row(g, table, id, before + first + lane)) {
        if constexpr (!std::is_same_v<Held, no_row_cache>)
          if (table.owner(id) != static_cast<int>(g.my_pe))
            row = held.template find<Unit>(first + lane, id, table.row_bytes);
        if (!row) row = table.mapped<Unit>(others, id);
      }
    }
    const uint32_t all = rows * units;
    Unit* const to = out + first * units;
    for (uint32_t begin = 0; begin < all; begin += 32 * units_under_way) {
      Unit values[units_under_way] = {};
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < units_under_way; ++k) {
        const uint32_t at = begin + k * 32 + lane;
        const uint32_t which = at < all ? static_cast<uint32_t>(at * inverse >> 32) : 0;
        const auto* const from = reinterpret_cast<const Unit*>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), static_cast<int>(which)));
        if (at < all && from) values[k] = from[at - which * units];
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < units_under_way; ++k) {
        const uint32_t at = begin + k * 32 + lane;
        if (at < all) to[at] = values[k];
      }
    }
  }
}

/// What a bulk call does to the elements of rows.
enum class row_update { put, add, min, max, count };

/// The reduction that an update of elements of 16 bits is.
GRAVEL_BOTH constexpr gravel_reduction reduction_of(row_update how) {
  if (how == row_update::add) return GRAVEL_SUM;
  return how == row_update::min ? GRAVEL_MIN : GRAVEL_MAX;
}
/// Rows of at least this many bytes are written and added to in the owner's memory, if it is mapped. Neighbouring lanes
/// have neighbouring words of such a row, so the link carries them together, without addresses. Words of small rows go
/// in messages: the link carries more of these.
constexpr uint64_t direct_row_bytes = 64;
template <row_update HOW, class T>
constexpr bool may_be_direct = (HOW == row_update::put || HOW == row_update::add) && !is_of_16_bits<T>;

/// What one lane updates at once: an element, or a word with a pair of elements of 16 bits.
template <class T>
using update_unit = std::conditional_t<is_of_16_bits<T>, uint32_t, T>;

/// True if hot words of such an update can be absorbed in shared memory.
template <row_update HOW, class T>
constexpr bool is_absorbed = HOW == row_update::add || HOW == row_update::count;
/// What is added up for a hot word.
template <class T>
using absorbed_sum = std::conditional_t<is_of_16_bits<T>, pair_sum, T>;
template <class T>
GRAVEL_BOTH absorbed_sum<T> sum_of_unit(update_unit<T> unit) {
  if constexpr (is_of_16_bits<T>) return pair_sum::of<T>(unit);
  else return unit;
}
template <class T>
GRAVEL_BOTH update_unit<T> unit_of_sum(const absorbed_sum<T>& sum) {
  if constexpr (is_of_16_bits<T>) return sum.template rounded<T>();
  else return sum;
}

/// Updates row ids[i] by values[i], unit by unit, for i below n. `count` adds 1, and `values` is not used. Sender: a
/// gravel_block_sender, or a mapped_sender if the update may be direct. `hot_slots`: of hot_absorber, which has dynamic
/// shared memory for them; not for a mapped_sender.
template <row_update HOW, class T, class Sender, class Id>
__global__ void __launch_bounds__(row_lanes)
    update_rows(gravel_t g, rows_view table, divisor units, const update_unit<T>* values, const Id* ids, uint64_t n,
                [[maybe_unused]] uint32_t hot_slots) {
  __shared__ Sender sender;
  sender.begin(g);
  const uint64_t all = n * (table.row_bytes / sizeof(*values));
  const bool is_one = table.row_bytes == sizeof(*values);
  // Calls update(row, number of the unit in the row, index of its value) for each unit that is this lane's.
  const auto each = [&](auto update) {
    for (uint64_t i = uint64_t{blockIdx.x} * row_lanes + threadIdx.x; i < all; i += uint64_t{gridDim.x} * row_lanes) {
      const uint64_t place = is_one ? i : units.quotient(i);
      const auto id = static_cast<uint64_t>(ids[place]);
      if (check_row(g, table, id, place)) update(id, is_one ? 0 : i - place * units.value(), i);
    }
  };
  const auto send = [&](uint64_t id, uint64_t unit, update_unit<T> value) {
    auto* const to = table.symmetric<update_unit<T>>(id) + unit;
    const int pe = table.owner(id);
    if constexpr (HOW == row_update::put) sender.put(to, value, pe);
    else if constexpr (is_of_16_bits<T>) update_pair<reduction_of(HOW), T>(sender, g, to, value, pe);
    else if constexpr (HOW == row_update::min) sender.min(to, value, pe);
    else if constexpr (HOW == row_update::max) sender.max(to, value, pe);
    else sender.add(to, value, pe);
  };
  if constexpr (is_absorbed<HOW, T> && !std::is_same_v<Sender, mapped_sender>) {
    using absorber = hot_absorber<sizeof(uint64_t), absorbed_sum<T>>;
    using key_words = typename absorber::key_type;
    using value_words = typename absorber::value_type;
    absorber hot(hot_slots);
    hot.begin();
    each([&](uint64_t id, uint64_t unit, uint64_t i) {
      const key_words key{{is_one ? id : id * units.value() + unit}};
      if constexpr (HOW == row_update::count) {
        if (!hot.absorb(key, __builtin_bit_cast(value_words, T{1})))
          sender.inc(table.symmetric<T>(id) + unit, table.owner(id));
      } else {
        const update_unit<T> value = values[i];
        if (!hot.absorb(key, __builtin_bit_cast(value_words, sum_of_unit<T>(value)))) send(id, unit, value);
      }
    });
    hot.end([&](const key_words& key, const value_words& value) {
      const uint64_t id = is_one ? key.word[0] : units.quotient(key.word[0]);
      send(id, is_one ? 0 : key.word[0] - id * units.value(),
           unit_of_sum<T>(__builtin_bit_cast(absorbed_sum<T>, value)));
    });
  } else {
    each([&](uint64_t id, uint64_t unit, uint64_t i) { send(id, unit, values[i]); });
  }
  sender.end();
}

}  // namespace gravel::detail
