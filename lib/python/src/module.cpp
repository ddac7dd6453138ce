// The Python module of one backend, `gravel._cpu` or `gravel._cuda`. It passes addresses and numbers: the package's
// Python code has checked the arguments, and keeps the arrays. All calls that wait release the GIL.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gravel/gravel.hpp>

#include "graph.hpp"
#include "job.hpp"
#include "map.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace gravel::python;

namespace {

using released = nb::call_guard<nb::gil_scoped_release>;
/// Any contiguous array in host memory.
using bytes_read = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using bytes_written = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// Arrays of the program that lie in the symmetric heap.
std::atomic<uint64_t> all_views{0};

/// A distributed array, as the Python class `Array` holds it.
class array_memory {
 public:
  array_memory(uint32_t type, uint64_t n, uint64_t block, uint64_t width, bool on_host)
      : memory_{nullptr, static_cast<element>(type), n, block, width, on_host} {
    const auto where = on_host ? gravel::detail::place::host : gravel::detail::place::device;
    memory_.local = gravel::detail::allocate_symmetric(block * width * bytes_of(memory_.type), where);
  }
  const distributed& memory() const { return memory_; }
  uint64_t views() const { return views_->load(); }
  void release() { gravel_free(std::exchange(memory_.local, nullptr)); }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_.local); }

  /// An object that counts as a view of this PE's part as long as it lives. It may outlive this object.
  nb::capsule lease() {
    auto* const counter = new std::shared_ptr<std::atomic<uint64_t>>(views_);
    ++**counter;
    ++all_views;
    return nb::capsule(counter, [](void* p) noexcept {
      auto* const ended = static_cast<std::shared_ptr<std::atomic<uint64_t>>*>(p);
      --**ended;
      --all_views;
      delete ended;
    });
  }
  /// On the CPU backend: a NumPy array of one dimension, with the first `count` elements of this PE's part.
  nb::object view(uint64_t count) {
    const size_t shape[] = {count};
    return nb::cast(nb::ndarray<nb::numpy>(memory_.local, 1, shape, lease(), nullptr, dtype_of(memory_.type)));
  }
  /// Fills the first elements of this PE's part from memory of the host or of the device.
  void write(uint64_t from, uint64_t bytes) { copy(memory_.local, reinterpret_cast<void*>(from), bytes); }

 private:
  static nb::dlpack::dtype dtype_of(element type) {
    switch (type) {
      case element::i4: return nb::dtype<int32_t>();
      case element::u4: return nb::dtype<uint32_t>();
      case element::i8: return nb::dtype<int64_t>();
      case element::u8: return nb::dtype<uint64_t>();
      case element::f4: return nb::dtype<float>();
      case element::f8: return nb::dtype<double>();
      default: return nb::dtype<uint16_t>();  // NumPy has no bfloat16; the package says what the bits are
    }
  }

  distributed memory_;
  std::shared_ptr<std::atomic<uint64_t>> views_ = std::make_shared<std::atomic<uint64_t>>(0);
};

