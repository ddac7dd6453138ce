// gravel::row_optimizer: a sparse optimizer of the rows of a table, with its state beside the rows.
#pragma once
#include <optional>
#include <string>
#include <type_traits>

#include "lib/table/optimizer_kernels.cuh"
#include "lib/table/rows.cuh"

namespace gravel::detail {

/// Updates rows of a table by gradients, as optimizers of PyTorch do with sparse gradients: gradients of one row are
/// added up over all ids and all PEs, and then the row gets one step. Rows without gradients stay as they are, and so
/// does their state. The gradients of a step and the state lie at the owner of the row, and take as much memory as the
/// table each; state of row-wise optimizers takes less.
/// @tparam T float or double: the elements of the rows
/// @scope the program's host thread, collective
/// @completion on return
/// @errors gravel::error
/// @source PyTorch: torch.optim.SparseAdam, torch.optim.Adagrad; FBGEMM: rowwise_adagrad, partial_rowwise_adam
template <class T>
class row_optimizer {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "gravel::row_optimizer takes rows of float or double");

 public:
  /// Makes the state, all zeros. Collective: all PEs pass the same.
  /// @param table whose rows are updated; it must exist as long as the optimizer
  /// @param how gravel::optimizer::sgd, adagrad, rowwise_adagrad, adam, or rowwise_adam
  /// @param settings the learning rate and the rest; eps of 1e-10 is usual for Adagrad
  /// @errors gravel::error on all PEs: rows that do not consist of T, settings that are impossible or differ, too
  ///   little memory at one PE
  row_optimizer(rows& table, optimizer how, const optimizer_settings& settings = {})
      : table_(checked(table, how, settings)),
        how_(how),
        settings_(settings),
        gradients_(table.count(), table.row_bytes(), table.view().dealing.how()),
        marks_(table.count(), sizeof(uint32_t), table.view().dealing.how()) {
    if (has_moment(how)) moments_.emplace(table.count(), table.row_bytes(), table.view().dealing.how());
    if (how != optimizer::sgd)
      squares_.emplace(table.count(), is_rowwise(how) ? sizeof(T) : table.row_bytes(), table.view().dealing.how());
  }
  /// @internal
  row_optimizer(const row_optimizer&) = delete;
  row_optimizer& operator=(const row_optimizer&) = delete;

  /// Adds gradients to those of the next step. Not collective.
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes, below the table's count(); repeated ones too
  /// @param gradients [n][row_bytes / sizeof(T)], device memory
  /// @param n number of ids, below 2^32 between two steps
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids and gradients: in the stream. The sums: step() waits for them
  /// @errors a row that does not exist ends the job with a message
  template <class Id>
  void add(const Id* ids, const T* gradients, uint64_t n, gravel_stream_t stream = nullptr) {
    gradients_.scatter_add(ids, gradients, n, stream);
    marks_.template histogram<uint32_t>(ids, n, stream);
  }
  /// Updates the rows to which gradients were added since the last step, by the sums over all PEs. It waits for this
  /// PE's kernels, such as gathers of the table.
  /// @completion on return: all PEs may read the new rows
  /// @errors gravel::error: a kernel has failed
  void step() {
    gravel_barrier_all();  // all gradients are there, and nobody reads rows
    ++steps_;
    start_step(how_, memory(), step_numbers<T>(settings_, steps_), nullptr);
    gravel_barrier_all();
  }
  /// Adds gradients, and makes the step. PEs may pass different numbers of gradients, also none.
  /// @param ids [n], as of add()
  /// @param gradients [n][row_bytes / sizeof(T)], as of add()
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @completion on return: all PEs may read the new rows
  /// @errors as of add() and step()
  template <class Id>
  void update(const Id* ids, const T* gradients, uint64_t n, gravel_stream_t stream = nullptr) {
    add(ids, gradients, n, stream);
    step();
  }

  /// Changes the learning rate. Not collective, but all PEs pass the same.
  /// @param rate of the following steps
  void set_learning_rate(double rate) { settings_.learning_rate = rate; }
  /// @return number of steps so far
  uint64_t steps() const { return steps_; }
  /// Continues at another step, as a program does that has loaded the state.
  /// @param steps number of steps so far
  void set_steps(uint64_t steps) { steps_ = steps; }
  /// @return Adam's first moments, dealt as the table; nullptr without
  rows* moments() { return moments_ ? &*moments_ : nullptr; }
  /// @return sums or averages of squares, dealt as the table: an element for each element of the table, or of row-wise
  ///   optimizers one for each row; nullptr without
  rows* squares() { return squares_ ? &*squares_ : nullptr; }

 private:
  static rows& checked(rows& table, optimizer how, const optimizer_settings& settings) {
    const auto refuse = [](const std::string& why) { fail_text("gravel::row_optimizer: " + why); };
    if (table.row_bytes() % sizeof(T))
      refuse("a row of " + std::to_string(table.row_bytes()) + " bytes does not consist of elements of " +
             std::to_string(sizeof(T)));
    bool is_same = !differs(static_cast<uint64_t>(how));
    for (const double number : {settings.learning_rate, settings.eps, settings.beta1, settings.beta2})
      is_same &= !differs(__builtin_bit_cast(uint64_t, number));
    if (!is_same) refuse("the PEs pass different optimizers or settings");
    const auto is_share = [](double beta) { return beta >= 0 && beta < 1; };
    if (!is_share(settings.beta1) || !is_share(settings.beta2))
      refuse("beta1 is " + std::to_string(settings.beta1) + " and beta2 " + std::to_string(settings.beta2) +
             "; each is 0 or more, and less than 1");
    if (!(settings.eps >= 0)) refuse("eps is " + std::to_string(settings.eps) + "; it is 0 or more");
    return table;
  }
  step_memory<T> memory() {
    const auto of = [](std::optional<rows>& state) { return state ? static_cast<T*>(state->local()) : nullptr; };
    return {static_cast<T*>(table_.local()),
            static_cast<T*>(gradients_.local()),
            static_cast<uint32_t*>(marks_.local()),
            of(moments_),
            of(squares_),
            table_.local_count(),
            table_.row_bytes() / sizeof(T)};
  }

  rows& table_;
  optimizer how_;
  optimizer_settings settings_;
  uint64_t steps_ = 0;
  rows gradients_, marks_;
  std::optional<rows> moments_, squares_;
};

}  // namespace gravel::detail
