// Lines of text, plain or gzip. The readers of graphs and of reads use it.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/graph/byte_source.hpp"

namespace gravel::detail {

/// Reads a source line by line. Lines end with LF or CRLF; the last one may lack its end. A UTF-8 mark before the first
/// line is skipped. Memory: the longest line, up to a limit. Throws gravel::error for a longer line, for data that are
/// recognisably no text, and what byte_source throws. For one thread.
class line_reader {
 public:
  static constexpr size_t longest_line = size_t{4} << 30;

  /// The source belongs to the caller. `longest`: the most bytes of a line.
  explicit line_reader(byte_source& source, size_t longest = longest_line);

  /// Gets the next line without its end. Returns false at the end of the file. The view is valid until the next call.
  bool next(std::string_view& line);
  /// Starts again at the first line of the open file.
  void rewind();

  const std::string& path() const { return source_.name(); }
  /// Returns the number of the line that next() returned last, from 1.
  uint64_t line_number() const { return line_number_; }

  /// Throws gravel::error: "PATH:LINE: text".
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(line_number_, format, std::forward<Args>(args)...);
  }
  /// Throws gravel::error for another line.
  template <class... Args>
  [[noreturn]] void fail_at(uint64_t line, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", path(), line, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void start();
  void fill();
  void make_room();

  byte_source& source_;
  size_t longest_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0, end_ = 0;  // bytes that are read and not yet returned: buffer_[begin_, end_)
  size_t searched_ = 0;         // no line in them ends before this
  bool at_end_ = false;
  uint64_t line_number_ = 0;
};

}  // namespace gravel::detail
