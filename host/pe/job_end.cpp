#include "host/pe/job_end.hpp"

#include <unistd.h>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel {

void job_end::abort(const std::string& text, int status) {
  static std::atomic<bool> first{true};
  while (!first.exchange(false)) pause();
  // What is wrong with the program is often wrong in every PE: it is enough that PE 0 says so.
  if (pe_ != 0) let_cause_speak();
  while (elsewhere_) pause();  // who knows of it ends this process
  log_error("{}", text);
  leave();
  try {
    link_.send(abort_word{fmt::format("PE {}: {}", pe_, text)});
  } catch (const std::exception&) {
    // The aggregator is gone: it knows, then.
  }
  end_process(status >= 1 && status <= 255 ? status : 1);
}

void job_end::end_process(int status) { _exit(status); }

}  // namespace gravel
