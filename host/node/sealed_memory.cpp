#include "host/node/sealed_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

static constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

owned_descriptor make_sealed(const char* name, const std::string& what, uint64_t bytes) {
  owned_descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail_errno("memfd_create for " + what);
  rlimit size{};  // the limit applies to memory files, too; beyond it the process would get SIGXFSZ
  if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < bytes) {
    errno = EFBIG;
    fail_memory(what, bytes);
  }
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 || fcntl(file.get(), F_ADD_SEALS, size_seals) != 0)
    fail_memory(what, bytes);
  return file;
}

void check_sealed(int descriptor, const std::string& what, uint64_t bytes) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || static_cast<uint64_t>(status.st_size) != bytes)
    fail("{} has {} bytes where {} were expected: do all processes have the same GRAVEL_* settings?", what,
         status.st_size, bytes);
  if (const int seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & size_seals) != size_seals)
    fail("{} is not sealed against a change of its size: it was not made by Gravel", what);
}

sealed_memory::sealed_memory(const char* name, const std::string& what, uint64_t bytes, int flags)
    : bytes_(bytes), file_(make_sealed(name, what, bytes)) {
  map(what, flags);
}

sealed_memory::sealed_memory(owned_descriptor theirs, const std::string& what, uint64_t bytes, int flags)
    : bytes_(bytes), file_(std::move(theirs)) {
  check_sealed(descriptor(), what, bytes);
  map(what, flags);
}

void sealed_memory::map(const std::string& what, int flags) {
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor(), 0);
  if (at == MAP_FAILED) fail_memory(what, bytes_);
  at_ = static_cast<char*>(at);
}

sealed_memory::sealed_memory(sealed_memory&& other) noexcept
    : bytes_(other.bytes_), file_(std::move(other.file_)), at_(std::exchange(other.at_, nullptr)) {}

sealed_memory::~sealed_memory() {
  if (at_) munmap(at_, bytes_);
}

}  // namespace gravel::detail
