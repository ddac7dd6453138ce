#include "lib/graph/line_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace gravel {
namespace {
constexpr size_t chunk = 256 << 10;
}

line_reader::line_reader(std::string path) : path_(std::move(path)), buffer_(longest_line + chunk) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang; it has no effect on regular files.
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_errno("cannot open " + path_);
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    fail("{} is not a regular file: every PE reads it by itself, so a pipe or a directory will not do", path_);
  }
  file_.reset(gzdopen(fd, "rb"));
  if (!file_) {
    close(fd);
    fail("cannot read {}: out of memory", path_);
  }
  gzbuffer(file_.get(), chunk);
}

bool line_reader::next(std::string_view& line) {
  for (;;) {
    const char* begin = buffer_.data() + begin_;
    const size_t size = end_ - begin_;
    const char* line_end = size ? static_cast<const char*>(std::memchr(begin, '\n', size)) : nullptr;
    if (!line_end && !at_end_) {
      fill();
      continue;
    }
    if (!line_end && size == 0) return false;
    ++line_number_;
    size_t length = line_end ? static_cast<size_t>(line_end - begin) : size;
    begin_ += line_end ? length + 1 : length;
    if (length > longest_line) fail_here("the line is longer than {} bytes; is this a text file?", longest_line);
    if (length && begin[length - 1] == '\r') --length;
    line = {begin, length};
    return true;
  }
}

void line_reader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ > longest_line) {
    ++line_number_;
    fail_here("the line is longer than {} bytes; is this a text file?", longest_line);
  }
  const int got = gzread(file_.get(), buffer_.data() + end_, chunk);
  if (got > 0) {
    end_ += static_cast<size_t>(got);
    return;
  }
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  // zlib gives out all it can decompress before it reports that the end is missing, here and not earlier.
  if (code == Z_BUF_ERROR) fail("{}: the gzip data are cut off after line {}; fetch or write the file again", path_, line_number_);
  if (code == Z_ERRNO) fail_errno("cannot read " + path_);
  if (got < 0 || code != Z_OK)
    fail("{}: the gzip data are damaged after line {} ({}); fetch or write the file again", path_, line_number_, text);
  at_end_ = true;
}

void line_reader::rewind() {
  if (gzrewind(file_.get()) != 0) fail("cannot read {} a second time", path_);
  begin_ = end_ = 0;
  at_end_ = false;
  line_number_ = 0;
}

std::string quoted(std::string_view text) {
  constexpr size_t most = 60;
  std::string out = "'";
  for (const char c : text.substr(0, most)) {
    if (c >= ' ' && c <= '~') out += c;
    else if (c == '\t') out += "\\t";
    else out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > most ? "...'" : "'");
}

}  // namespace gravel
