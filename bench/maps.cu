// Bulk calls on a hash map (gravel::map): updates of random keys, one-sided and by phases, and finds of these keys,
// one-sided and in copies of the map. `--grids` shows how finds depend on the grid, and on a resolver that is there.
// Keys and values of 8 bytes are counted (insert_or_add), those of 16 bytes are inserted. Each call's result is
// checked: the sum of all values of counted keys, the value and flag of each key that was found, and that both ways
// give each key the same value.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gravel/map.cuh>
#include "bench/clock.cuh"
#include "bench/perf/device.cuh"
#include "bench/perf/report.hpp"
#include "examples/critical/key_source.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "maps";

/// A key or a value of 16 bytes.
struct alignas(16) wide {
  uint64_t word[2];
  GRAVEL_BOTH bool operator==(const wide& other) const { return word[0] == other.word[0] && word[1] == other.word[1]; }
};
/// What the maps have: numbers of 8 bytes, which are counted, or keys and values of 16 bytes.
template <class T>
constexpr bool is_counted = std::is_same_v<T, uint64_t>;

/// Makes a key or a value from a random number.
template <class T>
GRAVEL_BOTH T made_of(uint64_t random) {
  if constexpr (is_counted<T>) return random;
  else return {random, mix(random)};
}

struct bench_options {
  std::vector<uint64_t> keys{1000000, GRAVEL_CUDA ? uint64_t{1} << 24 : uint64_t{1} << 18};
  std::vector<double> zipf{0, 1}, room{1};
  uint64_t items_log2 = GRAVEL_CUDA ? 26 : 16;
  uint32_t repeat = 5, bytes = 8;
  std::string json;
  bool is_short = false, stations = false, grow = false, grids = false;
};

template <class T>
__global__ void draw_items(T* keys, T* values, uint64_t n, uint64_t different, double exponent, uint64_t salt) {
  const zipf ranks(different, exponent);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) {
    const uint64_t random = mix(ranks.draw(mix(i + salt)));
    keys[i] = made_of<T>(random);
    values[i] = made_of<T>(is_counted<T> ? 1 : ~random);
  }
}
/// All keys were added by some PE before: each must be there, with the value that `others` has. A count is at least
/// `rounds`; another value is `inserted`.
template <class T>
__global__ void check_found(const T* values, const uint8_t* found, const T* others, const T* inserted, uint64_t n,
                            uint64_t rounds, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) {
    bool is_right = found[i] == 1 && values[i] == others[i];
    if constexpr (is_counted<T>) is_right &= values[i] >= rounds;
    else is_right &= values[i] == inserted[i];
    mine += !is_right;
  }
  if (mine) fetch_add<scope::device>(wrong, mine);
}
/// Adds up the values of a PE's items.
struct add_up {
  uint64_t* sum;
  GRAVEL_DEVICE void operator()(const uint64_t&, uint64_t& value) const { fetch_add<scope::device>(sum, value); }
};

/// Notes when the kernels before it in the stream have ended.
template <int = 0>
__global__ void note_time(uint64_t* at) {
  *at = gravel_bench::nanoseconds_now();
}

template <class T>
class map_bench {
  using map_type = gravel::detail::map<T, T>;

 public:
  map_bench(const bench_options& o, perf::report& r)
      : o_(o), r_(r), n_(uint64_t{1} << o.items_log2), keys_(n_), inserted_(n_), values_(n_), others_(n_), found_(n_) {}

  void run(uint64_t different, double exponent, double room) {
    start(draw_items<T>, keys_.data(), inserted_.data(), n_, different, exponent,
          static_cast<uint64_t>(gravel_my_pe()) << 40);
    const auto capacity = static_cast<uint64_t>(static_cast<double>(different) * room);
    map_type map(capacity, {.grow = o_.grow}), by_phases(capacity, {.grow = o_.grow});
    if constexpr (is_counted<T>) {
      measure_updates("insert_or_add", map, different, exponent, [&] {
        map.insert_or_add(keys_.data(), inserted_.data(), n_);
        gravel_barrier_all();
      });
      measure_updates("insert_or_add_all", by_phases, different, exponent, [&] {
        by_phases.insert_or_add_all(keys_.data(), inserted_.data(), n_);
        gravel_stream_synchronize(nullptr);
      });
    } else {
      measure_updates("insert", map, different, exponent, [&] {
        map.insert(keys_.data(), inserted_.data(), n_);
        gravel_barrier_all();
      });
      measure_updates("insert_all", by_phases, different, exponent, [&] {
        by_phases.insert_all(keys_.data(), inserted_.data(), n_);
        gravel_stream_synchronize(nullptr);
      });
    }
    gravel_barrier_all();
    by_phases.find(others_.data(), found_.data(), keys_.data(), n_);
    measure_finds("find", map, different, exponent, [&] { map.find(values_.data(), found_.data(), keys_.data(), n_); });
    measure_finds("find_all", map, different, exponent,
                  [&] { map.find_all(values_.data(), found_.data(), keys_.data(), n_); });
    if (o_.grids && map.is_mapped()) measure_grids(map, different, exponent);
    gravel_barrier_all();
    if (o_.stations && map.is_mapped()) print_stations(by_phases);
  }

