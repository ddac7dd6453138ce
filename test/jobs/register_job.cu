// Memory of the program that becomes symmetric (gravel_register), and memory of a pool (gravel_pool_malloc): all PEs
// write to it at each other, at both ends of the ranges and in between, and what has come is compared, by the address
// of the program. One source for the CPU backend and for GPUs. Option: rounds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "test/support/expect.hpp"
#include "test/support/own_memory.hpp"
#include "test/support/places.hpp"

namespace {

constexpr uint64_t places = 256;  // words of a range that are written

GRAVEL_BOTH uint64_t place_of(uint64_t number, uint64_t words) { return spread_place<places>(number, words); }

/// Puts to PE `to`, which has `words` words at `range`: half of the values at once, the others by two updates each.
__global__ void write_to(gravel_t g, uint64_t* range, uint64_t words, uint64_t salt, int to) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places && i < words; i += gridDim.x * blockDim.x) {
    uint64_t* const at = &range[place_of(i, words)];
    if (i % 2) {
      gravel_put(g, at, value_of(i, salt), to);
    } else {
      gravel_add(g, at, value_of(i, salt) - 1, to);
      gravel_inc(g, at, to);
    }
  }
}
/// Gets what write_to() has written.
__global__ void read_from(gravel_t g, uint64_t* values, const uint64_t* range, uint64_t words, int from) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places && i < words; i += gridDim.x * blockDim.x)
    gravel_get(g, &values[i], &range[place_of(i, words)], from);
}
/// A block copies the first words of the range at `from` to the words behind them at `to`.
__global__ void copy_on(gravel_t g, uint64_t* range, uint64_t* buffer, uint64_t words, int from, int to) {
  gravel_get_bulk(g, buffer, range, words * sizeof(uint64_t), from);
  gravel_quiet(g);
  __syncthreads();
  gravel_put_bulk(g, range + words, buffer, words * sizeof(uint64_t), to);
}

/// Copies device memory to the host, also outside the job.
void read_own(void* to, const void* from, uint64_t bytes) {
#if GRAVEL_CUDA
  cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Compares what write_to() has written, by the address of the program.
void compare(const char* own, uint64_t words, uint64_t salt, const char* what) {
  std::vector<uint64_t> all(words);
  read_own(all.data(), own, words * sizeof(uint64_t));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < places && i < words; ++i) wrong += all[place_of(i, words)] != value_of(i, salt);
  expect(wrong == 0, std::to_string(wrong) + " words of " + what + " are wrong");
}

int me, n, next_pe, last_pe;

/// All PEs write to the next one, which has `words_of(PE)` words at the symmetric address; then they read that again.
template <class Words>
void exchange(uint64_t* range, const char* own, Words words_of, uint64_t salt, const char* what) {
  gravel_launch(write_to, 2, 128, gravel_handle(), range, words_of(next_pe), salt, next_pe);
  gravel_barrier_all();
  if (own) compare(own, words_of(me), salt, what);
  auto* const values = gravel_malloc<uint64_t>(places * sizeof(uint64_t));
  gravel_launch(read_from, 2, 128, gravel_handle(), values, range, words_of(last_pe), last_pe);
  gravel_barrier_all();
  std::vector<uint64_t> here(places);
  gravel_copy(here.data(), values, places * sizeof(uint64_t));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < places && i < words_of(last_pe); ++i) wrong += here[i] != value_of(i, salt);
  expect(wrong == 0, std::to_string(wrong) + " words of " + what + " were read wrong");
  gravel_free(values);
}

