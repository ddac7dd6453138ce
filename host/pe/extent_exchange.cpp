#include "host/pe/extent_exchange.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

namespace {

/// Raises the number of files that may be open, as long as it lives. The kernel counts the descriptors of a user that
/// have been sent and not received yet, of all his processes, and compares the sum with the sender's limit. In an
/// exchange of n PEs, n * (n - 1) descriptors may be on the way for each extent.
class raised_descriptor_limit {
 public:
  raised_descriptor_limit() {
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
    const rlimit raised{before_.rlim_max, before_.rlim_max};
    is_raised_ = setrlimit(RLIMIT_NOFILE, &raised) == 0;
  }
  ~raised_descriptor_limit() {
    if (is_raised_) setrlimit(RLIMIT_NOFILE, &before_);
  }
  raised_descriptor_limit(const raised_descriptor_limit&) = delete;
  raised_descriptor_limit& operator=(const raised_descriptor_limit&) = delete;

 private:
  rlimit before_{};
  bool is_raised_ = false;
};

}  // namespace

/// Waits until another process connects. Throws gravel::error if none does.
node_socket extent_exchange::accept_one() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s_);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0)
      fail(
          "another PE of the host has not passed on its memory within {} s (twice GRAVEL_CONNECT_TIMEOUT_S); is a "
          "process of the job stopped?",
          patience_s_);
    pollfd wait{listener_.descriptor(), POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(std::min<long>(left, 1 << 30))) < 0 && errno != EINTR) fail_errno("poll");
    if (!(wait.revents & POLLIN)) continue;
    const int found = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (found >= 0) return node_socket(found);
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) fail_errno("accepting a connection of another PE");
  }
}

/// The places of extents; those that follow each other are one.
static std::vector<extent> places_of(std::span<const new_extent> extents) {
  std::vector<extent> places;
  for (const new_extent& e : extents)
    if (!places.empty() && places.back().begin + places.back().bytes == e.place.begin)
      places.back().bytes += e.place.bytes;
    else places.push_back(e.place);
  return places;
}
/// Text of the place number `i`, such as "2097152 bytes at offset 0x0".
static std::string text_of(const std::vector<extent>& places, size_t i) {
  if (i >= places.size()) return "nothing";
  return fmt::format("{} bytes at offset {:#x}", places[i].bytes, places[i].begin);
}

extent_exchange::delivery extent_exchange::receive_from(node_socket& from, const std::vector<party>& others,
                                                        std::span<const new_extent> mine) {
  delivery came{others.size(), {}};
  for (uint64_t left = 1; left != 0;) {
    auto f = from.receive();
    if (!f) fail("another PE of the host is gone, or has closed its connection, while it passed on its memory");
    if (f->kind != wire_kind::extent) fail("a message '{}' came where memory was expected", name_of(f->kind));
    const auto m = f->as<extent_message>("another PE of the host");
    const auto who = std::find_if(others.begin(), others.end(), [&](const auto& o) { return o.pe == m.pe; });
    const auto at = static_cast<size_t>(who - others.begin());
    const bool is_first = came.extents.empty();
    const bool is_expected = who != others.end() && (is_first || (came.party == at && m.left + 1 == left));
    if (!is_expected) fail("PE {} passed on memory that nobody expects", m.pe);
    if (m.exchange < number_) return {at, {}};
    if (m.exchange != number_)
      fail("PE {} passed on memory in exchange {}, here it is exchange {}: the symmetric heaps differ", m.pe,
           m.exchange, number_);
    came.party = at;
    came.extents.push_back({{m.begin, m.bytes}, std::move(f->descriptor)});
    left = m.left;
  }
  check_places(others[came.party].pe, came.extents, mine);
  return came;
}

void check_places(uint32_t pe, std::span<const new_extent> theirs, std::span<const new_extent> mine) {
  const std::vector<extent> came = places_of(theirs), expected = places_of(mine);
  if (came == expected) return;
  const auto [one, other] = std::mismatch(came.begin(), came.end(), expected.begin(), expected.end());
  const auto at = static_cast<size_t>(one - came.begin());
  fail("PE {} passed on {}, here {}: the symmetric heaps differ", pe, text_of(came, at), text_of(expected, at));
}

std::vector<std::vector<new_extent>> extent_exchange::exchange(const std::vector<party>& others,
                                                               std::span<const new_extent> mine) {
  ++number_;
  const raised_descriptor_limit many;
  for (const party& other : others) {
    const std::string why = text_of_error([&] {
      node_socket to = node_socket::connect(other.name);
      to.limit_sends(patience_s_);
      to.check_peer();
      for (size_t i = 0; i < mine.size(); ++i)
        to.send(extent_message{me_, number_, mine[i].place.begin, mine[i].place.bytes, mine.size() - i - 1},
                mine[i].memory.descriptor.get());
    });
    if (!why.empty()) fail("passing memory on to PE {}: {}", other.pe, why);
  }

  std::vector<std::vector<new_extent>> theirs(others.size());
  for (size_t missing = others.size(); missing != 0;) {
    node_socket from = accept_one();
    try {
      from.check_peer();
    } catch (const error& e) {  // a stranger who has guessed the name
      log_warning("a connection is refused: {}", e.what());
      continue;
    }
    from.limit_waits(patience_s_);
    delivery came = receive_from(from, others, mine);
    if (came.extents.empty()) continue;
    if (!theirs[came.party].empty()) fail("PE {} passed on memory that nobody expects", others[came.party].pe);
    theirs[came.party] = std::move(came.extents);
    --missing;
  }
  return theirs;
}

}  // namespace gravel::detail
