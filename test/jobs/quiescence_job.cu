// gravel_wait_quiescent in a job: it returns, and not before handlers and service blocks have sent all that they had to
// send: long chains of messages and many messages at once, some of them delayed. One source for the CPU backend and for
// GPUs. Run it under ucx-run with any number of PEs and a time limit: quiescence_job [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <gravel/gravel.cuh>
#if !GRAVEL_CUDA
#include <time.h>
#endif

namespace {

GRAVEL_BOTH uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}
/// A message that is late: one of 32 stays for some time where it is.
GRAVEL_BOTH void delay(uint64_t draw) {
  if (draw % 32 != 0) return;
#if GRAVEL_ON_GPU
  for (uint64_t i = 0; i < 1 + draw / 32 % 16; ++i) __nanosleep(10'000);
#elif !GRAVEL_CUDA
  const timespec pause{0, static_cast<long>(1 + draw / 32 % 16) * 20'000};
  nanosleep(&pause, nullptr);
#endif
}
GRAVEL_BOTH int somewhere(const gravel_t& g, uint64_t draw) { return static_cast<int>((draw >> 32) % g.n_pes); }

struct chain_link;
/// A service block that forwards each message until its hops are used up; every fourth time through a handler.
struct station {
  static constexpr const char* name = "station";
  static constexpr uint32_t threads = 32;
  struct message {
    uint32_t hops, hops_of_chain;
    uint64_t draw;
  };
  uint64_t* seen;
  __device__ void operator()(const gravel_service_block<station>& here,
                             const gravel_service_batch<message>& batch) const;
};

/// Sends itself on. The number of messages is known, their way is not.
struct chain_link {
  static constexpr const char* name = "chain_link";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t* seen, uint32_t hops, uint64_t draw) const {
    draw = mixed(draw + hops);
    delay(draw);
    if (hops) gravel_am<chain_link>(g, somewhere(g, draw), hops - 1, draw);
    gravel_local_add(g, seen, 1);
  }
};
/// Sends two: so many at once that some of them find no room in a small ring, and take the queue.
struct tree_node {
  static constexpr const char* name = "tree_node";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t* seen, uint32_t depth, uint64_t draw) const {
    draw = mixed(draw + depth);
    for (uint64_t child : {1, 2})
      if (depth) gravel_am<tree_node>(g, somewhere(g, mixed(draw + child)), depth - 1, draw + child);
    gravel_local_add(g, seen, 1);
  }
};

__device__ void station::operator()(const gravel_service_block<station>& here,
                                    const gravel_service_batch<message>& batch) const {
  for (uint32_t i = here.rank(); i < batch.size(); i += here.size()) {
    const message m = batch[i];
    const uint64_t draw = mixed(m.draw + m.hops);
    delay(draw);
    if (m.hops)
      gravel_service_send(here.handle, somewhere(here.g, draw), m.hops % here.blocks(),
                          {m.hops - 1, m.hops_of_chain, draw});
    else if (m.hops_of_chain) gravel_am<chain_link>(here.g, somewhere(here.g, draw), m.hops_of_chain - 1, draw);
    gravel::detail::fetch_add<gravel::detail::scope::device>(seen, uint64_t{1});
  }
}

__global__ void begin_chains(gravel_t g, uint32_t hops, uint64_t draw) {
  draw = mixed(draw + blockIdx.x * blockDim.x + threadIdx.x + (uint64_t{g.my_pe} << 20));
  gravel_am<chain_link>(g, somewhere(g, draw), hops, draw);
}
__global__ void begin_trees(gravel_t g, uint32_t depth, uint64_t draw) {
  draw = mixed(draw + threadIdx.x + (uint64_t{g.my_pe} << 20));
  gravel_am<tree_node>(g, somewhere(g, draw), depth, draw);
}
__global__ void begin_journeys(gravel_service_handle<station> to, uint32_t hops, uint32_t hops_of_chain,
                               uint64_t draw) {
  draw = mixed(draw + threadIdx.x + (uint64_t{to.g.my_pe} << 20));
  gravel_service_send(to, somewhere(to.g, draw), threadIdx.x % to.blocks(), {hops, hops_of_chain, draw});
}

