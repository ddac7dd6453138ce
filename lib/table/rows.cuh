// gravel::rows: a table of rows that are spread over all PEs, with bulk calls on streams.
#pragma once
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <gravel/device_array.hpp>
#include "host/launch_alone.cuh"
#include "lib/base/place.hpp"
#include "lib/table/launch_gather.cuh"
#include "lib/table/row_file.hpp"
#include "lib/table/row_kernels.cuh"
#include "lib/table/row_requests.cuh"

namespace gravel::detail {

/// A table of rows, dealt to all PEs in blocks or one by one. A row has any multiple of 4 bytes, up to 64 KiB. Rows are
/// zeroed at first. They lie in the memory of the PEs' GPUs, or in memory of the host near each GPU, which is larger.
/// @scope the program's host thread
/// @completion on return
/// @errors gravel::error
/// @source PyTorch: torch.nn.Embedding
class rows {
 public:
  /// Makes a table. Collective: all PEs pass the same.
  /// @param count number of rows, of all PEs together
  /// @param row_bytes of each row: a multiple of 4, from 4 to 65536
  /// @param how gravel::dealt::blocks: PE p has the p-th block of rows; gravel::dealt::cyclic: row r is at PE r mod n,
  ///   so that all PEs are asked alike even if low numbers are used most
  /// @param where gravel::place::device, or gravel::place::host: pinned memory of the host near each GPU. Then updates
  ///   of other PEs go through their rings, as the GPUs' atomic operations on it are atomic for one GPU only
  /// @completion on return: all PEs may use it
  /// @errors gravel::error on all PEs: another size, PEs that differ, too little memory at one PE
  rows(uint64_t count, uint64_t row_bytes, dealt how = dealt::blocks, place where = place::device)
      : open_("gravel::rows"),
        view_{row_dealing(count, static_cast<uint32_t>(gravel_n_pes()), how), row_bytes, nullptr, where} {
    check_row_bytes("gravel::rows", row_bytes);
    if (differs(count) || differs(row_bytes))
      fail_text("gravel::rows: the PEs pass different sizes; here " + std::to_string(count) + " rows of " +
                std::to_string(row_bytes) + " bytes");
    if (differs(static_cast<uint64_t>(how)))
      fail_text("gravel::rows: some PEs pass dealt::blocks, others dealt::cyclic");
    if (differs(static_cast<uint64_t>(where)))
      fail_text("gravel::rows: some PEs pass place::device, others place::host");
    if (view_.dealing.room() > ~uint64_t{0} / row_bytes / 2)
      fail_text("gravel::rows: " + std::to_string(count) + " rows of " + std::to_string(row_bytes) +
                " bytes are more than any memory has");
    view_.own = static_cast<char*>(allocate_symmetric(view_.dealing.room() * row_bytes, where));
    mapped_ = all_are_mapped();
    if (mapped_) return;
    staging_.rows = gravel_malloc<char>(most_staged() * row_bytes);
    places_ = device_array<uint32_t>(most_staged());
    staging_.places = places_.data();
  }
  /// Frees the table, unless an exception passes. Collective. Waits for messages, as gravel_free does.
  ~rows() noexcept(false) {
    if (std::uncaught_exceptions() != exceptions_) return;
    if (staging_.rows) gravel_free(staging_.rows);
    gravel_free(view_.own);
  }
  /// @internal
  rows(const rows&) = delete;
  rows& operator=(const rows&) = delete;

