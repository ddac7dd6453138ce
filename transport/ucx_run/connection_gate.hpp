// Connection gate: lets only the job's PEs connect to the PMIx server of ucx-run.
//
// Problem. PMIx (4.2 to 5.0) listens for TCP on the loopback interface, and trusts what a client says about itself. It
// has no Unix sockets.
// Solution. PMIx does not listen itself: in ucx-run, functions of this file take the place of the C library's listen()
// and accept(), which PMIx calls. ucx-run listens at the address that PMIx has chosen, asks the kernel which process
// owns the socket at the other end, and passes on the sockets of the job's own processes. It closes the others before
// PMIx has read a byte. A client of PMIx speaks first: a connection that has not sent a byte waits and counts for
// nothing, so a child of a PE that only connects does not take the PE's place. When no more PEs can join, ucx-run stops
// listening.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gravel::detail {

/// The owner of a socket.
struct socket_owner {
  uid_t user = 0;
  uint64_t inode = 0;
};
/// The owner of the socket of this host to which a TCP socket is connected; none: it is closed already, or on another
/// host. `with_list`: search only the list of all sockets, which takes longer; otherwise the list is used if the kernel
/// cannot be asked for one socket.
std::optional<socket_owner> owner_of_other_end(int connected, bool with_list = false);

/// The gate of the process. The thread that makes it and PMIx's thread use it.
class connection_gate {
 public:
  /// From now on the next listen() of this process on a TCP socket counts as PMIx's. Throws gravel::error if there is
  /// no loopback interface to listen on; without one, PMIx's own error would not help.
  connection_gate();
  connection_gate(const connection_gate&) = delete;
  ~connection_gate();

  /// Why PMIx could not listen; empty: it did not try, or could.
  static std::string failure();

  /// Becomes readable when a process connects, or when one that has connected sends its first bytes; -1 when the gate
  /// is closed.
  int descriptor() const;
  /// Accepts the connections that have come. PMIx gets those that have sent something and that `admit` accepts; those
  /// that it does not accept are closed, and those of other users at once.
  void serve(const std::function<bool(int connection)>& admit);
  /// To be called when no more PEs can join. The port stays occupied, so that no other process can answer there.
  void close();
};

}  // namespace gravel::detail
