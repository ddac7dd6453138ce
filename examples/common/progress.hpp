// Progress of a long loop, on stderr by PE 0: nothing in the first two seconds, then a line every two
// seconds.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace app {

class progress {
 public:
  progress(std::string what, bool speaks) : what_(std::move(what)), speaks_(speaks) {}

  /// `done` of `all` steps are behind us.
  void at(uint64_t done, uint64_t all) {
    const auto now = clock::now();
    if (!speaks_ || done == all || now - said_ < std::chrono::seconds(2)) return;
    said_ = now;
    std::fprintf(stderr, "%s: %.0f %%\n", what_.c_str(), 100.0 * static_cast<double>(done) / static_cast<double>(all));
  }

 private:
  using clock = std::chrono::steady_clock;
  std::string what_;
  bool speaks_;
  clock::time_point said_ = clock::now();
};

/// Calls part(first, count) for consecutive pieces of 0 ... total. The first piece is at most `first_piece`
/// long, and the others take about a second each, so that short runs are one piece and long ones can report
/// where they are.
template <class Part>
void in_pieces(uint64_t total, uint64_t first_piece, progress& report, Part&& part) {
  uint64_t piece = first_piece;
  for (uint64_t done = 0; done < total;) {
    const uint64_t count = std::min(piece, total - done);
    const auto begin = std::chrono::steady_clock::now();
    part(done, count);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    done += count;
    report.at(done, total);
    const double in_a_second = static_cast<double>(count) / std::max(took.count(), 1e-6);
    piece = static_cast<uint64_t>(std::clamp(in_a_second, static_cast<double>(first_piece), 1e15));
  }
}

}  // namespace app
