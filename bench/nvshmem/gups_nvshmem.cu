// The work of gravel-perf's gups, p_bw and atomic_bw on NVSHMEM: the same tables, addresses and checks
// (bench/perf/job.cuh), with one nvshmem_uint64_atomic_inc or nvshmem_uint64_p for each message. bench/compare_nvshmem
// starts one process for each GPU, without MPI: process 0 writes NVSHMEM's unique id to a file, the others read it.
//
// For each of several grids a process prints one line of JSON: seconds of each repetition, and the words that were
// checked and that were wrong so far. The driver takes the fastest grid.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bench/perf/job.cuh"

using namespace gravel::detail;
using namespace gravel_bench::perf;

namespace {

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "gups_nvshmem: %s\n", text.c_str());
  std::_Exit(1);
}
void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(code));
}

struct options {
  std::string work = "remote", id_file;  // work: remote and uniform (gups), inc and put (to the next PE)
  int pe = 0, pes = 1;
  uint32_t table_log2 = 20;
  uint64_t count = 1 << 20;
  unsigned repeat = 3;
};

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--work") o.work = value;
    else if (name == "--id-file") o.id_file = value;
    else if (name == "--pe") o.pe = std::stoi(value);
    else if (name == "--pes") o.pes = std::stoi(value);
    else if (name == "--table-log2") o.table_log2 = static_cast<uint32_t>(std::stoul(value));
    else if (name == "--count") o.count = std::stoull(value);
    else if (name == "--repeat") o.repeat = static_cast<unsigned>(std::stoul(value));
    else fail("unknown option " + name);
  }
  if (o.id_file.empty() || argc % 2 == 0) fail("to be started by bench/compare_nvshmem");
  return o;
}

void join(const options& o) {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (o.pe == 0) {
    if (nvshmemx_get_uniqueid(&id)) fail("nvshmemx_get_uniqueid");
    std::ofstream file(o.id_file + ".new", std::ios::binary);
    if (!file.write(reinterpret_cast<const char*>(&id), sizeof(id)) || !file.flush()) fail("cannot write " + o.id_file);
    file.close();
    if (std::rename((o.id_file + ".new").c_str(), o.id_file.c_str())) fail("cannot write " + o.id_file);
  } else {
    for (int tries = 0; access(o.id_file.c_str(), R_OK) != 0; ++tries) {
      if (tries == 600) fail("no " + o.id_file + " after a minute: did PE 0 start?");
      usleep(100'000);
    }
    std::ifstream file(o.id_file, std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(&id), sizeof(id))) fail("cannot read " + o.id_file);
  }
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (nvshmemx_set_attr_uniqueid_args(o.pe, o.pes, &id, &attributes)) fail("nvshmemx_set_attr_uniqueid_args");
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes)) fail("nvshmemx_init_attr");
  if (nvshmem_my_pe() != o.pe || nvshmem_n_pes() != o.pes) fail("NVSHMEM numbers the PEs otherwise");
}

}  // namespace