int failures = 0;
uint64_t* seen;
uint64_t expected = 0;  ///< of all PEs together, so far

uint64_t read_seen() {
  uint64_t now = 0;
  gravel_copy(&now, seen, sizeof(now));
  return now;
}
/// To be called when `more` messages of all PEs have begun, or will by themselves.
void expect(const char* what, uint64_t more) {
  expected += more;
  gravel_wait_quiescent();
  const uint64_t here = read_seen(), all = gravel_sum_all(here);
  // If quiescence came too early, messages still arrive now.
  const bool grew = gravel_max_all(uint64_t{read_seen() != here}) != 0;
  if (all == expected && !grew) return;
  ++failures;
  if (gravel_my_pe() == 0)
    fprintf(stderr, "%s: quiescence after %" PRIu64 " messages of %" PRIu64 "%s\n", what, all, expected,
            grew ? ", and more came" : "");
}

}  // namespace

int main(int argc, char** argv) {
  gravel_init<chain_link, tree_node, gravel_service_delivery<station>>();
  const auto n = static_cast<uint64_t>(gravel_n_pes());
  const int me = gravel_my_pe(), rounds = argc > 1 ? std::atoi(argv[1]) : 6;
  const uint32_t lanes = GRAVEL_CUDA ? 128 : 8, deepest = GRAVEL_CUDA ? 12 : 9;
  seen = gravel_malloc<uint64_t>(sizeof(uint64_t));
  gravel_set_context<chain_link>(seen);
  gravel_set_context<tree_node>(seen);
  gravel_barrier_all();
  expect("nothing was sent", 0);
  for (int round = 0; round < rounds; ++round) {
    const auto draw = static_cast<uint64_t>(round) << 40;
    const int starter = round % gravel_n_pes();
    if (me == starter) gravel_launch(begin_chains, 1, 1, gravel_handle(), 400u, draw);
    expect("one chain", 401);
    gravel_launch(begin_chains, 2, lanes, gravel_handle(), 60u, draw);
    expect("chains of all lanes", n * 2 * lanes * 61);
    if (me == starter) gravel_am<chain_link>(gravel_host_handle(), (me + 1) % gravel_n_pes(), 25u, draw);
    expect("a chain that a host thread began", 26);
    gravel_launch(begin_trees, 1, lanes, gravel_handle(), deepest, draw);
    expect("trees", n * lanes * ((uint64_t{2} << deepest) - 1));
    {
      gravel_service<station> stations(station{seen}, {.blocks = 2, .chunks = 4, .chunk_messages = 32});
      gravel_launch(begin_journeys, 1, lanes, stations.handle(), 20u, 10u, draw);
      expect("journeys over service blocks and handlers", n * lanes * 31);
      if (me == starter) gravel_launch(begin_journeys, 1, 1, stations.handle(), 100u, 50u, draw);
      expect("one journey", 151);
      if (me != starter) gravel_launch(begin_journeys, 1, lanes, stations.handle(), 5u, 0u, draw);
      expected += (n - 1) * lanes * 6;
    }  // close() waits as well
    expect("behind a service that was closed", 0);
  }
  std::vector<double> us;
  for (int i = 0; i < 101; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    gravel_wait_quiescent();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(us.begin(), us.begin() + 50, us.end());
  const bool well = gravel_max_all(static_cast<uint64_t>(failures)) == 0;
  if (me == 0)
    printf("%s: %d PEs on %d nodes, %s; gravel_wait_quiescent takes %.1f us when nothing is under way\n",
           well ? "ok" : "FAILED", gravel_n_pes(), gravel_n_nodes(), gravel_backend(), us[50]);
  gravel_free(seen);
  gravel_finalize();
  return well ? 0 : 1;
}
