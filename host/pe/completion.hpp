// When is it done? Quiet, barriers and quiescence of a PE (docs/message.md, "Credits and counts").
#pragma once
#include <functional>

#include "host/pe/backend.hpp"
#include "host/pe/collective_member.hpp"
#include "host/pe/pe_memory.hpp"
#include "host/pe/peers.hpp"
#include "host/pe/services.hpp"

namespace gravel {

class completion {
 public:
  struct parts {
    backend& device;
    const pe_segment& segment;
    pe_memory& memory;
    peers& routes;
    collective_member& collectives;
    bool is_leader;                              ///< the first PE of a node counts for its aggregator
    std::function<void()> check;                 ///< ends the job if a kernel or a handler has failed
    const std::vector<open_service*>& services;  ///< those that are open
  };
  explicit completion(const parts& p) : p_(p) {}

  /// Returns when all that kernels which have ended, and host threads, have sent is applied.
  void quiet();
  /// Collective: quiet at all PEs.
  void barrier_all();
  /// Collective: returns when no message is under way in the job, no handler runs, and services have applied all they were sent.
  void wait_quiescent();

 private:
  collective_words take_sample();
  settle_view view() const;
  void meet_on_devices(settling, collective_kind);
  void settle_host();
  void settle_kernels();
  parts p_;
};

}  // namespace gravel
