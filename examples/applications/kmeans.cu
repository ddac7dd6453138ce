// k-means by Lloyd's algorithm. Every PE has its points; each cluster's sums are at the PE that owns it, where all
// blocks of all PEs add theirs, and from where its new centre goes to all. Coordinates are whole numbers of 16 bits and
// all sums are exact, so the result does not depend on the order of messages.
#include <cstdio>

#include <gravel/gravel.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/direct_sender.hpp"
#include "bench/rivals/model.hpp"
#include "examples/applications/kmeans_check.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/lane_share.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::mapped_sender;

constexpr const char* program_name = "kmeans";
/// Centres have this many bits behind the point.
constexpr unsigned fraction_bits = 8;
constexpr uint32_t most_values = 448;  ///< of clusters * (dimensions + 1): what a block has shared memory for
constexpr uint32_t most_dimensions = 32, most_clusters = 254;

struct kmeans_options {
  uint64_t points = 1 << 16;  ///< per PE
  uint32_t clusters = 8, dimensions = 4, max_steps = 1000;
  uint64_t seed = 1;
  model_options network;
  bool no_verify = false;
  std::string json, dump, fault;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
};

/// Point number i of the whole job: near one of as many places as there are clusters, or anywhere (one of 16).
struct point_source {
  uint64_t seed;
  uint32_t clusters;
  GRAVEL_BOTH uint16_t coordinate(uint64_t i, uint32_t d) const {
    const uint64_t random = mix(seed ^ mix(i << 8 | d)), place = pick(mix(seed + i), clusters);
    if (mix(i ^ ~seed) % 16 == 0) return static_cast<uint16_t>(random);
    const uint64_t middle =
        8192 + (mix(seed ^ ~(place << 8 | d)) & 0x7fff) + (mix(seed ^ ~(place << 8 | d)) >> 32 & 0x3fff);
    return static_cast<uint16_t>(middle + (random & 0xfff) + (random >> 32 & 0xfff) - 4096);
  }
};

struct kmeans_job {
  uint16_t* points;   ///< of dimension d, points[d * count] and on
  uint8_t* cluster;   ///< of each point; no_cluster before the first step
  int32_t* centers;   ///< symmetric: [cluster * dimensions + d], with fraction_bits; the same on all PEs
  uint64_t* sums;     ///< symmetric: of each cluster that this PE owns, its points' coordinates, then their number
  uint64_t* changed;  ///< symmetric: points here whose cluster another step changed
  uint64_t count;
  uint32_t clusters, dimensions;

  GRAVEL_BOTH uint32_t values() const { return clusters * (dimensions + 1); }
};
constexpr uint8_t no_cluster = 255;

__global__ void make_points(kmeans_job job, point_source source, uint64_t first) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count; i += lanes) {
    for (uint32_t d = 0; d < job.dimensions; ++d) job.points[d * job.count + i] = source.coordinate(first + i, d);
    job.cluster[i] = no_cluster;
  }
}

