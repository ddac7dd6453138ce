// The rules for handlers (docs/programming.md, "Active messages"), and the checks of a type against them. Each broken
// rule is one readable line of the compiler.
#pragma once
#include <type_traits>

#include "device/arguments.cuh"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// FNV-1a hash, 32 bits.
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

/// The parameters behind the handle, without those that no message carries.
template <bool CONTEXT, bool BATCH, class Context, class... A>
struct message_arguments {
  static constexpr bool good = !CONTEXT && !BATCH;
  static constexpr bool values = ((!std::is_reference_v<A> || std::is_convertible_v<const std::decay_t<A>&, A>)&&...);
  using list = argument_list<std::decay_t<A>...>;
};
template <bool BATCH, class Context, class... A>
struct message_arguments<true, BATCH, Context, Context*, A...> : message_arguments<false, BATCH, Context, A...> {};
template <class Context, class... A>
struct message_arguments<false, true, Context, const lane_group&, A...>
    : message_arguments<false, false, Context, A...> {};
template <class Context, class... A>
struct message_arguments<false, true, Context, lane_group, A...> : message_arguments<false, false, Context, A...> {};

/// Facts about a handler that the type of its operator() contains.
template <class F>
struct call_operator {
  static constexpr bool known = false;
};
template <bool CONST, class Result, class... P>
struct plain_operator {
  static constexpr bool known = true, is_const = CONST, returns_void = std::is_void_v<Result>;
  static constexpr bool takes_handle = false;
};
template <bool CONST, class Result, class... A>
struct plain_operator<CONST, Result, const gravel_t&, A...> : plain_operator<CONST, Result> {
  static constexpr bool takes_handle = true;
  template <class Handler>
  using arguments =
      message_arguments<has_context<Handler>, is_batch<Handler>(), typename context_of<Handler>::type, A...>;
};
template <class H, class Result, class... P>
struct call_operator<Result (H::*)(P...)> : plain_operator<false, Result, P...> {};
template <class H, class Result, class... P>
struct call_operator<Result (H::*)(P...) noexcept> : plain_operator<false, Result, P...> {};
template <class H, class Result, class... P>
struct call_operator<Result (H::*)(P...) const> : plain_operator<true, Result, P...> {};
template <class H, class Result, class... P>
struct call_operator<Result (H::*)(P...) const noexcept> : plain_operator<true, Result, P...> {};

template <class Handler>
constexpr bool has_name = false;
template <class Handler>
requires(!std::is_member_pointer_v<decltype(&Handler::name)>) constexpr bool has_name<Handler> = requires {
  typename std::integral_constant<uint32_t, hash_name(Handler::name)>;
};

enum class handler_fault {
  none,
  incomplete,
  name,
  flag,
  no_operator,
  result,
  not_const,
  handle,
  extras,
  reference,
  not_copyable,
  too_large,
  made
};

/// Returns the first rule that a handler breaks.
template <class Handler>
constexpr handler_fault fault_of() {
  if constexpr (!std::is_class_v<Handler> || !requires { sizeof(Handler); }) return handler_fault::incomplete;
  else if constexpr (!has_name<Handler>) return handler_fault::name;
  else if constexpr ((
                         requires { Handler::on_host; } &&
                         !requires { typename std::bool_constant<Handler::on_host>; }) ||
                     (
                         requires { Handler::batch; } && !requires { typename std::bool_constant<Handler::batch>; }))
    return handler_fault::flag;
  else if constexpr (!requires { &Handler::operator(); }) return handler_fault::no_operator;
  else {
    using call = call_operator<decltype(&Handler::operator())>;
    if constexpr (!call::known) return handler_fault::no_operator;
    else if constexpr (!call::returns_void) return handler_fault::result;
    else if constexpr (!call::is_const) return handler_fault::not_const;
    else if constexpr (!call::takes_handle) return handler_fault::handle;
    else {
      using arguments = typename call::template arguments<Handler>;
      if constexpr (!arguments::good) return handler_fault::extras;
      else if constexpr (!arguments::values) return handler_fault::reference;
      else if constexpr (!arguments::list::trivially_copyable) return handler_fault::not_copyable;
      else if constexpr (arguments::list::bytes > max_am_bytes) return handler_fault::too_large;
      else if constexpr (!std::is_default_constructible_v<Handler>) return handler_fault::made;
      else return handler_fault::none;
    }
  }
}

/// Says what is wrong with a handler, once, wherever it is named. Code that is left out unless `good` causes no further
/// errors.
template <class Handler>
struct handler_check {
  static constexpr handler_fault fault = fault_of<Handler>();
  static constexpr bool good = fault == handler_fault::none;
  static_assert(fault != handler_fault::incomplete,
                "a handler is a struct, defined where it is named: struct h { ... };");
  static_assert(fault != handler_fault::name, "a handler has a name: static constexpr const char* name = \"...\";");
  static_assert(fault != handler_fault::flag, "on_host and batch of a handler are static constexpr bool");
  static_assert(fault != handler_fault::no_operator,
                "a handler has one operator(), neither overloaded nor a template: GRAVEL_HANDLER void operator()(const "
                "gravel_t& g, "
                "arguments...) const");
  static_assert(fault != handler_fault::result, "a handler's operator() returns void");
  static_assert(fault != handler_fault::not_const,
                "a handler's operator() is const: write const behind its parameters");
  static_assert(fault != handler_fault::handle, "a handler's operator() takes a const gravel_t& first");
  static_assert(fault != handler_fault::extras,
                "a handler with 'using context = T;' takes a T* behind the handle, and one with 'batch = true' a const "
                "gravel_batch& "
                "(behind the context, if there is one)");
  static_assert(fault != handler_fault::reference, "a handler's arguments are values or const references");
  static_assert(fault != handler_fault::not_copyable,
                "a handler's arguments are copied byte by byte: use trivially copyable types");
  static_assert(fault != handler_fault::too_large,
                "a handler takes up to 256 bytes of arguments: send an address, or several messages");
  static_assert(fault != handler_fault::made,
                "a handler is made anew for each message: it needs a default constructor");
};

/// The sizes and the sink of a handler. It must not have a fault.
template <class Handler>
struct handler_traits {
  using arguments = typename call_operator<decltype(&Handler::operator())>::template arguments<Handler>::list;
  static constexpr uint32_t bytes = arguments::bytes;
  static constexpr uint32_t units = am_units(bytes);
  static constexpr sink_kind kind = runs_on_host<Handler>() ? sink_kind::host : sink_kind::device;
};

/// Facts about a handler for code that does not know its type.
struct handler_info {
  const char* name;
  uint32_t id, bytes;  ///< of arguments
  bool on_host;
};
/// The handlers that the program gave to gravel_init, in their order.
struct handler_table {
  const handler_info* rows;
  uint32_t n;
  bool any_on_device;
  const handler_info* begin() const { return rows; }
  const handler_info* end() const { return rows + n; }
  uint32_t size() const { return n; }
};

/// Checks that a handler can be sent these arguments. Says what is wrong, as handler_check does.
template <class Handler, class... A>
struct send_check {
  static constexpr bool good = false;
};
template <class Handler, class... A>
requires(handler_check<Handler>::good) struct send_check<Handler, A...> {
  using list = typename handler_traits<Handler>::arguments;
  static constexpr bool as_many = list::template as_many<A...>, convertible = list::template convertible<A...>();
  static constexpr bool good = as_many && convertible;
  static_assert(as_many, "gravel_am: the handler takes another number of arguments");
  static_assert(convertible, "gravel_am: an argument cannot be converted to the handler's parameter");
};

}  // namespace gravel::detail
