// The bootstrap of a job that a PMIx launcher has started.
//
// PMIx has one flat store per PE whose updates travel with a fence. Gravel uses it in a cheap and predictable way: all
// that a PE puts between two fences is one PMIx value ("gravel.<number of the fence>"), which it writes at every fence
// even if it is empty.
#pragma once
#include "transport/bootstrap.hpp"
#include "transport/pmix_launcher.hpp"

namespace gravel::detail {

class pmix_bootstrap final : public bootstrap {
 public:
  /// Throws gravel::error if the launcher cannot be reached.
  pmix_bootstrap();
  ~pmix_bootstrap() override;

  /// The callback runs on a thread of PMIx. ucx-run reports a death and then sends SIGTERM. Open MPI's mpirun reports
  /// nothing and kills.
  void on_abort(std::function<void(std::string)> callback) override;
  bool has_launcher() const override { return true; }
  /// A PE that ends without finalize() ends the job.
  void finalize() override;

 private:
  explicit pmix_bootstrap(launched_job job);
  /// Fails if not all PEs have come within GRAVEL_CONNECT_TIMEOUT_S, or at once if a PE is reported dead.
  void exchange(uint64_t fence, const staged_values& mine) override;
  staged_values values_of(uint32_t pe, uint64_t fence, std::string_view key) override;
  void wait_for_all();

  std::string name_;  ///< the job's name in PMIx
  bool finalized_ = false;
  uint64_t waits_ = 0;  ///< fences begun, for messages
};

}  // namespace gravel::detail
