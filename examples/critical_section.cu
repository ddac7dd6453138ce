// Critical sections: transfers between accounts of all PEs, each alone with the records of its two accounts.
#include <cstdio>

#include <gravel/critical.cuh>
#include <gravel/gravel.cuh>

struct account {
  int64_t balance;
  uint32_t transfers;
};
struct transfer {  // runs where the records lie
  static constexpr const char* name = "transfer";
  GRAVEL_HANDLER bool operator()(account& from, account& to, int32_t amount) const {
    if (from.balance < amount) return false;
    from.balance -= amount;
    to.balance += amount;
    ++from.transfers;
    return true;
  }
};
using bank = gravel_critical_sections<account, transfer>;

constexpr uint32_t accounts = 100, blocks = 2, threads = 32;

__global__ void work(bank::handle_type sections, bool* done) {
  __shared__ bank::sender sender;  // gathers the calls of the block
  sender.begin(sections);          // all threads of the block call this
  const uint32_t lane = blockIdx.x * blockDim.x + threadIdx.x, from = lane * 7 % accounts;
  for (uint32_t i = 1; i < 5; ++i)
    sender.call<transfer>(from, (from + i) % accounts, 3);            // nobody waits for its result
  sender.ask<transfer>(&done[lane], from, (from + 5) % accounts, 3);  // the result is stored in done[lane]
  sender.end();                                                       // all threads of the block call this
}

int main() {
  gravel_init<bank::delivery>();  // the handler that takes calls of other PEs
  auto* done = gravel_malloc<bool>(blocks * threads);
  bank sections({.keys = accounts, .blocks = 2}, [](uint32_t) { return account{100, 0}; });  // collective
  gravel_launch(work, blocks, threads, sections.handle(), done);
  int64_t sum = 0;
  bool right = true;
  for (const account& a : sections.read()) {  // collective: all calls have run
    sum += a.balance;
    right = right && a.balance >= 0;
  }
  right = gravel_sum_all(uint64_t{!right}) == 0 && gravel_sum_all(static_cast<uint64_t>(sum)) == accounts * 100;
  if (gravel_my_pe() == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  sections.close();
  gravel_finalize();
  return right ? 0 : 1;
}
