// Files of METIS. The first line has the numbers of vertices and edges and a format; then each line has the neighbours
// of a vertex, numbered from 1.
#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "lib/base/mix.hpp"
#include "lib/graph/formats.hpp"

namespace gravel::detail {
namespace {

struct metis_header {
  uint64_t vertices = 0, edges = 0;
  bool sizes = false, edge_weights = false;
  uint64_t vertex_weights = 0;
  uint64_t line = 0;
};

bool next_line(line_reader& reader, std::string_view& line) {
  while (reader.next(line))
    if (!is_comment(line, '%')) return true;
  return false;
}

metis_header read_header(line_reader& reader) {
  constexpr uint64_t most_constraints = 1 << 16;
  std::string_view line;
  metis_header h;
  if (!next_line(reader, line))
    fail("{} ends before its first line 'vertices edges [format [weights]]'", reader.path());
  std::string_view rest = line;
  bool right = take_number(rest, h.vertices) && take_number(rest, h.edges);
  std::string_view format = right ? take_word(rest) : "";
  const auto digit = [&](size_t from_right) {
    return format.size() >= from_right && format[format.size() - from_right] == '1';
  };
  uint64_t constraints = 1;
  const bool has_constraints = !at_end(rest);
  if (has_constraints) right &= take_number(rest, constraints) && constraints > 0;
  right &= format.size() <= 3 && format.find_first_not_of("01") == format.npos && at_end(rest);
  if (!right)
    reader.fail_here("expected 'vertices edges [format [weights]]', the format of up to three digits 0 or 1, found {}",
                     quoted(line));
  if (constraints > most_constraints)
    reader.fail_here("{} weights of a vertex are more than the {} supported", constraints, most_constraints);
  if (has_constraints && !digit(2))
    reader.fail_here(
        "{} weights of a vertex, but the format {} says that vertices have none: its middle digit is not 1",
        constraints, format);
  h.edge_weights = digit(1);
  h.vertex_weights = digit(2) ? constraints : 0;
  h.sizes = digit(3);
  h.line = reader.line_number();
  if (h.vertices == 0) reader.fail_here("the graph has no vertices: it needs at least one");
  if (h.vertices > most_vertices)
    reader.fail_here("the graph has {} vertices, more than the {} supported", h.vertices, most_vertices);
  if (h.edges > most_vertices)
    reader.fail_here("the graph has {} edges, more than the {} supported", h.edges, most_vertices);
  return h;
}

/// Calls visit(vertex, neighbour, weight) for each neighbour of each vertex, both numbered from 0, and checks each line
/// alone.
template <class Visit>
void each_neighbour(line_reader& reader, const metis_header& h, Visit&& visit) {
  std::string_view line;
  std::vector<uint64_t> row;
  for (uint64_t v = 0; v < h.vertices; ++v) {
    if (!next_line(reader, line))
      fail("{} ends after the neighbours of {} vertices, but has {}: is it complete?", reader.path(), v, h.vertices);
    std::string_view rest = line;
    uint64_t ignored;
    for (uint64_t i = 0; i < h.sizes + h.vertex_weights; ++i)
      if (!take_number(rest, ignored))
        reader.fail_here("expected {} numbers for vertex {} first, found {}", h.sizes + h.vertex_weights, v + 1,
                         quoted(line));
    row.clear();
    while (!at_end(rest)) {
      uint64_t neighbour;
      written_real weight;
      if (!take_number(rest, neighbour) || (h.edge_weights && !take_real(rest, weight)))
        reader.fail_here("expected {} of vertex {}, found {}",
                         h.edge_weights ? "pairs of neighbour and weight" : "neighbours", v + 1, quoted(line));
      if (neighbour < 1 || neighbour > h.vertices)
        reader.fail_here("neighbour {} of vertex {} does not exist: there are 1 to {}", neighbour, v + 1, h.vertices);
      if (neighbour == v + 1)
        reader.fail_here("vertex {} is its own neighbour: a graph of METIS has no loops", neighbour);
      visit(v, neighbour - 1, weight);
      row.push_back(neighbour);
    }
    if (!std::is_sorted(row.begin(), row.end())) std::sort(row.begin(), row.end());
    if (const auto twice = std::adjacent_find(row.begin(), row.end()); twice != row.end())
      reader.fail_here("vertex {} has the neighbour {} twice: a graph of METIS has each edge once", v + 1, *twice);
  }
  while (next_line(reader, line))
    if (!at_end(line))
      reader.fail_here("expected the end of the file after the neighbours of {} vertices, found {}", h.vertices,
                       quoted(line));
}

/// Checks that both ends of each edge list it, with the same weight. It compares sums of hashes, which need no memory
/// for edges. Edges are in groups, so that only one group is searched for the fault.
class mirror_check {
 public:
  static uint64_t group_of(uint64_t v, uint64_t neighbour) { return hash(v, neighbour) % groups; }
  void add(uint64_t v, uint64_t neighbour, double weight) {
    const uint64_t edge = mix(hash(v, neighbour) ^ std::bit_cast<uint64_t>(weight + 0.0));
    sums_[group_of(v, neighbour)] += v < neighbour ? edge : -edge;
  }
  /// Returns a group that has such a fault; `groups` if there is none.
  uint64_t wrong_group() const {
    return static_cast<uint64_t>(std::find_if(sums_.begin(), sums_.end(), [](uint64_t sum) { return sum != 0; }) -
                                 sums_.begin());
  }
  static constexpr uint64_t groups = 4096;

