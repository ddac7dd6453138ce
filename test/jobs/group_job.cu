// A job without a launcher: this program forks its PEs, which exchange bytes over shared memory (gravel_process_group).
//
// Usage: group_job N [FAULT]. Each FAULT is a mistake in a process group, or the death of the last PE. The exit status
// is that of the first PE that failed, 128 + signal for one that was killed. If FAULT begins with "id", the PEs join by
// a unique id instead. If it is "mpi", this process is a PE, a rank of MPI's.
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#if GRAVEL_TEST_MPI
#include <gravel/mpi.hpp>
#endif

namespace {

constexpr uint64_t most_bytes = 1 << 20;
constexpr int most_pes = 16;

/// Memory of all PEs. The PEs of an allgather wait for each other twice: when all have written, and when all have read.
struct shared_memory {
  std::atomic<uint64_t> came{0};
  std::atomic<bool> has_id{false};
  gravel_unique_id_t id;
  char bytes[most_pes][most_bytes];
};

class shared_group {
 public:
  shared_group(shared_memory& memory, int n_pes) : memory_(memory), n_pes_(n_pes) {}
  void allgather(int pe, const void* mine, uint64_t bytes, void* all) {
    if (bytes > most_bytes) throw std::runtime_error("more than 1 MiB");
    std::memcpy(memory_.bytes[pe], mine, bytes);
    wait_for_all();
    for (int from = 0; from < n_pes_; ++from)
      std::memcpy(static_cast<char*>(all) + static_cast<uint64_t>(from) * bytes, memory_.bytes[from], bytes);
    wait_for_all();
  }

 private:
  void wait_for_all() {
    ++memory_.came;
    ++waits_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (memory_.came < waits_ * static_cast<uint64_t>(n_pes_)) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("not all PEs came within 5 s");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  shared_memory& memory_;
  int n_pes_;
  uint64_t waits_ = 0;
};

struct add_one {
  static constexpr const char* name = "add_one";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t* count, uint64_t value) const {
    gravel::fetch_add_release(count, value);
  }
};

__global__ void send(gravel_t g, uint64_t* count) {
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
    gravel_inc(g, count, static_cast<int>(pe));
    gravel_am<add_one>(g, static_cast<int>(pe), uint64_t{1});
  }
}

/// Connects many times to where PE 0 listens, and says nothing.
std::vector<int> connect_silently(const gravel_unique_id_t& id, int times) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string text = id.text, behind_address = text.substr(text.find('/', text.find('/') + 1) + 1);
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(behind_address)));
  std::vector<int> sockets;
  for (int i = 0; i < times; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(sockets.back(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)))
      throw std::runtime_error("PE 0 refuses a connection");
  }
  return sockets;
}
void join_by_id(int pe, int n_pes, shared_memory& memory, const std::string& fault) {
  const bool last = pe == n_pes - 1;
  if (pe == 0) {
    memory.id = gravel_unique_id();
    memory.has_id = true;
  }
  while (!memory.has_id) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  gravel_unique_id_t id = memory.id;
  if (last && fault == "id-absent") std::_Exit(0);
  if (last && fault == "id-n_pes") n_pes += 1;
  if (last && fault == "id-same-pe") pe = 1;
  if (last && fault == "id-second-first") pe = 0;
  if (last && fault == "id-text") id.text[0] = 'G';
  char& digit = id.text[std::strlen(id.text) - 20];  // of the secret
  if (last && fault == "id-secret") digit = digit == '0' ? '1' : '0';
  // More connections than PE 0 may have open.
  const rlimit few{300, 300};
  if (pe == 0 && fault == "id-silent") setrlimit(RLIMIT_NOFILE, &few);
  const std::vector<int> silent = connect_silently(id, last && fault == "id-silent" ? 600 : 0);
  gravel_init<add_one>(id, pe, n_pes);
  for (const int socket : silent) close(socket);
}
void use_job(int pe, int n_pes, const std::string& fault);

void run(int pe, int n_pes, shared_memory& memory, const std::string& fault) {
  const bool last = pe == n_pes - 1;
  if (fault.starts_with("id")) {
    join_by_id(pe, n_pes, memory, fault);
    return use_job(pe, n_pes, fault);
  }
  shared_group shared(memory, n_pes);
  gravel_process_group group{pe, n_pes, [&](const void* mine, uint64_t bytes, void* all) {
                               if (fault == "nothing") return;
                               shared.allgather(pe, mine, bytes, all);
                               if (fault == "order" && bytes > 8 && n_pes > 1)
                                 std::swap_ranges(static_cast<char*>(all), static_cast<char*>(all) + bytes,
                                                  static_cast<char*>(all) + bytes);
                               if (fault == "sizes" && bytes == 8) std::memset(all, 0x7f, bytes);
                             }};
  if (last && fault == "absent") std::_Exit(0);
  if (last && fault == "die-in-init") raise(SIGKILL);
  if (last && fault == "n_pes") group.n_pes = n_pes + 1;
  if (last && fault == "pe") group.pe = n_pes;
  if (last && fault == "negative") group.pe = -1;
  if (last && fault == "same-pe") group.pe = 0;
  if (fault == "empty") group.allgather = nullptr;
  gravel_init<add_one>(group);
  use_job(pe, n_pes, fault);
}

void use_job(int pe, int n_pes, const std::string& fault) {
  const bool last = pe == n_pes - 1;
  if (gravel_my_pe() != pe || gravel_n_pes() != n_pes) gravel_abort("the job has other numbers than the group");
  auto* const counts = gravel_malloc<uint64_t>(2 * sizeof(uint64_t));
  gravel_set_context<add_one>(counts + 1);
  gravel_barrier_all();
  if (last && fault == "kill") raise(SIGKILL);
  if (last && fault == "exit") std::exit(3);
  if (last && fault == "throw") throw std::runtime_error("thrown by the program");
  gravel_launch(send, 2, 32, gravel_handle(), counts);
  gravel_barrier_all();
  uint64_t got[2];
  gravel_copy(got, counts, sizeof(got));
  const uint64_t wanted = 64 * static_cast<uint64_t>(n_pes);
  if (got[0] != wanted || got[1] != wanted) gravel_abort("increments or messages are missing");
  gravel_finalize();
  std::printf("PE %d of %d is right\n", pe, n_pes);
}

}  // namespace

int main(int argc, char** argv) {
  const int n_pes = argc > 1 ? std::atoi(argv[1]) : 0;
  const std::string fault = argc > 2 ? argv[2] : "";
#if GRAVEL_TEST_MPI
  if (fault == "mpi") {
    MPI_Init(&argc, &argv);
    gravel_process_group group = gravel_mpi_group(MPI_COMM_WORLD);
    gravel_init<add_one>(group);
    use_job(group.pe, group.n_pes, fault);
    MPI_Finalize();
    return 0;
  }
#endif
  if (n_pes < 1 || n_pes > most_pes) {
    std::fprintf(stderr, "usage: group_job N [FAULT]\n");
    return 2;
  }
  void* const at =
      mmap(nullptr, sizeof(shared_memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* const memory = new (at) shared_memory;
  for (int pe = 0; pe < n_pes; ++pe)
    if (fork() == 0) {
      run(pe, n_pes, *memory, fault);
      return 0;
    }
  int failed = 0, status = 0;
  while (wait(&status) > 0)
    if (status != 0 && failed == 0) failed = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return failed;
}
