// Collectives of kernels: barriers, broadcast, exchanges and reductions over a team of PEs, or over all PEs.
//
// At each member of the team a block, a warp or a lane calls; the name of the call says which. Members may call by
// different scopes. All members make the same calls of a team in the same order, and only one block, warp or lane of a
// PE calls for a team at a time. Kernels may call for different teams at the same time. gravel_barrier is for all
// threads of a whole grid instead. Calls wait for the other members. So the kernel is started with gravel_launch,
// unless all members reach each other's memory.
//
// Protocol. The callers have a rendezvous, a dissemination barrier: in round k each notifies the member 2^k further on
// that it, and all members that it has heard of, have arrived. What a caller has stored or sent is there before it
// notifies. Each team has scratch memory (lib/base/block_scratch.hpp), and all calls are made of two exchanges:
//
// - by slots: each member puts what it has for another into its own slot there, then comes a rendezvous, then each
//   reads its slots. Larger data takes several steps. Memory may be shared memory. Two sets of slots take turns.
// - directly, for data of more than one slot in symmetric memory: after a first rendezvous all members have called,
//   so their results may be written; data goes to its place, and a last rendezvous ends the call.
//
// Bytes that one PE of n sends, for m bytes (`count` elements), without rendezvous:
//
//   call            by slots                          directly
//   broadcast       root: (n - 1) m                   up to 2 PEs: as by slots; else pieces of m / n, which each member
//                                                     passes on: (n - 1) m / n each, and as much of the root before
//   allgather       (n - 1) m                         (n - 1) m
//   alltoall        (n - 1) m                         (n - 1) m
//   reduce_scatter  (n - 1) m                         (n - 1) m are loaded, if all reach each other; else by slots
//   reduce_all      (n - 1) m                         each member combines m / n of all and passes it on:
//                                                     2 (n - 1) m / n
//
// Elements are combined in the order of the members, so results do not depend on who comes first, and are the same,
// bit for bit, at all members.
//
// Teams share no word, so the protocol is that of one team. Model: test/models/collective.pml.
//
// What all calls of this file have in common:
// @param g handle that the kernel was given
// @param team a team of which this PE is a member; without it the call is for all PEs of the job
// @param to results: [count], of allgather and alltoall [count of each member]. Symmetric memory, the same address at
//   all PEs, or any memory that the calling threads share; the latter is for few elements. It may be `from`, but must
//   not overlap it in another way
// @param from what this PE contributes: [count], of alltoall and reduce_scatter [count for each member]. Memory as of
//   `to`
// @param count number of elements, the same at all members
// @param root 0 to gravel_team_n_pes(team) - 1
// @scope as the name says: all threads of a block, converged; all lanes of a warp, converged; or one lane. One caller
//   of a PE at a time for each team. Kernels of gravel_launch; also others if gravel_team_t::directly
// @completion on return: all members have called, and results are there
// @errors PEs that call different collectives or give different counts, roots or kinds of memory, threads that are
//   missing or differ, a PE that is no member, a team that was destroyed, a call from the host or a handler: the job
//   ends with a message that names the call
// @source OpenSHMEM 1.5, collectives; NVSHMEM: nvshmemx_*_block, nvshmemx_*_warp
#pragma once
#include "device/bulk.cuh"
#include "device/team.cuh"
#include "device/team_check.cuh"
#include "device/wait.cuh"
#include "device/watched_wait.cuh"
#include "lib/base/element.hpp"
#include "lib/base/mix.hpp"