/// An array that a call reads or writes: an address in the memory of the device as an int, or an object with a buffer
/// in memory of the host, which this holds meanwhile. Construct and destroy it with the GIL.
class place {
 public:
  explicit place(nb::handle array) {
    if (nb::isinstance<nb::int_>(array)) {
      memory_ = {reinterpret_cast<void*>(nb::cast<uint64_t>(array)), true};
    } else {
      if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
      memory_ = {buffer_.buf, false};
    }
  }
  ~place() {
    if (!memory_.on_device) PyBuffer_Release(&buffer_);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  operator memory() const { return memory_; }

 private:
  Py_buffer buffer_{};
  memory memory_{};
};

uint64_t check(nb::handle index, uint64_t count, uint32_t type, uint64_t n, uint64_t stream) {
  const place numbers(index);
  const nb::gil_scoped_release release;
  return first_outside({numbers, static_cast<element>(type), count}, n, {stream});
}
void scatter_values(uint32_t what, const array_memory& array, nb::handle index, uint64_t count, uint32_t type,
                    nb::handle values, bool one_value, uint64_t stream) {
  const place numbers(index), operands(values);
  const nb::gil_scoped_release release;
  scatter(static_cast<operation>(what), array.memory(), {numbers, static_cast<element>(type), count}, operands,
          one_value, {stream});
}
void gather_values(const array_memory& array, nb::handle index, uint64_t count, uint32_t type, nb::handle to,
                   uint64_t stream) {
  const place numbers(index), result(to);
  const nb::gil_scoped_release release;
  gather(array.memory(), {numbers, static_cast<element>(type), count}, result, {stream});
}

void step(uint32_t kind, const array_memory& rows, const array_memory& gradients, const array_memory& marks,
          const array_memory* moments, const array_memory* squares, double learning_rate, double eps, double beta1,
          double beta2, uint64_t number) {
  const auto of = [](const array_memory* array) { return array ? &array->memory() : nullptr; };
  step_rows({rows.memory(), gradients.memory(), marks.memory(), of(moments), of(squares)},
            {kind, learning_rate, eps, beta1, beta2, number});
}

/// A distributed hash map, as the Python class `Map` holds it.
class map_memory {
 public:
  map_memory(uint64_t key_bytes, uint32_t value, uint64_t width, uint64_t capacity, bool grow)
      : map_(make_map(key_bytes, {static_cast<element>(value), width}, capacity, grow)) {}
  void update(uint32_t what, nb::handle keys, nb::handle values, uint64_t n, bool collective, uint64_t stream) {
    const place k(keys), v(values);
    const nb::gil_scoped_release release;
    map_->update(static_cast<map_call>(what), k, v, n, collective, {stream});
  }
  void find(nb::handle values, nb::handle found, nb::handle keys, uint64_t n, bool collective, uint64_t stream) {
    const place v(values), f(found), k(keys);
    const nb::gil_scoped_release release;
    map_->find(v, f, k, n, collective, {stream});
  }
  uint64_t copy_local(nb::handle keys, nb::handle values, uint64_t room) {
    const place k(keys), v(values);
    const nb::gil_scoped_release release;
    return map_->copy_local(k, v, room);
  }
  void count_kmers(nb::handle codes, uint64_t size, uint32_t k) {
    const place c(codes);
    const nb::gil_scoped_release release;
    map_->count_kmers(c, size, k);
  }
  uint64_t local_size() { return map_->local_size(); }
  uint64_t size() { return map_->size(); }
  uint64_t capacity() const { return map_->capacity(); }
  void clear() { map_->clear(); }
  void reserve(uint64_t capacity) { map_->reserve(capacity); }
  void close() { close_map(map_); }

