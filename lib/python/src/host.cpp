// The Python module `gravel._host`: reads and graphs of files, the division of graphs, and unique ids. It is a module
// of its own, as it needs libgravel_graph, which other parts of the package do not. Nothing here needs a job.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gravel/graph.hpp>
#include <gravel/gravel.hpp>
#include <gravel/reads.hpp>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using values_read = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Makes an array of NumPy of a vector, without a copy.
template <class T>
nb::object array_of(std::vector<T>&& values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const size_t shape[] = {kept->size()};
  T* const at = kept->data();
  const nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(at, 1, shape, owner));
}

/// The codes of every `of`-th record of a file, beginning with record `number`, as an array of NumPy: A, C, G and T are
/// 0 to 3, and 4 stands in front of each piece of a read and behind it.
nb::object read_codes(const std::string& path, uint64_t number, uint64_t of) {
  std::vector<uint8_t> found;
  {
    const nb::gil_scoped_release release;
    found = gravel::read_reads(path, {number, of}).codes;
  }
  return array_of(std::move(found));
}

/// The edges of a file whose sources a part has: the number of vertices of the whole graph, sources, targets, weights
/// (empty without them), and the ids of all vertices: the first one, and a list if they are not consecutive.
nb::tuple read_edges(const std::string& path, int part, int parts, bool undirected, bool weighted) {
  gravel::edge_list list;
  std::vector<uint64_t> sources, targets;
  {
    const nb::gil_scoped_release release;
    list = gravel::read_graph(path, {.part = part, .parts = parts, .undirected = undirected}, {.weights = weighted});
    for (const gravel::edge& e : list.edges) {
      sources.push_back(e.source);
      targets.push_back(e.target);
    }
  }
  return nb::make_tuple(list.vertices, array_of(std::move(sources)), array_of(std::move(targets)),
                        array_of(std::vector<float>(list.weights.begin(), list.weights.end())), list.ids.first,
                        array_of(std::move(list.ids.listed)));
}

/// A part of a graph, as gravel::worklist_graph has it.
struct graph_part {
  std::vector<uint64_t> offsets, ghost_numbers;
  std::vector<uint32_t> targets, ghosts;
  std::vector<float> weights;
  uint32_t shift = 0;
};

/// The end of an edge.
struct edge_end {
  uint32_t code;
  float weight;
  auto operator<=>(const edge_end&) const = default;
};

/// Makes the rows of part `me` of its edges, in any order. Of edges that repeat it keeps the lightest. `places`: of
/// each vertex of the graph its number at its owner; parts are blocks. `weights` may be nullptr.
graph_part rows_of(uint64_t vertices, int me, int parts, const uint32_t* places, uint64_t edges,
                   const uint64_t* sources, const uint64_t* targets, const float* weights) {
  const gravel::block_distribution blocks(vertices, parts);
  const auto codes = gravel::vertex_code::of(blocks.block, parts);
  const uint64_t own = blocks.count(me);
  std::vector<uint64_t> next(own + 1);
  for (uint64_t e = 0; e < edges; ++e) ++next[places[sources[e]] + 1];
  for (uint64_t v = 0; v < own; ++v) next[v + 1] += next[v];
  const std::vector<uint64_t> begins = next;
  std::vector<edge_end> ends(edges);
  for (uint64_t e = 0; e < edges; ++e) {
    const uint64_t target = targets[e];
    ends[next[places[sources[e]]]++] = {codes.code(blocks.owner(target), places[target]), weights ? weights[e] : 0};
  }
  graph_part part;
  part.shift = codes.shift;
  part.offsets.push_back(0);
  for (uint64_t v = 0; v < own; ++v) {
    const auto row = ends.begin() + static_cast<std::ptrdiff_t>(begins[v]),
               row_end = ends.begin() + static_cast<std::ptrdiff_t>(begins[v + 1]);
    std::sort(row, row_end);
    const auto kept = std::unique(row, row_end, [](edge_end a, edge_end b) { return a.code == b.code; });
    for (auto end = row; end != kept; ++end) {
      part.targets.push_back(end->code);
      if (weights) part.weights.push_back(end->weight);
    }
    part.offsets.push_back(part.targets.size());
  }
  part.ghosts = gravel::find_ghosts(part.targets, codes, me, parts, own).codes;
  // The vertex with each code, as owner * blocks.block + place.
  std::vector<uint64_t> vertex_at(vertices);
  for (uint64_t v = 0; v < vertices; ++v) vertex_at[blocks.first(blocks.owner(v)) + places[v]] = v;
  for (const uint32_t code : part.ghosts)
    part.ghost_numbers.push_back(vertex_at[blocks.first(codes.owner(code)) + codes.place(code)]);
  return part;
}
nb::tuple divide(uint64_t vertices, int me, int parts, const values_read<uint32_t>& places,
                 const values_read<uint64_t>& sources, const values_read<uint64_t>& targets,
                 const std::optional<values_read<float>>& weights) {
  const uint32_t* const place_of = places.data();
  const uint64_t edges = sources.size();
  const uint64_t *const from = sources.data(), *const to = targets.data();
  const float* const weight_of = weights ? weights->data() : nullptr;
  graph_part part;
  {
    const nb::gil_scoped_release release;
    part = rows_of(vertices, me, parts, place_of, edges, from, to, weight_of);
  }
  return nb::make_tuple(array_of(std::move(part.offsets)), array_of(std::move(part.targets)),
                        array_of(std::move(part.weights)), array_of(std::move(part.ghosts)),
                        array_of(std::move(part.ghost_numbers)), part.shift);
}

std::string unique_id(const std::string& address, uint16_t port) {
  return gravel_unique_id(address.c_str(), port).text;
}

}  // namespace

NB_MODULE(_host, m) {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const gravel::error& e) {
          PyErr_SetString(static_cast<PyObject*>(type), e.what());
        }
      },
      nb::module_::import_("gravel._error").attr("Error").inc_ref().ptr());
  m.attr("longest_kmer") = gravel::longest_kmer;
  m.def("unique_id", &unique_id, "address"_a, "port"_a);
  m.def("read_codes", &read_codes, "path"_a, "number"_a, "of"_a);
  m.def("read_edges", &read_edges, "path"_a, "part"_a, "parts"_a, "undirected"_a, "weighted"_a);
  m.def("divide", &divide, "vertices"_a, "me"_a, "parts"_a, "places"_a, "sources"_a, "targets"_a, "weights"_a.none());
}
