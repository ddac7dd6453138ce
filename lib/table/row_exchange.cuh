// gravel::row_exchange: rows that go to any PEs, as many as the devices find.
#pragma once
#include <algorithm>
#include <bit>
#include <exception>
#include <optional>
#include <string>

#include <gravel/device_array.hpp>
#include "lib/table/exchange_kernels.cuh"

namespace gravel::detail {

/// Sends rows to PEs, all-to-all: each PE has any number of rows for each other one, which only its device knows. The
/// rows that come lie one behind the other in device memory, ordered by PE. The host does not wait.
/// @scope the program's host thread; collective: all PEs make the same calls in the same order
/// @completion on return, unless a call says otherwise
/// @errors gravel::error
/// @source MPI_Alltoallv
class row_exchange {
 public:
  /// Makes an exchange. Collective: all PEs pass the same.
  /// @param row_bytes of each row: a multiple of 4, from 4 to 65536
  /// @param room rows that one PE gets at most in a call
  /// @errors gravel::error on all PEs: another size, PEs that differ, too little memory at one PE
  row_exchange(uint64_t row_bytes, uint64_t room)
      : open_("gravel::row_exchange"), counts_(3 * pes() + 1), runs_(pes()) {
    check_row_bytes("gravel::row_exchange", row_bytes);
    if (differs(row_bytes) || differs(room))
      fail_text("gravel::row_exchange: the PEs pass different sizes; here room for " + std::to_string(room) +
                " rows of " + std::to_string(row_bytes) + " bytes");
    if (room > ~uint64_t{0} / row_bytes / 2)
      fail_text("gravel::row_exchange: " + std::to_string(room) + " rows of " + std::to_string(row_bytes) +
                " bytes are more than any memory has");
    const uint64_t n = pes();
    most_parts_ = std::clamp<uint64_t>((uint64_t{1} << 20) / (n * warps_of_rows), 1, most_row_blocks());
    parts_ = device_array<uint64_t>(n * most_parts_ * warps_of_rows);
    memory_.row_bytes = row_bytes;
    memory_.room = room;
    memory_.counts = counts_.data();
    memory_.counts_to = memory_.counts + n;
    memory_.firsts = memory_.counts_to + n;
    memory_.runs = runs_.data();
    memory_.parts = parts_.data();
    memory_.came = gravel_malloc<uint64_t>((n + n * n) * sizeof(uint64_t));
    memory_.table = memory_.came + n;
    memory_.rows = gravel_malloc<char>(std::max<uint64_t>(room, 1) * row_bytes);
  }
  /// Frees the memory, unless an exception passes. Collective. Waits for messages, as gravel_free does.
  ~row_exchange() noexcept(false) {
    if (std::uncaught_exceptions() != exceptions_) return;
    gravel_free(memory_.rows);
    gravel_free(memory_.came);
  }
  /// @internal
  row_exchange(const row_exchange&) = delete;
  row_exchange& operator=(const row_exchange&) = delete;

  /// Sends each row to a PE. Collective: PEs may pass different numbers of rows, also none. Rows for one PE come in
  /// their order. Another PE may call all_to_all_sorted() instead.
  /// @param rows [n][row_bytes], device memory, aligned to 4 bytes; not the result of this object
  /// @param to [n], device memory, whole numbers of 4 or 8 bytes: the PE to which each row goes
  /// @param n number of rows of this PE
  /// @param stream nullptr: the PE's own stream
  /// @completion in the stream: kernels behind it see rows(), counts() and firsts(), until the next call. The host
  ///   waits for this PE's kernels if the last call was in another stream, or if no call before had so many rows
  /// @errors gravel::error: rows that are not aligned. A PE that does not exist, and more rows than a PE has room for,
  ///   end the job with a message
  template <class Pe>
  void all_to_all(const void* rows, const Pe* to, uint64_t n, gravel_stream_t stream = nullptr) {
    static_assert(std::is_integral_v<Pe> && (sizeof(Pe) == 4 || sizeof(Pe) == 8),
                  "numbers of PEs are whole numbers of 4 or 8 bytes");
    begin(rows, stream);
    if (n * memory_.row_bytes > packed_bytes_) make_packed(n * memory_.row_bytes);
    const uint64_t blocks = std::clamp<uint64_t>((n + row_lanes - 1) / row_lanes, 1, most_parts_);
    const uint64_t warps = blocks * warps_of_rows, part = ((n + warps - 1) / warps + 31) / 32 * 32;
    start(count_rows<Pe>, blocks, stream, gravel_handle(), memory_, to, n, part);
    start(sum_parts<>, pes(), stream, memory_, warps);
    start_rendezvous(exchange_counts<>, stream, gravel_handle(), memory_, memory_.counts_to, 2 * number_);
    const uint64_t alignment = reinterpret_cast<uint64_t>(rows) | memory_.row_bytes;
    if (alignment % 16 == 0) pack<row_unit_16>(rows, to, n, part, blocks, stream);
    else if (alignment % 8 == 0) pack<uint64_t>(rows, to, n, part, blocks, stream);
    else pack<uint32_t>(rows, to, n, part, blocks, stream);
    send(packed_.data(), stream);
  }
  /// Sends rows that are sorted by the PE to which they go. Collective. The host need not know how many there are.
  /// Another PE may call all_to_all() instead.
  /// @param rows [sum of counts][row_bytes], device memory, aligned to 4 bytes; not the result of this object
  /// @param counts [number of PEs], device memory: how many of the rows go to each PE
  /// @param stream nullptr: the PE's own stream
  /// @completion as of all_to_all()
  /// @errors as of all_to_all()
  void all_to_all_sorted(const void* rows, const uint64_t* counts, gravel_stream_t stream = nullptr) {
    begin(rows, stream);
    start_rendezvous(exchange_counts<>, stream, gravel_handle(), memory_, counts, 2 * number_);
    send(static_cast<const char*>(rows), stream);
  }

