// Collectives of host threads and of kernels, over all PEs and over teams, of all types and sizes, checked against
// what they must give. One source for the CPU backend and for GPUs; run under ucx-run with any number of PEs and nodes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gravel/gravel.cuh>
#include "test/support/team_checks.cuh"

namespace {

int failures = 0;
int me, n;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "PE %d: wrong: %s\n", me, what);
}

/// Element i of PE `pe`: any bits, but small enough that no sum of integers depends on the order.
template <class T>
T value(int pe, uint64_t i) {
  uint64_t x = (static_cast<uint64_t>(pe) + 1) * 0x9e3779b97f4a7c15ull ^ (i + 1) * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 29;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(static_cast<double>(static_cast<int64_t>(x)) / 3e9);
  else return static_cast<T>(x);
}

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <class T>
void check_type(const char* name, const std::vector<uint64_t>& counts) {
  for (uint64_t count : counts) {
    std::vector<T> mine(count), sum(count), least(count), most(count), before(count), with(count);
    for (uint64_t i = 0; i < count; ++i) mine[i] = value<T>(me, i);
    const auto check = [&](const char* what, const std::vector<T>& got, auto combine, int end) {
      bool same = true;
      for (uint64_t i = 0; i < count; ++i) {
        T wanted{};
        for (int pe = 0; pe < end; ++pe) wanted = pe == 0 ? value<T>(pe, i) : combine(wanted, value<T>(pe, i));
        same &= got[i] == wanted;  // also of floating point: the order is that of the PEs
      }
      expect(same, (std::string(what) + " of " + std::to_string(count) + " " + name).c_str());
    };
    gravel_sum_all(sum.data(), mine.data(), count);
    check("gravel_sum_all", sum, sum_of<T>, n);
    gravel_min_all(least.data(), mine.data(), count);
    check(
        "gravel_min_all", least, [](T a, T b) { return b < a ? b : a; }, n);
    most = mine;
    gravel_max_all(most.data(), most.data(), count);
    check(
        "gravel_max_all in place", most, [](T a, T b) { return a < b ? b : a; }, n);
    gravel_scan_exclusive(before.data(), mine.data(), count);
    check("gravel_scan_exclusive", before, sum_of<T>, me);
    gravel_scan_inclusive(with.data(), mine.data(), count);
    check("gravel_scan_inclusive", with, sum_of<T>, me + 1);
    if constexpr (gravel::detail::is_atomic_integer<T>) {
      std::vector<T> bits(count);
      gravel_and_all(bits.data(), mine.data(), count);
      check(
          "gravel_and_all", bits, [](T a, T b) { return static_cast<T>(a & b); }, n);
      gravel_or_all(bits.data(), mine.data(), count);
      check(
          "gravel_or_all", bits, [](T a, T b) { return static_cast<T>(a | b); }, n);
      gravel_xor_all(bits.data(), mine.data(), count);
      check(
          "gravel_xor_all", bits, [](T a, T b) { return static_cast<T>(a ^ b); }, n);
    }
    std::vector<T> all(count * static_cast<uint64_t>(n));
    gravel_allgather(all.data(), mine.data(), count);
    bool same = true;
    for (uint64_t i = 0; i < all.size(); ++i) same &= all[i] == value<T>(static_cast<int>(i / count), i % count);
    expect(same, "gravel_allgather");
    for (int root : {0, n - 1}) {
      std::vector<T> some(count);
      if (me == root) some = mine;
      gravel_broadcast(some.data(), count, root);
      same = true;
      for (uint64_t i = 0; i < count; ++i) same &= some[i] == value<T>(root, i);
      expect(same, "gravel_broadcast");
    }
  }
  const T one = value<T>(me, 7);
  T wanted{};
  for (int pe = 0; pe < n; ++pe) wanted = pe == 0 ? value<T>(0, 7) : sum_of(wanted, value<T>(pe, 7));
  expect(gravel_sum_all(one) == wanted, "gravel_sum_all of a value");
  expect(gravel_broadcast(one, n - 1) == value<T>(n - 1, 7), "gravel_broadcast of a value");
  std::vector<T> all(static_cast<size_t>(n));
  gravel_allgather(all.data(), one);
  for (int pe = 0; pe < n; ++pe) expect(all[static_cast<size_t>(pe)] == value<T>(pe, 7), "gravel_allgather of a value");
}

struct odd_size {
  char bytes[7];
};

