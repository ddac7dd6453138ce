// The bytes of a file, unpacked if they are gzip. All readers of files use it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;  // of zlib

namespace gravel::detail {

/// Returns the bytes of a file, or of memory, in order. Data that begin with gzip's two magic bytes are unpacked: all
/// members in turn; zeros may follow a member; a file of bgzip ends with an empty member. Throws gravel::error, with
/// the offset in the file, for gzip data that are cut off or damaged, and for anything else after a member. For one
/// thread.
class byte_source {
 public:
  /// Opens a regular file. Throws gravel::error if it is missing, not a regular file, or unreadable.
  explicit byte_source(std::string path);
  /// Uses bytes that stay where they are as long as this object exists. `name` stands for a path in errors.
  byte_source(std::string name, std::string_view bytes);
  ~byte_source();
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;

  /// Copies the next bytes, at most `most`, which is above 0. Returns their number: 0 only at the end.
  size_t read(char* to, size_t most);
  /// Starts again at the first byte of the open file.
  void rewind();
  /// Returns the first bytes: 512, or fewer if there are no more.
  std::string_view head() const { return {head_, head_size_}; }
  const std::string& name() const { return name_; }

 private:
  static constexpr size_t chunk = 64 << 10, most_head = 512;

  // Once this constructor has ended, the destructor runs even if a constructor that delegates to it throws.
  struct unopened {};
  byte_source(unopened, std::string name);

  void refill();
  bool begin_member();
  size_t unpack(char* to, size_t most);
  size_t next(char* to, size_t most);
  uint64_t offset() const { return loaded_ - input_.size(); }

  std::string name_;
  int fd_ = -1;
  std::string_view memory_;
  std::unique_ptr<char[]> buffer_;  // bytes of the file
  std::string_view input_;          // bytes that are loaded and not yet used
  uint64_t loaded_ = 0;             // bytes of the file up to the end of input_
  std::unique_ptr<z_stream_s> unpacker_;
  bool packed_ = false, in_member_ = false;
  bool blocks_ = false, ends_empty_ = false;  // the file is from bgzip; the last member was empty
  char head_[most_head];
  size_t head_size_ = 0, head_read_ = 0;
};

/// Throws gravel::error if the source is recognisably in a format that no reader here reads: an archive, another
/// compression, alignments, a web page, text in UTF-16. The message names the format and says what to do.
void refuse_foreign_format(const byte_source& source);

/// Returns a piece of input for an error message: in quotes, shortened, unprintable bytes as \xNN.
std::string quoted(std::string_view text);

}  // namespace gravel::detail
