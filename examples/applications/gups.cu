// GUPS, HPCC's RandomAccess: every lane of every PE updates random words of a table that is spread over all
// PEs. One update is one message, of 4 bytes for an increment, 12 for an xor: this is what Gravel is made for.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/rivals/direct_sender.hpp"
#include "bench/rivals/model.hpp"
#include "examples/applications/gups_hash.hpp"
#include "examples/applications/gups_report.hpp"
#include "examples/applications/gups_table.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/random_stream.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;

/// What the kernels work on; `remote` counts this PE's updates to other PEs.
struct gups_job {
  gups_table map;
  uint64_t* table;
  uint64_t* remote;
  bool is_xor;
};

/// This lane's part of the updates first ... first + count of the whole job's sequence.
template <class Sender>
GRAVEL_DEVICE void update(Sender& sender, const gups_job& job, uint32_t me, uint64_t first, uint64_t count) {
  const lane_share mine(count);
  uint64_t ran = random_stream::at(first + mine.first), remote = 0;
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    ran = random_stream::next(ran);
    const uint32_t pe = job.map.pe_of(ran, me);
    uint64_t* const word = &job.table[job.map.word_of(ran)];
    remote += pe != me;
    if (job.is_xor) sender.bit_xor(word, ran, static_cast<int>(pe));
    else sender.inc(word, static_cast<int>(pe));
  }
  if (remote) sender.add(job.remote, remote, static_cast<int>(me));
}

template <int BLOCK, int PEERS = 1>
__global__ void update_gathered(gravel_t g, gups_job job, uint64_t first, uint64_t count) {
  __shared__ gravel_block_sender<BLOCK, 1024, PEERS> sender;
  sender.begin(g);
  update(sender, job, g.my_pe, first, count);
  sender.end();
}

__global__ void update_directly(gravel_t g, gups_job job, uint64_t first, uint64_t count) {
  direct_sender sender{g};
  update(sender, job, g.my_pe, first, count);
}

/// By a rival of Gravel's networking model.
__global__ void update_otherwise(model_handle g, gups_job job, uint64_t begin, uint64_t first, uint64_t count) {
  __shared__ model_sender sender;
  sender.begin(g);
  update(sender, job, g.my_pe, begin + first, count);
  sender.end();
}

__global__ void fill(gups_job job, uint32_t me) {
  const lane_share mine(job.map.words());
  for (uint64_t i = mine.first; i < mine.last; ++i) job.table[i] = job.is_xor ? job.map.index_of(i, me) : 0;
}

/// Sends this PE's share of all updates and waits until everybody's are applied. Collective.
void make_updates(const gups_job& job, const gups_options& o, network_model& net, const char* what) {
  const uint64_t first = o.updates * static_cast<uint64_t>(gravel_my_pe());
  const uint64_t message = bytes_of(update_kind(job.is_xor ? op::bit_xor : op::inc, value_type::u64));
  progress report(what, gravel_my_pe() == 0);
  // As long as a GPU is busy with for some 10 ms: of what is sent to other PEs the last of each piece is waited for.
  const uint64_t pieces = uint64_t{1} << (GRAVEL_CUDA ? 27 : 22);
  in_pieces(o.updates, net.is_collective() ? o.updates : pieces, report, [&](uint64_t done, uint64_t count) {
    const uint64_t from = first + done;
    if (!net.is_gravel())
      net.launch_rival(update_otherwise,
                       {.items = count, .blocks = o.grid, .of_item = 1, .of_item_to_one = 1, .message_bytes = message},
                       job, from);
    else if (o.sender == "direct") gravel_launch(update_directly, o.grid, o.block, gravel_handle(), job, from, count);
    else if (o.block == 32) gravel_launch(update_gathered<32>, o.grid, 32, gravel_handle(), job, from, count);
    else if (o.block == 128 && job.map.n_pes > 2)
      gravel_launch(update_gathered<128, 3>, o.grid, 128, gravel_handle(), job, from, count);
    else if (o.block == 128) gravel_launch(update_gathered<128>, o.grid, 128, gravel_handle(), job, from, count);
    else if (o.block == 256) gravel_launch(update_gathered<256>, o.grid, 256, gravel_handle(), job, from, count);
    else gravel_launch(update_gathered<512>, o.grid, 512, gravel_handle(), job, from, count);
    gravel_synchronize();
  });
  gravel_barrier_all();
}

