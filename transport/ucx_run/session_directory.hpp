// The directory of one job on this host: sockets and whatever the PEs put there. It goes when the job goes;
// should the launcher be killed with -9, the next launcher removes it.
#pragma once
#include <string>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// Where session directories are made: TMPDIR if that is set and short enough for the names of Unix sockets (60
/// characters), else /tmp.
std::string session_parent();

/// Private to the user (mode 0700), named gravel-UID-XXXXXX. The destructor removes it with all it holds.
class session_directory {
 public:
  /// Creates it. Throws gravel::error. The launcher's file in it stays locked while this object lives: that,
  /// and not a process number, tells whether a directory is in use, so it holds across containers that share
  /// /tmp.
  explicit session_directory(const std::string& parent = session_parent());
  ~session_directory();

  const std::string& path() const { return path_; }
  /// Removes it now; does nothing the second time.
  void remove() noexcept;

 private:
  std::string path_;
  owned_descriptor lock_;
};

/// Removes this user's session directories under `parent` whose launcher is dead. Never throws, says nothing.
void remove_stale_sessions(const std::string& parent) noexcept;

}  // namespace gravel::detail
