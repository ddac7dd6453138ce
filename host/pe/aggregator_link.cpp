#include "host/pe/aggregator_link.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "host/node/aggregator_process.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel {

aggregator_link::aggregator_link(const membership& job) : job_(job) {
  if (!job.is_leader()) return;
  const std::string program = find_aggregator(job.values.aggregator);
  listener_.emplace(job.boot->session_directory());
  process_ = spawn_aggregator(program, listener_->descriptor(), job.local_size, job.boot->local_size());
  listener_->leave_listening_to_child();
  path_ = listener_->path();
}

void aggregator_link::connect(const hello& h, int segment) {
  introduce(h, segment);
  if (job_.nodes.n_nodes() > 1) exchange_wiring();
  auto answer = channel_->receive();
  if (answer && answer->kind == wire_kind::abort) fail("{}", answer->as<abort_word>("the aggregator").why);
  if (!answer || answer->kind != wire_kind::ready) fail_without();
  channel_->limit_waits(0);
  listener_.reset();  // all PEs of the node have connected
}

void aggregator_link::introduce(const hello& h, int segment) {
  try {
    channel_.emplace(node_channel::connect(path_));
    channel_->limit_waits(2 * job_.values.connect_timeout_s);
    channel_->limit_sends(2 * job_.values.connect_timeout_s);
    channel_->check_peer();
    channel_->send(h, segment);
  } catch (const error& e) {
    let_cause_speak();
    if (!job_.is_leader()) let_cause_speak();  // the first PE of the node knows more
    siginfo_t ended{};
    if (process_ > 0 && waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
      fail_without();
    throw;
  }
}

void aggregator_link::exchange_wiring() {
  if (job_.is_leader()) {
    auto mine = channel_->receive();
    if (!mine || mine->kind != wire_kind::wiring) fail_without();
    job_.boot->put("gravel.wiring", mine->bytes);
  }
  job_.boot->fence();
  if (!job_.is_leader()) return;
  all_wirings all;
  for (uint32_t node = 0; node < job_.nodes.n_nodes(); ++node)
    all.by_node.push_back(job_.boot->get(job_.nodes.pes_of(node)[0], "gravel.wiring"));
  channel_->send(all);
}

void aggregator_link::leave() {
  channel_->send(goodbye_word{});
  if (process_ > 0 && !wait_for_aggregator(process_, 5000)) log_warning("the aggregator of node {} did not end by itself", job_.node);
}

void aggregator_link::shut_down() {
  if (channel_) channel_->shut_down();
}

void aggregator_link::forget_in_child() {
  if (channel_) close(channel_->descriptor());
}

std::string aggregator_link::describe_lost() const {
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

void aggregator_link::fail_without() const {
  let_cause_speak();
  fail("while the job was starting, {}", describe_lost());
}

}  // namespace gravel
