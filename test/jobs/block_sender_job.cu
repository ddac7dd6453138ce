// Block senders of all sizes in blocks of all shapes, in static and in dynamic shared memory: every message arrives
// once. One source for the CPU backend and for GPUs; run under ucx-run with any number of PEs. On a GPU, also the
// sender's sort against CUB's. With the argument `many` PE 0 says how many messages of various senders share a
// chunk of a ring (route `peer`), and only the sender for more than 16 peers is tested.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include <gravel/gravel.cuh>
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif
#include "test/support/message_sort_kernels.cuh"
#if GRAVEL_CUDA
#include <cub/block/block_radix_sort.cuh>
#endif

namespace {

int failures = 0;
constexpr uint32_t words = 4096;

struct pour {  // two units
  static constexpr const char* name = "pour";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint32_t amount) const {
    gravel_add(g, reinterpret_cast<uint64_t*>(g.heap + at), amount, static_cast<int>(g.my_pe));
  }
};

/// The messages of lane `lane` of PE `from`. Lanes send different numbers of messages.
struct message_stream {
  uint64_t x;
  uint32_t left, n_pes;
  int pe = 0;
  uint32_t word = 0, amount = 0;
  bool by_handler = false;
  GRAVEL_BOTH message_stream(uint32_t from, uint32_t lane, uint32_t n, uint32_t rounds)
      : x((uint64_t{from} << 32 | (lane + 1)) * 0x9e3779b97f4a7c15ull), left(rounds + lane % 5), n_pes(n) {}
  /// Draws the next message. False: there is none.
  GRAVEL_BOTH bool next() {
    while (left > 0) {
      --left;
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      if (x % 3 == 0) continue;
      pe = static_cast<int>((x >> 8) % n_pes);
      word = static_cast<uint32_t>((x >> 24) % words);
      amount = static_cast<uint32_t>(x >> 44) + 1;
      by_handler = x % 16 == 1;
      return true;
    }
    return false;
  }
};

template <class Sender>
__device__ void send(Sender& sender, const gravel_t& g, uint64_t* table, uint32_t rounds) {
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  const uint32_t block = blockIdx.x + gridDim.x * blockIdx.y;
  const uint32_t lane = block * threads + threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  for (uint32_t use = 0; use < 2; ++use) {
    sender.begin(g);
    message_stream m(g.my_pe + use * g.n_pes, lane, g.n_pes, rounds);
    while (m.next()) {
      if (m.by_handler)
        sender.template am<pour>(m.pe, static_cast<uint64_t>(reinterpret_cast<char*>(table + m.word) - g.heap),
                                 m.amount);
      else sender.add(&table[m.word], m.amount, m.pe);
    }
    sender.end();
  }
}
template <class Sender, int BLOCK>
__global__ void __launch_bounds__(BLOCK) send_static(gravel_t g, uint64_t* table, uint32_t rounds) {
  __shared__ Sender sender;
  send(sender, g, table, rounds);
}
constexpr uint32_t before = 64;  ///< bytes of dynamic shared memory for something else
template <class Sender, int BLOCK>
__global__ void __launch_bounds__(BLOCK) send_dynamic(gravel_t g, uint64_t* table, uint32_t rounds) {
  char* const others = gravel_dynamic_shared();
  if (threadIdx.x < before && threadIdx.y == 0 && threadIdx.z == 0) others[threadIdx.x] = 7;
  send(Sender::dynamic(before), g, table, rounds);
  if (threadIdx.x < before && threadIdx.y == 0 && threadIdx.z == 0 && others[threadIdx.x] != 7)
    table[threadIdx.x] = ~0ull;
}

