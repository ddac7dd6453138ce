// Jobs of this user on this host, as gravel-top finds them: by the sockets at which their aggregators send samples.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/node/sample.hpp"

namespace gravel::detail {

/// What came of one request for a sample.
struct answer {
  enum class kind { sample, silent, gone, refused } what;
  node_sample sample{};  ///< if it is one
  std::string why{};     ///< if it was refused: the reason, in words
};

/// The names of the sockets of all jobs of this host, also those of other users.
std::vector<std::string> sample_names();
/// Requests a sample at each of these sockets, at the same time. An aggregator that has not answered after `patience_s`
/// seconds is silent: it may be stopped.
std::vector<answer> request_samples(const std::vector<std::string>& names, uint64_t patience_s);

/// A node of a job on this host.
struct watched_node {
  std::string socket;
  node_sample sample;
};

/// A job, or the part of it that runs on this host.
struct watched_job {
  std::string program;              ///< name of its processes; empty: /proc does not show them
  uint64_t launcher = 0;            ///< process that has started the PEs; 0: unknown
  std::vector<watched_node> nodes;  ///< in order of node
  /// True if `name` is the program's name, or the number of the launcher or of a process of the job.
  bool is_named(const std::string& name) const;
  /// A line for a list of jobs.
  std::string text() const;
};

/// What runs on this host.
struct found_jobs {
  std::vector<watched_job> jobs;
  std::vector<std::string> refused;  ///< why other sockets gave no sample
};
/// Puts nodes that belong together into one job: their PEs have the same parent.
std::vector<watched_job> group(std::vector<watched_node>);
found_jobs find_jobs(uint64_t patience_s);

/// The job called `name`, or the only one if `name` is empty. Throws gravel::error that says what runs here instead.
watched_job choose(const found_jobs&, const std::string& name);

/// Replaces the samples by new ones. A silent node keeps its sample and is added to `silent`. False: the job has ended.
bool renew(watched_job&, uint64_t patience_s, std::vector<uint32_t>& silent);

}  // namespace gravel::detail
