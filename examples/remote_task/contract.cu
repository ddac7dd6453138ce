// An accumulate-heavy program: C += A * B in blocks, as coupled-cluster codes contract tensors. It stands for the
// paper's application (XTQ, SC16, section V.C: NWChem's tce_ozone spends 43 % of its time in accumulates, most of them
// small to medium): each PE multiplies pairs of blocks, and accumulates the product into a block of C at whichever PE
// owns that. Orbitals come in tiles of 2 to --tile (the last may have 1), so blocks have up to 8 * tile^2 bytes, and
// are of many sizes. (The numbers of the paper's histogram are not in its text.) By tasks, which the owner's workers
// run, or by Gravel's atomics; elements are small whole numbers, so that sums are exact in any order, and C is compared
// with a serial product.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/remote_task.cuh>
#include "examples/common/facts.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"

constexpr const char* program_name = "contract";

using add_block = gravel_accumulate_task<GRAVEL_SUM, double>;
using queue_type = gravel_task_queue<add_block>;

GRAVEL_BOTH double a_of(uint64_t i, uint64_t k) { return static_cast<double>((i * 3 + k * 7) % 11) - 5; }
GRAVEL_BOTH double b_of(uint64_t k, uint64_t j) { return static_cast<double>((k * 5 + j * 2) % 13) - 6; }

/// Plain data: the tiling, the same at all PEs. Memory of the device.
struct tiling {
  uint64_t tiles;
  const uint64_t* first;  ///< [tiles + 1] rows (and columns) before each tile
  const uint64_t* place;  ///< [tiles][tiles] element of C, at its owner, where the block begins
  GRAVEL_BOTH uint64_t width(uint64_t t) const { return first[t + 1] - first[t]; }
};

/// Products number `me`, `me` + PEs, ... of tiles^3, each of a whole block of threads; `scratch`: most_elements for
/// each block.
__global__ void contract(gravel_task_handle q, tiling by, double* c, double* scratch, uint64_t most_elements,
                         bool by_tasks, gravel_signal done) {
  double* const mine = scratch + blockIdx.x * most_elements;
  const uint64_t pes = q.g.n_pes, products = by.tiles * by.tiles * by.tiles;
  for (uint64_t p = q.g.my_pe + blockIdx.x * pes; p < products; p += gridDim.x * pes) {
    const uint64_t i = p / by.tiles % by.tiles, j = p % by.tiles, k = p / by.tiles / by.tiles;
    const uint64_t columns = by.width(j), n = by.width(i) * columns;
    for (uint64_t e = threadIdx.x; e < n; e += blockDim.x) {
      const uint64_t row = by.first[i] + e / columns, column = by.first[j] + e % columns;
      double sum = 0;
      for (uint64_t x = by.first[k]; x < by.first[k + 1]; ++x) sum += a_of(row, x) * b_of(x, column);
      mine[e] = sum;
    }
    __syncthreads();
    const int owner = static_cast<int>((i * by.tiles + j) % pes);
    double* const target = c + by.place[i * by.tiles + j];
    if (by_tasks) gravel_task_accumulate(q, owner, target, mine, n, done);
    else gravel_accumulate(q.g, target, mine, n, done.word(q.g), owner);
    __syncthreads();
  }
}

struct contract_options {
  uint64_t n = GRAVEL_CUDA ? 768 : 80, widest = GRAVEL_CUDA ? 24 : 16;
  uint32_t workers = GRAVEL_CUDA ? 16 : 2, slots = 64, payload = 4096, blocks = GRAVEL_CUDA ? 32 : 2,
           rounds = GRAVEL_CUDA ? 5 : 1;
  std::string how = "tasks", json;

  void add_options(app::command_line& line) {
    line.add_option("--rows", n, "of A, B and C, and columns")
        .range(uint64_t{2}, uint64_t{1} << 14)
        .capture_default_str();
    line.add_option("--tile", widest, "rows of the widest tile; the narrowest have 2")
        .range(uint64_t{2}, uint64_t{128})
        .capture_default_str();
    line.add_option("--by", how, "tasks: workers of the owner accumulate; atomics: the sender, or messages, do")
        .one_of({"tasks", "atomics"})
        .capture_default_str();
    line.add_option("--rounds", rounds, "times that all of it is done; the best is reported")
        .range(1u, 1000u)
        .capture_default_str();
    line.add_option("--workers", workers, "resident blocks of each PE").range(1u, 256u).capture_default_str();
    line.add_option("--payload", payload, "bytes of a task; larger blocks travel as several")
        .range(8u, 1u << 20)
        .capture_default_str();
    line.add_option("--blocks", blocks, "of the kernel that multiplies").range(1u, 1024u).capture_default_str();
  }
  uint64_t symmetric_bytes() const {
    return n * n * 16 + (uint64_t{64} << 20) + uint64_t{slots} * 33 * (payload + 512) + blocks * widest * widest * 8;
  }
};

