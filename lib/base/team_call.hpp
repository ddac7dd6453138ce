// The calls that several threads make together: all threads of a block, the lanes of a warp that a mask names, or all
// threads of a grid. The table has the name of each call, the arguments that must be equal in all threads, and the call
// for fewer threads. docs/programming.md has the same list.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/platform.hpp"

namespace gravel::detail {

enum class team_scope : uint8_t { block, warp, grid, task };

// X(enumerator, name, scope, arguments that must be equal in all threads, what to write instead). Memory that is only
// read may be a variable of each thread with the same value, so its address is not compared.
#define GRAVEL_TEAM_CALLS(X)                                                                                           \
  X(put_bulk, "gravel_put_bulk", block, "dest,bytes,pe",                                                               \
    "for one thread there is gravel_put_bulk_lane, for the lanes of a warp gravel_put_bulk_warp")                      \
  X(get_bulk, "gravel_get_bulk", block, "dest,source,bytes,pe",                                                        \
    "for one thread there is gravel_get_bulk_lane, for the lanes of a warp gravel_get_bulk_warp")                      \
  X(put_signal, "gravel_put_signal", block, "dest,bytes,signal,value,pe",                                              \
    "for one thread there is gravel_put_signal_lane, for the lanes of a warp gravel_put_signal_warp")                  \
  X(put_bulk_warp, "gravel_put_bulk_warp", warp, "dest,bytes,pe",                                                      \
    "for one thread there is gravel_put_bulk_lane; some lanes of a warp name themselves in the last argument, "        \
    "`lanes`")                                                                                                         \
  X(get_bulk_warp, "gravel_get_bulk_warp", warp, "dest,source,bytes,pe",                                               \
    "for one thread there is gravel_get_bulk_lane; some lanes of a warp name themselves in the last argument, "        \
    "`lanes`")                                                                                                         \
  X(put_signal_warp, "gravel_put_signal_warp", warp, "dest,bytes,signal,value,pe",                                     \
    "for one thread there is gravel_put_signal_lane; some lanes of a warp name themselves in the last argument, "      \
    "`lanes`")                                                                                                         \
  X(put_strided, "gravel_put_strided", block, "dest,dest_stride,source_stride,count,pe",                               \
    "for one thread there is gravel_put_strided_lane, for the lanes of a warp gravel_put_strided_warp")                \
  X(get_strided, "gravel_get_strided", block, "dest,source,dest_stride,source_stride,count,pe",                        \
    "for one thread there is gravel_get_strided_lane, for the lanes of a warp gravel_get_strided_warp")                \
  X(put_strided_warp, "gravel_put_strided_warp", warp, "dest,dest_stride,source_stride,count,pe",                      \
    "for one thread there is gravel_put_strided_lane; some lanes of a warp name themselves in the last argument, "     \
    "`lanes`")                                                                                                         \
  X(get_strided_warp, "gravel_get_strided_warp", warp, "dest,source,dest_stride,source_stride,count,pe",               \
    "for one thread there is gravel_get_strided_lane; some lanes of a warp name themselves in the last argument, "     \
    "`lanes`")                                                                                                         \
  X(barrier_block, "gravel_barrier_block", block, "",                                                                  \
    "one thread that waits for its own messages calls gravel_quiet(g)")                                                \
  X(barrier, "gravel_barrier", grid, "", "for one block of each PE there is gravel_barrier_block")                     \
  X(broadcast_block, "gravel_broadcast_block", block, "to,bytes,root",                                                 \
    "call it in front of the branch that leaves threads out")                                                          \
  X(sum_all_block, "gravel_sum_all_block", block, "to,count",                                                          \
    "call it in front of the branch that leaves threads out")                                                          \
  X(min_all_block, "gravel_min_all_block", block, "to,count",                                                          \
    "call it in front of the branch that leaves threads out")                                                          \
  X(max_all_block, "gravel_max_all_block", block, "to,count",                                                          \
    "call it in front of the branch that leaves threads out")                                                          \
  X(sync_block, "gravel_sync_block", block, "", "call it in front of the branch that leaves threads out")              \
  X(sync_warp, "gravel_sync_warp", warp, "", "one thread calls gravel_sync_lane")                                      \
  X(barrier_warp, "gravel_barrier_warp", warp, "", "one thread calls gravel_barrier_lane")                             \
  X(broadcast_warp, "gravel_broadcast_warp", warp, "to,bytes,root", "one thread calls gravel_broadcast_lane")          \
  X(allgather_block, "gravel_allgather_block", block, "to,bytes",                                                      \
    "call it in front of the branch that leaves threads out")                                                          \
  X(allgather_warp, "gravel_allgather_warp", warp, "to,bytes", "one thread calls gravel_allgather_lane")               \
  X(alltoall_block, "gravel_alltoall_block", block, "to,bytes",                                                        \
    "call it in front of the branch that leaves threads out")                                                          \
  X(alltoall_warp, "gravel_alltoall_warp", warp, "to,bytes", "one thread calls gravel_alltoall_lane")                  \
  X(reduce_all_block, "gravel_reduce_all_block", block, "to,count",                                                    \
    "call it in front of the branch that leaves threads out")                                                          \
  X(reduce_all_warp, "gravel_reduce_all_warp", warp, "to,count", "one thread calls gravel_reduce_all_lane")            \
  X(reduce_scatter_block, "gravel_reduce_scatter_block", block, "to,count",                                            \
    "call it in front of the branch that leaves threads out")                                                          \
  X(reduce_scatter_warp, "gravel_reduce_scatter_warp", warp, "to,count",                                               \
    "one thread calls gravel_reduce_scatter_lane")                                                                     \
  X(block_sender_begin, "gravel_block_sender::begin", block, "", "threads that send nothing call it too")              \
  X(block_sender_end, "gravel_block_sender::end", block, "",                                                           \
    "threads that send nothing call it too, and none returns before it")                                               \
  X(service_sender_begin, "gravel_service_sender::begin", block, "", "threads that send nothing call it too")          \
  X(service_sender_end, "gravel_service_sender::end", block, "",                                                       \
    "threads that send nothing call it too, and none returns before it")                                               \
  X(critical_sender_begin, "begin() of a critical sender", block, "", "threads that call nothing call it too")         \
  X(critical_sender_end, "end() of a critical sender", block, "",                                                      \
    "threads that call nothing call it too, and none returns before it")                                               \
  X(packet_sender, "the constructor of gravel_packet_sender", block, "lane",                                           \
    "threads that send nothing make the object, too")                                                                  \
  X(packet_sender_end, "the destructor of gravel_packet_sender", block, "",                                            \
    "no thread returns while others use the object")                                                                   \
  X(packet_send, "gravel_packet_sender::send", block, "bytes,metadata,is_last", "one thread has gravel_put_bulk_lane") \
  X(packet_shutdown, "gravel_packet_sender::shutdown", block, "", "call it behind the branch that leaves threads out") \
  X(packet_receiver, "the constructor of gravel_packet_receiver", block, "lane",                                       \
    "threads that read nothing make the object, too")                                                                  \
  X(packet_receiver_end, "the destructor of gravel_packet_receiver", block, "",                                        \
    "no thread returns while others use the object")                                                                   \
  X(packet_receive, "gravel_packet_receiver::receive", block, "",                                                      \
    "all threads get the packet; those that do not need it skip it behind the call")                                   \
  X(packet_release, "gravel_packet_receiver::release", block, "packet",                                                \
    "call it behind the branch that leaves threads out")                                                               \
  X(receive, "gravel_receive", block, "packet",                                                                        \
    "all threads get the packet; those that do not need it skip it behind the call")                                   \
  X(allreduce, "gravel_allreduce", grid, "to,from,count,root",                                                         \
    "sums over one block of each PE are gravel_sum_all_block")                                                         \
  X(reduce, "gravel_reduce", grid, "to,from,count,root", "sums over one block of each PE are gravel_sum_all_block")    \
  X(broadcast, "gravel_broadcast", grid, "data,bytes,root",                                                            \
    "for one block of each PE there is gravel_broadcast_block")                                                        \
  X(accumulate, "gravel_accumulate", block, "target,count,signal,pe",                                                  \
    "for one thread there are gravel_add, gravel_min and gravel_max of each element")                                  \
  X(task_put, "gravel_task_put", block, "pe,target,bytes,signal",                                                      \
    "for a warp there is gravel_task_put_warp; one thread alone cannot")                                               \
  X(task_put_warp, "gravel_task_put_warp", warp, "pe,target,bytes,signal",                                             \
    "it takes the whole warp; one thread alone cannot")                                                                \
  X(task_put_in_task, "gravel_task_put in a task", task, "pe,target,bytes,signal",                                     \
    "a message of one thread is gravel_am")                                                                            \
  X(task_chain, "put() of gravel_make_task", block, "pe,target,bytes,signal", "one thread alone cannot")               \
  X(task_accumulate, "gravel_task_accumulate", task, "pe,target,count,signal",                                         \
    "one thread adds with gravel_add, gravel_min and gravel_max")                                                      \
  X(spawn_together, "spawn_together", warp, "", "lanes without a child pass false; lane 0 alone calls spawn")          \
  X(spawn_each, "spawn_each", warp, "n", "lane 0 alone calls spawn")                                                   \
  X(fork, "fork", warp, "n", "lane 0 alone calls wait_for and spawn")                                                  \
  X(wait_together, "wait_together", warp, "", "lane 0 alone calls wait_for")                                           \
  X(reply_together, "reply_together", warp, "", "lane 0 alone calls reply")                                            \
  X(channel_take, "gravel_remote_channel_handle::take", warp, "most", "the group is that of the lanes that call")      \
  X(channel_free, "gravel_remote_channel_handle::free", warp, "", "the group is that of the lanes that call")          \
  X(channel_reserve, "channel_block::reserve", block, "", "threads without an element reserve 0")                      \
  X(channel_commit, "channel_block::commit", block, "", "threads without an element call it too")

#define GRAVEL_TEAM_CALL_NAME(name, text, scope, arguments, instead) name,
enum class team_call : uint8_t { GRAVEL_TEAM_CALLS(GRAVEL_TEAM_CALL_NAME) count };
#undef GRAVEL_TEAM_CALL_NAME

/// The row of a call in the table.
struct team_call_facts {
  const char* name;
  team_scope scope;
  const char* arguments;  ///< names, with commas between them
  const char* instead;
};
const team_call_facts& facts_of(team_call);
/// The rule of a call: which threads must make it, and what to write instead. "All threads of the block must call ...".
std::string rule_of(team_call);

}  // namespace gravel::detail