/// Points first ... first + count go to their nearest centres. Each lane adds up its points in shared memory of its
/// own; the block adds up its lanes, and sends one addition for each sum. Blocks have whole warps. DIMENSIONS: those of
/// the job, or 0: whatever it has. Of (x - c)^2 = x^2 - 2 x c + c^2 the first term is the same for all centres: a
/// centre's score is the rest, a multiplication for each coordinate.
template <uint32_t DIMENSIONS, class Sender, class Handle>
__global__ void assign(Handle g, kmeans_job job, uint64_t first, uint64_t count) {
  __shared__ Sender sender;
  __shared__ int64_t squares[most_clusters];
  sender.begin(g);
  const uint32_t dimensions = DIMENSIONS ? DIMENSIONS : job.dimensions;
  auto* const mine =
      reinterpret_cast<uint32_t*>(gravel_dynamic_shared()) + threadIdx.x;  // value v is mine[v * blockDim.x]
  const uint32_t stride = dimensions + 1;
  for (uint32_t v = 0; v < job.values(); ++v) mine[v * blockDim.x] = 0;
  for (uint32_t c = threadIdx.x; c < job.clusters; c += blockDim.x) {
    squares[c] = 0;
    for (uint32_t d = 0; d < dimensions; ++d)
      squares[c] += int64_t{job.centers[c * dimensions + d]} * job.centers[c * dimensions + d];
  }
  __syncthreads();
  // Several points of a lane together read a centre once. Their coordinates are in registers where their number is
  // known.
  constexpr uint32_t together = DIMENSIONS ? 4 : 1;
  uint32_t known[together][DIMENSIONS ? DIMENSIONS : 1];
  uint32_t changed = 0;
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, last = first + count;
  for (uint64_t of_lane = first + uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; of_lane < last;
       of_lane += together * lanes) {
    const auto point = [&](uint32_t p) { return of_lane + p * lanes < last ? of_lane + p * lanes : of_lane; };
    if constexpr (DIMENSIONS != 0) {
      GRAVEL_UNROLL
      for (uint32_t p = 0; p < together; ++p) GRAVEL_UNROLL
      for (uint32_t d = 0; d < DIMENSIONS; ++d) known[p][d] = job.points[d * job.count + point(p)];
    }
    const auto coordinate = [&](uint32_t p, uint32_t d) -> uint32_t {
      if constexpr (DIMENSIONS != 0) return known[p][d];
      else return job.points[d * job.count + point(p)];
    };
    uint32_t best[together] = {};
    int64_t least[together] = {};
    for (uint32_t c = 0; c < job.clusters; ++c) {
      int64_t product[together] = {};
      GRAVEL_UNROLL
      for (uint32_t d = 0; d < dimensions; ++d) {
        const int32_t center = __ldg(&job.centers[c * dimensions + d]);
        GRAVEL_UNROLL
        for (uint32_t p = 0; p < together; ++p) product[p] += int64_t{static_cast<int32_t>(coordinate(p, d))} * center;
      }
      GRAVEL_UNROLL
      for (uint32_t p = 0; p < together; ++p) {
        const int64_t score = squares[c] - (product[p] << (fraction_bits + 1));
        if (c == 0 || score < least[p]) {
          best[p] = c;
          least[p] = score;
        }
      }
    }
    GRAVEL_UNROLL
    for (uint32_t p = 0; p < together; ++p) {
      if (of_lane + p * lanes >= last) continue;
      GRAVEL_UNROLL
      for (uint32_t d = 0; d < dimensions; ++d) mine[(best[p] * stride + d) * blockDim.x] += coordinate(p, d);
      ++mine[(best[p] * stride + dimensions) * blockDim.x];
      changed += job.cluster[point(p)] != best[p];
      job.cluster[point(p)] = static_cast<uint8_t>(best[p]);
    }
  }
  changed = __reduce_add_sync(~0u, changed);
  if (threadIdx.x % 32 == 0 && changed) sender.add(job.changed, changed, static_cast<int>(g.my_pe));
  __syncthreads();
  const auto* const all = reinterpret_cast<const uint32_t*>(gravel_dynamic_shared());
  for (uint32_t v = threadIdx.x / 32; v < job.values(); v += blockDim.x / 32) {
    uint64_t sum = 0;
    for (uint32_t lane = threadIdx.x % 32; lane < blockDim.x; lane += 32) sum += all[v * blockDim.x + lane];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0 && sum) sender.add(&job.sums[v], sum, static_cast<int>(v / stride % g.n_pes));
  }
  sender.end();
}

template <class Sender, class Handle>
auto assign_for(uint32_t dimensions) {
  return dimensions == 2   ? assign<2, Sender, Handle>
         : dimensions == 4 ? assign<4, Sender, Handle>
         : dimensions == 8 ? assign<8, Sender, Handle>
                           : assign<0, Sender, Handle>;
}

/// The mean with fraction_bits, rounded.
GRAVEL_BOTH int32_t mean_of(uint64_t sum, uint64_t count) {
  return static_cast<int32_t>(((sum << fraction_bits) + count / 2) / count);
}

