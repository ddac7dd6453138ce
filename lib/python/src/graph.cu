// The calls of graph.hpp: Gravel's algorithms, and kernels that put their results into the order of the program.
#include "graph.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gravel/algorithms.cuh>
#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>

namespace gravel::python {
namespace {

using detail::launch_for;

/// to[order[v]] = value(v), for all own vertices.
template <class T, class Value>
__global__ void put_in_order(const uint32_t* order, uint64_t own, Value value, T* to) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < own; v += uint64_t{gridDim.x} * blockDim.x)
    to[order[v]] = value(static_cast<uint32_t>(v));
}

struct level_at {
  const uint32_t* words;
  GRAVEL_DEVICE int32_t operator()(uint32_t v) const {
    const uint32_t level = breadth_first_search::level_of(words[v]);
    return level == breadth_first_search::unreached ? -1 : static_cast<int32_t>(level);
  }
};
struct parent_at {
  level_at levels;
  const uint32_t *parents, *order;
  const uint64_t* ghost_numbers;
  uint64_t own, first;  ///< vertices of this PE, and the number of its first
  GRAVEL_DEVICE int64_t operator()(uint32_t v) const {
    if (levels(v) == 0) return static_cast<int64_t>(first + order[v]);
    const uint32_t parent = parents[v];
    if (parent == breadth_first_search::no_parent) return -1;
    return static_cast<int64_t>(parent < own ? first + order[parent] : ghost_numbers[parent - own]);
  }
};
struct distance_at {
  const uint32_t* words;
  GRAVEL_DEVICE float operator()(uint32_t v) const { return shortest_paths::distance_of(words[v]); }
};
struct rank_at {
  const double* ranks;
  double scale;
  GRAVEL_DEVICE double operator()(uint32_t v) const { return ranks[v] * scale; }
};
struct label_at {
  const uint64_t* labels;
  GRAVEL_DEVICE int64_t operator()(uint32_t v) const { return static_cast<int64_t>(labels[v]); }
};
/// For each own vertex, where its component's name lies among all names, and its own number.
template <int = 0>
__global__ void number_names(const uint32_t* names, const uint32_t* order, uint64_t own, vertex_code codes,
                             uint64_t block, uint64_t first, uint64_t* index, uint64_t* numbers) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < own; v += uint64_t{gridDim.x} * blockDim.x) {
    index[v] = static_cast<uint64_t>(codes.owner(names[v])) * block + codes.place(names[v]);
    numbers[v] = first + order[v];
  }
}

/// The algorithm that was used last, with the graph that it belongs to: at most one of each kind is open. It is never
/// destroyed, as open_graphs() is not.
template <class Algorithm>
struct kept_algorithm {
  const void* graph = nullptr;
  std::optional<Algorithm> algorithm;

  static kept_algorithm& here() {
    static auto* const kept = new kept_algorithm;
    return *kept;
  }
  void forget(const void* of) {
    if (graph == of) algorithm.reset();
  }
};

template <class T>
device_array<T> copied(const T* from, uint64_t count) {
  device_array<T> made(count);
  if (count) gravel_copy(made.data(), from, count * sizeof(T));
  return made;
}

