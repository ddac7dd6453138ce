// Galois's .gr files, little-endian: four 64-bit words (version, bytes of an edge's weight, vertices, edges); the end
// of each vertex's edges as 64-bit words; the targets (version 1: 32-bit, padded to 8 bytes; version 2: 64-bit); the
// weights.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lib/graph/formats.hpp"
#include "lib/graph/weight.hpp"

namespace gravel::detail {
namespace {

class binary_reader {
 public:
  explicit binary_reader(byte_source& source) : source_(source) {}
  void read(void* to, uint64_t bytes, const char* what) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const size_t got = source_.read(at, bytes);
      if (got == 0) fail("{} ends at byte {}, within its {}: is it complete?", source_.name(), at_, what);
      at += got;
      bytes -= got;
      at_ += got;
    }
  }
  /// Reads in pieces, so that a wrong size does not allocate memory that the file does not need.
  template <class T>
  std::vector<T> read_all(uint64_t count, const char* what) {
    std::vector<T> all;
    for (uint64_t done = 0; done < count;) {
      const uint64_t piece = std::min(count - done, std::max<uint64_t>(done, 1024));
      all.resize(done + piece);
      read(all.data() + done, piece * sizeof(T), what);
      done += piece;
    }
    return all;
  }
  /// Expects the end of the file, which `filling` more bytes may precede.
  void expect_end(uint64_t filling) {
    char more[8];
    uint64_t rest = 0, got;
    while (rest <= filling && (got = source_.read(more, sizeof(more))) != 0) rest += got;
    if (rest != 0 && rest != filling) fail("{}: expected the end of the file at byte {}", source_.name(), at_);
  }

 private:
  byte_source& source_;
  uint64_t at_ = 0;
};

}  // namespace

bool is_galois(const byte_source& source) {
  uint64_t version = 0;
  if (source.head().size() >= sizeof(version)) std::memcpy(&version, source.head().data(), sizeof(version));
  return version == 1 || version == 2;
}

void read_galois(byte_source& source, const graph_share& share, const read_options& options, edge_list& list) {
  refuse_foreign_format(source);
  const std::string& path = source.name();
  binary_reader file(source);
  uint64_t head[4];
  file.read(head, sizeof(head), "first four words");
  const auto [version, weight_bytes, vertices, edges] = head;
  if (version != 1 && version != 2) fail("{}: expected a Galois file of version 1 or 2, found {}", path, version);
  if (weight_bytes != 0 && weight_bytes != 4 && weight_bytes != 8)
    fail("{}: weights of {} bytes; there may be 0, 4 or 8", path, weight_bytes);
  if (options.weights && weight_bytes == 0) fail("{}: the edges of this graph have no weights", path);
  if (vertices == 0) fail("{}: the graph has no vertices: it needs at least one", path);
  if (vertices > most_vertices || edges > most_vertices)
    fail("{}: {} vertices and {} edges are more than the {} supported", path, vertices, edges, most_vertices);
  if (list.vertices && list.vertices != vertices)
    fail("{}: the graph has {} vertices, but the names file has {} lines", path, vertices, list.vertices);
  list.vertices = vertices;
  edge_keeper keeper(list, share);
  if (options.weights) keeper.with_weights();

  const auto ends = file.read_all<uint64_t>(vertices, "ends of rows");
  for (uint64_t v = 0; v < vertices; ++v)
    if (ends[v] > edges || ends[v] < (v ? ends[v - 1] : 0))
      fail("{}: the edges of vertex {} end at {} of {}", path, v, ends[v], edges);
  if (ends.back() != edges) fail("{}: the edges of the last vertex end at {} of {}", path, ends.back(), edges);
  std::vector<uint32_t> narrow;
  std::vector<uint64_t> wide;
  if (version == 1) narrow = file.read_all<uint32_t>(edges + edges % 2 * (weight_bytes ? 1 : 0), "targets");
  else wide = file.read_all<uint64_t>(edges, "targets");
  const auto words = file.read_all<char>(weight_bytes * edges, "weights");
  // Some writers pad the targets even if nothing follows.
  file.expect_end(version == 1 && edges % 2 == 1 && weight_bytes == 0 ? 4 : 0);

  struct read_weight {
    double value;
    bool fits;
  };
  const auto weight_of = [&](uint64_t e) -> read_weight {
    const char* at = words.data() + e * weight_bytes;
    const auto as = [&]<class T>(T value) -> read_weight {
      std::memcpy(&value, at, sizeof(value));
      if constexpr (std::is_integral_v<T>) return {static_cast<double>(value), fits_weight(uint64_t{value})};
      return {value + 0.0, fits_weight(static_cast<double>(value))};  // + 0.0: of -0 0
    };
    if (weight_bytes == 8) return options.real_weights ? as(double{}) : as(uint64_t{});
    return options.real_weights ? as(float{}) : as(uint32_t{});
  };
  for (uint64_t v = 0, e = 0; v < vertices; ++v)
    for (; e < ends[v]; ++e) {
      const uint64_t target = version == 1 ? narrow[e] : wide[e];
      if (target >= vertices)
        fail("{}: edge {} of vertex {} leads to vertex {}, but there are {}", path, e, v, target, vertices);
      double weight = 0;
      if (options.weights) {
        const read_weight found = weight_of(e);
        if (!found.fits)
          fail(
              "{}: the weight {} of edge {} of vertex {} is not a number from 0 to {}, or is a whole number that a "
              "float (24 bits) does "
              "not hold",
              path, found.value, e, v, largest_weight);
        weight = found.value;
      }
      keeper.add({v, target}, weight);
    }
}

}  // namespace gravel::detail
