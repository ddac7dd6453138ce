// Predicate-based filtering (the fifth application of the Groute paper): rows of a table, in the memory of PE 0, are
// sent in segments to all PEs, each of which keeps the rows that a predicate holds for; what is kept comes back to PE
// 0. A router scatters the segments: to the PE that has room first, or equal shares to all. The difference shows where
// PEs are of unequal speed (--slow). What came back is compared, row by row, with a serial filter.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/link.cuh>
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::device_array;
using gravel::fetch_add;
using gravel::lane_group;
using gravel::relax;
using gravel::scope;

constexpr const char* program_name = "pbf";

struct options {
  uint64_t rows = GRAVEL_CUDA ? 1 << 25 : 60'000;
  uint64_t segment_rows = GRAVEL_CUDA ? 1 << 17 : 1000;
  uint32_t buffers = 2, keep = 25, work = GRAVEL_CUDA ? 64 : 4;
  uint64_t seed = 1;
  std::string split = "both", slow, json;
  int slow_pe = -1;
  uint32_t slow_factor = 1;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// A row: its number in the low half, a random value in the high one.
GRAVEL_BOTH uint64_t row_of(uint64_t seed, uint64_t number) {
  return (mix(seed << 40 ^ number) & 0xffffffff00000000u) | number;
}
/// The predicate: `work` rounds of hashing, and of the result one in 100.
GRAVEL_BOTH bool is_kept(uint64_t row, uint32_t work, uint32_t keep) {
  uint64_t x = row >> 32;
  for (uint32_t i = 0; i < work; ++i) x = mix(x);
  return x % 100 < keep;
}

__global__ void make_rows(uint64_t* rows, uint64_t n, uint64_t seed) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += uint64_t{gridDim.x} * blockDim.x)
    rows[i] = row_of(seed, i);
}
/// Appends the rows that are kept to `kept`: one atomic addition for the lanes of a warp. `times`: how often all is
/// done; only the last counts.
__global__ void filter(const uint64_t* rows, uint64_t n, uint64_t* kept, uint64_t* count, uint32_t work, uint32_t keep,
                       uint32_t times) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const uint64_t row = rows[i];
    bool holds = false;
    uint32_t rounds = work;  // always, which the compiler does not know: so it does all of it again each time
    for (uint32_t t = 0; t < times; ++t) {
      holds = is_kept(row, rounds, keep);
      rounds = work + (holds && rounds == 0);
    }
    if (!holds) continue;
    const lane_group group = lane_group::active();
    uint64_t at = 0;
    if (group.is_leader()) at = fetch_add<scope::device>(count, uint64_t{group.size()});
    kept[group.from_leader(at) + group.rank()] = row;
  }
}

/// What one PE does: takes segments, filters them, and sends on what is kept. Two segments at a time: one is filtered
/// while another comes.
class worker {
 public:
  worker(const options& o, gravel_receiver& in, gravel_sender& out)
      : o_(o), in_(in), out_(out), stream_(gravel_stream_create()) {
    for (auto& s : slots_) {
      s.kept = device_array<uint64_t>(o.segment_rows);
      s.count = device_array<uint64_t>(uint64_t{1});
    }
    pending_.push_back(in_.receive());
  }
  ~worker() { gravel_stream_destroy(stream_); }
  bool is_over() const { return over_; }
  uint64_t rows() const { return rows_; }
  double seconds(std::chrono::steady_clock::time_point begin) const {
    return std::chrono::duration<double>(last_ - begin).count();
  }

  /// Does what can be done without waiting for other PEs. True: something was.
  bool step() {
    slot& s = slots_[turn_ % 2];
    // What was kept before must have left. To wait for it here could be for ever: the host of PE 0 also takes out what
    // has come.
    if (over_ || !gravel_has_happened(s.sent) || !pending_.front().is_ready()) return false;
    ++turn_;
    const gravel_segment segment = pending_.front().get();
    if (segment.empty()) {
      out_.shutdown();
      over_ = true;
      return true;
    }
    const uint64_t none = 0, n = segment.bytes / sizeof(uint64_t);
    gravel_copy(s.count.data(), &none, sizeof(none));
    const uint32_t times = gravel_my_pe() == o_.slow_pe ? o_.slow_factor : 1;
    gravel_launch(filter,
                  gravel_launch_config{
                      .grid = std::min(blocks_to_fill_device(), 264u), .block = lanes_of_block, .stream = stream_},
                  reinterpret_cast<const uint64_t*>(segment.data), n, s.kept.data(), s.count.data(), o_.work, o_.keep,
                  times);
    in_.release(segment, stream_);
    pending_.front() = in_.receive();
    gravel_stream_synchronize(stream_);
    uint64_t count = 0;
    gravel_copy(&count, s.count.data(), sizeof(count));
    rows_ += n;
    last_ = std::chrono::steady_clock::now();
    s.sent = out_.send(s.kept.data(), count * sizeof(uint64_t));
    return true;
  }

