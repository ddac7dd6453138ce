// Epochs: fences; locks; post, start, complete and wait. When an origin leaves an epoch, or flushes, all its operations
// in all windows are complete at their targets.
#pragma once
#include <gravel/mpi_subset/windows.cuh>

namespace gravel::detail::mpi_subset {

/// The word of a lock: how many hold it shared, and `exclusive` if one holds it alone.
constexpr uint64_t exclusive = uint64_t{1} << 32;

inline void take_lock(const job& j, const window& w, int rank, bool is_shared) {
  for (relax wait;; wait.attentively()) {
    if (!is_shared) {
      if (gravel_compare_swap(j.g, w.lock_word(), uint64_t{0}, exclusive, rank) == 0) return;
    } else {
      if (gravel_fetch_add(j.g, w.lock_word(), uint64_t{1}, rank) < exclusive) return;
      gravel_add(j.g, w.lock_word(), ~uint64_t{0}, rank);
    }
  }
}
inline void give_lock(const job& j, const window& w, int rank, bool is_shared) {
  gravel_add(j.g, w.lock_word(), ~((is_shared ? uint64_t{1} : exclusive) - 1), rank);
  gravel_flush(j.g);
}
inline void notify(const job& j, uint64_t* word, int rank) {
  gravel_inc(j.g, word, rank);
  gravel_flush(j.g);
}
/// Begins an epoch, the posted or the started one of the window, with the ranks of a group. `again`: the error if that
/// epoch has begun already.
inline void begin_epoch(const char* call, const job& j, window& w, group window::*epoch, MPI_Group ranks, int assertion,
                        const char* again) {
  check_assertion(call, assertion);
  if (!(w.*epoch).ranks.empty()) refuse(call, again);
  if (!ranks) refuse(call, "MPI_GROUP_NULL");
  for (const int rank : ranks->ranks) check_rank(call, j, rank);
  w.*epoch = *ranks;
  w.is_fenced = false;
}
inline window::hold& held_by(const char* call, const job& j, window* w, int rank) {
  check_rank(call, j, rank);
  return w->held[static_cast<size_t>(rank)];
}
inline void check_held(const char* call, const job& j, window* w, int rank) {
  if (held_by(call, j, w, rank) == window::hold::none && !w->holds_all)
    refuse(call, "rank " + std::to_string(rank) + " is not locked (MPI_Win_lock, MPI_Win_lock_all)");
}

inline int MPI_Win_fence(int assertion, MPI_Win win) {
  job& j = job_for("MPI_Win_fence", win);
  check_assertion("MPI_Win_fence", assertion);
  j.finish_all();
  gravel_barrier_all();
  if (win->is_copied) {
    win->compare();
    gravel_barrier_all();  // all copies have what their owners stored
  }
  win->is_fenced = true;
  return MPI_SUCCESS;
}

inline int MPI_Win_lock(int type, int rank, int assertion, MPI_Win win) {
  const job& j = job_for("MPI_Win_lock", win);
  check_assertion("MPI_Win_lock", assertion);
  if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
    refuse("MPI_Win_lock", "lock type " + std::to_string(type) + ": it is MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE");
  window::hold& held = held_by("MPI_Win_lock", j, win, rank);
  if (held != window::hold::none || win->holds_all)
    refuse("MPI_Win_lock", "rank " + std::to_string(rank) + " is locked by this process already");
  take_lock(j, *win, rank, type == MPI_LOCK_SHARED);
  held = type == MPI_LOCK_SHARED ? window::hold::shared : window::hold::exclusive;
  win->is_fenced = false;
  if (rank == j.rank) win->compare();
  return MPI_SUCCESS;
}
inline int MPI_Win_unlock(int rank, MPI_Win win) {
  job& j = job_for("MPI_Win_unlock", win);
  window::hold& held = held_by("MPI_Win_unlock", j, win, rank);
  if (held == window::hold::none)
    refuse("MPI_Win_unlock", "rank " + std::to_string(rank) + " is not locked (MPI_Win_lock)");
  j.finish_all();
  if (rank == j.rank) win->compare();
  give_lock(j, *win, rank, held == window::hold::shared);
  held = window::hold::none;
  return MPI_SUCCESS;
}
inline int MPI_Win_lock_all(int assertion, MPI_Win win) {
  const job& j = job_for("MPI_Win_lock_all", win);
  check_assertion("MPI_Win_lock_all", assertion);
  if (win->holds_all ||
      std::any_of(win->held.begin(), win->held.end(), [](window::hold h) { return h != window::hold::none; }))
    refuse("MPI_Win_lock_all", "this process holds locks of the window already");
  for (int rank = 0; rank < j.size; ++rank) take_lock(j, *win, rank, true);
  win->holds_all = true;
  win->is_fenced = false;
  win->compare();
  return MPI_SUCCESS;
}
inline int MPI_Win_unlock_all(MPI_Win win) {
  job& j = job_for("MPI_Win_unlock_all", win);
  if (!win->holds_all) refuse("MPI_Win_unlock_all", "the window is not locked (MPI_Win_lock_all)");
  j.finish_all();
  win->compare();
  for (int rank = 0; rank < j.size; ++rank) give_lock(j, *win, rank, true);
  win->holds_all = false;
  return MPI_SUCCESS;
}
inline int MPI_Win_flush(int rank, MPI_Win win) {
  job& j = job_for("MPI_Win_flush", win);
  check_held("MPI_Win_flush", j, win, rank);
  j.finish_all();
  return MPI_SUCCESS;
}
/// All operations are complete at their origin when they return.
inline int MPI_Win_flush_local(int rank, MPI_Win win) {
  const job& j = job_for("MPI_Win_flush_local", win);
  check_held("MPI_Win_flush_local", j, win, rank);
  return MPI_SUCCESS;
}

inline int MPI_Win_post(MPI_Group origins, int assertion, MPI_Win win) {
  const job& j = job_for("MPI_Win_post", win);
  begin_epoch("MPI_Win_post", j, *win, &window::posted, origins, assertion,
              "the window is posted already: call MPI_Win_wait before");
  win->compare();
  for (const int rank : win->posted.ranks) notify(j, win->post_word(j.rank), rank);
  return MPI_SUCCESS;
}
inline int MPI_Win_start(MPI_Group targets, int assertion, MPI_Win win) {
  const job& j = job_for("MPI_Win_start", win);
  begin_epoch("MPI_Win_start", j, *win, &window::started, targets, assertion,
              "an epoch is started already: call MPI_Win_complete before");
  for (const int rank : win->started.ranks)
    gravel_wait_until(j.g, win->post_word(rank), GRAVEL_GE, ++win->posts[static_cast<size_t>(rank)]);
  return MPI_SUCCESS;
}
inline int MPI_Win_complete(MPI_Win win) {
  job& j = job_for("MPI_Win_complete", win);
  j.finish_all();
  for (const int rank : win->started.ranks) notify(j, win->completion_word(j.rank), rank);
  win->started.ranks.clear();
  return MPI_SUCCESS;
}
inline int MPI_Win_wait(MPI_Win win) {
  const job& j = job_for("MPI_Win_wait", win);
  for (const int rank : win->posted.ranks)
    gravel_wait_until(j.g, win->completion_word(rank), GRAVEL_GE, ++win->completions[static_cast<size_t>(rank)]);
  win->posted.ranks.clear();
  win->compare();
  return MPI_SUCCESS;
}

}  // namespace gravel::detail::mpi_subset
