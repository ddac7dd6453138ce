// The check of clusters at any size.
#pragma once
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "examples/common/together.hpp"

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::scope;

/// What check_points() counts.
struct kmeans_check {
  uint64_t* elsewhere;  ///< points whose cluster is not that of the nearest centre
  uint64_t*
      sums;  ///< of each cluster, its points' coordinates, then their number, as those of the job; of this PE's points
};
/// For the check of the result at any size, as simple as can be: a lane makes its points again from their numbers,
/// finds the nearest of `centers` by squares of differences, and adds up coordinates by atomics. All numbers are whole,
/// so nothing is rounded, and nothing may differ.
template <unsigned FRACTION_BITS, class Job, class Source>
__global__ void check_points(Job job, Source source, uint64_t first, const int32_t* centers, kmeans_check check) {
  const uint32_t stride = job.dimensions + 1;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t nearest = 0;
    uint64_t least = ~uint64_t{0};
    for (uint32_t c = 0; c < job.clusters; ++c) {
      uint64_t distance = 0;
      for (uint32_t d = 0; d < job.dimensions; ++d) {
        const int64_t apart =
            (int64_t{source.coordinate(first + i, d)} << FRACTION_BITS) - centers[c * job.dimensions + d];
        distance += static_cast<uint64_t>(apart * apart);
      }
      if (distance < least) {
        nearest = c;
        least = distance;
      }
    }
    const uint32_t cluster = job.cluster[i];
    if (cluster != nearest) fetch_add<scope::device>(check.elsewhere, uint64_t{1});
    if (cluster >= job.clusters) continue;
    for (uint32_t d = 0; d < job.dimensions; ++d)
      fetch_add<scope::device>(&check.sums[cluster * stride + d], uint64_t{source.coordinate(first + i, d)});
    fetch_add<scope::device>(&check.sums[cluster * stride + job.dimensions], uint64_t{1});
  }
}

/// The check of the result at any size. `used`: the centres that the last assignment had; `centers`: those of the
/// result. Each point must be in the cluster of the nearest of `used`, and each centre that has points must be their
/// mean. Collective; the number of differences at all PEs.
template <unsigned FRACTION_BITS, class Job, class Source>
uint64_t check_result(const Job& job, const Source& source, const std::vector<int32_t>& used,
                      const std::vector<int32_t>& centers) {
  const auto me = static_cast<uint64_t>(gravel_my_pe()), n_pes = static_cast<uint64_t>(gravel_n_pes());
  device_array<int32_t> used_here(used);
  device_array<uint64_t> counts(std::vector<uint64_t>(1 + job.values()));
  gravel_launch(check_points<FRACTION_BITS, Job, Source>, blocks_to_fill_device(), lanes_of_block, job, source,
                me * job.count, static_cast<const int32_t*>(used_here.data()),
                kmeans_check{counts.data(), counts.data() + 1});
  gravel_synchronize();
  std::vector<uint64_t> found(1 + job.values());
  gravel_copy(found.data(), counts.data(), found.size() * sizeof(uint64_t));
  gravel_sum_all(found.data(), found.data(), found.size());
  const uint64_t* const sums = found.data() + 1;
  const uint32_t stride = job.dimensions + 1;
  uint64_t wrong = found[0], points = 0;
  for (uint32_t c = 0; c < job.clusters; ++c) {
    const uint64_t count = sums[c * stride + job.dimensions];
    points += count;
    for (uint32_t d = 0; d < job.dimensions; ++d) {
      const int32_t center = centers[c * job.dimensions + d];
      // Rounded: twice the difference to the mean is at most a unit of the fraction. Where there are no points the
      // centre stays.
      const auto twice = static_cast<__int128_t>(count) * 2 * center -
                         static_cast<__int128_t>(sums[c * stride + d]) * (2 << FRACTION_BITS);
      wrong += count ? twice > static_cast<__int128_t>(count) || -twice > static_cast<__int128_t>(count)
                     : center != used[c * job.dimensions + d];
    }
  }
  return wrong + (points != job.count * n_pes);
}

}  // namespace app