namespace gravel::detail {

/// A call as the other members must make it, too: `arguments` has 8 bits of a hash.
struct collective_name {
  other_call what;
  uint8_t arguments;
  GRAVEL_BOTH static collective_name of(other_call what, uint64_t arguments = 0) {
    return {what, static_cast<uint8_t>(mix(arguments))};
  }
  GRAVEL_BOTH uint64_t word(uint64_t epoch) const {
    return epoch << 16 | uint64_t{arguments} << 8 | static_cast<uint64_t>(what);
  }
};

namespace inner {

/// Notifies a member by a message. A notification that is late does not undo the next one.
GRAVEL_BOTH_APART void notify_by_message(gravel_t g, uint64_t* flag, uint64_t word, int pe) {
  gravel_max(g, flag, word, pe);
  gravel_flush(g);
}
/// Rendezvous `epoch` of the callers of all members. In a kernel the lane has called thread_fence() behind all that
/// must be visible to the others. Thread scope: one lane of each member, or a host thread.
GRAVEL_BOTH void await_members(const gravel_t& g, const gravel_team_t& team, uint64_t epoch, collective_name name) {
  block_scratch* const mine = scratch_of(g, team);
  const uint64_t word = name.word(epoch);
  uint32_t k = 0;
  for (uint32_t distance = 1; distance < team.n_pes; distance *= 2, ++k) {
    const auto to = static_cast<int>(pe_of_member(g, team, (team.my_pe + distance) % team.n_pes));
    if (char* const heap = peer_heap(g, to)) {
      auto* const flag = reinterpret_cast<uint64_t*>(heap + (reinterpret_cast<char*>(&mine->flag[k]) - g.heap));
      if (k == 0) store_behind_fence(flag, word);
      else store_release(flag, word);  // passes on what the rounds before have shown
    } else {
      notify_by_message(g, &mine->flag[k], word, to);
    }
    uint64_t seen;
    const uint32_t other = pe_of_member(g, team, (team.my_pe + team.n_pes - distance) % team.n_pes);
    for (watched_wait wait; (seen = poll_word(g, &mine->flag[k])) >> 16 < epoch;)
      wait.closely(g, [&] { return wait_subject{.what = awaited::collective, .pe = other}; });
    if (seen >> 16 != epoch || seen == word) continue;
    const auto theirs = static_cast<other_call>(seen & 0xff);
    report_error(g, theirs == name.what ? message_fault::other_arguments : message_fault::other_collective, op::none,
                 other, static_cast<uint64_t>(name.what), seen & 0xff);
  }
}
/// The next rendezvous. What the calling lane, and lanes that have synchronized with it, have stored and sent is there
/// before it notifies others: one fence is for all of them, as fences of several warps wait for each other. Thread
/// scope: one lane of each member.
GRAVEL_DEVICE_APART void rendezvous(gravel_t g, gravel_team_t team, collective_name name, bool has_sent) {
  if (has_sent) gravel_quiet(g);
  else thread_fence();
  block_scratch* const mine = scratch_of(g, team);
  const uint64_t epoch = mine->epoch + 1;
  mine->epoch = epoch;
  await_members(g, team, epoch, name);
}
/// The next rendezvous. Thread scope: the callers' lanes.
GRAVEL_DEVICE void sync_members(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes,
                                collective_name name, bool has_sent) {
  lanes.sync();
  if (lanes.is_leader()) rendezvous(g, team, name, has_sent);
  lanes.sync();
}

/// Rendezvous of the blocks of a cooperative grid. The leader of the last block that arrives calls `last` for all of
/// them, before any of them continues. Only the last block resets the count: no block arrives again before
/// `grid_barriers` has changed, and each block has read that word before it arrived. Thread scope: all blocks.
template <class F>
GRAVEL_DEVICE void join_blocks(const gravel_t& g, F last) {
  __syncthreads();
  if (copy_team::block(g).is_leader()) {
    thread_fence();  // what the threads of the block did in this PE's own memory and in peers'
    block_scratch* const mine = g.scratch;
    const uint64_t before = load_relaxed<scope::device>(&mine->grid_barriers),
                   blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
    if (fetch_add_acq_rel<scope::device>(&mine->arrived, uint64_t{1}) + 1 == blocks) {  // [M1]
      store_relaxed<scope::device>(&mine->arrived, uint64_t{0});
      last();
      store_release<scope::device>(&mine->grid_barriers, before + 1);  // [M2]
    } else {
      for (watched_wait wait; load_acquire<scope::device>(&mine->grid_barriers) == before;)  // [M2]
        wait.closely(g, [] { return wait_subject{.what = awaited::grid}; });
    }
  }
  __syncthreads();
}

/// Reports a call that may not be made, and returns true for it. Thread scope: the callers' lanes.
GRAVEL_DEVICE bool is_forbidden(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes, other_call what) {
  if (forbidden_outside_kernel(g, what)) return true;
  const bool is_team = team.n_pes != 0 && team.id < block_scratch::teams;
  if (is_team && (team.id == 0 || scratch_of(g, team)->team == team)) return false;
  if (lanes.is_leader())
    report_error(g, is_team ? message_fault::team_is_over : message_fault::no_team, op::none, g.my_pe,
                 static_cast<uint64_t>(what), 0);
  return true;
}
/// Enters a call of a block or of a warp; a lane calls alone.
template <class... A>
GRAVEL_DEVICE bool enter_collective(const gravel_t& g, const copy_team& lanes, team_call of_block, team_call of_warp,
                                    const A&... arguments) {
  if (lanes.size() == 1) return true;
  return enter_team(g, lanes.is_warp() ? of_warp : of_block, lanes, arguments...);
}

GRAVEL_DEVICE bool is_symmetric(const gravel_t& g, const void* at, uint64_t bytes) {
  return lies_in_heap(static_cast<uint64_t>(static_cast<const char*>(at) - g.heap), bytes, g.heap_bytes);
}
/// Copies bytes. Not inlined: kernels that call collectives shall need few registers. Thread scope: the callers' lanes.
GRAVEL_DEVICE_APART void copy_apart(copy_team lanes, char* to, const char* from, uint64_t bytes) {
  copy_bytes(lanes, to, from, bytes);
}
/// Puts bytes into the memory of a member. Thread scope: the callers' lanes.
GRAVEL_DEVICE void put_to_member(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes, uint32_t member,
                                 char* to, const char* from, uint64_t bytes) {
  const auto pe = static_cast<int>(pe_of_member(g, team, member));
  const auto offset = static_cast<uint64_t>(to - g.heap);
  char* const heap = static_cast<uint32_t>(pe) == g.my_pe ? g.heap : peer_heap(g, pe);
  if (bytes == 0 || (heap == g.heap && to == from)) return;
  if (heap) copy_apart(lanes, heap + offset, from, bytes);
  else put_bulk_remote(g, lanes, offset, from, bytes, nullptr, pe);
}
/// The address of this PE's symmetric object at a member that this PE reaches.
template <class T>
GRAVEL_DEVICE T* at_member(const gravel_t& g, const gravel_team_t& team, uint32_t member, T* mine) {
  const uint32_t pe = pe_of_member(g, team, member);
  if (pe == g.my_pe) return mine;
  return reinterpret_cast<T*>(peer_heap(g, static_cast<int>(pe)) + (reinterpret_cast<const char*>(mine) - g.heap));
}

/// The exchange by slots. `out(member)`: where the bytes for a member begin; nullptr: there are none.
/// `take(epoch, done, now)`: bytes [done, done + now) have come into the slots of this epoch. Thread scope: the
/// callers' lanes.
template <class Out, class Take>
GRAVEL_DEVICE void exchange_by_slots(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes,
                                     collective_name name, uint64_t bytes, Out out, Take take) {
  block_scratch* const mine = scratch_of(g, team);
  const uint64_t most = block_scratch::slot_bytes(g.n_pes);
  uint64_t done = 0;
  lanes.sync();  // all lanes have written `from`
  do {
    const uint64_t now = bytes - done < most ? bytes - done : most, epoch = mine->epoch + 1;
    for (uint32_t i = 0; i < team.n_pes; ++i) {
      const uint32_t member = (team.my_pe + i) % team.n_pes;
      if (const char* const from = out(member))
        put_to_member(g, team, lanes, member, mine->slot(epoch, team.my_pe, g.n_pes), from + done, now);
    }
    sync_members(g, team, lanes, name, !team.directly);
    take(epoch, done, now);
    done += now;
  } while (done < bytes);
  lanes.sync();  // all lanes may read `to`
}

/// Whether data takes the direct way: the same at all members, which compare it.
GRAVEL_DEVICE bool goes_directly(const gravel_t& g, const void* to, uint64_t to_bytes, const void* from,
                                 uint64_t from_bytes, uint64_t bytes) {
  return bytes > block_scratch::slot_bytes(g.n_pes) && is_symmetric(g, to, to_bytes) &&
         is_symmetric(g, from, from_bytes);
}
/// Whether the two ranges have a byte in common.
GRAVEL_DEVICE bool overlap(const void* to, uint64_t to_bytes, const void* from, uint64_t from_bytes) {
  const auto* const a = static_cast<const char*>(to);
  const auto* const b = static_cast<const char*>(from);
  return a < b + from_bytes && b < a + to_bytes;
}
GRAVEL_BOTH uint64_t hash_of(uint64_t count, uint64_t rest, bool directly) {
  return mix(mix(count) + rest * 2 + directly);
}

GRAVEL_DEVICE_APART void broadcast_bytes(gravel_t g, gravel_team_t team, copy_team lanes, char* to, const char* from,
                                         uint64_t bytes, int root) {
  if (is_forbidden(g, team, lanes, other_call::broadcast_block) ||
      !enter_collective(g, lanes, team_call::broadcast_block, team_call::broadcast_warp, to, bytes, root))
    return;
  const auto from_member = static_cast<uint32_t>(root);
  if (from_member >= team.n_pes) {
    if (lanes.is_leader())
      report_error(g, message_fault::bad_root, op::none, g.my_pe, static_cast<uint32_t>(root), team.n_pes);
    return;
  }
  const bool is_root = from_member == team.my_pe, directly = goes_directly(g, to, bytes, from, bytes, bytes);
  const auto name = collective_name::of(other_call::broadcast_block, hash_of(bytes, from_member, directly));
  if (!directly) {
    exchange_by_slots(
        g, team, lanes, name, bytes, [&](uint32_t member) { return is_root && member != team.my_pe ? from : nullptr; },
        [&](uint64_t epoch, uint64_t done, uint64_t now) {
          if (is_root && to != from) copy_apart(lanes, to + done, from + done, now);
          if (!is_root) copy_apart(lanes, to + done, scratch_of(g, team)->slot(epoch, from_member, g.n_pes), now);
        });
    return;
  }
  const bool by_pieces = team.n_pes > 2;
  const uint64_t each = by_pieces ? (bytes / team.n_pes + 16) / 16 * 16 : bytes;
  const auto begin_of = [&](uint32_t member) { return member * each < bytes ? member * each : bytes; };
  sync_members(g, team, lanes, name, false);
  for (uint32_t i = 0; is_root && i < team.n_pes; ++i) {
    const uint32_t member = (team.my_pe + i) % team.n_pes;
    const bool gets_all = !by_pieces || member == team.my_pe;
    const uint64_t begin = gets_all ? 0 : begin_of(member), end = gets_all ? bytes : begin_of(member + 1);
    put_to_member(g, team, lanes, member, to + begin, from + begin, end - begin);
  }
  sync_members(g, team, lanes, name, !team.directly);
  if (!by_pieces) return;
  const uint64_t begin = begin_of(team.my_pe), end = begin_of(team.my_pe + 1);
  for (uint32_t i = 1; i < team.n_pes; ++i) {
    const uint32_t member = (team.my_pe + i) % team.n_pes;
    if (member != from_member) put_to_member(g, team, lanes, member, to + begin, to + begin, end - begin);
  }
  sync_members(g, team, lanes, name, !team.directly);
}

/// allgather, or alltoall: then each member gets a part of its own.
GRAVEL_DEVICE_APART void exchange_bytes(gravel_t g, gravel_team_t team, copy_team lanes, char* to, const char* from,
                                        uint64_t bytes, bool of_parts) {
  const other_call what = of_parts ? other_call::alltoall : other_call::allgather;
  if (is_forbidden(g, team, lanes, what) ||
      !enter_collective(g, lanes, of_parts ? team_call::alltoall_block : team_call::allgather_block,
                        of_parts ? team_call::alltoall_warp : team_call::allgather_warp, to, bytes))
    return;
  const uint64_t all = bytes * team.n_pes, from_bytes = of_parts ? all : bytes;
  const bool directly = goes_directly(g, to, all, from, from_bytes, bytes) && !(of_parts && to == from);
  const auto name = collective_name::of(what, hash_of(bytes, 0, directly));
  const auto part_for = [&](uint32_t member) { return of_parts ? from + member * bytes : from; };
  if (!directly) {
    exchange_by_slots(g, team, lanes, name, bytes, part_for, [&](uint64_t epoch, uint64_t done, uint64_t now) {
      for (uint32_t member = 0; member < team.n_pes; ++member)
        copy_apart(lanes, to + member * bytes + done, scratch_of(g, team)->slot(epoch, member, g.n_pes), now);
    });
    return;
  }
  sync_members(g, team, lanes, name, false);
  for (uint32_t i = 0; i < team.n_pes; ++i) {
    const uint32_t member = (team.my_pe + i) % team.n_pes;
    put_to_member(g, team, lanes, member, to + team.my_pe * bytes, part_for(member), bytes);
  }
  sync_members(g, team, lanes, name, !team.directly);
}

/// Where the members' contributions lie: one behind the other in slots, or at the same symmetric address of each.
struct contributions {
  const char* first;
  bool in_slots;
  GRAVEL_DEVICE const char* of(const gravel_t& g, const gravel_team_t& team, uint32_t member) const {
    return in_slots ? first + member * block_scratch::slot_bytes(g.n_pes) : at_member(g, team, member, first);
  }
};
/// Combines words [begin, end) of the members, and stores the results at `to`, or there at all members. Loads of
/// several words are under way together. Thread scope: the callers' lanes, each for its own words.
template <gravel_reduction HOW, class T, class Word>
GRAVEL_DEVICE void combine_words(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes,
                                 const contributions& from, Word* to, bool to_all, uint64_t begin, uint64_t end) {
  constexpr uint32_t at_once = GRAVEL_ON_GPU ? 2 : 1;  // few registers: blocks of 512 threads call
  const uint64_t step = lanes.size();
  GRAVEL_NO_UNROLL
  for (uint64_t i = begin + lanes.rank(); i < end; i += at_once * step) {
    combination<HOW, T, Word> all[at_once];
    GRAVEL_NO_UNROLL
    for (uint32_t member = 0; member < team.n_pes; ++member) {
      const auto* const theirs = reinterpret_cast<const Word*>(from.of(g, team, member));
      Word held[at_once];
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k)
        if (i + k * step < end) held[k] = theirs[i + k * step];
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k) {
        if (i + k * step >= end) continue;
        if (member == 0) all[k].begin(held[k]);
        else all[k].add(held[k]);
      }
    }
    GRAVEL_NO_UNROLL
    for (uint32_t member = 0; member < (to_all ? team.n_pes : 1); ++member) {
      Word* const there = to_all ? at_member(g, team, member, to) : to;
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k)
        if (i + k * step < end) there[i + k * step] = all[k].result();
    }
  }
}
/// Combines elements [0, n) as combine_words(), by the widest words for which they are aligned. Not inlined: several
/// calls use it.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE_APART void combine_elements(gravel_t g, gravel_team_t team, copy_team lanes, contributions from, T* to,
                                          bool to_all, uint64_t n) {
  constexpr uint64_t in_unit = sizeof(unit) / sizeof(T);
  uint64_t units = 0;
  if ((reinterpret_cast<uint64_t>(from.first) | reinterpret_cast<uint64_t>(to)) % sizeof(unit) == 0) {
    units = n / in_unit;
    combine_words<HOW, T>(g, team, lanes, from, reinterpret_cast<unit*>(to), to_all, 0, units);
  }
  combine_words<HOW, T>(g, team, lanes, from, to, to_all, units * in_unit, n);
}
/// The contributions that have come into the slots of an epoch.
GRAVEL_DEVICE contributions in_slots(const gravel_t& g, const gravel_team_t& team, uint64_t epoch) {
  return {scratch_of(g, team)->slot(epoch, 0, g.n_pes), true};
}

