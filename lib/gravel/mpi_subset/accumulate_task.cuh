// The task that an accumulate starts at the target.
//
// Why remote tasks, and not the engine's messages. An accumulate by messages sends an active message of up to 236 bytes
// for each part, whose elements one lane applies. A task receives up to 32 KiB at once, all threads of a block apply
// it, and it raises a signal at the origin when it has ended. So a flush waits for that signal alone. It is also what
// XTQ (SC 2016) measures in its section on accumulates.
#pragma once
#include <gravel/mpi_subset/names.hpp>
#include <gravel/remote_task.cuh>
#include "lib/remote_task/accumulate.cuh"

namespace gravel::detail::mpi_subset {

/// *to = *to combined with `value`, atomically with regard to other accumulates.
template <class T>
GRAVEL_DEVICE void combine_element(T* to, T value, MPI_Op how) {
  if (how == MPI_SUM) accumulate_in_place<GRAVEL_SUM, scope::system>(to, value);
  else if (how == MPI_MIN) accumulate_in_place<GRAVEL_MIN, scope::system>(to, value);
  else if (how == MPI_MAX) accumulate_in_place<GRAVEL_MAX, scope::system>(to, value);
  else put_in_place(to, value);
}
GRAVEL_DEVICE uint32_t combine_characters(uint32_t old, uint32_t value, MPI_Op how) {
  const auto a = static_cast<char>(old), b = static_cast<char>(value);
  if (how == MPI_SUM) return (old + value) & 255;
  if (how == MPI_MIN) return static_cast<uint8_t>(combine<GRAVEL_MIN>(a, b));
  if (how == MPI_MAX) return static_cast<uint8_t>(combine<GRAVEL_MAX>(a, b));
  return value;
}

struct accumulate_elements {
  static constexpr const char* name = "MPI_Accumulate";
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = GRAVEL_CUDA ? 256 : 32};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, char* target, const char* payload, MPI_Datatype type,
                                MPI_Op how) const {
    switch (type) {
      case MPI_CHAR: return of_characters(t, target, payload, how);
      case MPI_INT: return of_type<int32_t>(t, target, payload, how);
      case MPI_LONG: return of_type<int64_t>(t, target, payload, how);
      case MPI_FLOAT: return of_type<float>(t, target, payload, how);
      default: return of_type<double>(t, target, payload, how);
    }
  }

 private:
  template <class T>
  GRAVEL_DEVICE static void of_type(const gravel_task_t& t, char* target, const char* payload, MPI_Op how) {
    T* const to = reinterpret_cast<T*>(target);
    const T* const from = reinterpret_cast<const T*>(payload);
    for (uint64_t i = t.first(); i < t.bytes / sizeof(T); i += t.stride()) combine_element(to + i, from[i], how);
  }
  /// A thread combines the characters of a whole word by one atomic operation. Symmetric objects begin at multiples of
  /// 256 bytes, so the word belongs to no other object.
  GRAVEL_DEVICE static void of_characters(const gravel_task_t& t, char* target, const char* payload, MPI_Op how) {
    const uint64_t before = reinterpret_cast<uint64_t>(target) % sizeof(uint32_t);  // in the first word
    auto* const words = reinterpret_cast<uint32_t*>(target - before);
    for (uint64_t w = t.first(); w * sizeof(uint32_t) < before + t.bytes; w += t.stride()) {
      for (uint32_t seen = load_relaxed<scope::system>(words + w);;) {
        uint32_t wanted = seen;
        for (uint32_t byte = 0; byte < sizeof(uint32_t); ++byte) {
          const uint64_t i = w * sizeof(uint32_t) + byte - before;  // wraps around in front of the first
          if (i >= t.bytes) continue;
          const uint32_t now = combine_characters(seen >> 8 * byte & 255, static_cast<uint8_t>(payload[i]), how);
          wanted = (wanted & ~(255u << 8 * byte)) | now << 8 * byte;
        }
        const uint32_t found = compare_swap_in_place<scope::system>(words + w, seen, wanted);
        if (found == seen) break;
        seen = found;
      }
    }
  }
};

}  // namespace gravel::detail::mpi_subset