 private:
  /// Measures finds of all keys, and compares the values with those of others_.
  template <class F>
  void measure_finds(const char* name, const map_type& map, uint64_t different, double exponent, const F& call,
                     std::chrono::milliseconds pause = {}) {
    const auto seconds = time(
        [&] {
          call();
          gravel_stream_synchronize(nullptr);
        },
        pause);
    const perf::device_array<uint64_t> wrong(1);
    start(check_found<T>, values_.data(), found_.data(), others_.data(), inserted_.data(), n_, uint64_t{o_.repeat + 1},
          wrong.data());
    print(name, map, different, exponent, seconds, {gravel_sum_all(n_), gravel_sum_all(wrong.read())});
  }
  /// Measures finds by one block after the other and by no more blocks than run at once, directly behind a barrier, and
  /// when the resolver that has served the barrier has ended.
  void measure_grids(map_type& map, uint64_t different, double exponent) {
    const uint64_t processors = current_backend().multiprocessors(), at_once = processors ? processors * 8 : 2;
    const struct {
      const char* name;
      uint64_t blocks;
      int pause_ms;
    } ways[] = {{"one wave", at_once, 0},
                {"one wave, pause", at_once, 10},
                {"small blocks", n_ / (map_lanes * 8) + 1, 0},
                {"small blocks, pause", n_ / (map_lanes * 8) + 1, 10}};
    for (const auto& way : ways) {
      const gravel_launch_config how{static_cast<unsigned>(way.blocks), map_lanes};
      measure_finds(
          way.name, map, different, exponent,
          [&] {
            launch_alone(find_mapped<T, T>, how, gravel_handle(), map.view(), values_.data(), found_.data(),
                         static_cast<const T*>(keys_.data()), n_);
          },
          std::chrono::milliseconds(way.pause_ms));
    }
  }
  template <class F>
  void measure_updates(const char* name, map_type& map, uint64_t different, double exponent, const F& call) {
    const auto seconds = time(call);
    gravel_barrier_all();
    uint64_t wanted = 0, have = 0;
    const perf::device_array<uint64_t> count(1);
    if constexpr (is_counted<T>) {
      map.for_each_local(add_up{count.data()});
      gravel_synchronize();
      wanted = n_ * (o_.repeat + 1) * static_cast<uint64_t>(gravel_n_pes());
      have = gravel_sum_all(count.read());
    } else {
      map.find(values_.data(), found_.data(), keys_.data(), n_);
      start(check_found<T>, values_.data(), found_.data(), inserted_.data(), inserted_.data(), n_, 0, count.data());
      wanted = gravel_sum_all(n_);
      have = wanted - gravel_sum_all(count.read());
    }
    print(name, map, different, exponent, seconds, {wanted, wanted > have ? wanted - have : have - wanted});
  }
  /// Seconds of a call at the slowest PE, some time behind a barrier. The first call warms up.
  template <class F>
  perf::timed_runs time(const F& call, std::chrono::milliseconds pause = {}) const {
    std::vector<double> seconds;
    for (uint32_t run = 0; run <= o_.repeat; ++run) {
      gravel_barrier_all();
      std::this_thread::sleep_for(pause);
      const double begin = perf::seconds_now();
      call();
      const double took = perf::slowest(perf::seconds_now() - begin);
      if (run) seconds.push_back(took);
    }
    return perf::timed_runs::of(seconds);
  }
  /// Prints how long each phase of a call takes, at this PE. The first call warms up.
  void print_stations(map_type& map) {
    constexpr size_t most = 256;
    map_phases<T, T> phases;
    constexpr map_update how = is_counted<T> ? map_update::add : map_update::insert;
    const perf::device_array<uint64_t> times(most);
    std::vector<std::string> names;
    const auto passed = [&](const char* name) {
      if (names.size() == most) return;
      launch_alone(note_time<>, {.grid = 1, .block = 1}, times.data() + names.size());
      names.push_back(name);
    };
    for (uint32_t run = 0; run < 2; ++run) {
      names.clear();
      if (!phases.template insert<how>(map.view(), keys_.data(), inserted_.data(), n_, n_,
                                       static_cast<uint32_t>(gravel_n_pes()), nullptr, passed))
        return;
      gravel_stream_synchronize(nullptr);
      gravel_barrier_all();
    }
    std::vector<uint64_t> at(most);
    gravel_copy(at.data(), times.data(), most * sizeof(uint64_t));
    std::map<std::string, uint64_t> of_phase;  // in all chunks
    for (size_t i = 1; i < names.size(); ++i) of_phase[names[i]] += at[i] - at[i - 1];
    for (const auto& [name, nanoseconds] : of_phase)
      if (gravel_my_pe() == 0) std::printf("  %-24s %8.3f ms\n", name.c_str(), static_cast<double>(nanoseconds) * 1e-6);
    phases.release();
  }
  void print(const char* name, const map_type& map, uint64_t different, double exponent, const perf::timed_runs& t,
             const perf::verified& result) {
    r_.row({{"what", "call", std::string(name)},
            {"mapped", "mapped", std::string(map.is_mapped() ? "yes" : "no")},
            {"bytes", "bytes", static_cast<uint64_t>(sizeof(T))},
            {"keys", "keys", different},
            {"zipf", "Zipf", exponent},
            {"capacity", "room", map.capacity()},
            {"items", "items a PE", n_},
            {"ms", "ms", t.median * 1e3},
            {"ms_least", "least", t.least * 1e3},
            {"ms_most", "most", t.most * 1e3},
            {"million_per_s", "M/s of all PEs", static_cast<double>(n_ * gravel_n_pes()) / t.median / 1e6}},
           result);
  }
  /// Runs a kernel that sends nothing, and waits for it.
  template <class... P, class... A>
  static void start(void (*kernel)(P...), A... arguments) {
    gravel_launch(kernel, GRAVEL_CUDA ? 1056 : 2, 256, static_cast<P>(arguments)...);
    gravel_synchronize();
  }
  const bench_options& o_;
  perf::report& r_;
  uint64_t n_;
  perf::device_array<T> keys_, inserted_, values_, others_;
  perf::device_array<uint8_t> found_;
};

