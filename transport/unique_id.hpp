// A process group by a unique id: processes that no launcher has started, and that have only a text in common.
//
// Problem. Such processes need an allgather before they can join a job.
// Solution. PE 0 makes the id and listens at an address that the id names. All others connect to it. Both sides prove
// that they know the id's secret. Then, in each allgather, PE 0 receives the bytes of each PE and sends those of all to
// each.
//
// Protocol of a connection.
//
//   another PE                                          PE 0
//   its numbers and the first half of the secret        checks them; closes the connection of a stranger, and of
//                                                       many that stay silent the oldest
//   checks it                                           the second half of the secret
//   its bytes, in each allgather                        those of all PEs
#pragma once
#include <array>
#include <string>
#include <vector>

#include "lib/base/descriptor.hpp"
#include "lib/base/process_group.hpp"

namespace gravel::detail {

/// Makes an id, and listens until the process joins a job by it, or ends. Throws gravel::error if that is impossible.
gravel_unique_id_t make_unique_id(const char* address, uint16_t port);

/// The connections of a process that joins a job by a unique id. One thread at a time uses them.
class id_group {
 public:
  /// PE 0: takes what make_unique_id() made in this process. Others: connects to PE 0. Throws gravel::error.
  id_group(const gravel_unique_id_t& id, int pe, int n_pes);
  id_group(const id_group&) = delete;
  id_group& operator=(const id_group&) = delete;

  /// As gravel_process_group::allgather. Throws gravel::error.
  void allgather(const void* mine, uint64_t bytes, void* all);

 private:
  void take_listener(const std::string& id);
  void connect();
  void wait_for_others();

  int pe_, n_pes_;
  uint64_t limit_s_;  ///< GRAVEL_CONNECT_TIMEOUT_S
  std::string address_, port_;
  std::array<uint64_t, 2> secret_{};
  owned_descriptor socket_;               ///< PE 0: listens; others: the connection to PE 0
  std::vector<owned_descriptor> others_;  ///< PE 0: [n_pes] connections; empty before the first allgather
};

}  // namespace gravel::detail
