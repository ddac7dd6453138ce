#include "lib/base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "lib/base/closest_name.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t KiB = 1024, MiB = KiB * 1024, GiB = MiB * 1024;
constexpr uint64_t unbounded = std::numeric_limits<int64_t>::max();

setting_row number_row(const char* name, const char* value, const char* unit, uint64_t least, uint64_t most,
                       uint64_t settings::*member, const char* meaning) {
  return {name, setting_kind::number, value, unit, least, most, meaning, member, nullptr, nullptr, ""};
}
setting_row size_row(const char* name, const char* value, uint64_t least, uint64_t most, uint64_t settings::*member,
                     const char* meaning) {
  return {name, setting_kind::size, value, "bytes", least, most, meaning, member, nullptr, nullptr, ""};
}
setting_row flag_row(const char* name, const char* value, bool settings::*member, const char* meaning) {
  return {name, setting_kind::flag, value, "", 0, 1, meaning, nullptr, member, nullptr, ""};
}
setting_row text_row(const char* name, const char* value, std::string settings::*member, const char* meaning,
                     const char* choices = "") {
  return {name, setting_kind::text, value, "", 0, 0, meaning, nullptr, nullptr, member, choices};
}

uint64_t parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size()) fail("'{}' is not a whole number", text);
  return value;
}

bool parse_flag(std::string_view text) {
  for (const char* yes : {"1", "y", "yes", "true", "on"})
    if (text == yes) return true;
  for (const char* no : {"0", "n", "no", "false", "off", ""})
    if (text == no) return false;
  fail("'{}' is neither yes nor no (1, y, yes, true, on; 0, n, no, false, off)", text);
}

/// True if `text` is one of `choices` ("one, another").
bool is_one_of(const std::string& text, const std::string& choices) {
  return text.find(',') == std::string::npos && (", " + choices + ",").find(", " + text + ",") != std::string::npos;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}
/// True for "GRAVLE_STATS" and "GRAVEL_STATS", for example.
bool is_misspelt_prefix(std::string_view name, std::string_view variable) {
  const size_t begin = name.find('_'), end = variable.find('_');
  return begin != std::string_view::npos && equal_ignoring_case(name.substr(begin), variable.substr(end)) &&
         edit_distance(name.substr(0, begin), variable.substr(0, end)) <= 1;
}
/// The variables whose meaning begins with a phrase that contains a word of `name`, if there are one or two. For
/// example "HEAP_SIZE" finds the symmetric heap. "SIZE" itself is too common.
std::vector<std::string> settings_about(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> found;
  for (const auto& row : setting_table()) {
    const std::string_view meaning =
        std::string_view(row.meaning).substr(0, std::string_view(row.meaning).find_first_of(":(;,"));
    for (size_t at = 0; at < name.size();) {
      const size_t end = std::min(name.find('_', at), name.size());
      const std::string word = " " + name.substr(at, end - at) + " ";
      at = end + 1;
      if (word.size() < 6 || word == " size " || (" " + std::string(meaning) + " ").find(word) == std::string::npos)
        continue;
      found.push_back(row.name);
      break;
    }
  }
  return found.size() <= 2 ? found : std::vector<std::string>();
}

}  // namespace

