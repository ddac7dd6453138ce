// Calls of job.hpp for rows that go to any PEs: gravel::row_exchange does it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/table.cuh>

#include "arguments.hpp"
#include "job.hpp"

namespace gravel::python {
namespace {

constexpr unsigned count_lanes = 256;   // of a block
constexpr uint64_t most_counted = 256;  ///< PEs for which a block counts in shared memory

/// Adds the occurrences of 0 ... n - 1 to counts[0 ... n - 1], and those of other numbers to counts[n].
template <class T>
__global__ void count_numbers(const T* numbers, uint64_t count, uint32_t n, uint64_t* counts) {
  __shared__ uint32_t of_block[most_counted + 1];
  const bool is_small = n <= most_counted;
  if (is_small)
    for (uint32_t i = threadIdx.x; i <= n; i += blockDim.x) of_block[i] = 0;
  __syncthreads();
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x) {
    const auto number = static_cast<uint64_t>(numbers[i]);
    const auto at = static_cast<uint32_t>(number < n ? number : n);
    if (is_small) detail::fetch_add<detail::scope::shared>(&of_block[at], uint32_t{1});
    else detail::fetch_add<detail::scope::device>(&counts[at], uint64_t{1});
  }
  __syncthreads();
  if (is_small)
    for (uint32_t i = threadIdx.x; i <= n; i += blockDim.x)
      if (of_block[i]) detail::fetch_add<detail::scope::device>(&counts[i], uint64_t{of_block[i]});
}

template <class T>
void count_on_device(const index_list& of, uint64_t* counts, gravel_stream_t stream) {
  constexpr uint64_t each = 4096, most_blocks = 1024;
  gravel_launch_config how{static_cast<unsigned>(std::clamp<uint64_t>(of.count / each, 1, most_blocks)), count_lanes};
  how.stream = stream;
  detail::launch_alone(count_numbers<T>, how, static_cast<const T*>(of.numbers.at), of.count,
                       static_cast<uint32_t>(gravel_n_pes()), counts);
}
template <class T>
void count_on_host(const index_list& of, std::vector<uint64_t>& counts) {
  const uint64_t others = counts.size() - 1;
  const T* const at = static_cast<const T*>(of.numbers.at);
  for (uint64_t i = 0; i < of.count; ++i) ++counts[std::min(static_cast<uint64_t>(at[i]), others)];
}
}  // namespace

std::vector<uint64_t> count_by_pe(const index_list& to, stream_of_call stream) {
  std::vector<uint64_t> counts(static_cast<uint64_t>(gravel_n_pes()) + 1, 0);
  if (!to.numbers.on_device) {
    switch (to.type) {  // a negative number becomes a large one
      case element::i4: count_on_host<int32_t>(to, counts); break;
      case element::u4: count_on_host<uint32_t>(to, counts); break;
      default: count_on_host<uint64_t>(to, counts); break;
    }
    return counts;
  }
  if (to.count == 0) return counts;
  detail::device_array<uint64_t> found(counts);
  const gravel_stream_t in = stream_from(stream);
  switch (to.type) {
    case element::i4: count_on_device<int32_t>(to, found.data(), in); break;
    case element::u4: count_on_device<uint32_t>(to, found.data(), in); break;
    default: count_on_device<uint64_t>(to, found.data(), in); break;
  }
  gravel_stream_synchronize(in);
  gravel_copy(counts.data(), found.data(), counts.size() * sizeof(uint64_t));
  return counts;
}

void exchange_rows(memory rows, const index_list& to, uint64_t row_bytes, uint64_t room, memory result,
                   uint64_t received, stream_of_call stream) {
  const gravel_stream_t in = stream_from(stream);
  gravel::row_exchange exchange(row_bytes, room);
  const uint64_t bytes = to.count * row_bytes, bytes_of_to = to.count * bytes_of(to.type);
  std::optional<host_arrays> copied;
  if (!rows.on_device || !to.numbers.on_device) copied.emplace(bytes + bytes_of_to);
  const auto there = [&](memory array, uint64_t size) {
    return copied ? copied->on_device(array, size, true) : array.at;
  };
  const void* const from = there(rows, bytes);
  const void* const pes = there(to.numbers, bytes_of_to);
  if (bytes_of(to.type) == 4) exchange.all_to_all(from, static_cast<const uint32_t*>(pes), to.count, in);
  else exchange.all_to_all(from, static_cast<const uint64_t*>(pes), to.count, in);
  gravel_stream_synchronize(in);
  if (received) gravel_copy(result.at, exchange.rows(), received * row_bytes);
}

}  // namespace gravel::python
