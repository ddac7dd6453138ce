// Super-k-mers of all PEs' reads, in lists at their owners: the memory, and the launches. The protocol is in
// kmer_kernels.cuh.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "host/device_array.hpp"
#include "host/mapped_rendezvous.cuh"
#include "lib/reads/kmer_kernels.cuh"

namespace gravel::detail {

/// How a kmer_counter uses its memory.
struct kmer_counter_options {
  /// A list of super-k-mers has about so many k-mers. If many of them are different, it is read several times.
  uint32_t kmers_of_list = GRAVEL_CUDA ? 8192 : 256;
  /// Logarithm of the slots of a table in shared memory; with neighbours there are half as many.
  uint32_t slot_bits = GRAVEL_CUDA ? 12 : 7;
  /// Bytes of the symmetric heap that super-k-mers of other PEs may take at each PE. If they need more, they come in
  /// several rounds.
  uint64_t most_inbox_bytes = GRAVEL_CUDA ? uint64_t{1} << 30 : uint64_t{1} << 18;
};

/// Starts a kernel of a kmer_counter.
template <class... P, class... A>
void start_kmer_kernel(void (*kernel)(P...), uint64_t blocks, uint32_t lanes, uint64_t shared_bytes, A... arguments) {
  launch_alone(kernel, gravel_launch_config{static_cast<unsigned>(blocks), lanes, shared_bytes}, arguments...);
}
/// Returns a number of blocks: up to `most`, and as many as a device runs at once.
inline uint64_t kmer_grid(uint64_t most, uint64_t shared_bytes, uint32_t lanes) {
  const uint64_t processors = current_backend().multiprocessors();
  if (processors == 0) return std::min<uint64_t>(most, 2);
  const uint64_t of_processor = std::min<uint64_t>(2048 / lanes, (227 << 10) / (shared_bytes + 5120));
  return std::min(most, processors * std::max<uint64_t>(of_processor, 1));
}
inline void clear_kmer_words(uint32_t* words, uint64_t count) {
  start_kmer_kernel(clear_words<>, kmer_grid(count / map_lanes + 1, 0, map_lanes), map_lanes, 0, words, count);
}

/// The super-k-mers of all PEs' reads, in lists at their owners. All calls are collective.
class super_kmer_lists {
 public:
  super_kmer_lists(uint32_t k, const kmer_counter_options& how)
      : how_(how), mapped_(all_are_mapped()), rendezvous_(mapped_) {
    lists_.shape = minimizer_shape::of(k);
    lists_.n_pes = static_cast<uint32_t>(gravel_n_pes());
  }
  super_kmer_lists(const super_kmer_lists&) = delete;
  super_kmer_lists& operator=(const super_kmer_lists&) = delete;
  /// Frees the memory.
  void release() {
    rendezvous_.release();
    if (symmetric_) gravel_free(symmetric_);
    symmetric_ = nullptr;
  }

  /// Lays out bins and lists for so many codes at the PE that has most, and takes memory for them.
  void reserve(uint64_t codes) {
    if (codes <= reserved_ && symmetric_) return;
    reserved_ = codes;
    const uint32_t pes = lists_.n_pes;
    uint32_t bits = 0, most_bin_bits = 0;
    while (codes >> bits > how_.kmers_of_list) ++bits;
    while (uint64_t{pes} << (most_bin_bits + 1) <= shape::most_places) ++most_bin_bits;
    lists_.bin_bits = std::min(bits, most_bin_bits);
    lists_.list_bits = std::min(bits - lists_.bin_bits, shape::most_list_bits);
    lists_.sources = mapped_ ? pes : 1;
    // Mostly, eight or more places of the reads have one super-k-mer.
    const uint64_t likely = codes / 8 + uint64_t{lists_.places()} * 64 + shape::positions;
    lists_.region = pes == 1 || !mapped_ ? likely : std::min(likely, how_.most_inbox_bytes / sizeof(super_kmer)) / pes;
    lists_.region = std::min(std::max<uint64_t>(lists_.region, shape::positions), most_records);
    const uint64_t items = mapped_ ? lists_.sources * lists_.region : 0,
                   bins = uint64_t{lists_.sources} << lists_.bin_bits;
    if (symmetric_) gravel_free(symmetric_);
    symmetric_ = nullptr;
    symmetric_ = gravel_malloc<char>((pes == 1 ? 0 : items * sizeof(super_kmer)) + 2 * bins * sizeof(uint32_t) + 16);
    lists_.inbox = reinterpret_cast<super_kmer*>(symmetric_);
    if (pes == 1) reserve_inbox(items);
    lists_.arrived_begins = reinterpret_cast<uint32_t*>(symmetric_ + (pes == 1 ? 0 : items * sizeof(super_kmer)));
    lists_.arrived = lists_.arrived_begins + bins;
    place_words_ = device_array<uint32_t>(uint64_t{3} * lists_.places());
    lists_.begins = place_words_.data();
    lists_.rooms = lists_.begins + lists_.places();
    lists_.tails = lists_.rooms + lists_.places();
    if (filled_.empty()) filled_.emplace_back();
    reserve_round(filled_[0], likely);
    for (filled_round& round : filled_) round.ends.release();
  }
  /// Fills the lists with the super-k-mers of all PEs' reads.
  void fill(const uint8_t* codes, uint64_t size) {
    rounds_.clear();
    const uint64_t tiles = (size + shape::positions - 1) / shape::positions;
    for (uint64_t done = 0; gravel_max_all(tiles - done) != 0;) {
      done += mapped_ ? deal(codes, size, done, tiles - done) : send(codes, size, done, tiles - done);
      take();
    }
  }
  const kmer_lists& layout() const { return lists_; }
  /// The lists of each round.
  const std::vector<kmer_round>& rounds() const { return rounds_; }