/// One range, which begins inside of its allocation; what was in it is kept.
void one_range() {
  const own_memory memory({3});
  constexpr uint64_t lead = 4096;
  char* const own = memory.at() + lead;
  const uint64_t words = unit_bytes / sizeof(uint64_t) * 2 + 64;
  uint64_t kept = 41;
  gravel_copy(own + 8 * words, &kept, sizeof(kept));
  auto* const range = gravel_register(reinterpret_cast<uint64_t*>(own), words * sizeof(uint64_t));
  expect(reinterpret_cast<char*>(range) != own, "the range has no second address");
  exchange(
      range, own, [&](int) { return words; }, 1, "a range");
  gravel_inc(gravel_host_handle(), &range[words], next_pe);  // in the same allocation
  gravel_barrier_all();
  read_own(&kept, own + 8 * words, sizeof(kept));
  expect(kept == 42, "a host thread's message has not come, or the range was changed before");

  constexpr uint64_t part = 1000;
  auto* const buffer = gravel_malloc<uint64_t>(part * sizeof(uint64_t));
  gravel_launch(copy_on, 1, 128, gravel_handle(), range, buffer, part, next_pe, last_pe);
  gravel_barrier_all();
  std::vector<uint64_t> both(2 * part), theirs(part);
  read_own(both.data(), own, 2 * part * sizeof(uint64_t));
  gravel_get(gravel_host_handle(), buffer, range, (next_pe + 1) % n);
  gravel_quiet();
  gravel_copy(theirs.data(), buffer, sizeof(uint64_t));
  expect(both[part] == theirs[0], "a block has copied something else");
  gravel_barrier_all();
  gravel_free(buffer);
  gravel_unregister(range);
  compare(own, 32, 1, "a range that is no longer registered");
}

/// Ranges of different sizes, some of several allocations; one PE has none.
void different_sizes() {
  const bool has_none = n > 1 && me == n - 1;
  std::vector<uint64_t> pieces;
  for (int i = 0; !has_none && i <= me % 3; ++i) pieces.push_back(static_cast<uint64_t>(1 + i));
  const own_memory memory(pieces);
  std::vector<uint64_t> bytes_of(static_cast<size_t>(n));
  const uint64_t mine = memory.bytes();
  gravel_allgather(bytes_of.data(), mine);
  const uint64_t most = *std::max_element(bytes_of.begin(), bytes_of.end());
  auto* const range = gravel_register(reinterpret_cast<uint64_t*>(memory.at()), mine);
  exchange(
      range, memory.at(), [&](int pe) { return bytes_of[static_cast<size_t>(pe)] / sizeof(uint64_t); }, 2,
      "ranges of different sizes");
  gravel_barrier_all();
  // As many bytes have memory at all PEs: behind the shorter ranges it is nobody's.
  gravel_launch(write_to, 2, 128, gravel_handle(), range + most / 8 - 16, uint64_t{16}, uint64_t{3}, next_pe);
  gravel_barrier_all();
  std::vector<uint64_t> end(16);
  gravel_copy(end.data(), range + most / 8 - 16, sizeof(uint64_t) * 16);
  uint64_t wrong = 0;
  for (uint64_t i = 1; i < 16; i += 2) wrong += end[i] != value_of(i, 3);
  expect(wrong == 0, "memory behind a range was not written");
  gravel_barrier_all();
  gravel_unregister(range);
}

/// What one PE cannot share is refused at all PEs, and nothing is left.
void refuse() {
  own_memory right({1, 1});
  const auto registered = [&](const void* at, uint64_t bytes) {
    return gravel_register(static_cast<const char*>(at), bytes);
  };
  const char* const before = registered(right.at(), right.bytes());
  gravel_unregister(const_cast<char*>(before));
#if GRAVEL_CUDA
  void* plain = nullptr;
  cudaMalloc(&plain, unit_bytes);
#else
  void* plain = std::malloc(unit_bytes);
#endif
  for (int pe = 0; pe < n; ++pe) {
    const char* const at = me == pe ? static_cast<char*>(plain) : right.at();
    expect_error("Memory becomes a destination in two ways: gravel_malloc", [&] { registered(at, unit_bytes); });
    if (me != pe)
      expect_error(("the memory of PE " + std::to_string(pe) + " cannot be mapped").c_str(),
                   [&] { registered(right.at(), unit_bytes); });
    else expect_error("gravel_register", [&] { registered(plain, unit_bytes); });
  }
  expect_error("in two ways", [&] { registered(plain, unit_bytes); });
  if (n > 1)
    expect_error("equally far behind the begin of its allocation at all PEs; it is 0 to 512 bytes",
                 [&] { registered(right.at() + (me == 1 ? 512 : 0), 64); });
  expect_error("all PEs have passed 0 bytes", [&] { registered(nullptr, 0); });
  auto* const object = gravel_malloc<char>(64);
  expect_error("lies in the symmetric heap already", [&] { registered(object, 64); });
  expect_error("no address that gravel_register has returned", [&] { gravel_unregister(object); });
  gravel_free(object);
#if !GRAVEL_CUDA
  own_memory closed({1});
  closed.close_descriptors();
  expect_error(me == 0 ? "the descriptor of the memfd" : "the memory of PE 0",
               [&] { registered(me == 0 ? closed.at() : right.at(), unit_bytes); });
  expect_error("lies in no shared mapping", [&] { registered(right.at(), right.bytes() + 1); });
#endif
  const char* const after = registered(right.at(), right.bytes());
  expect(after == before, "a refused range has left something behind");
  expect_error("pass its symmetric address to gravel_unregister", [&] { gravel_free(const_cast<char*>(after) + 64); });
  gravel_unregister(const_cast<char*>(after));
#if GRAVEL_CUDA
  cudaFree(plain);
#else
  std::free(plain);
#endif
}

