// The Unix socket between a PE and its node's aggregator. It carries the messages of host/node/hello.hpp
// (lib/base/wire.hpp); hello also carries the descriptor of the PE's memfd. The socket's name is in the abstract
// namespace: the name vanishes with the last process that has the socket open, however that process ends. Each end
// checks the user of the other.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/descriptor.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

/// A complete message, of which only the header has been read.
struct frame {
  wire_kind kind;
  std::vector<std::byte> bytes;
  owned_descriptor descriptor;  ///< in each hello, and in an extent if it has one
  /// Reads the message. Throws gravel::error as from_wire() does.
  template <wire_message T>
  T as(std::string_view from) const {
    return from_wire<T>(bytes, from);
  }
};

/// One end of the socket. Movable.
class node_socket {
 public:
  explicit node_socket(int descriptor) : socket_(descriptor) {}

  /// Connects to the node_listener of this name. Throws gravel::error that names it.
  static node_socket connect(const std::string& name);

  /// Sends a message. Throws gravel::error if the other end is gone.
  template <wire_message T>
  void send(const T& message, int descriptor = -1) {
    send_bytes(to_wire(message), descriptor);
  }
  /// Waits for a message. nullopt: the other end has closed the socket. Throws gravel::error if the bytes are no
  /// message, or one of another version.
  std::optional<frame> receive();
  int descriptor() const { return socket_.get(); }
  /// Longest time that receive() waits for the next bytes before it throws gravel::error; 0: no limit.
  void limit_waits(uint64_t seconds) const;
  /// Longest time that send() waits for the other end to read before it throws gravel::error.
  void limit_sends(uint64_t seconds) const;
  /// Process at the other end. Throws gravel::error if it belongs to another user.
  pid_t check_peer() const;
  /// Makes a receive() in another thread return nullopt.
  void shut_down();

 private:
  void send_bytes(std::vector<std::byte> bytes, int descriptor);
  owned_descriptor socket_;
};

/// A listening socket under a name of its own. No file system contains it. Other users of this host may see
/// the name and connect; check_peer() detects them.
class node_listener {
 public:
  /// `purpose`: the name begins with "gravel-", the purpose, and a hyphen.
  explicit node_listener(const char* purpose = "node");
  node_listener(const node_listener&) = delete;
  node_listener& operator=(const node_listener&) = delete;
  const std::string& name() const { return name_; }
  int descriptor() const { return socket_.get(); }

 private:
  std::string name_;
  owned_descriptor socket_;
};

}  // namespace gravel::detail
