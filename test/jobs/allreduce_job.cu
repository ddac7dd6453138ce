// Reductions of arrays over PEs: all types, sizes and ways, by hosts and by grids, in place and not, compared with the
// same by one host. With an argument the PEs call what cannot be, or different things, and the job is to end with a
// message. Run under ucx-run with any number of PEs and nodes.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "lib/allreduce/allreduce.cuh"
#include "lib/remote_task/accumulate.cuh"
#include "test/support/expect.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace gravel::detail;

namespace {

int me, n;

/// Element i of PE pe in call number `call`: small, so that sums have digits to lose only where floating-point numbers
/// are added.
template <class T>
T value(int pe, uint64_t i, uint64_t call) {
  const uint64_t x = mix((static_cast<uint64_t>(pe) << 40 | i) + (call << 20));
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  else {
    const auto number = static_cast<float>(static_cast<int64_t>(x % 200'001) - 100'000) / 1024.0f;
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(number);
    else return T::from_float(number);
  }
}
template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// The right value of element i, combined PE by PE.
template <gravel_reduction HOW, class T>
T expected(uint64_t i, uint64_t call) {
  combination<HOW, T, T> all;
  all.begin(value<T>(0, i, call));
  for (int pe = 1; pe < n; ++pe) all.add(value<T>(pe, i, call));
  return all.result();
}

constexpr uint64_t most = 5000, guard = 8;

/// Two arrays, with elements before and after them that no call may touch.
template <class T>
class arrays {
 public:
  arrays() : memory_(gravel_malloc<char>(2 * size)) {}
  ~arrays() noexcept(false) { gravel_free(memory_); }
  T* from(uint64_t shift) const { return reinterpret_cast<T*>(memory_) + guard + shift; }
  T* to(uint64_t shift) const { return reinterpret_cast<T*>(memory_ + size) + guard + shift; }
  void poison() {
    const std::vector<unsigned char> bytes(2 * size, 0x5b);
    gravel_copy(memory_, bytes.data(), bytes.size());
  }
  void fill(T* from, uint64_t count, uint64_t call) {
    std::vector<T> mine(count);
    for (uint64_t i = 0; i < count; ++i) mine[i] = value<T>(me, i, call);
    if (count) gravel_copy(from, mine.data(), count * sizeof(T));
  }
  /// to[0 .. count) and the guards around it. `written`: whether this PE gets a result.
  template <gravel_reduction HOW>
  void check(const T* to, uint64_t count, uint64_t call, bool written, const std::string& what) {
    std::vector<T> all(count + 2 * guard);
    gravel_copy(all.data(), to - guard, all.size() * sizeof(T));
    T poisoned;
    std::memset(&poisoned, 0x5b, sizeof(T));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= guard && i < guard + count;
      wrong += !same_bits(all[i], inside && written ? expected<HOW, T>(i - guard, call) : poisoned);
    }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " of " + std::to_string(count) + " are wrong");
  }

 private:
  static constexpr uint64_t size = (most + 4 * guard) * sizeof(T) / 256 * 256 + 256;
  char* memory_;
};

/// Calls of all hosts on a reducer, counted over the whole job so that every call has elements of its own.
uint64_t calls = 0;

template <gravel_reduction HOW, class T>
void check_host(gravel_reducer& reducer, const char* name, const std::vector<uint64_t>& counts) {
  arrays<T> a;
  for (const uint64_t count : counts)
    for (const uint64_t shift : {uint64_t{0}, uint64_t{1}}) {
      const std::string what =
          std::string(name) + ", " + std::to_string(count) + " elements from " + std::to_string(shift) + " on";
      a.poison();
      a.fill(a.from(shift), count, ++calls);
      gravel_allreduce<HOW>(reducer, a.to(2 * shift), a.from(shift), count);
      a.template check<HOW>(a.to(2 * shift), count, calls, true, what);
      const int root = static_cast<int>(calls % static_cast<uint64_t>(n));
      a.poison();
      a.fill(a.from(shift), count, ++calls);
      gravel_reduce<HOW>(reducer, a.to(0), a.from(shift), count, root);
      a.template check<HOW>(a.to(0), count, calls, me == root, what + " to PE " + std::to_string(root));
      a.poison();
      a.fill(a.from(shift), count, ++calls);
      gravel_barrier_all();  // no poison is written after a result
      gravel_allreduce<HOW>(reducer, a.from(shift), a.from(shift), count);
      a.template check<HOW>(a.from(shift), count, calls, true, what + " in place");
      gravel_barrier_all();
    }
}

