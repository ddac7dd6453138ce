#include "lib/graph/byte_source.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel::detail {

byte_source::byte_source(unopened, std::string name) : name_(std::move(name)) {}

byte_source::byte_source(std::string path) : byte_source(unopened{}, std::move(path)) {
  // O_NONBLOCK: opening a pipe that has no writer must not hang. It has no effect on regular files.
  fd_ = open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail_errno("cannot open " + name_);
  struct stat status;
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))
    fail("{} is not a regular file: every PE reads it by itself, so a pipe or a directory will not do", name_);
  buffer_ = std::make_unique_for_overwrite<char[]>(chunk);
  rewind();
}

byte_source::byte_source(std::string name, std::string_view bytes) : byte_source(unopened{}, std::move(name)) {
  memory_ = bytes;
  rewind();
}

byte_source::~byte_source() {
  if (unpacker_) inflateEnd(unpacker_.get());
  if (fd_ >= 0) close(fd_);
}

void byte_source::rewind() {
  loaded_ = 0;
  input_ = {};
  packed_ = false;
  head_size_ = head_read_ = 0;
  refill();
  packed_ = input_.starts_with("\x1f\x8b");
  if (packed_ && !unpacker_) {
    auto fresh = std::make_unique<z_stream_s>();
    constexpr int gzip_window = 15 + 16;  // 32 KiB, with gzip's header and checksums
    if (inflateInit2(fresh.get(), gzip_window) != Z_OK) fail("cannot unpack {}: out of memory", name_);
    unpacker_ = std::move(fresh);
  }
  // bgzip marks each member by a part BC of 2 bytes in its extra field, and the end of the file by an empty member.
  constexpr char has_extra_field = 4;
  constexpr std::string_view mark("BC\2\0", 4);
  blocks_ = packed_ && input_.size() > 16 && (input_[3] & has_extra_field) && input_.substr(12, mark.size()) == mark;
  in_member_ = packed_;
  if (packed_) inflateReset(unpacker_.get());
  while (head_size_ < most_head) {
    const size_t got = next(head_ + head_size_, most_head - head_size_);
    if (got == 0) break;
    head_size_ += got;
  }
}

size_t byte_source::read(char* to, size_t most) {
  if (head_read_ == head_size_) return next(to, most);
  const size_t n = std::min(most, head_size_ - head_read_);
  std::memcpy(to, head_ + head_read_, n);
  head_read_ += n;
  return n;
}

/// Loads more when all of input_ is used. At the end of the file input_ stays empty.
void byte_source::refill() {
  if (!input_.empty()) return;
  if (fd_ < 0) {
    input_ = memory_.substr(loaded_);
    loaded_ += input_.size();
    return;
  }
  size_t size = 0;
  while (size < chunk) {
    const ssize_t got = pread(fd_, buffer_.get() + size, chunk - size, static_cast<off_t>(loaded_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot read " + name_);
    if (got == 0) break;
    size += static_cast<size_t>(got);
    loaded_ += static_cast<uint64_t>(got);
  }
  input_ = {buffer_.get(), size};
}

size_t byte_source::next(char* to, size_t most) {
  if (packed_) return unpack(to, most);
  refill();
  const size_t n = std::min(most, input_.size());
  if (n) std::memcpy(to, input_.data(), n);
  input_.remove_prefix(n);
  return n;
}

/// Begins the next member after a member has ended. Returns false at the end of the file.
bool byte_source::begin_member() {
  for (refill(); !input_.empty(); refill()) {
    const size_t zeros = std::min(input_.find_first_not_of('\0'), input_.size());
    input_.remove_prefix(zeros);
    if (input_.empty()) continue;
    if (input_[0] != '\x1f')
      fail(
          "{}: expected the end of the file or another gzip member at byte {}, found {}; fetch or write the file again",
          name_, offset(), quoted(input_));
    inflateReset(unpacker_.get());
    return in_member_ = true;
  }
  return false;
}

size_t byte_source::unpack(char* to, size_t most) {
  z_stream_s& z = *unpacker_;
  constexpr size_t most_at_once = 1 << 30;  // zlib counts in 32 bits
  const size_t room = std::min(most, most_at_once);
  z.next_out = reinterpret_cast<Bytef*>(to);
  z.avail_out = static_cast<uInt>(room);
  while (in_member_ || begin_member()) {
    refill();
    const size_t given = std::min(input_.size(), most_at_once);
    z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input_.data()));  // zlib only reads it
    z.avail_in = static_cast<uInt>(given);
    const int code = inflate(&z, Z_NO_FLUSH);
    input_.remove_prefix(given - z.avail_in);
    // All that can be unpacked is returned before the missing end is reported.
    if (code == Z_BUF_ERROR)
      fail("{}: the gzip data are cut off at byte {}; fetch or write the file again", name_, offset());
    if (code == Z_MEM_ERROR) fail("cannot unpack {}: out of memory", name_);
    if (code != Z_OK && code != Z_STREAM_END)
      fail("{}: the gzip data are damaged at byte {} ({}); fetch or write the file again", name_, offset(),
           z.msg ? z.msg : zError(code));
    if (code == Z_STREAM_END) {
      in_member_ = false;
      ends_empty_ = z.total_out == 0;
    }
    if (z.avail_out < room) return room - z.avail_out;
  }
  if (blocks_ && !ends_empty_)
    fail("{}: the file of bgzip ends at byte {} without the empty block that ends each; fetch or write the file again",
         name_, offset());
  return 0;
}

