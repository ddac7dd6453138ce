#include "bench/perf/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "examples/common/program.hpp"
#include "lib/base/error.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;
using namespace app;
namespace {

struct entry {
  const char* name;
  const char* text;
  enum { rate = 1, bulk = 2, latency = 4, updates = 8, queue = 16, divergence = 32, counts = 64, sizes = 128 };
  int takes;
};

const entry entries[] = {
    {"p_bw", "Rate of gravel_put of 8 bytes", entry::rate},
    {"p_latency", "Time of a gravel_put and the gravel_quiet behind it", entry::latency},
    {"put_bw", "Bandwidth of gravel_put_bulk, by size", entry::bulk},
    {"put_latency", "Time of a gravel_put_bulk and the gravel_quiet behind it, by size", entry::bulk | entry::latency},
    {"atomic_bw", "Rate of gravel_inc", entry::rate | entry::counts},
    {"atomic_latency", "Time of gravel_inc and quiet, of gravel_fetch_add, of gravel_compare_swap", entry::latency},
    {"am_rate", "Rate of active messages with 8, 24, 48 and 256 bytes of arguments", entry::rate | entry::counts},
    {"ping_pong_latency", "Half of the time from PE 0 to PE 1 and back", entry::latency},
    {"quiet_latency", "Time of gravel_quiet, by the number of messages that are under way", entry::latency},
    {"launch_latency", "Time of gravel_launch, and until gravel_synchronize returns", entry::latency},
    {"barrier_latency", "Time of gravel_barrier_all", entry::latency},
    {"quiescence_latency", "Time of gravel_wait_quiescent", entry::latency},
    {"malloc_time", "Times of gravel_malloc and gravel_free, by size", entry::sizes},
    {"gups", "Random updates of a table over all PEs, to other PEs only and to all", entry::updates},
    {"queue", "From a kernel to host threads through the queue alone (figures 6 and 8 of the paper)", entry::queue},
    {"packet_size", "gups with the GRAVEL_PACKET_SIZE of this job (figure 14; bench/run_perf runs it for several)",
     entry::updates},
    {"destinations", "The queue with 1 to 1024 destinations, the host appends rows to packets", entry::queue},
    {"divergence", "GUPS-mod: few work-items send; predication, direct sends and block sender", entry::divergence},
};

void add_options(CLI::App& app, options& o, const entry& e) {
  const CLI::Range counts(uint64_t{1}, uint64_t{1} << 40);
  const auto list = [&](const char* name, auto& values, const char* text) {
    return app.add_option(name, values, text)->delimiter(',')->capture_default_str();
  };
  if (e.takes & (entry::rate | entry::queue))
    app.add_option("--messages", o.messages, "Messages of each PE, rounded down to a power of two")->check(counts);
  if (e.takes & (entry::rate | entry::queue | entry::updates))
    list("--scope", o.scopes,
         "Scope that hands messages over together: block (gravel_block_sender), warp, thread (one lane of a warp)")
        ->check(CLI::IsMember({"thread", "warp", "block"}));
  if (e.takes & (entry::rate | entry::bulk | entry::latency))
    app.add_option("--to", o.to, "Destination: the next PE, or the PE itself")
        ->check(CLI::IsMember({"next", "self"}))
        ->capture_default_str();
  if (e.takes & (entry::bulk | entry::sizes))
    list("--size", o.sizes, "Sizes in bytes")
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << (e.takes & entry::sizes ? 40 : 30)));
  if (e.takes == entry::bulk) app.add_option("--bytes", o.bytes, "Bytes that a row moves, at most")->check(counts);
  if (e.takes & entry::latency)
    app.add_option("--iterations", o.iterations, "Timed operations")->check(CLI::Range(1u, 1u << 20));
  if (e.takes & (entry::updates | entry::divergence | entry::counts))
    app.add_option("--table-log2", o.table_log2,
                   e.takes & entry::counts
                       ? "Words of each PE in which messages count, as a power of two; at most as many as messages"
                       : "Words of the table per PE, as a power of two")
        ->check(CLI::Range(1, 34));
  if (e.takes & (entry::updates | entry::rate))
    app.add_option("--offset-mib", o.offset_mib, "MiB of the symmetric heap that lie before the table")
        ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 23));
  if (e.takes & entry::updates) {
    app.add_option("--updates", o.updates, "Updates of each PE")->check(counts);
    list("--operation", o.operations, "inc: gravel_inc of 8-byte words; add32, min32, put32: of 4-byte ones")
        ->check(CLI::IsMember({"inc", "add32", "min32", "put32"}));
    app.add_option("--targets", o.targets, "remote (other PEs only), uniform (all PEs), or both")
        ->check(CLI::IsMember({"remote", "uniform", "both"}))
        ->capture_default_str();
  }
  if (e.takes & entry::divergence) {
    app.add_option("--messages", o.messages, "Work-items of each PE, rounded down to a power of two")->check(counts);
    app.add_option("--active", o.active, "Per cent of the work-items that send")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    app.add_option("--most", o.most, "Messages of a work-item that sends: 1 to this")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
  }
  if (e.takes & entry::queue) {
    list("--block", o.blocks, "Threads of a block")->check(CLI::IsMember({32, 64, 128, 256, 512, 1024}));
    list("--message", o.message_bytes,
         "Bytes of a message: 4 an increment, 8 a put of 4 bytes, 16, 24, 48 active messages")
        ->check(CLI::IsMember({4, 8, 16, 24, 48}));
    list("--threads", o.threads, "Threads that consume")->check(CLI::Range(1, 64));
    list("--destinations", o.destinations, "Destinations of the messages")->check(CLI::Range(1, 16384));
    app.add_option("--slot-size", o.slot_size, "Payload of a block's slot")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(1024, 1 << 20))
        ->capture_default_str();
    app.add_option("--slots", o.slots, "Slots, a power of two; 0: as a PE has, 4096 for blocks, 8192 for warps")
        ->check(CLI::Range(0, 1 << 20));
    app.add_option("--consume", o.consume, "What a consumer does: skip, sum (reads all), append (rows to packets)")
        ->check(CLI::IsMember({"skip", "sum", "append"}));
  }
}

