// How the processes of a job find each other: the client side of PMIx. Any PMIx launcher works: ucx-run, Open MPI's
// mpirun, prterun, srun --mpi=pmix. A process that was started by hand is a job of one PE and needs no launcher.
//
// PMIx has one flat store per PE whose updates travel with a fence. Gravel uses it in a cheap and predictable way: all
// that a PE puts between two fences is one PMIx value ("gravel.<number of the fence>"), which it writes at every fence
// even if it is empty. So a PE can put a value again, and a reader finds out at once, without a wait, that a PE never
// put a key.
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

/// The values that a PE puts between two fences.
struct staged_values {
  static constexpr wire_kind kind = wire_kind::staged_values;
  static constexpr bool any_values_will_do = true;                     // the reader of a value checks it
  std::vector<std::pair<std::string, std::vector<std::byte>>> values;  ///< key, value
  static auto fields(auto& m) { return std::tie(m.values); }
};

/// The description of the job by its launcher. The members mean what the functions of bootstrap mean.
struct launched_job {
  std::string name;  ///< the job's name in PMIx; empty: no launcher has started this process
  uint32_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::vector<uint32_t> host_of{0};
};

/// This process's membership in its job. A process has at most one at a time. One thread at a time calls its functions.
class bootstrap {
 public:
  /// Joins the job. Throws gravel::error if a launcher started this process but cannot be reached, or if a launcher
  /// started several processes without PMIx (srun without --mpi=pmix): each would be a job of one PE.
  bootstrap();
  bootstrap(const bootstrap&) = delete;
  bootstrap& operator=(const bootstrap&) = delete;
  /// Leaves the job as finalize() does.
  ~bootstrap();

  uint32_t rank() const { return job_.rank; }  ///< number of this PE, 0 to size() - 1
  uint32_t size() const { return job_.size; }  ///< number of PEs

  /// For each PE the number of the physical host on which it runs. Hosts are numbered from 0 in the order of their
  /// first PE.
  const std::vector<uint32_t>& host_of() const { return job_.host_of; }
  uint32_t local_rank() const { return job_.local_rank; }  ///< this PE's number among the PEs of its host
  uint32_t local_size() const { return job_.local_size; }  ///< number of PEs on its host

  /// Stages a value. All PEs can get it after the next fence(). A later value under the same key replaces it.
  void put(std::string_view key, std::span<const std::byte> value);
  /// The value that `pe` put before the last fence(). Throws gravel::error that names PE and key if it put none.
  std::vector<std::byte> get(uint32_t pe, std::string_view key);

  /// Collective: waits for all PEs and exchanges the values that they put. Throws gravel::error if not all have come
  /// within GRAVEL_CONNECT_TIMEOUT_S, or at once if a PE is reported dead.
  void fence();

  /// Calls `callback` once, with a sentence for the user, when the launcher reports that another PE has died, or when
  /// the launcher itself has ended; at once if that has happened already. It runs on a thread of PMIx: it must not call
  /// this object, must not throw, and must not block for long. ucx-run reports a death and then sends SIGTERM. Open
  /// MPI's mpirun reports nothing and kills.
  void on_abort(std::function<void(std::string)> callback);

  /// Leaves the job. Not collective: call fence() before if other PEs still need this one. A PE that ends without
  /// finalize() ends the job.
  void finalize();

 private:
  bool launched() const { return !job_.name.empty(); }
  void wait_for_all();
  staged_values fetch(uint32_t pe, uint64_t fence, std::string_view key) const;

  launched_job job_;
  bool finalized_ = false;
  uint64_t fences_ = 0;             ///< fences completed; fence n transferred "gravel.n"
  uint64_t waits_ = 0;              ///< fences begun, for messages
  staged_values staged_;            ///< put since the last fence
  std::vector<staged_values> own_;  ///< in a job of one PE: what it has put, by fence
};

}  // namespace gravel::detail