 private:
  std::shared_ptr<hash_map> map_;
};

/// A library that gr.Kernels has compiled. It stays loaded until the process ends: its handlers may run until then.
class loaded_kernels {
 public:
  explicit loaded_kernels(const std::string& path) {
    void* const file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!file)
      gravel::detail::fail_text(std::string("gravel.Kernels: the compiled library cannot be loaded: ") + dlerror());
    library_ = static_cast<const kernel_library*>(dlsym(file, "gravel_kernels"));
    if (!library_) gravel::detail::fail_text("gravel.Kernels: " + path + " is no library of gravel.Kernels");
    if (std::string(library_->version) != gravel_version())
      gravel::detail::fail_text("gravel.Kernels: the library was compiled with the headers of Gravel " +
                                std::string(library_->version) + ", and this process runs " + gravel_version());
  }
  const kernel_library* library() const { return library_; }
  /// (name, parameters) of all kernels, in their order.
  nb::list kernels() const {
    nb::list all;
    for (uint32_t i = 0; i < library_->n_kernels; ++i) {
      const kernel_entry& kernel = library_->kernels[i];
      nb::list parameters;
      for (uint32_t k = 0; k < kernel.n; ++k) parameters.append(described(kernel.parameters[k]));
      all.append(nb::make_tuple(kernel.name, parameters));
    }
    return all;
  }
  /// (name, whether it runs on the host, its context or None) of all handlers, in their order.
  nb::list handlers() const {
    nb::list all;
    for (uint32_t i = 0; i < library_->n_handlers; ++i) {
      const handler_entry& handler = library_->handlers[i];
      const nb::object context = handler.has_context ? nb::object(described(handler.context)) : nb::none();
      all.append(nb::make_tuple(handler.name, handler.is_on_host, context));
    }
    return all;
  }
  void load() const { library_->load(); }
  void launch(uint32_t kernel, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, uint64_t shared_bytes,
              uint64_t stream, bool is_cooperative, const nb::bytes& values) const {
    const launch_shape shape{
        {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, stream, is_cooperative};
    const char* const at = values.c_str();
    const nb::gil_scoped_release release;
    library_->kernels[kernel].launch(shape, at);
  }
  void set_context(uint32_t handler, uint64_t address) const {
    library_->handlers[handler].set_context(reinterpret_cast<void*>(address));
  }

 private:
  static nb::tuple described(const kernel_parameter& p) {
    return nb::make_tuple(static_cast<uint32_t>(p.type.kind), p.type.bytes, static_cast<uint32_t>(p.pointee.kind),
                          p.pointee.bytes, p.is_const);
  }

  const kernel_library* library_;
};
const kernel_library* library_of(const loaded_kernels* kernels) { return kernels ? kernels->library() : nullptr; }

template <class T>
using values_read = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A distributed graph, as the Python class `Graph` holds it.
class graph_memory {
 public:
  graph_memory(uint64_t vertices, uint64_t block, const values_read<uint64_t>& offsets,
               const values_read<uint32_t>& targets, const values_read<float>& weights, bool is_weighted,
               const values_read<uint32_t>& ghosts, const values_read<uint64_t>& ghost_numbers,
               const values_read<uint32_t>& order, uint32_t shift) {
    const graph_arrays arrays{.vertices = vertices,
                              .block = block,
                              .own = order.size(),
                              .edges = targets.size(),
                              .n_ghosts = ghosts.size(),
                              .offsets = offsets.data(),
                              .targets = targets.data(),
                              .weights = is_weighted ? weights.data() : nullptr,
                              .ghosts = ghosts.data(),
                              .ghost_numbers = ghost_numbers.data(),
                              .order = order.data(),
                              .shift = shift};
    const nb::gil_scoped_release release;
    graph_ = make_graph(arrays);
  }
  void search(int owner, uint64_t vertex, nb::handle levels, nb::handle parents) {
    const place l(levels), p(parents);
    const nb::gil_scoped_release release;
    graph_->search(owner, vertex, l, p);
  }
  void find_paths(int owner, uint64_t vertex, nb::handle distances) {
    const place d(distances);
    const nb::gil_scoped_release release;
    graph_->find_paths(owner, vertex, d);
  }
  void rank(double damping, double tolerance, nb::handle ranks) {
    const place r(ranks);
    const nb::gil_scoped_release release;
    graph_->rank(damping, tolerance, r);
  }
  uint64_t find_components(nb::handle labels) {
    const place l(labels);
    const nb::gil_scoped_release release;
    return graph_->find_components(l);
  }
  void close() { close_graph(graph_); }

