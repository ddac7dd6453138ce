// Tasks of one type that travel: from a PE that has some to one that asks, and their results back. Between two rounds of a PE's workers one
// warp of it exchanges messages with the other PEs; handlers only put what comes into bounded channels, which the next exchange empties.
//
//   PE p                                                    PE q
//                                                           nothing left: asks, once, until something comes
//   was asked: takes tasks of the least depth, credits -= n
//   message: task, its depth, p                             into a channel, then as soon as there is room into the graph, behind a frame
//                                                           of gravel_returned in place of the task's own return
//                                                           that frame has its input: message with the result, in the next exchange
//   adds the result where it belongs, credits += 1
//
// Credits. p may have capacity / PEs tasks at q at once, from when it sends one until it has taken the result. So at q all that others have
// there is at most the capacity, and at p all results that come are: whatever these channels are, they have room, and nobody waits.
//
// Rounds end. A round of workers ends only if they always find something that may start, as long as there is anything. A frame that waits for a task
// elsewhere is one for which no room comes back; such a task holds at most one frame of each depth, its ancestors'. So there are as many
// more frames as tasks may be lent, and what was said of admission holds without them. A task that has come waits for room at its own
// depth, which others of this depth have that are in the graph already; those that wait have no order, so none is held up by another.
//
// Messages do not overtake in any way that matters: what a PE has lent is counted in `lent` before it is uncounted in `live`, and a
// result is in `live` again before `lent` lets it go. The model is test/models/shared_tasks.pml.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "device/am.cuh"
#include "lib/channel/task_view.cuh"

namespace gravel {

template <class Root>
struct travelling_task {
  Root task;
  uint32_t from, depth;
};
template <class V>
struct travelling_result {
  gravel_return<V> to;
  uint32_t pe;  ///< in the outbox: to which; in a message: from which
  V value;
};
namespace detail {
template <class V>
V value_returned(gravel_return<V>);
}
/// The type of what a task returns.
template <class Root>
using result_of = decltype(detail::value_returned(std::declval<Root>().to));

/// Where handlers put what comes. In device memory.
template <class Root>
struct shared_inbox {
  channel<travelling_task<Root>> tasks;
  channel<travelling_result<result_of<Root>>> results;
};

namespace detail {
/// The name of a handler: that of the task behind some words.
template <class Root, bool RESULT>
constexpr auto handler_name_of() {
  std::array<char, 48> text{};
  size_t n = 0;
  for (const char* c = RESULT ? "result of " : "task "; *c; ++c) text[n++] = *c;
  for (const char* c = Root::name; *c && n + 1 < text.size(); ++c) text[n++] = *c;
  return text;
}
template <class Root, bool RESULT>
inline constexpr auto handler_name = handler_name_of<Root, RESULT>();
}  // namespace detail

}  // namespace gravel

/// The two handlers of a graph whose tasks travel; to be given to gravel_init. What finds no room, which can only be for a moment, they send to
/// their own PE again.
template <class Root>
struct gravel_shared_task_delivery {
  static constexpr const char* name = gravel::detail::handler_name<Root, false>.data();
  using context = gravel::shared_inbox<Root>;
  GRAVEL_HANDLER void operator()(const gravel_t& g, context* mine, gravel::travelling_task<Root> task) const {
    if (!gravel::put_into(mine->tasks, task)) gravel_am<gravel_shared_task_delivery>(g, static_cast<int>(g.my_pe), task);
  }
};
template <class Root>
struct gravel_result_delivery {
  static constexpr const char* name = gravel::detail::handler_name<Root, true>.data();
  using context = gravel::shared_inbox<Root>;
  GRAVEL_HANDLER void operator()(const gravel_t& g, context* mine, gravel::travelling_result<gravel::result_of<Root>> result) const {
    if (!gravel::put_into(mine->results, result)) gravel_am<gravel_result_delivery>(g, static_cast<int>(g.my_pe), result);
  }
};

