// One PE's part of a graph in device memory, as kernels read it. R-MAT graphs, which may be too large to be made on the
// host in reasonable time, are made on the device: each lane makes edges by their numbers, the part's own are sorted,
// and every PE does so for itself.
#pragma once
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "examples/common/device_sort.hpp"
#include "examples/common/graph_input.hpp"
#include "examples/common/together.hpp"
#include "lib/graph/rmat.hpp"

namespace app {
using gravel::block_distribution;
using gravel::codes_of;
using gravel::contiguous;
using gravel::csr;
using gravel::device_array;
using gravel::edge;
using gravel::fetch_add;
using gravel::find_ghosts;
using gravel::ghost_list;
using gravel::load_relaxed;
using gravel::partition;
using gravel::round_robin;
using gravel::scope;
using gravel::vertex_code;
using gravel::weight_between;
using gravel::detail::from_word;
using gravel::detail::rmat_source;
using gravel::detail::to_word;

struct device_part {
  graph_part part;  ///< of `rows` the offsets alone
  uint64_t edges = 0;
  double seconds = 0;         ///< that making or reading it took
  bool whole_weights = true;  ///< all weights here are whole numbers
  device_array<uint64_t> offsets;
  device_array<uint32_t> targets;  ///< own vertices by their places, ghost k as own + k
  device_array<float> weights;     ///< of each edge, if they were wished for
  ghost_list ghosts;

  uint64_t own() const { return part.rows.rows(); }
};

/// What the kernels that make an R-MAT graph know: an edge is a key, the place of its row above the code of its target.
struct rmat_job {
  rmat_source source;
  uint64_t all;  ///< edges to make
  bool undirected, reversed, loops;
  block_distribution blocks;
  vertex_code codes;
  const uint32_t* code_of_vertex;  ///< nullptr: as the blocks say
  const uint32_t* vertex_of_code;
  int part;
  uint64_t own;
  int code_bits;
  uint32_t max_weight;
  uint64_t weight_seed;

  GRAVEL_DEVICE uint32_t code_of(uint64_t vertex) const {
    return code_of_vertex ? code_of_vertex[vertex] : codes.code(blocks.owner(vertex), blocks.local_index(vertex));
  }
  GRAVEL_DEVICE uint64_t vertex_of(uint32_t code) const {
    return vertex_of_code ? vertex_of_code[code] : blocks.first(codes.owner(code)) + codes.place(code);
  }
  GRAVEL_DEVICE uint64_t row_of(uint64_t key) const { return key >> code_bits; }
  GRAVEL_DEVICE uint32_t target_of(uint64_t key) const {
    return static_cast<uint32_t>(key & ((uint64_t{1} << code_bits) - 1));
  }
};

/// How many edges begin or end at each vertex, in the list that rmat() makes.
static __global__ void count_ends(rmat_job job, uint32_t* degrees) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.all; i += lanes) {
    const edge e = job.source(i);
    atomicAdd(&degrees[e.source], 1u);
    if (e.source != e.target || !job.undirected) atomicAdd(&degrees[e.target], 1u);
  }
}

/// Keys in whose order vertices with more edges come first, then those of lower numbers.
static __global__ void order_by_degree(const uint32_t* degrees, uint64_t vertices, uint64_t* keys) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < vertices; v += lanes)
    keys[v] = uint64_t{~degrees[v]} << 32 | v;
}

/// Appends the keys of the lanes that have one; only counts if `keys` is null. Thread scope: warp, converged.
GRAVEL_DEVICE void append_key(uint64_t* keys, uint64_t* count, bool have, uint64_t key) {
  const unsigned having = __ballot_sync(~0u, have), lane = threadIdx.x % 32;
  if (having == 0) return;
  uint64_t at = 0;
  if (lane == 0) at = fetch_add<scope::device>(count, static_cast<uint64_t>(__popc(having)));
  at = __shfl_sync(~0u, at, 0) + static_cast<uint64_t>(__popc(having & ((1u << lane) - 1)));
  if (have && keys) keys[at] = key;
}

