// Bulk calls on a table of rows (gravel::rows): rows read by random ids, from device memory and from memory of the
// host; additions to random words; exchanges of rows; lookups beside a product of matrices; and tables that are filled
// from a file. Each call's result is checked. The limit of rows is the link to another GPU, or PCIe for memory of the
// host: both are measured in the same run. Rows that are not mapped are compared with one blocking get for each row.
// Rivals read rows of pinned memory by a plain kernel, and rows of all GPUs by exchanges of NCCL, if it is there.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <gravel/table.cuh>
#include "bench/matrix_product.cuh"
#include "bench/perf/limits.cuh"
#include "bench/perf/report.hpp"
#include "bench/row_rivals.cuh"
#include "examples/common/zipf.hpp"
#include "lib/base/descriptor.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "table";

struct bench_options {
  std::vector<uint64_t> ids{48, 1536, 12288, 98304, 393216}, words_log2{22, 26, 29};
  uint64_t rows_log2 = GRAVEL_CUDA ? 24 : 14, host_rows_log2 = GRAVEL_CUDA ? 22 : 14, row_bytes = 264,
           additions_log2 = GRAVEL_CUDA ? 26 : 16;
  uint64_t exchanged_log2 = GRAVEL_CUDA ? 20 : 12, product = GRAVEL_CUDA ? 4096 : 32;
  uint32_t calls = 32, repeat = 5;
  std::vector<double> zipf{1, 1.2};
  std::vector<uint64_t> kept{4096, 65536};
  std::vector<std::string> parts{"gather", "gather-host", "rivals", "zipf", "scatter_add",
                                 "hot",    "exchange",    "beside", "read"};
  std::string targets = "uniform", nccl = "libnccl.so.2", json;
  std::string folder = "/dev/shm";
  bool is_short = false;
};

GRAVEL_BOTH uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}
/// Reads units one behind the other, 8 of them under way in each lane.
__global__ void load_lines(const row_unit_16* from, uint64_t units, uint64_t* sum) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < units; i += lanes * units_under_way) {
    row_unit_16 found[units_under_way] = {};
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < units_under_way; ++k)
      if (i + k * lanes < units) found[k] = from[i + k * lanes];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < units_under_way; ++k) mine += found[k].word[0] ^ found[k].word[1];
  }
  if (mine) fetch_add<scope::device>(sum, mine);
}
/// A word of a row, of 4 bytes.
GRAVEL_BOTH uint32_t word_of(uint64_t row, uint64_t place) { return static_cast<uint32_t>(mixed(row * 16411 + place)); }

/// Ids of `count` rows from `first` on.
__global__ void draw_ids(uint32_t* ids, uint64_t n, uint64_t first, uint64_t count, uint64_t salt) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes)
    ids[i] = static_cast<uint32_t>(first + mixed(i + salt) % count);
}
/// Ids of `count` rows with frequencies of Zipf's law; rows that are read often do not lie together.
__global__ void draw_zipf(uint32_t* ids, uint64_t n, uint64_t count, double exponent, uint64_t salt) {
  const zipf ranks(count, exponent);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes)
    ids[i] = static_cast<uint32_t>(mixed(ranks.draw(mixed(i + salt))) % count);
}
/// out[i] = row ids[i], by one get for each row: each warp waits for it before it asks for the next one.
__global__ void get_one_by_one(gravel_t g, rows_view table, char* buffers, uint32_t* out, const uint32_t* ids,
                               uint64_t n) {
  const uint64_t warp = uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32, words = table.row_bytes / 4;
  char* const buffer = buffers + warp * table.row_bytes;
  for (uint64_t i = warp; i < n; i += uint64_t{gridDim.x} * warps_of_rows) {
    gravel_get_bulk_warp(g, buffer, table.symmetric<char>(ids[i]), table.row_bytes, table.owner(ids[i]));
    gravel_quiet(g);
    __syncwarp();
    for (uint64_t at = threadIdx.x % 32; at < words; at += 32)
      out[i * words + at] = load_relaxed(reinterpret_cast<uint32_t*>(buffer) + at);
    __syncwarp();
  }
}
__global__ void fill_rows(uint32_t* own, uint64_t rows, uint64_t words, uint64_t first) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * words; i += lanes)
    own[i] = word_of(first + i / words, i % words);
}
__global__ void check_rows(const uint32_t* out, const uint32_t* ids, uint64_t n, uint64_t words, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * words; i += lanes)
    mine += out[i] != word_of(ids[i / words], i % words);
  if (mine) fetch_add<scope::device>(wrong, mine);
}
/// Counts the words of a PE's own rows that are not what fill_rows() has written.
__global__ void check_own(const uint32_t* own, uint64_t rows, uint64_t words, uint64_t first, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * words; i += lanes)
    mine += own[i] != word_of(first + i / words, i % words);
  if (mine) fetch_add<scope::device>(wrong, mine);
}
/// A word of 4 bytes in which each element is 1.
template <class T>
uint32_t word_of_ones() {
  if constexpr (std::is_same_v<T, gravel_half>) return gravel_half::from_float(1).bits * 0x10001u;
  else return __builtin_bit_cast(uint32_t, T{1});
}
__global__ void set_words(uint32_t* words, uint64_t n, uint32_t value) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) words[i] = value;
}
template <class T>
__global__ void add_up(const T* elements, uint64_t n, uint64_t* sum) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes)
    mine += static_cast<uint64_t>(element<T>::widen(elements[i]));
  if (mine) fetch_add<scope::device>(sum, mine);
}