 private:
  std::shared_ptr<divided_graph> graph_;
};

std::vector<uint64_t> count_pes(nb::handle to, uint64_t count, uint32_t type, uint64_t stream) {
  const place numbers(to);
  const nb::gil_scoped_release release;
  return count_by_pe({numbers, static_cast<element>(type), count}, {stream});
}
void exchange(nb::handle rows, nb::handle to, uint64_t count, uint32_t type, uint64_t row_bytes, uint64_t room,
              nb::handle result, uint64_t received, uint64_t stream) {
  const place r(rows), numbers(to), come(result);
  const nb::gil_scoped_release release;
  exchange_rows(r, {numbers, static_cast<element>(type), count}, row_bytes, room, come, received, {stream});
}
void copy_bytes(uint64_t to, uint64_t from, uint64_t bytes) {
  copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
}
void reduce_values(uint32_t how, uint32_t type, const bytes_written& to, const bytes_read& from) {
  void* const result = to.data();
  const void* const mine = from.data();
  const uint64_t count = from.size();
  const nb::gil_scoped_release release;
  reduce(static_cast<reduction>(how), static_cast<element>(type), result, mine, count);
}
void broadcast_bytes(const bytes_written& data, int root) {
  char* const at = static_cast<char*>(data.data());
  const uint64_t bytes = data.nbytes();
  const nb::gil_scoped_release release;
  gravel_broadcast(at, bytes, root);
}
void gather_bytes(const bytes_written& all, const bytes_read& mine) {
  char* const to = static_cast<char*>(all.data());
  const char* const from = static_cast<const char*>(mine.data());
  const uint64_t bytes = mine.nbytes();
  const nb::gil_scoped_release release;
  gravel_allgather(to, from, bytes);
}

/// Joins the job of a group. `allgather`: a function from this PE's bytes to a list of those of all PEs; the package
/// has checked what it returns.
void start_group(int pe, int n_pes, const nb::callable& allgather, const loaded_kernels* kernels) {
  gravel_process_group group{
      pe, n_pes, [&allgather](const void* mine, uint64_t bytes, void* all) {
        const nb::gil_scoped_acquire acquire;
        try {
          char* to = static_cast<char*>(all);
          for (nb::handle part : nb::list(allgather(nb::bytes(mine, bytes)))) {
            std::memcpy(to, nb::cast<nb::bytes>(part).c_str(), bytes);
            to += bytes;
          }
        } catch (const nb::python_error& e) {  // not its what(), which is a traceback
          throw std::runtime_error(nb::str("{}: {}").format(e.type().attr("__name__"), e.value()).c_str());
        }
      }};
  const nb::gil_scoped_release release;
  start(std::move(group), library_of(kernels));
}

/// Joins the job of a unique id.
void start_by_id(const std::string& id, int pe, int n_pes, const loaded_kernels* kernels) {
  gravel_unique_id_t given{};
  id.copy(given.text, sizeof(given.text) - 1);
  const nb::gil_scoped_release release;
  const gravel_process_group group = gravel::detail::group_of(given, pe, n_pes);
  start(gravel_process_group{pe, n_pes, std::ref(group.allgather)}, library_of(kernels));
}

/// Path of the libgravel of this process.
std::string library() {
  Dl_info found{};
  if (!dladdr(reinterpret_cast<const void*>(&gravel_pool_malloc), &found) || !found.dli_fname)
    gravel::detail::fail("gravel.mem_pool: the file of libgravel is not known");
  return found.dli_fname;
}

std::vector<std::pair<std::string, uint64_t>> counters() {
  std::vector<std::pair<std::string, uint64_t>> all;
  for (const auto& counter : gravel::detail::read_counters()) all.emplace_back(counter.name, counter.value);
  return all;
}

}  // namespace

