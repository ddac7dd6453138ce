// Active messages: gravel_am<handler>(g, pe, arguments...) runs `handler` at `pe` with a copy of the arguments.
//
//   struct visit {
//     static constexpr const char* name = "visit";
//     GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t vertex, uint32_t depth) const { ... }
//   };
//   int main() { gravel_init<visit>(); ... }
//
// A handler is a type; its id is a hash of its name, so it is the same on every PE, and gravel_init checks that all
// PEs register the same handlers. Handlers run on the device, many at once, in any order, and may send (not wait). What they
// send, to their own PE too, is complete when gravel_wait_quiescent says so; gravel_local_add and the like (local.cuh) at once.
// A handler with `static constexpr bool on_host = true` runs on the PE's receiver thread on the host instead.
//
// A handler may say more about itself, and is given more then, behind the handle and in this order:
//   using context = table;               operator()(const gravel_t& g, table* mine, ...): the pointer of gravel_set_context
//   static constexpr bool batch = true;  operator()(const gravel_t& g, const gravel_batch& lanes, ...): is called by the lanes
//                                        of a warp that hold messages for it, together
#pragma once
#include <utility>

#include "device/outbox.cuh"
#include "device/put.cuh"

#if GRAVEL_CUDA
#define GRAVEL_HANDLER __device__ __host__  ///< in front of a handler's operator()
#else
#define GRAVEL_HANDLER
#endif

/// The lanes that call a batch handler together: 1 to 32, converged; one on the CPU backend and on the host.
using gravel_batch = gravel::lane_group;

namespace gravel {

/// FNV-1a, 32 bits.
GRAVEL_BOTH constexpr uint32_t hash_name(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name) hash = (hash ^ static_cast<uint8_t>(*name)) * 16777619u;
  return hash;
}

template <class Handler>
struct handler_id {
  static constexpr uint32_t value = hash_name(Handler::name);
};

template <class Handler>
constexpr bool runs_on_host() {
  if constexpr (requires { Handler::on_host; }) return Handler::on_host;
  else return false;
}

template <class Handler>
GRAVEL_BOTH constexpr bool is_batch() {
  if constexpr (requires { Handler::batch; }) return Handler::batch;
  else return false;
}

struct no_context {};
template <class Handler>
struct context_of {
  using type = no_context;
};
template <class Handler>
  requires requires { typename Handler::context; }
struct context_of<Handler> {
  using type = typename Handler::context;
};
template <class Handler>
constexpr bool has_context = !std::is_same_v<typename context_of<Handler>::type, no_context>;

/// Bytes of a T that begins at byte OFFSET of a message, as whole words: word i of the value lies `shift` bits above word
/// `first` + i of the message, and what does not fit there in the next one. So arguments need no padding between them, and
/// memory is read and written by aligned words alone.
template <class T, uint32_t OFFSET>
struct packed_words {
  static constexpr uint32_t count = (sizeof(T) + 7) / 8, first = OFFSET / 8, shift = OFFSET % 8 * 8;
  GRAVEL_BOTH static constexpr bool crosses(uint32_t i) {
    return shift / 8 + (sizeof(T) - 8 * i < 8 ? sizeof(T) - 8 * i : 8) > 8;
  }
};

/// `data`: zero where `value` goes to.
template <uint32_t OFFSET, class T>
GRAVEL_BOTH void pack(unit* data, const T& value) {
  using words = packed_words<T, OFFSET>;
  uint64_t word[words::count] = {};
  __builtin_memcpy(word, &value, sizeof(T));
  for (uint32_t i = 0; i < words::count; ++i) {
    const uint32_t at = words::first + i;
    data[at / 2].word[at % 2] |= word[i] << words::shift;
    if (words::crosses(i)) data[(at + 1) / 2].word[(at + 1) % 2] |= word[i] >> ((64 - words::shift) % 64);
  }
}

template <class T>
union unpacked_value {  // T need not have a default constructor
  GRAVEL_BOTH unpacked_value() {}
  T value;
};
template <class T, uint32_t OFFSET>
GRAVEL_BOTH T unpack(const unit* message) {
  using words = packed_words<T, OFFSET>;
  uint64_t word[words::count];
  for (uint32_t i = 0; i < words::count; ++i) {
    const uint32_t at = words::first + i;
    word[i] = message[at / 2].word[at % 2] >> words::shift;
    if (words::crosses(i)) word[i] |= message[(at + 1) / 2].word[(at + 1) % 2] << ((64 - words::shift) % 64);
  }
  unpacked_value<T> result;
  __builtin_memcpy(static_cast<void*>(&result.value), word, sizeof(T));
  return result.value;
}

/// The arguments of a handler, which lie one behind the other in a message from byte 8 on.
template <class... A>
struct argument_list {
  static constexpr uint32_t bytes = (0 + ... + static_cast<uint32_t>(sizeof(A)));
  static constexpr bool trivially_copyable = (std::is_trivially_copyable_v<A> && ...);
  GRAVEL_BOTH static constexpr uint32_t offset(size_t i) {
    constexpr uint32_t sizes[] = {static_cast<uint32_t>(sizeof(A))..., 0};
    uint32_t at = 8;
    for (size_t before = 0; before < i; ++before) at += sizes[before];
    return at;
  }
  GRAVEL_BOTH static void fill(unit* data, same<A>... arguments) {  // converted, as in any call
    fill_each(data, std::index_sequence_for<A...>(), arguments...);
  }
  /// `before`: what the handler is given besides.
  template <class Handler, class... B>
  GRAVEL_BOTH static void call(const gravel_t& g, const unit* message, const B&... before) {
    call_with<Handler>(g, message, std::index_sequence_for<A...>(), before...);
  }