/// Calls visit(word, value) for this PE's share of the table.
template <class Visit>
void each_word(const gups_job& job, Visit&& visit) {
  std::vector<uint64_t> part(std::min<uint64_t>(job.map.words(), 1 << 17));
  for (uint64_t begin = 0; begin < job.map.words(); begin += part.size()) {
    gravel_copy(part.data(), job.table + begin, part.size() * sizeof(uint64_t));
    for (uint64_t i = 0; i < part.size(); ++i) visit(begin + i, part[i]);
  }
}

/// This PE's share as one thread computes it, from the updates of all PEs.
std::vector<uint64_t> compute_serially(const gups_job& job, const gups_options& o) {
  const auto me = static_cast<uint32_t>(gravel_my_pe());
  std::vector<uint64_t> expected(job.map.words());
  if (job.is_xor)
    for (uint64_t i = 0; i < expected.size(); ++i) expected[i] = job.map.index_of(i, me);
  uint64_t ran = 1;
  for (uint32_t pe = 0; pe < job.map.n_pes; ++pe)
    for (uint64_t n = 0; n < o.updates; ++n) {
      ran = random_stream::next(ran);
      if (job.map.pe_of(ran, pe) != me) continue;
      uint64_t& word = expected[job.map.word_of(ran)];
      word = job.is_xor ? word ^ ran : word + 1;
    }
  return expected;
}

void verify(const gups_job& job, const gups_options& o, network_model& net, gups_run& run) {
  const auto me = static_cast<uint32_t>(gravel_my_pe());
  if (o.updates <= o.serial_limit / job.map.n_pes) {
    const std::vector<uint64_t> expected = compute_serially(job, o);
    uint64_t wrong = 0;
    each_word(job, [&](uint64_t word, uint64_t value) { wrong += value != expected[word]; });
    run.serial_checked = true;
    run.serial_errors = gravel_sum_all(wrong);
  }
  run.hash_checked = true;
  run.hash_right = hash_is_right(job, o.updates, o.grid, o.block, [&](auto&& visit) { each_word(job, visit); });
  if (job.is_xor) {
    make_updates(job, o, net, "gups: verifying");
    uint64_t wrong = 0;
    each_word(job, [&](uint64_t word, uint64_t value) { wrong += value != job.map.index_of(word, me); });
    run.undo_checked = true;
    run.undo_errors = gravel_sum_all(wrong);
  } else {
    uint64_t sum = 0;
    each_word(job, [&](uint64_t, uint64_t value) { sum += value; });
    run.sum_checked = true;
    run.sum = gravel_sum_all(sum);
  }
}

/// Of each PE's table, how many words were incremented how often.
void dump_hits(const gups_job& job, const gups_options& o) {
  std::vector<double> words;
  each_word(job, [&](uint64_t, uint64_t value) {
    if (words.size() <= value) words.resize(value + 1);
    ++words[value];
  });
  std::vector<double> hits(words.size());
  std::iota(hits.begin(), hits.end(), 0.0);
  dump_columns("gups", o.dump, "hits", {{"hits", hits}, {"words", words}});
}

gups_run run_once(const gups_job& job, const gups_options& o, network_model& net) {
  gups_run run;
  uint64_t remote = 0;
  gravel_copy(job.remote, &remote, sizeof(remote));
  gravel_launch(fill, o.grid, o.block, job, static_cast<uint32_t>(gravel_my_pe()));
  wait_to_begin_together();
  run.seconds = seconds_of([&] { make_updates(job, o, net, "gups"); });
  gravel_copy(&remote, job.remote, sizeof(remote));
  run.remote = gravel_sum_all(remote);
  if (o.fault == "place" && gravel_my_pe() == 0) misplace_update(job);
  if (!o.no_verify) verify(job, o, net, run);
  return run;
}

