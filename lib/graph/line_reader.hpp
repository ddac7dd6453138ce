// Lines of a text file, plain or gzip: what the graph readers stand on.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"

namespace gravel {

/// Reads a regular file line by line. Lines end with LF or CRLF, the last one may lack its end. Memory is
/// bounded: a line of more than 1 MiB is an error. Throws gravel::error for a file that is missing, no
/// regular file, unreadable, or a gzip file that is cut off or damaged. For use by one thread.
class line_reader {
 public:
  static constexpr size_t longest_line = 1 << 20;

  explicit line_reader(std::string path);

  /// Gets the next line without its end; false at the end of the file. The view is valid until the next call.
  bool next(std::string_view& line);
  /// Starts again at the first line, of the same open file.
  void rewind();

  const std::string& path() const { return path_; }
  /// Number of the line that next() gave last, from 1.
  uint64_t line_number() const { return line_number_; }

  /// Throws gravel::error: "PATH:LINE: text".
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", path_, line_number_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void fill();

  struct closer {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, closer> file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is read and not yet given out: buffer_[begin_, end_)
  bool at_end_ = false;
  uint64_t line_number_ = 0;
};

/// A piece of input for an error message: in quotes, shortened, unprintable bytes as \xNN.
std::string quoted(std::string_view text);

}  // namespace gravel
