// Galois's .gr files: four 64-bit words (version, bytes of an edge's weight, vertices, edges), the end of each vertex's edges as 64-bit
// words, the targets (32-bit in version 1, filled up to 8 bytes; 64-bit in version 2), the weights. Little-endian.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lib/graph/formats.hpp"

namespace gravel {
namespace {

class binary_reader {
 public:
  explicit binary_reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail_errno("cannot open " + path);
    gzbuffer(file_.get(), 256 << 10);
  }
  void read(void* to, uint64_t bytes, const char* what) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const int got = gzread(file_.get(), at, static_cast<unsigned>(std::min<uint64_t>(bytes, 1 << 30)));
      if (got <= 0) cut_off(what);
      at += got;
      bytes -= static_cast<uint64_t>(got);
      at_ += static_cast<uint64_t>(got);
    }
  }
  /// In pieces, so that a size that the file does not have is no reason to take the memory for it.
  template <class T>
  std::vector<T> read_all(uint64_t count, const char* what) {
    std::vector<T> all;
    for (uint64_t done = 0; done < count;) {
      const uint64_t piece = std::min<uint64_t>(count - done, (64 << 20) / sizeof(T));
      all.resize(done + piece);
      read(all.data() + done, piece * sizeof(T), what);
      done += piece;
    }
    return all;
  }
  /// The end of the file, perhaps behind `filling` more bytes.
  void expect_end(unsigned filling) {
    char more[8];
    int got = gzread(file_.get(), more, filling + 1);
    if (filling != 0 && got == static_cast<int>(filling)) got = 0;
    if (got > 0) fail("{}: expected the end of the file at byte {}", path_, at_);
    if (got < 0) cut_off("end");
  }

 private:
  [[noreturn]] void cut_off(const char* what) {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) fail_errno("cannot read " + path_);
    if (code != Z_OK && code != Z_BUF_ERROR) fail("{}: the gzip data are damaged at byte {} ({})", path_, at_, text);
    fail("{} ends at byte {}, within its {}: is it complete?", path_, at_, what);
  }
  struct closer {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, closer> file_;
  uint64_t at_ = 0;
};

}  // namespace

bool is_galois(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  uint64_t version = 0;
  return file && gzread(file.get(), &version, sizeof(version)) == sizeof(version) && (version == 1 || version == 2);
}

void read_galois(const std::string& path, const graph_share& share, const read_options& options, edge_list& list) {
  binary_reader file(path);
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
    if (ends[v] > edges || ends[v] < (v ? ends[v - 1] : 0)) fail("{}: the edges of vertex {} end at {} of {}", path, v, ends[v], edges);
  if (ends.back() != edges) fail("{}: the edges of the last vertex end at {} of {}", path, ends.back(), edges);
  std::vector<uint32_t> narrow;
  std::vector<uint64_t> wide;
  if (version == 1) narrow = file.read_all<uint32_t>(edges + edges % 2 * (weight_bytes ? 1 : 0), "targets");
  else wide = file.read_all<uint64_t>(edges, "targets");
  const auto words = file.read_all<char>(weight_bytes * edges, "weights");
  // Some writers fill up the targets also where nothing follows.
  file.expect_end(version == 1 && edges % 2 == 1 && weight_bytes == 0 ? 4 : 0);

  const auto weight_of = [&](uint64_t e) -> double {
    const char* at = words.data() + e * weight_bytes;
    const auto as = [&](auto value) {
      std::memcpy(&value, at, sizeof(value));
      return static_cast<double>(value);
    };
    if (weight_bytes == 8) return options.real_weights ? as(double{}) : as(uint64_t{});
    return options.real_weights ? as(float{}) : as(uint32_t{});
  };
  for (uint64_t v = 0, e = 0; v < vertices; ++v)
    for (; e < ends[v]; ++e) {
      const uint64_t target = version == 1 ? narrow[e] : wide[e];
      if (target >= vertices) fail("{}: edge {} of vertex {} leads to vertex {}, but there are {}", path, e, v, target, vertices);
      double weight = 0;
      if (options.weights) {
        weight = weight_of(e);
        if (!std::isfinite(weight) || weight < 0)
          fail("{}: the weight {} of edge {} of vertex {} is not a finite number from 0 on", path, weight, e, v);
      }
      keeper.add({v, target}, weight);
    }
}

}  // namespace gravel
