// The input of PE 0. A file or a pipe is simply handed down. A terminal cannot be: the PEs are in process
// groups of their own, which the terminal stops when they read. So what is typed goes through a pipe.
#pragma once
#include <poll.h>

#include <string>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

class job_input {
 public:
  /// Looks at descriptor 0. Throws gravel::error.
  job_input();

  /// What PE 0 gets as its descriptor 0; -1: the one of this process.
  int for_first_pe() const { return read_end_.get(); }
  /// To be called once PE 0 runs.
  void first_pe_started() { read_end_.reset(); }
  /// Appends what to poll for; returns false if nothing can be polled now but something may be later (we are
  /// in the background, where reading the terminal would stop us).
  bool add_to_poll(std::vector<pollfd>& polled) const;
  /// Reads what was typed and passes on what fits; never blocks.
  void service();

 private:
  owned_descriptor read_end_, write_end_;
  bool at_end_ = false;
  std::string pending_;
};

}  // namespace gravel::detail