/// Calls that are started one after the other, each after a signal of the one before; only the last signal is awaited.
void check_signals(gravel_reducer& reducer) {
  constexpr uint64_t count = 700, steps = 5;
  auto* const memory = gravel_malloc<char>((steps + 1) * 4096 + 256);
  const auto array = [&](uint64_t i) { return reinterpret_cast<float*>(memory + 256 + i * 4096); };
  auto* const done = reinterpret_cast<uint64_t*>(memory);
  std::vector<float> mine(count);
  for (uint64_t i = 0; i < count; ++i) mine[i] = static_cast<float>(me + 1 + static_cast<int>(i % 5));
  gravel_copy(array(0), mine.data(), count * sizeof(float));
  gravel_barrier_all();
  for (uint64_t step = 0; step < steps; ++step)
    gravel_allreduce_start(reducer, array(step + 1), array(step), count, {.after = done, .value = step, .done = done});
  gravel_wait_until(gravel_host_handle(), done, GRAVEL_GE, steps);
  gravel_copy(mine.data(), array(steps), count * sizeof(float));
  uint64_t signals = 0, wrong = 0;
  gravel_copy(&signals, done, sizeof(signals));
  for (uint64_t i = 0; i < count; ++i) {
    float sum = 0, power = 1;
    for (int pe = 0; pe < n; ++pe) sum += static_cast<float>(pe + 1 + static_cast<int>(i % 5));
    for (uint64_t step = 1; step < steps; ++step) power *= static_cast<float>(n);
    wrong += mine[i] != sum * power;
  }
  expect(signals == steps && wrong == 0,
         "signals: " + std::to_string(signals) + " came, " + std::to_string(wrong) + " sums are wrong");
  gravel_barrier_all();
  gravel_free(memory);
}