namespace gravel {

/// The graph's constants, and where results for other PEs wait for the next exchange.
template <class Constants, class V>
struct shared_constants : Constants {
  channel<travelling_result<V>> outbox;
};

/// The continuation of a task of another PE.
template <class V>
struct returned {
  static constexpr const char* name = "returned";
  static constexpr uint32_t inputs = 1;
  using value = V;
  uint32_t pe;
  gravel_return<V> to;
  template <class Here>
  __device__ void operator()(Here& here, const V (&x)[1]) const {
    put_into(here.constants().outbox, travelling_result<V>{to, pe, x[0]});  // has room for all that may be here
  }
};

struct shared_words {
  uint32_t lent;          ///< tasks of this PE that are elsewhere
  uint32_t waiting;       ///< of others, that have found no room in the graph yet
  uint32_t borrowed;      ///< of others, in the graph
  uint32_t given, taken;  ///< in the whole run
};

/// What the exchange works on; plain data. One warp at a time touches it, but for the inbox.
template <class Root>
struct shared_state {
  gravel_t g;
  shared_inbox<Root> inbox;
  shared_words* words;
  travelling_task<Root>* waiting;  ///< [words->waiting]
  uint32_t* credits;               ///< [PE]
  uint32_t* asking;                ///< [PE] this one has asked that one, and nothing has come since
  uint32_t* asked;                 ///< [PE] that one has asked this one; symmetric
};

template <class View, class Root>
class task_exchange {
  using V = result_of<Root>;
  using proxy = returned<V>;

 public:
  GRAVEL_DEVICE task_exchange(const View& view, const shared_state<Root>& s)
      : view_(view), s_(s), warp_(lane_group::converged_warp(threadIdx.x, 32)) {}

  GRAVEL_DEVICE void take_results() const {
    for (channel_batch b; (b = s_.inbox.results.take(warp_, 32)).count != 0;) {
      const bool has = warp_.rank() < b.count;
      travelling_result<V> r{};
      if (has) r = s_.inbox.results.read(b.first + warp_.rank());
      s_.inbox.results.free(warp_, b);
      if (has) {
        bring(static_cast<typename View::types*>(nullptr), r);
        fetch_add<scope::device>(&s_.credits[r.pe], 1u);
      }
      warp_.sync();
      if (warp_.is_leader()) s_.words->lent -= b.count;
    }
  }

  GRAVEL_DEVICE void take_tasks() const {
    for (channel_batch b; (b = s_.inbox.tasks.take(warp_, 32)).count != 0;) {
      const uint32_t before = warp_.from_leader(s_.words->waiting);
      if (warp_.rank() < b.count) {
        const travelling_task<Root> t = s_.inbox.tasks.read(b.first + warp_.rank());
        s_.waiting[before + warp_.rank()] = t;
        store_relaxed<scope::device>(&s_.asking[t.from], 0u);
      }
      s_.inbox.tasks.free(warp_, b);
      if (warp_.is_leader()) s_.words->waiting += b.count, s_.words->taken += b.count;
      warp_.sync();
    }
    place_tasks();
  }

  GRAVEL_DEVICE void send_results() const {
    const auto& outbox = view_.constants.outbox;
    for (channel_batch b; (b = outbox.take(warp_, 32)).count != 0;) {
      if (warp_.rank() < b.count) {
        travelling_result<V> r = outbox.read(b.first + warp_.rank());
        const auto to = static_cast<int>(r.pe);
        r.pe = s_.g.my_pe;
        gravel_am<gravel_result_delivery<Root>>(s_.g, to, r);
      }
      outbox.free(warp_, b);
      if (warp_.is_leader()) s_.words->borrowed -= b.count;
    }
    outbox.space.refresh(warp_);
    warp_.sync();
  }

  /// To each PE that has asked, half of the tasks of the least depth that has two.
  GRAVEL_DEVICE void give_tasks() const {
    for (uint32_t pe = 0; pe < s_.g.n_pes; ++pe) {
      if (warp_.from_leader(load_acquire<scope::system>(&s_.asked[pe])) == 0) continue;
      const uint32_t credits = warp_.from_leader(load_relaxed<scope::device>(&s_.credits[pe]));
      for (uint32_t depth = 0, gave = 0; depth < view_.depths && credits && !gave; ++depth) gave = give_some(pe, depth, credits);
    }
  }

  /// Nothing to do: asks whom it has not asked.
  GRAVEL_DEVICE void ask() const {
    const bool idle =
        warp_.is_leader() && (load_acquire<scope::device>(&view_.words->live) & graph_words::live_mask) == 0 && s_.words->waiting == 0;
    if (warp_.from_leader(static_cast<uint32_t>(idle)) == 0) return;
    for (uint32_t pe = warp_.rank(); pe < s_.g.n_pes; pe += 32) {
      if (pe == s_.g.my_pe || load_relaxed<scope::device>(&s_.asking[pe])) continue;
      store_relaxed<scope::device>(&s_.asking[pe], 1u);
      gravel_put(s_.g, &s_.asked[s_.g.my_pe], 1u, static_cast<int>(pe));
    }
  }

