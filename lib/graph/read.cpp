#include "lib/graph/read.hpp"

#include "lib/graph/formats.hpp"

namespace gravel::detail {
namespace {

/// Compares the ending of a name in ASCII, ignoring case.
bool has_ending(std::string_view name, std::string_view ending) {
  return name.size() > ending.size() && same_word(name.substr(name.size() - ending.size()), ending);
}

graph_format format_of(const line_reader& reader, std::string_view first_line) {
  std::string_view stem = reader.path();
  if (has_ending(stem, ".gz")) stem.remove_suffix(3);
  if (has_ending(stem, ".mtx") || same_word(first_line.substr(0, matrix_market_banner.size()), matrix_market_banner))
    return graph_format::matrix_market;
  if (has_ending(stem, ".graph") || has_ending(stem, ".metis")) return graph_format::metis;
  if (is_comment(first_line, '%'))
    reader.fail_here("expected '%%MatrixMarket ...' or a SNAP edge list with '#' comments, found {}",
                     quoted(first_line));
  return graph_format::snap;
}

}  // namespace

edge_list read_graph(byte_source& source, const graph_share& share, const read_options& options) {
  edge_list list;
  edge_keeper(list, share);  // there is such a part
  if (!options.names.empty()) {
    list.names = read_names(options.names);
    list.vertices = list.names.size();
  }
  graph_format format = options.format;
  if (format == graph_format::galois || (format == graph_format::automatic && is_galois(source))) {
    read_galois(source, share, options, list);
    return list;
  }
  line_reader reader(source);
  std::string_view line;
  if (!reader.next(line)) fail("{} is empty: expected a SNAP edge list or a Matrix Market file", source.name());
  if (format == graph_format::automatic) format = format_of(reader, line);
  reader.rewind();
  switch (format) {
    case graph_format::matrix_market: read_matrix_market(reader, share, options, list); break;
    case graph_format::metis: read_metis(reader, share, options, list); break;
    default: read_snap(reader, share, options, list);
  }
  return list;
}

edge_list read_graph(const std::string& path, const graph_share& share, const read_options& options) {
  byte_source source(path);
  return read_graph(source, share, options);
}

std::vector<std::string> read_names(const std::string& path) {
  byte_source source(path);
  line_reader reader(source);
  std::vector<std::string> names;
  std::string_view line;
  while (reader.next(line)) {
    if (line.empty()) reader.fail_here("expected the name of vertex {}, found an empty line", names.size());
    names.emplace_back(line);
  }
  if (names.empty()) fail("{} is empty: expected one name per line", path);
  return names;
}

std::string names_path_of(const std::string& graph_path) {
  std::string_view stem = graph_path;
  for (const std::string_view ending : {".gz", ".txt", ".mtx", ".graph", ".metis", ".gr"})
    if (stem.ends_with(ending) && stem.size() > ending.size()) stem.remove_suffix(ending.size());
  return std::string(stem) + ".names";
}

}  // namespace gravel::detail
