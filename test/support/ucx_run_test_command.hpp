// Runs programs for tests and checks their output and what they leave behind.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

/// Polls for up to ten seconds until there is nothing left. Returns what is left.
template <typename Poll>
auto left_after_patience(Poll poll) {
  auto left = poll();
  for (int i = 0; i < 200 && !left.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left = poll();
  }
  return left;
}

/// A directory of a test's own, removed with it.
class scratch_directory {
 public:
  scratch_directory();
  ~scratch_directory();
  scratch_directory(const scratch_directory&) = delete;
  const std::string& path() const { return path_; }
  /// Names in it, sorted.
  std::vector<std::string> entries() const;

 private:
  std::string path_;
};

struct command_result {
  int status = 0;  ///< as a shell gives it: 128 + signal number if a signal killed it
  std::string out, err;
};

struct command_options {
  std::map<std::string, std::string> environment;  ///< on top of this process's
  std::string directory;                           ///< to start in
  bool terminal = false;                           ///< standard input is a terminal, which it controls
};

/// A running program. Whatever it starts carries a mark in its environment, by which leftovers are found;
/// whatever is left when this object goes, or after two minutes, is killed.
class command {
 public:
  command(const std::vector<std::string>& words, const command_options& options = {});
  ~command();
  command(const command&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void type(const std::string& text) const;
  void close_input();
  /// Waits until it has written `text` to its output `count` times. Throws std::runtime_error if it ends
  /// before.
  void await_output(const std::string& text, size_t count = 1);
  /// Waits for its end and the end of its output. Throws std::runtime_error after two minutes.
  command_result finish();
  /// Processes that carry the mark and still live.
  std::vector<pid_t> living() const;
  std::vector<pid_t> living_after_patience() const {
    return left_after_patience([&] { return living(); });
  }

 private:
  bool read_some();
  void reap();
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool reaped_ = false;
  std::string mark_;
  command_result result_;
};

/// Runs it to its end with `input`.
command_result run_command(const std::vector<std::string>& words, const command_options& options = {},
                           const std::string& input = "");

/// A program of this build, given relative to the root of the build directory.
std::string built(const std::string& path);
