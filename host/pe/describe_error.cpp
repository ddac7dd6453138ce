#include "host/pe/describe_error.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "host/pe/shareable_memory.hpp"
#include "lib/base/packet.hpp"
#include "lib/base/reduction.hpp"
#include "lib/base/team_call.hpp"

namespace gravel::detail {

namespace {
/// Text of a reduction call, such as "gravel_reduce, sum of float".
std::string text_of(const reduction_call& call) {
  static constexpr const char* operations[] = {"sum", "product", "minimum", "maximum", "and", "or", "xor"};
  static constexpr const char* types[] = {"float",   "double",   "gravel_half", "gravel_bfloat16",
                                          "int32_t", "uint32_t", "int64_t",     "uint64_t",
                                          "int8_t",  "uint8_t",  "int16_t",     "uint16_t"};
  static_assert(sizeof(types) / sizeof(*types) == static_cast<size_t>(reduction_type::count));
  return fmt::format("{}, {} of {}", call.has_root ? "gravel_reduce" : "gravel_allreduce", operations[call.how % 7],
                     types[static_cast<size_t>(call.type)]);
}
std::string text_of_other_reduction(const device_error& found) {
  const auto here = reduction_call::of(static_cast<uint32_t>(found.offset)),
             there = reduction_call::of(static_cast<uint32_t>(found.offset >> 32));
  const std::string mine = fmt::format("{}, {} elements", text_of(here), found.bytes);
  if (text_of(here) != text_of(there))
    return fmt::format("the PEs call different reductions: {} here, {} at PE {}", mine, text_of(there), found.pe);
  return fmt::format(
      "the PEs call different reductions: {} here; at PE {} another number of elements, addresses, root or number of "
      "blocks",
      mine, found.pe);
}
std::string text_of_bad_reduction(const device_error& found, uint32_t n_pes) {
  switch (static_cast<reduction_fault>(found.offset)) {
    case reduction_fault::too_many_blocks:
      return fmt::format("a reduction by a grid of {} blocks: its gravel_reducer is for {}", found.bytes, found.pe);
    case reduction_fault::outside_heap:
      return fmt::format("a reduction of {} elements that are not all in the symmetric heap", found.bytes);
    case reduction_fault::misaligned:
      return fmt::format("a reduction of {} elements at a misaligned address", found.bytes);
    case reduction_fault::overlapping:
      return fmt::format("a reduction of {} elements whose source and result overlap, and are not the same",
                         found.bytes);
    case reduction_fault::bad_root: break;
  }
  return fmt::format("gravel_reduce to PE {}: the job has PEs 0 to {}", static_cast<int32_t>(found.pe), n_pes - 1);
}
/// Text of a fault that a program compiled with GRAVEL_CHECK has found.
std::string text_of_team_fault(message_fault fault, const device_error& found) {
  const auto call = static_cast<team_call>(found.pe);
  const char* const name = facts_of(call).name;
  if (fault == message_fault::other_team_call)
    return fmt::format(
        "{} in block {}: thread {} calls it where others of the block made another call, or gave other arguments. {}",
        name, found.offset, found.bytes & 0xffffffff, rule_of(call));
  return fmt::format(
      "{} in block {}: {} threads that must make the call are missing; the first of them is thread {}. {}", name,
      found.offset, found.bytes >> 32, found.bytes & 0xffffffff, rule_of(call));
}
/// Text of full_map. `pe` has the words of a key in 3 bits, those of a value in 5 bits, and the owner above.
std::string text_of_full_map(const device_error& found) {
  return fmt::format(
      "a gravel::map of keys of {} bytes and values of {} bytes, made for {} items, has no slot for a key: PE {} has "
      "{} slots. Make the map for more items, or call make_room() or reserve() before; these also free the slots of "
      "erased keys",
      (found.pe & 7) * 4, (found.pe >> 3 & 31) * 4, found.bytes, found.pe >> 8, found.offset);
}
/// Returns the names of the functions that report a mistake as one of this operation.
std::vector<std::string> names_of_calls(op what, bool on_own_memory) {
  const std::string name = name_of(what);
  switch (what) {
    case op::add:
    case op::am: return {name, "gravel_accumulate"};
    case op::fetch: return {name, "gravel_get_value"};
    case op::put_bulk:
    case op::put_signal:
    case op::get_bulk: return {name, name + "_warp", name + "_lane"};
    default: break;
  }
  if (!is_fetching(what) || !on_own_memory) return {name};
  std::string_view update = name;
  for (const std::string_view prefix : {"gravel_", "fetch_"})
    if (update.starts_with(prefix)) update.remove_prefix(prefix.size());
  return {name, fmt::format("gravel_local_{}", update)};
}
/// Joins names to "a, b or c".
std::string alternatives(const std::vector<std::string>& names) {
  const auto first = names.begin(), last = names.end() - 1;
  if (first == last) return *last;
  return fmt::format("{} or {}", fmt::join(first, last, ", "), *last);
}
/// True if the operation is that of a member of gravel_block_sender.
bool has_sender(op what) { return is_update(what) || what == op::inc || what == op::am; }
/// Name of that member, such as "gravel_block_sender::bit_and".
std::string member_of_sender(op what) {
#define GRAVEL_MEMBER(name, text) "gravel_block_sender::" #name,
  static constexpr const char* members[] = {GRAVEL_OPS(GRAVEL_MEMBER)};
#undef GRAVEL_MEMBER
  return members[static_cast<size_t>(what)];
}
/// Returns the names of the calls one of which has made the mistake.
std::string calls_of(message_fault fault, op what, bool of_this_pe) {
  // The faults that a block sender reports.
  const bool may_be_sender = fault == message_fault::bad_pe || fault == message_fault::outside_heap ||
                             fault == message_fault::misaligned || fault == message_fault::unknown_handler;
  std::vector<std::string> names = names_of_calls(what, of_this_pe && fault != message_fault::blocking_handler);
  if (what == op::am) names = {fault == message_fault::team_call_in_handler ? "gravel_accumulate" : name_of(what)};
  if (may_be_sender && has_sender(what)) names.insert(names.begin() + 1, member_of_sender(what));
  return alternatives(names);
}
}  // namespace

std::string calls_of(op what, bool on_own_memory) { return alternatives(names_of_calls(what, on_own_memory)); }

std::string describe(const device_error& found, uint32_t my_pe, uint32_t n_pes, uint64_t heap_bytes,
                     const std::function<std::string(uint64_t id)>& name_of_handler) {
  const auto fault = static_cast<message_fault>(found.code - 1);
  const auto what = static_cast<op>(found.operation);
  const std::string from =
      found.arrived == device_error::from_peer ? "a peer" : fmt::format("node {}", found.arrived - 1);
  std::string place =
      fmt::format("offset {:#x}, {} bytes, in a heap of {} bytes", found.offset, found.bytes, heap_bytes);
  const bool is_outside = fault == message_fault::outside_heap ||
                          (fault == message_fault::bad_destination && found.offset + found.bytes > heap_bytes);
  if (is_outside) place += fmt::format(". {}", two_ways);
  if (fault == message_fault::corrupt_packet)
    return fmt::format("a corrupt packet arrived: {}", name_of(static_cast<packet_fault>(found.offset)));
  if (fault == message_fault::other_reduction) return text_of_other_reduction(found);
  if (fault == message_fault::bad_reduction) return text_of_bad_reduction(found, n_pes);
  if (fault == message_fault::full_map) return text_of_full_map(found);
  if (fault == message_fault::missing_lanes || fault == message_fault::other_team_call)
    return text_of_team_fault(fault, found);
  const std::string calls = calls_of(fault, what, found.pe == my_pe);
  const auto call_of = [](uint64_t number) { return name_of(static_cast<other_call>(number)); };
  if (const std::string_view text = name_of(fault); text.find('{') != text.npos)
    return fmt::format(
        fmt::runtime(text), fmt::arg("from", from), fmt::arg("place", place), fmt::arg("pe", found.pe),
        fmt::arg("offset", found.offset), fmt::arg("bytes", found.bytes), fmt::arg("last", found.bytes - 1),
        fmt::arg("last_pe", n_pes - 1), fmt::arg("wrong_pe", static_cast<int32_t>(found.offset)),
        fmt::arg("handler", name_of_handler(found.offset)), fmt::arg("name", reinterpret_cast<const char*>(found.name)),
        fmt::arg("call", what == op::none ? call_of(found.offset) : calls),
        fmt::arg("other_call", call_of(found.bytes)));
  if (found.arrived)
    return fmt::format("a corrupt message arrived from {}: {} with {} (offset {})", from, name_of(what), name_of(fault),
                       found.offset);
  if (fault == message_fault::bad_pe)
    return fmt::format("{} to PE {}: the job has PEs 0 to {}", calls, static_cast<int32_t>(found.pe), n_pes - 1);
  if (fault == message_fault::bad_block || fault == message_fault::bad_shared)
    return text_of_misfit(fault, found.offset, found.bytes);
  return fmt::format("{} {} PE {}: {}: {}", calls,
                     what == op::get || what == op::get_bulk || what == op::fetch ? "from" : "to", found.pe,
                     name_of(fault), place);
}

}  // namespace gravel::detail
