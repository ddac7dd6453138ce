#include "host/pe/describe_error.hpp"

#include <fmt/format.h>

#include "lib/base/message.hpp"
#include "lib/base/packet.hpp"
#include "lib/base/reduction.hpp"

namespace gravel {

namespace {
/// "gravel_reduce, sum of float".
std::string text_of(const reduction_call& call) {
  static constexpr const char* operations[] = {"sum", "product", "minimum", "maximum"};
  static constexpr const char* types[] = {"float",   "double",   "gravel_half", "gravel_bfloat16",
                                          "int32_t", "uint32_t", "int64_t",     "uint64_t"};
  static_assert(sizeof(types) / sizeof(*types) == static_cast<size_t>(reduction_type::count));
  return fmt::format("{}, {} of {}", call.has_root ? "gravel_reduce" : "gravel_allreduce", operations[call.how],
                     types[static_cast<size_t>(call.type)]);
}
std::string text_of_other_reduction(const device_error& found) {
  const auto here = reduction_call::of(static_cast<uint32_t>(found.offset)),
             there = reduction_call::of(static_cast<uint32_t>(found.offset >> 32));
  const std::string mine = fmt::format("{}, {} elements", text_of(here), found.bytes);
  if (text_of(here) != text_of(there))
    return fmt::format("the PEs call different reductions: {} here, {} at PE {}", mine, text_of(there), found.pe);
  return fmt::format("the PEs call different reductions: {} here; at PE {} another number of elements, addresses, root or number of blocks",
                     mine, found.pe);
}
std::string text_of_bad_reduction(const device_error& found) {
  switch (static_cast<reduction_fault>(found.offset)) {
    case reduction_fault::too_many_blocks:
      return fmt::format("a reduction by a grid of {} blocks: its gravel_reducer is for {}", found.bytes, found.pe);
    case reduction_fault::outside_heap:
      return fmt::format("a reduction of {} elements that are not all in the symmetric heap", found.bytes);
    case reduction_fault::misaligned: return fmt::format("a reduction of {} elements at a misaligned address", found.bytes);
    case reduction_fault::overlapping:
      return fmt::format("a reduction of {} elements whose source and result overlap, and are not the same", found.bytes);
    case reduction_fault::bad_root: break;
  }
  return fmt::format("gravel_reduce to PE {}, which there is not", static_cast<int32_t>(found.pe));
}
}  // namespace

std::string describe(const device_error& found, uint32_t n_pes, uint64_t heap_bytes,
                     const std::function<std::string(uint64_t id)>& name_of_handler) {
  const auto fault = static_cast<message_fault>(found.code - 1);
  const auto what = static_cast<op>(found.operation);
  const std::string from = found.arrived == device_error::from_peer ? "a peer" : fmt::format("node {}", found.arrived - 1);
  const std::string place = fmt::format("offset {:#x}, {} bytes, in a heap of {} bytes", found.offset, found.bytes, heap_bytes);
  if (fault == message_fault::corrupt_packet)
    return fmt::format("a corrupt packet arrived: {}", name_of(static_cast<packet_fault>(found.offset)));
  if (fault == message_fault::bad_handler)
    return fmt::format(
        "an active message arrived from {} whose handler (id {}) was not given to gravel_init here, or takes other arguments", from,
        found.offset);
  if (fault == message_fault::no_context)
    return fmt::format("a message arrived for handler '{}' before gravel_set_context was called for it here",
                       name_of_handler(found.offset));
  if (fault == message_fault::bad_server)
    return fmt::format("a message for server {} of a service: it has servers 0 to {}", found.offset, found.bytes - 1);
  if (fault == message_fault::bad_key)
    return fmt::format("a critical section of servers was called with key {}: they have keys 0 to {}", found.offset, found.bytes - 1);
  if (fault == message_fault::bad_slot)
    return fmt::format("a critical section is to put its answer where there is no room for it: {}, or misaligned", place);
  if (fault == message_fault::other_reduction) return text_of_other_reduction(found);
  if (fault == message_fault::bad_reduction) return text_of_bad_reduction(found);
  if (fault == message_fault::link_closed)
    return fmt::format("a kernel sends {} bytes on the link from PE {} to PE {} after its shutdown", found.bytes, found.offset, found.pe);
  if (fault == message_fault::link_channel)
    return fmt::format("a kernel uses channel {} of a link to PE {}: it has channels 0 to {}", found.offset, found.pe, found.bytes - 1);
  if (fault == message_fault::link_held)
    return fmt::format("a kernel waits for a packet on the link from PE {} to PE {} while it holds all {} buffers: release one before",
                       found.pe, found.offset, found.bytes);
  if (fault == message_fault::task_pe)
    return fmt::format("a task for PE {}: the job has PEs 0 to {}", static_cast<int32_t>(found.offset), n_pes - 1);
  if (fault == message_fault::task_payload)
    return fmt::format("a task with a payload of {} bytes: the queue was opened for up to {}", found.offset, found.bytes);
  if (fault == message_fault::task_address)
    return fmt::format("a task with a target or signal at offset {:#x}, which is misaligned or in no heap of {} bytes", found.offset,
                       found.bytes);
  if (fault == message_fault::task_room)
    return fmt::format(
        "a task sends more tasks to PE {} than there is room for: all {} slots there are taken, and the {} for those that wait here",
        found.pe, found.bytes, found.bytes);
  if (fault == message_fault::task_chain)
    return fmt::format("a chain of tasks of {} words: it may have up to {} (5 for each, and those of its arguments)", found.offset,
                       found.bytes);
  if (fault == message_fault::unknown_task)
    return fmt::format("PE {} has sent a task (id {:#x}) that task queue {} here does not know: it was opened without it", found.pe,
                       found.offset, found.bytes);
  if (fault == message_fault::task_queue)
    return fmt::format("a task has come for a queue at offset {:#x} of the heap, where none is open: its handle was used after close()",
                       found.offset);
  if (fault == message_fault::task_words)
    return fmt::format("PE {} has sent a task (id {:#x}) whose command is not one: {} words, or sizes and places that cannot be", found.pe,
                       found.offset, found.bytes);
  if (found.arrived)
    return fmt::format("a corrupt message arrived from {}: {} with {} (offset {})", from, name_of(what), name_of(fault), found.offset);
  if (fault == message_fault::bad_pe)
    return fmt::format("{} to PE {}: the job has PEs 0 to {}", name_of(what), static_cast<int32_t>(found.pe), n_pes - 1);
  if (is_wrong_caller(fault))
    return fmt::format("{} {}", what == op::none ? name_of(static_cast<other_call>(found.offset)) : name_of(what), name_of(fault));
  if (fault == message_fault::bad_block || fault == message_fault::bad_shared) return text_of_misfit(fault, found.offset, found.bytes);
  if (fault == message_fault::unknown_handler) {
    const auto* name = reinterpret_cast<const char*>(found.name);
    return fmt::format("gravel_am to PE {}: handler '{}' was not given to gravel_init; add it on all PEs: gravel_init<..., {}>()", found.pe,
                       name, name);
  }
  if (fault == message_fault::other_collective)
    return fmt::format("the PEs' kernels call different collectives: {} here, {} at PE {}", name_of(static_cast<other_call>(found.offset)),
                       name_of(static_cast<other_call>(found.bytes)), found.pe);
  if (fault == message_fault::bad_destination) return fmt::format("{}: {}: {}", name_of(what), name_of(fault), place);
  return fmt::format("{} {} PE {}: {}: {}", name_of(what), what == op::get || what == op::get_bulk || what == op::fetch ? "from" : "to",
                     found.pe, name_of(fault), place);
}

}  // namespace gravel