  /// @return number of rows, of all PEs together
  uint64_t count() const { return view_.dealing.rows(); }
  /// @return bytes of a row
  uint64_t row_bytes() const { return view_.row_bytes; }
  /// @return where the rows lie
  place where() const { return view_.where; }
  /// @return this PE's rows: local_count() rows, one behind the other, in device memory, or in memory of the host,
  ///   which host threads of this PE may use, too
  void* local() const { return view_.own; }
  /// @return number of this PE's first row; count() if it has none. In blocks, the others follow it
  uint64_t local_first() const { return view_.dealing.first(static_cast<uint32_t>(gravel_my_pe())); }
  /// @return number of this PE's rows
  uint64_t local_count() const { return view_.dealing.count(static_cast<uint32_t>(gravel_my_pe())); }
  /// @param place below local_count()
  /// @return number of the row that is at this place of local()
  uint64_t local_row(uint64_t place) const { return view_.row(gravel_my_pe(), place); }
  /// @return whether all PEs have each other's rows mapped
  bool is_mapped() const { return mapped_; }
  /// @return what kernels use; pass it by value
  const rows_view& view() const { return view_; }

  /// Fills the table from files, which have its rows one behind the other: all of the first file, then those of the
  /// next one. Each PE reads its own rows, by several threads; GRAVEL_LOG=info says how far it is. Collective. Neither
  /// kernels nor messages may use the table meanwhile.
  /// @param files paths that this PE can open
  /// @param format names a tensor of files of safetensors, with shape [rows][elements]; nothing: the files are rows
  ///   alone
  /// @scope the program's host thread
  /// @completion on return: all PEs may use the rows
  /// @errors gravel::error on all PEs: a file that is missing, damaged, or not like the table (then no row has
  ///   changed); a file that cannot be read to its end (then some rows may have)
  /// @source safetensors: safe_open, get_slice
  void read(const std::vector<std::string>& files, const row_format& format = {}) {
    std::vector<rows_in_file> found;
    agree_to_read(text_of_error([&] { found = find_rows(files, format, count(), row_bytes()); }));
    gravel_synchronize();
    const bool is_of_host = view_.where == place::host || !is_device_memory(local());
    const unsigned local_pes = static_cast<unsigned>((gravel_n_pes() + gravel_n_nodes() - 1) / gravel_n_nodes());
    const unsigned threads = std::clamp(std::thread::hardware_concurrency() / local_pes, 1u, most_reading_threads);
    agree_to_read(text_of_error([&] {
      read_rows(found, view_.dealing, static_cast<uint32_t>(gravel_my_pe()), row_bytes(), view_.own, is_of_host,
                threads);
    }));
  }
  /// Fills the table from a file, as from several.
  /// @param file path that this PE can open
  /// @param format names a tensor of a file of safetensors; nothing: the file is rows alone
  void read(const std::string& file, const row_format& format = {}) { read(std::vector<std::string>{file}, format); }

  /// Reads rows: row i of the result is row ids[i] of the table. Not collective. Nothing may write to these rows
  /// meanwhile.
  /// @param out [n][row_bytes], device memory, aligned to 4 bytes; larger alignments are faster
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes, below count(); repeated ones too
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread, one at a time
  /// @completion in the stream: kernels behind it see the rows. If the table is not mapped, and the last gather was in
  ///   another stream, the host waits for this PE's kernels first, since both gathers use the same staging memory
  /// @errors a row that does not exist ends the job with a message
  template <class Id>
  void gather(void* out, const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    gather_through(no_row_cache(), out, ids, n, stream);
  }

  // Common to the updates below: row ids[i] is updated by values[i], element by element. Ids are whole numbers of 4 or
  // 8 bytes. An id may occur several times. Elements are updated in any order, each atomically. T is the type of the
  // elements, one that the operation takes (gravel_put, gravel_add and so on), or one of 16 bits: gravel_half,
  // gravel_bfloat16, CUDA's __half and __nv_bfloat16. row_bytes() is a multiple of its size. Each addition to an
  // element of 16 bits is rounded to the nearest, ties to even. All updates of them but scatter() need the handler
  // gravel::pair_updates. Not collective.