 private:
  static uint64_t hash(uint64_t v, uint64_t neighbour) {
    return mix(mix(std::min(v, neighbour)) ^ std::max(v, neighbour));
  }
  std::array<uint64_t, groups> sums_{};
};

/// Reads the file again, finds the faulty edge of the group, and throws.
[[noreturn]] void fail_one_sided(line_reader& reader, uint64_t group) {
  struct listed {
    uint64_t low, high, from, line;
    double weight;
  };
  std::vector<listed> edges;
  reader.rewind();
  each_neighbour(reader, read_header(reader), [&](uint64_t v, uint64_t neighbour, const written_real& weight) {
    if (mirror_check::group_of(v, neighbour) == group)
      edges.push_back(
          {std::min(v, neighbour) + 1, std::max(v, neighbour) + 1, v + 1, reader.line_number(), weight.value});
  });
  std::sort(edges.begin(), edges.end(), [](const listed& a, const listed& b) {
    return std::tie(a.low, a.high, a.line) < std::tie(b.low, b.high, b.line);
  });
  for (size_t i = 0; i < edges.size(); ++i) {
    const listed& one = edges[i];
    const uint64_t other_end = one.low + one.high - one.from;
    const listed* const back =
        i + 1 < edges.size() && edges[i + 1].low == one.low && edges[i + 1].high == one.high ? &edges[i + 1] : nullptr;
    if (!back)
      reader.fail_at(one.line,
                     "vertex {} has the neighbour {}, but vertex {} has not the neighbour {}: both ends of an edge "
                     "list it. Write a "
                     "directed graph as an edge list or Matrix Market",
                     one.from, other_end, other_end, one.from);
    if (one.weight != back->weight)
      reader.fail_at(one.line, "the edge of vertices {} and {} has the weight {} here and {} in line {}", one.from,
                     other_end, one.weight, back->weight, back->line);
    ++i;
  }
  fail("{} changed while it was read", reader.path());
}

}  // namespace

void read_metis(line_reader& reader, const graph_share& share, const read_options& options, edge_list& list) {
  const metis_header h = read_header(reader);
  if (options.weights && !h.edge_weights)
    reader.fail_here("the edges of this graph have no weights: the format's last digit is not 1");
  if (list.vertices && list.vertices != h.vertices)
    reader.fail_here("the graph has {} vertices, but the names file has {} lines", h.vertices, list.vertices);
  list.vertices = h.vertices;
  list.ids.first = 1;
  // The file has both directions of each edge.
  edge_keeper keeper(list, {share.part, share.parts, false, share.reversed});
  if (options.weights) keeper.with_weights();
  uint64_t seen = 0;
  mirror_check mirror;
  each_neighbour(reader, h, [&](uint64_t v, uint64_t neighbour, const written_real& weight) {
    mirror.add(v, neighbour, weight.value);
    keeper.add({v, neighbour}, options.weights ? checked_weight(reader, weight) : 0);
    ++seen;
  });
  if (const uint64_t group = mirror.wrong_group(); group != mirror_check::groups) fail_one_sided(reader, group);
  if (seen != 2 * h.edges)
    reader.fail_at(h.line, "{} edges are promised, which are {} neighbours, but there are {}: is the file complete?",
                   h.edges, 2 * h.edges, seen);
}

}  // namespace gravel::detail
