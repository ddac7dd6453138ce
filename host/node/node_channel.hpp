// The Unix socket between a PE and its node's aggregator: frames of a type, a length and bytes; one frame carries the
// PE's memfd. The socket lives in a directory only the user can enter, and both ends check who is at the other.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gravel {

/// hello: PE -> aggregator, with the segment. wiring: aggregator -> first PE of the node: what other nodes must know.
/// peers: first PE -> aggregator: the wirings of all nodes. ready: aggregator -> all its PEs. goodbye: PE -> aggregator,
/// the last word. abort: both ways, a text.
enum class frame_type : uint32_t { hello = 1, wiring, peers, ready, goodbye, abort };

struct frame {
  frame_type type;
  std::vector<std::byte> bytes;
  int descriptor = -1;  ///< received with it, owned by the taker; -1: none
  std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

/// One end. Movable, owns the descriptor.
class node_channel {
 public:
  explicit node_channel(int descriptor) : descriptor_(descriptor) {}
  node_channel(node_channel&&) noexcept;
  node_channel& operator=(node_channel&&) noexcept;
  ~node_channel();

  /// Connects; throws gravel::error naming the path.
  static node_channel connect(const std::string& path);

  /// Whole frames; throws gravel::error if the other end is gone.
  void send(frame_type, std::span<const std::byte>, int descriptor = -1);
  void send(frame_type, const std::string& text);
  /// Waits for a frame. nullopt: the other end has closed. Throws gravel::error for a malformed frame.
  std::optional<frame> receive();
  int descriptor() const { return descriptor_; }
  /// Longest wait of receive() for the next bytes, after which it throws gravel::error; 0: none.
  void limit_waits(uint64_t seconds) const;
  /// Longest time in which the other end reads nothing of what send() writes, after which it throws gravel::error.
  void limit_sends(uint64_t seconds) const;
  /// Process at the other end; throws gravel::error if it belongs to another user.
  pid_t check_peer() const;
  /// Makes a receive() in another thread return nullopt.
  void shut_down();

 private:
  int descriptor_;
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
  int descriptor() const { return descriptor_; }
  /// Another process has the descriptor and is the one that listens: only if it alone holds it, connections end when
  /// it ends.
  void leave_listening_to_child();
  /// Removes socket and directory from the file system; connections stay.
  void unlink();

 private:
  std::string directory_, path_;
  int descriptor_ = -1;
};

}  // namespace gravel
