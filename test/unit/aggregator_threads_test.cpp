// The path of a message on real threads, for ThreadSanitizer: producers, planes and receivers, as in a running job.
#include <atomic>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t words = 256;

struct visit {
  static constexpr const char* name = "visit";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t word, int back_to) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + words + word, uint64_t{1});
    gravel_inc(g, reinterpret_cast<uint64_t*>(g.heap) + 2 * words + word, back_to);
  }
};
struct visit_host {
  static constexpr const char* name = "visit host";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t word) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 3 * words + word, uint64_t{1});
  }
};

/// Threads of the job's planes and receivers, until the object ends.
class running_job {
 public:
  explicit running_job(fake_job& job, uint32_t nodes, uint32_t planes) : job_(job) {
    relax_hook = nullptr;  // no party is stepped by one that waits: they all run
    for (uint32_t node = 0; node < nodes; ++node)
      for (uint32_t p = 0; p < planes; ++p)
        threads_.emplace_back([=, this] {
          random_numbers draw(node * 64 + p + 1);
          uint64_t now = 1;
          for (relax wait; !stop_;) {
            bool moved = false;
            for (uint32_t from = 0; from < nodes; ++from) moved |= job_.deliver(from, node, p, draw, now);
            moved |= job_.step_plane(node, p, now += 20);
            if (p == 0) moved |= job_.step_collective(node);
            if (moved) wait.reset();
            else wait();
          }
        });
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
      threads_.emplace_back([=, this] {
        for (relax wait; !stop_;) {
          const bool moved = job_.step_receiver(pe, sink_kind::device);
          if (job_.step_receiver(pe, sink_kind::host) || moved) wait.reset();
          else wait();
        }
      });
  }
  ~running_job() {
    stop_ = true;
    for (auto& t : threads_) t.join();
  }

 private:
  fake_job& job_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

fake_shape shape_of(uint32_t nodes, uint32_t pes_per_node, uint32_t planes) {
  return {.nodes = nodes,
          .pes_per_node = pes_per_node,
          .settings = {{"GRAVEL_WARP_SLOTS", "256"},
                       {"GRAVEL_SLOTS", "8"},
                       {"GRAVEL_PACKET_SIZE", "8K"},
                       {"GRAVEL_PACKETS_PER_DESTINATION", "3"},
                       {"GRAVEL_ZERO_COPY_SIZE", "64"},
                       {"GRAVEL_AGGREGATOR_THREADS", std::to_string(planes)}}};
}

uint64_t sum_of(fake_job& job, uint64_t area) {
  uint64_t sum = 0;
  for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
    for (uint64_t w = 0; w < words; ++w) sum += job.pe(pe).at<uint64_t>(0)[area * words + w];
  return sum;
}

/// Until the counts that two threads wrote agree: everything that handlers sent is applied too.
void wait_for_sum(fake_job& job, uint64_t area, uint64_t expected) {
  for (relax wait;; wait()) {
    uint64_t sum = 0;
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
      for (uint64_t w = 0; w < words; ++w) sum += load_acquire(&job.pe(pe).at<uint64_t>(0)[area * words + w]);
    if (sum >= expected) return;
  }
}

}  // namespace

TEST_CASE("two producer threads of one PE, 10^5 messages, every one applied once") {
  for (auto [nodes, pes, planes] : {std::tuple{1u, 2u, 1u}, {1u, 2u, 2u}, {2u, 1u, 1u}}) {
    INFO(nodes << " nodes, " << planes << " planes");
    const auto job = fake_job::with<visit, visit_host>(shape_of(nodes, pes, planes));
    constexpr uint64_t each = 12'000;
    {
      running_job running(*job, nodes, planes);
      std::vector<std::thread> producers;
      for (uint32_t t = 0; t < 2; ++t)
        producers.emplace_back([&, t] {
          const gravel_t& g = job->pe(0).host_thread;
          uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
          for (uint64_t i = 0; i < each; ++i) {
            gravel_inc(g, heap + (i * 7 + t) % words, 1);
            if (i % 8 == 0) gravel_am<visit>(g, static_cast<int>(i / 8 % 2), i % words, static_cast<int>(t));
            if (i % 16 == 0) gravel_am<visit_host>(g, 1, i % words);
          }
          g.direct.flush_all();
        });
      for (auto& p : producers) p.join();
      wait_for_sum(*job, 2, 2 * each / 8);
    }
    CHECK(sum_of(*job, 0) == 2 * each);
    CHECK(sum_of(*job, 1) == 2 * each / 8);
    CHECK(sum_of(*job, 2) == 2 * each / 8);
    CHECK(sum_of(*job, 3) == 2 * each / 16);
  }
}

namespace {
template <int BLOCK>
void gups(const gravel_t& g, uint64_t rounds) {
  __shared__ gravel_block_sender<BLOCK, 512> sender;
  sender.begin(g);
  uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
  for (uint64_t r = 0; r < rounds; ++r) {
    const uint64_t w = random_numbers(blockIdx.x * 4096 + threadIdx.x * 64 + r)();
    sender.inc(heap + w % words, static_cast<int>(w >> 32) & 1);
    if (r % 16 == 0) gravel_inc(g, heap + words + w % words, static_cast<int>(w >> 33) & 1);
  }
  sender.end();
}
}  // namespace

TEST_CASE("kernels of two PEs at once, blocks on two threads each") {
  const auto job = fake_job::with<>(shape_of(2, 1, 1));
  constexpr uint64_t rounds = 64, blocks = 8, lanes = 64;
  {
    running_job running(*job, 2, 1);
    std::vector<std::thread> pes;
    for (uint32_t pe = 0; pe < 2; ++pe)
      pes.emplace_back([&, pe] {
        simt::launch_options options{};
        options.threads = 2;
        simt::launch(blocks, lanes, options, [&] { gups<lanes>(job->pe(pe).kernel, rounds); });
        job->pe(pe).kernel.direct.flush_all();
        job->pe(pe).kernel.block.flush_all();
      });
    for (auto& p : pes) p.join();
  }
  CHECK(sum_of(*job, 0) == 2 * blocks * lanes * rounds);
  CHECK(sum_of(*job, 1) == 2 * blocks * lanes * (rounds / 16));
}
