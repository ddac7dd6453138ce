// A process group: a job of two PEs without a launcher. The program forks the second PE, and both know each other by a
// pair of sockets.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <gravel/gravel.cuh>

__global__ void count(gravel_t g, unsigned* counter) { gravel_inc(g, counter, 1 - gravel_my_pe(g)); }

/// An MPI program would call MPI_Allgather here.
void exchange(int pe, int other, const void* mine, uint64_t bytes, void* all) {
  char* const of_pe[] = {static_cast<char*>(all), static_cast<char*>(all) + bytes};
  std::memcpy(of_pe[pe], mine, bytes);
  const auto size = static_cast<ssize_t>(bytes);
  bool good = true;
  for (int turn = 0; turn < 2; ++turn)
    if (turn == pe) good = good && send(other, mine, bytes, MSG_NOSIGNAL) == size;
    else good = good && recv(other, of_pe[1 - pe], bytes, MSG_WAITALL) == size;
  if (!good) throw std::runtime_error("the other PE has ended");
}

int main() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const int pe = fork() == 0 ? 1 : 0;
  close(sockets[1 - pe]);

  gravel_init<>({.pe = pe, .n_pes = 2, .allgather = [&](const void* mine, uint64_t bytes, void* all) {
                   exchange(pe, sockets[pe], mine, bytes, all);
                 }});
  auto* counter = gravel_malloc<unsigned>(sizeof(unsigned));
  gravel_launch(count, 4, 64, gravel_handle(), counter);
  gravel_barrier_all();

  unsigned counted = 0;
  gravel_copy(&counted, counter, sizeof(counted));
  gravel_finalize();
  if (pe == 1) return counted != 256;
  int status = 0;
  wait(&status);
  std::printf("%s\n", counted == 256 && status == 0 ? "ok" : "WRONG");
  return counted != 256 || status != 0;
}
