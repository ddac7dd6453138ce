// A service: a resident kernel whose blocks own the counters. A block may change its counters without atomics.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

constexpr uint32_t counters = 100, lanes = 64, service_blocks = 4;

struct counting {
  static constexpr const char* name = "counting";  // the same at all PEs
  static constexpr uint32_t threads = 64;          // of a service block
  struct message {                                 // 4 to 128 bytes
    uint32_t counter, amount;
  };
  uint64_t* value;  // of this PE; counter c belongs to block c % blocks
  // All threads of a service block call this together, with some messages.
  __device__ void operator()(const gravel_service_block<counting>& here,
                             const gravel_service_batch<message>& batch) const {
    for (uint32_t i = 0; i < batch.size(); ++i) {
      const message m = batch[i];
      if (m.counter / here.blocks() % here.size() == here.rank()) value[m.counter] += m.amount;  // one lane for each
    }
  }
};

__global__ void count(gravel_service_handle<counting> to) {
  __shared__ gravel_service_sender<counting, service_blocks> sender;
  sender.begin(to);  // all threads of the block call this
  const int next = (gravel_my_pe(to.g) + 1) % gravel_n_pes(to.g);
  for (uint32_t counter = threadIdx.x % 2; counter < counters; counter += 2)
    sender.send(next, counter % service_blocks, {counter, counter});
  sender.end();  // all threads of the block call this
}

int main() {
  gravel_init<gravel_service_delivery<counting>>();  // the handler that takes messages of other PEs
  auto* value = gravel_malloc<uint64_t>(counters * sizeof(uint64_t));
  {
    gravel_service<counting> service(counting{value}, {.blocks = service_blocks});  // collective: it runs now
    gravel_launch(count, 1, lanes, service.handle());
  }  // closed: all messages are applied, and the resident kernel has ended

  std::vector<uint64_t> here(counters);
  gravel_copy(here.data(), value, counters * sizeof(uint64_t));
  uint64_t wrong = 0;
  for (uint64_t counter = 0; counter < counters; ++counter) wrong += here[counter] != lanes / 2 * counter;
  wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
