// A rendezvous of all PEs between kernels.
//
// Problem. The next kernels of a PE may need what the other PEs' kernels have sent, or what they have found. Hosts
// shall not wait for kernels or for each other to ensure that.
//
// Solution. If all PEs have each other's memory mapped, a small kernel in the stream does it, behind the kernels before
// it. Otherwise hosts use a barrier and a collective.
//
// Protocol:
//
//   kernel of rendezvous k at this PE                        at every other PE
//   its words into each PE's table of k % 2
//   k into its word at each PE                   [Y1] release   sees k or more in the words of all PEs     [Y1] acquire
//
// Invariant: all rendezvous are in one stream, so a PE that is in rendezvous k + 1 has left rendezvous k. A table is
// written again when its PE has come to the next rendezvous. The host starts that after it has read the table, or
// behind a kernel that reads it. The model is test/models/mapped_rendezvous.pml.
#pragma once
#include <vector>

#include "device/watched_wait.cuh"
#include "host/device_array.hpp"
#include "host/mapped_sender.cuh"
#include "host/pe/collectives.hpp"

namespace gravel::detail {

struct rendezvous_memory {
  static constexpr uint32_t most_words = 5;
  uint64_t* came;    ///< symmetric [PE]: the last rendezvous to which each PE has come; that PE writes it
  uint64_t* tables;  ///< symmetric [2][PE][most_words]
};

/// Contributes words[0 .. count) and waits for all PEs. One block of whole warps.
template <int = 0>
__global__ void wait_for_others(const __grid_constant__ gravel_t g, const __grid_constant__ rendezvous_memory m,
                                uint64_t number, const uint64_t* words, uint32_t count) {
  __shared__ mapped_sender others;
  others.begin(g);
  uint64_t* const mine = m.tables + (number % 2 * g.n_pes + g.my_pe) * rendezvous_memory::most_words;
  for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += blockDim.x) {
    for (uint32_t i = 0; i < count; ++i) others.put(&mine[i], words[i], static_cast<int>(pe));
    store_release<scope::system>(others.at(&m.came[g.my_pe], static_cast<int>(pe)), number);  // [Y1]
  }
  for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += blockDim.x)
    for (watched_wait wait; load_acquire<scope::system>(&m.came[pe]) < number;)  // [Y1]
      wait.attentively(g, [&] {
        return wait_subject{.what = awaited::rendezvous, .pe = pe, .wanted = number, .found = m.came[pe]};
      });
}

/// A rendezvous of all PEs between kernels, for rounds in which each PE's next kernel needs what the others' kernels
/// have sent.
/// @scope the program's host thread; collective: all PEs make the same calls in the same order
/// @completion round() and say(): in the stream, the PE's own unless round() names one; else on return
/// @errors gravel::error: a kernel has failed
/// @source Gravel
class mapped_rendezvous {
 public:
  /// Allocates what it needs in the symmetric heap.
  /// @param mapped whether all PEs have mapped each other's memory; the same at all PEs
  explicit mapped_rendezvous(bool mapped = all_are_mapped())
      : mapped_(mapped), pes_(static_cast<size_t>(gravel_n_pes())) {
    if (pes_ == 1 || !mapped_) return;
    const std::vector<uint64_t> nobody(pes_, 0);
    memory_ = {gravel_malloc<uint64_t>(pes_ * sizeof(uint64_t)),
               gravel_malloc<uint64_t>(2 * pes_ * rendezvous_memory::most_words * sizeof(uint64_t))};
    gravel_copy(memory_.came, nobody.data(), pes_ * sizeof(uint64_t));
    gravel_barrier_all();
  }
  /// @return whether the rendezvous uses mapped memory
  bool is_mapped() const { return mapped_; }

  /// A round: kernels of this PE that are started from now on see what the kernels of all PEs have sent by now.
  /// @param stream of these kernels, if is_mapped(); nullptr: the PE's own. All rounds are in one stream: before
  ///   another one is used, the rounds so far must be complete
  void round(gravel_stream_t stream = nullptr) {
    if (pes_ == 1) return;
    if (mapped_) start(nullptr, 0, stream);
    else gravel_barrier_all();
  }
  /// A round in which each PE contributes words. Only if is_mapped(), or in a job of one PE.
  /// @param words [count], in device memory
  /// @param count up to rendezvous_memory::most_words
  /// @return the words of all PEs, for kernels that are started before the next round:
  ///   [PE][rendezvous_memory::most_words], in device memory
  const uint64_t* say(const void* words, uint32_t count) {
    if (pes_ == 1) return static_cast<const uint64_t*>(words);
    start(static_cast<const uint64_t*>(words), count);
    return memory_.tables + number_ % 2 * pes_ * rendezvous_memory::most_words;
  }
  /// Collects `words` of each PE, as its earlier kernels have left them. With mapped memory it is a round, too.
  /// @param words [count], in device memory
  /// @param count up to rendezvous_memory::most_words
  /// @return [PE][count]
  std::vector<uint64_t> gather(const void* words, uint32_t count) {
    std::vector<uint64_t> all(pes_ * count);
    if (pes_ > 1 && mapped_) {
      constexpr uint32_t most = rendezvous_memory::most_words;
      std::vector<uint64_t> table(pes_ * most);
      copy_behind_kernels(table.data(), say(words, count), table.size() * sizeof(uint64_t));
      for (size_t i = 0; i < all.size(); ++i) all[i] = table[i / count * most + i % count];
      return all;
    }
    std::vector<uint64_t> mine(count);
    copy_behind_kernels(mine.data(), words, count * sizeof(uint64_t));
    if (pes_ == 1) return mine;
    gravel_allgather(all.data(), mine.data(), count);
    return all;
  }
  /// Adds up a word over all PEs.
  /// @param word in device memory
  /// @return the sum
  uint64_t sum(const uint64_t* word) {
    uint64_t all = 0;
    for (const uint64_t one : gather(word, 1)) all += one;
    return all;
  }
  /// Frees the memory of the rendezvous. Call it before memory is freed that kernels of other PEs may use.
  /// gravel_finalize also frees it.
  void release() {
    if (!memory_.came) return;
    gravel_free(memory_.tables);
    gravel_free(memory_.came);
    memory_ = {};
  }

 private:
  void start(const uint64_t* words, uint32_t count, gravel_stream_t stream = nullptr) {
    launch_alone(wait_for_others<>, {.grid = 1, .block = 32, .stream = stream}, gravel_handle(), memory_, ++number_,
                 words, count);
  }
  bool mapped_;
  size_t pes_;
  uint64_t number_ = 0;
  rendezvous_memory memory_{};
};

}  // namespace gravel::detail