const std::vector<setting_row>& setting_table() {
  using s = settings;
  static const std::vector<setting_row> table = {
      size_row(
          "GRAVEL_SYMMETRIC_SIZE", "0", 0, 1ull << 43, &s::symmetric_size,
          "the most that the symmetric heap of each PE may grow to, at least 64K (0: what its memory allows; 1G if "
          "the heap cannot grow, see GRAVEL_HANDLE_TYPE)"),
      text_row(
          "GRAVEL_HANDLE_TYPE", "auto", &s::handle_type,
          "how PEs share GPU memory: descriptor (the heap grows; Unix sockets pass descriptors), fabric (the same with "
          "fabric handles, which need an IMEX channel and reach other hosts of the NVLink domain), ipc (cudaIpc: the "
          "heap has a fixed size), or auto (fabric where the NVLink domain goes beyond the host and there is a "
          "channel, "
          "else descriptor where the GPU can, else fabric, else ipc)",
          "auto, descriptor, fabric, ipc"),
      text_row(
          "GRAVEL_DOMAIN", "auto", &s::domain,
          "whose memory a PE maps for the route peer: auto (of all PEs that its handles reach, but not of emulated "
          "nodes), node (of its own node alone), or handles (of all that its handles reach, so that emulated nodes "
          "are one domain)",
          "auto, node, handles"),
      size_row("GRAVEL_PACKET_SIZE", "64K", 4 * KiB, 1 * MiB, &s::packet_size,
               "packet: what the aggregator sends to one destination at once"),
      number_row("GRAVEL_PACKETS_PER_DESTINATION", "3", "packets", 2, 1024, &s::packets_per_destination,
                 "packets in flight to one destination, per aggregator thread"),
      number_row("GRAVEL_TIMEOUT_US", "125", "us", 0, 10'000'000, &s::timeout_us,
                 "age at which a packet that is not full leaves"),
      number_row(
          "GRAVEL_IDLE_US", "20", "us", 0, 10'000'000, &s::idle_us,
          "a packet leaves before its age when nothing is in flight to its destination and no message has come for "
          "this long or the packet is large"),
      text_row("GRAVEL_AGGREGATION", "packets", &s::aggregation,
               "what the aggregator sends at once: packets; or, to compare with, each row of a slot (rows) or each "
               "message (messages) as a packet of its own, which leaves as if it were full",
               "packets, rows, messages"),
      number_row("GRAVEL_AGGREGATOR_THREADS", "0", "threads", 0, 64, &s::aggregator_threads,
                 "threads of each node's aggregator (0: one per eight cores, at most 4)"),
      text_row("GRAVEL_AGGREGATOR_BIND", "auto", &s::aggregator_bind,
               "where these threads run: auto (near the GPUs of the node's PEs, if hwloc knows them and they are not "
               "near the whole machine); none (not bound); or a list of processors such as 0-3,8"),
      number_row("GRAVEL_TWO_HOP_NODES", "32", "nodes", 4, 65536, &s::two_hop_nodes,
                 "number of nodes from which packets go in two hops"),
      size_row("GRAVEL_EAGER_SIZE", "4K", 0, 64 * KiB, &s::eager_size,
               "packets up to this size travel inside their arrival notice instead of by an RDMA put"),
      size_row("GRAVEL_ZERO_COPY_SIZE", "8K", 0, 1 * MiB, &s::zero_copy_size,
               "what goes into a packet to another node from one row of a block's slot is not copied if it is at least "
               "this long: it is put straight from there (0: all is copied)"),
      size_row("GRAVEL_SPILL_SIZE", "256M", 64 * KiB, unbounded, &s::spill_size,
               "memory per aggregator for messages that handlers send faster than they can leave"),
      size_row("GRAVEL_SLOT_SIZE", "16K", 4 * KiB, 64 * KiB, &s::slot_size,
               "queue slot of a thread block: what gravel_block_sender hands over at once"),
      number_row("GRAVEL_SLOTS", "4096", "slots", 4, 65536, &s::slots, "block slots in a PE's queue"),
      number_row("GRAVEL_WARP_SLOTS", "8192", "slots", 4, 1 << 20, &s::warp_slots,
                 "warp slots in each of a PE's queues for direct sends"),
      number_row(
          "GRAVEL_PEER_CHUNKS", "0", "chunks", 0, 65536, &s::peer_chunks,
          "chunks of each ring between two GPUs of a domain (route peer), at least 4 (0: 2048 for one peer, 1024 "
          "for two or three, 512 for up to seven and so on, since a PE's rings are fastest in the L2 cache)"),
      size_row("GRAVEL_PEER_CHUNK_SIZE", "4K", 4 * KiB, 1 * MiB, &s::peer_chunk_size,
               "messages in one of these chunks"),
      size_row("GRAVEL_OWN_RING_SIZE", "0", 0, unbounded, &s::own_ring_size,
               "memory for active messages of a PE to itself, and for those that its handlers send and peers have no "
               "room for yet, if the program has handlers on the device (0: a 16th of the GPU's memory; on the CPU "
               "backend 16M, and none without the route peer)"),
      number_row("GRAVEL_REPLY_CELLS", "65536", "cells", 64, 1 << 22, &s::reply_cells,
                 "requests that may be in flight in one PE at once: gets (of bulk ones each 16 bytes), and operations "
                 "that wait for a value; of kernels and of host threads, each"),
      number_row("GRAVEL_NODES", "1", "nodes", 1, 65536, &s::nodes,
                 "split the PEs of each host into this many emulated nodes (ucx-run --nodes sets it)"),
      number_row("GRAVEL_CPU_THREADS", "0", "threads", 0, 1024, &s::cpu_threads,
                 "CPU backend: threads that run a kernel's blocks (0: cores divided by PEs of the host)"),
      number_row("GRAVEL_CPU_SEED", "0", "", 0, unbounded, &s::cpu_seed,
                 "CPU backend: seed that permutes the order of lanes and blocks (0: plain order)"),
      size_row("GRAVEL_CPU_STACK_SIZE", "64K", 16 * KiB, 1 * GiB, &s::cpu_stack_size,
               "CPU backend: stack of each lane of a kernel"),
      number_row("GRAVEL_RESOLVER_BLOCKS", "8", "blocks", 1, 1024, &s::resolver_blocks,
                 "CUDA: thread blocks of the kernel that applies arriving messages (at most a quarter of the "
                 "multiprocessors; an eighth of a part of 16 or fewer under MPS)"),
      number_row("GRAVEL_RESOLVER_RING_BLOCKS", "40", "blocks", 1, 1024, &s::resolver_ring_blocks,
                 "CUDA: more of them for what peers push, while the route peer is used (at most half of the "
                 "multiprocessors; an "
                 "eighth of a part of 16 or fewer under MPS)"),
      number_row("GRAVEL_RESOLVER_QUANTUM_US", "2000", "us", 100, 1'000'000, &s::resolver_quantum_us,
                 "CUDA: longest life of one resolver kernel while no kernel of gravel_launch runs; when nothing has "
                 "come for 200 us it ends before that"),
      flag_row("GRAVEL_RESOLVER_RESIDENT", "yes", &s::resolver_resident,
               "CUDA: keep the resolver kernel running beside kernels of gravel_launch; no is for tools that run one "
               "kernel at a time (compute-sanitizer), and then kernels must not wait for answers"),
      text_row("GRAVEL_PARTITION", "lease", &s::partition,
               "CUDA: where kernels that stay resident run: lease (where they find room, before kernels of "
               "gravel_launch start); green (besides, on multiprocessors of their own, green contexts of the driver; "
               "else the job ends); auto (green where the driver has it and there is no MPS)",
               "lease, green, auto"),
      number_row("GRAVEL_WATCHDOG_S", "60", "s", 0, 86400, &s::watchdog_s,
                 "a wait without any progress for this long dumps the state and ends the job (0: never)"),
      number_row("GRAVEL_CONNECT_TIMEOUT_S", "60", "s", 1, 3600, &s::connect_timeout_s,
                 "time within which all processes of the job must have started and connected"),
      flag_row("GRAVEL_STATS", "no", &s::stats, "print network statistics when the job ends"),
      text_row("GRAVEL_STATS_JSON", "", &s::stats_json, "file to which PE 0 writes the statistics as JSON"),
      text_row("GRAVEL_AGGREGATOR", "", &s::aggregator,
               "path of gravel-aggregator (default: beside libgravel, its bin folder, then PATH)"),
      text_row("GRAVEL_LOG", "warning", &s::log, "log level: debug, info, warning or error",
               "debug, info, warning, error"),
      text_row("GRAVEL_ROUTES", "auto", &s::routes,
               "routes that may be used: auto; no-peer (self and net); net (even to this PE itself); peer (as auto, "
               "and where two PEs of a domain cannot map each other's memory, or their GPUs have no atomic operations "
               "between them, the job ends); rings (as auto, but no operation is done in a peer's memory, as between "
               "GPUs without such atomic operations); direct (as auto, but block senders, too, send to peers one by "
               "one). On the CPU backend auto is no-peer",
               "auto, no-peer, net, peer, rings, direct"),
      text_row("GRAVEL_FAULT", "", &s::fault, "for tests: a fault to inject, as KIND:PE:COUNT (docs/failure.md)"),
  };
  return table;
}

