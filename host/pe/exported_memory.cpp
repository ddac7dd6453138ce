#include "host/pe/exported_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/pe/peer_description.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

sealed_memory make_exported(uint64_t bytes, const char* what) { return {"gravel-memory", what, bytes, MAP_NORESERVE}; }

std::string describe_exported(const sealed_memory& memory) {
  struct stat status {};
  if (fstat(memory.descriptor(), &status) != 0) fail_errno("fstat of memory for peers");
  const auto packed = to_wire(memory_description{
      static_cast<uint64_t>(getpid()), static_cast<uint64_t>(memory.descriptor()), memory.bytes(), status.st_ino});
  return {reinterpret_cast<const char*>(packed.data()), packed.size()};
}

sealed_memory attach_exported(const std::string& described) {
  const auto d = from_wire<memory_description>(std::as_bytes(std::span(described)), "its process");
  const std::string path = fmt::format("/proc/{}/fd/{}", d.process, d.descriptor);
  owned_descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail_errno("opening " + path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || status.st_ino != d.inode)
    fail("{} is not its memory: do the PEs see each other's processes?", path);
  sealed_memory theirs(std::move(file), path, d.bytes, MAP_NORESERVE);
  theirs.close_descriptor();  // a node has many PEs, with two exports each
  return theirs;
}

}  // namespace gravel::detail