bool multiply(const contract_options& o, app::fact_list& facts) {
  const auto me = static_cast<uint64_t>(gravel_my_pe()), pes = static_cast<uint64_t>(gravel_n_pes());

  std::vector<uint64_t> first{0};
  while (first.back() < o.n) first.push_back(std::min(o.n, first.back() + 2 + app::mix(first.size()) % (o.widest - 1)));
  const uint64_t tiles = first.size() - 1;
  std::vector<uint64_t> place(tiles * tiles), used(pes);
  std::map<uint64_t, uint64_t> histogram;  // accumulates of all PEs, by the power of two that their bytes reach
  uint64_t here = 0, accumulates = tiles * tiles * tiles;
  for (uint64_t b = 0; b < tiles * tiles; ++b) {
    const uint64_t elements = (first[b / tiles + 1] - first[b / tiles]) * (first[b % tiles + 1] - first[b % tiles]);
    place[b] = used[b % pes];
    used[b % pes] += elements;
    uint64_t power = 8;
    while (power < elements * 8) power *= 2;
    histogram[power] += tiles;
    if (b % pes == me) here += tiles * (o.how == "tasks" ? (elements + o.payload / 8 - 1) / (o.payload / 8) : elements);
  }
  const uint64_t c_elements = *std::max_element(used.begin(), used.end()), most = o.widest * o.widest;
  auto* const c = gravel_malloc<double>(c_elements * sizeof(double));
  auto* const scratch = gravel_malloc<double>(o.blocks * most * sizeof(double));
  auto* const firsts = gravel_malloc<uint64_t>(first.size() * 8);
  auto* const places = gravel_malloc<uint64_t>(place.size() * 8);
  gravel_copy(firsts, first.data(), first.size() * 8);
  gravel_copy(places, place.data(), place.size() * 8);
  const gravel_signal done = gravel_new_signal();

  double best = 1e30;
  {
    queue_type queue({.workers = o.workers, .slots = o.slots, .payload_bytes = o.payload});
    for (uint32_t r = 1; r <= o.rounds; ++r) {
      gravel_barrier_all();
      const double seconds = app::seconds_of([&] {
        gravel_launch(contract, o.blocks, GRAVEL_CUDA ? 256 : 32, queue.handle(), tiling{tiles, firsts, places}, c,
                      scratch, most, o.how == "tasks", done);
        gravel_wait(done, r * here);  // all of C that is here
      });
      best = std::min(best, seconds);
    }
  }
  best = gravel_max_all(best);
  std::vector<double> result(c_elements);
  gravel_copy(result.data(), c, c_elements * sizeof(double));
  uint64_t wrong = gravel_read(done) != o.rounds * here;
  for (uint64_t b = me; b < tiles * tiles; b += pes) {
    const uint64_t i = b / tiles, j = b % tiles, columns = first[j + 1] - first[j];
    for (uint64_t row = first[i]; row < first[i + 1]; ++row)
      for (uint64_t column = first[j]; column < first[j + 1]; ++column) {
        double sum = 0;
        for (uint64_t k = 0; k < o.n; ++k) sum += a_of(row, k) * b_of(k, column);
        wrong += result[place[b] + (row - first[i]) * columns + column - first[j]] != sum * o.rounds;
      }
  }
  wrong = gravel_sum_all(wrong);
  if (me == 0) {
    std::printf(
        "%llu x %llu in %llu x %llu blocks: %llu accumulates by %s in %.3f ms, %.3g a second; %llu wrong elements\n",
        static_cast<unsigned long long>(o.n), static_cast<unsigned long long>(o.n),
        static_cast<unsigned long long>(tiles), static_cast<unsigned long long>(tiles),
        static_cast<unsigned long long>(accumulates), o.how.c_str(), best * 1e3,
        static_cast<double>(accumulates) / best, static_cast<unsigned long long>(wrong));
    facts = {
        {"program", program_name}, {"backend", gravel_backend()}, {"pes", pes},      {"by", o.how},   {"rows", o.n},
        {"tiles", tiles},          {"accumulates", accumulates},  {"seconds", best}, {"wrong", wrong}};
    for (const auto& [power, times] : histogram) {
      std::printf("  up to %6llu bytes: %llu\n", static_cast<unsigned long long>(power),
                  static_cast<unsigned long long>(times));
      facts.emplace_back("accumulates of up to " + std::to_string(power) + " bytes", times);
    }
  }
  return wrong == 0;
}

int main(int argc, char** argv) {
  return app::run_application<gravel_task_delivery, gravel_accumulation>(
      {program_name,
       "C += A * B in blocks of many sizes; products are accumulated at the PE that owns the block of C."},
      argc, argv, contract_options{}, multiply);
}