/// Counts the elements of 16 bits that cannot be the sums of `runs` times `counts` ones: up to 2048 these are exact,
/// above they depend on the order. Each word has two of them.
template <class T>
__global__ void check_sums(const T* elements, const uint32_t* counts, uint64_t words, uint32_t runs, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < 2 * words; i += lanes) {
    const auto found = static_cast<float>(element<T>::widen(elements[i]));
    const auto right = static_cast<float>(uint64_t{counts[i / 2]} * runs);
    mine += right <= 2048 ? found != right : found < 1024;
  }
  if (mine) fetch_add<scope::device>(wrong, mine);
}

/// The PE to which a row goes.
__global__ void draw_targets(int32_t* to, uint64_t n, uint32_t pes, uint64_t salt) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes)
    to[i] = static_cast<int32_t>(mixed(i + salt) % pes);
}
/// Counts the rows that should have gone elsewhere. Each word of a row is `to` of its PE, by the row's number there,
/// which the first word contains.
__global__ void check_exchange(const uint32_t* rows, const uint64_t* firsts, uint64_t words, uint32_t pes, uint32_t me,
                               uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint32_t pe = 0; pe < pes; ++pe)
    for (uint64_t row = firsts[pe] + uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < firsts[pe + 1];
         row += lanes) {
      const uint32_t number = rows[row * words];
      bool right =
          mixed(number + (uint64_t{pe} << 40)) % pes == me && (row == firsts[pe] || rows[(row - 1) * words] < number);
      for (uint64_t i = 1; i < words; ++i) right &= rows[row * words + i] == word_of(number, i);
      mine += !right;
    }
  if (mine) fetch_add<scope::device>(wrong, mine);
}
/// Rows for an exchange: the first word is the row's number.
__global__ void number_rows(uint32_t* rows, uint64_t n, uint64_t words) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * words; i += lanes)
    rows[i] = i % words ? word_of(i / words, i % words) : static_cast<uint32_t>(i / words);
}

class table_bench {
 public:
  table_bench(const bench_options& o, perf::report& r) : o_(o), r_(r) {}

