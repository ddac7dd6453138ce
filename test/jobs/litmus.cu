// Checks that this machine keeps the memory orders that Gravel relies on. Each row of the table runs two sides against
// each other for many thousand rounds, with the scopes and in the memory of one use of lib/base, and counts forbidden
// outcomes:
//
//   passing          a ring of two slots (lib/base/ring.hpp): the destination sees what the source wrote before [P1],
//                    and the source overwrites nothing that is still read [P2]. 32 lanes write and read; one publishes
//                    and polls.
//   store buffering  lib/base/get_window.hpp: two sides each count and then, after full_fence(), read the other's
//                    count. At least one of them sees the other's.
//   flush            queue::request_flush: of two targets the higher one remains
//   releasing        device/release_ring.cuh, on GPUs: a reader of a done word sees what a warp has applied that did
//                    not write the word itself
//
// On GPUs the sides are blocks, kernels of two GPUs, or a kernel and a thread; on the CPU backend warps of a block,
// without a seed and with some, and two threads. Rows of other orders are controls: `relaxed` ones leave the order to
// the machine, `reversed` ones do the second step first. Their counts show whether the test can see a fault here; on
// the CPU backend, where seeds decide, reversed rows must show one. Exit status 0: they do, no row whose order is kept
// was wrong, and none gave up.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device/in_place.cuh"
#include "device/release_ring.cuh"
#include "device/simt.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/queue.hpp"

namespace {

using namespace gravel::detail;

constexpr uint32_t lanes = 32;
enum class order { kept, relaxed, reversed };
constexpr const char* order_names[] = {"", "relaxed", "reversed"};

/// A side: a warp, or a thread alone.
struct team {
  uint32_t rank, size;
  GRAVEL_BOTH bool is_leader() const { return rank == 0; }
  GRAVEL_BOTH void sync() const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (size == lanes) __syncwarp();
#endif
  }
  GRAVEL_BOTH bool from_leader(bool value) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (size == lanes) return __shfl_sync(~0u, value, 0);
#endif
    return value;
  }
};