#if GRAVEL_CUDA
/// Two calls in a CUDA graph that is launched twice: sums of sums. Where arrays travel as messages, and where a signal
/// is awaited, a graph cannot have them.
void check_graph(gravel_reducer& reducer) {
  constexpr uint64_t count = 700;
  auto* const a = gravel_malloc<float>(count * sizeof(float));
  auto* const b = gravel_malloc<float>(count * sizeof(float));
  auto* const signal = gravel_malloc<uint64_t>(sizeof(uint64_t));
  std::vector<float> mine(count);
  for (uint64_t i = 0; i < count; ++i) mine[i] = static_cast<float>(me + 1 + static_cast<int>(i % 5));
  gravel_copy(a, mine.data(), count * sizeof(float));
  gravel_barrier_all();
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  expect_error("inside a stream capture",
               [&] { gravel_allreduce_start(reducer, b, a, count, {.stream = stream, .after = signal, .value = 0}); });
  if (!reducer.directly()) {
    expect_error("inside a stream capture", [&] { gravel_allreduce_start(reducer, b, a, count, {.stream = stream}); });
  } else {
    gravel_allreduce_start(reducer, b, a, count, {.stream = stream});
    gravel_allreduce_start(reducer, a, b, count, {.stream = stream, .done = signal});
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (reducer.directly()) {
    cuda_check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < 2; ++i) cuda_check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
    cuda_check(cudaStreamSynchronize(stream), "a graph of reductions");
    cuda_check(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
    gravel_copy(mine.data(), a, count * sizeof(float));
    uint64_t signals = 0, wrong = 0;
    gravel_copy(&signals, signal, sizeof(signals));
    for (uint64_t i = 0; i < count; ++i) {
      const auto pes = static_cast<float>(n);
      wrong += mine[i] != pes * pes * pes * (pes * (pes + 1) / 2 + pes * static_cast<float>(i % 5));
    }
    expect(signals == 2 && wrong == 0,
           "a graph: " + std::to_string(signals) + " signals, " + std::to_string(wrong) + " sums are wrong");
  }
  cuda_check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  cuda_check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  gravel_barrier_all();
  for (void* at : {static_cast<void*>(signal), static_cast<void*>(b), static_cast<void*>(a)}) gravel_free(at);
}
#endif

/// Many calls in one kernel, large and small in turn: threads, and blocks, that have nothing to do in some are ahead of
/// others. Each checks what it got itself, and dawdles differently at each PE.
template <class T>
__global__ void many_calls(gravel_reducer_handle r, T* from, T* to, uint32_t count, uint32_t rounds, uint64_t seed,
                           uint64_t* wrong) {
  const uint64_t n_pes = r.g.n_pes, part = (count + gridDim.x - 1) / gridDim.x;
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint64_t random = mix(seed + round);
    const auto now = static_cast<uint32_t>(random % 4 ? random % 7 : random % count + 1);
    // A block must have written itself what it reduces. It does not know which part that is, so it writes everything.
    for (uint64_t i = threadIdx.x; gridDim.x == 1 && i < now; i += blockDim.x)
      from[i] = static_cast<T>((r.g.my_pe + 1) * (i + round));
    const uint64_t dawdle = mix(random + r.g.my_pe * 64 + blockIdx.x) % 8;
    relax wait;
    for (uint64_t i = 0; i < dawdle; ++i) wait();
    gravel_allreduce(r, to, from, now);
    if (gridDim.x > 1) continue;
    for (uint64_t i = threadIdx.x; i < now; i += blockDim.x)
      if (to[i] != static_cast<T>(n_pes * (n_pes + 1) / 2 * (i + round))) gravel_local_add(r.g, wrong, uint64_t{1});
    __syncthreads();
  }
  (void)part;
}
void check_kernels(gravel_reducer& reducer, uint32_t rounds) {
  constexpr uint32_t count = 1500;
  auto* const memory = gravel_malloc<char>(256 + 2 * count * sizeof(uint32_t));
  auto* const wrong = reinterpret_cast<uint64_t*>(memory);
  auto* const from = reinterpret_cast<uint32_t*>(memory + 256);
  gravel_launch(many_calls<uint32_t>, 1, 64, reducer.handle(), from, from + count, count, rounds, uint64_t{5}, wrong);
  gravel_synchronize();
  // A call of the whole grid: the arrays are written before the first call and checked after the last one.
  std::vector<uint32_t> mine(2 * count);
  for (uint32_t i = 0; i < count; ++i) mine[i] = static_cast<uint32_t>(me + 1) * (i + 3);
  gravel_copy(from, mine.data(), count * sizeof(uint32_t));
  gravel_barrier_all();
  gravel_launch(many_calls<uint32_t>, gravel_launch_config{.grid = 3, .block = 32, .cooperative = true},
                reducer.handle(), from, from + count, count, rounds, uint64_t{6}, wrong);
  gravel_synchronize();
  gravel_copy(mine.data(), from, 2 * count * sizeof(uint32_t));
  uint64_t found = 0, most_of_calls = 0;
  gravel_copy(&found, wrong, sizeof(found));
  expect(found == 0, "many calls of a block: " + std::to_string(found) + " sums are wrong");
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint64_t random = mix(6 + round);
    most_of_calls = std::max(most_of_calls, random % 4 ? random % 7 : random % count + 1);
  }
  const auto pes = static_cast<uint32_t>(n);
  found = 0;
  for (uint32_t i = 0; i < most_of_calls; ++i) found += mine[count + i] != pes * (pes + 1) / 2 * (i + 3);
  expect(found == 0, "many calls of a grid: " + std::to_string(found) + " sums are wrong");
  gravel_free(memory);
}

void check_refusals() {
  expect_error("0 blocks", [] { gravel_reducer r({.blocks = 0}); });
  expect_error("129 blocks", [] { gravel_reducer r({.blocks = 129}); });
  expect_error("one_shot_bytes is 40", [] { gravel_reducer r({.one_shot_bytes = 40}); });
}

