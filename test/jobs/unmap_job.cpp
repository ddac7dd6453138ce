// Memory that other PEs have mapped is freed only after they have unmapped it. On GPUs the order matters to the owner;
// here it can be observed. The munmap below replaces libc's: it is slow where it unmaps another PE's memory, and
// records the time.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>

namespace {

using namespace std::chrono_literals;

int my_pe = 0;
int notes = -1;  ///< file of all PEs: a line for each piece of such memory that is unmapped, "inode owner ns"

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

std::set<uint64_t> made_here;  ///< inodes of the memory that this PE has made

/// The inodes of all memory of PEs that is mapped in this range of addresses.
std::vector<uint64_t> memory_in(const void* at, size_t bytes) {
  std::vector<uint64_t> found;
  const auto first = reinterpret_cast<unsigned long>(at);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, inode = 0;
    if (line.find("memfd:gravel-memory") != std::string::npos &&
        std::sscanf(line.c_str(), "%lx-%*s %*s %*s %*s %lu", &begin, &inode) == 2 && begin >= first &&
        begin < first + bytes)
      found.push_back(inode);
  }
  return found;
}

int fail(const char* why, int pe) {
  std::fprintf(stderr, "PE %d: %s\n", pe, why);
  return 1;
}

}  // namespace

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  const int made = static_cast<int>(syscall(SYS_memfd_create, name, flags));
  struct stat status {};
  if (made >= 0 && std::strcmp(name, "gravel-memory") == 0 && fstat(made, &status) == 0)
    made_here.insert(status.st_ino);
  return made;
}

extern "C" int munmap(void* at, size_t bytes) noexcept {
  const std::vector<uint64_t> inodes = notes < 0 ? std::vector<uint64_t>() : memory_in(at, bytes);
  const bool own = !inodes.empty() && made_here.count(inodes[0]) != 0;
  uint64_t when = now_ns();
  // Slow, so that an owner that does not wait would be the first.
  if (!inodes.empty() && !own) std::this_thread::sleep_for(my_pe * 50ms);
  const int result = static_cast<int>(syscall(SYS_munmap, at, bytes));
  if (!own) when = now_ns();
  for (const uint64_t inode : inodes) {
    char line[80];
    const int n = std::snprintf(line, sizeof(line), "%lu %d %lu\n", static_cast<unsigned long>(inode), own,
                                static_cast<unsigned long>(when));
    if (write(notes, line, static_cast<size_t>(n)) != n) std::abort();
  }
  return result;
}

int main() {
  gravel_init<>();
  const int pe = my_pe = gravel_my_pe(), n = gravel_n_pes();
  const std::string path =
      std::filesystem::temp_directory_path() / ("gravel-unmap-" + std::to_string(getppid()));  // the launcher's number
  notes = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (notes < 0) return fail("no file for notes", pe);
  gravel_barrier_all();
  gravel_finalize();
  if (pe != 0) return 0;

  // Heap and rings of each PE: once by the owner, once by each of the others.
  struct moments {
    uint64_t freed = 0, last_let_go = 0;
    int others = 0;
  };
  std::map<uint64_t, moments> of;
  int lines = 0;
  for (int tries = 0; lines < 2 * n * n && tries < 500; ++tries) {
    std::this_thread::sleep_for(20ms);
    of.clear();
    lines = 0;
    std::ifstream in(path);
    uint64_t inode, when;
    for (int own; in >> inode >> own >> when; ++lines) {
      if (own) of[inode].freed = when;
      else {
        of[inode].last_let_go = std::max(of[inode].last_let_go, when);
        ++of[inode].others;
      }
    }
  }
  std::filesystem::remove(path);
  if (lines != 2 * n * n) return fail("not all memory was unmapped", pe);
  for (const auto& [inode, m] : of)
    if (m.others != n - 1 || m.freed < m.last_let_go)
      return fail("memory was freed while another PE had it mapped", pe);
  std::puts("freed after all others had let it go");
  return 0;
}
