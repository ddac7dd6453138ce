// Handlers that send: every PE starts messages that hop from PE to PE, each hop an active message whose
// handler sends the next. Nobody knows how many are still under way; gravel_wait_quiescent returns when none
// is.
#include <atomic>
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/rivals/direct_sender.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;

constexpr const char* program_name = "ring_of_messages";

/// How messages travel: the argument that all of them carry along. In a ring a message goes to the next PE;
/// otherwise to a random one. When it arrives, `children` messages leave, until `hops_left` is used up.
struct travel {
  uint64_t id;
  uint32_t hops_left;
  uint16_t children;
  uint16_t is_random;
};
static_assert(sizeof(travel) == 16);

/// Child number c of a message that stands at PE `at`: what it is, and where it goes. The same everywhere, so
/// that the job can be computed again by one thread. In a ring the id stays, so that visits of the same
/// message add up.
struct next_hop {
  travel message;
  uint32_t pe;
  GRAVEL_BOTH next_hop(const travel& from, uint32_t c, uint32_t at, uint32_t n_pes) : message(from) {
    --message.hops_left;
    if (from.is_random) {
      message.id = mix(from.id + c);
      pe = pick(message.id, n_pes);
    } else pe = at + 1 == n_pes ? 0 : at + 1;
  }
};

/// Two words on each PE: visits, and the sum of the visitors' ids, which tells apart lost from doubled messages.
struct tally {
  uint64_t visits = 0, ids = 0;
};

/// Runs on the device. Each PE's tally is in its symmetric heap.
struct hop {
  static constexpr const char* name = "hop";
  using context = tally;
  GRAVEL_HANDLER void operator()(const gravel_t& g, tally* mine, travel message) const {
    gravel_local_add(g, &mine->visits, 1);
    gravel_local_add(g, &mine->ids, message.id);
    if (message.hops_left == 0) return;
    for (uint32_t c = 0; c < message.children; ++c) {
      const next_hop next(message, c, g.my_pe, g.n_pes);
      gravel_am<hop>(g, static_cast<int>(next.pe), next.message);
    }
  }
};

std::atomic<uint64_t> visits_on_host{0}, ids_on_host{0};

/// The same on the PE's receiver thread.
struct hop_on_host {
  static constexpr const char* name = "hop_on_host";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t& g, travel message) const {
#if !GRAVEL_ON_GPU
    visits_on_host += 1;
    ids_on_host += message.id;
#endif
    if (message.hops_left == 0) return;
    for (uint32_t c = 0; c < message.children; ++c) {
      const next_hop next(message, c, g.my_pe, g.n_pes);
      gravel_am<hop_on_host>(g, static_cast<int>(next.pe), next.message);
    }
  }
};

/// Message number i that PE `pe` starts, as it stands there before its first hop.
GRAVEL_BOTH travel seed_message(const travel& kind, uint32_t pe, uint64_t i) {
  travel message = kind;
  message.id = mix(kind.id + (uint64_t{pe} << 40 | i));
  return message;
}

__global__ void start_on_device(gravel_t g, travel kind, uint64_t messages) {
  const lane_share mine(messages);
  for (uint64_t i = mine.first; i < mine.last; ++i) {
    const travel message = seed_message(kind, g.my_pe, i);
    for (uint32_t c = 0; c < message.children; ++c) {
      const next_hop next(message, c, g.my_pe, g.n_pes);
      gravel_am<hop>(g, static_cast<int>(next.pe), next.message);
    }
  }
}

void start_on_host(const gravel_t& g, const travel& kind, uint64_t messages) {
  for (uint64_t i = 0; i < messages; ++i) {
    const travel message = seed_message(kind, g.my_pe, i);
    for (uint32_t c = 0; c < message.children; ++c) {
      const next_hop next(message, c, g.my_pe, g.n_pes);
      gravel_am<hop_on_host>(g, static_cast<int>(next.pe), next.message);
    }
  }
}

/// Follows the children of `message`, which stands at PE `at`; adds up what visits PE `me`. The last child takes its
/// parent's place, so a chain of any length needs no stack.
void follow(travel message, uint32_t at, uint32_t me, uint32_t n_pes, tally& sum) {
  while (message.hops_left > 0) {
    const travel parent = message;
    const uint32_t from = at;
    for (uint32_t c = 0; c < parent.children; ++c) {
      const next_hop next(parent, c, from, n_pes);
      if (next.pe == me) {
        sum.visits += 1;
        sum.ids += next.message.id;
      }
      if (c + 1 < parent.children) follow(next.message, next.pe, me, n_pes, sum);
      else {
        message = next.message;
        at = next.pe;
      }
    }
  }
}