// --- blocks of a kernel that a host starts
void check_blocks() {
  reducer_memory m{};
  m.n_pes = 2;
  m.blocks = 32;
  m.staged_units = 16384 / flagged_words::data_bytes;
  m.directly = true;
  const auto blocks = [&](uint64_t bytes) { return reduction_plan::blocks_beside(m, bytes); };
  expect(blocks(4) == 1 && blocks(512 << 10) == 32, "blocks of one shot");
  expect(blocks(1 << 20) == 16 && blocks(25 << 20) == 16 && blocks(64 << 20) == 32 && blocks(1 << 30) == 32,
         "blocks of two shots");
  m.blocks = 8;
  expect(blocks(25 << 20) == 8 && blocks(1 << 30) == 8, "blocks of a reducer with few");

  // The parts of one shot follow each other, are all units, and fit the staging.
  uint32_t shots = 0;
  for (const uint32_t staged : {8u, 300u, 512u, 2048u})
    for (const uint32_t most : {1u, 2u, 3u, 32u, 128u})
      for (uint64_t bytes = 0; bytes < 1 << 18; bytes += bytes / 3 + 1) {
        m.staged_units = staged;
        const reduction_plan plan = reduction_plan::of(m, bytes, most);
        if (plan.way != reduction_way::one_shot) continue;
        const auto units = static_cast<uint32_t>((bytes + sizeof(unit) - 1) / sizeof(unit));
        uint64_t end = 0;
        bool fits = true;
        for (uint32_t slice = 0; slice < plan.blocks; ++slice) {
          const word_range part = plan.one_shot_part(m, units, slice, most);
          fits &= part.begin == end && (part.end - part.begin) * 2 <= staged;
          end = part.end;
        }
        expect(fits && end == units, "parts of " + std::to_string(bytes) + " bytes for " + std::to_string(most) +
                                         " blocks with staging for " + std::to_string(staged));
        ++shots;
      }
  expect(shots > 100, "only " + std::to_string(shots) + " reductions in one shot");

  gravel_reducer reducer({.blocks = 3, .one_shot_bytes = 64});
  constexpr uint64_t count = 1 << 16;
  auto* const sum = gravel_malloc<uint32_t>(count * sizeof(uint32_t));
  for (const uint32_t most : {1u, 2u, 3u}) {
    const std::vector<uint32_t> mine(count, most);
    gravel_copy(sum, mine.data(), count * sizeof(uint32_t));
    gravel_barrier_all();
    gravel_allreduce(reducer, sum, sum, count, {.blocks = most});
    std::vector<uint32_t> all(count);
    gravel_copy(all.data(), sum, count * sizeof(uint32_t));
    expect(all == std::vector<uint32_t>(count, most * static_cast<uint32_t>(n)),
           "by " + std::to_string(most) + " blocks");
  }
  expect_error("a reduction of 4 blocks; its reducer has 3",
               [&] { gravel_allreduce_start(reducer, sum, sum, count, {.blocks = 4}); });
  gravel_barrier_all();
  gravel_free(sum);
}

