// gravel-perf: what Gravel reaches, by part, and what the hardware under it reaches, in one run. docs/benchmarks.md
// says what each benchmark measures.
#include "bench/perf/bulk.cuh"
#include "bench/perf/divergence.cuh"
#include "bench/perf/gups.cuh"
#include "bench/perf/latency.cuh"
#include "bench/perf/malloc.cuh"
#include "bench/perf/queue.cuh"
#include "bench/perf/rate.cuh"

using namespace gravel::detail;
using namespace gravel_bench::perf;

namespace {

struct benchmark {
  const char* name;
  void (*run)(report&, const options&, limits&);
  const char* note;
};
const benchmark benchmarks[] = {
    {"p_bw", p_bw, "gravel_put of 8 bytes, per PE"},
    {"p_latency", p_latency, "one lane of PE 0"},
    {"put_bw", put_bw, "gravel_put_bulk, per PE"},
    {"put_latency", put_latency, "one block of PE 0"},
    {"atomic_bw", atomic_bw, "gravel_inc, per PE"},
    {"atomic_latency", atomic_latency, "one lane of PE 0"},
    {"am_rate", am_rate, "active messages, per PE"},
    {"ping_pong_latency", ping_pong_latency, "one way, between lanes of two PEs"},
    {"quiet_latency", quiet_latency, "one lane of PE 0, behind so many increments (size)"},
    {"launch_latency", launch_latency, "gravel_launch and gravel_synchronize of an empty kernel, all PEs at once"},
    {"barrier_latency", barrier_latency, "gravel_barrier_all, all PEs"},
    {"quiescence_latency", quiescence_latency, "gravel_wait_quiescent, all PEs"},
    {"malloc_time", malloc_time, "gravel_malloc and gravel_free, all PEs"},
    {"gups", gups, "random increments, per PE"},
    {"queue", queue_rates, "kernel to host threads, without an aggregator, per PE"},
    {"packet_size", packet_size, "random increments with this job's packets, per PE"},
    {"destinations", queue_rates, "kernel to host threads, by number of destinations, per PE"},
    {"divergence", divergence, "few work-items send, to other PEs; per PE"},
};

void measure_all(const options& o) {
  report r(gravel_my_pe() == 0, o.command, o.json);
  r.fact("hardware", current_backend().describe() + (GRAVEL_CUDA ? "" : "; " + processor()));
  r.fact("backend", std::string(gravel_backend()));
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.fact("nodes", static_cast<uint64_t>(gravel_n_nodes()));
  limits l;  // 0: not measured, since nothing here is limited by it
  for (const benchmark& b : benchmarks) {
    if (o.benchmark != "all" && o.benchmark != b.name) continue;
    r.title(b.name, b.note);
    b.run(r, settle(o, b.name, GRAVEL_CUDA), l);
  }
  const auto measured_limit = [&](const char* key, double value) {
    if (value > 0) r.fact(key, value);
  };
  measured_limit(GRAVEL_CUDA ? "limit_host_stores_gb_per_s" : "limit_memcpy_gb_per_s", l.host_bytes / 1e9);
  measured_limit("limit_peer_stores_gb_per_s", l.peer_bytes / 1e9);
  measured_limit(GRAVEL_CUDA ? "limit_random_atomics_million_per_s" : "limit_random_loop_million_per_s",
                 l.increments / 1e6);
  measured_limit("limit_flag_round_trip_us", l.round_trip_us);
  r.finish();
  const int status = finish("gravel-perf", r.right());
  if (status) std::exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse_options(argc, argv, GRAVEL_CUDA);
  gravel_init<am8, am16, am24, am48, am256, goes_around>();
  measure_all(o);
}
