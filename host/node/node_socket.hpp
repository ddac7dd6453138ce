// The Unix socket between a PE and its node's aggregator: it carries messages (lib/base/wire.hpp), those of
// host/node/hello.hpp; hello brings the PE's memfd along. Its name is in the abstract namespace, where it goes with the
// last who holds the socket, whoever dies; both ends check who is at the other.
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

/// A message as it came, whole, not yet read but for its header.
struct frame {
  wire_kind kind;
  std::vector<std::byte> bytes;
  owned_descriptor descriptor;  ///< of a hello
  /// Throws gravel::error, as from_wire().
  template <wire_message T>
  T as(std::string_view from) const {
    return from_wire<T>(bytes, from);
  }
};

/// One end. Movable.
class node_socket {
 public:
  explicit node_socket(int descriptor) : socket_(descriptor) {}

  /// Connects to a node_listener of this name; throws gravel::error naming it.
  static node_socket connect(const std::string& name);

  /// Throws gravel::error if the other end is gone.
  template <wire_message T>
  void send(const T& message, int descriptor = -1) {
    send_bytes(to_wire(message), descriptor);
  }
  /// Waits for a message. nullopt: the other end has closed. Throws gravel::error if it is none, or of another version.
  std::optional<frame> receive();
  int descriptor() const { return socket_.get(); }
  /// Longest wait of receive() for the next bytes, after which it throws gravel::error; 0: none.
  void limit_waits(uint64_t seconds) const;
  /// Longest time in which the other end reads nothing of what send() writes, after which it throws gravel::error.
  void limit_sends(uint64_t seconds) const;
  /// Process at the other end; throws gravel::error if it belongs to another user.
  pid_t check_peer() const;
  /// Makes a receive() in another thread return nullopt.
  void shut_down();

 private:
  void send_bytes(std::vector<std::byte> bytes, int descriptor);
  owned_descriptor socket_;
};

/// A listening socket under a name that nobody can guess. Nothing of it is in a file system. Others of this host may
/// see the name and connect; check_peer() tells them from this user's.
class node_listener {
 public:
  node_listener();
  node_listener(const node_listener&) = delete;
  node_listener& operator=(const node_listener&) = delete;
  const std::string& name() const { return name_; }
  int descriptor() const { return socket_.get(); }

 private:
  std::string name_;
  owned_descriptor socket_;
};

}  // namespace gravel::detail
