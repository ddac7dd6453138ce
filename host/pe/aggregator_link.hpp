// The connection of a PE to its node's aggregator. The first PE of a node starts the aggregator. Until the aggregators
// of different nodes are connected, their messages to each other pass through these first PEs.
#pragma once
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>

#include "host/node/aggregator_process.hpp"
#include "host/node/hello.hpp"
#include "host/node/node_socket.hpp"
#include "host/pe/membership.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

class aggregator_link {
 public:
  /// Starts the aggregator if this PE is the first of its node.
  explicit aggregator_link(const membership& job) : job_(job) {
    if (!job.is_leader()) return;
    const std::string program = find_aggregator(job.values.aggregator);
    // Only the aggregator keeps the listener. So connections end when the aggregator ends.
    const node_listener listener;
    process_ =
        spawn_aggregator(program, listener.descriptor(), job.local_size, job.boot->local_size(), job.nodes.n_pes());
    socket_name_ = listener.name();
  }

  /// Name of the socket to which the PEs of the node connect. The others get it from the first PE.
  const std::string& socket_name() const { return socket_name_; }
  void set_socket_name(std::string name) { socket_name_ = std::move(name); }
  /// Introduces this PE and sends the descriptor of its segment. Returns when messages may flow. Collective. Throws
  /// gravel::error.
  void connect(const hello& h, int segment) {
    introduce(h, segment);
    if (job_.nodes.n_nodes() > 1) exchange_wiring();
    auto answer = socket_->receive();
    if (answer && answer->kind == wire_kind::abort) fail("{}", answer->as<abort_message>("the aggregator").why);
    if (!answer || answer->kind != wire_kind::ready) fail_without();
    socket_->limit_waits(0);
  }

  template <wire_message T>
  void send(const T& message) {
    if (socket_) socket_->send(message);
  }
  node_socket& socket() { return *socket_; }
  /// Says goodbye. If this PE has started the aggregator, waits for its end.
  void leave() {
    socket_->send(goodbye_message{});
    if (process_ > 0 && !wait_for_aggregator(process_, 5000))
      log_warning("the aggregator of node {} did not end by itself", job_.node);
  }
  /// Makes a receive() in another thread return.
  void shut_down() {
    if (socket_) socket_->shut_down();
  }
  /// Called in a process that was forked from this PE. Otherwise the aggregator could not see this PE's end while the
  /// child lives. Signal-safe.
  void forget_in_child() {
    if (socket_) close(socket_->descriptor());
  }
  /// Says in words how the aggregator has ended, after its socket was closed.
  std::string describe_lost() const {
    if (process_ < 0) return fmt::format("lost the aggregator of node {}", job_.node);
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 1000 && ended == 0; ++i, usleep(1000)) ended = waitpid(process_, &status, WNOHANG);
    std::string how = "closed its connection";
    if (ended == process_ && WIFSIGNALED(status)) {
      how = fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (ended == process_) {
      how = fmt::format("ended with exit status {}; its message is above", WEXITSTATUS(status));
    }
    return fmt::format("the aggregator of node {} (process {}) {}", job_.node, process_, how);
  }

 private:
  void introduce(const hello& h, int segment) {
    try {
      socket_.emplace(node_socket::connect(socket_name_));
      socket_->limit_waits(2 * job_.values.connect_timeout_s);
      socket_->limit_sends(2 * job_.values.connect_timeout_s);
      socket_->check_peer();
      socket_->send(h, segment);
    } catch (const error& e) {
      wait_for_root_cause();
      if (!job_.is_leader()) wait_for_root_cause();  // the first PE of the node knows more
      siginfo_t ended{};
      if (process_ > 0 && waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          ended.si_pid != 0)
        fail_without();
      throw;
    }
  }
  void exchange_wiring() {
    if (job_.is_leader()) {
      auto mine = socket_->receive();
      if (!mine || mine->kind != wire_kind::wiring) fail_without();
      job_.boot->put("gravel.wiring", mine->bytes);
    }
    job_.boot->fence();
    if (!job_.is_leader()) return;
    all_wirings all;
    for (uint32_t node = 0; node < job_.nodes.n_nodes(); ++node)
      all.by_node.push_back(job_.boot->get(job_.nodes.pes_of(node)[0], "gravel.wiring"));
    socket_->send(all);
  }
  [[noreturn]] void fail_without() const {
    wait_for_root_cause();
    fail("while the job was starting, {}", describe_lost());
  }

  const membership& job_;
  pid_t process_ = -1;  ///< of the aggregator, if this PE has started it
  std::string socket_name_;
  std::optional<node_socket> socket_;
};

}  // namespace gravel::detail
