// What programs write: files that are either whole or as they were before, and standard output of which nothing is lost
// without a word.
#pragma once
#include <string>
#include <string_view>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// A file that appears under its name when it is complete. Until then the text goes to a temporary file beside it, so a
/// failure (a full disk, a limit, the end of the process) leaves the old file as it was. A symbolic link stays one:
/// what it names is replaced. Where no file can be made or renamed beside it (a device, a pipe, a directory that may
/// not be written), the text goes straight into the file. Errors are gravel::error with the file and the reason. For
/// use by one thread.
class output_file {
 public:
  explicit output_file(std::string path);
  /// Without finish() before: removes the temporary file.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(std::string_view text);
  /// All is written: the file gets its name. To be called once, behind the last write().
  void finish();

 private:
  void begin_in_place(int how);
  void write_out(std::string_view text);
  [[noreturn]] void fail_here(int code) const;

  std::string path_, target_;  ///< as the caller names it, and behind symbolic links
  std::string temporary_;      ///< empty: the text goes straight into the file
  std::string kept_;           ///< not yet written
  owned_descriptor file_;
};

/// Makes the whole file of this text, as output_file does. Throws gravel::error.
void write_file(const std::string& path, std::string_view text);

/// Flushes standard output. False if something that was written there before is lost: stderr then has a line of
/// `program` with the reason.
bool flush_output(const char* program);

/// From now on: when the process ends by exit() or from main, flush_output() is called, and if it fails the exit status
/// is 1. Too large a file (ulimit -f) is an error of the write, and no longer ends the process by SIGXFSZ. To be called
/// once, early in main.
void check_output_at_exit(const std::string& program);

}  // namespace gravel::detail