/// Ranges and objects come and go in a random order. Each is compared before it goes: nothing else was written over it.
void come_and_go(int rounds) {
  struct thing {
    std::unique_ptr<own_memory> memory;  // nullptr: an object of gravel_malloc
    uint64_t *range, words, salt;
  };
  std::vector<thing> things;
  std::mt19937_64 draw(20261127);
  const auto remove = [&](const thing& t) {
    compare(t.memory ? t.memory->at() : reinterpret_cast<char*>(t.range), t.words, t.salt, "what comes and goes");
    if (t.memory) gravel_unregister(t.range);
    else gravel_free(t.range);
  };
  for (int round = 0; round < rounds; ++round) {
    if (!things.empty() && draw() % 5 >= 3) {
      const auto which = things.begin() + static_cast<long>(draw() % things.size());
      remove(*which);
      things.erase(which);
      continue;
    }
    const bool is_object = draw() % 2;
    const uint64_t units = 1 + draw() % 40, salt = 10 + static_cast<uint64_t>(round), bytes = units * unit_bytes;
    thing t{is_object ? nullptr : std::make_unique<own_memory>(std::vector<uint64_t>{units}), nullptr, bytes / 8, salt};
    t.range = is_object ? gravel_malloc<uint64_t>(bytes - 8 * (draw() % 1000))
                        : gravel_register(reinterpret_cast<uint64_t*>(t.memory->at()), bytes);
    if (is_object) t.words = (bytes - 8000) / 8;
    const auto words = [&](int) { return t.words; };
    exchange(t.range, t.memory ? t.memory->at() : reinterpret_cast<char*>(t.range), words, salt, "what comes and goes");
    things.push_back(std::move(t));
  }
  for (const thing& t : things) remove(t);
}

void pool() {
  int device = -1;
#if GRAVEL_CUDA
  cudaGetDevice(&device);
#endif
  std::vector<uint64_t*> blocks;
  for (const uint64_t bytes : {2ull << 20, 20ull << 20, 2ull << 20}) {
    blocks.push_back(static_cast<uint64_t*>(gravel_pool_malloc(static_cast<ssize_t>(bytes), device, nullptr)));
    exchange(
        blocks.back(), reinterpret_cast<char*>(blocks.back()), [&](int) { return bytes / 8; }, 7, "a pool");
  }
  expect(gravel_pool_malloc(ssize_t{1} << 47, device, nullptr) == nullptr, "a pool has got 128 TiB");
  expect_error("gravel_pool_malloc: memory of device 77", [] { gravel_pool_malloc(64, 77, nullptr); });
  for (uint64_t* block : blocks) gravel_pool_free(block, 2 << 20, device, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  gravel_init();
  me = gravel_my_pe();
  n = gravel_n_pes();
  next_pe = (me + 1) % n;
  last_pe = (me + n - 1) % n;
  one_range();
  different_sizes();
  refuse();
  come_and_go(rounds);
  pool();
  // What is registered at the end remains the program's memory.
  const own_memory left({2});
  const uint64_t words = left.bytes() / sizeof(uint64_t);
  exchange(
      gravel_register(reinterpret_cast<uint64_t*>(left.at()), left.bytes()), left.at(), [&](int) { return words; }, 8,
      "the last range");
  const bool right = gravel_sum_all(static_cast<uint64_t>(failures)) == 0;
  gravel_finalize();
  compare(left.at(), words, 8, "the last range, when the job is over");
  if (failures) return 1;
  if (right && me == 0) std::printf("ok\n");
  return right ? 0 : 1;
}
