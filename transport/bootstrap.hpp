// How the processes of a job find each other: the client side of PMIx. Any PMIx launcher will do: ucx-run,
// Open MPI's mpirun, prterun, srun --mpi=pmix. A process that was started by hand is a job of one PE and
// needs no launcher.
//
// PMIx has one flat store per PE whose updates travel with a fence. We keep that cheap and predictable: what
// was put between two fences is one PMIx value ("gravel.<number of the fence>"), written at every fence even
// when it is empty. So a value can be put again, and a key that a PE never put is found to be missing at
// once, without waiting for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/wire.hpp"

namespace gravel::detail {

/// What a PE puts between two fences.
struct staged_values {
  static constexpr wire_kind kind = wire_kind::staged_values;
  static constexpr bool any_values_will_do = true;                     // who gets a value knows what it can be
  std::vector<std::pair<std::string, std::vector<std::byte>>> values;  ///< key, value
  static auto fields(auto& m) { return std::tie(m.values); }
};

/// What a launcher says of its job; as the functions of bootstrap.
struct launched_job {
  std::string name;  ///< PMIx's; empty: no launcher has started this process
  uint32_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::vector<uint32_t> host_of{0};
};

/// This process's membership in its job. At most one at a time in a process. Its functions are called by one
/// thread at a time.
class bootstrap {
 public:
  /// Joins the job. Throws gravel::error if a launcher started this process but cannot be reached, or if a
  /// launcher started several processes without PMIx (srun without --mpi=pmix), which would otherwise be so
  /// many jobs of one PE.
  bootstrap();
  bootstrap(const bootstrap&) = delete;
  bootstrap& operator=(const bootstrap&) = delete;
  /// Leaves the job as finalize() does.
  ~bootstrap();

  uint32_t rank() const { return job_.rank; }  ///< number of this PE, 0 to size() - 1
  uint32_t size() const { return job_.size; }  ///< number of PEs

  /// For each PE the number of the physical host it runs on; hosts are numbered from 0 in the order of their
  /// first PE.
  const std::vector<uint32_t>& host_of() const { return job_.host_of; }
  uint32_t local_rank() const { return job_.local_rank; }  ///< this PE's number among the PEs of its host
  uint32_t local_size() const { return job_.local_size; }  ///< number of PEs on its host

  /// Stages a value; others (and this PE) can get it after the next fence(). The last value put under a key
  /// counts.
  void put(std::string_view key, std::span<const std::byte> value);
  /// The value that `pe` put before the last fence(). Throws gravel::error naming PE and key if it put none.
  std::vector<std::byte> get(uint32_t pe, std::string_view key);

  /// Collective: waits for all PEs and exchanges what was put. Throws gravel::error if not all came within
  /// GRAVEL_CONNECT_TIMEOUT_S, or at once if a PE is reported dead.
  void fence();

  /// `callback` is called once, with a sentence for the user, when the launcher reports that another PE died,
  /// or when the launcher itself is gone; at once if that has happened already. It runs on a thread of PMIx:
  /// it must not call this object, must not throw, and must not block for long. ucx-run reports, then sends
  /// SIGTERM; Open MPI's mpirun reports nothing and kills.
  void on_abort(std::function<void(std::string)> callback);

  /// Leaves the job; not collective: call fence() before if others still need this PE. A PE that ends
  /// without finalize() ends the job.
  void finalize();

 private:
  bool launched() const { return !job_.name.empty(); }
  void wait_for_all();
  staged_values fetch(uint32_t pe, uint64_t fence, std::string_view key) const;

  launched_job job_;
  bool finalized_ = false;
  uint64_t fences_ = 0;             ///< fences completed; fence n carried "gravel.n"
  uint64_t waits_ = 0;              ///< fences begun, for messages
  staged_values staged_;            ///< put since the last fence
  std::vector<staged_values> own_;  ///< of a job of one PE: what it has put, by fence
};

}  // namespace gravel::detail
