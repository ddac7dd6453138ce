// The input of PE 0. PE 0 simply inherits a file or a pipe. It cannot inherit a terminal: PEs are in process groups of
// their own, which the terminal stops when they read. So ucx-run passes on what is typed through a pipe.
#pragma once
#include <poll.h>

#include <string>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

class job_input {
 public:
  /// Checks what descriptor 0 is. Throws gravel::error.
  job_input();

  /// The descriptor that PE 0 gets as its descriptor 0; -1: that of this process.
  int for_first_pe() const { return read_end_.get(); }
  /// To be called once PE 0 runs.
  void first_pe_started() { read_end_.reset(); }
  /// Appends the descriptors to poll. Returns false if nothing can be polled now but something may be later (ucx-run is
  /// in the background, where a read from the terminal would stop it).
  bool add_to_poll(std::vector<pollfd>& polled) const;
  /// Reads what was typed and passes on what fits; never blocks.
  void service();

 private:
  owned_descriptor read_end_, write_end_;
  bool at_end_ = false;
  std::string pending_;
};

}  // namespace gravel::detail
