// The Python module `gravel._reads`: k-mers of files. It is a module of its own, as it needs libgravel_graph, which
// other parts of the package do not.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <gravel/gravel.hpp>
#include <gravel/reads.hpp>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// Returns the k-mers of the reads, each in its canonical form, one for each place.
std::vector<uint64_t> kmers_of(const gravel::read_set& reads, unsigned k) {
  const gravel::kmer_shape shape{k};
  std::vector<uint64_t> found;
  found.reserve(reads.kmers(k));
  uint64_t word = 0, reverse = 0;
  unsigned length = 0;
  for (const uint8_t code : reads.codes) {
    if (code == gravel::no_base) {
      length = 0;
      continue;
    }
    word = shape.append(word, code);
    reverse = shape.append_reverse(reverse, code);
    if (++length >= k) found.push_back(std::min(word, reverse));
  }
  return found;
}

/// The k-mers of every `of`-th record of a file, beginning with record `number`, as an array of NumPy.
nb::object read_kmers(const std::string& path, unsigned k, uint64_t number, uint64_t of) {
  auto found = std::make_unique<std::vector<uint64_t>>();
  {
    const nb::gil_scoped_release release;
    *found = kmers_of(gravel::read_reads(path, {number, of}), k);
  }
  const size_t shape[] = {found->size()};
  void* const at = found->data();
  const nb::capsule owner(found.release(), [](void* p) noexcept { delete static_cast<std::vector<uint64_t>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, uint64_t>(at, 1, shape, owner));
}

}  // namespace

NB_MODULE(_reads, m) {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const gravel::error& e) {
          PyErr_SetString(static_cast<PyObject*>(type), e.what());
        }
      },
      nb::module_::import_("gravel._error").attr("Error").inc_ref().ptr());
  m.attr("longest_kmer") = gravel::longest_kmer;
  m.def("read_kmers", &read_kmers, "path"_a, "k"_a, "number"_a, "of"_a);
}
