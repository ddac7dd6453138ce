#include "host/aggregator/gathering.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "host/node/clock.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

struct arrival {
  hello h;
  pe_segment segment;
  node_socket socket;
  pid_t process;
};
using arrivals_by_pe = std::map<uint32_t, arrival>;

/// Waits at most a moment until a process connects. Watches the PEs that have connected, and the parent: if one of them
/// ended now, all others would wait forever.
bool somebody_connects(int listener, const arrivals_by_pe& here, pid_t parent, uint64_t limit_us) {
  std::vector<pollfd> watched{{listener, POLLIN, 0}};
  for (const auto& [pe, a] : here) watched.push_back({a.socket.descriptor(), POLLIN, 0});
  poll(watched.data(), watched.size(), static_cast<int>(std::min<uint64_t>(limit_us / 1000 + 1, 200)));
  for (size_t i = 1; const auto& [pe, a] : here)
    if (watched[i++].revents) fail_second_hand(fmt::format("PE {} ended while the job was starting", pe));
  if (getppid() != parent)
    fail_second_hand(
        fmt::format("process {}, which started this aggregator, ended while the job was starting", parent));
  return watched[0].revents & POLLIN;
}

void welcome(node_socket socket, const expected_pes& expected, const settings& values, arrivals_by_pe& here) {
  pid_t process = -1;
  try {
    process = socket.check_peer();
  } catch (const error& e) {
    log_warning("{}; refused", e.what());
    return;
  }
  socket.limit_waits(2 * values.connect_timeout_s);
  socket.limit_sends(2 * values.connect_timeout_s);
  auto first = socket.receive();
  if (!first) fail_second_hand(fmt::format("process {} connected and ended while the job was starting", process));
  if (first->kind != wire_kind::hello) fail("process {} connected but is no PE", process);
  auto h = first->as<hello>(fmt::format("process {}", process));
  const uint32_t pe = h.pe;
  if (here.contains(pe)) fail("PE {} connected twice", pe);
  check_hello(h, here.empty() ? nullptr : &here.begin()->second.h, expected, values);
  pe_segment segment = pe_segment::attach(std::move(first->descriptor), h.shape, pe);
  here.emplace(pe, arrival{std::move(h), std::move(segment), std::move(socket), process});
}

}  // namespace

void fail_second_hand(const std::string& text) {
  wait_for_root_cause();
  fail_text(text);
}

std::string local_pes::name_of_handler(uint32_t id) const {
  for (const auto& [known, name] : handlers)
    if (known == id) return name;
  return {};
}

void check_hello(const hello& h, const hello* first, const expected_pes& expected, const settings& values) {
  if (first && h.node != first->node)
    fail("PE {} of node {} connected to the aggregator of node {}", h.pe, h.node, first->node);
  const auto here = static_cast<uint64_t>(std::count(h.node_of_pe.begin(), h.node_of_pe.end(), h.node));
  if (h.node_of_pe.size() != expected.of_job || here != expected.here)
    fail("PE {} says that its job has {} PEs, {} of them on node {}; there are {} and {}", h.pe, h.node_of_pe.size(),
         here, h.node, expected.of_job, expected.here);
  if (first && h.node_of_pe != first->node_of_pe)
    fail("PE {} says that other PEs are on other nodes than PE {} does", h.pe, first->pe);
  if (first && h.one_host != first->one_host)
    fail("PE {} and PE {} do not agree whether all PEs are on one host", first->pe, h.pe);
  const segment_shape own = make_segment_shape(values, topology(h.node_of_pe, values.two_hop_nodes), h.node);
  if (const char* const what = h.shape.difference(own))
    fail("PE {} has other GRAVEL_* settings than its aggregator: {} differs", h.pe, what);
}

local_pes gather_pes(int listener, const expected_pes& expected, pid_t parent, const settings& values) {
  arrivals_by_pe here;
  const uint64_t deadline = now_us() + values.connect_timeout_s * 1'000'000;
  while (here.size() < expected.here) {
    const uint64_t now = now_us();
    if (now >= deadline)
      fail("only {} of {} PEs connected within {} s (GRAVEL_CONNECT_TIMEOUT_S)", here.size(), expected.here,
           values.connect_timeout_s);
    if (!somebody_connects(listener, here, parent, deadline - now)) continue;
    if (const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); accepted >= 0)
      welcome(node_socket(accepted), expected, values, here);
  }

  const hello& first = here.begin()->second.h;
  local_pes all;
  all.nodes = topology(first.node_of_pe, values.two_hop_nodes);
  all.node = first.node;
  all.one_host = first.one_host;
  all.handlers = first.handlers;
  set_log_name(fmt::format("aggregator of node {}", all.node));
  for (auto& [pe, a] : here) {
    all.segments.push_back(std::move(a.segment));
    all.sockets.push_back(std::move(a.socket));
    all.pes.push_back(pe);
    all.processes.push_back(a.process);
    if (!a.h.bus_id.empty()) all.bus_ids.push_back(a.h.bus_id);
  }
  return all;
}

}  // namespace gravel::detail