/// Defaults that depend on the backend and on what runs; `brief` for `all`.
void fill_in(options& o, bool gpu, bool brief) {
  const bool divergence = o.benchmark == "divergence", queue = o.benchmark == "queue" || o.benchmark == "destinations";
  int messages_log2 = queue ? 20 : 18;
  if (gpu) messages_log2 = queue ? 26 : 27;
  if (gpu && divergence) messages_log2 = 24;
  if (!o.messages) o.messages = uint64_t{1} << messages_log2;
  if (brief) o.messages >>= gpu ? 3 : 2;
  o.messages = std::bit_floor(o.messages);
  if (!o.iterations) o.iterations = brief ? 50 : 1000;
  if (!o.bytes) o.bytes = uint64_t{1} << (gpu ? 28 : 23);
  int largest_log2 = 24;
  if (gpu) largest_log2 = brief ? 30 : 34;
  if (o.sizes.empty() && o.benchmark == "malloc_time")
    for (uint64_t size = 1 << 10; size <= uint64_t{1} << largest_log2; size *= brief ? 1024 : 16)
      o.sizes.push_back(size);
  if (o.sizes.empty())
    for (uint64_t size = o.benchmark == "put_bw" ? 64 : 8; size <= 1 << 20; size *= brief ? 64 : 4)
      o.sizes.push_back(size);
  if (!o.table_log2 && o.benchmark == "am_rate" && gpu)
    o.table_log2 = 22;  // fits the L2 cache: memory is not what limits then
  if (!o.table_log2 && o.benchmark == "atomic_bw") o.table_log2 = 34;  // a word for each message
  uint32_t table_log2 = 20;
  if (gpu) table_log2 = brief ? 24 : 28;
  if (divergence) table_log2 = 16;
  if (!o.table_log2) o.table_log2 = table_log2;
  int updates_log2 = brief ? 16 : 18;
  if (gpu) updates_log2 = brief ? 25 : 28;
  if (!o.updates) o.updates = uint64_t{1} << updates_log2;
  if (o.threads.empty()) o.threads = {gpu ? 8u : 1u};
  if (o.destinations.empty()) {
    if (o.benchmark == "destinations")
      for (unsigned n = 1; n <= 1024; n *= 4) o.destinations.push_back(n);
    else o.destinations = {8};
  }
  if (o.consume.empty()) o.consume = o.benchmark == "destinations" ? "append" : "sum";
  if (o.benchmark == "destinations" && o.scopes.size() == 3) o.scopes = {"block"};
  if (brief || o.benchmark == "destinations") {
    if (o.blocks.size() == 6) o.blocks = {256};
    if (o.message_bytes.size() == 3 && o.benchmark == "destinations") o.message_bytes = {16};
  }
}

