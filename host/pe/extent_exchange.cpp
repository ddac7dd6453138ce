#include "host/pe/extent_exchange.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

/// Waits until another process connects. Throws gravel::error if none does.
node_socket extent_exchange::accept_one() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s_);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0)
      fail(
          "another PE of the node has not passed on its memory within {} s (twice GRAVEL_CONNECT_TIMEOUT_S); is a "
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

std::vector<std::vector<memory_handle>> extent_exchange::exchange(const std::vector<party>& others,
                                                                  std::span<const new_extent> mine) {
  ++number_;
  for (const party& other : others) {
    const std::string why = text_of_error([&] {
      node_socket to = node_socket::connect(other.name);
      to.limit_sends(patience_s_);
      to.check_peer();
      for (const new_extent& e : mine)
        to.send(extent_message{me_, number_, e.place.begin, e.place.bytes, e.memory.fabric}, e.memory.descriptor.get());
    });
    if (!why.empty()) fail("passing memory on to PE {}: {}", other.pe, why);
  }

  std::vector<std::vector<memory_handle>> theirs(others.size());
  for (size_t missing = others.size(); missing != 0;) {
    node_socket from = accept_one();
    try {
      from.check_peer();
    } catch (const error& e) {  // a stranger who has guessed the name
      log_warning("a connection is refused: {}", e.what());
      continue;
    }
    from.limit_waits(patience_s_);
    size_t party = others.size();
    std::vector<memory_handle> came;
    while (came.size() < mine.size()) {
      auto f = from.receive();
      if (!f) fail("another PE of the node is gone, or has closed its connection, while it passed on its memory");
      if (f->kind != wire_kind::extent) fail("a message '{}' came where memory was expected", name_of(f->kind));
      const auto m = f->as<extent_message>("another PE of the node");
      const auto who = std::find_if(others.begin(), others.end(), [&](const auto& o) { return o.pe == m.pe; });
      const auto at = static_cast<size_t>(who - others.begin());
      if (who == others.end() || !theirs[at].empty() || (party != others.size() && party != at))
        fail("PE {} passed on memory that nobody expects", m.pe);
      party = at;
      const extent& expected = mine[came.size()].place;
      if (m.exchange != number_ || m.begin != expected.begin || m.bytes != expected.bytes)
        fail(
            "PE {} passed on {} bytes at offset {:#x} in exchange {}; here {} bytes at {:#x} in exchange {}: the "
            "symmetric heaps differ",
            m.pe, m.bytes, m.begin, m.exchange, expected.bytes, expected.begin, number_);
      // All PEs of a node share memory by handles of one kind.
      if (bool(f->descriptor) != bool(mine[came.size()].memory.descriptor) || bool(f->descriptor) != m.fabric.empty())
        fail("PE {} passed on memory by another kind of handle than this PE: does GRAVEL_HANDLE_TYPE differ?", m.pe);
      came.emplace_back(std::move(f->descriptor)).fabric = m.fabric;
    }
    theirs[party] = std::move(came);
    --missing;
  }
  return theirs;
}

}  // namespace gravel::detail
