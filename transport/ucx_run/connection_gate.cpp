#include "transport/ucx_run/connection_gate.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <list>
#include <mutex>
#include <sstream>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// The address of an end of a connection.
struct address {
  sockaddr_in value{};
  socklen_t length = sizeof(value);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&value); }
  /// The form of /proc/net/tcp.
  std::string text() const { return fmt::format("{:08X}:{:04X}", value.sin_addr.s_addr, ntohs(value.sin_port)); }
};

/// The owner of the TCP socket between these ends; asks the kernel for this one alone. None also if the kernel cannot
/// do that.
std::optional<socket_owner> ask_kernel(const address& local, const address& remote) {
  const owned_descriptor netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return {};
  struct {
    nlmsghdr header;
    inet_diag_req_v2 what;
  } question{};
  question.header = {sizeof(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0};
  question.what.sdiag_family = AF_INET;
  question.what.sdiag_protocol = IPPROTO_TCP;
  question.what.idiag_states = ~0u;
  inet_diag_sockid& id = question.what.id;
  id.idiag_sport = local.value.sin_port;
  id.idiag_dport = remote.value.sin_port;
  id.idiag_src[0] = local.value.sin_addr.s_addr;
  id.idiag_dst[0] = remote.value.sin_addr.s_addr;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) char answer[8192];
  if (send(netlink.get(), &question, sizeof(question), 0) < 0) return {};
  const ssize_t got = recv(netlink.get(), answer, sizeof(answer), 0);
  nlmsghdr header{};
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return {};
  std::memcpy(&header, answer, sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  inet_diag_msg found{};
  std::memcpy(&found, answer + NLMSG_HDRLEN, sizeof(found));
  return socket_owner{found.idiag_uid, found.idiag_inode};
}

/// The owner of the TCP socket between these ends, from the list of all sockets, which kernels without sock_diag have,
/// too.
std::optional<socket_owner> search_list(const address& local, const address& remote) {
  std::ifstream list("/proc/net/tcp");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string number, from, to, skipped;
    socket_owner owner;
    words >> number >> from >> to;
    if (from != local.text() || to != remote.text()) continue;
    for (int i = 0; i < 4; ++i) words >> skipped;  // state, queues, timer, retransmissions
    if (words >> owner.user >> skipped >> owner.inode) return owner;
  }
  return {};
}

/// The state that PMIx's calls use. Never destroyed, as PMIx's threads run until the process ends.
struct shared_gate {
  std::mutex mutex;
  bool expected = false;
  int listener = -1;     ///< the socket of ucx-run, at the address that PMIx has chosen
  int pmix_number = -1;  ///< PMIx's descriptor: instead of its socket an eventfd, readable while connections wait
  int news = -1;         ///< epoll: `listener` and `silent`
  bool closed = false;
  std::list<owned_descriptor> silent;  ///< connected, and nothing was sent yet; used by ucx-run's thread alone
  std::deque<int> admitted;            ///< connections that PMIx has not taken yet
  std::string failure;
};
shared_gate& the_gate() {
  static auto* instance = new shared_gate;
  return *instance;
}

/// Makes connection_gate::descriptor() readable when `number` is.
bool watch(int news, int number) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(news, EPOLL_CTL_ADD, number, &event) == 0;
}