/// Combines [count] of each member for all. `what`: the name of the call.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE_APART void reduce_for_all(gravel_t g, gravel_team_t team, copy_team lanes, other_call what, T* to,
                                        const T* from, uint64_t count) {
  const uint64_t bytes = count * sizeof(T);
  const bool directly = goes_directly(g, to, bytes, from, bytes, bytes);
  const auto name =
      collective_name::of(what, hash_of(count, element<T>::code * 8 + static_cast<uint64_t>(HOW), directly));
  if (!directly) {
    exchange_by_slots(
        g, team, lanes, name, bytes, [&](uint32_t) { return reinterpret_cast<const char*>(from); },
        [&](uint64_t epoch, uint64_t done, uint64_t now) {
          combine_elements<HOW>(g, team, lanes, in_slots(g, team, epoch), to + done / sizeof(T), false,
                                now / sizeof(T));
        });
    return;
  }
  constexpr uint64_t in_unit = sizeof(unit) / sizeof(T);
  const uint64_t each = (count / team.n_pes + in_unit) / in_unit * in_unit;
  const auto begin_of = [&](uint32_t member) { return member * each < count ? member * each : count; };
  const uint64_t begin = begin_of(team.my_pe), mine = begin_of(team.my_pe + 1) - begin;
  if (team.directly) {
    sync_members(g, team, lanes, name, false);
    combine_elements<HOW>(g, team, lanes, {reinterpret_cast<const char*>(from + begin), false}, to + begin, true, mine);
    sync_members(g, team, lanes, name, false);
    return;
  }
  // Each member gets a chunk of its part from all, in its slots, and passes the result on while the next chunk comes.
  const uint64_t most = block_scratch::slot_bytes(g.n_pes) / sizeof(T);
  block_scratch* const scratch = scratch_of(g, team);
  lanes.sync();
  for (uint64_t done = 0; done < each; done += most) {
    const uint64_t epoch = scratch->epoch + 1;
    const auto chunk_of = [&](uint32_t member) {
      const uint64_t all = begin_of(member + 1) - begin_of(member), left = all > done ? all - done : 0;
      return left < most ? left : most;
    };
    for (uint32_t i = 0; i < team.n_pes; ++i) {
      const uint32_t member = (team.my_pe + i) % team.n_pes;
      put_to_member(g, team, lanes, member, scratch->slot(epoch, team.my_pe, g.n_pes),
                    reinterpret_cast<const char*>(from + begin_of(member) + done), chunk_of(member) * sizeof(T));
    }
    sync_members(g, team, lanes, name, true);
    T* const result = to + begin + done;
    const uint64_t now = chunk_of(team.my_pe);
    combine_elements<HOW>(g, team, lanes, in_slots(g, team, epoch), result, false, now);
    lanes.sync();  // the lanes have written the result that they pass on
    for (uint32_t i = 1; i < team.n_pes; ++i)
      put_to_member(g, team, lanes, (team.my_pe + i) % team.n_pes, reinterpret_cast<char*>(result),
                    reinterpret_cast<const char*>(result), now * sizeof(T));
  }
  sync_members(g, team, lanes, name, true);
}
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_all_as(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes, T* to,
                                 const T* from, uint64_t count, other_call what = other_call::reduce_all,
                                 team_call of_block = team_call::reduce_all_block) {
  if (!is_forbidden(g, team, lanes, what) &&
      enter_collective(g, lanes, of_block, team_call::reduce_all_warp, to, count))
    reduce_for_all<HOW>(g, team, lanes, what, to, from, count);
}