  void gather(place where) {
    const bool on_host = where == place::host;
    rows table(static_cast<uint64_t>(gravel_n_pes()) << (on_host ? o_.host_rows_log2 : o_.rows_log2), o_.row_bytes,
               dealt::blocks, where);
    const uint64_t words = o_.row_bytes / 4;
    start(fill_rows, static_cast<uint32_t*>(table.local()), table.local_count(), words, table.local_first());
    const auto next = static_cast<uint32_t>((gravel_my_pe() + 1) % gravel_n_pes());
    const bool is_remote = o_.targets == "remote";
    const uint64_t first = is_remote ? table.view().dealing.first(next) : 0;
    const uint64_t count = is_remote ? table.view().dealing.count(next) : table.count();
    const double remote_share = is_remote ? 1 : 1 - 1.0 / gravel_n_pes();
    perf::measure(limits_, true, 0);
    // All rows of the host come over PCIe, those of this PE, too.
    const double limit = on_host ? loads_of_host(table) : limits_.peer_bytes / remote_share;
    for (const uint64_t n : o_.ids) {
      const perf::device_array<uint32_t> ids(n * sets), out(n * words);
      start(draw_ids, ids.data(), n * sets, first, count, static_cast<uint64_t>(gravel_my_pe()) << 40);
      gravel_barrier_all();
      time_gathers("gather", nullptr, table, ids, out, n, limit,
                   [&](uint32_t set) { table.gather(out.data(), ids.data() + set * n, n); });
      if (!table.is_mapped()) {
        time_one_by_one(table, ids, out, n);
        continue;
      }
#if GRAVEL_CUDA
      std::vector<cudaGraphExec_t> graphs(sets);
      cudaStream_t stream = gravel_stream_create();
      for (uint32_t set = 0; set < sets; ++set) {
        cudaGraph_t graph = nullptr;
        cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
        table.gather(out.data(), ids.data() + set * n, n, stream);
        cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
        cuda_check(cudaGraphInstantiate(&graphs[set], graph, 0), "cudaGraphInstantiate");
        cudaGraphDestroy(graph);
      }
      time_gathers("gather in a graph", stream, table, ids, out, n, limit,
                   [&](uint32_t set) { cuda_check(cudaGraphLaunch(graphs[set], stream), "cudaGraphLaunch"); });
      for (const cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
      gravel_stream_destroy(stream);
#endif
    }
    gravel_barrier_all();
  }

  /// Rows of a copy of a table in pinned memory of the host, which each PE reads by a plain kernel.
  void gather_pinned() {
    const uint64_t count = uint64_t{1} << o_.host_rows_log2, words = o_.row_bytes / 4;
    const perf::pinned_memory table(count * o_.row_bytes);
    start(fill_rows, reinterpret_cast<uint32_t*>(table.data()), count, words, uint64_t{0});
    for (const uint64_t n : o_.ids) {
      const perf::device_array<uint32_t> ids(n * sets), out(n * words);
      start(draw_ids, ids.data(), n * sets, uint64_t{0}, count, static_cast<uint64_t>(gravel_my_pe()) << 40);
      gravel_barrier_all();
      time_gathers("pinned memory, a plain kernel", nullptr, {"host", true}, ids, out, n, 0, [&](uint32_t set) {
        start_read_rows(table.data(), o_.row_bytes, ids.data() + set * n, 0, n, reinterpret_cast<char*>(out.data()),
                        nullptr);
      });
    }
  }
  /// Rows of all PEs by exchanges of NCCL: the ids to the owners, and the rows back.
  void gather_by_nccl() {
#if GRAVEL_CUDA
    nccl_ring nccl(o_.nccl);
    if (!nccl.is_there()) {
      if (gravel_my_pe() == 0) std::printf("without NCCL: %s\n", nccl.why().c_str());
      return;
    }
    r_.fact("nccl", nccl.version());
    rows table(static_cast<uint64_t>(gravel_n_pes()) << o_.rows_log2, o_.row_bytes);
    const uint64_t words = o_.row_bytes / 4, most = *std::max_element(o_.ids.begin(), o_.ids.end());
    start(fill_rows, static_cast<uint32_t*>(table.local()), table.local_count(), words, table.local_first());
    nccl_gather exchange(nccl, table, most);
    cudaStream_t stream = gravel_stream_create();
    for (const uint64_t n : o_.ids) {
      const perf::device_array<uint32_t> ids(n * sets), out(n * words);
      start(draw_ids, ids.data(), n * sets, uint64_t{0}, table.count(), static_cast<uint64_t>(gravel_my_pe()) << 40);
      gravel_barrier_all();
      time_gathers("order and exchange, NCCL", stream, {"device", true}, ids, out, n, 0, [&](uint32_t set) {
        exchange.gather(reinterpret_cast<char*>(out.data()), ids.data() + set * n, n, stream);
      });
    }
    gravel_stream_destroy(stream);
    gravel_barrier_all();
#else
    if (gravel_my_pe() == 0) std::printf("without NCCL: the CPU backend has no GPU for it\n");
#endif
  }

  void time_one_by_one(const rows& table, const perf::device_array<uint32_t>& ids,
                       const perf::device_array<uint32_t>& out, uint64_t n) {
    if (n > (o_.is_short ? 48 : 12288)) return;  // it would take long, and more ids are no faster
    const auto blocks = static_cast<unsigned>(message_row_blocks());
    auto* const buffers = gravel_malloc<char>(blocks * warps_of_rows * o_.row_bytes);
    time_gathers("one blocking get a row", nullptr, table, ids, out, n, 0, [&](uint32_t set) {
      gravel_launch(get_one_by_one, blocks, row_lanes, gravel_handle(), table.view(), buffers, out.data(),
                    ids.data() + set * n, n);
    });
    gravel_free(buffers);
  }

  /// Rows read by Zipf's law, without a cache and with one. A run with a cache includes fill().
  void gather_zipf() {
    const std::string targets = o_.targets;
    rows table(static_cast<uint64_t>(gravel_n_pes()) << o_.rows_log2, o_.row_bytes);
    start(fill_rows, static_cast<uint32_t*>(table.local()), table.local_count(), o_.row_bytes / 4, table.local_first());
    const uint64_t n = o_.ids.back();
    for (const double exponent : o_.zipf) {
      const perf::device_array<uint32_t> ids(n * sets), out(n * o_.row_bytes / 4);
      start(draw_zipf, ids.data(), n * sets, table.count(), exponent, static_cast<uint64_t>(gravel_my_pe()) << 40);
      gravel_barrier_all();
      char name[32];
      std::snprintf(name, sizeof(name), "zipf %.1f", exponent);
      o_.targets = name;
      time_gathers("gather", nullptr, table, ids, out, n, 0,
                   [&](uint32_t set) { table.gather(out.data(), ids.data() + set * n, n); });
      for (const uint64_t kept : o_.kept) {
        row_cache cache(table, kept);
        double fill_us = 0;
        uint32_t call = 0;
        const uint32_t calls = calls_of_run();
        time_gathers(("gather, " + std::to_string(kept) + " rows kept").c_str(), nullptr, table, ids, out, n, 0,
                     [&](uint32_t set) {
                       if (call++ % calls == 0) {
                         const double begin = perf::seconds_now();
                         cache.fill(ids.data(), n * sets);
                         fill_us = (perf::seconds_now() - begin) * 1e6;
                       }
                       cache.gather(out.data(), ids.data() + set * n, n);
                     });
        r_.row({{"what", "call", std::string("fill")},
                {"targets", "ids", o_.targets},
                {"kept", "rows kept", cache.size()},
                {"us", "us of the host", fill_us}},
               {1, 0});
      }
    }
    o_.targets = targets;
    gravel_barrier_all();
  }

  /// Bytes/s at which kernels of all PEs, at once, read their own rows of the host one behind the other: as fast as the
  /// link to the host is.
  double loads_of_host(const rows& table) {
    const uint64_t units = std::min<uint64_t>(table.local_count() * o_.row_bytes, 1 << 30) / sizeof(row_unit_16);
    const perf::device_array<uint64_t> sum(1);
    const auto* const from = static_cast<const row_unit_16*>(table.local());
    double rate = 0;
    for (int run = 0; run < 3; ++run) {
      gravel_barrier_all();
      const double begin = perf::seconds_now();
      start(load_lines, from, units, sum.data());
      rate = std::max(rate, static_cast<double>(units * sizeof(row_unit_16)) / (perf::seconds_now() - begin));
    }
    rate = perf::mean_of_pes(rate);
    r_.fact("host_loads_bytes_per_s", rate);
    return rate;
  }

  /// Where the rows lie that a call reads, and whether all PEs reach them.
  struct read_table {
    const char* place;
    bool is_mapped;

    read_table(const char* where, bool mapped) : place(where), is_mapped(mapped) {}
    read_table(const rows& table)
        : place(table.where() == gravel::detail::place::host ? "host" : "device"), is_mapped(table.is_mapped()) {}
  };
  /// Times calls of gather(set) in a stream, the last of which is of the last set, and checks what it has read.
  /// `bytes_per_s`: the limit; 0: none.
  template <class F>
  void time_gathers(const char* name, gravel_stream_t stream, const read_table& table,
                    const perf::device_array<uint32_t>& ids, const perf::device_array<uint32_t>& out, uint64_t n,
                    double bytes_per_s, F gather) {
    const uint64_t words = o_.row_bytes / 4;
    const uint32_t calls = calls_of_run();
    const perf::device_array<uint64_t> wrong(1);
    std::vector<double> seconds;
    for (uint32_t run = 0; run <= o_.repeat; ++run) {
      gravel_copy(out.data(), std::vector<uint32_t>(words, 0xdeadbeef).data(), o_.row_bytes);
      gravel_barrier_all();
      const double begin = perf::seconds_now();
      for (uint32_t call = 0; call < calls; ++call) gather(call % sets);
      gravel_stream_synchronize(stream);
      const double took = perf::slowest(perf::seconds_now() - begin) / calls;
      if (run) seconds.push_back(took);
      start(check_rows, out.data(), ids.data() + (sets - 1) * n, n, words, wrong.data());
    }
    const auto t = perf::timed_runs::of(seconds);
    const double bytes = static_cast<double>(n * o_.row_bytes);
    const double limit = bytes_per_s > 0 ? bytes / bytes_per_s : 0;
    r_.row({{"what", "call", std::string(name)},
            {"place", "place", std::string(table.place)},
            {"targets", "ids", o_.targets},
            {"mapped", "mapped", std::string(table.is_mapped ? "yes" : "no")},
            {"row_bytes", "row B", o_.row_bytes},
            {"ids", "ids a PE", n},
            {"us", "us", t.median * 1e6},
            {"us_least", "least", t.least * 1e6},
            {"us_most", "most", t.most * 1e6},
            {"gb_per_s", "GB/s a PE", bytes / t.median / 1e9},
            {"limit_us", "link us", limit * 1e6},
            {"ratio", "ratio", limit / t.median}},
           {gravel_sum_all(n * words * (o_.repeat + 1)), gravel_sum_all(wrong.read())});
  }

  /// Lookups in a side stream beside products of matrices in another one, which waits for the rows of each step behind
  /// its product. What a step takes longer than a product alone is what lookups cost.
  void beside_products(place where) {
    rows table(static_cast<uint64_t>(gravel_n_pes()) << o_.host_rows_log2, o_.row_bytes, dealt::blocks, where);
    const uint64_t words = o_.row_bytes / 4;
    start(fill_rows, static_cast<uint32_t*>(table.local()), table.local_count(), words, table.local_first());
    const matrix_product product(o_.product);
    const gravel_stream_t main_stream = gravel_stream_create(), side = gravel_stream_create();
    const perf::device_array<uint64_t> wrong(1);
    for (const uint64_t n : o_.ids) {
      const perf::device_array<uint32_t> ids(n), out(n * words);
      start(draw_ids, ids.data(), n, uint64_t{0}, table.count(), static_cast<uint64_t>(gravel_my_pe()) << 40);
      const auto time = [&](bool looks_up, bool multiplies) {
        std::vector<double> seconds;
        for (uint32_t run = 0; run <= o_.repeat; ++run) {
          gravel_barrier_all();
          const double begin = perf::seconds_now();
          for (uint32_t step = 0; step < o_.calls; ++step) {
            if (looks_up) table.gather(out.data(), ids.data(), n, side);
            if (multiplies) product.run(main_stream);
            if (looks_up && multiplies) join(main_stream, side);
          }
          gravel_stream_synchronize(side);
          gravel_stream_synchronize(main_stream);
          const double took = perf::slowest(perf::seconds_now() - begin) / o_.calls;
          if (run) seconds.push_back(took);
        }
        return perf::timed_runs::of(seconds).median;
      };
      const double multiplied = time(false, true), looked_up = time(true, false), both = time(true, true);
      start(check_rows, out.data(), ids.data(), n, words, wrong.data());
      r_.row({{"what", "call", std::string("gather beside a product")},
              {"place", "place", std::string(where == place::host ? "host" : "device")},
              {"product", "product", std::string(product.is_by_cublas() ? "cuBLAS" : "plain")},
              {"side", "side", o_.product},
              {"row_bytes", "row B", o_.row_bytes},
              {"ids", "ids a PE", n},
              {"product_us", "product us", multiplied * 1e6},
              {"gather_us", "gather us", looked_up * 1e6},
              {"both_us", "both us", both * 1e6},
              {"remains_us", "remains us", (both - multiplied) * 1e6}},
             {gravel_sum_all(n * words + o_.product * o_.product), gravel_sum_all(wrong.read() + product.wrong())});
    }
    gravel_stream_destroy(side);
    gravel_stream_destroy(main_stream);
    gravel_barrier_all();
  }

  /// Fills a table from a file of raw rows, which all PEs have written. The file is in memory (tmpfs or page cache), so
  /// this is what the reading itself can do.
  void read_file(place where) {
    gravel_barrier_all();
    const double constructed = perf::seconds_now();
    rows table(static_cast<uint64_t>(gravel_n_pes()) << o_.host_rows_log2, o_.row_bytes, dealt::blocks, where);
    const double construction = perf::slowest(perf::seconds_now() - constructed);
    const uint64_t words = o_.row_bytes / 4, number = gravel_max_all(static_cast<uint64_t>(getpid()));
    const uint64_t mine = table.local_count() * o_.row_bytes;
    const std::string path = o_.folder + "/gravel-bench-table-" + std::to_string(number);
    start(fill_rows, static_cast<uint32_t*>(table.local()), table.local_count(), words, table.local_first());
    write_part(path, table.local(), table.local_first() * o_.row_bytes, mine);
    gravel_barrier_all();
    std::vector<double> seconds;
    const perf::device_array<uint64_t> wrong(1);
    for (uint32_t run = 0; run <= o_.repeat; ++run) {
      const std::vector<uint32_t> none(words);
      gravel_copy(table.local(), none.data(), o_.row_bytes);
      gravel_barrier_all();
      const double begin = perf::seconds_now();
      table.read(path);
      const double took = perf::slowest(perf::seconds_now() - begin);
      if (run) seconds.push_back(took);
      start(check_own, static_cast<const uint32_t*>(table.local()), table.local_count(), words, table.local_first(),
            wrong.data());
    }
    if (gravel_my_pe() == 0) std::remove(path.c_str());
    const auto t = perf::timed_runs::of(seconds);
    const double gb = static_cast<double>(mine) / 1e9;
    r_.row({{"what", "call", std::string("read")},
            {"place", "place", std::string(where == place::host ? "host" : "device")},
            {"file_gb", "GB a PE", gb},
            {"construction_s", "construction s", construction},
            {"s", "s", t.median},
            {"s_least", "least", t.least},
            {"s_most", "most", t.most},
            {"gb_per_s", "GB/s a PE", gb / t.median}},
           {gravel_sum_all(table.local_count() * words * (o_.repeat + 1)), gravel_sum_all(wrong.read())});
    gravel_barrier_all();
  }

  /// Additions of words of 4 bytes: one element, or a pair of 16 bits. `exponent`: of Zipf's law; 0: uniform.
  template <class T>
  void scatter_add(const std::string& type, double exponent) {
    const uint64_t n = uint64_t{1} << o_.additions_log2;
    const perf::device_array<uint32_t> ids(n), values(n);
    start(set_words, values.data(), n, word_of_ones<T>());
    for (const uint64_t log2 : o_.words_log2) {
      rows table(static_cast<uint64_t>(gravel_n_pes()) << log2, sizeof(uint32_t));
      const uint64_t salt = static_cast<uint64_t>(gravel_my_pe()) << 40;
      if (exponent > 0) start(draw_zipf, ids.data(), n, table.count(), exponent, salt);
      else start(draw_ids, ids.data(), n, uint64_t{0}, table.count(), salt);
      const auto* const elements = reinterpret_cast<const T*>(values.data());
      rows counts(is_of_16_bits<T> ? table.count() : 1, sizeof(uint32_t));
      if (is_of_16_bits<T>) counts.histogram<uint32_t>(ids.data(), n);
      gravel_barrier_all();
      time_additions<T>("scatter_add", type, exponent, table, counts, log2,
                        [&] { table.scatter_add(ids.data(), elements, n); });
      // The same kernel without slots for hot words.
      const auto blocks = static_cast<unsigned>(std::min((n + row_lanes - 1) / row_lanes, most_row_blocks()));
      time_additions<T>("scatter_add, nothing absorbed", type, exponent, table, counts, log2, [&] {
        gravel_launch(update_rows<row_update::add, T, gravel_block_sender<row_lanes>, uint32_t>, blocks, row_lanes,
                      gravel_handle(), table.view(), divisor(2), reinterpret_cast<const update_unit<T>*>(values.data()),
                      ids.data(), n, 0u);
      });
    }
  }
  /// Times an update until it is there at all PEs: o_.repeat runs behind one that is not counted.
  template <class F>
  perf::timed_runs time_updates(const F& update) const {
    std::vector<double> seconds;
    for (uint32_t run = 0; run <= o_.repeat; ++run) {
      gravel_barrier_all();
      const double begin = perf::seconds_now();
      update();
      gravel_barrier_all();
      const double took = perf::slowest(perf::seconds_now() - begin);
      if (run) seconds.push_back(took);
    }
    return perf::timed_runs::of(seconds);
  }
  template <class T, class F>
  void time_additions(const char* name, const std::string& type, double exponent, const rows& table, const rows& counts,
                      uint64_t log2, F add) {
    const uint64_t n = uint64_t{1} << o_.additions_log2;
    gravel_barrier_all();
    start(set_words, static_cast<uint32_t*>(table.local()), table.local_count(), 0u);
    const auto t = time_updates(add);
    const uint64_t additions = n * (o_.repeat + 1);
    uint64_t wrong = 0;
    const perf::device_array<uint64_t> sum(1);
    const auto* const found = static_cast<const T*>(table.local());
    if constexpr (is_of_16_bits<T>) {
      start(check_sums<T>, found, static_cast<const uint32_t*>(counts.local()), table.local_count(), o_.repeat + 1,
            sum.data());
      wrong = sum.read();
    } else {
      start(add_up<T>, found, table.local_count(), sum.data());
      const uint64_t all = gravel_sum_all(sum.read()), wanted = gravel_sum_all(additions);
      if (gravel_my_pe() == 0) wrong = wanted > all ? wanted - all : all - wanted;
    }
    r_.row({{"what", "call", std::string(name)},
            {"type", "type", type},
            {"zipf", "Zipf", exponent},
            {"words_log2", "words a PE, log2", log2},
            {"additions", "additions a PE", n},
            {"ms", "ms", t.median * 1e3},
            {"ms_least", "least", t.least * 1e3},
            {"ms_most", "most", t.most * 1e3},
            {"million_per_s", "M/s of all PEs", static_cast<double>(n * gravel_n_pes()) / t.median / 1e6}},
           {gravel_sum_all(additions), gravel_sum_all(wrong)});
  }

  /// Additions of rows of 64 floats, to rows drawn at random, or of the next PE (--targets).
  void scatter_add_rows() {
    constexpr uint64_t width = 64;
    const uint64_t n = uint64_t{1} << o_.exchanged_log2;
    rows table(static_cast<uint64_t>(gravel_n_pes()) << o_.exchanged_log2, width * sizeof(float));
    const auto next = static_cast<uint32_t>((gravel_my_pe() + 1) % gravel_n_pes());
    const bool is_remote = o_.targets == "remote";
    const uint64_t first = is_remote ? table.view().dealing.first(next) : 0;
    const uint64_t count = is_remote ? table.view().dealing.count(next) : table.count();
    const perf::device_array<uint32_t> ids(n), values(n * width);
    start(set_words, values.data(), n * width, word_of_ones<float>());
    start(draw_ids, ids.data(), n, first, count, static_cast<uint64_t>(gravel_my_pe()) << 40);
    gravel_barrier_all();
    const auto t =
        time_updates([&] { table.scatter_add(ids.data(), reinterpret_cast<const float*>(values.data()), n); });
    const perf::device_array<uint64_t> sum(1);
    start(add_up<float>, static_cast<const float*>(table.local()), table.local_count() * width, sum.data());
    const uint64_t wanted = width * n * (o_.repeat + 1) * static_cast<uint64_t>(gravel_n_pes());
    const uint64_t found = gravel_sum_all(sum.read());
    const double bytes = static_cast<double>(n * width * sizeof(float));
    const double remote_share = is_remote ? 1 : 1 - 1.0 / gravel_n_pes();
    const double limit = limits_.peer_bytes > 0 ? bytes * remote_share / limits_.peer_bytes : 0;
    r_.row({{"what", "call", std::string("scatter_add of rows")},
            {"targets", "ids", o_.targets},
            {"row_bytes", "row B", width * sizeof(float)},
            {"rows", "rows a PE", n},
            {"ms", "ms", t.median * 1e3},
            {"ms_least", "least", t.least * 1e3},
            {"ms_most", "most", t.most * 1e3},
            {"gb_per_s", "GB/s a PE", bytes / t.median / 1e9},
            {"limit_ms", "link ms", limit * 1e3},
            {"ratio", "ratio", limit / t.median}},
           {wanted, wanted > found ? wanted - found : found - wanted});
  }

  /// Rows that go to PEs drawn at random.
  void exchange() {
    const uint64_t n = uint64_t{1} << o_.exchanged_log2, me = static_cast<uint64_t>(gravel_my_pe());
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    perf::measure(limits_, true, 0);
    for (const uint64_t row_bytes : {uint64_t{8}, uint64_t{64}, uint64_t{512}}) {
      const uint64_t words = row_bytes / sizeof(uint32_t);
      row_exchange exchange(row_bytes, n + n / 2);
      const perf::device_array<uint32_t> sent(n * words);
      const perf::device_array<int32_t> to(n);
      const perf::device_array<uint64_t> wrong(1);
      start(number_rows, sent.data(), n, words);
      start(draw_targets, to.data(), n, pes, me << 40);
      std::vector<double> seconds;
      for (uint32_t run = 0; run <= o_.repeat; ++run) {
        gravel_barrier_all();
        const double begin = perf::seconds_now();
        for (uint32_t call = 0; call < o_.calls; ++call) exchange.all_to_all(sent.data(), to.data(), n);
        gravel_synchronize();
        const double took = perf::slowest(perf::seconds_now() - begin) / o_.calls;
        if (run) seconds.push_back(took);
        start(check_exchange, static_cast<const uint32_t*>(exchange.rows()), exchange.firsts(), words, pes,
              static_cast<uint32_t>(me), wrong.data());
      }
      uint64_t came = 0;
      gravel_copy(&came, exchange.firsts() + pes, sizeof(came));
      const uint64_t all = n * pes, lost = all - gravel_sum_all(came);
      const auto t = perf::timed_runs::of(seconds);
      const double bytes = static_cast<double>(n * row_bytes);
      const double limit = limits_.peer_bytes > 0 ? bytes * (1 - 1.0 / pes) / limits_.peer_bytes : 0;
      r_.row({{"what", "call", std::string("all_to_all")},
              {"row_bytes", "row B", row_bytes},
              {"rows", "rows a PE", n},
              {"us", "us", t.median * 1e6},
              {"us_least", "least", t.least * 1e6},
              {"us_most", "most", t.most * 1e6},
              {"gb_per_s", "GB/s a PE", bytes / t.median / 1e9},
              {"limit_us", "link us", limit * 1e6},
              {"ratio", "ratio", limit / t.median}},
             {all * (o_.repeat + 1), lost + gravel_sum_all(wrong.read())});
      gravel_barrier_all();
    }
  }

 private:
  /// The first stream waits for what is in the second one now.
  static void join([[maybe_unused]] gravel_stream_t first, gravel_stream_t second) {
#if GRAVEL_CUDA
    cudaEvent_t event = nullptr;
    cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    cuda_check(cudaEventRecord(event, second), "cudaEventRecord");
    cuda_check(cudaStreamWaitEvent(first, event, 0), "cudaStreamWaitEvent");
    cudaEventDestroy(event);
#else
    gravel_stream_synchronize(second);
#endif
  }
  /// Writes bytes of a PE's memory to their place in a file.
  static void write_part(const std::string& path, const void* from, uint64_t begin, uint64_t bytes) {
    const owned_descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    std::vector<char> part(std::min<uint64_t>(bytes, 64 << 20));
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t now = std::min<uint64_t>(bytes - done, part.size());
      gravel_copy(part.data(), static_cast<const char*>(from) + done, now);
      const ssize_t wrote = pwrite(file.get(), part.data(), now, static_cast<off_t>(begin + done));
      if (wrote <= 0) fail_text(path + ": " + std::strerror(errno));
      done += static_cast<uint64_t>(wrote);
    }
  }
  static constexpr uint32_t sets = 8;  // of ids, so that a call finds little of the last one's rows in the cache
  /// Runs a kernel that sends nothing, and waits for it.
  template <class... P, class... A>
  static void start(void (*kernel)(P...), A... arguments) {
    gravel_launch(kernel, GRAVEL_CUDA ? 1056 : 2, 256, static_cast<P>(arguments)...);
    gravel_synchronize();
  }
  uint32_t calls_of_run() const { return (o_.calls + sets - 1) / sets * sets; }
  bench_options o_;
  perf::report& r_;
  perf::limits limits_;
};

