#include "lib/base/error.hpp"

#include <fmt/args.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/log.hpp"

namespace gravel::detail {

void inner::fail_with(const char* format, const text_value* values, size_t n) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  for (size_t i = 0; i < n; ++i) values[i].visit([&](auto value) { arguments.push_back(value); });
  throw error(fmt::vformat(format, arguments));
}

void fail_errno(const std::string& what) {
  const int code = errno;
  throw error(fmt::format("{}: {}", what, std::strerror(code)));
}

namespace {
void (*the_last_words)(const std::string&) = nullptr;
}

void set_last_words(void (*last_words)(const std::string&)) { the_last_words = last_words; }

void end_by_exception(const std::string& text) {
  if (the_last_words) the_last_words(text);
  log_error("{}", text);
  _exit(1);
}

void wait_for_root_cause() { usleep(300'000); }

}  // namespace gravel::detail
