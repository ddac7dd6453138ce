// --tag-output: writes whole lines, each with the number of its PE in front.
#pragma once
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// Cuts the output of one PE into lines. Pure; the rest of --tag-output reads and writes.
class line_tagger {
 public:
  explicit line_tagger(uint32_t pe) : prefix_(fmt::format("[{}] ", pe)) {}
  /// Returns the lines that `text` completes, each as "[PE] line\n". A line longer than `longest` is split.
  std::string feed(std::string_view text);
  /// The rest when the PE has closed its end: the last line, if it had no newline.
  std::string finish();
  static constexpr size_t longest = 1 << 20;

 private:
  std::string prefix_, line_;
};

/// Pipes from the PEs, and the thread that forwards what arrives in them. It is a thread so that a slow reader of
/// ucx-run's output blocks the PEs (as without tags) but not the handling of signals and deaths.
class tagged_output {
 public:
  tagged_output() = default;
  tagged_output(const tagged_output&) = delete;
  tagged_output& operator=(const tagged_output&) = delete;
  /// Does not wait: the thread ends with the process.
  ~tagged_output();

  /// The write end for a PE's descriptor `target` (1 or 2). The caller closes it once the PE has it. Call before
  /// start(). Throws gravel::error.
  int add(uint32_t pe, int target);
  void start();
  /// Waits until all PEs have closed their ends and everything is written. Returns false if some output could not be
  /// written.
  [[nodiscard]] bool drain();

 private:
  struct stream {
    owned_descriptor fd;
    int target;
    line_tagger tagger;
  };
  static void pass_on(std::vector<stream> streams, std::atomic<bool>& lost);
  std::vector<stream> streams_;
  /// Some output could not be written. The thread may outlive this object.
  std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  std::thread thread_;
};

}  // namespace gravel::detail