uint64_t parse_size(const std::string& text) {
  const size_t digits =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return !std::isdigit(c); }) - text.begin();
  std::string unit = text.substr(digits);
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::toupper(c); });
  if (digits == 0) fail("'{}' is not a size (examples: 4096, 64K, 1GiB)", text);
  uint64_t scale = 1;
  if (!unit.empty() && unit != "B") {
    const size_t power = std::string_view("KMGT").find(unit[0]);
    if (power == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "B" && unit.substr(1) != "IB"))
      fail("'{}' is not a size (examples: 4096, 64K, 1GiB)", text);
    scale = 1ull << (10 * (power + 1));
  }
  const uint64_t value = parse_number(std::string_view(text).substr(0, digits));
  if (value > unbounded / scale) fail("'{}' is too large", text);
  return value * scale;
}

settings read_settings(const std::function<const char*(const char*)>& lookup) {
  settings result{};
  for (const auto& row : setting_table()) {
    const char* found = lookup(row.name);
    const std::string text = found ? found : row.default_value;
    try {
      switch (row.kind) {
        case setting_kind::text: result.*row.text = text; break;
        case setting_kind::flag: result.*row.flag = parse_flag(text); break;
        default: {
          const uint64_t value = row.kind == setting_kind::size ? parse_size(text) : parse_number(text);
          if (value < row.least || value > row.most)
            fail("'{}' is out of range: {} to {} {}", text, row.least, row.most, row.unit);
          result.*row.number = value;
        }
      }
    } catch (const error& e) {
      fail("{}: {}; it means: {}", row.name, e.what(), row.meaning);
    }
  }
  for (auto [value, name] : {std::pair{result.packet_size, "GRAVEL_PACKET_SIZE"},
                             {result.slot_size, "GRAVEL_SLOT_SIZE"},
                             {result.symmetric_size, "GRAVEL_SYMMETRIC_SIZE"},
                             {result.peer_chunk_size, "GRAVEL_PEER_CHUNK_SIZE"}})
    if (value % 4096) fail("{}: {} bytes is not a multiple of 4096", name, value);
  if (result.symmetric_size && result.symmetric_size < 64 * KiB)
    fail("GRAVEL_SYMMETRIC_SIZE: {} bytes; at least 64K, or 0", result.symmetric_size);
  for (auto [value, name] : {std::pair{result.slots, "GRAVEL_SLOTS"},
                             {result.warp_slots, "GRAVEL_WARP_SLOTS"},
                             {result.peer_chunks, "GRAVEL_PEER_CHUNKS"}})
    if (value & (value - 1)) fail("{}: {} is not a power of two", name, value);
  if (result.peer_chunks && result.peer_chunks < 4)
    fail("GRAVEL_PEER_CHUNKS: {} chunks; at least 4, or 0", result.peer_chunks);
  for (const auto& row : setting_table())
    if (*row.choices && !is_one_of(result.*row.text, row.choices))
      fail("{}: '{}' is none of {}", row.name, result.*row.text, row.choices);
  return result;
}