template <int BLOCK, int CAPACITY, int PEERS>
void check(dim3 block) {
  using sender = gravel_block_sender<BLOCK, CAPACITY, PEERS>;
  const dim3 grid(2, 2);
  const uint32_t me = static_cast<uint32_t>(gravel_my_pe()), n = static_cast<uint32_t>(gravel_n_pes());
  const uint32_t lanes = grid.x * grid.y * BLOCK, rounds = 4096 / BLOCK + 8;
  std::vector<uint64_t> expected(words);
  for (uint32_t from = 0; from < 2 * n; ++from)
    for (uint32_t lane = 0; lane < lanes; ++lane)
      for (message_stream m(from, lane, n, rounds); m.next();)
        if (static_cast<uint32_t>(m.pe) == me) expected[m.word] += m.amount;
  for (const bool dynamic : {false, true}) {
    if (!dynamic && sender::shared_bytes > 48 * 1024) continue;
    auto* table = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
    gravel_launch_config how{grid, block};
    if (dynamic) {
      how.shared_bytes = before + sender::shared_bytes;
      gravel_launch(send_dynamic<sender, BLOCK>, how, gravel_handle(), table, rounds);
    } else if constexpr (sender::shared_bytes <= 48 * 1024) {
      gravel_launch(send_static<sender, BLOCK>, how, gravel_handle(), table, rounds);
    }
    gravel_wait_quiescent();
    std::vector<uint64_t> here(words);
    gravel_copy(here.data(), table, words * sizeof(uint64_t));
    uint64_t wrong = 0;
    for (uint32_t w = 0; w < words; ++w) wrong += here[w] != expected[w];
    if (wrong) {
      ++failures;
      std::fprintf(stderr,
                   "PE %u: gravel_block_sender<%d, %d, %d>, block of %u x %u x %u, %s: %" PRIu64
                   " of %u sums are wrong\n",
                   me, BLOCK, CAPACITY, PEERS, block.x, block.y, block.z, dynamic ? "dynamic" : "static", wrong, words);
    }
    gravel_barrier_all();
    gravel_free(table);
  }
}

#if GRAVEL_CUDA
template <int BLOCK, int ITEMS>
__global__ void sort_with_cub(const uint32_t* keys, uint32_t units, uint32_t key_bits, uint16_t* order) {
  using sorter = cub::BlockRadixSort<uint32_t, BLOCK, ITEMS, uint16_t>;
  __shared__ typename sorter::TempStorage storage;
  uint32_t key[ITEMS];
  uint16_t position[ITEMS];
  for (int i = 0; i < ITEMS; ++i) {
    position[i] = static_cast<uint16_t>(threadIdx.x * ITEMS + i);
    const uint32_t k = position[i] < units ? keys[position[i]] : ~0u;
    key[i] = k == ~0u ? 1u << key_bits : k;
  }
  sorter(storage).Sort(key, position, 0, static_cast<int>(key_bits) + 1);
  for (int i = 0; i < ITEMS; ++i) order[threadIdx.x * ITEMS + i] = position[i];
}
template <class T>
struct on_gpu {
  T* at = nullptr;
  explicit on_gpu(size_t n) { gravel::detail::cuda_check(cudaMallocManaged(&at, n * sizeof(T)), "cudaMallocManaged"); }
  ~on_gpu() { cudaFree(at); }
};
template <int BLOCK, int CAPACITY>
void compare_sorts() {
  on_gpu<uint32_t> keys(CAPACITY);
  on_gpu<uint16_t> order(CAPACITY);
  on_gpu<kernels::sorted_positions<CAPACITY>> found(1);
  for (uint32_t key_bits : {4u, 5u, 6u, 8u, 9u, 13u, 19u})
    for (uint32_t units : {1u, 33u, uint32_t{CAPACITY} - 1, uint32_t{CAPACITY}})
      for (uint32_t lanes : {0u, 1u, 0x0ff0f00fu, ~0u}) {
        uint64_t x = key_bits * 1000 + units;
        for (uint32_t i = 0; i < CAPACITY; ++i) {
          x = x * 6364136223846793005ull + 1442695040888963407ull;
          keys.at[i] = x >> 62 == 0 ? ~0u : static_cast<uint32_t>(x >> 33) & ((1u << key_bits) - 1);
        }
        uint32_t messages = 0, runs = 0;
        for (uint32_t i = 0; i < units; ++i) messages += keys.at[i] != ~0u;
        sort_with_cub<BLOCK, CAPACITY / BLOCK><<<1, BLOCK>>>(keys.at, units, key_bits, order.at);
        kernels::sort_messages<BLOCK, CAPACITY><<<1, BLOCK>>>(keys.at, units, key_bits, lanes, 3, found.at);
        gravel::detail::cuda_check(cudaDeviceSynchronize(), "sorting");
        for (uint32_t i = 0; i < messages; ++i) runs += i == 0 || keys.at[order.at[i]] != keys.at[order.at[i - 1]];
        if (found.at->n_messages == messages && found.at->n_rows == runs &&
            !std::memcmp(found.at->order, order.at, messages * sizeof(uint16_t)))
          continue;
        ++failures;
        std::fprintf(stderr, "block of %d, %u of %d units, keys of %u bits, lanes %x: sorted otherwise than by CUB\n",
                     BLOCK, units, CAPACITY, key_bits, lanes);
      }
}
#endif

}  // namespace