void check_others() {
  // Values that are no numbers (NaN).
  odd_size mine{}, all[64];
  mine.bytes[6] = static_cast<char>(me + 1);
  if (n <= 64) {
    gravel_allgather(all, mine);
    for (int pe = 0; pe < n; ++pe) expect(all[pe].bytes[6] == pe + 1, "gravel_allgather of a struct");
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect(gravel_min_all(me == 0 && n > 1 ? nan : 2.0) == 2.0, "gravel_min_all beside a NaN");
  expect(std::signbit(gravel_min_all(me == 0 ? -0.0 : 0.0)), "-0 is below 0");
  expect(std::signbit(gravel_max_all(me == 0 && n > 1 ? -0.0 : 0.0)) == false, "0 is above -0");
  // As before there were types: conversions to 64 bits, and small ones.
  const uint64_t flags = gravel_sum_all(me >= 0);
  expect(flags == static_cast<uint64_t>(n), "gravel_sum_all of bool");
  // Memory of the device.
  constexpr uint64_t count = 1000;
  auto* cells = gravel_malloc<uint64_t>(2 * count * sizeof(uint64_t));
  std::vector<uint64_t> host(count, static_cast<uint64_t>(me));
  gravel_copy(cells, host.data(), count * sizeof(uint64_t));
  gravel_sum_all(cells + count, cells, count);
  gravel_copy(host.data(), cells + count, count * sizeof(uint64_t));
  for (uint64_t got : host) expect(got == static_cast<uint64_t>(n * (n - 1) / 2), "gravel_sum_all in symmetric memory");
  gravel_broadcast(cells, count, n - 1);
  gravel_copy(host.data(), cells, count * sizeof(uint64_t));
  for (uint64_t got : host) expect(got == static_cast<uint64_t>(n - 1), "gravel_broadcast in symmetric memory");
  gravel_free(cells);
}

// --- of kernels
/// All threads see the same results, of a vector that takes three steps, in shared and in global memory; and what was
/// sent before a barrier.
template <class T>
__global__ void reductions(gravel_t g, T* from, T* sum, T* least, T* most, int count) {
  __shared__ T shared[40];
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) shared[i] = from[i];
  gravel_sum_all_block(g, sum, shared, static_cast<uint32_t>(count));
  gravel_min_all_block(g, least, from, static_cast<uint32_t>(count));
  gravel_max_all_block(g, shared, shared, static_cast<uint32_t>(count));
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) most[i] = shared[i];
}
__global__ void rounds_of_puts(gravel_t g, uint64_t* from_each, uint64_t* wrong, int rounds) {
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes(g)), thread = uint64_t{threadIdx.x};
  for (uint64_t round = 1; round <= static_cast<uint64_t>(rounds); ++round) {
    // Every thread puts to every PE; after the barrier all have arrived here.
    for (uint64_t pe = 0; pe < n_pes; ++pe)
      gravel_put(g, &from_each[static_cast<uint64_t>(gravel_my_pe(g)) * blockDim.x + thread], round,
                 static_cast<int>(pe));
    gravel_barrier_block(g);
    for (uint64_t pe = 0; pe < n_pes; ++pe)
      if (gravel::detail::load_acquire<gravel::detail::scope::system>(&from_each[pe * blockDim.x + thread]) != round)
        gravel_inc(g, wrong, gravel_my_pe(g));
    gravel_barrier_block(g);
  }
}
/// Like rounds_of_puts, by all blocks of a cooperative grid: each block checks the puts of the threads of every other
/// block, directly and by block senders.
__global__ void rounds_of_grids(gravel_t g, uint64_t* from_each, uint64_t* sum, uint64_t* wrong, int rounds) {
  __shared__ gravel_block_sender<32, 128> sender;
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x, thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes(g));
  for (uint64_t round = 1; round <= static_cast<uint64_t>(rounds); ++round) {
    sender.begin(g);
    for (uint64_t pe = 0; pe < n_pes; ++pe) {
      gravel_put(g, &from_each[static_cast<uint64_t>(gravel_my_pe(g)) * threads + thread], round, static_cast<int>(pe));
      sender.inc(sum, static_cast<int>(pe));
    }
    sender.end();
    gravel_barrier(g);
    for (uint64_t i = thread; i < n_pes * threads; i += threads / 2 + 1)  // also what other blocks put
      if (from_each[i] != round) gravel_inc(g, wrong, gravel_my_pe(g));
    if (*sum != round * n_pes * threads) gravel_inc(g, wrong, gravel_my_pe(g));
    gravel_barrier(g);
  }
}
__global__ void broadcasts(gravel_t g, int16_t* all, int rounds) {
  // The root runs ahead of the others unless something holds it.
  __shared__ int16_t values[20];
  for (int round = 0; round < rounds; ++round) {
    const int root = round / 3 % gravel_n_pes(g);
    for (int i = static_cast<int>(threadIdx.x); i < 20; i += static_cast<int>(blockDim.x))
      values[i] = static_cast<int16_t>(gravel_my_pe(g) == root ? -100 * round - i : 0);
    gravel_broadcast_block(g, values, 20, root);
    for (int i = static_cast<int>(threadIdx.x); i < 20; i += static_cast<int>(blockDim.x))
      all[round * 20 + i] = values[i];
    __syncthreads();
  }
}

