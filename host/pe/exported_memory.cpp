#include "host/pe/exported_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "host/pe/peer_description.hpp"
#include "lib/base/error.hpp"

namespace gravel {
namespace {

/// Nobody may change its size under the other processes' mappings.
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

exported_memory::exported_memory(uint64_t bytes, const char* what)
    : bytes_(bytes), descriptor_(memfd_create("gravel-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING)), at_(MAP_FAILED) {
  if (descriptor_ < 0) fail_errno(fmt::format("memfd_create for {}", what));
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0 && fcntl(descriptor_, F_ADD_SEALS, size_seals) == 0)
    at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (at_ == MAP_FAILED) {
    const int why = errno;
    close(descriptor_);
    errno = why;
    fail_errno(fmt::format("{} of {} bytes does not fit", what, bytes));
  }
}

exported_memory::~exported_memory() {
  if (!at_) return;
  munmap(at_, bytes_);
  close(descriptor_);
}

exported_memory::exported_memory(exported_memory&& other) noexcept
    : bytes_(other.bytes_), descriptor_(other.descriptor_), at_(std::exchange(other.at_, nullptr)) {}

std::string exported_memory::describe() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail_errno("fstat of memory for peers");
  const auto packed =
      to_wire(memory_description{static_cast<uint64_t>(getpid()), static_cast<uint64_t>(descriptor_), bytes_, status.st_ino});
  return {reinterpret_cast<const char*>(packed.data()), packed.size()};
}

attached_memory::attached_memory(const std::string& described) : bytes_(0), at_(nullptr) {
  const auto d = from_wire<memory_description>(std::as_bytes(std::span(described)), "its process");
  const std::string path = fmt::format("/proc/{}/fd/{}", d.process, d.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) fail_errno("opening " + path);
  struct stat status {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  const bool is_it = fstat(descriptor, &status) == 0 && status.st_ino == d.inode && static_cast<uint64_t>(status.st_size) == d.bytes &&
                     seals >= 0 && (seals & size_seals) == size_seals;
  void* const at = is_it ? mmap(nullptr, d.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0) : MAP_FAILED;
  const int why = errno;
  close(descriptor);
  if (!is_it) fail("{} is not its memory: do the PEs see each other's processes?", path);
  errno = why;
  if (at == MAP_FAILED) fail_errno(fmt::format("mapping {} bytes of {}", d.bytes, path));
  bytes_ = d.bytes;
  at_ = at;
}

attached_memory::~attached_memory() {
  if (at_) munmap(at_, bytes_);
}

attached_memory::attached_memory(attached_memory&& other) noexcept : bytes_(other.bytes_), at_(std::exchange(other.at_, nullptr)) {}

}  // namespace gravel