 private:
  template <size_t... I>
  GRAVEL_BOTH static void fill_each(unit* data, std::index_sequence<I...>, const A&... arguments) {
    (pack<offset(I)>(data, arguments), ...);
    (void)data;
  }
  template <class Handler, size_t... I, class... B>
  GRAVEL_BOTH static void call_with(const gravel_t& g, const unit* message, std::index_sequence<I...>, const B&... before) {
    (void)message;
    Handler{}(g, before..., unpack<A, offset(I)>(message)...);
  }
};

/// The parameters behind the handle, less those that no message carries.
template <bool CONTEXT, bool BATCH, class Context, class... A>
struct message_arguments {
  static constexpr bool good = !CONTEXT && !BATCH;
  using list = argument_list<std::decay_t<A>...>;
};
template <bool BATCH, class Context, class... A>
struct message_arguments<true, BATCH, Context, Context*, A...> : message_arguments<false, BATCH, Context, A...> {};
template <class Context, class... A>
struct message_arguments<false, true, Context, const lane_group&, A...> : message_arguments<false, false, Context, A...> {};
template <class Context, class... A>
struct message_arguments<false, true, Context, lane_group, A...> : message_arguments<false, false, Context, A...> {};

/// The arguments of a message, as decayed types, from the handler's operator().
template <class Handler, class F>
struct handler_arguments;
template <class Handler, class H, class... A>
struct handler_arguments<Handler, void (H::*)(const gravel_t&, A...) const>
    : message_arguments<has_context<Handler>, is_batch<Handler>(), typename context_of<Handler>::type, A...> {};

template <class Handler>
struct handler_traits {
  using parameters = handler_arguments<Handler, decltype(&Handler::operator())>;
  using arguments = typename parameters::list;
  static constexpr uint32_t bytes = arguments::bytes;
  static constexpr uint32_t units = am_units(bytes);
  static constexpr sink_kind kind = runs_on_host<Handler>() ? sink_kind::host : sink_kind::device;
  static_assert(parameters::good, "a handler with `using context = T;` takes a T* behind the handle, and one with `batch = true` a "
                                  "const gravel_batch& (behind the context, if there is one)");
  static_assert(arguments::trivially_copyable, "arguments of an active message are copied byte by byte");
  static_assert(bytes <= max_am_bytes, "an active message carries up to 256 bytes of arguments");
};

/// First word and arguments of an active message.
template <class Handler>
struct am_message {
  static constexpr uint32_t units = handler_traits<Handler>::units;
  unit data[units];
  template <class... A>
  GRAVEL_BOTH void fill(A... arguments) {
    using traits = handler_traits<Handler>;
    for (unit& u : data) u = {{0, 0}};
    data[0].word[0] = make_am_word0(handler_id<Handler>::value, traits::bytes);
    traits::arguments::fill(data, arguments...);
  }
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

/// May Handler be sent to `pe`? Reports what is wrong. A handler that is missing in gravel_init is nearly always found here,
/// where its name is known; else by the receiver (bad_handler).
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

/// Runs the handler, which is number `position` in the list, for a message that arrived.
template <class Handler>
GRAVEL_BOTH void run_handler(const gravel_t& g, uint32_t position, const unit* message) {
  using arguments = typename handler_traits<Handler>::arguments;
  message = static_cast<const unit*>(__builtin_assume_aligned(message, sizeof(unit)));
  if constexpr (!handler_traits<Handler>::parameters::good) {  // said there
  } else if constexpr (has_context<Handler>) {
    using context = typename context_of<Handler>::type;
    context* const mine = static_cast<context*>(load_acquire<scope::device>(&g.contexts[position]));  // [X1]
    if (!mine) report_error(g, message_fault::no_context, op::am, g.my_pe, handler_id<Handler>::value, 0);
    else if constexpr (is_batch<Handler>()) arguments::template call<Handler>(g, message, mine, lane_group::active());
    else arguments::template call<Handler>(g, message, mine);
  } else if constexpr (is_batch<Handler>()) {
    arguments::template call<Handler>(g, message, lane_group::active());
  } else {
    (void)position;
    arguments::template call<Handler>(g, message);
  }
}

/// An active message leaves by the shortest way: through a ring to a PE whose memory is mapped (the own one, too), else through
/// the queue. Thread scope: lane, divergent.
template <uint32_t UNITS>
GRAVEL_BOTH void send_am(const gravel_t& g, uint32_t sink, const unit (&message)[UNITS]) {
#if GRAVEL_ON_GPU
  if (ring_to(g, sink)) {
    if (g.from != sender::handler) return push_together(g, pe_of_sink(sink), message);
    if (outbox_of_warp().add(g, pe_of_sink(sink), message)) return;
  }
#endif
  send_direct(g, sink, message);
}

}  // namespace gravel

/// Runs Handler at `pe` with the given arguments (up to 256 bytes together), also where pe is this PE. Non-blocking.
/// Thread scope: lane, from divergent code, from host threads, from handlers.
template <class Handler, class... A>
GRAVEL_BOTH void gravel_am(const gravel_t& g, int pe, A... arguments) {
  using namespace gravel;
  check_handle(g, op::am);
  if (!may_send_am<Handler>(g, pe)) return;
  am_message<Handler> message;
  message.fill(arguments...);
  send_am(g, sink_of(static_cast<uint32_t>(pe), handler_traits<Handler>::kind), message.data);
}
