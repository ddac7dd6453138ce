// Active messages: gravel_am<handler>(g, pe, arguments...) runs `handler` at `pe` with a copy of the arguments.
//
//   struct visit {
//     static constexpr const char* name = "visit";
//     GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t vertex, uint32_t depth) const { ... }
//   };
//   int main() { gravel_init<visit>(); ... }
//
// A handler is a type. Its id is a hash of its name, so it is the same on every PE, and gravel_init checks that all PEs
// register the same handlers. Handlers run on the device, many at once, in any order. They may send; they must not
// wait. Messages that handlers send, also to their own PE, are complete when gravel_wait_quiescent returns;
// gravel_local_add and the like (local.cuh) are complete at once. A handler with `static constexpr bool on_host = true`
// runs on the PE's receiver thread on the host instead.
//
// A handler may have these members. Its operator() then takes more parameters behind the handle, in this order:
//   using context = table;               operator()(const gravel_t& g, table* mine, ...)
//                                        `mine`: the pointer of gravel_set_context
//   static constexpr bool batch = true;  operator()(const gravel_t& g, const gravel_batch& lanes, ...)
//                                        the lanes of a warp that hold messages for the handler call it together
#pragma once
#include "device/handler.cuh"
#include "device/outbox.cuh"
#include "device/put.cuh"

#if GRAVEL_CUDA
#define GRAVEL_HANDLER __device__ __host__  ///< in front of a handler's operator()
#else
#define GRAVEL_HANDLER
#endif

/// The lanes that call a batch handler together: 1 to 32, converged. It is one lane on the host, and on the CPU backend
/// unless the message came through a ring and the launch has a seed.
using gravel_batch = gravel::detail::lane_group;

