// Links. transfer: bytes from PE 0 to the last PE, by size of packets and number of buffers, by kernels of the host and
// by kernels that drive the link, beside plain stores into that PE's memory and the copy engine (figure 2-1 of the
// Groute paper, recast). allreduce: by a ring of links, beside that of lib/allreduce and NCCL's.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gravel/allreduce.cuh>
#include <gravel/device_array.hpp>
#include <gravel/link.cuh>
#include "bench/clock.cuh"
#include "bench/nccl.hpp"
#include "bench/perf/report.hpp"
#include "examples/common/together.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "links";

struct bench_options {
  std::vector<std::string> parts{"transfer", "allreduce"};
  uint64_t bytes = GRAVEL_CUDA ? 256 << 20 : 1 << 18;
  std::vector<uint32_t> packets, copied, buffers{1, 2, 3}, lanes, blocks;
  std::vector<uint64_t> sizes;
  uint32_t calls = GRAVEL_CUDA ? 20 : 3, repeat = 3;
  std::string nccl = "libnccl.so.2", json;
  bool is_short = false;
};

/// Takes out whatever comes, by a block for each lane, and gives buffers back at once.
template <class Receiver>
__global__ void __launch_bounds__(512) drain(const __grid_constant__ gravel_link_handle h, uint64_t* bytes) {
  Receiver receiver(h, blockIdx.x);
  uint64_t sum = 0;
  for (;;) {
    const gravel_packet p = receiver.receive();
    if (!p.has_come) break;
    sum += p.bytes;
    receiver.release(p);
  }
  if (threadIdx.x == 0) fetch_add<scope::device>(bytes, sum);
}
/// Each block its part, on its own lane.
template <class Sender>
__global__ void __launch_bounds__(512)
    pour(const __grid_constant__ gravel_link_handle h, const char* data, uint64_t bytes, uint32_t times) {
  Sender sender(h, blockIdx.x);
  const element_range mine = element_range{0, bytes}.part(blockIdx.x, gridDim.x, 16);
  for (uint32_t i = 0; i < times; ++i) sender.send(data + mine.begin, mine.size());
}
__global__ void __launch_bounds__(512) plain_stores(char* to, const char* from, uint64_t bytes) {
  const unit* const source[1] = {reinterpret_cast<const unit*>(from)};
  const element_range mine = element_range{0, bytes / sizeof(unit)}.part(blockIdx.x, gridDim.x, 1);
  combine_words<unsigned char, 1, false, unit>(no_merge{}, reinterpret_cast<unit*>(to), nullptr, source,
                                               mine.begin + threadIdx.x, mine.end);
}
template <class Reduce>
GRAVEL_DEVICE void time_calls(uint32_t calls, uint64_t* times, const Reduce& reduce) {
  for (uint32_t i = 0; i < calls + 2; ++i) {
    if (i == 2 && threadIdx.x == 0) times[2 * blockIdx.x] = nanoseconds_now();
    reduce();
  }
  if (threadIdx.x == 0) times[2 * blockIdx.x + 1] = nanoseconds_now();
}
template <class Handle>
__global__ void __launch_bounds__(512) ring_often(const __grid_constant__ Handle h, float* to, const float* from,
                                                  uint64_t count, uint32_t calls, uint64_t* times) {
  time_calls(calls, times, [&] { gravel_allreduce(h, to, from, count); });
}
__global__ void __launch_bounds__(512)
    reducer_often(const __grid_constant__ gravel_reducer_handle r, float* to, const float* from, uint64_t count,
                  uint32_t calls, uint64_t* times) {
  time_calls(calls, times, [&] { gravel_allreduce(r, to, from, count); });
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

class transfers {
 public:
  transfers(const bench_options& o, perf::report& r)
      : o_(o), r_(r), data_(gravel_malloc<char>(o.bytes)), came_(gravel_malloc<uint64_t>(sizeof(uint64_t))) {}
  ~transfers() {
    gravel_free(came_);
    gravel_free(data_);
  }
  void run() {
    r_.title("transfer", "from PE 0 to PE " + std::to_string(last()) + ", GB/s at the sender");
    limits();
    for (const uint32_t packet : o_.packets)
      for (const uint32_t buffers : o_.buffers)
        for (const uint32_t blocks : o_.blocks)
          link("host", {.packet_bytes = packet, .buffers = buffers, .blocks = blocks});
    for (const uint32_t packet : o_.copied)
      for (const uint32_t buffers : o_.buffers)
        link("host, copies", {.packet_bytes = packet, .buffers = buffers, .copies_from = 1});
    for (const uint32_t lanes : o_.lanes)
      for (const uint32_t packet : o_.packets)
        for (const uint32_t buffers : o_.buffers)
          if (uint64_t{packet} * buffers * lanes <= o_.bytes)
            link("kernel", {.packet_bytes = packet, .buffers = buffers, .lanes = lanes});
  }

 private:
  static int last() { return gravel_n_pes() - 1; }
  void row(const std::string& way, const gravel_link_options& how, double seconds, uint64_t wrong) {
    r_.row({{"way", "way", way},
            {"packet_bytes", "packet B", uint64_t{how.packet_bytes}},
            {"buffers", "buffers", uint64_t{how.buffers}},
            {"lanes", "lanes", uint64_t{how.lanes}},
            {"blocks", "blocks", uint64_t{how.blocks}},
            {"gb_per_s", "GB/s", static_cast<double>(o_.bytes) / seconds / 1e9}},
           {1, wrong});
  }
  /// The link is compared with this; PE 0 alone runs it.
  void limits() {
    gravel_link_options none{.packet_bytes = 0, .buffers = 0, .lanes = 0, .blocks = GRAVEL_CUDA ? 128u : 2u};
    char* there = nullptr;
    const gravel_t g = gravel_handle();
    if (g.peers && last() != 0) {
      std::vector<peer_link> links(static_cast<size_t>(gravel_n_pes()));
      gravel_copy(links.data(), g.peers, links.size() * sizeof(links[0]));
      if (char* const heap = links[static_cast<size_t>(last())].heap) there = heap + (data_ - g.heap);
    }
    if (!gravel_broadcast(uint64_t{there != nullptr}, 0)) return;
    std::vector<double> stores, engine;
    for (uint32_t i = 0; i < o_.repeat + 1; ++i) {
      if (gravel_my_pe() == 0) {
        auto begin = std::chrono::steady_clock::now();
        for (uint32_t c = 0; c < o_.calls; ++c)
          launch_alone(plain_stores, {.grid = none.blocks, .block = path_threads}, there, data_, o_.bytes);
        gravel_synchronize();
        stores.push_back(seconds_since(begin) / o_.calls);
#if GRAVEL_CUDA
        begin = std::chrono::steady_clock::now();
        for (uint32_t c = 0; c < o_.calls; ++c)
          cudaMemcpyAsync(there, data_, o_.bytes, cudaMemcpyDeviceToDevice, nullptr);
        cudaStreamSynchronize(nullptr);
        engine.push_back(seconds_since(begin) / o_.calls);
#endif
      }
    }
    row("plain stores", none, gravel_broadcast(stores.empty() ? 0.0 : median(stores), 0), 0);
    none.blocks = 0;
    if (GRAVEL_CUDA) row("copy engine", none, gravel_broadcast(engine.empty() ? 0.0 : median(engine), 0), 0);
  }
  void link(const std::string& way, const gravel_link_options& how) {
    std::vector<double> seconds;
    uint64_t wrong = 0;
    const bool by_host = way != "kernel";
    for (uint32_t i = 0; i < o_.repeat; ++i) {
      gravel_link link(gravel_device(0), gravel_device(last(), 1), how);
      const uint64_t none = 0;
      gravel_copy(came_, &none, sizeof(none));
      const gravel_stream_t stream = gravel_stream_create();
      if (gravel_my_pe() == last())
        gravel_launch(
            link.receiver().is_direct() ? drain<gravel_direct_packet_receiver> : drain<gravel_packet_receiver>,
            gravel_launch_config{.grid = how.lanes, .block = 32, .stream = stream, .cooperative = how.lanes > 1},
            link.handle(), came_);
      double mine = 0;
      if (gravel_my_pe() == 0) {
        if (by_host) gravel_wait(link.send(data_, o_.bytes));
        auto begin = std::chrono::steady_clock::now();
        if (by_host) {
          gravel_event done;
          // More copies than this are not put into a stream, but done by kernels.
          const uint64_t packets = (o_.bytes + how.packet_bytes - 1) / how.packet_bytes;
          const auto at_once = static_cast<uint32_t>(std::max<uint64_t>(1, 128 / packets));
          for (uint32_t c = 0; c < o_.calls; ++c) {
            done = link.send(data_, o_.bytes);
            if (way == "host, copies" && (c + 1) % at_once == 0) gravel_wait(done);
          }
          gravel_wait(done);
        } else {
          gravel_launch(link.is_direct() ? pour<gravel_direct_packet_sender> : pour<gravel_packet_sender>,
                        gravel_launch_config{.grid = how.lanes, .block = path_threads, .cooperative = how.lanes > 1},
                        link.handle(), data_, o_.bytes, o_.calls);
          gravel_stream_synchronize(nullptr);
        }
        mine = seconds_since(begin) / o_.calls;
        link.shutdown();
      }
      gravel_stream_synchronize(stream);
      gravel_stream_destroy(stream);
      seconds.push_back(gravel_broadcast(mine, 0));
      uint64_t came = 0;
      gravel_copy(&came, came_, sizeof(came));
      wrong += gravel_broadcast(came, last()) != o_.bytes * (o_.calls + by_host);
    }
    row(way, how, median(seconds), wrong);
  }

  const bench_options& o_;
  perf::report& r_;
  char* data_;
  uint64_t* came_;
};

class reductions {
 public:
  reductions(const bench_options& o, perf::report& r)
      : o_(o),
        r_(r),
        most_(*std::max_element(o.sizes.begin(), o.sizes.end())),
        from_(gravel_malloc<float>(most_)),
        to_(gravel_malloc<float>(most_)),
        times_(2 * ring_set::most_lanes) {
    std::vector<float> mine(most_ / sizeof(float));
    for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = value(gravel_my_pe(), i);
    gravel_copy(from_, mine.data(), most_);
  }
  ~reductions() {
    gravel_free(to_);
    gravel_free(from_);
  }
  void run() {
    r_.title("allreduce", "one allreduce of float, median of the runs, at the slowest PE");
    const auto all = gravel_all_devices();
    for (const uint32_t lanes : o_.lanes)
      for (const uint32_t packet : o_.packets)
        for (const uint32_t buffers : o_.buffers) {
          if (buffers < 2) continue;
          gravel_router ring(all, all, GRAVEL_RING, {.packet_bytes = packet, .buffers = buffers, .lanes = lanes});
          for (const uint64_t bytes : o_.sizes) {
            const uint64_t count = bytes / sizeof(float);
            measure("ring in a kernel", bytes, ring.options(), [&] {
              return in_kernel(path_blocks(bytes, lanes), [&](const gravel_launch_config& c) {
                if (ring.is_direct())
                  launch_alone(ring_often<gravel_direct_path_handle>, c, ring.direct_path(), to_, from_, count,
                               o_.calls, times_.data());
                else
                  gravel_launch(ring_often<gravel_path_handle>, c, ring.path(), to_, from_, count, o_.calls,
                                times_.data());
              });
            });
            measure("ring started by hosts", bytes, ring.options(),
                    [&] { return by_host([&] { gravel_allreduce_start(ring, to_, from_, count); }); });
          }
        }
    const gravel_link_options none{.packet_bytes = 0, .buffers = 0, .lanes = 0};
    {
      gravel_reducer reducer;
      for (const uint64_t bytes : o_.sizes)
        measure("gravel_allreduce in a kernel", bytes, none, [&] {
          const uint32_t blocks =
              reduction_plan::of(reducer.handle().memory, bytes, reducer.handle().memory.blocks).blocks;
          return in_kernel(blocks, [&](const gravel_launch_config& c) {
            launch_alone_if(reducer.directly(), reducer_often, c, reducer.handle(), to_, from_, bytes / sizeof(float),
                            o_.calls, times_.data());
          });
        });
    }
#if GRAVEL_CUDA
    nccl_ring nccl(o_.nccl);
    if (!nccl.is_there()) {
      if (gravel_my_pe() == 0) std::printf("without NCCL: %s\n", nccl.why().c_str());
      return;
    }
    r_.fact("nccl", nccl.version());
    cudaStream_t stream;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    for (const uint64_t bytes : o_.sizes)
      measure("NCCL " + nccl.version() + " in a stream", bytes, none, [&] {
        return by_host([&] { nccl.sum(to_, from_, bytes / sizeof(float), stream); },
                       [&] { cuda_check(cudaStreamSynchronize(stream), "NCCL"); });
      });
    cudaStreamDestroy(stream);
#endif
  }

 private:
  static float value(int pe, uint64_t i) { return static_cast<float>((pe + 1) * static_cast<int>(i % 97 + 1)); }
  template <class... P, class... A>
  static void launch_alone_if(bool alone, void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
    if (alone) launch_alone(kernel, how, arguments...);
    else gravel_launch(kernel, how, arguments...);
  }
  template <class Launch>
  double in_kernel(uint32_t blocks, const Launch& launch) {
    launch({.grid = blocks, .block = path_threads, .cooperative = blocks > 1});
    gravel_stream_synchronize(nullptr);
    std::vector<uint64_t> times(2 * blocks);
    gravel_copy(times.data(), times_.data(), times.size() * sizeof(uint64_t));
    uint64_t begin = ~uint64_t{0}, end = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      begin = std::min(begin, times[2 * b]);
      end = std::max(end, times[2 * b + 1]);
    }
    return static_cast<double>(end - begin) / 1e3 / o_.calls;
  }
  double by_host(
      const std::function<void()>& call,
      const std::function<void()>& wait = [] { gravel_stream_synchronize(nullptr); }) {
    call();
    wait();
    gravel_sum_all(uint64_t{0});
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < o_.calls; ++i) call();
    wait();
    return seconds_since(begin) * 1e6 / o_.calls;
  }
  void measure(const std::string& way, uint64_t bytes, const gravel_link_options& how,
               const std::function<double()>& run) {
    std::vector<double> us;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < o_.repeat; ++i) {
      const std::vector<float> bad(bytes / sizeof(float), -1.0f);
      gravel_copy(to_, bad.data(), bytes);
      gravel_barrier_all();
      us.push_back(gravel_max_all(run()));
      gravel_barrier_all();
      std::vector<float> got(bytes / sizeof(float));
      gravel_copy(got.data(), to_, bytes);
      for (uint64_t k = 0; k < got.size(); ++k) {
        float sum = 0;
        for (int pe = 0; pe < gravel_n_pes(); ++pe) sum += value(pe, k);
        wrong += got[k] != sum;
      }
    }
    r_.row({{"way", "way", way},
            {"bytes", "bytes", bytes},
            {"packet_bytes", "packet B", uint64_t{how.packet_bytes}},
            {"buffers", "buffers", uint64_t{how.buffers}},
            {"lanes", "lanes", uint64_t{how.lanes}},
            {"us", "us", median(us)},
            {"gb_per_s", "GB/s", static_cast<double>(bytes) / median(us) / 1e3}},
           {bytes / sizeof(float) * o_.repeat, gravel_sum_all(wrong)});
  }

  const bench_options& o_;
  perf::report& r_;
  uint64_t most_;
  float *from_, *to_;
  device_array<uint64_t> times_;
};

