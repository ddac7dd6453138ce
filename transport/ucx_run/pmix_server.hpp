// The PMIx server inside ucx-run: one job, all of whose PEs run on this host.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "transport/ucx_run/connection_gate.hpp"

namespace gravel::detail {

/// What the PMIx server knows about one PE.
struct pe_membership {
  bool connected = false;  ///< it has called PMIx_Init
  bool finalized = false;  ///< it has called PMIx_Finalize
  uint32_t joins = 0;      ///< how often a process has joined as this PE: the programs of a script do, one by one
};

/// A PE requested the end of the job (PMIx_Abort).
struct abort_request {
  uint32_t pe = 0;
  int status = 0;
};

/// The PMIx server. There is one per process, until the process ends with _exit: PMIx is never closed down. It keeps
/// nothing outside the session directory, and PMIx 4.2.2 (Debian 12) can crash in PMIx_server_finalize when a PE has
/// died in a fence. PMIx runs it on a thread of its own, which inherits the signal mask of the constructor's caller.
/// The functions below are for one other thread.
class pmix_server {
 public:
  /// Starts to serve a job of `n_pes` PEs. PMIx's own files go into `session_directory`, which PEs learn, too. Throws
  /// gravel::error.
  pmix_server(uint32_t n_pes, const std::string& session_directory);
  pmix_server(const pmix_server&) = delete;
  pmix_server& operator=(const pmix_server&) = delete;

  /// The environment of one PE: what it needs, and that of this process without what another launcher may have left
  /// there.
  std::vector<std::string> environment_of(uint32_t pe) const;

  /// A descriptor that becomes readable when memberships() or aborts() has changed; acknowledge() resets it.
  int change_fd() const;
  void acknowledge();
  std::vector<pe_membership> memberships() const;
  /// The abort requests, in the order in which they came.
  std::vector<abort_request> aborts() const;

  /// The gate through which PEs connect.
  connection_gate& gate() { return gate_; }

  /// True if PMIx has crashed. Its thread is kept where it is, so that this process can still end the job and clean up.
  bool crashed() const;

  /// Notifies the PEs that are still alive that `pe` is dead, with a sentence that says how it died.
  void announce_death(uint32_t pe, const std::string& text);

 private:
  void register_job(uint32_t n_pes, const std::string& directory);
  std::string namespace_;  ///< with 128 random bits: a process that does not know it cannot join
  connection_gate gate_;
};

}  // namespace gravel::detail