template <class T>
void measure(const bench_options& o, perf::report& r) {
  map_bench<T> bench(o, r);
  for (const uint64_t different : o.keys)
    for (const double exponent : o.zipf)
      for (const double room : o.room) bench.run(different, exponent, room);
}

int main(int argc, char** argv) {
  bench_options o;
  command_line app("Bulk calls on a hash map: updates of random keys, one-sided and by phases, and finds.",
                   program_name);
  app.add_option("--keys", o.keys, "Different keys of all PEs").delimiter(',').capture_default_str();
  app.add_option("--bytes", o.bytes, "Bytes of a key, and of a value: 8, which are counted, or 16")
      .one_of({"8", "16"})
      .capture_default_str();
  app.add_option("--zipf", o.zipf, "Exponents of their distribution; 0: uniform").delimiter(',').capture_default_str();
  app.add_option("--room", o.room, "Items for which the maps are made, as multiples of the keys")
      .delimiter(',')
      .range(1.0, 100.0)
      .capture_default_str();
  app.add_option("--items-log2", o.items_log2, "Items of a call of each PE").range(1, 32).capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of calls; the median is printed").range(1u, 100u).capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few keys, few items, one call");
  app.add_flag("--stations", o.stations, "Print how long each phase of a collective call takes, at PE 0");
  app.add_flag("--grow", o.grow, "Maps that may grow: they estimate how many different keys there are");
  app.add_flag("--grids", o.grids, "Finds by other grids, and some time behind the barrier");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (o.is_short) {
      o.keys = {100};
      o.items_log2 = 10;
      o.repeat = 1;
    }
    if (!o.json.empty()) need_writable(o.json);
  });
  if (o.bytes == 8) gravel_init<gravel::detail::map<uint64_t, uint64_t>::delivery>();
  else gravel_init<gravel::detail::map<wide, wide>::delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.title("map", "one bulk call, median of the runs, at the slowest PE");
  if (o.bytes == 8) measure<uint64_t>(o, r);
  else measure<wide>(o, r);
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