/// Combines [count] for each member.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE_APART void reduce_for_each(gravel_t g, gravel_team_t team, copy_team lanes, T* to, const T* from,
                                         uint64_t count) {
  constexpr other_call what = other_call::reduce_scatter;
  if (is_forbidden(g, team, lanes, what) ||
      !enter_collective(g, lanes, team_call::reduce_scatter_block, team_call::reduce_scatter_warp, to, count))
    return;
  const uint64_t bytes = count * sizeof(T), all = bytes * team.n_pes;
  const bool directly =
      team.directly && goes_directly(g, to, bytes, from, all, bytes) && !overlap(to, bytes, from, all);
  const auto name =
      collective_name::of(what, hash_of(count, element<T>::code * 8 + static_cast<uint64_t>(HOW), directly));
  if (directly) {
    sync_members(g, team, lanes, name, false);
    combine_elements<HOW>(g, team, lanes, {reinterpret_cast<const char*>(from + team.my_pe * count), false}, to, false,
                          count);
    sync_members(g, team, lanes, name, false);
    return;
  }
  exchange_by_slots(
      g, team, lanes, name, bytes,
      [&](uint32_t member) { return reinterpret_cast<const char*>(from + member * count); },
      [&](uint64_t epoch, uint64_t done, uint64_t now) {
        combine_elements<HOW>(g, team, lanes, in_slots(g, team, epoch), to + done / sizeof(T), false, now / sizeof(T));
      });
}