  /// Writes rows. Of several rows with one id, each element is that of one of them.
  /// @param ids [n], device memory
  /// @param values [n][row_bytes() / sizeof(T)], device memory; elements of 16 bits: aligned to 4 bytes
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids and values: in the stream. The rows: gravel_quiet or gravel_barrier_all
  /// @errors a row that does not exist ends the job with a message
  template <class T, class Id>
  void scatter(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    update<row_update::put>("scatter", ids, values, n, stream);
  }
  /// Adds to rows. If few words of rows get most of the values, blocks add these up before they send them; elements of
  /// 16 bits in float, and what a block has added up is rounded once. Sums of floating-point numbers differ in their
  /// last bits from run to run.
  /// @param ids [n], device memory
  /// @param values [n][row_bytes() / sizeof(T)], device memory; elements of 16 bits: aligned to 4 bytes
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids and values: in the stream. The sums: gravel_quiet or gravel_barrier_all
  /// @errors gravel::error: a T that does not fit the rows, no handler for it. A row that does not exist ends the job
  ///   with a message
  template <class T, class Id>
  void scatter_add(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    update<row_update::add>("scatter_add", ids, values, n, stream);
  }
  /// Replaces elements by the smaller of themselves and the values.
  /// @param ids [n], device memory
  /// @param values [n][row_bytes() / sizeof(T)], device memory; elements of 16 bits: aligned to 4 bytes
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids and values: in the stream. The minima: gravel_quiet or gravel_barrier_all
  /// @errors gravel::error: a T that does not fit the rows, no handler for it. A row that does not exist ends the job
  ///   with a message
  template <class T, class Id>
  void scatter_min(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    update<row_update::min>("scatter_min", ids, values, n, stream);
  }
  /// Replaces elements by the larger of themselves and the values.
  /// @param ids [n], device memory
  /// @param values [n][row_bytes() / sizeof(T)], device memory; elements of 16 bits: aligned to 4 bytes
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids and values: in the stream. The maxima: gravel_quiet or gravel_barrier_all
  /// @errors gravel::error: a T that does not fit the rows, no handler for it. A row that does not exist ends the job
  ///   with a message
  template <class T, class Id>
  void scatter_max(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    update<row_update::max>("scatter_max", ids, values, n, stream);
  }
  /// Counts ids: adds 1 to all elements of row ids[i]. A table of one element a row is a histogram.
  /// @tparam T uint32_t or uint64_t, type of the elements
  /// @param ids [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion ids: in the stream. The counts: gravel_quiet or gravel_barrier_all
  /// @errors a row that does not exist ends the job with a message
  template <class T = uint64_t, class Id>
  void histogram(const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    update<row_update::count>("histogram", ids, static_cast<const T*>(nullptr), n, stream);
  }