/// In a ring no message need be followed: of `hops` hops from PE `from`, how many end at PE `me`.
uint64_t ring_visits(uint32_t from, uint32_t me, uint32_t n_pes, uint64_t hops) {
  const uint64_t first = (me + n_pes - from - 1) % n_pes + 1;  // number of the first hop that does
  return hops < first ? 0 : (hops - first) / n_pes + 1;
}

tally compute_serially(const travel& kind, uint64_t messages) {
  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  tally sum;
  for (uint32_t pe = 0; pe < n_pes; ++pe)
    for (uint64_t i = 0; i < messages; ++i) {
      const travel message = seed_message(kind, pe, i);
      if (kind.is_random) {
        follow(message, pe, me, n_pes, sum);
      } else {
        const uint64_t visits = ring_visits(pe, me, n_pes, kind.hops_left);
        sum.visits += visits;
        sum.ids += visits * message.id;
      }
    }
  return sum;
}

/// Messages that grow out of one: children + children^2 + ..., `hops` terms; ends early once it exceeds
/// `limit`.
uint64_t messages_of_one(uint64_t children, uint64_t hops, uint64_t limit) {
  if (children == 1) return hops;
  uint64_t generation = 1, sum = 0;
  for (uint64_t h = 0; h < hops && sum <= limit; ++h) sum += generation *= children;
  return sum;
}

struct ring_options {
  uint64_t messages = 1000, seed = 1;
  travel kind{0, 64, 1, 0};
  bool is_random = false, on_host = false;
  unsigned grid = 1, block = 128;

  void add_options(command_line& line) {
    line.add_option("--messages", messages, "Messages that each PE starts")
        .range(uint64_t{0}, uint64_t{1} << 32)
        .capture_default_str();
    line.add_option("--hops", kind.hops_left, "Hops of each message").range(1u, 1u << 30).capture_default_str();
    line.add_flag("--random", is_random, "Hop to random PEs instead of the next one");
    line.add_option("--fan-out", kind.children, "Messages that leave where one arrives; more than 1 go to random PEs")
        .range(1, 1024)
        .capture_default_str();
    line.add_flag("--on-host", on_host, "Run the handler on the PEs' host threads, not on the device");
    line.add_option("--seed", seed, "Of the random hops").capture_default_str();
    line.add_option("--grid", grid, "Thread blocks that start messages").range(1, 1 << 16).capture_default_str();
    line.add_option("--block", block, "Lanes per thread block").range(1, 1024).capture_default_str();
  }
  void check() {
    constexpr uint64_t limit = uint64_t{1} << 32;
    const uint64_t of_one = messages_of_one(kind.children, kind.hops_left, limit);
    if (messages && of_one > limit / messages)
      fail_text("each PE would cause more than " + std::to_string(limit) +
                " messages: take fewer --messages, --hops or a smaller --fan-out");
    kind.is_random = is_random || kind.children > 1;
    kind.id = mix(seed);
  }
};

bool send_around(const ring_options& o, fact_list&) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  auto* counts = gravel_malloc<tally>(sizeof(tally));
  gravel_set_context<hop>(counts);
  wait_to_begin_together();
  const double seconds = seconds_of([&] {
    if (o.on_host) {
      start_on_host(gravel_host_handle(), o.kind, o.messages);
    } else {
      gravel_launch(start_on_device, o.grid, o.block, gravel_handle(), o.kind, o.messages);
    }
    gravel_wait_quiescent();
  });

  tally seen;
  gravel_copy(&seen, counts, sizeof(seen));
  if (o.on_host) seen = {visits_on_host, ids_on_host};
  const tally expected = compute_serially(o.kind, o.messages);
  const uint64_t wrong = gravel_sum_all(seen.visits != expected.visits || seen.ids != expected.ids);
  const uint64_t all = gravel_sum_all(seen.visits), due = gravel_sum_all(expected.visits);
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend, handlers on the %s\n%.3f s: %llu hops of %llu, %.4g M hops/s; "
        "%llu PEs counted wrong\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.on_host ? "host" : "device", seconds,
        static_cast<unsigned long long>(all), static_cast<unsigned long long>(due),
        static_cast<double>(all) / seconds / 1e6, static_cast<unsigned long long>(wrong));
  return wrong == 0;
}

int main(int argc, char** argv) {
  return run_application<hop, hop_on_host>(
      {program_name, "Messages that hop from PE to PE: handlers that send, and waiting until none is under way."}, argc,
      argv, ring_options{}, send_around);
}