  /// @return what has come: [firsts()[number of PEs]][row_bytes], device memory, aligned to 256 bytes
  const void* rows() const { return memory_.rows; }
  /// @return how many rows have come from each PE: [number of PEs], device memory
  const uint64_t* counts() const { return memory_.counts; }
  /// @return index of the first row from each PE, and behind them the number of all: [number of PEs + 1], device memory
  const uint64_t* firsts() const { return memory_.firsts; }

 private:
  static uint64_t pes() { return static_cast<uint64_t>(gravel_n_pes()); }
  void begin(const void* rows, gravel_stream_t stream) {
    if (reinterpret_cast<uint64_t>(rows) % 4) fail_text("gravel::row_exchange: the rows are not aligned to 4 bytes");
    if (last_stream_ && *last_stream_ != stream) gravel_synchronize();  // the last stream may be gone
    last_stream_ = stream;
  }
  void make_packed(uint64_t bytes) {
    gravel_synchronize();  // kernels may use the old memory
    packed_ = device_array<char>();
    packed_bytes_ = 0;
    packed_ = device_array<char>(bytes);
    packed_bytes_ = bytes;
  }
  template <class Unit, class Pe>
  void pack(const void* rows, const Pe* to, uint64_t n, uint64_t part, uint64_t blocks, gravel_stream_t stream) {
    const uint64_t units = memory_.row_bytes / sizeof(Unit);
    const auto lanes_of_row = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(units), 32));
    start(pack_rows<Unit, Pe>, blocks, stream, gravel_handle(), memory_, reinterpret_cast<Unit*>(packed_.data()),
          static_cast<const Unit*>(rows), to, n, part, lanes_of_row);
  }
  void send(const char* rows, gravel_stream_t stream) {
    start(send_runs<>, message_row_blocks(), stream, gravel_handle(), memory_, rows);
    start_rendezvous(end_exchange<>, stream, gravel_handle(), memory_.came, 2 * number_ + 1);
    ++number_;
  }
  template <class... P, class... A>
  static void start_rendezvous(void (*kernel)(P...), gravel_stream_t stream, A... arguments) {
    gravel_launch_config how{1, rendezvous_lanes};
    how.stream = stream;
    gravel_launch(kernel, how, arguments...);
  }
  template <class... P, class... A>
  static void start(void (*kernel)(P...), uint64_t blocks, gravel_stream_t stream, A... arguments) {
    gravel_launch_config how{static_cast<unsigned>(blocks), row_lanes};
    how.stream = stream;
    gravel_launch(kernel, how, arguments...);
  }

  open_object open_;
  device_array<uint64_t> counts_, parts_;
  device_array<row_run> runs_;
  device_array<char> packed_;
  uint64_t packed_bytes_ = 0, most_parts_ = 0;
  uint64_t number_ = 1;  ///< of the next exchange
  exchange_memory memory_{};
  std::optional<gravel_stream_t> last_stream_;  ///< whose kernels may be using the memory
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gravel::detail
