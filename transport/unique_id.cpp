#include "transport/unique_id.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <regex>

#include "lib/base/error.hpp"
#include "lib/base/random_name.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {
namespace {

using clock = std::chrono::steady_clock;

/// What another PE sends first.
struct introduction {
  static constexpr uint64_t expected_magic = 0x6772'6176'656c'6964;  // "gravelid"
  uint64_t magic, secret, pe, n_pes;
};

/// The sockets of the ids that this process has made.
struct listeners {
  std::mutex lock;
  std::map<std::string, owned_descriptor> by_id;
};
listeners& all_listeners() {
  static listeners all;
  return all;
}

std::string text_of(const gravel_unique_id_t& id) { return {id.text, strnlen(id.text, sizeof(id.text))}; }

/// Calls `use` with each address that the names stand for, until it returns true. Returns whether it did.
template <class Use>
bool use_addresses(const std::string& address, const std::string& port, const Use& use) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(address.c_str(), port.c_str(), &hints, &found))
    fail("the address {} is not known: {}", address, gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next)
    if (use(*at)) return true;
  return false;
}
owned_descriptor socket_for(const addrinfo& at) {
  return owned_descriptor(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}
void limit_waits(int socket, uint64_t seconds) {
  const timeval limit{static_cast<time_t>(seconds), 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/// Moves all bytes. Returns false, with errno, if the other side is gone (errno is 0) or too slow.
template <class Move>
bool move_all(char* at, uint64_t bytes, const Move& move) {
  while (bytes) {
    errno = 0;
    const ssize_t n = move(at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}
bool send_all(int socket, const void* from, uint64_t bytes) {
  return move_all(static_cast<char*>(const_cast<void*>(from)), bytes,
                  [&](const char* at, uint64_t n) { return send(socket, at, n, MSG_NOSIGNAL); });
}
bool receive_all(int socket, void* to, uint64_t bytes) {
  return move_all(static_cast<char*>(to), bytes, [&](char* at, uint64_t n) { return recv(socket, at, n, 0); });
}
std::string why() { return errno ? std::strerror(errno) : "the connection is closed"; }

/// A connection whose introduction has not come completely.
struct stranger {
  owned_descriptor socket;
  introduction said{};
  size_t came = 0;

  /// Reads what has come. Returns false if it does not belong to the job.
  bool read(uint64_t secret) {
    const ssize_t n = recv(socket.get(), reinterpret_cast<char*>(&said) + came, sizeof(said) - came, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    came += static_cast<size_t>(n);
    return n > 0 && (!is_complete() || (said.magic == introduction::expected_magic && said.secret == secret));
  }
  bool is_complete() const { return came == sizeof(said); }
};

}  // namespace

gravel_unique_id_t make_unique_id(const char* address, uint16_t port) {
  owned_descriptor listener;
  std::string reason;
  const bool listens = use_addresses(address, std::to_string(port), [&](const addrinfo& at) {
    owned_descriptor made = socket_for(at);
    const int yes = 1;
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (!made || bind(made.get(), at.ai_addr, at.ai_addrlen) || listen(made.get(), 1024)) {
      reason = std::strerror(errno);
      return false;
    }
    listener = std::move(made);
    return true;
  });
  if (!listens) fail("gravel_unique_id: this host cannot listen at {}, port {}: {}", address, port, reason);
  sockaddr_storage place{};
  socklen_t size = sizeof(place);
  char number[NI_MAXSERV];
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &size) ||
      getnameinfo(reinterpret_cast<sockaddr*>(&place), size, nullptr, 0, number, sizeof(number), NI_NUMERICSERV))
    fail("gravel_unique_id: the port of a socket at {} is not known", address);
  const std::string text = fmt::format("gravel/{}/{}/{}", address, number, random_name());
  gravel_unique_id_t id{};
  if (text.size() >= sizeof(id.text)) fail("gravel_unique_id: the address {} is too long", address);
  std::memcpy(id.text, text.data(), text.size());
  const std::lock_guard lock(all_listeners().lock);
  all_listeners().by_id[text] = std::move(listener);
  return id;
}

id_group::id_group(const gravel_unique_id_t& id, int pe, int n_pes)
    : pe_(pe), n_pes_(n_pes), limit_s_(current_settings().connect_timeout_s) {
  if (n_pes < 1 || pe < 0 || pe >= n_pes)
    fail("gravel_init: a job of {} PEs has no PE {}: numbers are 0 to {}", n_pes, pe, n_pes - 1);
  const std::string text = text_of(id);
  std::smatch parts;
  if (!std::regex_match(text, parts, std::regex("gravel/([^/]+)/([0-9]{1,5})/([0-9a-f]{16})([0-9a-f]{16})")))
    fail("gravel_init: unique id '{}': it is not one that gravel_unique_id() returned", text);
  address_ = parts[1];
  port_ = parts[2];
  secret_ = {std::stoull(parts[3], nullptr, 16), std::stoull(parts[4], nullptr, 16)};
  if (pe == 0) {
    take_listener(text);
    return;
  }
  {
    const std::lock_guard lock(all_listeners().lock);
    if (all_listeners().by_id.contains(text))
      fail("gravel_init: PE 0 is the process that called gravel_unique_id(), and this one is PE {}", pe);
  }
  connect();
}

void id_group::take_listener(const std::string& id) {
  const std::lock_guard lock(all_listeners().lock);
  const auto found = all_listeners().by_id.find(id);
  if (found == all_listeners().by_id.end())
    fail("gravel_init: PE 0 is the process that called gravel_unique_id(); this one did not, or has used the id");
  socket_ = std::move(found->second);
  all_listeners().by_id.erase(found);
}

void id_group::connect() {
  std::string reason = "there is no such port";
  const auto connects = [&](const addrinfo& at) {
    owned_descriptor made = socket_for(at);
    limit_waits(made.get(), limit_s_);  // of the connection, too
    if (!made || ::connect(made.get(), at.ai_addr, at.ai_addrlen)) {
      reason = std::strerror(errno);
      return false;
    }
    socket_ = std::move(made);
    return true;
  };
  const bool is_port = std::stoi(port_) < 1 << 16, is_connected = is_port && use_addresses(address_, port_, connects);
  if (!is_connected) fail("gravel_init: PE 0 cannot be reached at {}, port {}: {}", address_, port_, reason);
  const introduction mine{introduction::expected_magic, secret_[0], static_cast<uint64_t>(pe_),
                          static_cast<uint64_t>(n_pes_)};
  uint64_t answer = 0;
  const bool is_answered =
      send_all(socket_.get(), &mine, sizeof(mine)) && receive_all(socket_.get(), &answer, sizeof(answer));
  if (!is_answered || answer != secret_[1])
    fail("gravel_init: the process at {}, port {} is not PE 0 of this job, or has no place for PE {} of {}: {}",
         address_, port_, pe_, n_pes_, is_answered ? "it does not know the secret of the id" : why());
}

void id_group::wait_for_others() {
  std::vector<owned_descriptor> came(static_cast<size_t>(n_pes_));
  // In the order of their arrival. A PE introduces itself as soon as it is connected, so the oldest of many that stay
  // silent is none.
  std::vector<stranger> strangers;
  const size_t most_strangers = 128 + came.size();
  int missing = n_pes_ - 1;
  const clock::time_point end = clock::now() + std::chrono::seconds(limit_s_);
  while (missing) {
    std::vector<pollfd> watched{{socket_.get(), POLLIN, 0}};
    for (const stranger& s : strangers) watched.push_back({s.socket.get(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
    if (left <= 0) {
      std::string numbers;
      for (int pe = 1; pe < n_pes_; ++pe)
        if (!came[static_cast<size_t>(pe)]) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", pe);
      fail("gravel_init: PEs [{}] have not come within {} s (GRAVEL_CONNECT_TIMEOUT_S)", numbers, limit_s_);
    }
    if (poll(watched.data(), watched.size(), static_cast<int>(left)) < 0 && errno != EINTR) fail_errno("poll");
    for (size_t i = strangers.size(); i-- > 0;) {
      if (!watched[i + 1].revents) continue;
      stranger& s = strangers[i];
      const bool belongs = s.read(secret_[0]);
      if (belongs && !s.is_complete()) continue;
      stranger read = std::move(s);
      strangers.erase(strangers.begin() + static_cast<std::ptrdiff_t>(i));
      if (!belongs) continue;
      const auto [magic, secret, pe, n_pes] = read.said;
      const bool is_of_job = n_pes == static_cast<uint64_t>(n_pes_) && pe > 0 && pe < n_pes;
      if (!is_of_job) fail("gravel_init: PE {} of {} came, to a job of {} PEs", pe, n_pes, n_pes_);
      if (came[pe]) fail("gravel_init: a second PE {} came, to a job of {} PEs", pe, n_pes_);
      limit_waits(read.socket.get(), limit_s_);
      if (!send_all(read.socket.get(), &secret_[1], sizeof(secret_[1]))) fail("gravel_init: PE {}: {}", pe, why());
      came[pe] = std::move(read.socket);
      --missing;
    }
    if (!watched[0].revents) continue;
    owned_descriptor next(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!next) continue;
    if (strangers.size() == most_strangers) strangers.erase(strangers.begin());
    strangers.push_back({std::move(next)});
  }
  others_ = std::move(came);
}

void id_group::allgather(const void* mine, uint64_t bytes, void* all) {
  char* const to = static_cast<char*>(all);
  if (pe_ != 0) {
    if (send_all(socket_.get(), mine, bytes) && receive_all(socket_.get(), all, bytes * static_cast<uint64_t>(n_pes_)))
      return;
    fail("gravel_init: PE 0 has closed its connection, or has not answered within {} s: {}", limit_s_, why());
  }
  if (others_.empty()) wait_for_others();
  std::memcpy(to, mine, bytes);
  for (size_t pe = 1; pe < others_.size(); ++pe)
    if (!receive_all(others_[pe].get(), to + pe * bytes, bytes))
      fail("gravel_init: PE {} has closed its connection, or has sent nothing within {} s: {}", pe, limit_s_, why());
  for (size_t pe = 1; pe < others_.size(); ++pe)
    if (!send_all(others_[pe].get(), all, bytes * others_.size()))
      fail("gravel_init: PE {} has closed its connection: {}", pe, why());
}

}  // namespace gravel::detail
