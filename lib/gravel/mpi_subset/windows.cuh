// Windows: their memory, and what each process knows about them.
//
// The memory that other processes reach lies in the symmetric heap. MPI_Win_allocate returns its address.
// MPI_Win_create is for memory of the program, which operations of Gravel do not reach: such a window has a public copy
// in the symmetric heap (the separate memory model of MPI). The two are compared byte by byte when the owner
// synchronizes: what has changed in one is copied to the other.
#pragma once
#include <gravel/mpi_subset/job.cuh>

namespace gravel::detail::mpi_subset {

struct window {
  /// A part of one process, as all know it.
  struct part {
    uint64_t bytes;
    uint64_t unit;  ///< bytes of a displacement of 1
  };
  enum class hold : uint8_t { none, exclusive, shared };

  std::vector<part> parts;  ///< by rank
  char* base = nullptr;     ///< symmetric, of the largest part; the words lie behind it
  /// Symmetric: the lock; by rank, how often it has posted to this process; by rank, how often it has completed.
  uint64_t* words = nullptr;
  char* own = nullptr;     ///< MPI_Win_create: the program's memory
  bool is_copied = false;  ///< MPI_Win_create
  std::vector<char> twin;  ///< what both had after the last comparison

  // Epochs of this process.
  std::vector<hold> held;  ///< by target
  bool holds_all = false, is_fenced = false;
  group started{}, posted{};
  std::vector<uint64_t> posts, completions;  ///< that it has seen, by rank

  uint64_t* lock_word() const { return words; }
  uint64_t* post_word(int from) const { return words + 1 + from; }
  uint64_t* completion_word(int from) const { return words + 1 + static_cast<int>(parts.size()) + from; }

  /// Returns whether this process may access the memory of `rank`.
  bool may_access(int rank) const {
    return is_fenced || holds_all || held[static_cast<size_t>(rank)] != hold::none ||
           std::find(started.ranks.begin(), started.ranks.end(), rank) != started.ranks.end();
  }
  /// Makes the program's memory and the public copy of this process the same.
  void compare() {
    const uint64_t n = twin.size();
    if (n == 0) return;
    std::vector<char> ours(n), theirs(n);
    gravel_copy(ours.data(), own, n);
    gravel_copy(theirs.data(), base, n);
    const auto copy_changes = [&](std::vector<char>& from, char* to) {
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t first = i;
        while (i < n && from[i] != twin[i]) ++i;
        if (i > first) gravel_copy(to + first, from.data() + first, i - first);
      }
    };
    copy_changes(ours, base);
    copy_changes(theirs, own);
    for (uint64_t i = 0; i < n; ++i)
      if (ours[i] != twin[i]) twin[i] = ours[i];
      else twin[i] = theirs[i];
  }
};

inline job& job_for(const char* call, const window* w) {
  job& j = job_for(call);
  if (!w) refuse(call, "MPI_WIN_NULL: the window is not created, or freed");
  return j;
}

/// Collective. Makes a window whose part at this process has `size` bytes.
inline window* make_window(const char* call, job& j, MPI_Aint size, int unit) {
  if (size < 0) refuse(call, "a size of " + std::to_string(size) + ", which is negative");
  if (unit <= 0) refuse(call, "a displacement unit of " + std::to_string(unit) + ": it is at least 1");
  auto w = std::make_unique<window>();
  const auto n = static_cast<size_t>(j.size);
  const window::part mine{static_cast<uint64_t>(size), static_cast<uint64_t>(unit)};
  w->parts.resize(n);
  gravel_allgather(w->parts.data(), &mine, 1);
  uint64_t most = 1;
  for (const window::part& p : w->parts) most = std::max(most, p.bytes);
  most = (most + 63) / 64 * 64;
  w->base = gravel_malloc<char>(most + (1 + 2 * n) * sizeof(uint64_t));
  w->words = reinterpret_cast<uint64_t*>(w->base + most);
  w->held.resize(n);
  w->posts.resize(n);
  w->completions.resize(n);
  ++j.windows;
  return w.release();
}

/// `base`: where the address is stored. On CUDA it is memory of the device.
inline int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info, MPI_Comm comm, void* base, MPI_Win* win) {
  *win = make_window("MPI_Win_allocate", job_for("MPI_Win_allocate", comm), size, disp_unit);
  *static_cast<void**>(base) = (*win)->base;
  return MPI_SUCCESS;
}
inline int MPI_Win_create(void* base, MPI_Aint size, int disp_unit, MPI_Info, MPI_Comm comm, MPI_Win* win) {
  window* const made = make_window("MPI_Win_create", job_for("MPI_Win_create", comm), size, disp_unit);
  made->own = static_cast<char*>(base);
  made->is_copied = true;
  made->twin.resize(static_cast<size_t>(size));
  gravel_copy(made->twin.data(), base, made->twin.size());
  gravel_copy(made->base, made->twin.data(), made->twin.size());
  gravel_barrier_all();  // no process accesses a copy before it is there
  *win = made;
  return MPI_SUCCESS;
}
inline int MPI_Win_free(MPI_Win* win) {
  job& j = job_for("MPI_Win_free", *win);
  window* const w = *win;
  if (w->holds_all || !w->started.ranks.empty() || !w->posted.ranks.empty() ||
      std::any_of(w->held.begin(), w->held.end(), [](window::hold h) { return h != window::hold::none; }))
    refuse("MPI_Win_free", "an epoch of the window has not ended");
  j.finish_all();
  if (w->is_copied) {
    gravel_barrier_all();
    w->compare();
  }
  gravel_free(w->base);  // which waits for all processes
  delete w;
  --j.windows;
  *win = MPI_WIN_NULL;
  return MPI_SUCCESS;
}

}  // namespace gravel::detail::mpi_subset
