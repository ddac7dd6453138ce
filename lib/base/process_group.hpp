// The processes of a job that exchange bytes by the program's own means instead of by a PMIx launcher.
#pragma once
#include <cstdint>
#include <functional>

/// The PEs of a job, for a program that knows them: from an MPI communicator, torchrun's store, or sockets of its own.
struct gravel_process_group {
  int pe;     ///< number of this PE, 0 to n_pes - 1
  int n_pes;  ///< number of PEs
  /// Collective: every PE passes `bytes` bytes at `mine`, the same number at all PEs, and gets those of all PEs at
  /// `all`, in the order of their numbers. It may throw, and should do so if a PE does not come. gravel_init calls it a
  /// few times, on the thread that called gravel_init; nothing calls it afterwards.
  std::function<void(const void* mine, uint64_t bytes, void* all)> allgather;
};

/// Names a job of processes that no launcher has started: gravel_unique_id() makes it at PE 0. Plain data, which the
/// program carries to the other processes. The text contains a secret: who knows it can join the job.
struct gravel_unique_id_t {
  char text[128];
};
