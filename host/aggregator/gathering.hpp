// An aggregator's first task: the PEs of its node connect, say who they are, and hand over their segments.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "host/node/hello.hpp"
#include "host/node/node_socket.hpp"
#include "host/node/segment.hpp"

namespace gravel::detail {

/// The PEs of this node. Lists are in order of PE.
struct local_pes {
  topology nodes;  ///< of the job
  uint32_t node;
  bool one_host;  ///< all nodes of the job are on one host
  std::vector<uint32_t> pes;
  std::vector<pid_t> processes;
  std::vector<node_socket> sockets;
  std::vector<pe_segment> segments;
  std::vector<std::string> bus_ids;                        ///< of their GPUs, those that have one
  std::vector<std::pair<uint32_t, std::string>> handlers;  ///< id, name
  /// Empty if there is none.
  std::string name_of_handler(uint32_t id) const;
};

/// How many PEs there are, as the process that started this one says.
struct expected_pes {
  uint32_t here;    ///< of this node
  uint32_t of_job;  ///< of all nodes
};
/// Does what a PE says of itself fit what the aggregator knows, and the PE that came first (nullptr: it is the first)?
/// Throws gravel::error.
void check_hello(const hello&, const hello* first, const expected_pes&, const settings&);

/// Waits for the PEs of this node to connect to the socket `listener`. `parent`: the process that started this one.
/// Throws gravel::error if not all come in time, if one that has come or the parent ends, or if they do not fit
/// together.
local_pes gather_pes(int listener, const expected_pes&, pid_t parent, const settings&);

/// For what is only a consequence: a process of this node is gone, and what its launcher or itself says about it comes
/// first.
[[noreturn]] void fail_second_hand(const std::string& text);

}  // namespace gravel::detail