class graph_on_device final : public divided_graph {
 public:
  explicit graph_on_device(const graph_arrays& a) : vertices_(a.vertices), block_(a.block), edges_(a.edges) {
    std::string wrong;
    try {
      offsets_ = copied(a.offsets, a.own + 1);
      targets_ = copied(a.targets, a.edges);
      if (a.weights) weights_ = copied(a.weights, a.edges);
      ghosts_ = copied(a.ghosts, a.n_ghosts);
      ghost_numbers_ = copied(a.ghost_numbers, a.n_ghosts);
      order_ = copied(a.order, a.own);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      detail::fail_text("graph: " + (wrong.empty() ? std::string("another PE has too little memory") : wrong));
    graph_ = {offsets_.data(), targets_.data(), ghosts_.data(), {a.shift}, a.own, a.n_ghosts};
  }

  void search(int owner, uint64_t place, memory levels, memory parents) override {
    auto& search = algorithm<breadth_first_search>();
    search.run(owner, place);
    const level_at level{search.vertex_words()};
    deliver<int32_t>(level, levels);
    deliver<int64_t>(
        parent_at{level, search.parents(), order_.data(), ghost_numbers_.data(), graph_.own, first_vertex()}, parents);
  }
  void find_paths(int owner, uint64_t place, memory distances) override {
    auto& paths = algorithm<shortest_paths>(static_cast<const float*>(weights_.data()));
    paths.run(owner, place);
    deliver<float>(distance_at{paths.vertex_words()}, distances);
  }
  void rank(double damping, double tolerance, memory ranks) override {
    page_rank work(graph_, edges_, {.damping = damping, .tolerance = tolerance});
    work.run();
    std::vector<double> found(graph_.own);
    if (!found.empty()) copy_behind_kernels(found.data(), work.ranks(), found.size() * sizeof(double));
    double sum = 0;
    for (const double one : found) sum += one;
    deliver<double>(rank_at{work.ranks(), 1 / gravel_sum_all(sum)}, ranks);
  }
  uint64_t find_components(memory labels) override {
    const uint32_t* const names_here = name_components();
    // Each component's least vertex, where the vertex lies whose code is its name.
    device_array<uint64_t> index(graph_.own), numbers(graph_.own);
    auto* const least = gravel_malloc<uint64_t>(block_ * sizeof(uint64_t));
    launch_for(block_, detail::fill_words<uint64_t>, least, block_, ~uint64_t{0});
    launch_for(graph_.own, number_names<>, names_here, static_cast<const uint32_t*>(order_.data()), graph_.own,
               graph_.codes, block_, first_vertex(), index.data(), numbers.data());
    gravel_synchronize();
    gravel_barrier_all();
    const distributed all{least, element::u8, vertices_, block_, 1, false};
    const index_list names{{index.data(), true}, element::u8, graph_.own};
    scatter(operation::min, all, names, {numbers.data(), true}, false, {});
    gravel_barrier_all();
    gather(all, names, {numbers.data(), true}, {});
    deliver<int64_t>(label_at{numbers.data()}, labels);
    std::vector<uint64_t> found(block_);
    gravel_copy(found.data(), least, block_ * sizeof(uint64_t));
    uint64_t count = 0;
    for (const uint64_t one : found) count += one != ~uint64_t{0};
    count = gravel_sum_all(count);  // behind it no PE reads
    gravel_free(least);
    return count;
  }
  void close() override {
    kept_algorithm<breadth_first_search>::here().forget(this);
    kept_algorithm<shortest_paths>::here().forget(this);
    kept_algorithm<connected_components>::here().forget(this);
    kept_algorithm<gravel_components>::here().forget(this);
    for (auto* words : {&targets_, &ghosts_, &order_}) words->release();
    for (auto* numbers : {&offsets_, &ghost_numbers_}) numbers->release();
    weights_.release();
  }

 private:
  uint64_t first_vertex() const { return static_cast<uint64_t>(gravel_my_pe()) * block_; }

  /// Names of own vertices' components: by one kernel, where job, heap and graph suit it.
  const uint32_t* name_components() {
    const bool has_room =
        gravel_components::symmetric_bytes(block_, gravel_n_pes(), false) <= gravel_handle().heap_bytes / 4;
    if (has_room) {
      auto& kernel = algorithm<gravel_components>();
      if (kernel.fits()) {
        kernel.run();
        return kernel.names();
      }
    }
    auto& components = algorithm<connected_components>();
    components.run();
    return components.names();
  }
  template <class Algorithm, class... A>
  Algorithm& algorithm(A... arguments) {
    auto& kept = kept_algorithm<Algorithm>::here();
    if (kept.graph == this && kept.algorithm) return *kept.algorithm;
    kept.algorithm.reset();
    kept.algorithm.emplace(graph_, edges_, arguments...);
    kept.graph = this;
    return *kept.algorithm;
  }
  /// Writes a value of each own vertex to an array of the program.
  template <class T, class Value>
  void deliver(const Value& value, memory to) {
    const bool is_far = GRAVEL_CUDA && !to.on_device;
    device_array<T> here(is_far ? graph_.own : 0);
    launch_for(graph_.own, put_in_order<T, Value>, static_cast<const uint32_t*>(order_.data()), graph_.own, value,
               is_far ? here.data() : static_cast<T*>(to.at));
    gravel_synchronize();
    if (is_far && graph_.own) gravel_copy(to.at, here.data(), graph_.own * sizeof(T));
  }

  uint64_t vertices_, block_, edges_;
  device_array<uint64_t> offsets_, ghost_numbers_;
  device_array<uint32_t> targets_, ghosts_, order_;
  device_array<float> weights_;
  worklist_graph graph_{};
};

/// Graphs that are open. Collective calls change it, so it has the same order at all PEs. It is never destroyed, as
/// open_maps() in map.cu is not.
std::vector<std::shared_ptr<divided_graph>>& open_graphs() {
  static auto* const all = new std::vector<std::shared_ptr<divided_graph>>;
  return *all;
}

}  // namespace

std::shared_ptr<divided_graph> make_graph(const graph_arrays& arrays) {
  auto made = std::make_shared<graph_on_device>(arrays);
  open_graphs().push_back(made);
  return made;
}
void close_graph(const std::shared_ptr<divided_graph>& graph) {
  std::erase(open_graphs(), graph);
  graph->close();
}
void close_graphs() {
  for (const auto& graph : std::exchange(open_graphs(), {})) graph->close();
}

}  // namespace gravel::python
