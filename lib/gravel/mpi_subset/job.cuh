// The job: beginning and end, ranks, groups, time; what windows and collectives share.
#pragma once
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gravel/allreduce.cuh>
#include <gravel/gravel.cuh>
#include <gravel/mpi_subset/accumulate_task.cuh>
#include <gravel/mpi_subset/names.hpp>

namespace gravel::detail::mpi_subset {

/// Some ranks, in MPI's order.
struct group {
  std::vector<int> ranks;
};

/// What a process has between MPI_Init and MPI_Finalize.
struct job {
  static constexpr uint32_t most_payload = 32 << 10;  ///< bytes of a task: a multiple of all elements

  gravel_task_queue<accumulate_elements> queue{{.workers = 4, .slots = 16, .payload_bytes = most_payload}};
  gravel_signal done = gravel_new_signal();  ///< rises at the origin when one of its tasks has ended
  gravel_reducer reducer{};
  gravel_t g = gravel_host_handle();
  gravel_task_handle tasks = queue.host_handle();
  int rank = gravel_my_pe(), size = gravel_n_pes();
  uint64_t sent = 0, ended = 0;  ///< tasks of this process
  bool puts = false;             ///< that may not be complete
  /// By target: the places from the lowest to the highest that tasks under way may write, as offsets in the heap.
  struct range {
    uint64_t begin = ~uint64_t{0}, end = 0;
  };
  std::vector<range> under_way = std::vector<range>(static_cast<size_t>(size));
  static constexpr uint64_t landing_bytes = 256 << 10;
  char* landing = gravel_malloc<char>(landing_bytes);  ///< symmetric memory in which gets land
  char* staged = nullptr;                              ///< symmetric memory of collectives
  uint64_t staged_bytes = 0;
  uint32_t windows = 0;  ///< that are open

  void finish_tasks() {
    if (ended == sent) return;
    gravel_wait(done, sent);
    ended = sent;
    std::fill(under_way.begin(), under_way.end(), range{});
  }
  void finish_messages() {
    if (puts) gravel_quiet(g);
    puts = false;
  }
  void finish_all() {
    finish_tasks();
    finish_messages();
  }
};

struct process_state {
  std::unique_ptr<job> here;
  bool has_ended = false;  ///< MPI_Finalize was called
};
GRAVEL_API inline process_state& process() {
  static auto* const one = new process_state;  // never destroyed: a program may exit without MPI_Finalize
  return *one;
}

/// Ends the job, as MPI's default error handler does.
[[noreturn]] inline void refuse(const char* call, const std::string& why) {
  const std::string text = std::string(call) + ": " + why;
  if (process().here) gravel_abort(text.c_str());
  fail_text(text);  // there is no job
}
inline job& job_for(const char* call) {
  if (!process().here) refuse(call, process().has_ended ? "called after MPI_Finalize" : "called before MPI_Init");
  return *process().here;
}
inline job& job_for(const char* call, MPI_Comm comm) {
  job& j = job_for(call);
  if (comm != MPI_COMM_WORLD) refuse(call, "another communicator than MPI_COMM_WORLD, the only one that is supported");
  return j;
}
inline void check_rank(const char* call, const job& j, int rank) {
  if (rank < 0 || rank >= j.size)
    refuse(call, "rank " + std::to_string(rank) + ": the job has ranks 0 to " + std::to_string(j.size - 1));
}
inline void check_type(const char* call, MPI_Datatype type) {
  if (!bytes_of(type))
    refuse(call, "unknown type " + std::to_string(static_cast<int>(type)) +
                     ": it takes MPI_CHAR, MPI_INT, MPI_LONG, MPI_FLOAT and MPI_DOUBLE");
}
inline void check_count(const char* call, int count) {
  if (count < 0) refuse(call, "a count of " + std::to_string(count) + ", which is negative");
}
inline void check_assertion(const char* call, int assertion) {
  if (assertion) refuse(call, "assertion " + std::to_string(assertion) + ": only 0 is supported");
}

/// Data of the program as a host thread can read it: on CUDA it may be the device's.
class readable {
 public:
  readable(const void* data, uint64_t bytes) : data_(static_cast<const char*>(data)) {
#if GRAVEL_CUDA
    copy_.resize(bytes);
    gravel_copy(copy_.data(), data, bytes);
    data_ = copy_.data();
#else
    (void)bytes;
#endif
  }
  readable(const readable&) = delete;
  readable& operator=(const readable&) = delete;
  const char* data() const { return data_; }

 private:
  const char* data_;
#if GRAVEL_CUDA
  std::vector<char> copy_;
#endif
};

// A template, so that only a source that calls it compiles the resolver. The same holds for MPI_Accumulate and others.
template <int = 0>
int MPI_Init(int*, char***) {
  if (process().here || process().has_ended) refuse("MPI_Init", "called a second time");
  gravel_init<gravel_task_delivery>();
  process().here = std::make_unique<job>();
  return MPI_SUCCESS;
}
template <int = 0>
int MPI_Finalize() {
  job& j = job_for("MPI_Finalize");
  if (j.windows) refuse("MPI_Finalize", std::to_string(j.windows) + " windows are not freed (MPI_Win_free)");
  gravel_barrier_all();
  j.queue.close();
  gravel_free_signal(j.done);
  gravel_free(j.staged);
  gravel_free(j.landing);
  process().here.reset();
  process().has_ended = true;
  gravel_finalize();
  return MPI_SUCCESS;
}
[[noreturn]] inline int MPI_Abort(MPI_Comm comm, int status) {
  job_for("MPI_Abort", comm);
  gravel_abort("MPI_Abort", status);
}
inline int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  *rank = job_for("MPI_Comm_rank", comm).rank;
  return MPI_SUCCESS;
}
inline int MPI_Comm_size(MPI_Comm comm, int* size) {
  *size = job_for("MPI_Comm_size", comm).size;
  return MPI_SUCCESS;
}
inline double MPI_Wtime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline int MPI_Comm_group(MPI_Comm comm, MPI_Group* all) {
  const job& j = job_for("MPI_Comm_group", comm);
  *all = new group;
  for (int rank = 0; rank < j.size; ++rank) (*all)->ranks.push_back(rank);
  return MPI_SUCCESS;
}
inline int MPI_Group_incl(MPI_Group of, int n, const int ranks[], MPI_Group* some) {
  job_for("MPI_Group_incl");
  if (!of) refuse("MPI_Group_incl", "MPI_GROUP_NULL");
  check_count("MPI_Group_incl", n);
  auto made = std::make_unique<group>();
  for (int i = 0; i < n; ++i) {
    if (ranks[i] < 0 || static_cast<size_t>(ranks[i]) >= of->ranks.size())
      refuse("MPI_Group_incl", "rank " + std::to_string(ranks[i]) + ": the group has ranks 0 to " +
                                   std::to_string(static_cast<int>(of->ranks.size()) - 1));
    made->ranks.push_back(of->ranks[static_cast<size_t>(ranks[i])]);
  }
  *some = made.release();
  return MPI_SUCCESS;
}
inline int MPI_Group_free(MPI_Group* some) {
  job_for("MPI_Group_free");
  delete *some;
  *some = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}

}  // namespace gravel::detail::mpi_subset