template <class T>
void check_reductions(const char* name) {
  constexpr int count = 40;
  T* cells = gravel_malloc<T>(4 * count * sizeof(T));
  std::vector<T> mine(count), got(4 * count);
  for (uint64_t i = 0; i < count; ++i) mine[i] = value<T>(me, i);
  gravel_copy(cells, mine.data(), count * sizeof(T));
  gravel_launch(reductions<T>, 1, 64, gravel_handle(), cells, cells + count, cells + 2 * count, cells + 3 * count,
                count);
  gravel_barrier_all();
  gravel_copy(got.data(), cells, 4 * count * sizeof(T));
  bool same = true;
  for (uint64_t i = 0; i < count; ++i) {
    T sum = value<T>(0, i), least = sum, most = sum;
    for (int pe = 1; pe < n; ++pe) {
      const T v = value<T>(pe, i);
      sum = sum_of(sum, v);
      least = v < least ? v : least;
      most = most < v ? v : most;
    }
    same &= got[count + i] == sum && got[2 * count + i] == least && got[3 * count + i] == most;
  }
  expect(same, (std::string("reductions in a kernel of ") + name).c_str());
  gravel_free(cells);
}

void check_kernels() {
  check_reductions<uint64_t>("uint64_t");
  check_reductions<double>("double");
  check_reductions<float>("float");
  constexpr int threads = 64, rounds = 15;
  const uint64_t words = static_cast<uint64_t>(n) * threads;
  auto* cells = gravel_malloc<uint64_t>((words + 1) * sizeof(uint64_t));
  gravel_launch(rounds_of_puts, 1, threads, gravel_handle(), cells, cells + words, rounds);
  gravel_barrier_all();
  uint64_t wrong = 0;
  gravel_copy(&wrong, cells + words, sizeof(wrong));
  expect(wrong == 0, "gravel_barrier_block: what was put before it");
  gravel_free(cells);
  for (unsigned blocks : {3u, 1u}) {  // one block needs no cooperative launch
    const uint64_t cells_of_all = static_cast<uint64_t>(n) * blocks * 32;
    auto* of_grid = gravel_malloc<uint64_t>((cells_of_all + 2) * sizeof(uint64_t));
    gravel_launch(rounds_of_grids, gravel_launch_config{.grid = blocks, .block = 32, .cooperative = blocks > 1},
                  gravel_handle(), of_grid, of_grid + cells_of_all, of_grid + cells_of_all + 1, rounds);
    gravel_barrier_all();
    gravel_copy(&wrong, of_grid + cells_of_all + 1, sizeof(wrong));
    expect(wrong == 0, "gravel_barrier: what the grids sent before it");
    gravel_free(of_grid);
  }
  auto* all = gravel_malloc<int16_t>(rounds * 20 * sizeof(int16_t));
  gravel_launch(broadcasts, 1, threads, gravel_handle(), all, rounds);
  gravel_barrier_all();
  std::vector<int16_t> host(rounds * 20);
  gravel_copy(host.data(), all, host.size() * sizeof(int16_t));
  bool same = true;
  for (int i = 0; i < rounds * 20; ++i)
    same &= host[static_cast<size_t>(i)] == static_cast<int16_t>(-100 * (i / 20) - i % 20);
  expect(same, "gravel_broadcast_block");
  gravel_free(all);
}

}  // namespace

int main() {
  gravel_init<>();
  me = gravel_my_pe();
  n = gravel_n_pes();
  check_type<uint32_t>("uint32_t", {0, 1, 100});
  check_type<int32_t>("int32_t", {3});
  check_type<uint64_t>("uint64_t", {1, 65536 / 8 + 1, 100'003});  // one piece and a bit; many pieces
  check_type<int64_t>("int64_t", {5});
  check_type<float>("float", {2, 20'000});
  check_type<double>("double", {1, 10'000});
  check_others();
  check_kernels();
  team_checks::checker(expect).run();
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (me == 0)
    std::printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", n, gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
