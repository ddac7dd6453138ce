// Data-parallel training: each PE draws its share of a batch of handwritten digits, and the gradients are summed over
// all PEs layer by layer, by reductions that wait on the device for a layer's gradient and signal when it is summed,
// while kernels go on to the layers before it.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <gravel/allreduce.cuh>
#include <gravel/device_array.hpp>
#include "bench/rivals/train_oracle.hpp"
#include "examples/allreduce/network.cuh"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::device_array;

constexpr const char* program_name = "train";

struct train_options {
  std::vector<uint32_t> hidden{64, 32};
  uint32_t shards = 12, shard = GRAVEL_CUDA ? 32 : 8, steps = GRAVEL_CUDA ? 300 : 60, tests = 200,
           blocks = gravel_reducer_options{}.blocks;
  double rate = 0.15;
  uint64_t seed = 1;
  std::string reduce = "signals", dump, json;
  bool exact = false, no_verify = false;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
};

template <class G>
class trainer {
 public:
  explicit trainer(const train_options& o) : o_(o), reducer_({.blocks = o.blocks}) {
    widths_.push_back(drawn_digit::pixels);
    widths_.insert(widths_.end(), o.hidden.begin(), o.hidden.end());
    widths_.push_back(drawn_digit::digits);
    const auto mine = gravel::detail::word_range::of(o.shards, static_cast<uint64_t>(gravel_my_pe()),
                                                     static_cast<uint64_t>(gravel_n_pes()));
    samples_ = static_cast<uint32_t>(mine.end - mine.begin) * o.shard;
    first_ = mine.begin * o.shard;
    const uint32_t room = std::max(samples_, o.tests);
    signals_ = gravel_malloc<uint64_t>(2 * layers() * sizeof(uint64_t));
    labels_ = device_array<uint32_t>(room);
    judged_ = device_array<float>(2ull * room);
    history_ = device_array<float>(2ull * o.steps);
    for (size_t l = 0; l <= layers(); ++l) {
      values_.emplace_back(uint64_t{room} * widths_[l]);
      deltas_.emplace_back(uint64_t{room} * widths_[l]);
      if (l == layers()) break;
      std::vector<float> start(shape(l).weights());
      for (uint64_t i = 0; i < start.size(); ++i) {
        const auto random = static_cast<float>(static_cast<double>(mix(mix(o.seed + l) + i) >> 11) * 0x1p-52 - 1);
        start[i] = i % (widths_[l] + 1) == widths_[l] ? 0 : random * std::sqrt(6.0f / static_cast<float>(widths_[l]));
      }
      weights_.emplace_back(start);
      gradients_.push_back(gravel_malloc<G>(reduced(l) * sizeof(G)));
    }
    side_ = gravel_stream_create();
  }
  ~trainer() {
    gravel_stream_destroy(side_);
    for (size_t l = layers(); l-- > 0;) gravel_free(gradients_[l]);
    gravel_free(signals_);
  }
  static uint64_t symmetric_bytes(const train_options& o) {
    uint64_t weights = 0;
    uint32_t in = drawn_digit::pixels;
    for (const uint32_t out : o.hidden) {
      weights += layer_shape{in, out}.weights() + 64;
      in = out;
    }
    weights += layer_shape{in, drawn_digit::digits}.weights() + 64;
    return weights * sizeof(int64_t) + gravel_reducer::bytes({.blocks = o.blocks}, 64) + (1 << 20);
  }

  /// Starts the kernels of step `step`, and returns.
  void start_step(uint32_t step) {
    run(draw_digits, uint64_t{samples_} * drawn_digit::pixels, values_[0].data(), labels_.data(), o_.seed,
        uint64_t{step} * batch() + first_, samples_);
    ask();
    run(judge, samples_, values_.back().data(), labels_.data(), deltas_.back().data(), judged_.data(),
        drawn_digit::digits, samples_, 1.0f / static_cast<float>(batch()));
    for (size_t l = layers(); l-- > 0;) {
      const float* const judged = l + 1 == layers() ? judged_.data() : nullptr;
      run(sum_gradient<G>, reduced(l), shape(l), deltas_[l + 1].data(), values_[l].data(), judged, gradients_[l],
          samples_, o_.shard, ready(l));
      // Behind the kernel it waits for: whatever queues the device has, that one comes to run.
      if (o_.reduce == "signals")
        gravel_allreduce_start(reducer_, gradients_[l], gradients_[l], reduced(l),
                               {.stream = side_,
                                .after = ready(l),
                                .value = uint64_t{step + 1} * blocks_of(reduced(l)),
                                .raised_here = true,
                                .done = done(l)});
      if (l)
        run(backward, uint64_t{samples_} * widths_[l], shape(l), weights_[l].data(), deltas_[l + 1].data(),
            values_[l].data(), deltas_[l].data(), samples_);
    }
    for (size_t l = layers(); l-- > 0;) {
      if (o_.reduce == "signals") gravel_launch(await, 1, 1, done(l), uint64_t{step + 1});
      else if (o_.reduce == "behind") gravel_allreduce_start(reducer_, gradients_[l], gradients_[l], reduced(l));
      else sum_by_hosts(l);
      run(change_weights<G>, std::max<uint64_t>(shape(l).weights(), 2), weights_[l].data(), gradients_[l],
          shape(l).weights(), static_cast<float>(o_.rate), l + 1 == layers() ? history_.data() + 2 * step : nullptr);
    }
  }