/// Makes all edges and keeps those whose row is here: once with `keys` null, to count them.
static __global__ void make_rmat(rmat_job job, uint64_t* keys, uint64_t* count) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t of_warp = lane / 32 * 32; of_warp < job.all; of_warp += lanes) {
    const uint64_t i = of_warp + lane % 32;
    edge e = job.source(i);
    if (job.reversed) e = {e.target, e.source};
    const bool loop = e.source == e.target, there = i < job.all && (job.loops || !loop);
    const uint32_t source = job.code_of(e.source), target = job.code_of(e.target);
    append_key(keys, count, there && job.codes.owner(source) == job.part,
               uint64_t{job.codes.place(source)} << job.code_bits | target);
    if (!job.undirected) continue;
    append_key(keys, count, there && !loop && job.codes.owner(target) == job.part,
               uint64_t{job.codes.place(target)} << job.code_bits | source);
  }
}

/// Where rows begin, of `count` sorted keys; and which vertices of other parts they name, a bit for each code.
static __global__ void find_rows(rmat_job job, const uint64_t* keys, uint64_t count, uint64_t* offsets,
                                 uint32_t* named) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i <= count; i += lanes) {
    const uint64_t last = i < count ? job.row_of(keys[i]) : job.own;
    for (uint64_t row = i ? job.row_of(keys[i - 1]) + 1 : 0; row <= last; ++row) offsets[row] = i;
    if (i == count) continue;
    const uint32_t target = job.target_of(keys[i]), bit = 1u << target % 32;
    if (job.codes.owner(target) != job.part && (load_relaxed<scope::device>(&named[target / 32]) & bit) == 0)
      atomicOr(&named[target / 32], bit);
  }
}

/// Targets as places and ghosts; `before`: how many bits of `named` are set before each word.
static __global__ void name_targets(rmat_job job, const uint64_t* keys, uint64_t count, const uint32_t* named,
                                    const uint32_t* before, uint32_t* targets, float* weights, uint64_t* uses) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint32_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) {
    const uint32_t target = job.target_of(keys[i]);
    if (weights) {
      const uint32_t row = job.codes.code(job.part, job.row_of(keys[i]));
      weights[i] = static_cast<float>(
          weight_between(job.vertex_of(row), job.vertex_of(target), job.max_weight, job.weight_seed));
    }
    const bool own = job.codes.owner(target) == job.part;
    const unsigned below = named[target / 32] & ((1u << target % 32) - 1);
    targets[i] = own ? job.codes.place(target)
                     : static_cast<uint32_t>(job.own) + before[target / 32] + static_cast<uint32_t>(__popc(below));
    mine += !own;
  }
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0 && mine) fetch_add<scope::device>(uses, uint64_t{mine});
}

/// The ghosts that the bits of `named` stand for; fills `before` (name_targets).
inline ghost_list list_ghosts(const std::vector<uint32_t>& named, const rmat_job& job, std::vector<uint32_t>& before) {
  ghost_list ghosts;
  ghosts.first.assign(static_cast<size_t>(job.blocks.parts) + 1, 0);
  for (size_t w = 0; w < named.size(); ++w) {
    before.push_back(static_cast<uint32_t>(ghosts.codes.size()));
    for (uint32_t rest = named[w]; rest; rest &= rest - 1) {
      ghosts.codes.push_back(static_cast<uint32_t>(w * 32 + static_cast<size_t>(std::countr_zero(rest))));
      ++ghosts.first[static_cast<size_t>(job.codes.owner(ghosts.codes.back())) + 1];
    }
  }
  for (size_t p = 1; p < ghosts.first.size(); ++p) ghosts.first[p] += ghosts.first[p - 1];
  if (job.own + ghosts.codes.size() > ~uint32_t{0}) fail_text("more vertices and ghosts than 32 bits can name");
  return ghosts;
}

/// by_degrees(), on the device.
inline partition divide_by_degrees(const rmat_job& job, unsigned grid) {
  const uint64_t vertices = job.blocks.vertices;
  device_array<uint32_t> degrees(std::vector<uint32_t>(vertices, 0));
  device_array<uint64_t> keys(vertices), others(vertices);
  gravel_launch(count_ends, grid, lanes_of_block, job, degrees.data());
  gravel_launch(order_by_degree, grid, lanes_of_block, static_cast<const uint32_t*>(degrees.data()), vertices,
                keys.data());
  gravel_synchronize();
  std::vector<uint64_t> sorted(vertices);
  gravel_copy(sorted.data(), sort_keys(keys.data(), others.data(), vertices, 64), vertices * sizeof(uint64_t));
  return round_robin({sorted.begin(), sorted.end()}, job.blocks.parts);
}

