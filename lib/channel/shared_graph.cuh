// A task graph of all PEs together: each has the graph, workers and memory of its own, and PEs that have nothing to do get tasks of those that
// have (lib/channel/shared_tasks.cuh). Include this and `gravel.cuh`.
//
//   using graph = gravel_shared_task_graph<board, queens, tally>;     // constants; the type that travels; the other types
//   gravel_init<graph::delivery, graph::result_delivery>();
//   graph t(constants, options);                                      // collective
//   if (gravel_my_pe() == 0) t.push(queens{{}, t.result<uint64_t>()});
//   t.run();                                                          // collective
#pragma once
#include "lib/base/relax.hpp"
#include "lib/channel/shared_tasks.cuh"
#include "lib/channel/task_graph.cuh"

/// Says the same at all PEs.
struct gravel_shared_options {
  uint32_t guests =
      1024;  ///< tasks of other PEs that may be here at once; each of them may have its share of it here; at least the number of PEs
  uint32_t batches = 1;  ///< that each worker takes out of channels before the PE looks what others want
};

/// What a PE did in a run.
struct gravel_shared_counts {
  uint64_t given, taken;  ///< tasks, to other PEs and from them
  uint64_t rounds;        ///< of its workers
};

/// `Root`: the task that travels. It has a member `to`, a gravel_return of a type of 4 or 8 bytes, and brings one result there (its whole
/// recursion does), by give or by add. One graph of a Root at a time. Results of tasks that have travelled are added, also to words of the host,
/// which so must be 0 before. One host thread; from gravel_init to gravel_finalize.
template <class Constants, class Root, class... T>
class gravel_shared_task_graph : public gravel_task_graph<gravel::shared_constants<Constants, gravel::result_of<Root>>, Root, T...,
                                                          gravel::returned<gravel::result_of<Root>>> {
  using V = gravel::result_of<Root>;
  using constants_type = gravel::shared_constants<Constants, V>;
  using base = gravel_task_graph<constants_type, Root, T..., gravel::returned<V>>;
  using view = gravel::task_view<constants_type, Root, T..., gravel::returned<V>>;

 public:
  using delivery = gravel_shared_task_delivery<Root>;
  using result_delivery = gravel_result_delivery<Root>;

  /// Collective. `options.dispatch` is not looked at: workers serve themselves, in rounds. Throws gravel::error as gravel_task_graph does, and if
  /// there are fewer guests than PEs.
  explicit gravel_shared_task_graph(const Constants& constants, gravel_task_options options = {}, const gravel_shared_options& how = {})
      : base({constants, {}}, in_rounds(options), gravel_n_pes() > 1 ? how.guests : 0),
        how_(how),
        n_pes_(static_cast<uint32_t>(gravel_n_pes())) {
    const uint64_t sizes[] = {how_.guests, how_.batches, options.max_depth};
    for (uint64_t size : sizes)
      if (gravel_min_all(size) != gravel_max_all(size))
        gravel::fail_text("shared task graph: all PEs say the same guests, batches and max_depth");
    if (how_.guests < n_pes_ || how_.guests > 1u << 20 || how_.batches == 0)
      gravel::fail_text("shared task graph: " + std::to_string(how_.guests) + " guests and " + std::to_string(how_.batches) +
                        " batches; there are " + std::to_string(n_pes_) +
                        " PEs, each of which needs room for a task; 2^20 guests at most, one batch at least");
    const uint32_t all = how_.guests;
    own_bytes_ = base::line(sizeof(gravel::shared_inbox<Root>)) + base::line(sizeof(gravel::shared_words)) +
                 base::line(all * sizeof(gravel::travelling_task<Root>)) + 2 * base::line(n_pes_ * 4) + tasks::bytes(all) +
                 2 * results::bytes(all);
    own_ = static_cast<char*>(gravel::current_backend().allocate(own_bytes_, "tasks that travel"));
    common_ = gravel_malloc<char>(256 + n_pes_ * 4);
    open_shared();
    gravel_set_context<delivery>(inbox_);
    gravel_set_context<result_delivery>(inbox_);
    gravel_barrier_all();
  }
  /// Collective.
  ~gravel_shared_task_graph() {
    gravel_free(common_);
    gravel::current_backend().release(own_);
  }

  /// Runs until no task is left at any PE. Collective. Throws gravel::error at all PEs for what a task did wrong at one; then nothing is left but
  /// what tasks had brought to words of the host.
  void run() {
    open_shared();
    gravel_barrier_all();
    base::begin(0);
    gravel_stream_synchronize(base::run_stream_);  // what was pushed is there
    shared_ = {};
    until_the_end();
    gravel_wait_quiescent();
    conclude();
  }
  void start() = delete;
  void wait() = delete;
  /// What the last run did here.
  const gravel_shared_counts& shared() const { return shared_; }

 private:
  using tasks = gravel::channel<gravel::travelling_task<Root>>;
  using results = gravel::channel<gravel::travelling_result<V>>;
  /// Words that other PEs write.
  struct common_words {
    uint64_t finished;  ///< PEs all of whose own tasks are done
    uint64_t stop;      ///< not 0: a task did something wrong, somewhere
  };

  /// With frames for what may be lent, so that what is here can go on. Where it cannot, as a frame that waits for another PE holds those behind it, the
  /// round ends (task_worker::work), and the next one begins with what others have brought.
  static gravel_task_options in_rounds(gravel_task_options options) {
    options.dispatch = gravel_dispatch::host;
    return options;
  }
  uint32_t credits() const { return how_.guests / n_pes_; }

  void open_shared() {
    gravel::current_backend().zero(own_, own_bytes_);
    gravel::current_backend().zero(common_, 256 + n_pes_ * 4);
    char* at = own_;
    const auto take = [&at](uint64_t bytes) {
      char* const here = at;
      at += base::line(bytes);
      return here;
    };
    const uint32_t all = how_.guests;
    inbox_ = reinterpret_cast<gravel::shared_inbox<Root>*>(take(sizeof(gravel::shared_inbox<Root>)));
    state_.words = reinterpret_cast<gravel::shared_words*>(take(sizeof(gravel::shared_words)));
    state_.waiting = reinterpret_cast<gravel::travelling_task<Root>*>(take(all * sizeof(gravel::travelling_task<Root>)));
    state_.credits = reinterpret_cast<uint32_t*>(take(n_pes_ * 4));
    state_.asking = reinterpret_cast<uint32_t*>(take(n_pes_ * 4));
    state_.inbox = {tasks::in(take(tasks::bytes(all)), all), results::in(take(results::bytes(all)), all)};
    base::view_.constants.outbox = results::in(take(results::bytes(all)), all);
    state_.asked = reinterpret_cast<uint32_t*>(common_ + 256);
    state_.g = gravel_handle();
    for (uint32_t* room :
         {&state_.inbox.tasks.state().room, &state_.inbox.results.state().room, &base::view_.constants.outbox.state().room})
      gravel_copy(room, &all, sizeof(all));
    gravel_copy(inbox_, &state_.inbox, sizeof(state_.inbox));
    const std::vector<uint32_t> each(n_pes_, credits());
    gravel_copy(state_.credits, each.data(), n_pes_ * 4);
  }

  common_words* common() const { return reinterpret_cast<common_words*>(common_); }
  void tell_all(uint64_t* word) const {
    for (uint32_t pe = 0; pe < n_pes_; ++pe) gravel_inc(gravel_host_handle(), word, static_cast<int>(pe));
  }

  /// A PE has finished when nothing of its own tasks is left, here or elsewhere; what it has of others keeps those from finishing. So when all
  /// have, nothing is left anywhere: whatever were left would come of some PE's own task, and that PE would not have finished.
  void until_the_end() {
    bool finished = false, stopped = false;
    gravel::graph_words words{};
    gravel::shared_words own{};
    for (gravel::relax idle;;) {
      gravel_copy(&words, base::view_.words, sizeof(words));
      if ((words.live & gravel::graph_words::live_mask) != 0) {
        base::run_workers(how_.batches);
        ++shared_.rounds;
        idle.reset();
      }
      gravel_launch(gravel::exchange_tasks<view, Root>, gravel_launch_config{.grid = 1, .block = 32, .stream = base::run_stream_},
                    base::view_, state_);
      gravel_stream_synchronize(base::run_stream_);
      common_words common_now{};
      gravel_copy(&words, base::view_.words, sizeof(words));
      gravel_copy(&own, state_.words, sizeof(own));
      gravel_copy(&common_now, common_, sizeof(common_now));
      shared_.given = own.given, shared_.taken = own.taken;
      const bool left = (words.live & gravel::graph_words::live_mask) != 0;
      // Also by a PE that has finished: it may have been another one's task.
      if (words.fault && !stopped) tell_all(&common()->stop), stopped = true;
      if (common_now.stop || common_now.finished == n_pes_) return;
      if (!finished && !stopped && !left && own.lent == 0) tell_all(&common()->finished), finished = true;
      if (!left) idle.attentively();
    }
  }

  /// All PEs are here, and no message is under way.
  void conclude() {
    gravel::graph_words words{};
    uint64_t stopped = 0;
    gravel_copy(&words, base::view_.words, sizeof(words));
    gravel_copy(&stopped, &common()->stop, sizeof(stopped));
    std::string wrong = stopped ? "" : what_is_left();
    if (stopped && words.fault == 0) {  // what is here waits for what was dropped elsewhere
      base::running_ = false;
      base::drop();
    } else {
      try {
        base::finish();
      } catch (const gravel::error& e) {
        wrong = e.what();
      }
    }
    if (gravel_sum_all(uint64_t{!wrong.empty()}) == 0) return;
    gravel::fail_text(wrong.empty() ? "task graph: another PE tells what is wrong" : wrong);
  }
  /// Credits are where they were in the beginning, and nobody's tasks are here.
  std::string what_is_left() const {
    gravel::shared_words own{};
    std::vector<uint32_t> now(n_pes_);
    gravel_copy(&own, state_.words, sizeof(own));
    gravel_copy(now.data(), state_.credits, n_pes_ * 4);
    if (own.lent || own.waiting || own.borrowed) return "task graph: a task of another PE was not finished";
    for (uint32_t pe = 0; pe < n_pes_; ++pe)
      if (now[pe] != credits())
        return "task graph: " + std::to_string(now[pe]) + " credits for PE " + std::to_string(pe) + ", not " + std::to_string(credits());
    return {};
  }

  gravel_shared_options how_;
  uint32_t n_pes_;
  uint64_t own_bytes_ = 0;
  char *own_ = nullptr, *common_ = nullptr;
  gravel::shared_inbox<Root>* inbox_ = nullptr;
  gravel::shared_state<Root> state_{};
  gravel_shared_counts shared_{};
};
