#include "test/support/ucx_run_test_command.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fs = std::filesystem;

namespace {

constexpr auto safety_limit = std::chrono::minutes(2);

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::string next_mark() {
  static int count = 0;
  return "UCX_RUN_TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(++count) + ".";
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace

scratch_directory::scratch_directory() {
  char pattern[] = "/tmp/ucx-run-test-XXXXXX";
  require(mkdtemp(pattern) != nullptr, "mkdtemp failed");
  path_ = pattern;
}

scratch_directory::~scratch_directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> scratch_directory::entries() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

command::command(const std::vector<std::string>& words, const command_options& options) : mark_(next_mark()) {
  int in[2], out[2], err[2];
  if (options.terminal) {
    in[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    require(in[1] >= 0 && grantpt(in[1]) == 0 && unlockpt(in[1]) == 0, "no pseudo terminal");
    in[0] = open(ptsname(in[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    require(in[0] >= 0, "cannot open the pseudo terminal");
  } else {
    require(pipe2(in, O_CLOEXEC) == 0, "pipe");
  }
  require(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0, "pipe");

  std::vector<std::string> environment{mark_};
  for (char** entry = environ; *entry; ++entry) {
    const std::string text(*entry);
    if (!options.environment.count(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  std::vector<char*> environment_array, words_array;
  for (const auto& text : environment) environment_array.push_back(const_cast<char*>(text.c_str()));
  for (const auto& text : words) words_array.push_back(const_cast<char*>(text.c_str()));
  environment_array.push_back(nullptr);
  words_array.push_back(nullptr);

  pid_ = fork();
  require(pid_ >= 0, "fork");
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    if (options.terminal && (setsid() < 0 || ioctl(0, TIOCSCTTY, 0) != 0)) _exit(98);
    if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(98);
    ::signal(SIGINT, SIG_DFL);
    execve(words_array[0], words_array.data(), environment_array.data());
    _exit(99);
  }
  for (const int fd : {in[0], out[1], err[1]}) close(fd);
  in_ = in[1];
  out_ = out[0];
  err_ = err[0];
}

command::~command() {
  close_input();
  if (!reaped_) kill(pid_, SIGKILL);
  for (const pid_t pid : living()) kill(pid, SIGKILL);
  reap();
  for (const int fd : {out_, err_})
    if (fd >= 0) close(fd);
}

void command::reap() {
  if (reaped_) return;
  int status = 0;
  if (waitpid(pid_, &status, 0) == pid_)
    result_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  reaped_ = true;
}

void command::signal(int number) const { kill(pid_, number); }

void command::type(const std::string& text) const {
  require(write(in_, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "cannot write to the command");
}

void command::close_input() {
  if (in_ >= 0) close(in_);
  in_ = -1;
}

bool command::read_some() {
  pollfd polled[2];
  nfds_t n = 0;
  for (const int fd : {out_, err_})
    if (fd >= 0) polled[n++] = {fd, POLLIN, 0};
  if (n == 0) return false;
  poll(polled, n, 100);
  for (nfds_t i = 0; i < n; ++i) {
    if (!polled[i].revents) continue;
    char buffer[65536];
    const ssize_t got = read(polled[i].fd, buffer, sizeof buffer);
    int& fd = polled[i].fd == out_ ? out_ : err_;
    if (got > 0) {
      (polled[i].fd == out_ ? result_.out : result_.err).append(buffer, static_cast<size_t>(got));
    } else {
      close(fd);
      fd = -1;
    }
  }
  return true;
}

void command::await_output(const std::string& text, size_t count) {
  const auto end = std::chrono::steady_clock::now() + safety_limit;
  while (occurrences(result_.out, text) < count) {
    require(read_some(), "it ended before it wrote '" + text + "'; it wrote:\n" + result_.out + result_.err);
    require(std::chrono::steady_clock::now() < end,
            "it does not write '" + text + "'; it wrote:\n" + result_.out + result_.err);
  }
}

command_result command::finish() {
  const auto end = std::chrono::steady_clock::now() + safety_limit;
  while (read_some())
    require(std::chrono::steady_clock::now() < end, "it does not end; it wrote:\n" + result_.out + result_.err);
  reap();
  return result_;
}

std::vector<pid_t> command::living() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find(mark_) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

command_result run_command(const std::vector<std::string>& words, const command_options& options,
                           const std::string& input) {
  command running(words, options);
  if (!input.empty()) running.type(input);
  running.close_input();
  return running.finish();
}

std::string built(const std::string& path) {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() / path;
}