NB_MODULE(GRAVEL_PYTHON_MODULE, m) {
  nb::set_leak_warnings(false);  // arrays may live until the process ends: autograd of PyTorch keeps some
  // The modules of all backends raise the same class.
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const gravel::detail::error& e) {
          PyErr_SetString(static_cast<PyObject*>(type), e.what());
        }
      },
      nb::module_::import_("gravel._error").attr("Error").inc_ref().ptr());

  m.def(
      "start", [](const loaded_kernels* kernels) { start(std::nullopt, library_of(kernels)); }, "kernels"_a.none(),
      released());
  m.def("start_by_id", &start_by_id, "id"_a, "pe"_a, "n_pes"_a, "kernels"_a.none());
  m.def("start_group", &start_group, "pe"_a, "n_pes"_a, "allgather"_a, "kernels"_a.none());
  m.def("finish", &finish, "keep_heap"_a, released());
  m.def("my_pe", [] { return gravel_my_pe(); });
  m.def("n_pes", [] { return gravel_n_pes(); });
  m.def("n_nodes", [] { return gravel_n_nodes(); });
  m.def(
      "node_of", [](int pe) { return gravel_node_of(pe); }, "pe"_a);
  m.def("backend", [] { return gravel_backend(); });
  m.def("version", [] { return gravel_version(); });
  m.def("library", &library);
  m.def("heap_bytes", [] { return gravel_handle().heap_bytes; });
  m.def("handle", [] {
    const gravel_t g = gravel_handle();
    return nb::bytes(&g, sizeof g);
  });
  m.def(
      "barrier", [] { gravel_barrier_all(); }, released());
  m.def(
      "quiet", [] { gravel_quiet(); }, released());
  m.def(
      "wait_quiescent", [] { gravel_wait_quiescent(); }, released());
  m.def(
      "abort", [](const std::string& text, int status) { gravel_abort(text.c_str(), status); }, "text"_a, "status"_a);
  m.def("views", [] { return all_views.load(); });
  m.def("counters", &counters);

  nb::class_<array_memory>(m, "ArrayMemory")
      .def(nb::init<uint32_t, uint64_t, uint64_t, uint64_t, bool>(), "dtype"_a, "n"_a, "block"_a, "width"_a,
           "on_host"_a, released())
      .def("address", &array_memory::address)
      .def("lease", &array_memory::lease)
      .def("view", &array_memory::view, "count"_a)
      .def("write", &array_memory::write, "source"_a, "bytes"_a, released())
      .def("views", &array_memory::views)
      .def("release", &array_memory::release, released());

  nb::class_<map_memory>(m, "MapMemory")
      .def(nb::init<uint64_t, uint32_t, uint64_t, uint64_t, bool>(), "key_bytes"_a, "value"_a, "width"_a, "capacity"_a,
           "grow"_a, released())
      .def("update", &map_memory::update, "what"_a, "keys"_a, "values"_a, "n"_a, "collective"_a, "stream"_a)
      .def("find", &map_memory::find, "values"_a, "found"_a, "keys"_a, "n"_a, "collective"_a, "stream"_a)
      .def("copy_local", &map_memory::copy_local, "keys"_a, "values"_a, "room"_a)
      .def("local_size", &map_memory::local_size, released())
      .def("size", &map_memory::size, released())
      .def("capacity", &map_memory::capacity)
      .def("count_kmers", &map_memory::count_kmers, "codes"_a, "size"_a, "k"_a)
      .def("clear", &map_memory::clear, released())
      .def("reserve", &map_memory::reserve, "capacity"_a, released())
      .def("close", &map_memory::close, released());

  nb::class_<loaded_kernels>(m, "LoadedKernels")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("kernels", &loaded_kernels::kernels)
      .def("handlers", &loaded_kernels::handlers)
      .def("load", &loaded_kernels::load, released())
      .def("launch", &loaded_kernels::launch, "kernel"_a, "grid"_a, "block"_a, "shared_bytes"_a, "stream"_a,
           "is_cooperative"_a, "values"_a)
      .def("set_context", &loaded_kernels::set_context, "handler"_a, "address"_a);
  nb::class_<graph_memory>(m, "GraphMemory")
      .def(nb::init<uint64_t, uint64_t, const values_read<uint64_t>&, const values_read<uint32_t>&,
                    const values_read<float>&, bool, const values_read<uint32_t>&, const values_read<uint64_t>&,
                    const values_read<uint32_t>&, uint32_t>(),
           "vertices"_a, "block"_a, "offsets"_a, "targets"_a, "weights"_a, "is_weighted"_a, "ghosts"_a,
           "ghost_numbers"_a, "order"_a, "shift"_a)
      .def("search", &graph_memory::search, "owner"_a, "place"_a, "levels"_a, "parents"_a)
      .def("find_paths", &graph_memory::find_paths, "owner"_a, "place"_a, "distances"_a)
      .def("rank", &graph_memory::rank, "damping"_a, "tolerance"_a, "ranks"_a)
      .def("find_components", &graph_memory::find_components, "labels"_a)
      .def("close", &graph_memory::close, released());

  m.def("device", &device);
  m.def("copy", &copy_bytes, "to"_a, "source"_a, "bytes"_a, released());
  m.def("check", &check, "index"_a, "count"_a, "dtype"_a, "n"_a, "stream"_a);
  m.def("scatter", &scatter_values, "operation"_a, "array"_a, "index"_a, "count"_a, "dtype"_a, "values"_a,
        "one_value"_a, "stream"_a);
  m.def("gather", &gather_values, "array"_a, "index"_a, "count"_a, "dtype"_a, "to"_a, "stream"_a);
  m.def("step", &step, "kind"_a, "rows"_a, "gradients"_a, "marks"_a, "moments"_a.none(), "squares"_a.none(),
        "learning_rate"_a, "eps"_a, "beta1"_a, "beta2"_a, "number"_a, released());
  m.def("count_by_pe", &count_pes, "to"_a, "count"_a, "dtype"_a, "stream"_a);
  m.def("exchange", &exchange, "rows"_a, "to"_a, "count"_a, "dtype"_a, "row_bytes"_a, "room"_a, "result"_a,
        "received"_a, "stream"_a);
  m.def("reduce", &reduce_values, "reduction"_a, "dtype"_a, "to"_a.noconvert(), "source"_a);
  m.def("broadcast", &broadcast_bytes, "data"_a.noconvert(), "root"_a);
  m.def("allgather", &gather_bytes, "to"_a.noconvert(), "mine"_a);
}
