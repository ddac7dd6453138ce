// An aggregator's first task: the PEs of its node connect, describe themselves, and hand over their segments.
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
  std::vector<std::string> bus_ids;                        ///< of the GPUs of those PEs that have one
  std::vector<std::pair<uint32_t, std::string>> handlers;  ///< id, name
  /// Name of a handler; empty if there is none.
  std::string name_of_handler(uint32_t id) const;
};

/// How many PEs there are, according to the process that started this one.
struct expected_pes {
  uint32_t here;    ///< of this node
  uint32_t of_job;  ///< of all nodes
};
/// Checks what a PE says about itself against what the aggregator knows, and against the PE that came first (nullptr:
/// this is the first). Throws gravel::error.
void check_hello(const hello&, const hello* first, const expected_pes&, const settings&);

/// Waits until the PEs of this node have connected to the socket `listener`. `parent`: the process that started this
/// one. Throws gravel::error if not all connect in time, if a connected PE or the parent ends, or if the PEs do not fit
/// together.
local_pes gather_pes(int listener, const expected_pes&, pid_t parent, const settings&);

/// For an error that is only a consequence: a process of this node has ended. Waits first, so that the message of that
/// process or of its launcher comes before this one.
[[noreturn]] void fail_second_hand(const std::string& text);

}  // namespace gravel::detail