/// A barrier, or a sync, which is one without a quiet. Thread scope: the callers' lanes.
GRAVEL_DEVICE void barrier_as(const gravel_t& g, const gravel_team_t& team, const copy_team& lanes, bool is_sync) {
  const other_call what = is_sync ? other_call::sync : other_call::barrier_block;
  if (!is_forbidden(g, team, lanes, what) &&
      enter_collective(g, lanes, is_sync ? team_call::sync_block : team_call::barrier_block,
                       is_sync ? team_call::sync_warp : team_call::barrier_warp))
    sync_members(g, team, lanes, collective_name::of(what), !is_sync);
}

}  // namespace inner
}  // namespace gravel::detail

// The calls by block, warp and lane, with a team, and without one (.._OF_ALL). `lanes`: who calls.
#define GRAVEL_RENDEZVOUS(name, lanes, is_sync)                                            \
  GRAVEL_DEVICE void name(const gravel_t& g, const gravel_team_t& team) {                  \
    gravel::detail::inner::barrier_as(g, team, gravel::detail::copy_team::lanes, is_sync); \
  }
#define GRAVEL_RENDEZVOUS_OF_ALL(name) \
  GRAVEL_DEVICE void name(const gravel_t& g) { name(g, gravel_team_world(g)); }
#define GRAVEL_BROADCAST(name, lanes)                                                                              \
  template <class T>                                                                                               \
  GRAVEL_DEVICE void name(const gravel_t& g, const gravel_team_t& team, T* to, const T* from, uint64_t count,      \
                          int root) {                                                                              \
    static_assert(std::is_trivially_copyable_v<T>, #name " copies bytes");                                         \
    gravel::detail::inner::broadcast_bytes(g, team, gravel::detail::copy_team::lanes, reinterpret_cast<char*>(to), \
                                           reinterpret_cast<const char*>(from), count * sizeof(T), root);          \
  }
#define GRAVEL_BROADCAST_IN_PLACE(name)                                                                        \
  template <class T>                                                                                           \
  GRAVEL_DEVICE void name(const gravel_t& g, const gravel_team_t& team, T* values, uint64_t count, int root) { \
    name(g, team, values, values, count, root);                                                                \
  }
#define GRAVEL_BROADCAST_OF_ALL(name)                                               \
  template <class T>                                                                \
  GRAVEL_DEVICE void name(const gravel_t& g, T* values, uint64_t count, int root) { \
    name(g, gravel_team_world(g), values, values, count, root);                     \
  }
#define GRAVEL_EXCHANGE(name, lanes, of_parts)                                                                    \
  template <class T>                                                                                              \
  GRAVEL_DEVICE void name(const gravel_t& g, const gravel_team_t& team, T* to, const T* from, uint64_t count) {   \
    static_assert(std::is_trivially_copyable_v<T>, #name " copies bytes");                                        \
    gravel::detail::inner::exchange_bytes(g, team, gravel::detail::copy_team::lanes, reinterpret_cast<char*>(to), \
                                          reinterpret_cast<const char*>(from), count * sizeof(T), of_parts);      \
  }
#define GRAVEL_EXCHANGE_OF_ALL(name)                                                 \
  template <class T>                                                                 \
  GRAVEL_DEVICE void name(const gravel_t& g, T* to, const T* from, uint64_t count) { \
    name(g, gravel_team_world(g), to, from, count);                                  \
  }
#define GRAVEL_TEAM_REDUCTION(name, lanes, function)                                                            \
  template <gravel_reduction HOW = GRAVEL_SUM, class T>                                                         \
  GRAVEL_DEVICE void name(const gravel_t& g, const gravel_team_t& team, T* to, const T* from, uint64_t count) { \
    gravel::detail::inner::function<HOW>(g, team, gravel::detail::copy_team::lanes, to, from, count);           \
  }
#define GRAVEL_REDUCTION_OF_ALL(name)                                                \
  template <gravel_reduction HOW = GRAVEL_SUM, class T>                              \
  GRAVEL_DEVICE void name(const gravel_t& g, T* to, const T* from, uint64_t count) { \
    name<HOW>(g, gravel_team_world(g), to, from, count);                             \
  }
#define GRAVEL_NAMED_REDUCTION(name, how, call)                                                                \
  template <class T>                                                                                           \
  GRAVEL_DEVICE void name(const gravel_t& g, T* to, const T* from, uint64_t count) {                           \
    using namespace gravel::detail;                                                                            \
    inner::reduce_all_as<how>(g, gravel_team_world(g), copy_team::block(g), to, from, count, other_call::call, \
                              team_call::call);                                                                \
  }

/// Waits until the blocks of all members have arrived. What the calling threads have stored in memory that other
/// members reach is there; messages are not waited for.
GRAVEL_RENDEZVOUS(gravel_sync_block, block(g), true)
/// gravel_sync_block over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_sync_block)
/// As gravel_sync_block, by a warp.
GRAVEL_RENDEZVOUS(gravel_sync_warp, warp(g, ~0u), true)
/// gravel_sync_warp over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_sync_warp)
/// As gravel_sync_block, by a lane.
GRAVEL_RENDEZVOUS(gravel_sync_lane, lane(g), true)
/// gravel_sync_lane over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_sync_lane)

/// Waits until everything that the block has sent before is applied, and the blocks of all members have arrived.
GRAVEL_RENDEZVOUS(gravel_barrier_block, block(g), false)
/// gravel_barrier_block over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_barrier_block)
/// As gravel_barrier_block, by a warp.
GRAVEL_RENDEZVOUS(gravel_barrier_warp, warp(g, ~0u), false)
/// gravel_barrier_warp over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_barrier_warp)
/// As gravel_barrier_block, by a lane.
GRAVEL_RENDEZVOUS(gravel_barrier_lane, lane(g), false)
/// gravel_barrier_lane over all PEs of the job.
GRAVEL_RENDEZVOUS_OF_ALL(gravel_barrier_lane)

/// Waits until everything that the grid has sent before is applied, and the grids of all PEs have arrived. Grids may
/// differ from PE to PE. In a plain launch of several blocks, some could wait for blocks that cannot start: such a call
/// ends the job with a message.
/// @scope grid: all threads of all blocks of a cooperative launch (gravel_launch_config::cooperative), or of one block
GRAVEL_DEVICE void gravel_barrier(const gravel_t& g) {
  using namespace gravel::detail;
  if (forbidden_outside_kernel(g, other_call::barrier) || forbidden_in_plain_grid(g, other_call::barrier) ||
      !enter_block(g, team_call::barrier))
    return;
  inner::join_blocks(
      g, [&g] { inner::rendezvous(g, gravel_team_world(g), collective_name::of(other_call::barrier), true); });
}

/// Copies from[0 .. count) of member `root` to `to` of all members, also of the root. T: any trivially copyable type.
GRAVEL_BROADCAST(gravel_broadcast_block, block(g))
/// gravel_broadcast_block in one array, which is `to` and `from`.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_IN_PLACE(gravel_broadcast_block)
/// gravel_broadcast_block in one array, over all PEs of the job.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_OF_ALL(gravel_broadcast_block)
/// As gravel_broadcast_block, by a warp.
GRAVEL_BROADCAST(gravel_broadcast_warp, warp(g, ~0u))
/// gravel_broadcast_warp in one array, which is `to` and `from`.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_IN_PLACE(gravel_broadcast_warp)
/// gravel_broadcast_warp in one array, over all PEs of the job.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_OF_ALL(gravel_broadcast_warp)
/// As gravel_broadcast_block, by a lane.
GRAVEL_BROADCAST(gravel_broadcast_lane, lane(g))
/// gravel_broadcast_lane in one array, which is `to` and `from`.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_IN_PLACE(gravel_broadcast_lane)
/// gravel_broadcast_lane in one array, over all PEs of the job.
/// @param values [count], where the root has what all get
GRAVEL_BROADCAST_OF_ALL(gravel_broadcast_lane)

/// Gathers arrays: to[member * count .. (member + 1) * count) becomes from[0 .. count) of each member. T: any trivially
/// copyable type.
GRAVEL_EXCHANGE(gravel_allgather_block, block(g), false)
/// gravel_allgather_block over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_allgather_block)
/// As gravel_allgather_block, by a warp.
GRAVEL_EXCHANGE(gravel_allgather_warp, warp(g, ~0u), false)
/// gravel_allgather_warp over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_allgather_warp)
/// As gravel_allgather_block, by a lane.
GRAVEL_EXCHANGE(gravel_allgather_lane, lane(g), false)
/// gravel_allgather_lane over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_allgather_lane)

/// Exchanges parts: to[member * count .. (member + 1) * count) becomes what that member has for this one, its
/// from[me * count .. (me + 1) * count). T: any trivially copyable type.
GRAVEL_EXCHANGE(gravel_alltoall_block, block(g), true)
/// gravel_alltoall_block over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_alltoall_block)
/// As gravel_alltoall_block, by a warp.
GRAVEL_EXCHANGE(gravel_alltoall_warp, warp(g, ~0u), true)
/// gravel_alltoall_warp over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_alltoall_warp)
/// As gravel_alltoall_block, by a lane.
GRAVEL_EXCHANGE(gravel_alltoall_lane, lane(g), true)
/// gravel_alltoall_lane over all PEs of the job.
GRAVEL_EXCHANGE_OF_ALL(gravel_alltoall_lane)

/// Combines the arrays of all members by HOW, element by element; all members get the result. T: integers of 1 to 8
/// bytes (they wrap around), float, double, gravel_half, gravel_bfloat16 (combined in float, and rounded once);
/// gravel_located by GRAVEL_MIN and GRAVEL_MAX.
/// @tparam HOW GRAVEL_SUM, GRAVEL_PROD, GRAVEL_MIN, GRAVEL_MAX; of integers also GRAVEL_AND, GRAVEL_OR, GRAVEL_XOR
GRAVEL_TEAM_REDUCTION(gravel_reduce_all_block, block(g), reduce_all_as)
/// gravel_reduce_all_block over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_all_block)
/// As gravel_reduce_all_block, by a warp.
GRAVEL_TEAM_REDUCTION(gravel_reduce_all_warp, warp(g, ~0u), reduce_all_as)
/// gravel_reduce_all_warp over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_all_warp)
/// As gravel_reduce_all_block, by a lane.
GRAVEL_TEAM_REDUCTION(gravel_reduce_all_lane, lane(g), reduce_all_as)
/// gravel_reduce_all_lane over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_all_lane)

/// Combines arrays as gravel_reduce_all_block, and each member gets a part: to[0 .. count) becomes the combination of
/// from[me * count .. (me + 1) * count) of all members.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_TEAM_REDUCTION(gravel_reduce_scatter_block, block(g), reduce_for_each)
/// gravel_reduce_scatter_block over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_scatter_block)
/// As gravel_reduce_scatter_block, by a warp.
GRAVEL_TEAM_REDUCTION(gravel_reduce_scatter_warp, warp(g, ~0u), reduce_for_each)
/// gravel_reduce_scatter_warp over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_scatter_warp)
/// As gravel_reduce_scatter_block, by a lane.
GRAVEL_TEAM_REDUCTION(gravel_reduce_scatter_lane, lane(g), reduce_for_each)
/// gravel_reduce_scatter_lane over all PEs of the job.
/// @tparam HOW as of gravel_reduce_all_block
GRAVEL_REDUCTION_OF_ALL(gravel_reduce_scatter_lane)

/// Sums over all PEs: gravel_reduce_all_block<GRAVEL_SUM>.
GRAVEL_NAMED_REDUCTION(gravel_sum_all_block, GRAVEL_SUM, sum_all_block)
/// Minima over all PEs: gravel_reduce_all_block<GRAVEL_MIN>.
GRAVEL_NAMED_REDUCTION(gravel_min_all_block, GRAVEL_MIN, min_all_block)
/// Maxima over all PEs: gravel_reduce_all_block<GRAVEL_MAX>.
GRAVEL_NAMED_REDUCTION(gravel_max_all_block, GRAVEL_MAX, max_all_block)

#undef GRAVEL_RENDEZVOUS
#undef GRAVEL_RENDEZVOUS_OF_ALL
#undef GRAVEL_BROADCAST_IN_PLACE
#undef GRAVEL_BROADCAST_OF_ALL
#undef GRAVEL_EXCHANGE_OF_ALL
#undef GRAVEL_REDUCTION_OF_ALL
#undef GRAVEL_BROADCAST
#undef GRAVEL_EXCHANGE
#undef GRAVEL_TEAM_REDUCTION
#undef GRAVEL_NAMED_REDUCTION
