// Active messages: gravel_am<handler>(g, pe, arguments...) runs `handler` at `pe` with a copy of the arguments.
//
//   struct visit {
//     static constexpr const char* name = "visit";
//     GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t vertex, uint32_t depth) const { ... }
//   };
//   int main() { gravel_init<visit>(); ... }
//
// A handler is a type; its id is a hash of its name, so it is the same on every PE, and gravel_init checks that all
// PEs register the same handlers. Handlers run on the device, many at once, in any order, and may send (not wait).
// A handler with `static constexpr bool on_host = true` runs on the PE's receiver thread on the host instead.
#pragma once
#include <tuple>

#include "device/put.cuh"

#if GRAVEL_CUDA
#define GRAVEL_HANDLER __device__ __host__  ///< in front of a handler's operator()
#else
#define GRAVEL_HANDLER
#endif

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

/// The arguments after the handle, as decayed types, from the handler's operator().
template <class F>
struct handler_arguments;
template <class H, class... A>
struct handler_arguments<void (H::*)(const gravel_t&, A...) const> {
  using tuple = std::tuple<std::decay_t<A>...>;
};

/// Arguments one behind the other, each aligned by its own size rules: a plain aggregate whose layout both sides of a
/// job share because they run the same program.
template <class... A>
struct packed;
template <>
struct packed<> {};
template <class Last>
struct packed<Last> {
  Last first;
};
template <class First, class... Rest>
struct packed<First, Rest...> {
  First first;
  packed<Rest...> rest;
};
template <class Tuple>
struct packed_of;
template <class... A>
struct packed_of<std::tuple<A...>> {
  using type = packed<A...>;
  static constexpr bool trivially_copyable = (std::is_trivially_copyable_v<A> && ...);
};

template <class Handler>
struct handler_traits {
  using tuple = typename handler_arguments<decltype(&Handler::operator())>::tuple;
  using packed_type = typename packed_of<tuple>::type;
  static constexpr uint32_t bytes = std::tuple_size_v<tuple> == 0 ? 0 : sizeof(packed_type);
  static constexpr uint32_t units = am_units(bytes);
  static constexpr sink_kind kind = runs_on_host<Handler>() ? sink_kind::host : sink_kind::device;
  static_assert(packed_of<tuple>::trivially_copyable, "arguments of an active message are copied byte by byte");
  static_assert(bytes <= max_am_bytes, "an active message carries up to 48 bytes of arguments");
};

template <class First, class... Rest>
GRAVEL_BOTH packed<First, Rest...> pack(First first, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) return {first};
  else return {first, pack<Rest...>(rest...)};
}

/// Calls the handler with the arguments that begin at `from`.
template <class Handler, class... Before>
GRAVEL_BOTH void call_unpacked(const gravel_t& g, const packed<>&, const Before&... arguments) {
  Handler{}(g, arguments...);
}
template <class Handler, class First, class... Rest, class... Before>
GRAVEL_BOTH void call_unpacked(const gravel_t& g, const packed<First, Rest...>& p, const Before&... arguments) {
  if constexpr (sizeof...(Rest) == 0) Handler{}(g, arguments..., p.first);
  else call_unpacked<Handler>(g, p.rest, arguments..., p.first);
}

/// First word and arguments of an active message.
template <class Handler>
struct am_message {
  static constexpr uint32_t units = handler_traits<Handler>::units;
  unit data[units];
  template <class... A>
  GRAVEL_BOTH void fill(A... arguments) {
    using traits = handler_traits<Handler>;
    for (unit& u : data) u = {{0, 0}};
    data[0].word[0] = make_word0(op::am, static_cast<uint8_t>(traits::bytes), handler_id<Handler>::value);
    if constexpr (traits::bytes != 0) fill_arguments(static_cast<typename traits::tuple*>(nullptr), arguments...);
  }

 private:
  template <class... T>
  GRAVEL_BOTH void fill_arguments(std::tuple<T...>*, same<T>... arguments) {  // converted, as in any call
    const packed<T...> all = pack<T...>(arguments...);
    __builtin_memcpy(reinterpret_cast<char*>(data) + 8, &all, sizeof(all));
  }
};

/// Runs the handler for a message that arrived.
template <class Handler>
GRAVEL_BOTH void run_handler(const gravel_t& g, const unit* message) {
  typename handler_traits<Handler>::packed_type all;
  __builtin_memcpy(&all, reinterpret_cast<const char*>(message) + 8, sizeof(all));
  call_unpacked<Handler>(g, all);
}

}  // namespace gravel

/// Runs Handler at `pe` with the given arguments (up to 48 bytes together), also where pe is this PE. Non-blocking.
/// Thread scope: lane, from divergent code, from host threads, from handlers.
template <class Handler, class... A>
GRAVEL_BOTH void gravel_am(const gravel_t& g, int pe, A... arguments) {
  using namespace gravel;
  if (static_cast<uint32_t>(pe) >= g.n_pes) {
    report_error(g, message_fault::bad_pe, op::am, static_cast<uint32_t>(pe), handler_id<Handler>::value, 0);
    return;
  }
  am_message<Handler> message;
  message.fill(arguments...);
  send_direct(g, sink_of(static_cast<uint32_t>(pe), handler_traits<Handler>::kind), message.data);
}
