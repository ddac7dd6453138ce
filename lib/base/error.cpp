#include "lib/base/error.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "lib/base/log.hpp"

namespace gravel {

void fail_errno(const std::string& what) {
  const int code = errno;
  throw error(fmt::format("{}: {}", what, std::strerror(code)));
}

namespace {
void (*the_last_words)(const std::string&) = nullptr;
}

void install_terminate_handler(void (*last_words)(const std::string&)) {
  the_last_words = last_words;
  std::set_terminate([] {
    std::string text = "terminate called without an exception";
    try {
      if (auto pending = std::current_exception()) std::rethrow_exception(pending);
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text = "uncaught exception of unknown type";
    }
    if (the_last_words) the_last_words(text);
    log_error("{}", text);
    _exit(1);
  });
}

void let_cause_speak() { usleep(300'000); }

}  // namespace gravel