// --- accumulate
template <gravel_reduction HOW, class T>
__global__ void accumulate_to_all(gravel_t g, T* target, const T* source, uint64_t count, uint64_t* signal) {
  for (uint32_t i = 0; i < g.n_pes; ++i)
    gravel_accumulate<HOW>(g, target, source, count, signal, static_cast<int>((g.my_pe + i + 1) % g.n_pes));
}
/// Two blocks of every PE to every PE. Of numbers whose sums and products are exact in any order.
template <gravel_reduction HOW, class T>
void check_accumulate(const std::string& name, uint64_t count) {
  auto* const memory = gravel_malloc<char>(256 + 2 * (count + 1) * sizeof(T));
  auto* const signal = reinterpret_cast<uint64_t*>(memory);
  auto* const target = reinterpret_cast<T*>(memory + 256) + 1;  // of 16 bits: not at the beginning of a word
  T* const source = target + count;
  const auto number = [](int pe, uint64_t i) {
    return element<T>::narrow(static_cast<typename element<T>::wide>(1 + (static_cast<uint64_t>(pe) + i) % 2));
  };
  const auto start = [](uint64_t i) { return element<T>::narrow(static_cast<typename element<T>::wide>(1 + i % 3)); };
  std::vector<T> mine(2 * count);
  for (uint64_t i = 0; i < count; ++i) {
    mine[i] = start(i);
    mine[count + i] = number(me, i);
  }
  gravel_copy(target, mine.data(), mine.size() * sizeof(T));
  gravel_barrier_all();
  gravel_launch(accumulate_to_all<HOW, T>, 2, 32, gravel_handle(), target, source, count, signal);
  const uint64_t all = 2 * static_cast<uint64_t>(n) * count;
  gravel_wait_until(gravel_host_handle(), signal, GRAVEL_GE, all);
  gravel_copy(mine.data(), target, count * sizeof(T));  // before any barrier: the signal says that they are there
  uint64_t wrong = 0, signalled = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto wanted = element<T>::widen(start(i));
    for (int pe = 0; pe < 2 * n; ++pe) wanted = combine<HOW>(wanted, element<T>::widen(number(pe / 2, i)));
    wrong += !same_bits(mine[i], element<T>::narrow(wanted));
  }
  gravel_barrier_all();
  gravel_copy(&signalled, signal, sizeof(signalled));
  expect(wrong == 0 && signalled == all, name + ": " + std::to_string(wrong) + " are wrong, " +
                                             std::to_string(signalled) + " of " + std::to_string(all) + " signalled");
  gravel_free(memory);
}
void check_accumulates() {
  check_accumulate<GRAVEL_SUM, float>("accumulate sums of float", 700);
  check_accumulate<GRAVEL_SUM, double>("accumulate sums of double", 31);
  check_accumulate<GRAVEL_SUM, gravel_half>("accumulate sums of half", 301);
  check_accumulate<GRAVEL_SUM, gravel_bfloat16>("accumulate sums of bfloat16", 5);
  check_accumulate<GRAVEL_MAX, gravel_half>("accumulate maxima of half", 40);
  check_accumulate<GRAVEL_MIN, float>("accumulate minima of float", 40);
  check_accumulate<GRAVEL_PROD, uint32_t>("accumulate products of uint32_t", 40);
  check_accumulate<GRAVEL_PROD, double>("accumulate products of double", 40);
  check_accumulate<GRAVEL_MAX, int64_t>("accumulate maxima of int64_t", 100);
}

/// 16-bit numbers are rounded as IEEE 754 says, whichever processor does it.
void check_halves() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const gravel_half h{static_cast<uint16_t>(bits)};
    const gravel_bfloat16 b{static_cast<uint16_t>(bits)};
    if (h.to_float() == h.to_float() && gravel_half::from_float(h.to_float()).bits != bits)
      expect(false, "a half does not come back");
    if (b.to_float() == b.to_float() && gravel_bfloat16::from_float(b.to_float()).bits != bits)
      expect(false, "a bfloat16 does not come back");
  }
  const struct {
    float from;
    uint16_t half, bfloat16;
  } samples[] = {{1.0f, 0x3c00, 0x3f80},         {65504.0f, 0x7bff, 0x4780},    {65519.9f, 0x7bff, 0x4780},
                 {65520.0f, 0x7c00, 0x4780},     {0x1p-24f, 0x0001, 0x3380},    {0x1p-25f, 0x0000, 0x3300},
                 {0x1.8p-24f, 0x0002, 0x33c0},   {-0x1.004p0f, 0xbc01, 0xbf80}, {0x1.002p0f, 0x3c00, 0x3f80},
                 {0x1.006p0f, 0x3c02, 0x3f80},   {0x1.01p0f, 0x3c04, 0x3f80},   {0x1.03p0f, 0x3c0c, 0x3f82},
                 {0x1.ff8p-15f, 0x03ff, 0x3880}, {0x1.ffcp-15f, 0x0400, 0x3880}};
  for (const auto& s : samples)
    expect(gravel_half::from_float(s.from).bits == s.half && gravel_bfloat16::from_float(s.from).bits == s.bfloat16,
           "the halves of " + std::to_string(s.from));
}