/// The centres of this PE's clusters go to all PEs; one without points stays where it is. One block, and one item.
template <class Sender, class Handle>
__global__ void move_centers(Handle g, kmeans_job job, uint64_t, uint64_t) {
  __shared__ Sender sender;
  sender.begin(g);
  const uint32_t stride = job.dimensions + 1;
  for (uint32_t at = threadIdx.x; at < job.clusters * job.dimensions; at += blockDim.x) {
    const uint32_t c = at / job.dimensions, d = at % job.dimensions;
    const uint64_t count = job.sums[c * stride + job.dimensions];
    if (c % g.n_pes != g.my_pe || count == 0) continue;
    const int32_t center = mean_of(job.sums[c * stride + d], count);
    for (uint32_t pe = 0; pe < g.n_pes; ++pe) sender.put(&job.centers[at], center, static_cast<int>(pe));
  }
  sender.end();
  __syncthreads();
  for (uint32_t v = threadIdx.x; v < job.values(); v += blockDim.x) job.sums[v] = 0;
  if (threadIdx.x == 0) *job.changed = 0;
}

/// Lloyd's algorithm by one thread over all points. Returns the centres; `steps`: until no point changed.
std::vector<int32_t> compute_serially(const kmeans_options& o, std::vector<int32_t> centers, uint64_t all,
                                      std::vector<uint8_t>& cluster, uint32_t& steps) {
  const point_source source{o.seed, o.clusters};
  const uint32_t dimensions = o.dimensions;
  std::vector<uint16_t> points;
  for (uint64_t i = 0; i < all; ++i)
    for (uint32_t d = 0; d < dimensions; ++d) points.push_back(source.coordinate(i, d));
  cluster.assign(all, no_cluster);
  for (steps = 1; steps <= o.max_steps; ++steps) {
    std::vector<uint64_t> sums(o.clusters * dimensions), counts(o.clusters);
    bool changed = false;
    for (uint64_t i = 0; i < all; ++i) {
      std::vector<uint64_t> distances(o.clusters);
      for (uint32_t c = 0; c < o.clusters; ++c)
        for (uint32_t d = 0; d < dimensions; ++d) {
          const int64_t apart = points[i * dimensions + d] * 256 - centers[c * dimensions + d];
          distances[c] += static_cast<uint64_t>(apart * apart);
        }
      const auto best = static_cast<uint8_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
      changed |= cluster[i] != best;
      cluster[i] = best;
      ++counts[best];
      for (uint32_t d = 0; d < dimensions; ++d) sums[best * dimensions + d] += points[i * dimensions + d];
    }
    if (!changed) break;
    for (uint32_t c = 0; c < o.clusters; ++c)
      for (uint32_t d = 0; d < dimensions && counts[c]; ++d)
        centers[c * dimensions + d] =
            static_cast<int32_t>((2 * 256 * sums[c * dimensions + d] + counts[c]) / (2 * counts[c]));
  }
  return centers;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const kmeans_options& o, fact_list& facts) {
  const auto me = static_cast<uint64_t>(gravel_my_pe()), n_pes = static_cast<uint64_t>(gravel_n_pes());
  const uint64_t all = o.points * n_pes;
  const point_source source{o.seed, o.clusters};
  kmeans_job job{};
  job.count = o.points;
  job.clusters = o.clusters;
  job.dimensions = o.dimensions;
  job.points = gravel_malloc<uint16_t>(o.points * o.dimensions * sizeof(uint16_t));
  job.cluster = gravel_malloc<uint8_t>(o.points);
  job.centers = gravel_malloc<int32_t>(uint64_t{o.clusters} * o.dimensions * sizeof(int32_t));
  job.sums = gravel_malloc<uint64_t>(job.values() * sizeof(uint64_t));
  job.changed = gravel_malloc<uint64_t>(sizeof(uint64_t));
  // Clusters begin at points at even distances in the whole sequence.
  std::vector<int32_t> start;
  for (uint32_t c = 0; c < o.clusters; ++c)
    for (uint32_t d = 0; d < o.dimensions; ++d)
      start.push_back(source.coordinate(all * c / o.clusters, d) << fraction_bits);
  gravel_copy(job.centers, start.data(), start.size() * sizeof(int32_t));
  const unsigned blocks = blocks_to_fill_device();
  gravel_launch(make_points, blocks, lanes_of_block, job, source, me * o.points);
  gravel_barrier_all();
  network_model net(program_name, o.network);
  const bool mapped = net.is_mapped();
  const auto kernel =
      mapped ? assign_for<mapped_sender, gravel_t>(o.dimensions) : assign_for<direct_sender, gravel_t>(o.dimensions);
  const auto move = mapped ? move_centers<mapped_sender, gravel_t> : move_centers<direct_sender, gravel_t>;
  const auto of_rivals = assign_for<model_sender, model_handle>(o.dimensions);
  const uint64_t clusters_of_one = (o.clusters + n_pes - 1) / n_pes;
  const network_work sums{.items = o.points,
                          .blocks = blocks,
                          .of_block = job.values(),
                          .of_block_to_one = clusters_of_one * (o.dimensions + 1),
                          .message_bytes = bytes_of(update_kind(op::add, value_type::u64)),
                          .most_of_lane = 1 << 16,  // a lane's sums have 32 bits
                          .shared_bytes = job.values() * lanes_of_block * static_cast<uint32_t>(sizeof(uint32_t)),
                          .mapped = mapped};
  const network_work centers_of_one{.of_block = clusters_of_one * o.dimensions * n_pes,
                                    .of_block_to_one = clusters_of_one * o.dimensions,
                                    .message_bytes = bytes_of(update_kind(op::put, value_type::i32)),
                                    .mapped = mapped};
  progress report(program_name, me == 0);
  uint32_t steps = 0;
  bool goes_on = true;
  std::vector<int32_t> used(start.size());  // the centres of the last assignment, where others follow it
  const double seconds = seconds_of([&] {
    while (goes_on && steps < o.max_steps) {
      if (steps + 1 == o.max_steps) {  // now: a PE that is ahead moves centres as soon as all have arrived
        gravel_synchronize();
        gravel_copy(used.data(), job.centers, used.size() * sizeof(int32_t));
      }
      net.launch(kernel, of_rivals, sums, job);
      net.rendezvous().round();  // all sums are at their owners
      goes_on = net.rendezvous().sum(job.changed) != 0;
      if (goes_on) net.launch(move, move_centers<model_sender, model_handle>, centers_of_one, job);
      net.rendezvous().round();  // all centres have arrived
      report.at(++steps, o.max_steps);
    }
    gravel_synchronize();
  });

  net.check();
  std::vector<int32_t> centers(start.size());
  std::vector<uint8_t> cluster(o.points);
  gravel_copy(centers.data(), job.centers, centers.size() * sizeof(int32_t));
  gravel_copy(cluster.data(), job.cluster, o.points);
  if (!goes_on) used = centers;
  if (o.fault == "center") ++centers[0];
  if (o.fault == "point" && me == n_pes - 1) {
    cluster[0] = cluster[0] == 0 ? 1 : 0;
    gravel_copy(job.cluster, cluster.data(), 1);
  }
  const uint64_t differences = o.no_verify ? 0 : check_result<fraction_bits>(job, source, used, centers);
  std::vector<uint64_t> sizes(o.clusters);
  uint64_t wrong = 0;
  for (const uint8_t c : cluster) c < o.clusters ? ++sizes[c] : ++wrong;
  gravel_sum_all(sizes.data(), sizes.data(), sizes.size());
  const bool serial = !o.no_verify && all <= o.serial_limit;
  if (serial) {
    std::vector<uint8_t> expected;
    uint32_t expected_steps = 0;
    all_succeed(program_name, [&] {
      const std::vector<int32_t> expected_centers = compute_serially(o, start, all, expected, expected_steps);
      for (size_t i = 0; i < centers.size(); ++i) wrong += centers[i] != expected_centers[i];
    });
    wrong += steps != std::min(expected_steps, o.max_steps);
    for (uint64_t i = 0; i < o.points; ++i) wrong += cluster[i] != expected[me * o.points + i];
  }
  const uint64_t unlike_serial = gravel_sum_all(wrong);
  wrong = unlike_serial + differences;
  if (me == 0) {
    std::printf(
        "%s: %llu PEs on %d nodes, %s backend: %llu points of %u dimensions, %u clusters\n%u steps in %.4f s, %.4g M "
        "points/s%s\n",
        program_name, static_cast<unsigned long long>(n_pes), gravel_n_nodes(), gravel_backend(),
        static_cast<unsigned long long>(all), o.dimensions, o.clusters, steps, seconds,
        static_cast<double>(all) * steps / seconds / 1e6, goes_on ? "; points still change" : "");
    if (o.no_verify) {
      std::printf("not verified\n");
    } else {
      std::printf("%llu differences where all nearest centres, sums, counts and means were computed again\n",
                  static_cast<unsigned long long>(differences));
      if (serial)
        std::printf("%llu differences from a serial run of Lloyd's algorithm\n",
                    static_cast<unsigned long long>(unlike_serial));
      else
        std::printf(
            "not checked: that Lloyd's algorithm comes from its first centres to these (more than %llu points, "
            "--serial-limit)\n",
            static_cast<unsigned long long>(o.serial_limit));
    }
    for (uint32_t c = 0; c < o.clusters; ++c) {
      std::printf("%12llu points around", static_cast<unsigned long long>(sizes[c]));
      for (uint32_t d = 0; d < o.dimensions; ++d) std::printf(" %.1f", centers[c * o.dimensions + d] / 256.0);
      std::printf("\n");
    }
  }
  if (!o.dump.empty()) {
    std::vector<column> points(o.dimensions), middles(o.dimensions);
    for (uint32_t d = 0; d < o.dimensions; ++d) {
      points[d].name = middles[d].name = "x" + std::to_string(d);
      for (uint64_t i = 0; i < o.points; ++i) points[d].values.push_back(source.coordinate(me * o.points + i, d));
      for (uint32_t c = 0; c < o.clusters && me == 0; ++c)
        middles[d].values.push_back(centers[c * o.dimensions + d] / 256.0);
    }
    points.push_back({"cluster", {cluster.begin(), cluster.end()}});
    dump_columns(program_name, o.dump, "points", points);
    dump_columns(program_name, o.dump, "centers", middles);
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"points", all},
                             {"dimensions", uint64_t{o.dimensions}},
                             {"clusters", uint64_t{o.clusters}},
                             {"model", o.network.name},
                             {"steps", uint64_t{steps}},
                             {"converged", !goes_on},
                             {"seconds", seconds},
                             {"points_per_s", static_cast<double>(all) * steps / seconds},
                             {"computed_again", !o.no_verify},
                             {"compared_with_serial", serial},
                             {"wrong", wrong},
                             {"right", wrong == 0}});
  return wrong == 0;
}

