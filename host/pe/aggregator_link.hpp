// A PE's way to its node's aggregator. The first PE of a node starts that process, and passes on what aggregators of different
// nodes tell each other before they are connected.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "host/node/hello.hpp"
#include "host/node/node_channel.hpp"
#include "host/pe/membership.hpp"

namespace gravel {

class aggregator_link {
 public:
  /// Starts the aggregator if this PE is the first of its node.
  explicit aggregator_link(const membership&);

  /// Where the PEs of the node connect. The others hear it from the first.
  const std::string& path() const { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }
  /// Introduces this PE, with the descriptor of its segment; returns when messages may flow. Collective. Throws gravel::error.
  void connect(const hello&, int segment);

  template <wire_message T>
  void send(const T& message) {
    if (channel_) channel_->send(message);
  }
  node_channel& channel() { return *channel_; }
  /// The last word; then waits for the end of the process, if this PE has started it.
  void leave();
  /// Makes a receive() in another thread return.
  void shut_down();
  /// In a process that was forked from this PE: the socket would keep the aggregator from seeing this PE's end while the child
  /// lives. Signal-safe.
  void forget_in_child();
  /// What became of the process, in words, when its socket has been closed.
  std::string describe_lost() const;

 private:
  void introduce(const hello&, int segment);
  void exchange_wiring();
  [[noreturn]] void fail_without() const;

  const membership& job_;
  pid_t process_ = -1;  ///< if this PE has started it
  std::string path_;
  std::optional<node_listener> listener_;  ///< of the first PE, until its node has connected
  std::optional<node_channel> channel_;
};

}  // namespace gravel