void gups_options::add_options(command_line& line) {
  line.add_option("--table-log2", table_log2, "Words of the table per PE, as a power of two")
      .range(1, 32)
      .capture_default_str();
  line.add_option("--updates", updates, "Updates per PE; if not given, four times the words per PE")
      .range(uint64_t{0}, uint64_t{1} << 40);
  line.add_option("--mode", mode, "xor (HPCC's update) or inc (increments)")
      .one_of({"xor", "inc"})
      .capture_default_str();
  line.add_option("--sender", sender, "block (gathered and sorted in thread blocks) or direct (warp by warp)")
      .one_of({"block", "direct"})
      .capture_default_str();
  line.add_option("--grid", grid, "Thread blocks; 0: as many as fill the device")
      .range(0, 1 << 20)
      .capture_default_str();
  line.add_option("--block", block, "Lanes per thread block: 32, 128, 256 or 512; 0: what suits the device")
      .one_of({0, 32, 128, 256, 512})
      .capture_default_str();
  network.add_options(line);
  line.add_option("--repeat", repeat, "Timed repetitions").range(1, 1000).capture_default_str();
  line.add_flag("--remote-only", remote_only, "Update only words of other PEs (needs at least 2)");
  line.add_flag("--no-verify", no_verify, "Do not check the result");
  line.add_option("--serial-limit", serial_limit, "Compare with a serial computation up to so many updates in all")
      .capture_default_str();
  line.add_option("--fault", fault, "Make the result wrong, to see that the check finds it").one_of({"place"}).hidden();
}
void gups_options::check(const command_line& line) {
  if (network.name != "gravel" && (sender != "block" || (block && block != lanes_of_block)))
    fail_text("--sender and --block are for --model gravel; the other models have blocks of " +
              std::to_string(lanes_of_block) + " lanes");
  network.prepare();
  if (line.count("--updates") == 0) updates = uint64_t{4} << table_log2;
}
uint64_t gups_options::symmetric_bytes() const { return (uint64_t{8} << table_log2) + 256 + network.symmetric_bytes(); }
void gups_options::complete() {
  if (grid == 0) grid = blocks_for(updates);
  if (block == 0) block = lanes_of_block;
}

/// The report has a JSON file of its own form, so there are no facts.
bool run(const gups_options& o, fact_list&) {
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
  const bool speaks = gravel_my_pe() == 0;
  const auto say = [&](const std::string& text) {
    if (!speaks) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  all_succeed("gups", [&] {
    if (!o.dump.empty() && o.mode == "xor") fail_text("--dump counts how often words were hit: it needs --mode inc");
    if (o.remote_only && n_pes < 2) fail_text("--remote-only needs at least 2 PEs");
  });
  const gups_table map(o.table_log2, n_pes, o.remote_only);
  auto* table = gravel_malloc<uint64_t>(map.words() * sizeof(uint64_t));
  auto* remote = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const gups_job job{map, table, remote, o.mode == "xor"};

  gups_report report{o, gravel_backend(), n_pes, static_cast<uint32_t>(gravel_n_nodes()), {}};
  say(report.header());
  {
    network_model net("gups", o.network);
    for (unsigned i = 0; i < o.repeat; ++i) {
      report.runs.push_back(run_once(job, o, net));
      say(report.line(report.runs.back()));
    }
    net.check();
  }
  say(report.rules());
  if (!o.dump.empty()) dump_hits(job, o);
  all_succeed("gups", [&] {
    if (speaks && !o.json.empty()) report.write_json(o.json);
  });
  return report.right();
}

int main(int argc, char** argv) {
  return run_application({"gups", "GUPS: HPCC RandomAccess over all PEs, xor or increments of random 8-byte words."},
                         argc, argv, gups_options{}, run);
}
