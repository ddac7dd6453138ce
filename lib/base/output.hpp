// The output of programs: files that are either complete or as they were before, and a standard output of which nothing
// is lost silently.
#pragma once
#include <string>
#include <string_view>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// A file that appears under its name when it is complete. Until then the text goes to a temporary file in the same
/// directory, so a failure (a full disk, a limit, the end of the process) leaves the old file as it was. A symbolic
/// link stays one: the file that it names is replaced. If no file can be created or renamed there (a device, a pipe, a
/// directory without write permission), the text goes straight into the file. Errors are gravel::error with the file
/// and the reason. For use by one thread.
class output_file {
 public:
  explicit output_file(std::string path);
  /// Removes the temporary file if finish() was not called.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(std::string_view text);
  /// Gives the complete file its name. To be called once, after the last write().
  void finish();

 private:
  void begin_in_place(int how);
  void write_out(std::string_view text);
  [[noreturn]] void fail_here(int code) const;

  std::string path_, target_;  ///< as the caller names it, and after symbolic links are followed
  std::string temporary_;      ///< empty: the text goes straight into the file
  std::string kept_;           ///< not yet written
  owned_descriptor file_;
};

/// Writes a whole file with this text, as output_file does. Throws gravel::error.
void write_file(const std::string& path, std::string_view text);

/// Flushes standard output. If something that was written there before is lost, writes a line of `program` with the
/// reason to stderr and returns false.
bool flush_output(const char* program);

/// From now on, when the process ends by exit() or from main, flush_output() is called, and if it fails the exit status
/// is 1. Too large a file (ulimit -f) is then an error of the write, and no longer ends the process by SIGXFSZ. To be
/// called once, early in main.
void check_output_at_exit(const std::string& program);

}  // namespace gravel::detail