GRAVEL_BOTH uint64_t now_ns() {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  return globaltimer_ns();
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Waits until `ready`; false after some seconds. A GPU does not sleep here, so that both sides run at the same time.
template <class F>
GRAVEL_BOTH bool wait_for(F ready) {
  const uint64_t begin = now_ns();
  for ([[maybe_unused]] relax wait; !ready();) {
#if !GRAVEL_ON_GPU
    wait.briefly();
#endif
    if (now_ns() - begin > 20'000'000'000) return false;
  }
  return true;
}

/// Results of one lane of a side.
struct found {
  uint64_t wrong, gave_up;
};

/// A rendezvous of both sides before a round. `at`: the round that each side has reached.
GRAVEL_BOTH bool rendezvous(uint64_t* at, uint32_t side, uint64_t round) {
  store_relaxed(&at[side * 8], round + 1);
  return wait_for([&] { return load_relaxed(&at[(1 - side) * 8]) > round; });
}

template <scope S, order O>
struct passing {
  struct alignas(64) slot {
    uint64_t published, spare[7];
    uint64_t data[lanes];
  };
  slot* slots;  ///< [2]
  uint64_t* done;
  uint64_t n;

  GRAVEL_BOTH void publish(const team& t, uint64_t ticket) const {
    if (!t.is_leader()) return;
    if (O == order::kept) ring<S>::publish(&slots[ticket & 1].published, ticket);
    else store_relaxed<S>(&slots[ticket & 1].published, ticket + 1);
  }
  GRAVEL_BOTH void mark(const team& t, uint64_t ticket) const {
    if (!t.is_leader()) return;
    if (O == order::kept) done_words<S>{done, 2}.mark(ticket);
    else store_relaxed<S>(&done[ticket & 1], ticket + 1);
  }
  GRAVEL_BOTH bool source(const team& t, uint64_t ticket) const {
    const done_words<S> words{done, 2};
    if (!t.from_leader(!t.is_leader() || wait_for([&] { return words.is_free(ticket); }))) return false;
    t.sync();
    if (O == order::reversed) publish(t, ticket);
    for (uint32_t i = t.rank; i < lanes; i += t.size) {
      interleave_point();
      slots[ticket & 1].data[i] = ticket * lanes + i;
    }
    t.sync();
    if (O != order::reversed) publish(t, ticket);
    return true;
  }
  GRAVEL_BOTH bool destination(const team& t, uint64_t ticket, found& result) const {
    const slot& s = slots[ticket & 1];
    const auto arrived = [&] {
      return O == order::kept ? ring<S>::arrived(&s.published, ticket) : load_relaxed<S>(&s.published) == ticket + 1;
    };
    if (!t.from_leader(!t.is_leader() || wait_for(arrived))) return false;
    t.sync();
    if (O == order::reversed) mark(t, ticket);
    for (uint32_t i = t.rank; i < lanes; i += t.size) {
      interleave_point();
      result.wrong += s.data[i] != ticket * lanes + i;
    }
    t.sync();
    if (O != order::reversed) mark(t, ticket);
    return true;
  }
  GRAVEL_BOTH bool run(uint32_t side, const team& t, found& result) const {
    for (uint64_t ticket = 0; ticket < n; ++ticket)
      if (!(side == 0 ? source(t, ticket) : destination(t, ticket, result))) return false;
    return true;
  }
};

template <order O>
struct store_buffering {
  uint64_t* words;  ///< [n][2], a line each
  uint64_t* read;   ///< [n][2], what each side read
  uint64_t* at;     ///< [2], a line each
  uint64_t n;

  GRAVEL_BOTH bool run(uint32_t side, const team& t, found&) const {
    for (uint64_t i = 0; i < n && t.is_leader(); ++i) {
      if (!rendezvous(at, side, i)) return false;
      uint64_t *const mine = &words[(2 * i + side) * 8], *const theirs = &words[(2 * i + 1 - side) * 8];
      if (O == order::reversed) read[2 * i + side] = load_relaxed<scope::device>(theirs);
      fetch_add<scope::device>(mine, uint64_t{1});
      if (O == order::kept) full_fence();
      if (O != order::reversed) read[2 * i + side] = load_relaxed<scope::device>(theirs);
    }
    return true;
  }
  uint64_t wrong(const uint64_t* seen) const {
    uint64_t neither = 0;
    for (uint64_t i = 0; i < n; ++i) neither += seen[2 * i] == 0 && seen[2 * i + 1] == 0;
    return neither;
  }
};

/// Reversed: a side stores its target whatever the other has asked for.
template <order O>
struct flushing {
  queue_control* controls;  ///< [n]
  queue_state* states;      ///< [n]
  uint64_t* at;
  uint64_t n;

  GRAVEL_BOTH bool run(uint32_t side, const team& t, found&) const {
    for (uint64_t i = 0; i < n && t.is_leader(); ++i) {
      if (!rendezvous(at, side, i)) return false;
      const uint64_t target = 1 + (i + side) % 2;
      if (O == order::reversed) store_relaxed(&controls[i].flush_target, target);
      else queue{&controls[i], &states[i], nullptr, {2, 8, 4, 1}}.request_flush(target);
    }
    return true;
  }
  uint64_t wrong(const queue_control* seen) const {
    uint64_t lower = 0;
    for (uint64_t i = 0; i < n; ++i) lower += seen[i].flush_target != 2;
    return lower;
  }
};

/// Warps `first`, `first` + 1, ... are the sides with those numbers.
template <class Test>
__global__ void sides(Test test, uint32_t first, found* results) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
  found mine{};
  mine.gave_up = !test.run(first + warp, {lane, lanes}, mine);
  results[(first + warp) * lanes + lane] = mine;
}

struct row_result {
  uint64_t wrong = 0;
  bool gave_up = false;
};
row_result sum(const found* results) {
  row_result r;
  for (uint32_t i = 0; i < 2 * lanes; ++i) {
    r.wrong += results[i].wrong;
    r.gave_up |= results[i].gave_up != 0;
  }
  return r;
}

int failures = 0;
void print(const char* name, order o, const char* where, uint64_t n, const row_result& r, bool must_be_seen = false) {
  const bool bad = r.gave_up || (o == order::kept ? r.wrong != 0 : must_be_seen && r.wrong == 0);
  failures += bad;
  std::printf("%-7s %-16s %-9s %-32s %8llu rounds, %llu wrong%s\n", bad ? "FAILED" : "ok", name,
              order_names[static_cast<int>(o)], where, static_cast<unsigned long long>(n),
              static_cast<unsigned long long>(r.wrong), r.gave_up ? ", gave up" : "");
}

template <class Test>
void run_side_alone(const Test& test, uint32_t side, found* results) {
  found mine{};
  mine.gave_up = !test.run(side, {0, 1}, mine);
  results[side * lanes] = mine;
}

#if GRAVEL_CUDA

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(2);
}
/// Zeros. `gpu` < 0: pinned host memory.
template <class T>
struct memory {
  T* at = nullptr;
  bool on_host;
  memory(int gpu, uint64_t n) : on_host(gpu < 0) {
    if (!on_host) check(cudaSetDevice(gpu), "cudaSetDevice");
    check(on_host ? cudaHostAlloc(&at, n * sizeof(T), cudaHostAllocPortable | cudaHostAllocMapped)
                  : cudaMalloc(&at, n * sizeof(T)),
          "memory");
    if (on_host) std::memset(static_cast<void*>(at), 0, n * sizeof(T));
    else {
      check(cudaMemset(at, 0, n * sizeof(T)), "cudaMemset");
      check(cudaDeviceSynchronize(), "cudaMemset");
    }
  }
  memory(const memory&) = delete;
  ~memory() { on_host ? cudaFreeHost(at) : cudaFree(at); }
};

