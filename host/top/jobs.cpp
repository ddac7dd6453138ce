#include "host/top/jobs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>

#include "host/node/node_socket.hpp"
#include "lib/base/error.hpp"
#include "lib/base/process_stat.hpp"

namespace gravel::detail {

std::vector<std::string> sample_names() {
  std::set<std::string> names;  // accepted sockets have the listener's name, too
  std::ifstream table("/proc/net/unix");
  if (!table) fail("/proc/net/unix cannot be read, so no job can be found");
  for (std::string line; std::getline(table, line);)
    if (const size_t at = line.find(std::string(" @") + sample_sockets); at != std::string::npos)
      names.insert(line.substr(at + 2));
  return {names.begin(), names.end()};
}

answer request_sample(const std::string& name, uint64_t patience_s) {
  std::optional<node_socket> from;
  // The name is gone with its aggregator.
  if (!text_of_error([&] { from.emplace(node_socket::connect(name)); }).empty()) return {answer::kind::gone};
  try {
    from->check_peer();
    from->limit_waits(patience_s);
    errno = 0;
    const auto message = from->receive();
    if (!message) return {answer::kind::gone};
    return {answer::kind::sample, message->as<node_sample>("the aggregator")};
  } catch (const error& e) {
    if (errno == EAGAIN) return {answer::kind::silent};
    return {answer::kind::refused, {}, e.what()};
  }
}

std::vector<watched_job> group(std::vector<watched_node> nodes) {
  std::vector<watched_job> jobs;
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.sample.node < b.sample.node; });
  for (watched_node& n : nodes) {
    const std::vector<std::string> stat = stat_of_process(n.sample.pes[0].process);
    watched_job job;
    if (stat.size() > 3) {
      job.program = stat[1];
      job.launcher = std::stoull(stat[3]);
    }
    const auto belongs = [&](const watched_job& other) {
      const node_sample& last = other.nodes.back().sample;
      return other.launcher == job.launcher && last.n_pes == n.sample.n_pes && last.n_nodes == n.sample.n_nodes &&
             last.node != n.sample.node;
    };
    const auto same = std::find_if(jobs.begin(), jobs.end(), belongs);
    watched_job& its = same == jobs.end() ? jobs.emplace_back(std::move(job)) : *same;
    its.nodes.push_back(std::move(n));
  }
  return jobs;
}

found_jobs find_jobs(uint64_t patience_s) {
  found_jobs found;
  std::vector<watched_node> nodes;
  for (const std::string& name : sample_names()) {
    answer a = request_sample(name, patience_s);
    if (a.what == answer::kind::sample) nodes.push_back({name, std::move(a.sample)});
    if (a.what == answer::kind::silent) found.refused.push_back("an aggregator does not answer; is it stopped?");
    if (a.what == answer::kind::refused) found.refused.push_back(a.why);
  }
  found.jobs = group(std::move(nodes));
  return found;
}

bool watched_job::is_named(const std::string& name) const {
  if (name == program || name == std::to_string(launcher)) return true;
  for (const watched_node& n : nodes) {
    if (name == std::to_string(n.sample.process)) return true;
    for (const pe_sample& p : n.sample.pes)
      if (name == std::to_string(p.process)) return true;
  }
  return false;
}

std::string watched_job::text() const {
  const node_sample& first = nodes.front().sample;
  return fmt::format("{}, started by process {}: {} PEs on {} nodes", program.empty() ? "a job" : program, launcher,
                     first.n_pes, first.n_nodes);
}

watched_job choose(const found_jobs& found, const std::string& name) {
  std::vector<const watched_job*> fitting;
  std::string list;
  for (const watched_job& job : found.jobs) {
    if (name.empty() || job.is_named(name)) fitting.push_back(&job);
    list += "\n  " + job.text();
  }
  for (const std::string& why : found.refused) list += "\n  no sample: " + why;
  if (fitting.size() == 1) return *fitting[0];
  if (fitting.size() > 1) fail("{} jobs fit; name one by --job with one of its processes:{}", fitting.size(), list);
  if (!name.empty() && !found.jobs.empty()) fail("no job is called '{}' (--job); there are:{}", name, list);
  fail(
      "no job of this user runs on this host; start one, such as 'ucx-run -n 2 ./program', and run gravel-top beside "
      "it{}",
      list);
}

bool renew(watched_job& job, uint64_t patience_s, std::vector<uint32_t>& silent) {
  for (watched_node& n : job.nodes) {
    answer a = request_sample(n.socket, patience_s);
    if (a.what == answer::kind::gone) return false;
    if (a.what == answer::kind::refused) fail("node {} gave no sample: {}", n.sample.node, a.why);
    if (a.what == answer::kind::silent) silent.push_back(n.sample.node);
    else n.sample = std::move(a.sample);
  }
  return true;
}

}  // namespace gravel::detail
