// Errors of the host API. Everything thrown by Gravel is a gravel::error: its text says what was wrong,
// where, and what to do about it.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "lib/base/platform.hpp"
#if !GRAVEL_CUDA  // nvcc's host pass does not digest fmt 9: what it compiles joins strings
#include <fmt/format.h>
#endif

namespace gravel {

struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws gravel::error with this text.
[[noreturn]] inline void fail_text(const std::string& text) { throw error(text); }

#if !GRAVEL_CUDA
/// Throws gravel::error with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw error(fmt::format(format, std::forward<Args>(args)...));
}
#endif

/// Throws gravel::error: "<what>: <strerror(errno)>".
[[noreturn]] void fail_errno(const std::string& what);

/// The text of what was thrown; `unknown`, if it is no std::exception.
std::string text_of_thrown(const std::exception_ptr& thrown, const char* unknown = "something that is no std::exception");

/// An uncaught exception ends the process with one line on stderr and exit status 1, instead of a core dump.
/// `last_words`, if given, is called with the exception's text first; it may end the process itself.
void install_terminate_handler(void (*last_words)(const std::string&) = nullptr);

/// To be called before reporting what is only a consequence of another process's failure: gives that process, and
/// the launcher, which then ends this one, a moment to say the cause and nothing but the cause.
void let_cause_speak();

}  // namespace gravel