 private:
  static constexpr unsigned most_reading_threads = 16;
  /// A step of read(). Throws gravel::error on all PEs if one PE cannot. `why`: why not; empty: it can.
  static void agree_to_read(const std::string& why) {
    const uint64_t failed = gravel_sum_all(uint64_t{!why.empty()});
    if (!why.empty()) fail_text("gravel::rows::read: " + why);
    if (failed) fail_text("gravel::rows::read: " + std::to_string(failed) + " of the other PEs cannot read their rows");
  }
  template <row_update HOW, class T, class Id>
  void update(const char* call, const Id* ids, const T* values, uint64_t n, gravel_stream_t stream) {
    using number_type = plain<T>;
    using word = update_unit<number_type>;
    check_id<Id>();
    const auto refuse = [call](const std::string& why) {
      fail_text(std::string("gravel::rows::") + call + ": " + why);
    };
    if (row_bytes() % sizeof(T))
      refuse("a row of " + std::to_string(row_bytes()) + " bytes does not consist of elements of " +
             std::to_string(sizeof(T)));
    if constexpr (is_of_16_bits<number_type>) {
      if (reinterpret_cast<uint64_t>(values) % sizeof(word)) refuse("values of 16 bits are not aligned to 4 bytes");
      if (HOW != row_update::put && !gravel_handle().handlers.may_hold(handler_id<pair_updates>::value))
        refuse("elements of 16 bits need a handler: pass gravel::pair_updates to gravel_init");
    }
    if (n == 0) return;
    const uint64_t units = row_bytes() / sizeof(word);
    const uint64_t blocks = std::min((n * units + row_lanes - 1) / row_lanes, most_row_blocks());
    gravel_launch_config how{static_cast<unsigned>(blocks), row_lanes};
    how.stream = stream;
    const divisor by_units(std::max<uint64_t>(units, 2));
    const auto* const words = reinterpret_cast<const word*>(values);
    gravel_t handle = gravel_handle();
    if constexpr (may_be_direct<HOW, number_type>)
      if (mapped_ && view_.where == place::device && row_bytes() >= direct_row_bytes)
        return launch_alone(update_rows<HOW, number_type, mapped_sender, Id>, how, handle, view_, by_units, words, ids,
                            n, 0u);
    // Atomic operations on memory of the host are atomic for one GPU only: so all of them are the owner's.
    if (view_.where == place::host) handle.peers_directly = false;
    uint32_t hot_slots = 0;
    if constexpr (is_absorbed<HOW, number_type>) {
      using absorber = hot_absorber<sizeof(uint64_t), absorbed_sum<number_type>>;
      hot_slots = absorber::slots_for(n * units / blocks);
      how.shared_bytes = absorber::bytes_for(hot_slots);
    }
    gravel_launch(update_rows<HOW, number_type, gravel_block_sender<row_lanes>, Id>, how, handle, view_, by_units,
                  words, ids, n, hot_slots);
  }
  template <class Id>
  static void check_id() {
    static_assert(std::is_integral_v<Id> && (sizeof(Id) == 4 || sizeof(Id) == 8),
                  "ids of rows are whole numbers of 4 or 8 bytes");
  }
  friend class row_cache;
  template <class Cache, class Id>
  void gather_through(const Cache& cache, void* out, const Id* ids, uint64_t n, gravel_stream_t stream) {
    check_id<Id>();
    if (n == 0) return;
    if (reinterpret_cast<uint64_t>(out) % 4) fail_text("gravel::rows::gather: the result is not aligned to 4 bytes");
    if (mapped_) return launch_gather(view_, cache, out, ids, n, 0, stream);
    if (last_stream_ && *last_stream_ != stream) gravel_synchronize();  // the last stream may be gone
    last_stream_ = stream;
    staged_rows held{{}, staging_};
    if constexpr (std::is_same_v<Cache, row_cache_view>) held.cache = cache;
    for (uint64_t done = 0; done < n; done += most_staged()) {
      const uint64_t now = std::min(n - done, most_staged());
      const uint64_t blocks = std::min((now + requested_ids - 1) / requested_ids, message_row_blocks());
      gravel_launch_config how{static_cast<unsigned>(blocks), row_lanes};
      how.stream = stream;
      gravel_launch(request_rows<Id>, how, gravel_handle(), view_, held.cache, staging_, ids + done, now);
      launch_gather_by<uint32_t>(view_, held, static_cast<char*>(out) + done * row_bytes(), ids + done, now, done,
                                 stream);
    }
  }
  /// The rows for which there is staging memory: many, as each chunk of a gather waits for its last answer.
  uint64_t most_staged() const {
    const uint64_t bytes = current_backend().multiprocessors() ? uint64_t{1} << 26 : uint64_t{1} << 20;
    return std::min(bytes / row_bytes(), std::max<uint64_t>(count(), requested_ids));
  }

  open_object open_;
  rows_view view_;
  bool mapped_ = false;
  row_staging staging_{};  ///< unless all rows are mapped
  device_array<uint32_t> places_;
  std::optional<gravel_stream_t> last_stream_;  ///< whose kernels may be using the staging memory
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gravel::detail
