// Files of METIS: the first line has the numbers of vertices and edges and a format, then each line the neighbours of a vertex, from 1.
#include "lib/graph/formats.hpp"

namespace gravel {
namespace {

struct metis_header {
  uint64_t vertices = 0, edges = 0;
  bool sizes = false, edge_weights = false;
  uint64_t vertex_weights = 0;
};

bool next_line(line_reader& reader, std::string_view& line) {
  while (reader.next(line))
    if (!line.starts_with('%')) return true;
  return false;
}

metis_header read_header(line_reader& reader) {
  std::string_view line;
  metis_header h;
  if (!next_line(reader, line)) fail("{} ends before its first line 'vertices edges [format [weights]]'", reader.path());
  std::string_view rest = line;
  bool right = take_number(rest, h.vertices) && take_number(rest, h.edges);
  std::string_view format = right ? take_word(rest) : "";
  uint64_t constraints = 1;
  if (!at_end(rest)) right &= take_number(rest, constraints) && constraints > 0;
  right &= format.size() <= 3 && format.find_first_not_of("01") == format.npos && at_end(rest);
  if (!right)
    reader.fail_here("expected 'vertices edges [format [weights]]', the format of up to three digits 0 or 1, found {}", quoted(line));
  const auto digit = [&](size_t from_right) { return format.size() >= from_right && format[format.size() - from_right] == '1'; };
  h.edge_weights = digit(1);
  h.vertex_weights = digit(2) ? constraints : 0;
  h.sizes = digit(3);
  if (h.vertices == 0) reader.fail_here("the graph has no vertices: it needs at least one");
  if (h.vertices > most_vertices) reader.fail_here("the graph has {} vertices, more than the {} supported", h.vertices, most_vertices);
  return h;
}

}  // namespace

void read_metis(line_reader& reader, const graph_share& share, const read_options& options, edge_list& list) {
  const metis_header h = read_header(reader);
  if (options.weights && !h.edge_weights) reader.fail_here("the edges of this graph have no weights: the format's last digit is not 1");
  if (list.vertices && list.vertices != h.vertices)
    reader.fail_here("the graph has {} vertices, but the names file has {} lines", h.vertices, list.vertices);
  list.vertices = h.vertices;
  list.ids.first = 1;
  // The file has both directions of each edge.
  edge_keeper keeper(list, {share.part, share.parts, false, share.reversed});
  if (options.weights) keeper.with_weights();
  uint64_t seen = 0;
  std::string_view line;
  for (uint64_t v = 0; v < h.vertices; ++v) {
    if (!next_line(reader, line))
      fail("{} ends after the neighbours of {} vertices, but has {}: is it complete?", reader.path(), v, h.vertices);
    std::string_view rest = line;
    uint64_t ignored;
    for (uint64_t i = 0; i < h.sizes + h.vertex_weights; ++i)
      if (!take_number(rest, ignored))
        reader.fail_here("expected {} numbers for vertex {} first, found {}", h.sizes + h.vertex_weights, v + 1, quoted(line));
    while (!at_end(rest)) {
      uint64_t neighbour;
      double weight = 0;
      if (!take_number(rest, neighbour) || (h.edge_weights && !take_number(rest, weight)))
        reader.fail_here("expected {} of vertex {}, found {}", h.edge_weights ? "pairs of neighbour and weight" : "neighbours", v + 1,
                         quoted(line));
      if (neighbour < 1 || neighbour > h.vertices)
        reader.fail_here("neighbour {} of vertex {} does not exist: there are 1 to {}", neighbour, v + 1, h.vertices);
      if (options.weights) check_weight(reader, weight);
      keeper.add({v, neighbour - 1}, weight);
      ++seen;
    }
  }
  while (next_line(reader, line))
    if (!at_end(line))
      reader.fail_here("expected the end of the file after the neighbours of {} vertices, found {}", h.vertices, quoted(line));
  if (seen != 2 * h.edges)
    fail("{} has {} neighbours in all, but promises {} edges, which are {} neighbours: is it complete?", reader.path(), seen, h.edges,
         2 * h.edges);
}

}  // namespace gravel
