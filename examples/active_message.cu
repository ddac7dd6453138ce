// Active messages: a message runs a handler at its destination. This handler sends the message on to the next PE until
// its hops are used up, and counts every visit.
#include <cstdio>

#include <gravel/gravel.cuh>

struct visit {
  static constexpr const char* name = "visit";  // the same at all PEs
  using context = uint64_t;                     // what this PE gives its handler: the counter
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t* visits, uint32_t hops_left) const {
    gravel_local_add(g, visits, 1);
    if (hops_left > 0) gravel_am<visit>(g, (gravel_my_pe(g) + 1) % gravel_n_pes(g), hops_left - 1);  // never waits
  }
};

__global__ void start(gravel_t g) { gravel_am<visit>(g, gravel_my_pe(g), 9u); }

int main() {
  gravel_init<visit>();  // all handlers of the program
  auto* visits = gravel_malloc<uint64_t>(sizeof(uint64_t));
  gravel_set_context<visit>(visits);
  gravel_barrier_all();  // every PE has set its context: messages may come
  gravel_launch(start, 1, 64, gravel_handle());
  gravel_wait_quiescent();  // a barrier would not wait for what handlers send

  uint64_t here = 0;
  gravel_copy(&here, visits, sizeof(here));
  const bool right = gravel_sum_all(here) == 64ull * 10 * static_cast<uint64_t>(gravel_n_pes());
  if (gravel_my_pe() == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  gravel_finalize();
  return right ? 0 : 1;
}