namespace gravel::detail {

/// An active message: the words of its arguments, or, if these are many, units with a first word.
template <class Handler>
struct am_message {
  using traits = handler_traits<Handler>;
  static constexpr bool is_compact = traits::bytes <= compact_am_bytes;
  static constexpr uint32_t pieces = is_compact ? compact_am_words(traits::bytes) : traits::units;
  std::conditional_t<is_compact, uint32_t, unit> data[pieces];
  template <class... A>
  GRAVEL_BOTH void fill(A... arguments) {
    unit whole[traits::units];
    for (unit& u : whole) u = {{0, 0}};
    whole[0].word[0] = make_am_word0(handler_id<Handler>::value, traits::bytes);
    traits::arguments::fill(whole, arguments...);
    for (uint32_t i = 0; i < pieces; ++i) {
      if constexpr (!is_compact) data[i] = whole[i];
      else if constexpr (traits::bytes == 0) data[i] = 0;
      else data[i] = unpack_argument(whole, i);
    }
  }
  static constexpr row_kind kind =
      is_compact ? am_kind(handler_id<Handler>::value, traits::bytes) : wide_kind(traits::units);
};

/// The characters of a name as words, so that device code needs no string.
struct handler_name_words {
  uint64_t word[8];
};
GRAVEL_BOTH constexpr handler_name_words words_of_name(const char* name) {
  handler_name_words words{};
  for (uint32_t i = 0; i < sizeof(words) - 1 && name[i]; ++i)
    words.word[i / 8] |= uint64_t{static_cast<uint8_t>(name[i])} << i % 8 * 8;
  return words;
}

/// Returns true if Handler may be sent to `pe`, and reports an error if not. A handler that gravel_init was not given
/// is nearly always found here, where its name is known; otherwise the receiver finds it (bad_handler).
template <class Handler>
GRAVEL_BOTH bool may_send_am(const gravel_t& g, int pe) {
  const bool bad_pe = static_cast<uint32_t>(pe) >= g.n_pes;
  if (!bad_pe && g.handlers.may_hold(handler_id<Handler>::value)) return true;
  if (claim_error(g, op::am)) {
    constexpr handler_name_words name = words_of_name(Handler::name);
    for (uint32_t i = 0; i < 8; ++i) g.error->name[i] = name.word[i];
    fill_error(g, bad_pe ? message_fault::bad_pe : message_fault::unknown_handler, op::am, static_cast<uint32_t>(pe),
               handler_id<Handler>::value, 0, 0);
  }
  return false;
}

/// The context of a handler. `position`: its number in the list of gravel_init.
template <class Handler>
struct handler_context {
  typename context_of<Handler>::type* pointer = nullptr;
  /// Reads the context, once for all messages of a row: on a GPU the acquire empties the L1 cache. Returns false, after
  /// reporting it, if no context was set.
  GRAVEL_BOTH bool get(const gravel_t& g, uint32_t position) {
    if constexpr (has_context<Handler>) {
      pointer = static_cast<decltype(pointer)>(load_acquire<scope::device>(&g.contexts[position]));  // [X1]
      if (!pointer) report_error(g, message_fault::no_context, op::am, g.my_pe, handler_id<Handler>::value, 0);
      return pointer != nullptr;
    } else {
      return true;
    }
  }
};

/// Returns the handle for handlers: a copy whose address only a handler itself may take. So its members are values in
/// registers, read once for a row, and the compiler leaves out what only kernels do.
GRAVEL_BOTH gravel_t for_handler(const gravel_t* from) {
#if GRAVEL_ON_GPU
  asm("" : "+l"(from));  // without this, callers would pass all members one by one to a function that copies the handle
#endif
  gravel_t mine = *from;
  mine.from = sender::handler;
  return mine;
}

/// Runs the handler for a message that arrived.
template <class Handler>
GRAVEL_BOTH void run_handler(const gravel_t& g, const handler_context<Handler>& mine, const unit* message) {
  using arguments = typename handler_traits<Handler>::arguments;
  message = static_cast<const unit*>(__builtin_assume_aligned(message, sizeof(unit)));
  if constexpr (has_context<Handler> && is_batch<Handler>())
    arguments::template call<Handler>(g, message, mine.pointer, lane_group::active());
  else if constexpr (has_context<Handler>) arguments::template call<Handler>(g, message, mine.pointer);
  else if constexpr (is_batch<Handler>()) arguments::template call<Handler>(g, message, lane_group::active());
  else arguments::template call<Handler>(g, message);
}

/// Runs the handler for a message that arrived as words.
template <class Handler>
GRAVEL_BOTH void run_handler(const gravel_t& g, const handler_context<Handler>& mine,
                             const uint32_t (&message)[am_message<Handler>::pieces]) {
  unit whole[handler_traits<Handler>::units];
  for (unit& u : whole) u = {{0, 0}};
  for (uint32_t i = 0; i < am_message<Handler>::pieces; ++i) {
    if constexpr (handler_traits<Handler>::bytes == 0) break;
    pack_argument(whole, i, message[i]);
  }
  run_handler<Handler>(g, mine, static_cast<const unit*>(whole));
}

/// Sends an active message by the shortest route: through a ring to a PE whose memory is mapped (also this PE),
/// otherwise through the queue. Thread scope: lane, divergent.
template <row_kind KIND, class Piece, uint32_t N>
GRAVEL_BOTH void send_am(const gravel_t& g, uint32_t sink, const Piece (&message)[N]) {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  if (g.from == sender::handler && kind_of_sink(sink) == sink_kind::device && has_outbox())
    return outbox_of_warp().add(active_with(KIND), pe_of_sink(sink), KIND, message);
  if (g.from != sender::handler && ring_to(g, sink))
    return push_together(g, active_with(KIND), pe_of_sink(sink), KIND, message);
#endif
  send_direct<KIND>(g, sink, message);
}

}  // namespace gravel::detail

/// Runs `Handler` at `pe` with a copy of the arguments. `pe` may be this PE.
/// @tparam Handler a type that all PEs gave to gravel_init
/// @param g handle: the one that the kernel or the handler was given, or gravel_host_handle()
/// @param pe 0 to gravel_n_pes(g) - 1
/// @param arguments trivially copyable, up to 256 bytes together
/// @scope lane, from divergent code; handlers; host threads
/// @completion gravel_quiet: the handler has returned. gravel_wait_quiescent: so have those of the messages that it
///   sent
/// @errors a handler that gravel_init was not given, a PE out of range: the job ends with a message that names handler
///   and PE
/// @source GASNet's active messages; Gravel (SC17), section 3
template <class Handler, class... A>
GRAVEL_BOTH void gravel_am(const gravel_t& g, int pe, A... arguments) {
  using namespace gravel::detail;
  if constexpr (send_check<Handler, A...>::good) {
    check_handle(g, op::am);
    if (!may_send_am<Handler>(g, pe)) return;
    am_message<Handler> message;
    message.fill(arguments...);
    send_am<message.kind>(g, sink_of(static_cast<uint32_t>(pe), handler_traits<Handler>::kind), message.data);
  }
}
