// Applies messages that have arrived, one at a time, on the device or on the host. This is the last step of a message.
#pragma once
#include <exception>

#include "device/am.cuh"
#include "device/fetch.cuh"
#include "lib/base/error.hpp"

namespace gravel::detail {

/// True if a handler takes the messages of a row by itself.
template <class Handler>
constexpr bool takes_rows = [] {
  if constexpr (requires { Handler::takes_rows; }) return Handler::takes_rows;
  else return false;
}();

/// The program's handlers. Their ids must differ, which is checked where the list is named.
template <class... Handlers>
struct handler_list {
  static constexpr uint32_t size = sizeof...(Handlers);
  static constexpr bool ids_differ() {
    if constexpr (size > 1) {
      const uint32_t ids[] = {handler_id<Handlers>::value...};
      for (uint32_t i = 0; i < size; ++i)
        for (uint32_t j = i + 1; j < size; ++j)
          if (ids[i] == ids[j]) return false;
    }
    return true;
  }
  static constexpr bool runs_on_device = ((handler_traits<Handlers>::kind == sink_kind::device) || ...);
  static_assert(ids_differ(), "two handlers have the same name, or names whose hashes collide: rename one");

  static handler_table table() { return {rows, size, runs_on_device}; }
  /// Returns the name of the handler with this id. An empty list has none.
  static const char* name_of(uint32_t id) {
    for (const handler_info& row : rows)
      if (row.name && row.id == id) return row.name;
    return "unknown";
  }

  /// Runs the handler with this id if it is in the list, belongs to sinks of this kind, and the sizes agree. Messages
  /// are wide here. On a GPU, messages of handlers with few arguments arrive as words, and only dispatch_row knows
  /// them.
  GRAVEL_BOTH static bool dispatch([[maybe_unused]] const gravel_t& g, [[maybe_unused]] sink_kind kind,
                                   [[maybe_unused]] const unit* message, [[maybe_unused]] uint32_t units) {
    return (dispatch_one<Handlers>(g, kind, message, units) || ...);
  }
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  /// Does so for the messages `first`, `first + step`, ... of a compact row of `n`. Thread scope: lane.
  GRAVEL_DEVICE static bool dispatch_row([[maybe_unused]] const gravel_t& g, [[maybe_unused]] const row_kind& kind,
                                         [[maybe_unused]] const uint32_t* at, [[maybe_unused]] uint32_t first,
                                         [[maybe_unused]] uint32_t step, [[maybe_unused]] uint32_t n) {
    return (dispatch_row_of<Handlers>(g, kind, at, first, step, n) || ...);
  }
#endif