void refuse_foreign_format(const byte_source& source) {
  using namespace std::string_view_literals;
  struct format {
    size_t at;
    std::string_view magic;
    const char* what;
  };
  static constexpr format formats[] = {
      {0, "\x1f\x8b"sv, "gzip data within gzip data: unpack them once (gunzip)"},
      {0, "PK\x03\x04"sv, "a zip archive: unpack it (unzip)"},
      {4, "1AY&SY"sv, "bzip2 data: unpack them (bunzip2)"},
      {0,
       "\xfd"
       "7zXZ\0"sv,
       "xz data: unpack them (unxz)"},
      {0, "\x28\xb5\x2f\xfd"sv, "zstd data: unpack them (unzstd)"},
      {0, "\x04\x22\x4d\x18"sv, "lz4 data: unpack them (unlz4)"},
      {0, "\x1f\x9d"sv, "data of compress: unpack them (gunzip)"},
      {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive: unpack it (7z x)"},
      {257, "ustar"sv, "a tar archive: unpack it (tar xf) and name a file from it"},
      {0, "BAM\x01"sv, "alignments in BAM: write the reads as FASTQ (samtools fastq)"},
      {0, "CRAM"sv, "alignments in CRAM: write the reads as FASTQ (samtools fastq)"},
      {0, "@HD\t"sv, "alignments in SAM: write the reads as FASTQ (samtools fastq)"},
      {0, "@SQ\t"sv, "alignments in SAM: write the reads as FASTQ (samtools fastq)"},
      {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file: write the data as text"},
      {0, "MATLAB 5.0"sv, "a MATLAB file: write the matrix as Matrix Market (mmwrite)"},
      {0, "\x93NUMPY"sv, "a NumPy array: write it as text (numpy.savetxt, scipy.io.mmwrite)"},
      {0, "%PDF-"sv, "a PDF document"},
      {0, "\xff\xfe"sv, "text in UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)"},
      {0, "\xfe\xff"sv, "text in UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)"},
      {0, "version https://git-lfs"sv, "a pointer of Git LFS: fetch the file itself (git lfs pull)"},
  };
  const std::string_view head = source.head();
  for (const format& f : formats)
    if (head.size() >= f.at && head.substr(f.at).starts_with(f.magic)) fail("{} is {}", source.name(), f.what);
  std::string begin(head.substr(std::min(head.find_first_not_of(" \t\r\n"), head.size())).substr(0, 16));
  std::transform(begin.begin(), begin.end(), begin.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (begin.starts_with("<!doctype") || begin.starts_with("<html"))
    fail("{} is a web page (HTML): was it fetched from the right address?", source.name());
  if (begin.starts_with("<?xml"))
    fail("{} is an XML document: write the graph as an edge list or Matrix Market", source.name());
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

}  // namespace gravel::detail