/// Side i runs on GPU where[i], or on a thread if that is negative.
template <class Test>
row_result run(const Test& test, const int (&where)[2]) {
  memory<found> results(-1, 2 * lanes);
  std::vector<std::thread> threads;
  const bool one_kernel = where[0] == where[1] && where[0] >= 0;
  for (uint32_t side = 0; side < 2; ++side) {
    if (where[side] < 0) {
      threads.emplace_back([&test, &results, side] { run_side_alone(test, side, results.at); });
    } else if (!one_kernel || side == 0) {
      check(cudaSetDevice(where[side]), "cudaSetDevice");
      sides<<<one_kernel ? 2 : 1, lanes>>>(test, side, results.at);
      check(cudaGetLastError(), "launch");
    }
  }
  for (int gpu : where)
    if (gpu >= 0) {
      check(cudaSetDevice(gpu), "cudaSetDevice");
      check(cudaDeviceSynchronize(), "kernel");
    }
  for (auto& t : threads) t.join();
  return sum(results.at);
}

template <scope S, order O>
void pass(const char* where, int source, int destination, int slots_at, int done_at, uint64_t n) {
  using test = passing<S, O>;
  memory<typename test::slot> slots(slots_at, 2);
  memory<uint64_t> done(done_at, 2);
  print("passing", O, where, n, run(test{slots.at, done.at, n}, {source, destination}));
}
template <scope S>
void pass_all(const char* where, int source, int destination, int slots_at, int done_at, uint64_t n) {
  pass<S, order::kept>(where, source, destination, slots_at, done_at, n);
  pass<S, order::relaxed>(where, source, destination, slots_at, done_at, n);
  pass<S, order::reversed>(where, source, destination, slots_at, done_at, n);
}
template <order O>
void buffer(uint64_t n) {
  memory<uint64_t> words(0, 16 * n), read(-1, 2 * n), at(0, 16);
  const store_buffering<O> test{words.at, read.at, at.at, n};
  row_result r = run(test, {0, 0});
  r.wrong = test.wrong(read.at);
  print("store buffering", O, "one GPU", n, r);
}
template <order O>
void flush(uint64_t n) {
  memory<queue_control> controls(-1, n);
  memory<queue_state> states(0, n);
  memory<uint64_t> at(0, 16);
  const flushing<O> test{controls.at, states.at, at.at, n};
  row_result r = run(test, {0, 0});
  r.wrong = test.wrong(controls.at);
  print("flush", O, "one GPU, words of the host", n, r);
}

