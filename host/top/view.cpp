#include "host/top/view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "host/node/stats.hpp"

namespace gravel::detail {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* queue_names[] = {"warp", "block", "host", "device_handler", "host_handler"};
static_assert(std::size(queue_names) == n_queue_kinds);
constexpr const char* landing_names[] = {"device", "host"};

/// The statistics of all planes of a node.
stats_row total(const node_sample& n) {
  stats_row all;
  for (const plane_sample& p : n.planes)
    for (uint32_t i = 0; i < n_stats; ++i) all.value[i] += p.stats[i];
  return all;
}
/// Messages that the node's aggregator has taken and that are not known to be applied.
uint64_t outstanding(const node_sample& n) {
  uint64_t taken = 0, acked = 0;
  for (const plane_sample& p : n.planes) {
    taken += p.taken;
    acked += p.acked;
  }
  return taken - std::min(acked, taken);
}
uint64_t sum(const std::vector<uint64_t>& values) { return std::accumulate(values.begin(), values.end(), uint64_t{0}); }
uint64_t ring_outstanding(const pe_sample& p) {
  uint64_t all = 0;
  for (const ring_sample& r : p.rings) all += r.sent - std::min(r.applied, r.sent);
  return all;
}
/// Slots of a queue that are not applied although somebody waits for them.
uint64_t unflushed(const queue_sample& q) { return q.wanted - std::min(q.flushed, q.wanted); }

/// Per second; 0 if no time lies between.
double rate(uint64_t before, uint64_t now, uint64_t before_us, uint64_t now_us) {
  if (now_us <= before_us || now < before) return 0;
  return static_cast<double>(now - before) * 1e6 / static_cast<double>(now_us - before_us);
}

/// A node, and its sample before.
struct node_pair {
  const node_sample &before, &now;
  double rate_of(stat s) const { return rate(total(before)[s], total(now)[s], before.now_us, now.now_us); }
};
struct pe_pair {
  const node_sample &node_before, &node_now;
  const pe_sample &before, &now;
  double taken() const {
    return rate(sum(before.messages_to), sum(now.messages_to), node_before.now_us, node_now.now_us);
  }
  double in_place() const { return rate(before.in_place, now.in_place, before.reported_us, now.reported_us); }
  double to_peers() const { return rate(before.to_peers, now.to_peers, before.reported_us, now.reported_us); }
};
std::vector<node_pair> nodes_of(const watched_job& before, const watched_job& now) {
  std::vector<node_pair> pairs;
  for (size_t i = 0; i < now.nodes.size(); ++i) pairs.push_back({before.nodes[i].sample, now.nodes[i].sample});
  return pairs;
}
std::vector<pe_pair> pes_of(const watched_job& before, const watched_job& now) {
  std::vector<pe_pair> pairs;
  for (const node_pair& n : nodes_of(before, now))
    for (size_t i = 0; i < n.now.pes.size(); ++i) pairs.push_back({n.before, n.now, n.before.pes[i], n.now.pes[i]});
  return pairs;
}

/// A number in a few characters, such as 12.3M.
std::string brief(double value) {
  constexpr const char* units[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, units[unit]);
}
std::string brief(uint64_t value) { return brief(static_cast<double>(value)); }

std::string list_of(const std::vector<uint32_t>& pes) {
  constexpr size_t most = 8;
  const std::vector<uint32_t> first(pes.begin(), pes.begin() + static_cast<ptrdiff_t>(std::min(most, pes.size())));
  const std::string rest = pes.size() > most ? fmt::format(" and {} more", pes.size() - most) : "";
  return fmt::format("PE {}{}", fmt::join(first, ", "), rest);
}

std::string line_of(const node_pair& n) {
  const stats_row row = total(n.now);
  const auto share = [&](stat s) {
    return n.rate_of(s) / 1e4 / static_cast<double>(n.now.planes.size());  // microseconds a second, as per cent
  };
  return fmt::format(
      "node {}, aggregator {}, {} threads: {} messages/s ({} to other nodes), {} packets/s, {}B/s, {} stalls/s\n"
      "  {} messages not applied; {} forwarded, {} spilled in all; threads work {:.0f} %, wait for room {:.0f} %, for "
      "slots {:.0f} %\n",
      n.now.node, n.now.process, n.now.planes.size(), brief(n.rate_of(stat::messages_taken)),
      brief(n.rate_of(stat::messages_off_node)), brief(n.rate_of(stat::packets)), brief(n.rate_of(stat::packet_bytes)),
      brief(n.rate_of(stat::stalls)), brief(outstanding(n.now)), brief(row[stat::messages_forwarded]),
      brief(row[stat::messages_spilled]), share(stat::busy_us), share(stat::no_credit_us), share(stat::no_slot_us));
}

std::string fill_of_queues(const pe_sample& p) {
  std::vector<std::string> parts;
  for (const queue_sample& q : p.queues) parts.push_back(fmt::format("{}/{}", q.waiting, q.slots));
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::vector<wait> find_waits(const watched_job& job) {
  std::vector<wait> waits;
  for (const watched_node& n : job.nodes)
    for (const pe_sample& p : n.sample.pes) {
      if (!p.call_text.empty()) {
        std::vector<uint32_t> late;
        for (const watched_node& other : job.nodes)
          for (const pe_sample& o : other.sample.pes)
            if (o.call < p.call) late.push_back(o.pe);
        waits.push_back({p.pe, fmt::format("is in {} (call {})", p.call_text, p.call), late});
      }
      for (uint32_t kind = 0; kind < n_queue_kinds; ++kind)
        if (const uint64_t slots = unflushed(p.queues[kind]); slots != 0)
          waits.push_back({p.pe,
                           fmt::format("waits until messages in {} slots of its {} are applied", slots,
                                       name_of(static_cast<queue_kind>(kind))),
                           {}});
      for (const ring_sample& r : p.rings)
        if (r.sent > r.applied)
          waits.push_back({p.pe,
                           fmt::format("has {} chunks on the route peer that are not applied", r.sent - r.applied),
                           {static_cast<uint32_t>(r.pe)}});
      if (!p.long_wait.empty()) waits.push_back({p.pe, "has a kernel that waits for long for " + p.long_wait, {}});
    }
  return waits;
}

std::string view_text(const watched_job& before, const watched_job& now, const std::vector<uint32_t>& silent) {
  std::string text = now.text() + "\n";
  for (const node_pair& n : nodes_of(before, now)) text += line_of(n);
  for (uint32_t node : silent) text += fmt::format("node {} does not answer; is its aggregator stopped?\n", node);
  text += fmt::format("{:>6} {:>8} {:>8} {:>8} {:>10} {:>10} {:>11} {:>11} {:>8}  {}\n", "PE", "process", "taken",
                      "taken/s", "in place/s", "to peers/s", "landed dev", "landed host", "on rings",
                      "slots: warp block host, handlers' device host");
  for (const pe_pair& p : pes_of(before, now)) {
    const auto landed = [&](size_t sink) {
      return fmt::format("{}/{}", p.now.landing[sink].waiting, p.now.landing[sink].packets);
    };
    const bool reports = p.now.reported_us != 0, counts = !p.now.messages_to.empty();
    text += fmt::format("{:>6} {:>8} {:>8} {:>8} {:>10} {:>10} {:>11} {:>11} {:>8}  {}\n", p.now.pe, p.now.process,
                        counts ? brief(sum(p.now.messages_to)) : "-", counts ? brief(p.taken()) : "-",
                        reports ? brief(p.in_place()) : "-", reports ? brief(p.to_peers()) : "-", landed(0), landed(1),
                        reports ? brief(ring_outstanding(p.now)) : "-", fill_of_queues(p.now));
  }
  for (const wait& w : find_waits(now))
    text += fmt::format("PE {} {}{}\n", w.pe, w.text, w.for_pes.empty() ? "" : ", and waits for " + list_of(w.for_pes));
  return text;
}

json view_json(const watched_job& before, const watched_job& now, const std::vector<uint32_t>& silent) {
  const node_sample& first = now.nodes.front().sample;
  json out{{"program", now.program}, {"launcher", now.launcher}, {"n_pes", first.n_pes}, {"n_nodes", first.n_nodes}};
  out["interval_s"] = static_cast<double>(first.now_us - before.nodes.front().sample.now_us) / 1e6;
  out["silent_nodes"] = silent;
  out["nodes"] = json::array();
  for (const node_pair& n : nodes_of(before, now)) {
    json node{{"node", n.now.node}, {"process", n.now.process}, {"threads", n.now.planes.size()}};
    node["outstanding"] = outstanding(n.now);
    const stats_row row = total(n.now);
    for (uint32_t i = 0; i < n_stats; ++i) {
      const auto s = static_cast<stat>(i);
      // The aggregator does not count what only PEs know.
      if (s == stat::messages_in_place || s == stat::messages_to_peers) continue;
      node["total"][name_of(s)] = row[s];
      node["per_second"][name_of(s)] = n.rate_of(s);
    }
    out["nodes"].push_back(std::move(node));
  }
  out["pes"] = json::array();
  for (const pe_pair& p : pes_of(before, now)) {
    json pe{{"pe", p.now.pe}, {"process", p.now.process}, {"node", p.node_now.node}, {"kernels", p.now.kernels}};
    pe["messages_taken_to"] = p.now.messages_to;
    pe["messages_taken_per_second"] = p.taken();
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      const queue_sample& q = p.now.queues[kind];
      pe["queues"][queue_names[kind]] = {
          {"slots", q.slots}, {"taken", q.taken}, {"waiting", q.waiting}, {"unflushed", unflushed(q)}};
      if (p.now.reported_us) pe["queues"][queue_names[kind]]["claimed"] = p.now.claimed[kind];
    }
    for (size_t sink = 0; sink < 2; ++sink) {
      const landing_sample& l = p.now.landing[sink];
      pe["landing"][landing_names[sink]] = {{"packets", l.packets}, {"arrived", l.arrived}, {"waiting", l.waiting}};
    }
    if (p.now.reported_us) {
      pe["report_age_s"] =
          static_cast<double>(p.node_now.now_us - std::min(p.now.reported_us, p.node_now.now_us)) / 1e6;
      pe["messages_in_place"] = p.now.in_place;
      pe["messages_to_peers"] = p.now.to_peers;
      pe["in_place_per_second"] = p.in_place();
      pe["to_peers_per_second"] = p.to_peers();
      pe["rings"] = json::array();
      for (const ring_sample& r : p.now.rings)
        pe["rings"].push_back({{"pe", r.pe}, {"sent", r.sent}, {"applied", r.applied}});
    }
    out["pes"].push_back(std::move(pe));
  }
  out["waits"] = json::array();
  for (const wait& w : find_waits(now)) out["waits"].push_back({{"pe", w.pe}, {"text", w.text}, {"for", w.for_pes}});
  return out;
}

}  // namespace gravel::detail
