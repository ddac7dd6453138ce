// The limits of this process's memory and threads, for the texts of errors.
#pragma once
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gravel::detail {

/// Formats a number of bytes: "1.5 GiB (1610612736 bytes)"; below 1 KiB "7 bytes".
std::string text_of_bytes(uint64_t bytes);
/// The least limit of `name` (memory.max, pids.max) in any cgroup of this process; ~0: there is no limit. `files`: ""
/// except in tests.
uint64_t cgroup_limit(const std::string& name, const std::string& files = "");
/// The bytes of memory that all processes of this host, or of this process's cgroups, can have together.
uint64_t memory_of_host();

/// Says how much memory this host has and how much of it is free, and which limits this process has.
std::string describe_host_limits();
/// The limit of locked memory of this process (ulimit -l), as a text.
std::string text_of_locked_limit();

/// Throws gravel::error that says that `what` (with the variable that sets its size) needs so many bytes, how many
/// there are, and errno as the reason.
[[noreturn]] void fail_memory(const std::string& what, uint64_t bytes);
/// Throws gravel::error that says that no thread can be started for `what`.
[[noreturn]] void fail_thread(const std::string& what, const char* why);

/// Starts a thread that runs `f`. If that fails, throws gravel::error that says what the limits are.
template <class Thread = std::thread, class F>
Thread start_thread(const char* what, F f) {
  try {
    return Thread(std::move(f));
  } catch (const std::system_error& e) {
    fail_thread(what, e.what());
  }
}

}  // namespace gravel::detail
