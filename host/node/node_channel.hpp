// The Unix socket between a PE and its node's aggregator: it carries messages (lib/base/wire.hpp), those of host/node/hello.hpp;
// hello brings the PE's memfd along. The socket lives in a directory only the user can enter, and both ends check who is at the other.
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

namespace gravel {

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
class node_channel {
 public:
  explicit node_channel(int descriptor) : socket_(descriptor) {}

  /// Connects; throws gravel::error naming the path.
  static node_channel connect(const std::string& path);

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

/// A listening socket, mode 0600, in a directory of mode 0700.
class node_listener {
 public:
  /// Makes the directory under `parent` (empty: TMPDIR or /tmp).
  explicit node_listener(const std::string& parent);
  ~node_listener();
  node_listener(const node_listener&) = delete;
  node_listener& operator=(const node_listener&) = delete;
  const std::string& path() const { return path_; }
  int descriptor() const { return socket_.get(); }
  /// Another process has the descriptor and is the one that listens: only if it alone holds it, connections end when
  /// it ends.
  void leave_listening_to_child() { socket_.reset(); }
  /// Removes socket and directory from the file system; connections stay.
  void unlink();

 private:
  std::string directory_, path_;
  owned_descriptor socket_;
};

}  // namespace gravel
