#include "host/pe/collectives.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "host/pe/runtime.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// Memory on which the host works: the program's memory, or a copy if that is device memory.
class host_view {
 public:
  host_view(backend& device, const void* at, uint64_t bytes, bool read) : device_(device), at_(const_cast<void*>(at)) {
    if (bytes == 0 || !device.is_device_memory(at)) return;
    copy_.resize(bytes);
    if (read) device.copy(copy_.data(), at, bytes);
  }
  std::byte* data() { return copy_.empty() ? static_cast<std::byte*>(at_) : copy_.data(); }
  void write_back() {
    if (!copy_.empty()) device_.copy(at_, copy_.data(), copy_.size());
  }

 private:
  backend& device_;
  void* at_;
  std::vector<std::byte> copy_;
};

template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
}

template <class T>
bool is_below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) && !std::signbit(b);
  return a < b;
}

template <class T>
T combined(collective_kind kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == collective_kind::minimum || kind == collective_kind::maximum) {
      if (std::isnan(a)) return b;
      if (std::isnan(b)) return a;
    }
  } else {
    if (kind == collective_kind::bit_and) return a & b;
    if (kind == collective_kind::bit_or) return a | b;
    if (kind == collective_kind::bit_xor) return a ^ b;
  }
  if (kind == collective_kind::minimum) return is_below(b, a) ? b : a;
  if (kind == collective_kind::maximum) return is_below(a, b) ? b : a;
  return add(a, b);
}

/// `all`: n values of each PE in order of PE, perhaps not aligned. Combines the values of the PEs [0, end).
template <class T>
void fold(collective_kind kind, std::byte* to, const std::byte* all, uint64_t n, uint32_t end) {
  for (uint64_t i = 0; i < n; ++i) {
    T result{};
    for (uint32_t pe = 0; pe < end; ++pe) {
      T value;
      std::memcpy(&value, all + (pe * n + i) * sizeof(T), sizeof(T));
      result = pe == 0 ? value : combined(kind, result, value);
    }
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

using fold_function = void (*)(collective_kind, std::byte*, const std::byte*, uint64_t, uint32_t);
fold_function fold_of(value_type type) {
  switch (type) {
    case value_type::u32: return fold<uint32_t>;
    case value_type::i32: return fold<int32_t>;
    case value_type::i64: return fold<int64_t>;
    case value_type::f32: return fold<float>;
    case value_type::f64: return fold<double>;
    default: return fold<uint64_t>;
  }
}

/// Calls step(begin, end) for pieces of at most `most` of `count` elements, at least once: even an empty call is
/// compared.
template <class F>
void in_pieces(uint64_t count, uint64_t most, F step) {
  uint64_t done = 0;
  do {
    const uint64_t end = std::min(count, done + most);
    step(done, end);
    done = end;
  } while (done < count);
}

}  // namespace

void broadcast(void* data, uint64_t bytes, int root) {
  runtime& job = waiting_runtime("gravel_broadcast");
  if (static_cast<uint32_t>(root) >= job.nodes().n_pes())
    fail("gravel_broadcast from PE {}: the job has PEs 0 to {}", root, job.nodes().n_pes() - 1);
  const bool sends = static_cast<uint32_t>(root) == job.pe();
  host_view view(job.device(), data, bytes, sends);
  auto call = job.begin_collective(collective_kind::broadcast, bytes, static_cast<uint64_t>(root));
  in_pieces(bytes, call.room(), [&](uint64_t begin, uint64_t end) {
    const auto got = call.exchange(sends ? std::span<const std::byte>(view.data() + begin, end - begin)
                                         : std::span<const std::byte>());
    if (!sends) std::copy(got.begin(), got.end(), view.data() + begin);
  });
  if (!sends) view.write_back();
}

void gather(void* all, const void* mine, uint64_t bytes, collective_kind kind) {
  runtime& job = waiting_runtime("gravel_allgather");
  const uint64_t n_pes = job.nodes().n_pes();
  host_view from(job.device(), mine, bytes, true), to(job.device(), all, n_pes * bytes, false);
  auto call = job.begin_collective(kind, bytes);
  in_pieces(bytes, call.room() / n_pes, [&](uint64_t begin, uint64_t end) {
    const auto got = call.exchange({from.data() + begin, end - begin});
    for (uint64_t pe = 0; pe < n_pes; ++pe) {
      const auto part = got.subspan(pe * (end - begin), end - begin);
      std::copy(part.begin(), part.end(), to.data() + pe * bytes + begin);
    }
  });
  to.write_back();
}

void reduce(collective_kind kind, value_type type, void* to, const void* from, uint64_t count) {
  runtime& job = waiting_runtime(name_of(kind));
  const uint32_t n_pes = job.nodes().n_pes();
  const uint64_t size = bytes_of(type);
  uint32_t end_pe = n_pes;
  if (kind == collective_kind::exclusive_scan) end_pe = job.pe();
  else if (kind == collective_kind::inclusive_scan) end_pe = job.pe() + 1;
  host_view source(job.device(), from, count * size, true), result(job.device(), to, count * size, false);
  auto call = job.begin_collective(kind, count, static_cast<uint64_t>(type));
  in_pieces(count, call.room() / n_pes / size, [&](uint64_t begin, uint64_t end) {
    const auto all = call.exchange({source.data() + begin * size, (end - begin) * size});
    fold_of(type)(kind, result.data() + begin * size, all.data(), end - begin, end_pe);
  });
  result.write_back();
}

}  // namespace gravel::detail
