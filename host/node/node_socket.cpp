#include "host/node/node_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/random_name.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t most_bytes = 1ull << 30;

/// The address of a name in the abstract namespace, and its length.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr size_t longest = sizeof(address.sun_path) - 1;  // the leading zero marks an abstract name
  if (name.size() > longest) fail("'{}' is no name of a node's socket: it is longer than {} characters", name, longest);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

void set_limit(int descriptor, int option, uint64_t seconds, const char* name) {
  const timeval limit{static_cast<time_t>(seconds), 0};
  if (setsockopt(descriptor, SOL_SOCKET, option, &limit, sizeof(limit)) != 0) fail_errno(name);
}

/// `late`: text for an event that has not happened in time.
[[noreturn]] void fail_at(const char* what, const char* late) {
  if (errno == EAGAIN) fail("{} within twice GRAVEL_CONNECT_TIMEOUT_S; is a process of the job stopped?", late);
  fail_errno(what);
}

/// Reads exactly n bytes, and a descriptor that comes with them. False at the end of the stream of bytes.
bool read_all(int from, std::byte* to, size_t n, owned_descriptor& came) {
  while (n) {
    alignas(cmsghdr) char control[CMSG_LEN(sizeof(int))];  // room for one: the kernel closes further ones
    iovec part{to, n};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return false;
    if (got < 0 && errno != EINTR) fail_at("reading from the node's socket", "no answer on the node's socket");
    if (got < 0) continue;
    if (const cmsghdr* c = CMSG_FIRSTHDR(&message); c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
      int number;
      std::memcpy(&number, CMSG_DATA(c), sizeof(int));
      came = owned_descriptor(number);
    }
    to += got;
    n -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

node_socket node_socket::connect(const std::string& name) {
  const auto [address, length] = address_of(name);
  node_socket made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.socket_) fail_errno("socket");
  while (::connect(made.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    if (errno != EINTR) fail_errno("connecting to the node's socket '@" + name + "'");
  return made;
}

void node_socket::send_bytes(std::vector<std::byte> bytes, int descriptor) {
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
    if (sent < 0 && errno == ETOOMANYREFS)
      fail(
          "too many descriptors of this user are on the way between processes; the hard limit of open files "
          "(ulimit -H -n) is too low");
    if (sent < 0 && errno != EINTR) fail_at("writing to the node's socket", "nobody read from the node's socket");
    if (sent < 0) continue;
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    part.iov_base = static_cast<char*>(part.iov_base) + sent;
    part.iov_len -= static_cast<size_t>(sent);
  }
}

std::optional<frame> node_socket::receive() {
  frame result{};
  result.bytes.resize(sizeof(wire_header));
  if (!read_all(descriptor(), result.bytes.data(), sizeof(wire_header), result.descriptor)) return std::nullopt;
  const wire_header header = read_wire_header(result.bytes, "the node's socket");
  const bool known = (header.kind >= wire_kind::hello && header.kind <= wire_kind::abort) ||
                     header.kind == wire_kind::extent || header.kind == wire_kind::sample;
  const bool needs_memory = header.kind == wire_kind::hello || header.kind == wire_kind::extent;
  if (!known || header.bytes > most_bytes || bool(result.descriptor) != needs_memory)
    fail("the node's socket: a malformed message of {} bytes came ('{}', {} memory)", header.bytes,
         name_of(header.kind), result.descriptor ? "with" : "without");
  result.kind = header.kind;
  // Reads in pieces: memory grows with the bytes that have come, not with the announced size.
  constexpr uint64_t piece = 256 << 10;
  for (uint64_t rest = header.bytes; rest != 0;) {
    const uint64_t come = result.bytes.size(), now = std::min(piece, rest);
    result.bytes.resize(come + now);
    if (!read_all(descriptor(), result.bytes.data() + come, now, result.descriptor)) return std::nullopt;
    rest -= now;
  }
  return result;
}

void node_socket::limit_waits(uint64_t seconds) const { set_limit(descriptor(), SO_RCVTIMEO, seconds, "SO_RCVTIMEO"); }
void node_socket::limit_sends(uint64_t seconds) const { set_limit(descriptor(), SO_SNDTIMEO, seconds, "SO_SNDTIMEO"); }

pid_t node_socket::check_peer() const {
  ucred who{};
  socklen_t length = sizeof(who);
  if (getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) fail_errno("SO_PEERCRED");
  if (who.uid != geteuid()) fail("process {} of user {} connected to a socket of user {}", who.pid, who.uid, geteuid());
  return who.pid;
}

void node_socket::shut_down() { shutdown(descriptor(), SHUT_RDWR); }

node_listener::node_listener(const char* purpose) : name_(fmt::format("gravel-{}-{}", purpose, random_name())) {
  const auto [address, length] = address_of(name_);
  socket_ = owned_descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_ || bind(descriptor(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(descriptor(), 4096) != 0)
    fail_errno("listening at '@" + name_ + "'");
}

}  // namespace gravel::detail