int main(int argc, char** argv) {
  bench_options o;
  command_line app("Rates of links between PE 0 and the last PE, and time of an allreduce by a ring of links.",
                   program_name);
  app.add_option("--parts", o.parts, "Of transfer, allreduce")
      .delimiter(',')
      .one_of({"transfer", "allreduce"})
      .capture_default_str();
  app.add_option("--bytes", o.bytes, "Of a transfer").range(uint64_t{16}, uint64_t{1} << 34).capture_default_str();
  app.add_option("--packets", o.packets, "Bytes of a packet").delimiter(',').range(1u, 1u << 27);
  app.add_option("--copied", o.copied, "Bytes of a packet that a copy engine carries")
      .delimiter(',')
      .range(1u, 1u << 27);
  app.add_option("--buffers", o.buffers, "Packets at the destination")
      .delimiter(',')
      .range(1u, 1024u)
      .capture_default_str();
  app.add_option("--lanes", o.lanes, "Blocks, each with a lane of its own").delimiter(',').range(1u, 512u);
  app.add_option("--blocks", o.blocks, "Most blocks of a kernel that sends for the host")
      .delimiter(',')
      .range(1u, 512u);
  app.add_option("--sizes", o.sizes, "Bytes that are reduced").delimiter(',').range(uint64_t{4}, uint64_t{1} << 32);
  app.add_option("--calls", o.calls, "Of a run").range(1u, 100'000u).capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1u, 100u).capture_default_str();
  app.add_option("--nccl", o.nccl, "The library to compare with, if it is there").capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few sizes, few calls, one run");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (o.is_short) {
      o.bytes = 50'000;
      o.packets = {4096};
      o.copied = {4096};
      o.buffers = {2};
      o.lanes = {2};
      o.blocks = {2};
      o.sizes = {100'000};
      o.calls = 2;
      o.repeat = 1;
    }
    if (o.packets.empty())
      o.packets =
          GRAVEL_CUDA ? std::vector<uint32_t>{65536, 262144, 1 << 20, 4 << 20} : std::vector<uint32_t>{4096, 65536};
    if (o.copied.empty())
      o.copied =
          GRAVEL_CUDA ? std::vector<uint32_t>{1 << 20, 4 << 20, 16 << 20, 64 << 20} : std::vector<uint32_t>{65536};
    if (o.lanes.empty()) o.lanes = {GRAVEL_CUDA ? 64u : 2u};
    if (o.blocks.empty()) o.blocks = {GRAVEL_CUDA ? 32u : 2u};
    if (o.sizes.empty())
      o.sizes = GRAVEL_CUDA ? std::vector<uint64_t>{1 << 20, 16 << 20, 64 << 20} : std::vector<uint64_t>{1 << 16};
    for (uint64_t& bytes : o.sizes) bytes = bytes / 4 * 4;
    const auto largest = [](const auto& list) { return uint64_t{*std::max_element(list.begin(), list.end())}; };
    need_symmetric(2 * std::max(o.bytes, largest(o.sizes)) +
                   2 * largest(o.lanes) * largest(o.buffers) * largest(o.packets) +
                   largest(o.buffers) * largest(o.copied) + (64 << 20));
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.fact("nodes", static_cast<uint64_t>(gravel_n_nodes()));
  for (const std::string& part : o.parts) {
    if (part == "transfer") transfers(o, r).run();
    else reductions(o, r).run();
  }
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