 private:
  struct slot {
    device_array<uint64_t> kept, count;
    gravel_event sent;
  };
  const options& o_;
  gravel_receiver& in_;
  gravel_sender& out_;
  gravel_stream_t stream_;
  slot slots_[2];
  std::vector<gravel_pending_segment> pending_;
  uint64_t turn_ = 0, rows_ = 0;
  bool over_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// PE 0: all that was kept, in host memory.
class collector {
 public:
  explicit collector(gravel_receiver& in) : in_(in) { pending_.push_back(in_.receive()); }
  bool is_over() const { return over_; }
  const std::vector<uint64_t>& rows() const { return rows_; }
  bool step() {
    if (over_ || !pending_.front().is_ready()) return false;
    const gravel_segment s = pending_.front().get();
    over_ = s.empty();
    const auto* const first = reinterpret_cast<const uint64_t*>(s.data);
    if (!over_) rows_.insert(rows_.end(), first, first + s.bytes / sizeof(uint64_t));
    in_.release(s);
    if (!over_) pending_.front() = in_.receive();
    return true;
  }

 private:
  gravel_receiver& in_;
  std::vector<gravel_pending_segment> pending_;
  std::vector<uint64_t> rows_;
  bool over_ = false;
};

/// Rows that are kept and should not be, or the reverse, or came twice.
uint64_t wrong_rows(const options& o, const std::vector<uint64_t>& kept) {
  std::vector<bool> came(o.rows);
  uint64_t wrong = 0;
  for (const uint64_t row : kept) {
    const uint64_t number = row & 0xffffffff;
    if (number >= o.rows || came[number] || row != row_of(o.seed, number) || !is_kept(row, o.work, o.keep)) ++wrong;
    else came[number] = true;
  }
  uint64_t expected = 0;
  for (uint64_t i = 0; i < o.rows; ++i) expected += is_kept(row_of(o.seed, i), o.work, o.keep);
  return wrong + (expected > kept.size() ? expected - kept.size() : kept.size() - expected);
}

struct result {
  double seconds;
  uint64_t kept, wrong;
};
/// `speaks`: otherwise it is to warm up.
result run(const options& o, bool dynamic, const uint64_t* rows, fact_list& facts, bool speaks) {
  const int me = gravel_my_pe(), n = gravel_n_pes();
  const auto all = gravel_all_devices();
  const auto bytes = static_cast<uint32_t>(o.segment_rows * sizeof(uint64_t));
  const std::string name = dynamic ? "dynamic" : "static";
  std::vector<uint64_t> each_rows(static_cast<size_t>(n));
  std::vector<double> each_seconds(static_cast<size_t>(n));
  result r{};
  {
    std::vector<gravel_endpoint> workers;
    for (const auto& e : all) workers.push_back(gravel_device(e.pe, 1));
    gravel_router scatter({gravel_device(0, 2)}, all, GRAVEL_SCATTER,
                          {.packet_bytes = bytes, .buffers = o.buffers, .equal_shares = !dynamic}),
        gather(workers, {gravel_host(0)}, GRAVEL_GATHER, {.packet_bytes = bytes, .buffers = 2});
    size_t number = 0;
    while (all[number].pe != me) ++number;
    worker mine(o, scatter.output(static_cast<int>(number)), gather.input(static_cast<int>(number)));
    std::unique_ptr<collector> collected;
    progress report(program_name, me == 0);
    gravel_barrier_all();
    const auto begin = std::chrono::steady_clock::now();
    if (me == 0) {
      collected = std::make_unique<collector>(gather.output());
      scatter.input().send(rows, o.rows * sizeof(uint64_t));
      scatter.input().shutdown();
    }
    for (relax wait; !mine.is_over() || (collected && !collected->is_over());) {
      const bool filtered = mine.step(), came = collected && collected->step();
      if (filtered || came) wait.reset();
      else wait.attentively();
      if (collected)
        report.at(collected->rows().size(), std::max<uint64_t>(o.rows * o.keep / 100, collected->rows().size() + 1));
    }
    r.seconds = gravel_max_all(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    gravel_allgather(each_rows.data(), mine.rows());
    gravel_allgather(each_seconds.data(), mine.seconds(begin));
    if (collected) {
      r.kept = collected->rows().size();
      r.wrong = wrong_rows(o, collected->rows());
    }
  }
  r.kept = gravel_broadcast(r.kept, 0);
  r.wrong = gravel_broadcast(r.wrong, 0);
  if (!speaks) return r;
  for (int pe = 0; pe < n; ++pe) {
    const auto at = static_cast<size_t>(pe);
    if (me == 0)
      std::printf("%-8s PE %d%s: %llu rows, its last after %.2f ms\n", name.c_str(), pe,
                  pe == o.slow_pe ? (" (slower " + std::to_string(o.slow_factor) + " times)").c_str() : "",
                  static_cast<unsigned long long>(each_rows[at]), each_seconds[at] * 1e3);
    facts.emplace_back(name + "_rows_pe" + std::to_string(pe), each_rows[at]);
    facts.emplace_back(name + "_ms_pe" + std::to_string(pe), each_seconds[at] * 1e3);
  }
  if (me == 0)
    std::printf("%-8s %llu of %llu rows are kept after %.2f ms, %.2f GB/s; %llu wrong, compared with a serial filter\n",
                name.c_str(), static_cast<unsigned long long>(r.kept), static_cast<unsigned long long>(o.rows),
                r.seconds * 1e3, static_cast<double>(o.rows) * sizeof(uint64_t) / r.seconds / 1e9,
                static_cast<unsigned long long>(r.wrong));
  facts.emplace_back(name + "_ms", r.seconds * 1e3);
  facts.emplace_back(name + "_kept", r.kept);
  facts.emplace_back(name + "_wrong", r.wrong);
  return r;
}

void options::add_options(command_line& line) {
  line.add_option("--rows", rows, "of the table, 8 bytes each")
      .range(uint64_t{1}, uint64_t{1} << 31)
      .capture_default_str();
  line.add_option("--segment", segment_rows, "rows that are sent together")
      .range(uint64_t{2}, uint64_t{1} << 23)
      .capture_default_str();
  line.add_option("--buffers", buffers, "segments at a PE").range(1u, 64u).capture_default_str();
  line.add_option("--keep", keep, "of 100 rows, about").range(0u, 100u).capture_default_str();
  line.add_option("--work", work, "rounds of hashing in the predicate").range(1u, 100'000u).capture_default_str();
  line.add_option("--split", split, "dynamic: to who has room first; static: equal shares; both")
      .one_of({"dynamic", "static", "both"})
      .capture_default_str();
  line.add_option("--slow", slow, "PE:FACTOR: this PE does all of its work FACTOR times");
  line.add_option("--seed", seed, "of the rows").capture_default_str();
}
void options::check() {
  if (slow.empty()) return;
  int used = 0;
  if (std::sscanf(slow.c_str(), "%d:%u%n", &slow_pe, &slow_factor, &used) != 2 ||
      static_cast<size_t>(used) != slow.size() || slow_pe < 0 || slow_factor < 1 || slow_factor > 1000)
    fail_text("--slow " + slow + ": it is PE:FACTOR, such as 1:4, with a factor of 1 to 1000");
}
uint64_t options::symmetric_bytes() const {
  return (uint64_t{64} * (buffers + 2) + 8) * segment_rows * sizeof(uint64_t) + (32 << 20);
}
void options::complete() {
  if (slow_pe >= gravel_n_pes())
    fail_text("--slow " + slow + ": the job has PEs 0 to " + std::to_string(gravel_n_pes() - 1));
}

bool filter_rows(const options& o, fact_list& facts) {
  const int me = gravel_my_pe();
  device_array<uint64_t> rows(me == 0 ? o.rows : uint64_t{1});
  if (me == 0) gravel_launch(make_rows, blocks_to_fill_device(), lanes_of_block, rows.data(), o.rows, o.seed);
  gravel_synchronize();
  facts = {{"program", program_name},
           {"pes", static_cast<uint64_t>(gravel_n_pes())},
           {"nodes", static_cast<uint64_t>(gravel_n_nodes())},
           {"rows", o.rows},
           {"segment_rows", o.segment_rows},
           {"buffers", uint64_t{o.buffers}},
           {"work", uint64_t{o.work}},
           {"slow", o.slow}};
  options few = o;
  few.rows = std::min(o.rows, 2 * o.segment_rows * static_cast<uint64_t>(gravel_n_pes()));
  uint64_t wrong = run(few, true, rows.data(), facts, false).wrong;
  for (const bool dynamic : {false, true})
    if (o.split == "both" || (o.split == "dynamic") == dynamic)
      wrong += run(o, dynamic, rows.data(), facts, true).wrong;
  return wrong == 0;
}

int main(int argc, char** argv) {
  return run_application(
      {program_name,
       "Filters the rows of a table by a predicate: segments go to all PEs, by who has room or in equal shares."},
      argc, argv, options{}, filter_rows);
}
