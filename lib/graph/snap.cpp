// SNAP edge lists.
#include "lib/graph/formats.hpp"
#include "lib/graph/id_index.hpp"

namespace gravel::detail {
namespace {

template <class Visit>
void each_edge(line_reader& reader, bool weights, Visit&& visit) {
  std::string_view line;
  while (reader.next(line)) {
    std::string_view rest = line;
    skip_blanks(rest);
    if (rest.empty() || rest[0] == '#') continue;
    if (rest.starts_with(matrix_market_banner)) fail_banner(reader, line);
    edge e;
    written_real weight;
    if (!take_number(rest, e.source) || !take_number(rest, e.target))
      reader.fail_here("expected two vertex ids (whole numbers from 0 to 2^64-1), 'source target', found {}",
                       quoted(line));
    if (weights) {
      if (!take_real(rest, weight))
        reader.fail_here("expected a weight after two vertex ids, 'source target weight', found {}", quoted(line));
      weight.value = checked_weight(reader, weight);
    }
    if (!at_end(rest))
      reader.fail_here("expected the end of the line after two vertex ids{}, found {}; cut further columns off",
                       weights ? " and a weight" : "", quoted(line));
    visit(e, weight.value);
  }
}

// Reads ids that are line numbers of the names file: one pass.
void read_named(line_reader& reader, const graph_share& share, bool weights, edge_list& list) {
  edge_keeper keeper(list, share);
  if (weights) keeper.with_weights();
  each_edge(reader, weights, [&](edge e, double weight) {
    for (const uint64_t id : {e.source, e.target})
      if (id >= list.vertices)
        reader.fail_here("vertex {} has no name: the names file has {} lines, for the vertices from 0", id,
                         list.vertices);
    keeper.add(e, weight);
  });
}

}  // namespace

// Two passes: the owner of a source depends on the number of ids, so the first pass only collects the ids.
void read_snap(line_reader& reader, const graph_share& share, const read_options& options, edge_list& list) {
  if (!list.names.empty()) return read_named(reader, share, options.weights, list);
  id_index index;
  each_edge(reader, options.weights, [&](edge e, double) {
    index.insert(e.source);
    index.insert(e.target);
  });
  list.ids.listed = index.number();
  list.vertices = list.ids.listed.size();
  if (list.vertices == 0) fail("{} has no edges, only comments or empty lines", reader.path());
  edge_keeper keeper(list, share);
  if (options.weights) keeper.with_weights();
  reader.rewind();
  each_edge(reader, options.weights, [&](edge e, double weight) {
    edge numbered;
    if (!index.find(e.source, numbered.source) || !index.find(e.target, numbered.target))
      reader.fail_here("the file changed while it was read");
    keeper.add(numbered, weight);
  });
}

}  // namespace gravel::detail
