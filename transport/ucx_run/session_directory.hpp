// The directory of one job on this host: sockets and files of the PEs. It is removed when the job ends. If the launcher
// is killed with -9, the next launcher removes it.
#pragma once
#include <string>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// The folder in which session directories are made: TMPDIR if that is set and short enough for the names of Unix
/// sockets (60 characters), else /tmp.
std::string session_parent();

/// A session directory: private to the user (mode 0700), named gravel-UID-XXXXXX. The destructor removes it with all
/// that it contains.
class session_directory {
 public:
  /// Creates it. Throws gravel::error. The launcher's file in it stays locked while this object exists. That lock, and
  /// not a process number, says whether a directory is in use, so it works across containers that share /tmp.
  explicit session_directory(const std::string& parent = session_parent());
  ~session_directory();

  const std::string& path() const { return path_; }
  /// Removes it now; does nothing the second time.
  void remove() noexcept;

 private:
  std::string path_;
  owned_descriptor lock_;
};

/// Removes this user's session directories under `parent` whose launcher is dead. Never throws, reports nothing.
void remove_stale_sessions(const std::string& parent) noexcept;

}  // namespace gravel::detail
