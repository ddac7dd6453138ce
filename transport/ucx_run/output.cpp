#include "transport/ucx_run/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {  // the output was made non-blocking
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return false;
    } else if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  return true;
}

void say_lost(int target, int code) {
  const std::string text = fmt::format("ucx-run: {}: {}; what the PEs write there is lost\n",
                                       target == 1 ? "standard output" : "standard error", std::strerror(code));
  if (write(2, text.data(), text.size()) < 0) return;  // nobody reads it
}

}  // namespace

std::string line_tagger::feed(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const size_t room = longest - line_.size();
    const size_t taken = std::min({newline, text.size(), room});
    line_ += text.substr(0, taken);
    text.remove_prefix(taken);
    const bool ended = !text.empty() && text[0] == '\n';
    if (ended) text.remove_prefix(1);
    if (ended || line_.size() == longest) {
      result += prefix_ + line_ + '\n';
      line_.clear();
    }
  }
  return result;
}

std::string line_tagger::finish() { return line_.empty() ? std::string() : feed("\n"); }

int tagged_output::add(uint32_t pe, int target) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("cannot make a pipe for the output of a PE (see `ulimit -n`)");
  streams_.push_back({owned_descriptor(ends[0]), target, line_tagger(pe)});
  return ends[1];
}

void tagged_output::start() {
  thread_ =
      std::thread([streams = std::move(streams_), lost = lost_]() mutable { pass_on(std::move(streams), *lost); });
  streams_.clear();
}

void tagged_output::pass_on(std::vector<stream> streams, std::atomic<bool>& lost) {
  constexpr size_t chunk = 65536;
  const auto buffer = std::make_unique<char[]>(chunk);
  std::vector<pollfd> polled;
  while (!streams.empty()) {
    polled.clear();
    for (const auto& s : streams) polled.push_back({s.fd.get(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), -1) < 0) continue;  // EINTR
    bool target_lost[3] = {};
    for (size_t i = 0; i < streams.size(); ++i) {
      stream& s = streams[i];
      if (polled[i].revents == 0) continue;
      const ssize_t got = read(s.fd.get(), buffer.get(), chunk);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      const bool end = got <= 0;
      const std::string text = end ? s.tagger.finish() : s.tagger.feed({buffer.get(), static_cast<size_t>(got)});
      if (!write_all(s.target, text)) {
        if (errno != EPIPE) {
          say_lost(s.target, errno);
          lost = true;
        }
        target_lost[s.target] = true;
      }
      if (end) s.fd.reset();
    }
    // The output has no reader any more. The PEs notice it as without ucx-run, by SIGPIPE.
    std::erase_if(streams, [&](const stream& s) { return !s.fd || target_lost[s.target]; });
  }
}

bool tagged_output::drain() {
  if (thread_.joinable()) thread_.join();
  return !*lost_;
}

tagged_output::~tagged_output() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace gravel::detail
