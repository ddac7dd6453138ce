// R-MAT (Chakrabarti, Zhan, Faloutsos, 2004): each edge descends `scale` times into a quadrant of the matrix.
#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/graph/generate.hpp"

namespace gravel {
namespace {

// Of 2^32: how often the source's bit is 1, and then the target's, given the source's.
constexpr double a = 0.57, b = 0.19, c = 0.19, d = 0.05;
constexpr uint64_t threshold(double probability) { return static_cast<uint64_t>(probability * 4294967296.0); }
constexpr uint64_t source_one = threshold(c + d);
constexpr uint64_t target_one[2] = {threshold(b / (a + b)), threshold(d / (c + d))};

// The edge is a function of its number and the seed, so any part can generate any edge.
edge descend(int scale, uint64_t edge_seed) {
  edge e{0, 0};
  for (int level = 0; level < scale; ++level) {
    const uint64_t random = mix(edge_seed + static_cast<uint64_t>(level) * 0x9e3779b97f4a7c15ull);
    const uint64_t source_bit = (random & 0xffffffff) < source_one;
    const uint64_t target_bit = (random >> 32) < target_one[source_bit];
    e.source = e.source << 1 | source_bit;
    e.target = e.target << 1 | target_bit;
  }
  return e;
}

// A permutation of the numbers below 2^scale: odd multiplications and right shifts are invertible.
uint64_t scatter(uint64_t vertex, int scale, uint64_t seed) {
  const uint64_t mask = (1ull << scale) - 1;
  const int shift = (scale + 1) / 2;
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t key = mix(seed ^ round);
    vertex = ((vertex ^ key) * (key >> 32 | 1)) & mask;
    vertex ^= vertex >> shift;
  }
  return vertex;
}

}  // namespace

edge_list rmat(int scale, uint64_t edges_per_vertex, uint64_t seed, const graph_share& share) {
  if (scale < 1 || scale > 40) fail("the scale of a generated graph is {}; it must be from 1 to 40", scale);
  if (edges_per_vertex < 1 || edges_per_vertex > 65536)
    fail("a generated graph has {} edges per vertex; it must be from 1 to 65536", edges_per_vertex);
  edge_list list;
  list.vertices = 1ull << scale;
  edge_keeper keeper(list, share);
  const uint64_t scatter_seed = mix(seed), edge_seed = mix(~seed);
  for (uint64_t i = 0; i < edges_per_vertex << scale; ++i) {
    const edge e = descend(scale, mix(edge_seed ^ i));
    keeper.add({scatter(e.source, scale, scatter_seed), scatter(e.target, scale, scatter_seed)});
  }
  return list;
}

}  // namespace gravel
