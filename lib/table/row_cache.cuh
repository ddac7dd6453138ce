// gravel::row_cache: the rows of other PEs that are read most often, kept in this PE's memory.
#pragma once
#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include <gravel/device_array.hpp>
#include "lib/table/hot_rows.cuh"
#include "lib/table/rows.cuh"

namespace gravel::detail {

/// Keeps rows of other PEs here, for reads by ids of which few occur often. A call of fill() looks at ids, and keeps
/// the rows that occur most often among them. Nobody may write to rows that a PE keeps, until that PE calls
/// invalidate().
/// @scope the program's host thread of any PE; not collective
/// @completion on return, unless a call says otherwise
/// @errors gravel::error
/// @source HugeCTR: the embedding cache
class row_cache {
 public:
  /// Makes an empty cache.
  /// @param table whose rows are kept; it must exist as long as the cache
  /// @param room rows that are kept at most, below 2^24. They take row_bytes() and up to 550 bytes each, and 1.1 MB in
  ///   all, outside the symmetric heap
  /// @errors gravel::error: more rows than are possible, or too little memory
  row_cache(rows& table, uint64_t room)
      : table_(table), room_(room), sample_(std::clamp(32 * room, least_sampled, most_sampled)) {
    if (room >= uint64_t{1} << row_cache_view::slot_bits || table.count() >> (64 - row_cache_view::slot_bits))
      fail_text("gravel::row_cache: room for " + std::to_string(room) + " of " + std::to_string(table.count()) +
                " rows; less than 2^24 of up to 2^40 rows is possible");
    kept_ = device_array<char>(room * table.row_bytes());
    places_ = device_array<uint64_t>(places());
    counts_ = device_array<uint64_t>(std::bit_ceil(2 * sample_));
    chosen_ = device_array<uint64_t>(room);
    small_ = device_array<uint32_t>(count_bins::count + 3);
  }
  /// @internal
  row_cache(const row_cache&) = delete;
  row_cache& operator=(const row_cache&) = delete;

  /// Replaces what is kept: counts a sample of the ids on the device, and keeps those rows of other PEs that occur most
  /// often, if they occur at least twice. The sample has 32 ids for each row that there is room for, but 65,536 to
  /// 2,097,152 in all. All messages that change these rows must be complete (gravel_barrier_all). Rows that do not
  /// exist are left out.
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @completion in the stream. The host waits for this PE's kernels if another call of this object was in another
  ///   stream since the last fill()
  template <class Id>
  void fill(const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::check_id<Id>();
    if (is_in_others_ || (stream_ && *stream_ != stream)) gravel_synchronize();
    is_in_others_ = false;
    stream_ = stream;
    const uint64_t count = std::min(n, sample_);
    // No more rows than these can occur twice.
    const uint64_t most = std::min(room_, count / hot_row_memory::least_times);
    is_filled_ = most != 0 && table_.count() != 0;
    if (!is_filled_) return;
    uint32_t* const words = small_.data() + count_bins::count;
    const hot_row_memory memory{counts_.data(), std::bit_ceil(2 * count) - 1, small_.data(), words, words + 2,
                                chosen_.data(), static_cast<uint32_t>(most)};
    const uint64_t other = table_.local_count() ? table_.local_first() : 0;
    start(clear_counts<>, memory.mask + 1, stream, memory, places_.data(), places(), other);
    start(count_ids<Id>, count, stream, memory, table_.view(), gravel_my_pe(), ids, count, n / count);
    start(count_counts<>, memory.mask + 1, stream, memory);
    start(choose_bin<>, 1, stream, memory);
    start(keep_hot_rows<>, memory.mask + 1, stream, memory, places_.data(), places() - 1);
    table_.gather(kept_.data(), chosen_.data(), most, stream);
  }
  /// Forgets all rows. Calls of gather() from now on read them where they lie. Call it before rows that are kept here
  /// may be written, such as before the barrier behind which others write.
  void invalidate() { is_filled_ = false; }
  /// Waits for this PE's kernels, and reads how many rows fill() has kept.
  /// @return number of rows that are kept
  uint64_t size() {
    if (!is_filled_) return 0;
    gravel_synchronize();  // not of the stream, which may be gone
    uint32_t given = 0;
    gravel_copy(&given, small_.data() + count_bins::count + 1, sizeof(given));
    return std::min<uint64_t>(given, room_);
  }

  /// Reads rows, as rows::gather() does, those that are kept from this PE's memory.
  /// @param out [n][row_bytes], device memory, aligned to 4 bytes; larger alignments are faster
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes, below rows::count(); repeated ones too
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream. If fill() was in another one, the host once waits for this PE's
  ///   kernels
  /// @completion as of rows::gather()
  /// @errors a row that does not exist ends the job with a message
  template <class Id>
  void gather(void* out, const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    if (!is_filled_) return table_.gather(out, ids, n, stream);
    if (*stream_ != stream && !is_in_others_) {
      gravel_synchronize();  // not of the stream, which may be gone
      is_in_others_ = true;
    }
    table_.gather_through(row_cache_view{kept_.data(), places_.data(), places() - 1}, out, ids, n, stream);
  }

 private:
  static constexpr uint64_t least_sampled = uint64_t{1} << 16, most_sampled = uint64_t{1} << 21;
  /// Places of the hash table: half of them stay empty at least.
  uint64_t places() const { return std::bit_ceil(2 * std::max<uint64_t>(room_, 1)); }
  /// Starts a kernel for `work` pieces of work, one for each lane, or more.
  template <class... P, class... A>
  static void start(void (*kernel)(P...), uint64_t work, gravel_stream_t stream, A... arguments) {
    const uint64_t blocks = std::min((work + row_lanes - 1) / row_lanes, most_row_blocks());
    gravel_launch_config how{static_cast<unsigned>(blocks), row_lanes};
    how.stream = stream;
    launch_alone(kernel, how, arguments...);
  }

  rows& table_;
  uint64_t room_, sample_;  ///< rows that are kept, and ids that are counted, at most
  bool is_filled_ = false;
  std::optional<gravel_stream_t> stream_;  ///< of the last fill()
  bool is_in_others_ = false;              ///< calls in other streams have followed it, which have seen its result
  device_array<char> kept_;
  device_array<uint64_t> places_, counts_, chosen_;
  device_array<uint32_t> small_;  ///< words of hot_row_memory
};

}  // namespace gravel::detail