 private:
  static constexpr handler_info rows[size + 1] = {
      {Handlers::name, handler_id<Handlers>::value, handler_traits<Handlers>::bytes,
       handler_traits<Handlers>::kind == sink_kind::host}...,
      {}};
  template <class Handler>
  GRAVEL_BOTH static constexpr uint32_t position() {
    uint32_t at = 0;
    bool found = false;
    const auto pass = [&](bool is_it) {
      found = found || is_it;
      at += !found;
    };
    (pass(std::is_same_v<Handler, Handlers>), ...);
    return at;
  }
  template <class Handler>
  GRAVEL_BOTH static bool dispatch_one(const gravel_t& g, sink_kind kind, const unit* message, uint32_t units) {
    using traits = handler_traits<Handler>;
    constexpr uint32_t at = position<Handler>();
    handler_context<Handler> mine;
#if GRAVEL_ON_GPU
    if constexpr (am_message<Handler>::is_compact) return false;
#endif
    if (handler_of(message->word[0]) != handler_id<Handler>::value || units != traits::units ||
        argument_bytes_of(message->word[0]) != traits::bytes || kind != traits::kind)
      return false;
#if GRAVEL_ON_GPU
    // Host handlers are never compiled into the resolver kernel.
    if constexpr (traits::kind == sink_kind::device)
      if (mine.get(g, at)) run_handler(for_handler(&g), mine, message);
#elif GRAVEL_CUDA
    if constexpr (traits::kind == sink_kind::host)
      if (mine.get(g, at)) run_handler(g, mine, message);
#else
    if (mine.get(g, at)) run_handler(g, mine, message);
#endif
    return true;
  }
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  template <class Handler>
  GRAVEL_DEVICE static bool dispatch_row_of(const gravel_t& g, const row_kind& kind, const uint32_t* at, uint32_t first,
                                            uint32_t step, uint32_t n) {
    if constexpr (am_message<Handler>::is_compact && handler_traits<Handler>::kind == sink_kind::device) {
      if (kind != am_message<Handler>::kind) return false;
      run_row<Handler>(g, at, first, step, n);
      return true;
    } else {
      return false;
    }
  }
  /// Not inlined: each handler has one function, so the compiler's work grows only with their number. The next message
  /// is loaded while the handler of this one runs.
  template <class Handler>
  __device__ GRAVEL_NOINLINE static void run_row(const gravel_t& resolvers, const uint32_t* at, uint32_t first,
                                                 uint32_t step, uint32_t n) {
    constexpr uint32_t words = am_message<Handler>::pieces;
    const gravel_t g = for_handler(&resolvers);
    handler_context<Handler> mine;
    if (!mine.get(g, position<Handler>())) return;
    if constexpr (takes_rows<Handler>) return Handler::take_row(g, *mine.pointer, at, first, step, n);
    uint32_t next[words];
    if (first < n) load_message(at + first * words, next);
    for (uint32_t i = first; i < n; i += step) {
      uint32_t message[words];
      for (uint32_t w = 0; w < words; ++w) message[w] = next[w];
      if (i + step < n) load_message(at + (i + step) * words, next);
      run_handler(g, mine, message);
    }
  }
#endif
};

/// Applies an update, or a put, to a word of this PE's heap. The type takes the operation.
GRAVEL_BOTH void apply_update(op o, value_type type, char* at, uint64_t value) {
  const auto apply = [&]<class T>() {
    T* address = reinterpret_cast<T*>(at);
    if (o == op::put) put_in_place(address, from_word<T>(value));
    else if constexpr (is_addable<T>) apply_in_place(o, address, from_word<T>(value));
  };
  with_type(type, apply, [&](value_type half) { add_half_bits_in_place(half, at, value); });
}

/// Applies one message that is not a bulk one, already copied out of the packet or still in it. `g`: the handlers'
/// handle of this PE. Returns why it could not be applied. Thread scope: lane.
template <class Handlers>
GRAVEL_BOTH message_fault apply_message(const gravel_t& g, sink_kind kind, const unit* m, uint32_t units) {
  const message_fault fault = check_message(m, units, g.heap_bytes, g.n_pes, g.n_cells);
  if (fault != message_fault::fine) return fault;
  if (is_bulk(op_of(m->word[0]))) return message_fault::bad_op;  // a bulk message in a row of others
  const uint64_t w0 = m->word[0], w1 = m->word[1];
  const op o = op_of(w0);
  if (o == op::am) return Handlers::dispatch(g, kind, m, units) ? message_fault::fine : message_fault::bad_handler;
  if (o == op::cell_reply) {
    reply_cell& cell = g.cells[offset_of(w0)];
    store_relaxed<scope::device>(&cell.value, w1);
    store_release<scope::device>(&cell.state, reply_cell::answered);  // [R1]
    return message_fault::fine;
  }
  char* const at = g.heap + offset_of(w0);
  uint64_t answer = 0;
  const auto apply = [&]<class T>() {
    T* address = reinterpret_cast<T*>(at);
    switch (o) {
      case op::put:
      case op::put_reply: put_in_place(address, from_word<T>(w1)); break;
      case op::get: answer = to_word(read_in_place(address)); break;
      default:
        if (is_fetching(o)) answer = to_word(answer_in_place(o, address, from_word<T>(w1), from_word<T>(m[1].word[1])));
        else if constexpr (is_addable<T>) apply_in_place(o, address, from_word<T>(w1));
    }
  };
  with_type(type_of(w0), apply, [&](value_type half) { answer = add_half_bits_in_place(half, at, w1); });
  const bool from_host = type_byte(w0) & host_origin;
  if (o == op::put_reply) finish_gets(g, type_byte(w0), 1);
  if (o == op::get || is_fetching(o)) {
    // The answer to a get goes into the requester's heap. Other answers go into a reply cell, of the requester's
    // kernels or of its host threads.
    const bool get = o == op::get;
    const uint64_t where = get ? w1 : m[1].word[0];
    const unit reply[1] = {
        {{make_word0(get ? op::put_reply : op::cell_reply, type_byte(w0), return_where(where)), answer}}};
    send_direct(g, sink_of(return_pe(where), !get && from_host ? sink_kind::host : sink_kind::device), reply);
  }
  return message_fault::fine;
}

/// Calls f(). If a host handler in it throws, throws gravel::error that names the handler.
template <class F>
auto apply_guarded(const char* handler, op o, F&& f) {
  try {
    return f();
  } catch (...) {
    fail_in_handler(handler, o, text_of_thrown(std::current_exception()).c_str());
  }
}
/// apply_message on the host.
template <class Handlers>
message_fault apply_on_host(const gravel_t& g, sink_kind kind, const unit* m, uint32_t units) {
  const op o = op_of(m->word[0]);
  return apply_guarded(o == op::am ? Handlers::name_of(handler_of(m->word[0])) : nullptr, o,
                       [&] { return apply_message<Handlers>(g, kind, m, units); });
}
#if !GRAVEL_CUDA
template <class Handlers>
bool dispatch_row_on_host(const gravel_t& g, const row_kind& kind, const uint32_t* at, uint32_t first, uint32_t step,
                          uint32_t n) {
  return apply_guarded(Handlers::name_of(kind.handler), op::am,
                       [&] { return Handlers::dispatch_row(g, kind, at, first, step, n); });
}
#endif

}  // namespace gravel::detail
