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

void install_terminate_handler() {
  std::set_terminate([] {
    try {
      if (auto pending = std::current_exception()) std::rethrow_exception(pending);
      log_error("terminate called without an exception");
    } catch (const std::exception& e) {
      log_error("{}", e.what());
    } catch (...) {
      log_error("uncaught exception of unknown type");
    }
    _exit(1);
  });
}

}  // namespace gravel