const settings& current_settings() {
  static const settings result = read_settings(std::getenv);
  return result;
}

settings resolved_settings(uint32_t host_pes) {
  settings s = current_settings();
  set_log_level(s.log);
  // All cores that are online, not only those that this process may use: launchers bind each PE to one core, and all
  // processes of a node must compute the same numbers.
  const auto cores = static_cast<uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
  if (s.aggregator_threads == 0) s.aggregator_threads = std::clamp(cores / 8, 1u, 4u);
  if (s.cpu_threads == 0) s.cpu_threads = std::max(1u, cores / std::max(1u, host_pes));
  return s;
}

std::vector<std::string> unknown_settings(char** environment) {
  std::vector<std::string> unknown;
  for (char** entry = environment; *entry; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    const auto& table = setting_table();
    if (name == "GRAVEL_CXX" || name == "GRAVEL_NVCC") continue;  // variables of gravel-c++ and gravel-nvcc
    const bool is_ours = text.starts_with("GRAVEL_");
    if (is_ours ? std::none_of(table.begin(), table.end(), [&](const auto& row) { return name == row.name; })
                : std::any_of(table.begin(), table.end(),
                              [&](const auto& row) { return is_misspelt_prefix(name, row.name); }))
      unknown.push_back(name);
  }
  return unknown;
}

std::string describe_unknown_setting(const std::string& name) {
  // The common prefix is left out, since it would make any two names similar.
  const size_t begin = name.find('_');
  const std::string own = begin == std::string::npos ? name : name.substr(begin + 1);
  std::vector<std::string> names;
  for (const auto& row : setting_table()) names.push_back(row.name + std::strlen("GRAVEL_"));
  std::vector<std::string> meant;
  if (const std::string closest = closest_name(own, names); !closest.empty()) meant.push_back("GRAVEL_" + closest);
  else meant = settings_about(own);
  std::string text = name + " is not a variable of Gravel";
  for (size_t i = 0; i < meant.size(); ++i) text += (i ? " or " : " (did you mean ") + meant[i];
  return text + (meant.empty() ? "" : "?)") + "; gravel-info -c lists them";
}

}  // namespace gravel::detail