 private:
  /// Adds the result to what its task would have brought it to: a word of the host, or an input of a continuation with values of this type.
  template <class... C>
  GRAVEL_DEVICE void bring(gravel_types<C...>*, const travelling_result<V>& r) const {
    if (r.to.type() == gravel_return<V>::of_host)
      return View::template bring_value<true>(reinterpret_cast<V*>(&view_.results[r.to.row()]), r.value);
    (
        [&] {
          if constexpr (std::is_same_v<typename task_facts<C>::value, V>)
            if (r.to.type() == View::types::template index<C>) view_.template bring_to<C, true>(r.to.row(), r.to.input(), r.value);
        }(),
        ...);
  }

  GRAVEL_DEVICE void place_tasks() const {
    const uint32_t n = warp_.from_leader(s_.words->waiting);
    uint32_t left = 0;
    for (uint32_t first = 0; first < n; first += 32) {
      const bool has = first + warp_.rank() < n;
      travelling_task<Root> t{};
      if (has) t = s_.waiting[first + warp_.rank()];
      const bool stays = has && !place(t);
      warp_.sync();
      const uint32_t all = warp_.ballot(stays);
      if (stays) s_.waiting[left + warp_.rank_in(all)] = t;
      left += lane_group::popcount(all);
      warp_.sync();
    }
    if (warp_.is_leader()) s_.words->waiting = left, s_.words->borrowed += n - left;
    warp_.sync();
  }
  GRAVEL_DEVICE bool place(const travelling_task<Root>& t) const {
    const auto to = view_.template channel_of<Root>(t.depth);
    const frames<proxy> in = view_.template frames_of<proxy>(t.depth);
    if (!to.take_room(1)) return false;
    if (!in.space.take_room(1)) return to.give_room(1), false;
    const uint32_t row = in.space.row(in.space.draw(1));
    in.begin(row, {t.from, t.task.to}, 1);
    Root task = t.task;
    task.to = gravel_return<V>::to(false, View::types::template index<proxy>, 0, t.depth << view_.frame_shift | row);
    fetch_add<scope::device>(&view_.words->live, graph_words::arrival + 1);
    fetch_add<scope::device>(&view_.words->counts.unfinished, uint64_t{1});
    const lane_group alone = lane_group::of(1u << warp_.lane());
    const channel_reservation r = to.draw(alone, 1);
    to.write(r.mine, task);
    to.commit(alone, r);
    return true;
  }

  GRAVEL_DEVICE uint32_t give_some(uint32_t pe, uint32_t depth, uint32_t credits) const {
    const auto from = view_.template channel_of<Root>(depth);
    const uint32_t waiting = warp_.from_leader(from.waiting()), half = waiting / 2 < 32 ? waiting / 2 : 32;
    const channel_batch b = from.take(warp_, half < credits ? half : credits);
    if (b.count == 0) return 0;
    travelling_task<Root> t{};
    if (warp_.rank() < b.count) t = {from.read(b.first + warp_.rank()), s_.g.my_pe, depth};
    from.free(warp_, b);
    if (warp_.is_leader()) {
      s_.words->lent += b.count, s_.words->given += b.count;
      fetch_add<scope::device>(&s_.credits[pe], 0u - b.count);
      fetch_add<scope::device>(&view_.words->live, uint64_t{0} - b.count);
      store_relaxed<scope::system>(&s_.asked[pe], 0u);  // it asks again when something of this has come
    }
    warp_.sync();
    if (warp_.rank() < b.count) gravel_am<gravel_shared_task_delivery<Root>>(s_.g, static_cast<int>(pe), t);
    warp_.sync();
    return b.count;
  }

  const View& view_;
  const shared_state<Root>& s_;
  const lane_group warp_;
};

/// One warp, while no worker runs.
template <class View, class Root>
__global__ void exchange_tasks(const View view, const shared_state<Root> s) {
  const task_exchange<View, Root> exchange(view, s);
  exchange.take_results();
  exchange.take_tasks();
  exchange.send_results();
  exchange.give_tasks();
  exchange.ask();
}

}  // namespace gravel
