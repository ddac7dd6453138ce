// gravel::row_cache: the rows of other PEs that are read most often, kept in this PE's memory.
#pragma once
#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gravel/device_array.hpp>
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
  /// @param room rows that are kept at most, below 2^24. They take row_bytes() and 16 to 32 bytes each, outside the
  ///   symmetric heap
  /// @errors gravel::error: more rows than are possible, or too little memory
  row_cache(rows& table, uint64_t room) : table_(table), room_(room) {
    if (room >= uint64_t{1} << row_cache_view::slot_bits || table.count() >> (64 - row_cache_view::slot_bits))
      fail_text("gravel::row_cache: room for " + std::to_string(room) + " of " + std::to_string(table.count()) +
                " rows; less than 2^24 of up to 2^40 rows is possible");
    kept_ = device_array<char>(room * table.row_bytes());
    places_ = device_array<uint64_t>(places());
  }
  /// @internal
  row_cache(const row_cache&) = delete;
  row_cache& operator=(const row_cache&) = delete;

  /// Replaces what is kept: counts a sample of up to 65,536 ids, and keeps those rows of other PEs that occur most
  /// often, if they occur at least twice. All messages that change these rows must be complete
  /// (gravel_barrier_all). Rows that do not exist are left out.
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes
  /// @param n number of ids
  /// @param stream the stream in which the ids come to be; nullptr: the PE's own
  /// @completion on return: the host waits for this PE's kernels, and counts the sample
  template <class Id>
  void fill(const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::check_id<Id>();
    const std::vector<uint64_t> hottest = choose(sample(ids, n, stream));
    size_ = 0;
    if (hottest.empty()) return;
    const device_array<uint64_t> chosen(hottest);
    table_.gather(kept_.data(), chosen.data(), hottest.size());
    std::vector<uint64_t> table(places(), row_cache_view::no_row);
    for (size_t slot = 0; slot < hottest.size(); ++slot) {
      uint64_t at = row_cache_view::first_place(hottest[slot]) % table.size();
      while (table[at] != row_cache_view::no_row) at = (at + 1) % table.size();
      table[at] = hottest[slot] << row_cache_view::slot_bits | slot;
    }
    gravel_copy(places_.data(), table.data(), table.size() * sizeof(uint64_t));
    gravel_synchronize();
    size_ = hottest.size();
  }
  /// Forgets all rows. Calls of gather() from now on read them where they lie. Call it before rows that are kept here
  /// may be written, such as before the barrier behind which others write.
  void invalidate() { size_ = 0; }
  /// @return number of rows that are kept
  uint64_t size() const { return size_; }

  /// Reads rows, as rows::gather() does, those that are kept from this PE's memory.
  /// @param out [n][row_bytes], device memory, aligned to 4 bytes; larger alignments are faster
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes, below rows::count(); repeated ones too
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @completion as of rows::gather()
  /// @errors a row that does not exist ends the job with a message
  template <class Id>
  void gather(void* out, const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    if (size_ == 0) return table_.gather(out, ids, n, stream);
    table_.gather_through(row_cache_view{kept_.data(), places_.data(), places() - 1}, out, ids, n, stream);
  }

 private:
  static constexpr uint64_t most_sampled = uint64_t{1} << 16;
  /// Places of the hash table: half of them stay empty at least.
  uint64_t places() const { return std::bit_ceil(2 * std::max<uint64_t>(room_, 1)); }

  template <class Id>
  static std::vector<uint64_t> sample(const Id* ids, uint64_t n, gravel_stream_t stream) {
    const uint64_t count = std::min(n, most_sampled);
    std::vector<uint64_t> sampled(count);
    if (count != 0) {
      device_array<uint64_t> on_device(count);
      gravel_launch_config how{static_cast<unsigned>((count + row_lanes - 1) / row_lanes), row_lanes};
      how.stream = stream;
      launch_alone(sample_ids<Id>, how, on_device.data(), count, ids, n / count);
      gravel_stream_synchronize(stream);
      gravel_copy(sampled.data(), on_device.data(), count * sizeof(uint64_t));
    }
    gravel_synchronize();  // gathers of other streams may read what is kept
    return sampled;
  }
  /// Returns the rows of other PEs that occur most often, at least twice: the most frequent first, then by number.
  std::vector<uint64_t> choose(const std::vector<uint64_t>& ids) const {
    std::unordered_map<uint64_t, uint64_t> times;
    for (const uint64_t id : ids)
      if (table_.view().has(id) && table_.view().owner(id) != gravel_my_pe()) ++times[id];
    std::vector<std::pair<uint64_t, uint64_t>> found;
    for (const auto& [id, count] : times)
      if (count > 1) found.emplace_back(~count, id);
    std::sort(found.begin(), found.end());
    if (found.size() > room_) found.resize(room_);
    std::vector<uint64_t> chosen;
    for (const auto& [order, id] : found) chosen.push_back(id);
    return chosen;
  }

  rows& table_;
  uint64_t room_, size_ = 0;
  device_array<char> kept_;
  device_array<uint64_t> places_;
};

}  // namespace gravel::detail
