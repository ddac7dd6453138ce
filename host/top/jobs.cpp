#include "host/top/jobs.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include "host/node/clock.hpp"
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

namespace {

/// Receives the sample for which this socket was connected.
answer receive_sample(node_socket& from, uint64_t patience_s) {
  try {
    from.check_peer();
    from.limit_waits(patience_s);
    pollfd readable{from.descriptor(), POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(patience_s * 1000)) == 0) return {answer::kind::silent};
    const auto message = from.receive();
    if (!message) return {answer::kind::gone};
    return {answer::kind::sample, message->as<node_sample>("the aggregator")};
  } catch (const error& e) {
    return {answer::kind::refused, {}, e.what()};
  }
}

}  // namespace

std::vector<answer> request_samples(const std::vector<std::string>& names, uint64_t patience_s) {
  const uint64_t begin = now_us();
  std::vector<std::optional<node_socket>> sockets(names.size());
  for (size_t i = 0; i < names.size(); ++i) try {
      sockets[i].emplace(node_socket::connect(names[i]));
    } catch (const error&) {
      // The name is gone with its aggregator.
    }
  std::vector<answer> answers;
  for (auto& from : sockets) {
    const uint64_t waited_s = std::min((now_us() - begin) / 1'000'000, patience_s - 1);
    answers.push_back(from ? receive_sample(*from, patience_s - waited_s) : answer{answer::kind::gone});
  }
  return answers;
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
  const std::vector<std::string> names = sample_names();
  std::vector<answer> answers = request_samples(names, patience_s);
  for (size_t i = 0; i < names.size(); ++i) {
    answer& a = answers[i];
    if (a.what == answer::kind::sample) nodes.push_back({names[i], std::move(a.sample)});
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
  std::vector<std::string> names;
  for (const watched_node& n : job.nodes) names.push_back(n.socket);
  std::vector<answer> answers = request_samples(names, patience_s);
  for (size_t i = 0; i < answers.size(); ++i) {
    watched_node& n = job.nodes[i];
    answer& a = answers[i];
    if (a.what == answer::kind::gone) return false;
    if (a.what == answer::kind::refused) fail("node {} gave no sample: {}", n.sample.node, a.why);
    if (a.what == answer::kind::silent) silent.push_back(n.sample.node);
    else n.sample = std::move(a.sample);
  }
  return true;
}

}  // namespace gravel::detail