__global__ void update(update_job job, uint32_t me) {
  const lane_share mine(job.count);
  uint64_t ran = random_stream::at(me * job.count + mine.first);
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    ran = random_stream::next(ran);
    nvshmem_uint64_atomic_inc(&job.table[job.map.word_of(ran)], static_cast<int>(job.map.pe_of(ran, me)));
  }
}
__global__ void send(send_job job) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (job.op == operation::put)
    for (uint64_t i = lane; i < job.count; i += lanes)
      nvshmem_uint64_p(&job.words[job.word_of(i)], job.salt + i, static_cast<int>(job.pe));
  else
    for (uint64_t i = lane; i < job.count; i += lanes)
      nvshmem_uint64_atomic_inc(&job.words[job.word_of(i)], static_cast<int>(job.pe));
}

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  int gpus = 0, processors = 0;
  check(cudaGetDeviceCount(&gpus), "counting GPUs");
  if (o.pes > gpus) fail(std::to_string(o.pes) + " PEs need as many GPUs; there are " + std::to_string(gpus));
  check(cudaSetDevice(o.pe), "cudaSetDevice");
  join(o);
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, o.pe), "cudaDeviceGetAttribute");

  const auto me = static_cast<uint32_t>(o.pe), n_pes = static_cast<uint32_t>(o.pes);
  const bool gups = o.work == "remote" || o.work == "uniform";
  if (!gups && o.work != "inc" && o.work != "put") fail("--work is remote, uniform, inc or put");
  const gups_table map(o.table_log2, n_pes, o.work == "remote");
  const uint64_t words = gups ? map.words() : o.count;
  if (!gups && (o.count & (o.count - 1))) fail("--count is no power of two");
  auto* table = static_cast<uint64_t*>(nvshmem_malloc(words * sizeof(uint64_t)));
  if (!table) fail("nvshmem_malloc of " + std::to_string(words * 8) + " bytes (see NVSHMEM_SYMMETRIC_SIZE)");
  const update_job updates{map, table, o.count};
  send_job sends{o.work == "put" ? operation::put : operation::inc,
                 table,
                 o.count - 1,
                 o.count,
                 (uint64_t{me} + 1) << 40,
                 (me + 1) % n_pes,
                 0};
  send_job arriving = sends;
  arriving.salt = uint64_t{(me + n_pes - 1) % n_pes + 1} << 40;

  const unsigned fill_grid = 2 * static_cast<unsigned>(processors);
  const word_sample sample{o.table_log2 > 20 ? o.table_log2 - 20 : 0, o.table_log2 > 20 ? (5 + me) % 2 : 0};
  const uint64_t sampled = gups ? map.words() >> sample.shift : 0;
  uint64_t *expected = nullptr, *found = nullptr;  // found: wrong words, sum
  check(cudaMalloc(&expected, (sampled + 1) * sizeof(uint64_t)), "cudaMalloc");
  check(cudaMemset(expected, 0, (sampled + 1) * sizeof(uint64_t)), "cudaMemset");
  check(cudaMalloc(&found, 2 * sizeof(uint64_t)), "cudaMalloc");
  if (gups) count_updates<<<4 * fill_grid, 256>>>(updates, sample, me, expected);
  check(cudaDeviceSynchronize(), "counting the expected updates");

  uint64_t checked = 0, wrong = 0, sum = 0;
  for (unsigned factor : {2u, 4u, 8u, 16u, 64u}) {
    const unsigned grid = factor * static_cast<unsigned>(processors);
    std::vector<double> seconds;
    for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
      fill_words<<<fill_grid, 256>>>(table, words, poison);
      check(cudaMemset(found, 0, 2 * sizeof(uint64_t)), "cudaMemset");
      check(cudaDeviceSynchronize(), "filling the table");
      nvshmem_barrier_all();
      const auto begin = std::chrono::steady_clock::now();
      if (gups) update<<<grid, 256>>>(updates, me);
      else send<<<grid, 256>>>(sends);
      check(cudaGetLastError(), "starting a kernel");
      check(cudaDeviceSynchronize(), "a kernel");
      nvshmem_barrier_all();  // completes all PEs' operations
      if (run) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      if (gups) compare_sample<<<fill_grid, 256>>>(updates, sample, expected, sampled, found);
      else if (o.work == "put") check_puts<<<fill_grid, 256>>>(arriving, found);
      else check_words<<<fill_grid, 256>>>(table, words, poison + 1, found);
      sum_words<<<fill_grid, 256>>>(table, words, found + 1);
      uint64_t got[2];
      check(cudaMemcpy(got, found, sizeof(got), cudaMemcpyDeviceToHost), "reading the results");
      wrong += got[0];
      sum = got[1] - poison * words;  // of the last run: the driver adds up all PEs'
      checked += gups ? sampled : words;
      nvshmem_barrier_all();
    }
    std::printf("{\"pe\": %d, \"grid\": %u, \"seconds\": [", o.pe, grid);
    for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9f", i ? ", " : "", seconds[i]);
    std::printf("], \"checked\": %llu, \"wrong\": %llu, \"sum\": %llu}\n", static_cast<unsigned long long>(checked),
                static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(sum));
  }
  std::fflush(stdout);
  nvshmem_free(table);
  nvshmem_finalize();
}
