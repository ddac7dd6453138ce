#include "host/node/node_channel.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

constexpr uint64_t most_bytes = 1ull << 30;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    fail("the socket path '{}' is longer than the system's {} bytes; set TMPDIR to a shorter one", path, sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

void set_limit(int descriptor, int option, uint64_t seconds, const char* name) {
  const timeval limit{static_cast<time_t>(seconds), 0};
  if (setsockopt(descriptor, SOL_SOCKET, option, &limit, sizeof(limit)) != 0) fail_errno(name);
}

[[noreturn]] void fail_reading() {
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    fail("no answer on the node's socket within twice GRAVEL_CONNECT_TIMEOUT_S; is a process of the job stopped?");
  fail_errno("reading from the node's socket");
}

/// Reads exactly n bytes; false at an end of file before the first.
bool read_all(int descriptor, void* to, size_t n) {
  size_t done = 0;
  while (done < n) {
    const ssize_t got = recv(descriptor, static_cast<char*>(to) + done, n - done, 0);
    if (got > 0) done += static_cast<size_t>(got);
    else if (got == 0 || errno == ECONNRESET) return false;
    else if (errno != EINTR) fail_reading();
  }
  return true;
}

}  // namespace

node_channel node_channel::connect(const std::string& path) {
  node_channel channel(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!channel.socket_) fail_errno("socket");
  const sockaddr_un address = address_of(path);
  while (::connect(channel.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    if (errno != EINTR) fail_errno("connecting to the aggregator at '" + path + "'");
  return channel;
}

void node_channel::send_bytes(std::vector<std::byte> bytes, int descriptor) {
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof(int));
  }
  while (part.iov_len) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        fail("nobody read from the node's socket within twice GRAVEL_CONNECT_TIMEOUT_S; is a process of the job stopped?");
      fail_errno("writing to the node's socket");
    }
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    part.iov_base = static_cast<char*>(part.iov_base) + sent;
    part.iov_len -= static_cast<size_t>(sent);
  }
}

std::optional<frame> node_channel::receive() {
  frame result{};
  result.bytes.resize(sizeof(wire_header));
  iovec part{result.bytes.data(), result.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got;
  while ((got = recvmsg(descriptor(), &message, MSG_CMSG_CLOEXEC)) < 0)
    if (errno == ECONNRESET) return std::nullopt;
    else if (errno != EINTR) fail_reading();
  if (got == 0) return std::nullopt;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
      int came;
      std::memcpy(&came, CMSG_DATA(c), sizeof(int));
      result.descriptor = owned_descriptor(came);
    }
  std::byte* const begin = result.bytes.data();
  if (!read_all(descriptor(), begin + got, sizeof(wire_header) - static_cast<size_t>(got))) return std::nullopt;
  const wire_header header = read_wire_header(result.bytes, "the node's socket");
  if (header.kind < wire_kind::hello || header.kind > wire_kind::abort || header.bytes > most_bytes ||
      (header.kind == wire_kind::hello) != bool(result.descriptor))
    fail("the node's socket: a malformed message of {} bytes came ('{}', {} memory)", header.bytes, name_of(header.kind),
         result.descriptor ? "with" : "without");
  result.kind = header.kind;
  result.bytes.resize(sizeof(wire_header) + header.bytes);
  if (!read_all(descriptor(), result.bytes.data() + sizeof(wire_header), header.bytes)) return std::nullopt;
  return result;
}

void node_channel::limit_waits(uint64_t seconds) const { set_limit(descriptor(), SO_RCVTIMEO, seconds, "SO_RCVTIMEO"); }
void node_channel::limit_sends(uint64_t seconds) const { set_limit(descriptor(), SO_SNDTIMEO, seconds, "SO_SNDTIMEO"); }

pid_t node_channel::check_peer() const {
  ucred who{};
  socklen_t length = sizeof(who);
  if (getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) fail_errno("SO_PEERCRED");
  if (who.uid != geteuid()) fail("process {} of user {} connected to a socket of user {}", who.pid, who.uid, geteuid());
  return who.pid;
}

void node_channel::shut_down() { shutdown(descriptor(), SHUT_RDWR); }

node_listener::node_listener(const std::string& parent) {
  const char* tmpdir = std::getenv("TMPDIR");
  directory_ = (parent.empty() ? std::string(tmpdir && *tmpdir ? tmpdir : "/tmp") : parent) + "/gravel-node-XXXXXX";
  address_of(directory_ + "/s");  // too long? Then before anything is made.
  if (!mkdtemp(directory_.data())) fail_errno("making a directory for the node's socket under '" + directory_ + "'");
  path_ = directory_ + "/s";
  const sockaddr_un address = address_of(path_);
  socket_ = owned_descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_ || bind(descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path_.c_str(), 0600) != 0 || listen(descriptor(), 4096) != 0) {
    const int code = errno;
    const std::string path = path_;
    unlink();
    errno = code;
    fail_errno("listening at '" + path + "'");
  }
}

node_listener::~node_listener() { unlink(); }

void node_listener::unlink() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  rmdir(directory_.c_str());
  path_.clear();
}

}  // namespace gravel