uint64_t symmetric_bytes(const options& o) {
  if (o.benchmark == "gups" || o.benchmark == "packet_size" || o.benchmark == "divergence")
    return (o.offset_mib << 20) + (uint64_t{8} << o.table_log2);
  if (o.benchmark == "put_bw") return 2 * std::max(o.bytes, *std::max_element(o.sizes.begin(), o.sizes.end()));
  if (o.benchmark == "malloc_time") return *std::max_element(o.sizes.begin(), o.sizes.end());
  if (o.benchmark == "put_latency") return 2 * *std::max_element(o.sizes.begin(), o.sizes.end());
  return (o.offset_mib << 20) + 8 * o.messages;
}

}  // namespace

const std::vector<std::string>& benchmark_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const entry& e : entries) all.push_back(e.name);
    return all;
  }();
  return names;
}

options settle(options o, const std::string& benchmark, bool gpu) {
  const bool brief = o.benchmark == "all";
  o.benchmark = benchmark;
  fill_in(o, gpu, brief);
  return o;
}

options parse_options(int argc, char** argv, bool gpu) {
  options o;
  std::string route;
  command_line line(
      "Measures Gravel: rates, latencies, the queue, and the applications' patterns. Every result is checked; a wrong "
      "one ends the run with status 1.\nRun it alone or as a job: ucx-run -n 2 gravel-perf p_bw",
      gpu ? "gravel-perf" : "gravel-perf-cpu");
  CLI::App& app = line.parser();
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--json", o.json, "Write the results to this file too");
  app.add_option("--repeat", o.repeat, "Timed repetitions of each row; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--grid", o.grid, "Thread blocks; 0: as many as fill the device")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--route", route, "Routes that messages may take (sets GRAVEL_ROUTES)");
  for (const entry& e : entries) {
    CLI::App* sub = app.add_subcommand(e.name, e.text);
    add_options(*sub, o, e);
    sub->callback([&o, &e] { o.benchmark = e.name; });
  }
  app.add_subcommand("all", "All of these, short")->callback([&o] { o.benchmark = "all"; });
  parse_or_exit(line, argc, argv, [&] {
    uint64_t symmetric = 0;
    for (const std::string& name : benchmark_names())
      if (o.benchmark == "all" || o.benchmark == name)
        symmetric = std::max(symmetric, symmetric_bytes(settle(o, name, gpu)));
    need_symmetric(symmetric + 4096);
    if (!o.json.empty()) need_writable(o.json);
    if (o.slots & (o.slots - 1)) fail("--slots: {} is no power of two", o.slots);
  });
  if (!route.empty()) setenv("GRAVEL_ROUTES", route.c_str(), 1);
  o.command = app.get_name();
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") ++i;
    else if (!word.starts_with("--json")) o.command += fmt::format(" {}", word);
  }
  return o;
}

}  // namespace gravel_bench::perf
