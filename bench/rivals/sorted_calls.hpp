// The rival without locks and without service blocks: it stores all calls, sorts them by key, combines them, and
// applies each key's sum once. It makes several passes over all calls, and needs memory for all of them, but nothing
// waits. It works only for sections whose calls can be combined.
#pragma once
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "examples/common/together.hpp"
#if GRAVEL_CUDA
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#endif

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::lane_group;
using gravel::scope;

/// What calls of problem P are sorted by: the number of their record, or what the problem says.
template <class P>
constexpr bool has_sorted_by = requires {
  typename P::sorted_by;
};
template <class P>
struct sorted_by {
  using type = uint32_t;
};
template <class P>
requires has_sorted_by<P>
struct sorted_by<P> {
  using type = typename P::sorted_by;
};

/// Plain data, for kernels.
template <class Number, class Argument>
struct call_list {
  Number* numbers;      ///< [most]
  Argument* arguments;  ///< [most]
  uint64_t* n;          ///< calls so far

  /// Thread scope: lane, divergent.
  GRAVEL_DEVICE void add(Number number, const Argument& argument) const {
    const lane_group group = lane_group::active();
    uint64_t at = 0;
    if (group.is_leader()) at = fetch_add<scope::device>(n, uint64_t{group.size()});
    at = group.from_leader(at) + group.rank();
    numbers[at] = number;
    arguments[at] = argument;
  }
};

template <class P>
using calls_of = call_list<typename sorted_by<P>::type, typename P::argument>;

template <class P>
__global__ void write_calls(typename P::input in, uint32_t n_pes, calls_of<P> to) {
  using number = typename sorted_by<P>::type;
  P::each_call(in, [&](number key, const typename P::argument& argument) {
    to.add(has_sorted_by<P> ? key : key / n_pes, argument);
  });
}
/// Of each number one call is left.
template <class P, class Slot>
__global__ void apply_calls(Slot* table, typename P::input in, uint32_t n_pes, calls_of<P> calls) {
  const uint64_t n = *calls.n;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += uint64_t{gridDim.x} * blockDim.x) {
    if constexpr (has_sorted_by<P>) P::apply_sorted(table, in, n_pes, calls.arguments[i]);
    else typename P::section_of_many{}(table[calls.numbers[i]].record, calls.arguments[i]);
  }
}

template <class P>
struct combine_calls {
  using argument = typename P::argument;
  GRAVEL_BOTH argument operator()(const argument& a, const argument& b) const {
    return P::section_of_many::combine(a, b);
  }
};

/// A problem P that can be sorted has `argument`, `section_of_many` (which has combine()), `most_calls(input)` and
/// `each_call(input, f)`; if its calls are not sorted by records, also `sorted_by` and `apply_sorted(table, input,
/// n_pes, argument)`.
template <class P>
class sorted_calls {
  using argument = typename P::argument;
  using number = typename sorted_by<P>::type;

 public:
  /// Takes the memory that run() needs for them: else the first run does.
  void prepare(const typename P::input& in) {
    if (const uint64_t most = P::most_calls(in); most > most_) make_room(most);
  }
  /// Makes the calls of `in` in a table of P::record with a lock each. Thread: the program's.
  template <class Slot>
  void run(Slot* table, const typename P::input& in, uint32_t n_pes, unsigned grid, unsigned block) {
    prepare(in);
    uint64_t none = 0;
    gravel_copy(count_->data(), &none, sizeof(none));
    gravel_launch(write_calls<P>, grid, block, in, n_pes, list(written_));
    gravel_synchronize();
    uint64_t n = 0;
    gravel_copy(&n, count_->data(), sizeof(n));
    if (n == 0) return;
    reduce(n);
    gravel_launch(apply_calls<P, Slot>, blocks_to_fill_device(), lanes_of_block, table, in, n_pes, list(reduced_));
  }

 private:
  struct calls {
    std::unique_ptr<device_array<number>> numbers;
    std::unique_ptr<device_array<argument>> arguments;
    explicit calls(uint64_t n = 0)
        : numbers(std::make_unique<device_array<number>>(n)), arguments(std::make_unique<device_array<argument>>(n)) {}
  };
  calls_of<P> list(const calls& c) { return {c.numbers->data(), c.arguments->data(), count_->data()}; }

#if GRAVEL_CUDA
  static void check(cudaError_t status) {
    if (status != cudaSuccess) fail_text(std::string("sorting calls: ") + cudaGetErrorString(status));
  }
  /// Both steps, or, without `memory`, the bytes that either needs.
  void sort_and_reduce(void* memory, size_t& bytes, uint64_t n) {
    size_t sort = bytes, sum = bytes;
    check(cub::DeviceRadixSort::SortPairs(memory, sort, written_.numbers->data(), sorted_.numbers->data(),
                                          written_.arguments->data(), sorted_.arguments->data(), n));
    check(cub::DeviceReduce::ReduceByKey(memory, sum, sorted_.numbers->data(), reduced_.numbers->data(),
                                         sorted_.arguments->data(), reduced_.arguments->data(), count_->data(),
                                         combine_calls<P>{}, n));
    bytes = std::max(sort, sum);
  }
  void reduce(uint64_t n) {
    size_t bytes = memory_bytes_;
    sort_and_reduce(memory_->data(), bytes, n);
    check(cudaDeviceSynchronize());
  }
  void make_memory(uint64_t most) {
    memory_bytes_ = 0;
    sort_and_reduce(nullptr, memory_bytes_, most);
    memory_ = std::make_unique<device_array<char>>(memory_bytes_);
  }
  size_t memory_bytes_ = 0;
  std::unique_ptr<device_array<char>> memory_;
#else
  void reduce(uint64_t n) {
    std::vector<uint64_t> order(n);
    std::iota(order.begin(), order.end(), uint64_t{0});
    const number* const numbers = written_.numbers->data();
    std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return numbers[a] < numbers[b]; });
    uint64_t runs = 0;
    for (const uint64_t i : order) {
      const argument& next = written_.arguments->data()[i];
      if (runs && reduced_.numbers->data()[runs - 1] == numbers[i]) {
        argument& sum = reduced_.arguments->data()[runs - 1];
        sum = combine_calls<P>{}(sum, next);
      } else {
        reduced_.numbers->data()[runs] = numbers[i];
        reduced_.arguments->data()[runs++] = next;
      }
    }
    *count_->data() = runs;
  }
  static void make_memory(uint64_t) {}
#endif
  void make_room(uint64_t most) {
    most_ = most;
    for (calls* c : {&written_, &sorted_, &reduced_}) *c = calls(most);
    make_memory(most);
  }

  uint64_t most_ = 0;
  calls written_, sorted_, reduced_;
  std::unique_ptr<device_array<uint64_t>> count_ = std::make_unique<device_array<uint64_t>>(1);
};

}  // namespace app