  /// The largest difference from the serial step's gradient, relative to the largest gradient of the layer. Collective.
  double compare_first_step() {
    std::vector<std::vector<float>> weights;
    for (size_t l = 0; l < layers(); ++l) weights.push_back(read(weights_[l].data(), shape(l).weights()));
    const serial_step serial = step_of(widths_, weights, o_.seed, 0, batch());
    start_step(0);
    gravel_synchronize();
    double worst = std::fabs(read(history_.data(), 1)[0] / batch() - serial.loss) / serial.loss;
    for (size_t l = 0; l < layers(); ++l) {
      double most = 0, difference = 0;
      const std::vector<G> got = read(gradients_[l], shape(l).weights());
      for (size_t i = 0; i < got.size(); ++i) {
        most = std::max(most, std::fabs(serial.gradient[l][i]));
        difference = std::max(difference, std::fabs(value_of(got[i]) - serial.gradient[l][i]));
      }
      worst = std::max(worst, difference / most);
    }
    return worst;
  }
  /// Share of `tests` other digits that are recognized; what each is taken for. Collective.
  double test(std::vector<column>* seen) {
    run(draw_digits, uint64_t{o_.tests} * drawn_digit::pixels, values_[0].data(), labels_.data(), o_.seed,
        uint64_t{1} << 40, o_.tests);
    ask(o_.tests);
    gravel_synchronize();
    const auto labels = read(labels_.data(), o_.tests);
    const auto outputs = read(values_.back().data(), uint64_t{o_.tests} * drawn_digit::digits);
    const auto pictures = read(values_[0].data(), uint64_t{o_.tests} * drawn_digit::pixels);
    *seen = {{"digit", {}}, {"taken_for", {}}};
    for (uint32_t p = 0; p < drawn_digit::pixels; ++p)
      seen->push_back({std::string("p").append(std::to_string(p)), {}});
    uint32_t right = 0;
    for (uint32_t s = 0; s < o_.tests; ++s) {
      const auto begin = outputs.begin() + s * drawn_digit::digits;
      const auto best = static_cast<uint32_t>(std::max_element(begin, begin + drawn_digit::digits) - begin);
      right += best == labels[s];
      if (s >= 20) continue;
      (*seen)[0].values.push_back(labels[s]);
      (*seen)[1].values.push_back(best);
      for (uint32_t p = 0; p < drawn_digit::pixels; ++p)
        (*seen)[2 + p].values.push_back(pictures[s * drawn_digit::pixels + p]);
    }
    return static_cast<double>(right) / o_.tests;
  }
  /// Of all weights, bit by bit.
  uint64_t checksum() {
    uint64_t sum = 0;
    for (size_t l = 0; l < layers(); ++l)
      for (const float w : read(weights_[l].data(), shape(l).weights()))
        sum = mix(sum ^ __builtin_bit_cast(uint32_t, w));
    return sum;
  }
  /// Mean loss and share of digits that were recognized, of each step.
  std::vector<column> history() {
    const auto sums = read(history_.data(), 2ull * o_.steps);
    std::vector<column> columns{{"step", {}}, {"loss", {}}, {"recognized", {}}};
    for (uint32_t s = 0; s < o_.steps; ++s) {
      columns[0].values.push_back(s);
      columns[1].values.push_back(sums[2 * s] / batch());
      columns[2].values.push_back(sums[2 * s + 1] / batch());
    }
    return columns;
  }
  uint64_t weights() const {
    uint64_t all = 0;
    for (size_t l = 0; l < layers(); ++l) all += shape(l).weights();
    return all;
  }
  uint32_t batch() const { return o_.shards * o_.shard; }

 private:
  size_t layers() const { return widths_.size() - 1; }
  layer_shape shape(size_t l) const { return {widths_[l], widths_[l + 1]}; }
  /// Elements of a layer that are reduced: behind the last one's are the loss and the hits.
  uint64_t reduced(size_t l) const { return shape(l).weights() + (l + 1 == layers() ? 2 : 0); }
  uint64_t* ready(size_t l) const { return signals_ + l; }
  uint64_t* done(size_t l) const { return signals_ + layers() + l; }

  static uint32_t blocks_of(uint64_t items) {
    return static_cast<uint32_t>(std::clamp<uint64_t>((items + network_threads - 1) / network_threads, 1, 1024));
  }
  template <class... P, class... A>
  void run(void (*kernel)(P...), uint64_t items, A... arguments) {
    gravel_launch(kernel, blocks_of(items), network_threads, arguments...);
  }
  void ask() { ask(samples_); }
  void ask(uint32_t samples) {
    for (size_t l = 0; l < layers(); ++l)
      run(forward, uint64_t{samples} * widths_[l + 1], shape(l), weights_[l].data(), values_[l].data(),
          values_[l + 1].data(), samples, l + 1 < layers());
  }
  void sum_by_hosts(size_t l) {
    gravel_synchronize();
    gravel_sum_all(gradients_[l], gradients_[l], reduced(l));
  }
  template <class T>
  static std::vector<T> read(const T* from, uint64_t count) {
    std::vector<T> values(count);
    gravel_copy(values.data(), from, count * sizeof(T));
    return values;
  }

