// A task graph of all PEs together. Each PE has a graph, workers and memory of its own, and idle PEs get tasks of PEs
// that have many (shared_tasks.cuh).
//
//   using graph = gravel_shared_task_graph<board, queens, tally>;     // constants; type that travels; other types
//   graph t(constants, options);                                      // collective
//   if (gravel_my_pe() == 0) t.push(queens{{}, t.result<uint64_t>()});
//   t.run();                                                          // collective
#pragma once
#include "device/watched_wait.cuh"
#include "lib/taskgraph/shared_tasks.cuh"
#include "lib/taskgraph/task_graph.cuh"

/// Options of the exchange between PEs. They are the same at all PEs.
struct gravel_shared_options {
  /// Number of tasks of other PEs that may be at a PE at once; at least the number of PEs, which all have the same
  /// share. It should suffice to occupy all workers.
  uint32_t imported_tasks = GRAVEL_CUDA ? 16384 : 1024;
};

/// Counts of one PE in a run.
struct gravel_shared_counts {
  uint64_t sent, taken;  ///< tasks exported to other PEs, and tasks imported from them
  uint64_t requested;    ///< requests for tasks; not all of them are answered
  uint64_t most;         ///< largest number of tasks in one transfer that came
};

/// A task graph of all PEs. `Root`: the type of tasks that travel between PEs. It has a member `to`, a gravel_return of
/// a type of 4 or 8 bytes, and its whole recursion delivers one result there, by reply or by add. Results of tasks that
/// have travelled are added, also to words of the host, which must be 0 before. A graph exists between gravel_init and
/// gravel_finalize.
/// @scope the program's host thread; collective, except shared()
/// @completion on return
/// @errors gravel::error
/// @source Channels (ISCA 2014), section 5
template <class Constants, class Root, class... T>
class gravel_shared_task_graph
    : public gravel_task_graph<gravel::detail::shared_constants<Constants, gravel::detail::result_of<Root>>, Root, T...,
                               gravel::detail::returned<gravel::detail::result_of<Root>>> {
  using V = gravel::detail::result_of<Root>;
  using constants_type = gravel::detail::shared_constants<Constants, V>;
  using base = gravel_task_graph<constants_type, Root, T..., gravel::detail::returned<V>>;
  using view = gravel::detail::task_view<constants_type, Root, T..., gravel::detail::returned<V>>;
  static_assert(!(gravel::detail::inner::has_predicate<Root> || ... || gravel::detail::inner::has_predicate<T>),
                "no PE knows whether a task elsewhere could still make a predicate (may_start) true");

 public:
  /// Makes the graph at all PEs.
  /// @param constants what all tasks read, by here.constants()
  /// @param options like those of gravel_task_graph; `dispatch` has no effect: workers take batches themselves
  /// @param how options of the exchange between PEs
  /// @errors gravel::error like gravel_task_graph, if there are fewer `imported_tasks` than PEs, and for `cycles`
  explicit gravel_shared_task_graph(const Constants& constants, gravel_task_options options = {},
                                    const gravel_shared_options& how = {})
      : base({constants, nullptr, 0}, by_workers(options), gravel_n_pes() > 1 ? how.imported_tasks : 0),
        how_(how),
        n_pes_(static_cast<uint32_t>(gravel_n_pes())) {
    const uint64_t sizes[] = {how_.imported_tasks, options.max_depth};
    for (uint64_t size : sizes)
      if (gravel_min_all(size) != gravel_max_all(size))
        gravel::detail::fail_text("shared task graph: all PEs say the same imported_tasks and max_depth");
    if (options.cycles)
      gravel::detail::fail_text("shared task graph: the option cycles is for a graph of one PE; use gravel_task_graph");
    if (how_.imported_tasks < n_pes_ || how_.imported_tasks > 1u << 20)
      gravel::detail::fail_text("shared task graph: " + std::to_string(how_.imported_tasks) +
                                " imported_tasks; there are " + std::to_string(n_pes_) +
                                " PEs, each of which needs room for a task; 2^20 at most");
    own_bytes_ = base::line(sizeof(gravel::detail::shared_words)) +
                 base::line(how_.imported_tasks * sizeof(gravel::detail::travelling_task<Root>)) +
                 base::line(n_pes_ * 4) + tasks::own_bytes(n_pes_) + results::own_bytes(n_pes_) +
                 n_pes_ * outbox::bytes(credits());
    symmetric_bytes_ = tasks::symmetric_bytes(n_pes_) + results::symmetric_bytes(n_pes_) + 2 * base::line(n_pes_ * 8);
    own_ = static_cast<char*>(gravel::detail::current_backend().allocate(own_bytes_, "tasks that travel"));
    symmetric_ = gravel_malloc<char>(symmetric_bytes_);
    open_shared();
    direct_ = reaches_all_directly();
    if (n_pes_ > 1) load_workers();
    gravel_barrier_all();
  }
  /// Collective.
  ~gravel_shared_task_graph() {
    gravel_barrier_all();  // transfers that other PEs requested have arrived
    gravel_free(symmetric_);
    gravel::detail::current_backend().release(own_);
  }

  /// Runs until no task is left at any PE. Collective. Throws gravel::error at all PEs if a task at one PE has a fault;
  /// then all tasks are dropped, and words of the host keep what was delivered to them.
  void run() {
    if (n_pes_ == 1) return base::run();
    base::prepare(1);  // as if the host still pushed: workers stay until the exchange has ended
    start_exchange();
    base::run_workers(~0u);
    gravel_stream_synchronize(base::push_stream_);
    conclude();
  }
  /// @internal
  void start() = delete;
  /// @internal
  void wait() = delete;
  /// Counts of this PE in the last run.
  const gravel_shared_counts& shared() const { return shared_; }

 private:
  using tasks = gravel::detail::task_transfers<Root>;
  using results = gravel::detail::result_transfers<Root>;
  using outbox = gravel::detail::channel<gravel::detail::travelling_result<V>>;

  static gravel_task_options by_workers(gravel_task_options options) {
    options.dispatch = gravel_dispatch::workers;
    return options;
  }
  uint32_t credits() const { return how_.imported_tasks / n_pes_; }

  /// Sets up the memory of the exchange. No transfer is in flight.
  void open_shared() {
    gravel::detail::current_backend().zero(own_, own_bytes_);
    gravel::detail::current_backend().zero(symmetric_, symmetric_bytes_);
    const auto take = [](char*& at, uint64_t bytes) {
      char* const here = at;
      at += base::line(bytes);
      return here;
    };
    char *own = own_, *symmetric = symmetric_;
    state_.g = gravel_handle();
    state_.words = reinterpret_cast<gravel::detail::shared_words*>(take(own, sizeof(gravel::detail::shared_words)));
    state_.credits = reinterpret_cast<uint32_t*>(take(own, n_pes_ * 4));
    state_.pending = reinterpret_cast<gravel::detail::travelling_task<Root>*>(
        take(own, how_.imported_tasks * sizeof(gravel::detail::travelling_task<Root>)));
    state_.tasks =
        tasks::in(take(symmetric, tasks::symmetric_bytes(n_pes_)), take(own, tasks::own_bytes(n_pes_)), n_pes_);
    state_.results =
        results::in(take(symmetric, results::symmetric_bytes(n_pes_)), take(own, results::own_bytes(n_pes_)), n_pes_);
    state_.finished = reinterpret_cast<uint64_t*>(take(symmetric, n_pes_ * 8));
    state_.stopped = reinterpret_cast<uint64_t*>(take(symmetric, n_pes_ * 8));
    constants_type& constants = base::view_.constants;
    constants.outboxes = take(own, n_pes_ * outbox::bytes(credits()));
    constants.credits = credits();
    const std::vector<uint32_t> each(n_pes_, credits());
    gravel_copy(state_.credits, each.data(), n_pes_ * 4);
    for (uint32_t pe = 0; pe < n_pes_; ++pe)
      gravel_copy(&constants.outbox(pe).state().room, &constants.credits, sizeof(uint32_t));
  }

  /// Runs the workers once without tasks, before the exchange runs: the driver may have to allocate local memory for a
  /// new kernel, which it can do only while no other kernel runs.
  void load_workers() {
    base::run_workers(0);
    gravel_stream_synchronize(base::run_stream_);
  }
  /// Starts the kernel of the exchange. Returns when it runs, so that workers may fill the rest of the GPU. If the
  /// memory of all other PEs is mapped here, the exchange stores there directly, and no resolver takes multiprocessors
  /// from workers.
  void start_exchange() {
    ++run_;
    const gravel_launch_config how{.grid = 1, .block = 32, .stream = base::push_stream_};
    if (direct_)
      gravel::detail::launch_alone(gravel::detail::exchange_tasks<view, Root>, how, base::view_, state_, run_);
    else gravel_launch(gravel::detail::exchange_tasks<view, Root>, how, base::view_, state_, run_);
    for (gravel::detail::watched_wait wait; begun() != run_;)
      wait.attentively([] {
        return "the kernel that exchanges tasks with other PEs to start: other kernels may leave it no room on the "
               "device";
      });
  }
  /// Number of the last run whose exchange has started.
  uint64_t begun() const {
    uint64_t run = 0;
    gravel_copy(&run, &state_.words->begun, sizeof(run));
    return run;
  }
  bool reaches_all_directly() const {
    if (!state_.g.peers) return false;
    std::vector<gravel::detail::peer_link> links(n_pes_);
    gravel_copy(links.data(), state_.g.peers, n_pes_ * sizeof(gravel::detail::peer_link));
    for (uint32_t pe = 0; pe < n_pes_; ++pe)
      if (pe != state_.g.my_pe && !links[pe].heap) return false;
    return true;
  }

  void conclude() {
    gravel::detail::shared_words own{};
    gravel_copy(&own, state_.words, sizeof(own));
    shared_ = {own.sent, own.taken, own.requested, own.most};
    std::string wrong;
    try {
      base::finish();
      wrong = what_is_left(own);
    } catch (const gravel::detail::error& e) {
      wrong = e.what();
    }
    if (gravel_sum_all(uint64_t{!wrong.empty()}) == 0) return;
    gravel_barrier_all();  // transfers in flight have arrived
    open_shared();
    gravel_barrier_all();
    gravel::detail::fail_text(wrong.empty() ? "task graph: another PE reports what is wrong" : wrong);
  }
  /// An error text if a credit was lost, or if a task of another PE is still here.
  std::string what_is_left(const gravel::detail::shared_words& own) const {
    if (own.exported || own.pending || own.imported) return "task graph: a task of another PE was not finished";
    std::vector<uint32_t> now(n_pes_);
    gravel_copy(now.data(), state_.credits, n_pes_ * 4);
    for (uint32_t pe = 0; pe < n_pes_; ++pe)
      if (now[pe] != credits())
        return "task graph: " + std::to_string(now[pe]) + " credits for PE " + std::to_string(pe) + ", not " +
               std::to_string(credits());
    return {};
  }

  gravel_shared_options how_;
  uint32_t n_pes_;
  uint64_t own_bytes_ = 0, symmetric_bytes_ = 0;
  char *own_ = nullptr, *symmetric_ = nullptr;
  gravel::detail::shared_state<Root> state_{};
  bool direct_ = false;  ///< the memory of all other PEs is mapped here
  uint64_t run_ = 0;     ///< the same at all PEs
  gravel_shared_counts shared_{};
};
