// How the processes of a job find each other, and exchange what they must know before messages can flow.
//
// There are two ways. A PMIx launcher has started the processes: ucx-run, Open MPI's mpirun, prterun, srun --mpi=pmix
// (transport/pmix_bootstrap.hpp). Or the program says who they are, and how they exchange bytes
// (transport/group_bootstrap.hpp). A process that was started by hand is a group of one PE.
//
// Both ways exchange values in the same steps: a PE stages values under keys, and a fence carries them to all PEs. So a
// PE can put a value again, and a reader finds out at once, without a wait, that a PE never put a key.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/process_group.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

/// The values that a PE puts between two fences.
struct staged_values {
  static constexpr wire_kind kind = wire_kind::staged_values;
  static constexpr bool any_values_will_do = true;                     // the reader of a value checks it
  std::vector<std::pair<std::string, std::vector<std::byte>>> values;  ///< key, value
  static auto fields(auto& m) { return std::tie(m.values); }
};

/// The place of a process in its job. The members mean what the functions of bootstrap mean.
struct job_place {
  uint32_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::vector<uint32_t> host_of{0};

  /// Numbers the hosts in the order of their first PE. `same_host(a, b)`: whether PEs a and b run on one host.
  void find_hosts(const std::function<bool(uint32_t a, uint32_t b)>& same_host);
};

/// This process's membership in its job. One thread at a time calls its functions.
class bootstrap {
 public:
  bootstrap(const bootstrap&) = delete;
  bootstrap& operator=(const bootstrap&) = delete;
  /// Leaves the job as finalize() does.
  virtual ~bootstrap() = default;

  uint32_t rank() const { return place_.rank; }  ///< number of this PE, 0 to size() - 1
  uint32_t size() const { return place_.size; }  ///< number of PEs

  /// For each PE the number of the physical host on which it runs. Hosts are numbered from 0 in the order of their
  /// first PE.
  const std::vector<uint32_t>& host_of() const { return place_.host_of; }
  uint32_t local_rank() const { return place_.local_rank; }  ///< this PE's number among the PEs of its host
  uint32_t local_size() const { return place_.local_size; }  ///< number of PEs on its host

  /// Stages a value. All PEs can get it after the next fence(). A later value under the same key replaces it.
  void put(std::string_view key, std::span<const std::byte> value);
  /// The value that `pe` put before the last fence(). Throws gravel::error that names PE and key if it put none.
  std::vector<std::byte> get(uint32_t pe, std::string_view key);
  /// Collective: waits for all PEs and exchanges the values that they put. Throws gravel::error if not all come in
  /// time.
  void fence();

  /// Calls `callback` once, with a sentence for the user, when a launcher reports that another PE has died, or when the
  /// launcher itself has ended; at once if that has happened already. It may run on another thread: it must not call
  /// this object, must not throw, and must not block for long. Not every launcher reports.
  virtual void on_abort(std::function<void(std::string)> callback) = 0;

  /// True if a launcher started the processes, so that one process's message about the end of the job is enough: the
  /// output of all goes to the launcher.
  virtual bool has_launcher() const = 0;

  /// Leaves the job. Not collective: call fence() before if other PEs still need this one. A second call does nothing.
  virtual void finalize() = 0;

 protected:
  explicit bootstrap(job_place place) : place_(std::move(place)) {}

 private:
  /// Exchanges the values of fence number `fence`. Collective.
  virtual void exchange(uint64_t fence, const staged_values& mine) = 0;
  /// The values of a PE in a fence that is complete. `key`: for errors.
  virtual staged_values values_of(uint32_t pe, uint64_t fence, std::string_view key) = 0;

  job_place place_;
  uint64_t fences_ = 0;   ///< fences completed
  staged_values staged_;  ///< put since the last fence
};

/// Joins the job of a PMIx launcher; without one, a job of this PE alone. A process can join one job. Throws
/// gravel::error if a launcher started this process but cannot be reached, or if a launcher started several processes
/// without PMIx (srun without --mpi=pmix): each would be a job of one PE.
std::unique_ptr<bootstrap> join_job();
/// Joins the job of this group, whatever launcher there is. Collective.
std::unique_ptr<bootstrap> join_job(gravel_process_group group);

}  // namespace gravel::detail