/// Listens in place of the socket that PMIx has bound.
int take_over(shared_gate& at, int number) {
  address own;
  if (getsockname(number, own.get(), &own.length) != 0) return -1;
  if (own.value.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) {
    at.failure = "PMIx would listen on a network: see if_include and the like in pmix-mca-params.conf";
    errno = EADDRNOTAVAIL;
    return -1;
  }
  owned_descriptor waiting(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  owned_descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  owned_descriptor news(epoll_create1(EPOLL_CLOEXEC));
  if (!waiting || !listener || !news || dup3(waiting.get(), number, O_CLOEXEC) < 0 ||
      bind(listener.get(), own.get(), own.length) != 0 || syscall(SYS_listen, listener.get(), 4096) != 0 ||
      !watch(news.get(), listener.get())) {
    const int code = errno;
    at.failure = std::string("listening on the loopback interface: ") + std::strerror(code);
    errno = code;
    return -1;
  }
  at.pmix_number = number;
  at.listener = listener.release();
  at.news = news.release();
  return 0;
}

/// Gives a connection to PMIx.
void pass_on(shared_gate& at, owned_descriptor& connection) {
  epoll_ctl(at.news, EPOLL_CTL_DEL, connection.get(), nullptr);
  std::lock_guard lock(at.mutex);
  at.admitted.push_back(connection.release());
  const uint64_t one = 1;
  if (write(at.pmix_number, &one, sizeof(one)) < 0) return;  // readable already, after 2^64 connections
}

bool has_loopback() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return true;  // PMIx will report it
  bool found = false;
  for (const ifaddrs* each = all; each; each = each->ifa_next)
    found |= each->ifa_addr && each->ifa_addr->sa_family == AF_INET && (each->ifa_flags & IFF_LOOPBACK) &&
             (each->ifa_flags & IFF_UP);
  freeifaddrs(all);
  return found;
}

}  // namespace

std::optional<socket_owner> owner_of_other_end(int connected, bool with_list) {
  address own, other;
  if (getsockname(connected, own.get(), &own.length) != 0 || getpeername(connected, other.get(), &other.length) != 0)
    return {};
  auto owner = with_list ? search_list(other, own) : ask_kernel(other, own);
  if (!owner && !with_list) owner = search_list(other, own);
  if (owner && owner->inode == 0) owner.reset();  // closed by its process
  return owner;
}

connection_gate::connection_gate() {
  if (!has_loopback())
    fail(
        "the PEs connect to ucx-run at 127.0.0.1, but the loopback interface is down here, or has no IPv4 address: `ip "
        "link set lo up`, `ip addr add 127.0.0.1/8 dev lo`");
  the_gate().expected = true;
}
connection_gate::~connection_gate() { the_gate().expected = false; }

std::string connection_gate::failure() { return the_gate().failure; }

int connection_gate::descriptor() const { return the_gate().closed ? -1 : the_gate().news; }

void connection_gate::serve(const std::function<bool(int)>& admit) {
  auto& at = the_gate();
  if (descriptor() < 0) return;
  for (;;) {
    owned_descriptor connection(static_cast<int>(syscall(SYS_accept4, at.listener, nullptr, nullptr, SOCK_CLOEXEC)));
    if (!connection) break;
    const auto owner = owner_of_other_end(connection.get());
    if (owner && owner->user != geteuid()) admit(connection.get());  // which refuses it
    else if (watch(at.news, connection.get())) at.silent.push_back(std::move(connection));
  }
  for (auto next = at.silent.begin(); next != at.silent.end();) {
    const auto connection = next++;
    char first;
    const ssize_t got = recv(connection->get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got > 0 && admit(connection->get())) pass_on(at, *connection);
    at.silent.erase(connection);
  }
}

void connection_gate::close() {
  auto& at = the_gate();
  if (descriptor() < 0) return;
  at.silent.clear();
  shutdown(at.listener, SHUT_RDWR);
  at.closed = true;
}

}  // namespace gravel::detail

extern "C" {

[[gnu::visibility("default")]] int listen(int number, int backlog) noexcept {
  auto& at = gravel::detail::the_gate();
  gravel::detail::address own;
  if (at.expected && getsockname(number, own.get(), &own.length) == 0 && own.value.sin_family == AF_INET) {
    at.expected = false;
    return gravel::detail::take_over(at, number);
  }
  return static_cast<int>(syscall(SYS_listen, number, backlog));
}

[[gnu::visibility("default")]] int accept(int number, sockaddr* from, socklen_t* length) {
  auto& at = gravel::detail::the_gate();
  if (number != at.pmix_number || number < 0) return static_cast<int>(syscall(SYS_accept4, number, from, length, 0));
  std::lock_guard lock(at.mutex);
  uint64_t one = 0;
  if (at.admitted.empty() || read(number, &one, sizeof(one)) < 0) {
    errno = EAGAIN;
    return -1;
  }
  const int connection = at.admitted.front();
  at.admitted.pop_front();
  if (from) getpeername(connection, from, length);
  return connection;
}

}  // extern "C"
