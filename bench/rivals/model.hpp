// The networking models of section 3 of the Gravel paper, for applications whose kernels take a sender: launches of
// their kernels by Gravel, or by one of its rivals (docs/applications.md describes each).
#pragma once
#include <optional>

#include <gravel/launch_alone.cuh>
#include <gravel/mapped_rendezvous.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/model_limits.hpp"
#include "bench/rivals/model_options.hpp"
#include "bench/rivals/model_sender.hpp"

namespace app {
using gravel::all_are_mapped;
using gravel::device_array;
using gravel::launch_alone;
using gravel::mapped_rendezvous;
using gravel::detail::bytes_of;
using gravel::detail::op;
using gravel::detail::update_kind;
using gravel::detail::value_type;

class network_model {
 public:
  /// From gravel_init to gravel_finalize. Collective.
  network_model(const char* program, const model_options& o)
      : program_(program),
        model_(o.model()),
        misuse_(std::vector<uint32_t>{0}),
        rendezvous_(all_are_mapped() && is_gravel()) {
    if (is_coprocessor()) host_.emplace(o.queue_size(), model_ == networking::coprocessor_buffered ? 2 : 1);
  }
  bool is_gravel() const { return model_ == networking::gravel; }
  /// Gravel's kernels may send by mapped_sender.
  bool is_mapped() const { return rendezvous_.is_mapped(); }
  /// Of all PEs, between rounds.
  mapped_rendezvous& rendezvous() { return rendezvous_; }
  /// All PEs have to launch together, and each all of its items.
  bool is_collective() const { return host_.has_value(); }
  /// What a block sends in one launch is gathered in its shared memory, which has its limit.
  bool gathers() const { return !is_gravel() && model_ != networking::message_per_lane; }
  /// Messages that a lane may send in one launch. Of Gravel and message-per-lane any number.
  uint64_t most_of_lane() const { return gathers() ? app::most_of_lane : ~uint64_t{0}; }

  /// Active messages run this handler, with this context in device memory. For all models; before gravel_barrier_all.
  template <class Handler>
  void receive(typename Handler::context* context) {
    gravel_set_context<Handler>(context);
    if (host_) host_->receive<Handler>(context);
  }

  /// Launches one of two instances of a kernel, which is given the arguments, its first item, and how many there are;
  /// as often as the model needs to, and at least once. Collective for the coprocessor models; all is applied behind
  /// gravel_barrier_all, as with any launch. Throws gravel::error if the model cannot do this.
  template <class... P, class... A>
  void launch(void (*of_gravel)(gravel_t, P...), void (*of_rivals)(model_handle, P...), const network_work& work,
              A... arguments) {
    if (!is_gravel()) return launch_rival(of_rivals, work, arguments...);
    const gravel_launch_config how{.grid = work.blocks,
                                   .block = work.mapped ? work.mapped_lanes : lanes_of_block,
                                   .shared_bytes = work.shared_bytes};
    uint64_t first = 0;
    do {
      const uint64_t count = std::min(work.items - first, work.most_items(work.blocks));
      if (work.mapped) launch_alone(of_gravel, how, gravel_handle(), arguments..., first, count);
      else gravel_launch(of_gravel, how, gravel_handle(), arguments..., first, count);
      first += count;
    } while (first < work.items);
  }
  template <class... P, class... A>
  void launch_rival(void (*kernel)(model_handle, P...), const network_work& work, A... arguments) {
    const uint64_t room = host_ ? host_->room(work.message_bytes) : 0;
    const uint64_t at_once = host_ ? items_for_queue(work, room) : work.most_items(work.blocks);
    const auto part = [&](uint64_t round, const queue_set& queues) {
      const uint64_t first = round * at_once;
      if (round != 0 && first >= work.items) return;
      const uint64_t count = std::min(work.items - first, at_once);
      gravel_launch_config how{.grid = work.blocks, .block = lanes_of_block, .shared_bytes = lists_at(work)};
      if (gathers()) {
        how.grid = blocks_that_fit(work, count);
        how.shared_bytes += sizeof(block_lists);
      }
      if (host_) how.grid = static_cast<unsigned>(std::min<uint64_t>(how.grid.x, blocks_for_queue(work, room)));
      gravel_launch(kernel, how, handle(work, queues), arguments..., first, count);
    };
    const uint64_t rounds = work.items ? (work.items - 1) / at_once + 1 : 1;
    if (host_) return host_->run(gravel_max_all(rounds), part);
    for (uint64_t round = 0; round < rounds; ++round) part(round, {});
  }

  /// Ends the job if a kernel sent more than it said. Collective.
  void check() const {
    static constexpr const char* texts[] = {
        "", "a block sends more messages than its shared memory holds",
        "a launch sends more messages than a queue holds",
        "an object lies beyond the first 2^32 words of a message's type in the heap",
        "a launch sends messages of several kinds"};
    all_succeed(program_, [&] {
      uint32_t found = 0;
      gravel_copy(&found, misuse_.data(), sizeof(found));
      if (found) fail_text(std::string("the networking model cannot do this: ") + texts[found]);
    });
  }

 private:
  bool is_coprocessor() const {
    return model_ == networking::coprocessor || model_ == networking::coprocessor_buffered;
  }
  uint32_t lists_at(const network_work& work) const { return (work.shared_bytes + 63) / 64 * 64; }

  model_handle handle(const network_work& work, const queue_set& queues) {
    return {gravel_handle(), model_ == networking::message_per_lane, lists_at(work), queues, misuse_.data()};
  }

  const char* program_;
  networking model_;
  device_array<uint32_t> misuse_;
  mapped_rendezvous rendezvous_;
  std::optional<coprocessor> host_;
};

}  // namespace app