  const train_options& o_;
  gravel_reducer reducer_;
  std::vector<uint32_t> widths_;
  uint32_t samples_;   ///< of a batch, at this PE
  uint64_t first_;     ///< of these, in the batch
  uint64_t* signals_;  ///< of each layer: its gradient is ready here; it is summed
  device_array<uint32_t> labels_;
  device_array<float> judged_, history_;
  std::vector<device_array<float>> weights_, values_, deltas_;
  std::vector<G*> gradients_;
  gravel_stream_t side_;
};

template <class G>
bool train(const train_options& o, fact_list& facts) {
  trainer<G> t(o);
  const double difference = o.no_verify ? 0 : t.compare_first_step();
  const uint32_t first = o.no_verify ? 0 : 1;
  gravel_synchronize();
  wait_to_begin_together();
  const double seconds = seconds_of([&] {
    for (uint32_t step = first; step < o.steps; ++step) t.start_step(step);
    gravel_synchronize();
  });
  const double us = seconds * 1e6 / std::max(1u, o.steps - first);
  const uint64_t sum = t.checksum();
  const bool same = gravel_min_all(sum) == gravel_max_all(sum), close = gravel_max_all(difference) < 1e-4;
  std::vector<column> seen;
  const double recognized = t.test(&seen);
  const auto history = t.history();
  const double loss = history[1].values.back();
  const double slowest = gravel_max_all(us);
  all_succeed(program_name, [&] {
    if (gravel_my_pe() != 0) return;
    std::printf(
        "%d PEs, %llu weights, batches of %u digits: %u steps of %.1f us, loss %.4f -> %.4f, %.1f %% of %u other "
        "digits recognized\n",
        gravel_n_pes(), static_cast<unsigned long long>(t.weights()), t.batch(), o.steps, slowest,
        history[1].values.front(), loss, 100 * recognized, o.tests);
    std::printf("weights %016llx, %s; the first gradient is within %.1e of a serial one%s\n",
                static_cast<unsigned long long>(sum), same ? "the same at all PEs" : "NOT THE SAME AT ALL PEs",
                difference, o.no_verify ? " (not compared)" : "");
    if (o.dump.empty()) return;
    write_columns(o.dump + "-steps.csv", history);
    write_columns(o.dump + "-digits.csv", seen);
  });
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"weights", t.weights()},
                             {"batch", uint64_t{t.batch()}},
                             {"steps", uint64_t{o.steps}},
                             {"reduce", o.reduce},
                             {"exact", o.exact},
                             {"us_per_step", slowest},
                             {"loss", loss},
                             {"recognized", recognized},
                             {"difference", difference},
                             {"checksum", sum},
                             {"right", same && close}});
  return same && close;
}

void train_options::add_options(command_line& line) {
  line.add_option("--hidden", hidden, "Widths of the layers between 256 pixels and 10 digits")
      .delimiter(',')
      .capture_default_str();
  line.add_option("--shards", shards, "Parts of a batch, spread over the PEs")
      .range(1u, 100'000u)
      .capture_default_str();
  line.add_option("--shard", shard, "Digits in each").range(1u, 100'000u).capture_default_str();
  line.add_option("--steps", steps, "Batches").range(2u, 1'000'000u).capture_default_str();
  line.add_option("--rate", rate, "Of learning").range(1e-6, 100.0).capture_default_str();
  line.add_option("--tests", tests, "Other digits, to test with").range(20u, 100'000u).capture_default_str();
  line.add_option("--reduce", reduce,
                  "signals: beside the kernels of earlier layers; behind: when all gradients are there; hosts: through "
                  "the hosts")
      .one_of({"signals", "behind", "hosts"})
      .capture_default_str();
  line.add_option("--blocks", blocks, "Most blocks of a reduction").range(1u, 128u).capture_default_str();
  line.add_flag("--exact", exact,
                "Sum gradients as fixed-point numbers: the same weights on any number of PEs, bit for bit");
  line.add_option("--seed", seed, "Of digits and weights").capture_default_str();
  line.add_flag("--no-verify", no_verify, "Do not compare the first gradient with a serial one");
}
void train_options::check() {
  for (const uint32_t width : hidden)
    if (width < 1 || width > 65536) fail_text("--hidden: widths of 1 to 65536");
}
uint64_t train_options::symmetric_bytes() const { return trainer<int64_t>::symmetric_bytes(*this); }

int main(int argc, char** argv) {
  return run_application({program_name, "Trains a network on drawn digits, on all PEs together."}, argc, argv,
                         train_options{}, [](const train_options& o, fact_list& facts) {
                           return o.exact ? train<int64_t>(o, facts) : train<float>(o, facts);
                         });
}