int main(int argc, char** argv) {
  bench_options o;
  command_line app("Bulk calls on a table of rows: rows read by random ids, additions to random words, exchanges.",
                   program_name);
  app.add_option("--ids", o.ids, "Ids of a gather of each PE").delimiter(',').capture_default_str();
  app.add_option("--rows-log2", o.rows_log2, "Rows of each PE").range(1, 30).capture_default_str();
  app.add_option("--host-rows-log2", o.host_rows_log2, "Rows of each PE in memory of the host")
      .range(1, 36)
      .capture_default_str();
  app.add_option("--row-bytes", o.row_bytes, "Bytes of a row, a multiple of 4").range(4, 65536).capture_default_str();
  app.add_option("--targets", o.targets, "uniform (rows of all PEs) or remote (of the next PE)")
      .one_of({"uniform", "remote"})
      .capture_default_str();
  app.add_option("--words-log2", o.words_log2, "Words of the tables of additions, of each PE")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--additions-log2", o.additions_log2, "Additions of each PE").range(1, 34).capture_default_str();
  app.add_option("--exchanged-log2", o.exchanged_log2, "Rows of an exchange of each PE")
      .range(1, 30)
      .capture_default_str();
  app.add_option("--product", o.product, "Rows and columns of the matrices of the products beside lookups")
      .range(1, 1 << 16)
      .capture_default_str();
  app.add_option("--folder", o.folder, "Where the file lies from which tables are filled").capture_default_str();
  app.add_option("--calls", o.calls,
                 "Gathers or exchanges of a run, one behind the other, rounded up to a multiple of 8")
      .range(1u, 100'000u)
      .capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1u, 100u).capture_default_str();
  app.add_option("--zipf", o.zipf, "Exponents of Zipf's law").delimiter(',').capture_default_str();
  app.add_option("--kept", o.kept, "Rows that a cache has room for").delimiter(',').capture_default_str();
  app.add_option("--parts", o.parts, "What is measured")
      .delimiter(',')
      .one_of({"gather", "gather-host", "rivals", "zipf", "scatter_add", "hot", "exchange", "beside", "read"})
      .capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few ids, few calls, one run");
  app.add_option("--nccl", o.nccl, "The library to compare with, if it is there").capture_default_str();
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (o.is_short) {
      o.ids = {48, 100};
      o.zipf = {1};
      o.kept = {16};
      o.words_log2 = {10};
      o.rows_log2 = 8;
      o.host_rows_log2 = 8;
      o.additions_log2 = 10;
      o.exchanged_log2 = 8;
      o.calls = 2;
      o.repeat = 1;
    }
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<gravel::pair_updates>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.title("table", "one bulk call, median of the runs, at the slowest PE");
  table_bench bench(o, r);
  for (const std::string& part : o.parts) {
    if (part == "gather") bench.gather(place::device);
    if (part == "gather-host") bench.gather(place::host);
    if (part == "rivals") {
      bench.gather_pinned();
      bench.gather_by_nccl();
    }
    if (part == "zipf") bench.gather_zipf();
    if (part == "scatter_add") {
      bench.scatter_add<float>("float", 0);
      bench.scatter_add<gravel_half>("half", 0);
      bench.scatter_add_rows();
    }
    if (part == "hot")
      for (const double exponent : o.zipf) {
        bench.scatter_add<uint32_t>("uint32_t", exponent);
        bench.scatter_add<gravel_half>("half", exponent);
      }
    if (part == "exchange") bench.exchange();
    for (const place where : {place::device, place::host}) {
      if (part == "beside") bench.beside_products(where);
      if (part == "read") bench.read_file(where);
    }
  }
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
