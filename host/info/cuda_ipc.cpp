#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "host/info/cuda_driver.hpp"
#include "host/info/gpus.hpp"

extern char** environ;

namespace gravel {
namespace {

constexpr unsigned limit_s = 20;

std::string to_hex(const cuda_ipc_handle& handle) {
  std::string text;
  for (const char c : handle.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool from_hex(const std::string& text, cuda_ipc_handle& handle) {
  if (text.size() != 2 * sizeof(handle.bytes) || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  for (size_t i = 0; i < sizeof(handle.bytes); ++i) handle.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return true;
}

/// A context on GPU 0 for as long as the object lives.
struct context {
  explicit context(const cuda_driver& d) : driver(d) {
    if (!d.why_not.empty()) {
      why_not = d.why_not;
    } else if (!d.retain_context || !d.release_context || !d.set_context || !d.allocate || !d.release || !d.get_ipc_handle ||
               !d.open_ipc_handle || !d.close_ipc_handle) {
      why_not = "the CUDA driver has no functions for it";
    } else {
      void* handle = nullptr;
      int result = d.device(&device, 0);
      if (result == 0) result = d.retain_context(&handle, device);
      held = result == 0;
      if (result == 0) result = d.set_context(handle);
      if (result) why_not = fmt::format("no CUDA context on GPU 0: {}", d.text_of(result));
    }
  }
  ~context() {
    if (held) driver.release_context(device);
  }
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  const cuda_driver& driver;
  int device = 0;
  bool held = false;
  std::string why_not;
};

/// Runs this program with --open-cuda-ipc; returns what it printed, or "" if it succeeded.
std::string run_copy(const std::string& handle) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fmt::format("pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const std::string option = "--open-cuda-ipc=" + handle;
  char* arguments[] = {const_cast<char*>("gravel-info"), const_cast<char*>(option.c_str()), nullptr};
  pid_t pid = -1;
  const int code = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    return fmt::format("a second process could not be started: {}", std::strerror(code));
  }
  std::string said;
  char text[512];
  for (ssize_t n; (n = read(ends[0], text, sizeof(text))) > 0;) said.append(text, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fmt::format("a second process did not open the memory within {} s", limit_s);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said.empty() ? "a second process that opens the memory died" : said;
}

}  // namespace

std::string try_cuda_ipc() {
  const cuda_driver cuda;
  const context here(cuda);
  if (!here.why_not.empty()) return here.why_not;
  uint64_t memory = 0;
  if (const int result = cuda.allocate(&memory, 2 << 20)) return fmt::format("2 MiB of GPU memory: {}", cuda.text_of(result));
  cuda_ipc_handle handle{};
  std::string why_not;
  if (const int result = cuda.get_ipc_handle(&handle, memory)) why_not = fmt::format("cuIpcGetMemHandle: {}", cuda.text_of(result));
  else why_not = run_copy(to_hex(handle));
  cuda.release(memory);
  return why_not;
}

int open_cuda_ipc(const std::string& text) {
  alarm(limit_s);  // what hangs, ends
  cuda_ipc_handle handle;
  if (!from_hex(text, handle)) {
    std::puts("not a handle of CUDA IPC");
    return 1;
  }
  const cuda_driver cuda;
  const context here(cuda);
  if (!here.why_not.empty()) {
    std::puts(here.why_not.c_str());
    return 1;
  }
  uint64_t memory = 0;
  if (const int result = cuda.open_ipc_handle(&memory, handle, cuda_driver::lazy_peer_access)) {
    std::puts(fmt::format("cuIpcOpenMemHandle: {}", cuda.text_of(result)).c_str());
    return 1;
  }
  cuda.close_ipc_handle(memory);
  return 0;
}

}  // namespace gravel
