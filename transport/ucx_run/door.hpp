// How PEs come to the PMIx server of ucx-run, and nobody else does.
//
// PMIx (4.2 to 5.0) listens for TCP on the loopback interface, and believes what a client says of itself. It knows no
// Unix sockets. So PMIx does not listen here: its calls of listen() and accept() come to this file, which stands before
// the C library in ucx-run. ucx-run listens at the address that PMIx has chosen, asks the kernel whose socket is at the
// other end, and hands on those of the job's own processes. The others are closed before PMIx has read a byte. When
// nobody is awaited any more ucx-run stops listening.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gravel::detail {

/// Whose socket it is.
struct socket_owner {
  uid_t user = 0;
  uint64_t inode = 0;
};
/// Of the socket of this host that a TCP socket is connected to; none: it is closed already, or of another host.
/// `with_list`: by the list of all sockets alone, which takes longer; used anyway where the kernel cannot be asked for
/// one.
std::optional<socket_owner> owner_of_other_end(int connected, bool with_list = false);

/// Of the process; used by the thread that makes it, and by PMIx's.
class door {
 public:
  /// From now on the next listen() of this process on a TCP socket is PMIx's. Throws gravel::error if there is no
  /// loopback interface to listen on; then nothing that PMIx says would help.
  door();
  door(const door&) = delete;
  ~door();

  /// Why PMIx could not listen; empty: it did not try, or could.
  static std::string failure();

  /// Becomes readable when somebody connects; -1 when it is closed.
  int descriptor() const;
  /// Takes in who has connected: PMIx gets those that `admit` wants, the others are closed.
  void serve(const std::function<bool(int guest)>& admit);
  /// Nobody is awaited any more. The port stays ours, so that no other process can answer there.
  void close();
};

}  // namespace gravel::detail
