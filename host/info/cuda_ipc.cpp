#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "host/info/cuda_driver.hpp"
#include "host/info/gpus.hpp"

namespace gravel::detail {
namespace {

constexpr unsigned limit_s = 20;

std::string to_hex(const cuda_ipc_handle& handle) {
  std::string text;
  for (const unsigned char c : handle.bytes) text += fmt::format("{:02x}", c);
  return text;
}

bool from_hex(const std::string& text, cuda_ipc_handle& handle) {
  if (text.size() != 2 * sizeof(handle.bytes) || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  for (size_t i = 0; i < sizeof(handle.bytes); ++i)
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return true;
}

/// Runs this program with --open-cuda-ipc. Returns what it printed, or "" if it succeeded.
std::string run_copy(const std::string& handle) {
  std::FILE* const copy = popen(fmt::format("exec /proc/{}/exe --open-cuda-ipc={}", getpid(), handle).c_str(), "re");
  if (!copy) return fmt::format("a second process could not be started: {}", std::strerror(errno));
  std::string said(512, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), copy));
  const int status = pclose(copy);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fmt::format("a second process did not open the memory within {} s", limit_s);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said.empty() ? "a second process that opens the memory died" : said;
}

}  // namespace

std::string try_cuda_ipc() {
  const cuda_driver cuda;
  if (const std::string why_not = cuda.make_context(); !why_not.empty()) return why_not;
  uint64_t memory = 0;
  if (const int result = cuda.allocate(&memory, 2 << 20))
    return fmt::format("2 MiB of GPU memory: {}", cuda.text_of(result));
  cuda_ipc_handle handle{};
  if (const int result = cuda.get_ipc_handle(&handle, memory))
    return fmt::format("cuIpcGetMemHandle: {}", cuda.text_of(result));
  return run_copy(to_hex(handle));
}

std::string open_cuda_ipc(const std::string& text) {
  alarm(limit_s);  // ends this process if it hangs
  cuda_ipc_handle handle;
  if (!from_hex(text, handle)) return "not a handle of CUDA IPC";
  const cuda_driver cuda;
  if (const std::string why_not = cuda.make_context(); !why_not.empty()) return why_not;
  uint64_t memory = 0;
  const int result = cuda.open_ipc_handle(&memory, handle, cuda_driver::lazy_peer_access);
  return result ? fmt::format("cuIpcOpenMemHandle: {}", cuda.text_of(result)) : "";
}

}  // namespace gravel::detail
