#include "lib/graph/line_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace gravel::detail {
namespace {
constexpr size_t chunk = 64 << 10;  // at least so many bytes are read at once
}

line_reader::line_reader(byte_source& source, size_t longest) : source_(source), longest_(longest) {
  refuse_foreign_format(source);
  constexpr size_t none = std::string_view::npos;
  const std::string_view head = source.head();
  if (const size_t zero = head.find('\0'); zero != none)
    fail("{}: byte {} is 0: these are binary data or text in UTF-16, expected text in UTF-8", path(), zero);
  if (const size_t cr = head.find('\r'); cr != none && cr + 1 < head.size() && head.find('\n') == none)
    fail("{}:1: lines end with CR alone: write the file with LF (tr '\\r' '\\n')", path());
  start();
}

bool line_reader::next(std::string_view& line) {
  for (;;) {
    const char* const begin = buffer_.get() + begin_;
    const char* const found =
        searched_ < end_ ? static_cast<const char*>(std::memchr(buffer_.get() + searched_, '\n', end_ - searched_))
                         : nullptr;
    searched_ = end_;
    if (!found && !at_end_) {
      fill();
      continue;
    }
    size_t length = found ? static_cast<size_t>(found - begin) : end_ - begin_;
    if (!found && length == 0) return false;
    ++line_number_;
    begin_ += found ? length + 1 : length;
    searched_ = begin_;
    if (length > longest_) fail_here("the line is longer than {} bytes; is this a text file?", longest_);
    if (length && begin[length - 1] == '\r') --length;
    line = {begin, length};
    return true;
  }
}

void line_reader::fill() {
  if (end_ - begin_ > longest_)
    fail_at(line_number_ + 1, "the line is longer than {} bytes; is this a text file?", longest_);
  make_room();
  const size_t got = source_.read(buffer_.get() + end_, capacity_ - end_);
  end_ += got;
  at_end_ = got == 0;
}

/// Makes room for a chunk after end_. Bytes that next() has not returned move to the front, or to a buffer twice as
/// large.
void line_reader::make_room() {
  if (capacity_ - end_ >= chunk) return;
  const size_t size = end_ - begin_;
  if (size + chunk <= capacity_) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, size);
  } else {
    const size_t larger = std::max(2 * chunk, 2 * size + chunk);
    try {
      auto fresh = std::make_unique_for_overwrite<char[]>(larger);
      if (size) std::memcpy(fresh.get(), buffer_.get() + begin_, size);
      buffer_ = std::move(fresh);
    } catch (const std::bad_alloc&) {
      fail_at(line_number_ + 1, "there is no memory for a line of more than {} bytes", size);
    }
    capacity_ = larger;
  }
  begin_ = 0;
  end_ = searched_ = size;
}

void line_reader::rewind() {
  source_.rewind();
  start();
}

void line_reader::start() {
  begin_ = searched_ = end_ = 0;
  at_end_ = false;
  line_number_ = 0;
  constexpr std::string_view mark = "\xef\xbb\xbf";
  char skipped[mark.size()];
  for (size_t n = source_.head().starts_with(mark) ? mark.size() : 0; n > 0;) n -= source_.read(skipped, n);
}

}  // namespace gravel::detail