/// The part of an R-MAT graph divided into blocks or by degrees, made on the device. As sorted rows it is what
/// load_part() makes on the host.
inline device_part make_rmat_part(const graph_input& input, const graph_wish& wish, int part, int parts) {
  const uint64_t vertices = uint64_t{1} << input.rmat_scale;
  const unsigned grid = 8 * blocks_to_fill_device();
  rmat_job job{.source = rmat_source::of(input.rmat_scale, input.seed),
               .all = input.edges_per_vertex << input.rmat_scale,
               .undirected = wish.undirected || input.undirected,
               .reversed = wish.reversed,
               .loops = !wish.simple && !input.simple,
               .blocks = {vertices, parts},
               .codes = {0},
               .code_of_vertex = nullptr,
               .vertex_of_code = nullptr,
               .part = part,
               .own = 0,
               .code_bits = 0,
               .max_weight = input.max_weight,
               .weight_seed = input.seed};
  device_part made;
  const partition& by = made.part.by;
  name_part(made.part, input.division == "degrees" ? divide_by_degrees(job, grid) : contiguous(vertices, parts), part);
  job.codes = made.part.codes;
  job.own = by.count(part);
  const uint64_t codes = static_cast<uint64_t>(parts) << job.codes.shift;
  job.code_bits = static_cast<int>(std::bit_width(codes - 1));
  device_array<uint32_t> code_of_vertex, vertex_of_code;
  if (!by.number.empty()) {
    std::vector<uint32_t> there(vertices), back(codes);
    for (uint64_t v = 0; v < vertices; ++v) {
      const int owner = by.owner(by.number[v]);
      there[v] = job.codes.code(owner, by.number[v] - by.first[static_cast<size_t>(owner)]);
      back[there[v]] = static_cast<uint32_t>(v);
    }
    code_of_vertex = device_array<uint32_t>(there);
    vertex_of_code = device_array<uint32_t>(back);
    job.code_of_vertex = code_of_vertex.data();
    job.vertex_of_code = vertex_of_code.data();
  }
  device_array<uint64_t> counters(std::vector<uint64_t>(2));
  const auto read = [&](unsigned which) {
    uint64_t value = 0;
    gravel_synchronize();
    gravel_copy(&value, counters.data() + which, sizeof(value));
    return value;
  };
  gravel_launch(make_rmat, grid, lanes_of_block, job, static_cast<uint64_t*>(nullptr), counters.data());
  uint64_t count = read(0);
  device_array<uint64_t> keys(count), others(count);
  gravel_launch(make_rmat, grid, lanes_of_block, job, keys.data(), counters.data() + 1);
  gravel_synchronize();
  if (sort_keys(keys.data(), others.data(), count, job.code_bits + static_cast<int>(std::bit_width(job.own))) !=
      keys.data())
    std::swap(keys, others);
  if (!job.loops) {
    count = keep_first(keys.data(), others.data(), count);
    std::swap(keys, others);
  }
  others.release();

  const uint64_t own = job.own, words = (codes + 31) / 32;
  made.edges = count;
  made.offsets = device_array<uint64_t>(own + 1);
  made.targets = device_array<uint32_t>(count);
  if (wish.weights) made.weights = device_array<float>(count);
  std::vector<uint32_t> named(words), before;
  device_array<uint32_t> named_here(named);
  gravel_launch(find_rows, grid, lanes_of_block, job, static_cast<const uint64_t*>(keys.data()), count,
                made.offsets.data(), named_here.data());
  gravel_synchronize();
  gravel_copy(named.data(), named_here.data(), words * sizeof(uint32_t));
  made.ghosts = list_ghosts(named, job, before);
  device_array<uint32_t> before_here(before);
  device_array<uint64_t> uses(std::vector<uint64_t>(1));
  gravel_launch(name_targets, grid, lanes_of_block, job, static_cast<const uint64_t*>(keys.data()), count,
                static_cast<const uint32_t*>(named_here.data()), static_cast<const uint32_t*>(before_here.data()),
                made.targets.data(), made.weights.data(), uses.data());
  gravel_synchronize();
  gravel_copy(&made.ghosts.uses, uses.data(), sizeof(uint64_t));
  made.part.rows.offsets.resize(own + 1);
  gravel_copy(made.part.rows.offsets.data(), made.offsets.data(), (own + 1) * sizeof(uint64_t));
  return made;
}

