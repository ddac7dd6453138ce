// The memory of ranked channels (lib/worklist/ranked_channels.cuh), as the host allocates and empties it.
#pragma once
#include <vector>

#include "host/device_array.hpp"
#include "lib/worklist/ranked_channels.cuh"

namespace gravel::detail {

/// Owns the memory behind a view of ranked channels. open() and release() are collective.
template <class Channels>
class ranked_memory {
 public:
  /// Allocates the memory of a.n_ranks channels of a.capacity entries, and `more` bytes behind them.
  void open(Channels& a, uint64_t more = 0) {
    a.stride = (channel<typename Channels::entry>::bytes(a.capacity) + 127) / 128 * 128;
    more_ = more;
    memory_ = device_array<char>(a.stride * a.n_ranks + more + 128);
    a.memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory_.data()) + 127) / 128 * 128);
    words_ = device_array<asynchronous_words>(std::vector<asynchronous_words>(1));
    a.words = words_.data();
    a.reports = gravel_malloc<wave_report>(static_cast<uint64_t>(gravel_n_pes()) * sizeof(wave_report));
  }
  /// Empties the channels before a run, and zeroes what lies behind them. The number of the last wave remains, since
  /// waves continue from run to run.
  void empty(const Channels& a) {
    for (uint32_t r = 0; r < a.n_ranks; ++r) {
      char* const begin = a.memory + r * a.stride;
      const auto* const end = reinterpret_cast<const char*>(a.of(r).elements.at);  // the words of a channel come first
      current_backend().zero(begin, static_cast<uint64_t>(end - begin));
      gravel_copy(&a.of(r).state().room, &a.capacity, sizeof(uint32_t));
    }
    if (more_) current_backend().zero(a.memory + a.n_ranks * a.stride, more_);
    asynchronous_words here{};
    here.wave = words(a).wave;
    here.allowed = no_rank;
    gravel_copy(a.words, &here, sizeof(here));
    std::vector<wave_report> reports(static_cast<size_t>(gravel_n_pes()));
    gravel_copy(reports.data(), a.reports, reports.size() * sizeof(wave_report));
    for (wave_report& r : reports) r.lowest = 0;
    gravel_copy(a.reports, reports.data(), reports.size() * sizeof(wave_report));
  }
  asynchronous_words words(const Channels& a) const {
    asynchronous_words here;
    gravel_copy(&here, a.words, sizeof(here));
    return here;
  }
  void release(Channels& a) {
    if (a.reports) gravel_free(a.reports);
    a.reports = nullptr;
  }

 private:
  uint64_t more_ = 0;  ///< bytes behind the channels
  device_array<char> memory_;
  device_array<asynchronous_words> words_;
};

}  // namespace gravel::detail
