// The signals of ucx-run: read from a descriptor, so that its loop handles them one after the other.
#pragma once
#include <signal.h>

#include <optional>

#include "lib/base/descriptor.hpp"

namespace gravel {

class signal_source {
 public:
  /// Blocks the signals that are for the job in this thread and in those that it will start (hence: before
  /// PMIx starts its own), and ignores SIGPIPE. Throws gravel::error.
  signal_source();

  int fd() const { return fd_.get(); }
  /// The number of a signal that has come; never waits.
  std::optional<int> next();

  // What this process was started with, to be given on to the PEs.
  const sigset_t& inherited_mask() const { return mask_; }
  const struct sigaction& inherited_sigpipe() const { return sigpipe_; }

 private:
  owned_descriptor fd_;
  sigset_t mask_{};
  struct sigaction sigpipe_ {};
};

}  // namespace gravel
