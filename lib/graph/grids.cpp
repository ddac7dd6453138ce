// Graphs of a plane: a triangulated mesh, and a grid with gaps.
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/graph/generate.hpp"
#include "lib/graph/portions.hpp"

namespace gravel::detail {
namespace {

void check_sides(const char* what, uint64_t width, uint64_t height) {
  constexpr uint64_t most = 1 << 20;
  if (width < 1 || height < 1 || width > most || height > most)
    fail("a {} of {} x {}: each side is from 1 to {}", what, width, height, most);
}

constexpr uint64_t squares_of_portion = 1 << 16;
uint64_t rows_of_portion(uint64_t width) { return squares_of_portion / width + 1; }

// The share with both directions of each edge.
graph_share both_ways(graph_share share) {
  share.undirected = true;
  return share;
}

}  // namespace

// Triangle 0 of a square has its left side and triangle 1 its right side. If the diagonal rises, triangle 0 has the
// upper side and triangle 1 the lower side; if it falls, the other way round.
edge_list mesh(uint64_t width, uint64_t height, uint64_t seed, const graph_share& share) {
  check_sides("mesh", width, height);
  edge_list list;
  list.vertices = 2 * width * height;
  check_share(share);
  const uint64_t edges = 2 * (width * height + (width - 1) * height + width * (height - 1));
  reserve_share(list, edges, share.parts);
  const uint64_t key = mix(seed);
  const auto rises = [&](uint64_t x, uint64_t y) { return mix(key ^ (y << 32 | x)) & 1; };
  const auto triangle = [&](uint64_t x, uint64_t y, uint64_t which) { return 2 * (y * width + x) + which; };
  // The rows whose edges touch this part's vertices: its own rows and the row before.
  const block_distribution blocks(list.vertices, share.parts);
  const uint64_t own = blocks.first(share.part) / (2 * width), first = own ? own - 1 : 0;
  const uint64_t end = blocks.count(share.part) ? (blocks.first(share.part + 1) - 1) / (2 * width) + 1 : first;
  keep_in_portions(list, both_ways(share), end - first, rows_of_portion(width),
                   [&](edge_keeper& keeper, uint64_t from, uint64_t to) {
                     for (uint64_t y = first + from; y < first + to; ++y)
                       for (uint64_t x = 0; x < width; ++x) {
                         keeper.add({triangle(x, y, 0), triangle(x, y, 1)});
                         if (x + 1 < width) keeper.add({triangle(x, y, 1), triangle(x + 1, y, 0)});
                         if (y + 1 < height)
                           keeper.add({triangle(x, y, !rises(x, y)), triangle(x, y + 1, rises(x, y + 1))});
                       }
                   });
  list.total_edges = edges;
  return list;
}

edge_list road_grid(uint64_t width, uint64_t height, double kept, uint64_t seed, const graph_share& share) {
  check_sides("grid", width, height);
  if (!(kept >= 0 && kept <= 1)) fail("of a grid's edges a share of {} is kept; it must be from 0 to 1", kept);
  edge_list list;
  list.vertices = width * height;
  const uint64_t key = mix(seed), most = static_cast<uint64_t>(std::ldexp(kept, 63));  // 2^63 if all are kept
  const auto there = [&](uint64_t edge_number) { return mix(key ^ edge_number) >> 1 < most; };
  check_share(share);
  reserve_share(list, static_cast<uint64_t>(4 * kept * static_cast<double>(list.vertices)), share.parts);
  keep_in_portions(list, both_ways(share), height, rows_of_portion(width),
                   [&](edge_keeper& keeper, uint64_t from, uint64_t to) {
                     for (uint64_t y = from, v = from * width; y < to; ++y)
                       for (uint64_t x = 0; x < width; ++x, ++v) {
                         if (x + 1 < width && there(2 * v)) keeper.add({v, v + 1});
                         if (y + 1 < height && there(2 * v + 1)) keeper.add({v, v + width});
                       }
                   });
  return list;
}

}  // namespace gravel::detail