#if !GRAVEL_CUDA
constexpr uint32_t incs_of_lane = 256;
template <class Sender>
__global__ void send_incs(gravel_t g, uint64_t* table) {
  auto& sender = Sender::dynamic();
  sender.begin(g);
  uint64_t x = (threadIdx.x + 1) * 0x9e3779b97f4a7c15ull;
  for (uint32_t i = 0; i < incs_of_lane; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    // Never to this PE itself.
    const auto others = static_cast<uint64_t>(gravel_n_pes(g) - 1);
    sender.inc(&table[x % words],
               static_cast<int>((static_cast<uint64_t>(gravel_my_pe(g)) + 1 + (x >> 32) % others) % (others + 1)));
  }
  sender.end();
}
/// Chunks that this PE has pushed into its rings.
uint64_t chunks_pushed(const gravel_t& g) {
  uint64_t chunks = 0;
  for (uint32_t bin = 0; bin < g.n_peers; ++bin) chunks += g.peers[g.peer_pes[bin]].line->tickets;
  return chunks;
}
template <int BLOCK, int CAPACITY, int PEERS>
void say_fill() {
  using sender = gravel_block_sender<BLOCK, CAPACITY, PEERS>;
  auto* table = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  const gravel_t g = gravel_handle();
  if (gravel_my_pe() == 0 && g.n_peers) {
    const uint64_t before_it = chunks_pushed(g);
    gravel_launch(send_incs<sender>, gravel_launch_config{1, BLOCK, sender::shared_bytes}, g, table);
    gravel_quiet();
    const uint64_t chunks = chunks_pushed(g) - before_it, sent = uint64_t{BLOCK} * incs_of_lane;
    std::printf("gravel_block_sender<%d, %d, %d>, %u bytes, %u peers: %" PRIu64 " increments in %" PRIu64
                " chunks, %.1f in each\n",
                BLOCK, CAPACITY, PEERS, sender::shared_bytes, g.n_peers, sent, chunks,
                static_cast<double>(sent) / static_cast<double>(chunks));
  }
  gravel_barrier_all();
  gravel_free(table);
}
#endif

int main(int argc, char**) {
#if GRAVEL_CUDA
  compare_sorts<64, 1024>();
  compare_sorts<256, 1024>();
  compare_sorts<1024, 4096>();
#endif
  gravel_init<pour>();
  if (argc > 1) {
#if !GRAVEL_CUDA
    say_fill<256, 1024, 1>();
    say_fill<256, 4096, 1>();
    say_fill<256, 1024, 15>();
    say_fill<256, 1024, 71>();
    say_fill<256, 1024, 127>();
#endif
  } else {
    check<32, 128, 1>(32);
    check<64, 128, 1>(dim3(8, 8));
    check<96, 192, 1>(dim3(2, 3, 16));
    check<100, 1024, 1>(dim3(5, 20));
    check<128, 1024, 3>(dim3(16, 8));
    check<128, 1024, 5>(128);
    check<128, 1024, 7>(dim3(4, 4, 8));
    check<128, 2048, 1>(dim3(1, 128));
    check<128, 4096, 1>(dim3(1, 2, 64));
    check<256, 512, 1>(dim3(16, 16));
    check<1024, 1024, 1>(1024);
    check<1024, 1024, 1>(dim3(32, 32));
  }
  check<128, 512, 100>(128);
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0) std::printf("%s: %s\n", gravel_backend(), all ? "FAILED" : "every message arrived once");
  gravel_finalize();
  return all != 0;
}
