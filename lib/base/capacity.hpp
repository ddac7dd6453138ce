// What this process may have of memory and threads, for messages about what it cannot have.
#pragma once
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gravel::detail {

/// "1.5 GiB (1610612736 bytes)"; below 1 KiB "7 bytes".
std::string text_of_bytes(uint64_t bytes);
/// The least that `name` (memory.max, pids.max) allows in any cgroup of this process; ~0: there is no limit. `files`:
/// "" but in tests.
uint64_t cgroup_limit(const std::string& name, const std::string& files = "");
/// Bytes of memory that processes of this host, or of this process's cgroups, can have in all.
uint64_t memory_of_host();

/// Throws gravel::error: `what` (with the variable that sets its size) needs so many bytes, which are not there. Says
/// what there is. errno is the reason.
[[noreturn]] void fail_memory(const std::string& what, uint64_t bytes);
/// Throws gravel::error: no thread for `what`.
[[noreturn]] void fail_thread(const std::string& what, const char* why);

/// A thread that runs `f`. Throws gravel::error, which says what there is, if there is no thread to be had.
template <class Thread = std::thread, class F>
Thread start_thread(const char* what, F f) {
  try {
    return Thread(std::move(f));
  } catch (const std::system_error& e) {
    fail_thread(what, e.what());
  }
}

}  // namespace gravel::detail