 private:
  using shape = kmer_kernel_shape;
  static constexpr uint64_t most_records = ~uint32_t{0};

  /// Super-k-mers of a round, in lists.
  struct filled_round {
    device_array<super_kmer> items;
    uint64_t room = 0;
    device_array<uint32_t> ends;
  };

  void reserve_inbox(uint64_t items) {
    if (items > own_inbox_room_) {
      own_inbox_.release();
      own_inbox_ = device_array<super_kmer>(items);
      own_inbox_room_ = items;
    }
    lists_.inbox = own_inbox_.data();
    lists_.region = own_inbox_room_;
  }
  void reserve_round(filled_round& round, uint64_t items) {
    if (items > round.room) {
      round.items.release();
      round.items = device_array<super_kmer>(items);
      round.room = items;
    }
  }
  /// Counts the super-k-mers of each place in some tiles, or in each step-th of them.
  std::vector<uint32_t> count_places(const uint8_t* codes, uint64_t size, uint64_t first, uint64_t tiles,
                                     uint64_t step) {
    clear_kmer_words(lists_.tails, lists_.places());
    if (tiles != 0)
      start_kmer_kernel(count_super_kmers<>, kmer_grid(tiles / step + 1, 0, shape::lanes), shape::lanes, 0, lists_,
                        codes, size, first * shape::positions, tiles, step);
    return places_of(lists_.tails);
  }
  std::vector<uint32_t> places_of(const uint32_t* words) const {
    std::vector<uint32_t> found(lists_.places());
    copy_behind_kernels(found.data(), words, found.size() * sizeof(uint32_t));
    return found;
  }
  /// Gives each place its room. False: the region of an owner is too small.
  bool lay_out(const std::vector<uint64_t>& rooms) {
    std::vector<uint32_t> words(2 * rooms.size());
    for (size_t pe = 0; pe < lists_.n_pes; ++pe) {
      uint64_t next = 0;
      for (size_t place = pe << lists_.bin_bits; place < (pe + 1) << lists_.bin_bits; ++place) {
        words[place] = static_cast<uint32_t>(next);
        words[rooms.size() + place] = static_cast<uint32_t>(rooms[place]);
        next += rooms[place];
        if (next > lists_.region) return false;
      }
    }
    gravel_copy(lists_.begins, words.data(), words.size() * sizeof(uint32_t));
    return true;
  }
  /// Deals the super-k-mers of up to `tiles` tiles to their owners. Returns the number of tiles.
  uint64_t deal(const uint8_t* codes, uint64_t size, uint64_t first, uint64_t tiles) {
    constexpr uint64_t sample = GRAVEL_CUDA ? 32 : 3, least_tiles = GRAVEL_CUDA ? 8192 : 12;
    std::vector<uint64_t> rooms(lists_.places());
    for (bool is_exact = false;;) {
      const uint64_t step = is_exact || tiles < least_tiles ? 1 : sample;
      const std::vector<uint32_t> counted = count_places(codes, size, first, tiles, step);
      for (size_t i = 0; i < rooms.size(); ++i)
        rooms[i] = step == 1 ? counted[i] : uint64_t{counted[i]} * step * 9 / 8 + 16 * step;
      if (!lay_out(rooms)) {
        if (lists_.n_pes == 1) {
          uint64_t all = 0;
          for (const uint64_t room : rooms) all += room;
          if (all > most_records)
            fail_text("gravel::kmer_counter: more than 2^32 - 1 super-k-mers at one PE; use more PEs");
          reserve_inbox(all);
        } else tiles = (tiles + 1) / 2;  // a region has room for a tile
        continue;
      }
      clear_kmer_words(lists_.tails, lists_.places());
      const uint32_t bytes = super_kmer_tile::bytes(lists_.places());
      if (tiles != 0)
        start_kmer_kernel(deal_super_kmers<>, kmer_grid(tiles, bytes, shape::lanes), shape::lanes, bytes,
                          gravel_handle(), lists_, codes, size, first * shape::positions, tiles);
      if (step == 1) break;
      const std::vector<uint32_t> dealt = places_of(lists_.tails);
      is_exact = false;
      for (size_t i = 0; i < rooms.size(); ++i) is_exact |= dealt[i] > rooms[i];
      if (!is_exact) break;
    }
    start_kmer_kernel(notify_bin_owners<>, kmer_grid(lists_.places() / map_lanes + 1, 0, map_lanes), map_lanes, 0,
                      gravel_handle(), lists_);
    rendezvous_.round();
    return tiles;
  }
  /// Sends the super-k-mers of `tiles` tiles to their owners, by messages. Returns the number of tiles.
  uint64_t send(const uint8_t* codes, uint64_t size, uint64_t first, uint64_t tiles) {
    const std::vector<uint32_t> mine = count_places(codes, size, first, tiles, 1);
    std::vector<uint64_t> all(mine.begin(), mine.end());
    gravel_sum_all(all.data(), all.data(), all.size());
    std::vector<uint32_t> begins(lists_.bins());
    uint64_t next = 0;
    for (uint32_t bin = 0; bin < lists_.bins(); ++bin) {
      begins[bin] = static_cast<uint32_t>(next);
      next += all[(static_cast<size_t>(gravel_my_pe()) << lists_.bin_bits) + bin];
    }
    if (gravel_max_all(next) > most_records)
      fail_text("gravel::kmer_counter: more than 2^32 - 1 super-k-mers at one PE; use more PEs");
    reserve_inbox(next);
    gravel_copy(lists_.arrived_begins, begins.data(), begins.size() * sizeof(uint32_t));
    clear_kmer_words(lists_.arrived, lists_.bins());
    gravel_synchronize();
    device_array<kmer_lists> context(std::vector<kmer_lists>{lists_});
    gravel_set_context<take_super_kmer>(context.data());
    gravel_barrier_all();
    const uint64_t processors = current_backend().multiprocessors(), most = processors ? 4 * processors : 2;
    if (tiles != 0)
      gravel_launch(send_super_kmers<>, static_cast<unsigned>(std::min(tiles, most)), shape::send_lanes,
                    gravel_handle(), lists_, codes, size, first * shape::positions, tiles);
    gravel_barrier_all();
    return tiles;
  }
  /// Fills the lists of a round with the super-k-mers that have come.
  void take() {
    std::vector<uint32_t> arrived(uint64_t{lists_.sources} << lists_.bin_bits);
    copy_behind_kernels(arrived.data(), lists_.arrived, arrived.size() * sizeof(uint32_t));
    uint64_t all = 0;
    uint32_t most = 0;
    for (const uint32_t count : arrived) {
      all += count;
      most = std::max(most, count);
    }
    if (gravel_max_all(all) > most_records)
      fail_text("gravel::kmer_counter: more than 2^32 - 1 super-k-mers at one PE; use more PEs");
    if (rounds_.size() == filled_.size()) filled_.emplace_back();
    filled_round& round = filled_[rounds_.size()];
    reserve_round(round, all);
    if (!round.ends.data()) round.ends = device_array<uint32_t>(uint64_t{lists_.lists()});
    clear_kmer_words(round.ends.data(), lists_.lists());
    const uint64_t pieces = arrived.size() * (most / super_kmer_tile::items + 1);
    start_kmer_kernel(count_list_sizes<>, kmer_grid(pieces, 0, shape::lanes), shape::lanes, 0, lists_, most,
                      round.ends.data());
    start_kmer_kernel(place_lists<>, 1, shape::scan_lanes, 0, round.ends.data(), lists_.lists());
    const uint32_t bytes = super_kmer_tile::bytes(1u << lists_.list_bits);
    start_kmer_kernel(fill_lists<>, kmer_grid(pieces, bytes, shape::lanes), shape::lanes, bytes, lists_, most,
                      round.items.data(), round.ends.data());
    if (mapped_) rendezvous_.round();
    rounds_.push_back({round.items.data(), round.ends.data()});
  }

  kmer_counter_options how_;
  bool mapped_;
  mapped_rendezvous rendezvous_;
  kmer_lists lists_{};
  uint64_t reserved_ = 0;               ///< codes for which there is room
  char* symmetric_ = nullptr;           ///< inbox, arrived_begins, arrived
  device_array<super_kmer> own_inbox_;  ///< where no other PE stores
  uint64_t own_inbox_room_ = 0;
  device_array<uint32_t> place_words_;
  std::vector<filled_round> filled_;  ///< memory of rounds, more of them than rounds_ if an earlier call had more
  std::vector<kmer_round> rounds_;
};

}  // namespace gravel::detail