void kmeans_options::add_options(command_line& line) {
  line.add_option("--points", points, "Points per PE").range(uint64_t{1}, uint64_t{1} << 32).capture_default_str();
  line.add_option("--clusters", clusters, "Clusters").range(1u, most_clusters).capture_default_str();
  line.add_option("--dimensions", dimensions, "Coordinates of a point, whole numbers of 16 bits")
      .range(1u, most_dimensions)
      .capture_default_str();
  line.add_option("--max-steps", max_steps, "End after so many steps at the latest")
      .range(1, 1000000)
      .capture_default_str();
  network.add_options(line);
  line.add_option("--seed", seed, "Of the points").capture_default_str();
  line.add_flag("--no-verify", no_verify, "Do not check the result");
  line.add_option("--serial-limit", serial_limit,
                  "Compare with a serial run up to so many points in all; more are checked by other kernels alone")
      .capture_default_str();
  line.add_option("--fault", fault, "Make the result wrong, to see that the check finds it")
      .one_of({"point", "center"})
      .hidden();
}
void kmeans_options::check() {
  if (clusters * (dimensions + 1) > most_values)
    fail_text("clusters * (dimensions + 1) is at most " + std::to_string(most_values) +
              ": what a thread block has memory for");
  network.prepare();
}
uint64_t kmeans_options::symmetric_bytes() const {
  return points * (2 * dimensions + 1) + (64 << 10) + network.symmetric_bytes();
}

int main(int argc, char** argv) {
  return run_application({program_name, "k-means by Lloyd's algorithm, until no point changes its cluster."}, argc,
                         argv, kmeans_options{}, solve);
}