/// Additions to words that lie far apart, so that they take long. Relaxed: a done word is stored without the fence.
template <order O>
struct releasing {
  uint64_t* data;
  uint64_t mask;   ///< words - 1
  uint64_t* done;  ///< [chunks]
  uint64_t* seen;  ///< tickets that the source has seen
  uint64_t n;
  static constexpr uint32_t chunks = 4, words_of_lane = 8;
  GRAVEL_DEVICE uint64_t* word(uint64_t ticket, uint32_t i) const {
    const uint32_t lane = threadIdx.x % lanes;
    return &data[((ticket * lanes + lane) * words_of_lane + i) * 0x9E3779B97F4A7C15u & mask];
  }
  GRAVEL_DEVICE peer_ring ring_words() const { return {nullptr, done, chunks, peer_ring::least_chunk_units}; }
};
/// One warp applies, the second releases.
template <order O>
__global__ void apply_and_release(releasing<O> test, found* results) {
  __shared__ release_ring releases;
  __shared__ uint64_t posted;
  if (threadIdx.x == 0) {
    releases.begin();
    posted = 0;
  }
  __syncthreads();
  const uint32_t lane = threadIdx.x % lanes;
  if (threadIdx.x >= lanes) {
    if constexpr (O == order::kept) {
      releases.serve(1, nullptr);
    } else {
      for (uint64_t t = 0; t < test.n && lane == 0; ++t) {
        if (!wait_for([&] { return load_relaxed<scope::shared>(&posted) > t; })) return;
        store_relaxed(test.ring_words().words().of(t), t + 1);
      }
    }
    return;
  }
  bool gave_up = false;
  for (uint64_t t = 0; t < test.n && !gave_up; ++t) {
    for (uint32_t i = 0; i < releasing<O>::words_of_lane; ++i) add_scattered(test.word(t, i), uint64_t{1});
    __syncwarp();
    if (lane == 0) {
      if (O == order::kept) releases.post(test.ring_words(), t, false);
      else store_relaxed<scope::shared>(&posted, t + 1);
      gave_up = !wait_for([&] { return load_acquire(test.seen) > t; });
    }
    gave_up = __shfl_sync(~0u, gave_up, 0);
  }
  if (lane == 0) releases.leave();
  results[lane] = {0, gave_up};
}
template <order O>
__global__ void read_released(releasing<O> test, found* results) {
  found mine{};
  for (uint64_t t = 0; t < test.n && !mine.gave_up; ++t) {
    bool is_there = true;
    if (threadIdx.x == 0) is_there = wait_for([&] { return load_acquire(test.ring_words().words().of(t)) == t + 1; });
    mine.gave_up = !__shfl_sync(~0u, is_there, 0);
    for (uint32_t i = 0; i < releasing<O>::words_of_lane; ++i) mine.wrong += load_relaxed(test.word(t, i)) != 1;
    __syncwarp();
    if (threadIdx.x == 0) store_release(test.seen, t + 1);
  }
  results[lanes + threadIdx.x] = mine;
}
template <order O>
void release(const char* where, int source, int destination, uint64_t n) {
  constexpr uint64_t words = uint64_t{1} << 24;
  n = n * lanes * releasing<O>::words_of_lane > words ? words / lanes / releasing<O>::words_of_lane : n;
  memory<uint64_t> data(destination, words), done(source, releasing<O>::chunks), seen(destination, 8);
  memory<found> results(-1, 2 * lanes);
  const releasing<O> test{data.at, words - 1, done.at, seen.at, n};
  cudaStream_t stream[2];
  for (int side : {0, 1}) {
    check(cudaSetDevice(side ? source : destination), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream[side], cudaStreamNonBlocking), "stream");
    if (side == 0) apply_and_release<<<1, 2 * lanes, 0, stream[0]>>>(test, results.at);
    else read_released<<<1, lanes, 0, stream[1]>>>(test, results.at);
    check(cudaGetLastError(), "launch");
  }
  for (int side : {0, 1}) {
    check(cudaSetDevice(side ? source : destination), "cudaSetDevice");
    check(cudaStreamSynchronize(stream[side]), "kernel");
    check(cudaStreamDestroy(stream[side]), "stream");
  }
  print("releasing", O, where, n, sum(results.at));
}

