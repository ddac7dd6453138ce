#include "lib/table/row_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t piece_bytes = 8 << 20;  // of one read

uint64_t rows_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/// Consecutive rows of the PE, in one file.
struct piece {
  const rows_in_file* from;
  uint64_t first;  ///< place of the first row at the PE
  uint64_t count;
  uint64_t row;  ///< number of the first row in the file
};

/// The PE's rows: row first + k * stride is at place k.
struct own_rows {
  uint64_t first, stride, count;

  own_rows(const row_dealing& dealing, uint32_t pe) : first(dealing.first(pe)), stride(1), count(dealing.count(pe)) {
    if (count > 1) stride = dealing.row(pe, 1) - first;
  }
  /// Number of the PE's rows below this row.
  uint64_t below(uint64_t row) const { return row <= first ? 0 : std::min(count, rows_up(row - first, stride)); }
};

std::vector<piece> pieces_of(const std::vector<rows_in_file>& files, const own_rows& own, uint64_t row_bytes) {
  std::vector<piece> all;
  // Rows that are far from each other are read alone.
  const uint64_t at_once = std::max<uint64_t>(piece_bytes / row_bytes / own.stride, 1);
  uint64_t begin = 0;  // first row of the file
  for (const rows_in_file& f : files) {
    const uint64_t end = own.below(begin + f.rows);
    for (uint64_t at = own.below(begin); at < end; at += at_once)
      all.push_back({&f, at, std::min(at_once, end - at), own.first + at * own.stride - begin});
    begin += f.rows;
  }
  return all;
}

/// Runs work() in several threads; the first exception of any of them is thrown here, when all have ended.
template <class Work>
void in_threads(unsigned threads, std::atomic<bool>& stop, Work work) {
  std::mutex lock;
  std::exception_ptr failure;
  const auto guarded = [&](bool is_first) {
    try {
      work(is_first);
    } catch (...) {
      stop = true;
      const std::lock_guard held(lock);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (unsigned i = 1; i < threads; ++i) others.emplace_back(guarded, false);
    } catch (const std::system_error&) {  // then fewer threads do all the work
    }
    guarded(true);
  }
  if (failure) std::rethrow_exception(failure);
}

/// Says now and then how far the reading is.
class progress {
 public:
  explicit progress(uint64_t bytes) : bytes_(bytes) {}
  void at(uint64_t done) {
    const auto now = clock::now();
    if (now - said_ < std::chrono::seconds(2)) return;
    said_ = now;
    say(done, now);
  }
  void end() {
    const auto now = clock::now();
    if (now - begin_ >= std::chrono::seconds(2)) say(bytes_, now);
  }

 private:
  using clock = std::chrono::steady_clock;
  void say(uint64_t done, clock::time_point now) const {
    const std::chrono::duration<double> took = now - begin_;
    log_info("gravel::rows::read: {:.0f} % of {} after {:.0f} s, {:.1f} GB/s", 100.0 * double(done) / double(bytes_),
             text_of_bytes(bytes_), took.count(), double(done) / took.count() / 1e9);
  }
  uint64_t bytes_;
  clock::time_point begin_ = clock::now(), said_ = begin_;
};

rows_in_file find_in(const std::string& path, const row_format& format, uint64_t row_bytes) {
  rows_in_file found{open_file(path), 0, 0};
  if (format.tensor.empty()) {
    if (found.file.bytes % row_bytes)
      fail("{}: {} bytes are no whole number of rows of {} bytes", path, found.file.bytes, row_bytes);
    found.rows = found.file.bytes / row_bytes;
    return found;
  }
  const tensor_place t = find_tensor(found.file, format.tensor);
  const std::string where = path + ": tensor '" + format.tensor + "'";
  if (t.shape.size() != 2)
    fail("{} has {} dimensions; a table has two: rows, and elements of a row", where, t.shape.size());
  if (!format.dtype.empty() && t.dtype != format.dtype)
    fail("{} has elements of type {}; {} is wanted", where, t.dtype, format.dtype);
  found.begin = t.begin;
  found.rows = t.shape[0];
  const uint64_t bytes = found.rows ? t.bytes / found.rows : row_bytes;
  if (bytes != row_bytes || t.bytes != found.rows * row_bytes)
    fail("{} has rows of {} elements of type {}, {} bytes; those of the table have {}", where, t.shape[1], t.dtype,
         bytes, row_bytes);
  return found;
}

}  // namespace

std::vector<rows_in_file> find_rows(const std::vector<std::string>& files, const row_format& format, uint64_t count,
                                    uint64_t row_bytes) {
  std::vector<rows_in_file> all;
  uint64_t rows = 0;
  for (const std::string& path : files) {
    all.push_back(find_in(path, format, row_bytes));
    rows += all.back().rows;
  }
  if (rows != count)
    fail("{}{}: {} rows of {} bytes; the table has {}", files.empty() ? "no file" : files[0],
         files.size() > 1 ? fmt::format(" and {} more files", files.size() - 1) : "", rows, row_bytes, count);
  return all;
}

void read_rows(const std::vector<rows_in_file>& files, const row_dealing& dealing, uint32_t pe, uint64_t row_bytes,
               char* local, bool is_of_host, unsigned threads) {
  backend& device = current_backend();
  const own_rows own(dealing, pe);
  const std::vector<piece> pieces = pieces_of(files, own, row_bytes);
  const bool is_straight = is_of_host && own.stride == 1;
  uint64_t most = 0;  // rows of a piece, with those between them
  for (const piece& p : pieces) most = std::max(most, (p.count - 1) * own.stride + 1);
  std::atomic<uint64_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  progress report(own.count * row_bytes);
  const auto useful = static_cast<unsigned>(std::min<uint64_t>(threads, pieces.size()));
  in_threads(useful, stop, [&](bool is_first) {
    pinned_array<char> buffer;
    if (!is_straight && !pieces.empty())
      buffer = pinned_array<char>(device, most * row_bytes, "memory for reading rows");
    for (uint64_t i = next++; i < pieces.size() && !stop; i = next++) {
      const piece& p = pieces[i];
      char* const to = local + p.first * row_bytes;
      char* const read_to = is_straight ? to : buffer.data();
      p.from->file.read(read_to, p.from->begin + p.row * row_bytes, ((p.count - 1) * own.stride + 1) * row_bytes);
      if (own.stride > 1)
        for (uint64_t k = 1; k < p.count; ++k)
          std::memmove(read_to + k * row_bytes, read_to + k * own.stride * row_bytes, row_bytes);
      if (!is_straight) device.copy(to, read_to, p.count * row_bytes);
      done += p.count * row_bytes;
      if (is_first) report.at(done);
    }
  });
  report.end();
}

}  // namespace gravel::detail