/// The same of any graph, made or read on the host.
inline device_part copy_part(const graph_input& input, const graph_wish& wish, int part, int parts) {
  device_part made;
  made.part = load_part(input, wish, part, parts);
  csr& rows = made.part.rows;
  std::vector<uint32_t> targets = codes_of(rows, made.part.by, made.part.codes);
  made.ghosts = find_ghosts(targets, made.part.codes, part, parts, rows.rows());
  made.edges = targets.size();
  made.offsets = device_array<uint64_t>(rows.offsets);
  made.targets = device_array<uint32_t>(targets);
  if (wish.weights) made.weights = device_array<float>(std::vector<float>(rows.weights.begin(), rows.weights.end()));
  made.whole_weights =
      std::all_of(rows.weights.begin(), rows.weights.end(), [](double weight) { return weight == std::floor(weight); });
  rows.targets = {};
  rows.weights = {};
  return made;
}

/// Keys in whose order the edges of each row stand by weight: the row above the bits of the weight.
static __global__ void order_by_weight(const uint64_t* offsets, const float* weights, uint64_t rows, uint64_t* keys) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32;
  for (uint64_t row = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; row < rows; row += warps)
    for (uint64_t e = offsets[row] + threadIdx.x % 32; e < offsets[row + 1]; e += 32)
      keys[e] = row << 32 | to_word(weights[e]);
}

static __global__ void take_weights(const uint64_t* keys, uint64_t count, float* weights) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += lanes)
    weights[e] = from_word<float>(keys[e] & 0xffffffff);
}

/// Puts the edges of each row in the order of their weights, which are from 0 on: so their bits have the same order.
/// Not collective.
inline void sort_by_weight(device_part& graph) {
  device_array<uint64_t> keys(graph.edges), other_keys(graph.edges);
  device_array<uint32_t> other(graph.edges);
  const unsigned grid = 8 * blocks_to_fill_device();
  gravel_launch(order_by_weight, grid, lanes_of_block, static_cast<const uint64_t*>(graph.offsets.data()),
                static_cast<const float*>(graph.weights.data()), graph.own(), keys.data());
  gravel_synchronize();
  const int bits = 32 + static_cast<int>(std::bit_width(graph.own()));
  const uint64_t* const sorted =
      sort_pairs(keys.data(), other_keys.data(), graph.targets.data(), other.data(), graph.edges, bits);
  if (sorted != keys.data()) std::swap(graph.targets, other);
  gravel_launch(take_weights, grid, lanes_of_block, sorted, graph.edges, graph.weights.data());
  gravel_synchronize();
}

/// From gravel_init to gravel_finalize; not collective. Throws gravel::error.
inline device_part load_on_device(const graph_input& input, const graph_wish& wish, int part, int parts) {
  const bool here = input.rmat_scale >= 0 && (input.division == "blocks" || input.division == "degrees");
  const auto begin = std::chrono::steady_clock::now();
  device_part made = here ? make_rmat_part(input, wish, part, parts) : copy_part(input, wish, part, parts);
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return made;
}

/// Rows in which a part differs from what the host makes; all, if it differs elsewhere. The order within rows does not
/// count.
inline uint64_t rows_unlike_host(const device_part& made, const graph_input& input, const graph_wish& wish, int part,
                                 int parts) {
  const graph_part expected = load_part(input, wish, part, parts);
  std::vector<uint32_t> targets(made.edges), wanted = codes_of(expected.rows, expected.by, expected.codes);
  const ghost_list ghosts = find_ghosts(wanted, expected.codes, part, parts, expected.rows.rows());
  std::vector<uint64_t> offsets(expected.rows.offsets.size());
  gravel_copy(targets.data(), made.targets.data(), targets.size() * sizeof(uint32_t));
  gravel_copy(offsets.data(), made.offsets.data(), offsets.size() * sizeof(uint64_t));
  if (ghosts.codes != made.ghosts.codes || ghosts.first != made.ghosts.first || ghosts.uses != made.ghosts.uses ||
      offsets != expected.rows.offsets || expected.old_numbers != made.part.old_numbers)
    return std::max<uint64_t>(expected.rows.rows(), 1);
  uint64_t unlike = 0;
  for (size_t v = 0; v + 1 < offsets.size(); ++v) {
    const auto begin = static_cast<std::ptrdiff_t>(offsets[v]), end = static_cast<std::ptrdiff_t>(offsets[v + 1]);
    std::sort(targets.begin() + begin, targets.begin() + end);
    std::sort(wanted.begin() + begin, wanted.begin() + end);
    unlike += !std::equal(targets.begin() + begin, targets.begin() + end, wanted.begin() + begin);
  }
  return unlike;
}

}  // namespace app