// --- what ends the job
int fault(const std::string& what) {
  const bool last = me == n - 1;
  gravel_reducer reducer({.blocks = 4, .one_shot_bytes = 512});
  auto* const memory = gravel_malloc<float>(1 << 16);
  auto* const doubles = reinterpret_cast<double*>(memory);
  if (what == "type")
    last ? gravel_allreduce(reducer, doubles, doubles, 10) : gravel_allreduce(reducer, memory, memory, 10);
  else if (what == "operation")
    last ? gravel_allreduce<GRAVEL_MAX>(reducer, memory, memory, 10) : gravel_allreduce(reducer, memory, memory, 10);
  else if (what == "count") gravel_allreduce(reducer, memory, memory, last ? 10 : 11);
  else if (what == "large") gravel_allreduce(reducer, memory, memory, last ? 10 : 4000);
  else if (what == "few") gravel_allreduce(reducer, memory, memory, 16000, {.blocks = last ? 2u : 3u});
  else if (what == "root") gravel_reduce(reducer, memory, memory, 4000, last ? 0 : 1);
  else if (what == "no-root") gravel_reduce(reducer, memory, memory, 10, 99);
  else if (what == "heap") gravel_allreduce(reducer, memory, memory, uint64_t{1} << 40);
  else if (what == "overlap") gravel_allreduce(reducer, memory, memory + 1, 10);
  else if (what == "misaligned")
    gravel_allreduce(reducer, reinterpret_cast<float*>(reinterpret_cast<char*>(memory) + 2), memory + 100, 10);
  else if (what == "blocks")
    gravel_launch(many_calls<uint32_t>, gravel_launch_config{.grid = 5, .block = 32, .cooperative = true},
                  reducer.handle(), reinterpret_cast<uint32_t*>(memory), reinterpret_cast<uint32_t*>(memory) + 100,
                  100u, 1u, uint64_t{1}, reinterpret_cast<uint64_t*>(memory));
  else return 2;
  gravel_barrier_all();
  return 0;  // the test expects another status
}

void check_types(gravel_reducer& reducer, const std::vector<uint64_t>& counts) {
  check_host<GRAVEL_SUM, float>(reducer, "sums of float", counts);
  check_host<GRAVEL_SUM, double>(reducer, "sums of double", counts);
  check_host<GRAVEL_SUM, gravel_half>(reducer, "sums of half", counts);
  check_host<GRAVEL_SUM, gravel_bfloat16>(reducer, "sums of bfloat16", counts);
  check_host<GRAVEL_SUM, int32_t>(reducer, "sums of int32_t", counts);
  check_host<GRAVEL_SUM, uint64_t>(reducer, "sums of uint64_t", counts);
}

}  // namespace

int main(int argc, char** argv) {
  gravel_init<gravel_accumulation>();
  me = gravel_my_pe();
  n = gravel_n_pes();
  if (argc > 1) {
    const int status = fault(argv[1]);
    gravel_finalize();
    return status;
  }
  check_halves();
  check_refusals();
  check_blocks();
  check_accumulates();
  {
    gravel_reducer reducer;  // in one shot as far as these go
    check_types(reducer, {0, 1, 3, 1025});
    check_host<GRAVEL_MIN, int64_t>(reducer, "minima of int64_t", {37});
    check_host<GRAVEL_MAX, gravel_half>(reducer, "maxima of half", {37});
    check_host<GRAVEL_PROD, uint32_t>(reducer, "products of uint32_t", {37});
    check_signals(reducer);
#if GRAVEL_CUDA
    check_graph(reducer);
#endif
    check_kernels(reducer, 60);
  }
  {
    gravel_reducer reducer(
        {.blocks = 2, .one_shot_bytes = 64});  // in two shots from a few elements on; many rounds of messages
    check_types(reducer, {15, 2049});
    check_host<GRAVEL_MIN, float>(reducer, "minima of float", {300});
    check_host<GRAVEL_MAX, double>(reducer, "maxima of double", {300});
    check_signals(reducer);
  }
  {
    // Flags begin anew, and staging still has words with those that come: of the first calls.
    gravel_reducer reducer({.blocks = 3, .one_shot_bytes = 1024});
    check_kernels(reducer, 60);
    gravel_synchronize();
    gravel_barrier_all();
    std::vector<reducer_memory::slice_line> lines(3, {(uint64_t{1} << 32) - 20, {}});
    gravel_copy(reducer.handle().memory.slice(0), lines.data(), lines.size() * sizeof(lines[0]));
    gravel_barrier_all();
    check_kernels(reducer, 60);
  }
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (me == 0)
    std::printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", n, gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