void run_all(uint64_t n) {
  setenv("CUDA_MODULE_LOADING", "EAGER",
         1);  // a kernel that is loaded when first used may wait for one that waits for it
  int gpus = 0, forth = 0, back = 0;
  check(cudaGetDeviceCount(&gpus), "looking for GPUs");
  pass_all<scope::device>("rings of a service: one GPU", 0, 0, 0, 0, n);
  pass_all<scope::system>("own ring: one GPU, system scope", 0, 0, 0, 0, n);
  pass_all<scope::system>("queue: GPU to host", 0, -1, -1, -1, n / 4);
  pass_all<scope::system>("landing ring: host to GPU", -1, 0, -1, -1, n / 4);
  if (gpus > 1) {
    cudaDeviceCanAccessPeer(&forth, 0, 1);
    cudaDeviceCanAccessPeer(&back, 1, 0);
  }
  if (forth && back) {
    for (int gpu : {0, 1}) {
      check(cudaSetDevice(gpu), "cudaSetDevice");
      check(cudaDeviceEnablePeerAccess(1 - gpu, 0), "cudaDeviceEnablePeerAccess");
    }
    pass_all<scope::system>("peer ring: GPU to GPU", 0, 1, 1, 0, n / 4);
    release<order::kept>("chunks: GPU to GPU", 0, 1, n / 4);
    release<order::relaxed>("chunks: GPU to GPU", 0, 1, n / 4);
  } else {
    std::puts("skipped: peer ring, which needs two GPUs that reach each other");
  }
  release<order::kept>("chunks: one GPU", 0, 0, n / 4);
  release<order::relaxed>("chunks: one GPU", 0, 0, n / 4);
  buffer<order::kept>(n / 4);
  buffer<order::relaxed>(n / 4);
  flush<order::kept>(n / 64);
  flush<order::reversed>(n / 64);
}

#else

constexpr uint64_t two_threads = ~0ull;
/// `seed`: of warps of one block; 0: their plain order.
template <class Test>
row_result run(const Test& test, uint64_t seed) {
  found results[2 * lanes]{};
  if (seed == two_threads) {
    std::thread other([&] { run_side_alone(test, 0, results); });
    run_side_alone(test, 1, results);
    other.join();
  } else {
    simt::launch_options options{};
    options.seed = seed;
    simt::launch(1, 2 * lanes, options, [&] { sides(test, 0, results); });
  }
  return sum(results);
}

template <scope S, order O>
row_result pass(uint64_t seed, uint64_t n) {
  using test = passing<S, O>;
  typename test::slot slots[2]{};
  uint64_t done[2]{};
  return run(test{slots, done, n}, seed);
}
template <order O>
row_result buffer(uint64_t seed, uint64_t n) {
  std::vector<uint64_t> words(16 * n), read(2 * n), at(16);
  const store_buffering<O> test{words.data(), read.data(), at.data(), n};
  row_result r = run(test, seed);
  r.wrong = test.wrong(read.data());
  return r;
}
template <order O>
row_result flush(uint64_t seed, uint64_t n) {
  std::vector<queue_control> controls(n);
  std::vector<queue_state> states(n);
  std::vector<uint64_t> at(16);
  const flushing<O> test{controls.data(), states.data(), at.data(), n};
  row_result r = run(test, seed);
  r.wrong = test.wrong(controls.data());
  return r;
}

template <order O>
void run_some(const char* where, uint64_t seed, uint64_t n) {
  const bool seen = O == order::reversed && seed && seed != two_threads;
  print("passing", O, where, n, pass<scope::device, O>(seed, n), seen);
  print("store buffering", O, where, n, buffer<O>(seed, n), seen);
  print("flush", O, where, n / 4, flush<O>(seed, n / 4), seen);
}
void run_all(uint64_t n) {
  for (uint64_t seed = 0; seed <= 3; ++seed) {
    const std::string where = "warps of a block, seed " + std::to_string(seed);
    run_some<order::kept>(where.c_str(), seed, n / 256);
    run_some<order::reversed>(where.c_str(), seed, n / 256);
  }
  run_some<order::kept>("two threads", two_threads, n / 16);
}

#endif

}  // namespace

/// litmus [ROUNDS]
int main(int argc, char** argv) {
  run_all(argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 400'000);
  std::printf("%d rows failed\n", failures);
  return failures != 0;
}
