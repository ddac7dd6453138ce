// A channel at every PE: lanes push orders into the channel of any PE, and warps of that PE take them in batches.
#include <cstdio>

#include <gravel/channel.cuh>
#include <gravel/gravel.cuh>

struct order {
  static constexpr const char* name = "order";  // the same at all PEs
  uint32_t number;
};
using order_channel = gravel_remote_channel_handle<order>;
constexpr uint32_t blocks = 2, threads = 64, orders = blocks * threads;

__global__ void push(order_channel to, uint64_t* refused) {
  const uint32_t number = blockIdx.x * blockDim.x + threadIdx.x;
  if (!to.at(static_cast<int>(number % to.g.n_pes)).push({number}))  // false: this PE has no credit for an element
    gravel::fetch_add<gravel::scope::device>(refused, uint64_t{1});
}

__global__ void take(order_channel from, uint64_t* sum) {
  const auto warp = gravel_batch::converged_warp(threadIdx.x, blockDim.x);  // all lanes of this warp
  for (;;) {
    const auto batch = from.take(warp, 32);  // up to 32 elements for the warp
    if (batch.count == 0) break;
    if (warp.rank() < batch.count) {
      const uint64_t number = from.read(batch.first + warp.rank()).number;
      gravel::fetch_add<gravel::scope::device>(sum, number);
    }
    from.free(warp, batch);
  }
}

int main() {
  gravel_init<gravel_channel_delivery<order>>();  // the handler that puts elements of other PEs into the channel
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
  auto* words = gravel_malloc<uint64_t>(2 * sizeof(uint64_t));  // refused, sum
  {
    gravel_remote_channel<order> channel(orders * n_pes);  // room at each PE, in equal shares for all; collective
    gravel_launch(push, blocks, threads, channel.handle(), &words[0]);
    gravel_wait_quiescent();  // all elements are in their channels
    gravel_launch(take, blocks, threads, channel.handle(), &words[1]);
    gravel_barrier_all();
  }

  uint64_t here[2];
  gravel_copy(here, words, sizeof(here));
  const bool right = gravel_sum_all(here[0]) == 0 && gravel_sum_all(here[1]) == n_pes * (orders * (orders - 1) / 2);
  if (gravel_my_pe() == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  gravel_finalize();
  return right ? 0 : 1;
}
