// gravel::kmer_counter: how often each k-mer occurs in the reads of all PEs. The method is in kmer_kernels.cuh.
#pragma once
#include <exception>

#include "lib/reads/super_kmer_lists.cuh"

namespace gravel::detail {

/// Counts the k-mers of reads. A k-mer and its reverse complement are one. Each k-mer has an owner, one of the PEs,
/// which has its count. The program passes gravel::kmer_counter<...>::delivery to gravel_init.
/// @tparam NEIGHBOURS whether it also counts which bases stand beside each k-mer
/// @scope the program's host thread; collective: all PEs make the same calls in the same order
/// @completion on return
/// @errors gravel::error on all PEs
/// @source Roberts et al.: Reducing storage requirements for biological sequence comparison; KMC 2
template <bool NEIGHBOURS = false>
class kmer_counter {
 public:
  /// What the program passes to gravel_init: the handler that takes super-k-mers of other PEs.
  using delivery = take_super_kmer;

  /// Makes a counter, and its memory. Collective: all PEs pass the same k.
  /// @param k bases of a k-mer: odd, 1 to 31
  /// @param most_codes codes of this PE's reads, as far as known; with more of them, count() takes more memory
  /// @param how rooms; the same at all PEs
  /// @errors gravel::error on all PEs: a bad k, PEs that differ, too many PEs (most_pes), too little symmetric memory.
  ///   At one PE: too little device memory
  kmer_counter(uint32_t k, uint64_t most_codes, const kmer_counter_options& how = {})
      : open_("gravel::kmer_counter"), slot_bits_(how.slot_bits - NEIGHBOURS), lists_(checked(k), how) {
    words_ = device_array<uint64_t>(uint64_t{count_words});
    reserve(gravel_max_all(most_codes));
  }
  /// Frees the counter, unless an exception passes. Collective.
  ~kmer_counter() noexcept(false) {
    if (std::uncaught_exceptions() != exceptions_) return;
    lists_.release();
  }
  /// @internal
  kmer_counter(const kmer_counter&) = delete;
  kmer_counter& operator=(const kmer_counter&) = delete;

  /// Most PEs of a job that counts by minimizers.
  static constexpr uint32_t most_pes = kmer_kernel_shape::most_places;

  /// Counts the k-mers of all PEs' reads. It replaces the result of the last call. Collective: PEs may pass different
  /// reads, also none.
  /// @param codes [size], device memory: 0 to 3 for A, C, G and T, gravel::no_base between reads and for other letters;
  ///   as in gravel::read_set
  /// @param size number of codes of this PE
  /// @errors gravel::error on all PEs: more than 2^32 - 1 super-k-mers at one PE, or k-mers of one minimizer; as of the
  ///   constructor
  void count(const uint8_t* codes, uint64_t size) {
    reserve(gravel_max_all(size));
    lists_.fill(codes, size);
    count_kmers();
  }

  /// @return number of different k-mers that this PE owns
  uint64_t size() const { return size_; }
  /// @return the k-mers of this PE, as gravel::kmer_shape has them: [size()], device memory, in any order
  const uint64_t* kmers() const { return kmers_.data(); }
  /// @return how often each of them occurs: [size()], device memory
  const uint32_t* counts() const { return counts_.data(); }
  /// @return how often each base stands before each k-mer, in its canonical form: [size()], device memory; four
  ///   counters of 16 bits that stop at 65535, A in the lowest bits
  const uint64_t* before() const { return before_.data(); }
  /// @return as before(), of the bases behind each k-mer
  const uint64_t* after() const { return after_.data(); }
  /// Returns the owner of a k-mer.
  /// @param kmer in either form
  /// @param k its bases
  /// @param n_pes PEs of the job
  GRAVEL_BOTH static int owner(uint64_t kmer, uint32_t k, uint32_t n_pes) {
    if (n_pes == 1) return 0;
    return static_cast<int>(minimizer_place::of(minimizer_shape::of(k).minimizer(kmer), n_pes, 0, 0).pe);
  }

 private:
  using shape = kmer_kernel_shape;
  using slots = kmer_slots<NEIGHBOURS>;
  static constexpr uint64_t count_words = 2;

  /// Returns k, if a counter can be made.
  static uint32_t checked(uint32_t k) {
    if (gravel_min_all(k) != gravel_max_all(k))
      fail_text("gravel::kmer_counter: k is " + std::to_string(k) + " here, and another one at other PEs");
    if (k % 2 == 0 || k > longest_kmer)
      fail_text("gravel::kmer_counter: k is odd, from 1 to " + std::to_string(longest_kmer) + ", not " +
                std::to_string(k));
    if (static_cast<uint32_t>(gravel_n_pes()) > most_pes)
      fail_text("gravel::kmer_counter: " + std::to_string(gravel_n_pes()) + " PEs; at most " +
                std::to_string(most_pes));
    return k;
  }
  /// Takes memory for the reads of the PE that has most.
  void reserve(uint64_t codes) {
    lists_.reserve(codes);
    reserve_result(codes / 4 + 1024);
  }
  void reserve_result(uint64_t kmers) {
    if (kmers <= result_room_) return;
    result_room_ = 0;
    kmers_.release();
    counts_.release();
    before_.release();
    after_.release();
    kmers_ = device_array<uint64_t>(kmers);
    counts_ = device_array<uint32_t>(kmers);
    if (NEIGHBOURS) {
      before_ = device_array<uint64_t>(kmers);
      after_ = device_array<uint64_t>(kmers);
    }
    result_room_ = kmers;
  }
  /// Counts the k-mers of all rounds' lists. If the result finds no room, it is made once more.
  void count_kmers() {
    const device_array<kmer_round> rounds(lists_.rounds());
    const kmer_lists& layout = lists_.layout();
    const uint64_t bytes = slots::bytes(slot_bits_);
    uint64_t* const words = words_.data();
    auto* const next_list = reinterpret_cast<uint32_t*>(words + 1);
    for (;;) {
      clear_kmer_words(reinterpret_cast<uint32_t*>(words), 2 * count_words);
      const kmer_result result{kmers_.data(), counts_.data(), before_.data(), after_.data(),
                               words,         result_room_,   next_list + 1};
      start_kmer_kernel(count_lists<NEIGHBOURS>, kmer_grid(layout.lists(), bytes, shape::count_lanes),
                        shape::count_lanes, bytes, layout, rounds.data(), static_cast<uint32_t>(lists_.rounds().size()),
                        slot_bits_, result, next_list);
      uint64_t found[count_words];
      copy_behind_kernels(found, words, sizeof(found));
      size_ = found[0];
      if (gravel_max_all(found[1] >> 32) != 0)
        fail_text("gravel::kmer_counter: more than 2^32 - 1 k-mers may have one minimizer");
      if (gravel_max_all(uint64_t{size_ > result_room_}) == 0) return;
      reserve_result(size_);
    }
  }

  open_object open_;
  uint32_t slot_bits_;  ///< with neighbours a slot has more than twice the bytes, so there are half as many
  super_kmer_lists lists_;
  device_array<uint64_t> words_;  ///< different k-mers; the next list, and whether one is too long
  device_array<uint64_t> kmers_, before_, after_;
  device_array<uint32_t> counts_;
  uint64_t result_room_ = 0, size_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gravel::detail
