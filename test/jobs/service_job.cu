// Services in a job: sums that service blocks make without atomics, from kernels, handlers, host threads and other
// service blocks, with the smallest rings and with usual ones. One source for the CPU backend and for GPUs; run under
// ucx-run with any number of PEs and a time limit: most mistakes here would show as a job that does not end.
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>

namespace {

int failures = 0;

void expect(bool holds, const char* what, const std::string& more = {}) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s%s\n", gravel_my_pe(), what, more.c_str());
}
void expect_refusal(const char* what, const char* word, const std::function<void()>& call) {
  std::string text = "(nothing)";
  try {
    call();
  } catch (const gravel::detail::error& e) {
    text = e.what();
  }
  expect(text.find(word) != std::string::npos, what,
         ": expected an error with '" + std::string(word) + "' in it, got " + text);
}

/// Counts of a service block. One lane of one block writes them: a second writer would lose updates.
struct tally {
  uint64_t messages, sum, wrong;
};

/// Adds up what comes; a message that has hops left goes on to another service block of another PE.
struct adder {
  static constexpr const char* name = "adder";
  static constexpr uint32_t threads = 64;
  struct message {
    uint32_t block, amount, hops;
  };
  tally* tallies;
  __device__ void operator()(const gravel_service_block<adder>& here,
                             const gravel_service_batch<message>& batch) const {
    tally& mine = tallies[here.number()];
    if (here.rank() == 0)
      for (uint32_t i = 0; i < batch.size(); ++i) {
        const message m = batch[i];
        ++mine.messages;
        mine.sum += m.amount;
        mine.wrong += m.block != here.number();
      }
    for (uint32_t c = here.rank() / 32; c < batch.chunks(); c += here.size() / 32)
      for (uint32_t i = here.rank() % 32; i < batch.messages_of(c); i += 32) {
        const message m = batch.chunk(c)[i];
        if (m.hops == 0) continue;
        const uint32_t next = (m.block + 1) % here.blocks();
        gravel_service_send(here.handle, static_cast<int>((here.g.my_pe + m.hops % 2) % here.g.n_pes), next,
                            {next, m.amount, m.hops - 1});
      }
  }
};

/// Another service, of small messages, whose warps share the work.
struct counter {
  static constexpr const char* name = "counter";
  static constexpr uint32_t threads = 32;
  struct message {
    uint32_t slot;
  };
  uint64_t* slots;
  __device__ void operator()(const gravel_service_block<counter>& here,
                             const gravel_service_batch<message>& batch) const {
    for (uint32_t i = here.rank(); i < batch.size(); i += here.size())
      gravel::detail::fetch_add<gravel::detail::scope::block>(&slots[batch[i].slot], uint64_t{1});
  }
};

/// A handler that sends to a service.
struct relay {
  static constexpr const char* name = "relay";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t block, uint32_t amount) const {
    gravel_am<gravel_service_delivery<adder>>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), block,
                                              adder::message{block, amount, 0});
  }
};

__global__ void send_each(gravel_service_handle<adder> to, uint32_t each, uint32_t hops) {
  const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = 0; i < each; ++i) {
    const uint32_t block = (me + i) % to.blocks();
    gravel_service_send(to, static_cast<int>((me + i) % to.g.n_pes), block, {block, i + 1, hops});
  }
}

__global__ void send_gathered(gravel_service_handle<adder> to, uint32_t each) {
  __shared__ gravel_service_sender<adder, 8> sender;
  sender.begin(to);
  const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = 0; i < each; ++i) {
    if ((me ^ i) % 3 == 0) continue;  // lanes are not always together
    const uint32_t block = (me * 7 + i) % to.blocks();
    sender.send(static_cast<int>(i % 4 ? to.g.my_pe : (me + i) % to.g.n_pes), block, {block, i + 1, 0});
  }
  sender.end();
}

__global__ void count_both(gravel_service_handle<adder> to, gravel_service_handle<counter> also, uint32_t each) {
  __shared__ gravel_service_sender<counter, 4, 64> sender;
  sender.begin(also);
  for (uint32_t i = 0; i < each; ++i) {
    sender.send(static_cast<int>(also.g.my_pe), i % also.blocks(), {i % also.blocks() * 4 + i % 4});
    gravel_service_send(to, static_cast<int>(to.g.my_pe), i % to.blocks(), {i % to.blocks(), 1, 0});
  }
  sender.end();
}

__global__ void relay_some(gravel_t g, uint32_t blocks) {
  gravel_am<relay>(g, static_cast<int>((g.my_pe + threadIdx.x) % g.n_pes), threadIdx.x % blocks, threadIdx.x);
}

struct total {
  uint64_t messages = 0, sum = 0, wrong = 0;
};
/// The counts of all PEs.
total read(const tally* tallies, uint32_t blocks) {
  std::vector<tally> all(blocks);
  gravel_copy(all.data(), tallies, blocks * sizeof(tally));
  total t;
  for (const tally& one : all) {
    t.messages += one.messages;
    t.sum += one.sum;
    t.wrong += one.wrong;
  }
  return {gravel_sum_all(t.messages), gravel_sum_all(t.sum), gravel_sum_all(t.wrong)};
}
void expect_total(const char* what, const total& found, uint64_t messages, uint64_t sum) {
  const std::string text = ": " + std::to_string(found.messages) + " messages of " + std::to_string(messages) +
                           ", sum " + std::to_string(found.sum) + " of " + std::to_string(sum) +
                           ", at wrong service blocks " + std::to_string(found.wrong);
  expect(found.messages == messages && found.sum == sum && found.wrong == 0, what, text);
}

const unsigned blocks = GRAVEL_CUDA ? 64 : 2, lanes = GRAVEL_CUDA ? 256 : 32;

/// `each` messages a lane with these rings; the counts are right as soon as the service is closed.
void send_with(const char* what, const gravel_service_options& how, uint32_t each, uint32_t hops) {
  auto* tallies = gravel_malloc<tally>(how.blocks * sizeof(tally));
  {
    gravel_service<adder> service(adder{tallies}, how);
    gravel_launch(send_each, blocks, lanes, service.handle(), each, hops);
  }
  const uint64_t senders = uint64_t{blocks} * lanes * static_cast<uint64_t>(gravel_n_pes());
  expect_total(what, read(tallies, how.blocks), senders * each * (hops + 1),
               senders * each * (each + 1) / 2 * (hops + 1));
  gravel_free(tallies);
}

void gathered() {
  constexpr uint32_t service_blocks = 5, each = 60;
  auto* tallies = gravel_malloc<tally>(service_blocks * sizeof(tally));
  gravel_service<adder> service(adder{tallies}, {.blocks = service_blocks, .chunks = 4, .chunk_messages = 32});
  uint64_t messages = 0, sum = 0;
  for (uint32_t me = 0; me < blocks * lanes; ++me)
    for (uint32_t i = 0; i < each; ++i)
      if ((me ^ i) % 3) {
        ++messages;
        sum += i + 1;
      }
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
  for (uint64_t round = 1; round <= 2; ++round) {
    gravel_launch(send_gathered, blocks, lanes, service.handle(), each);
    gravel_wait_quiescent();  // it covers services
    expect_total("gathered by block", read(tallies, service_blocks), round * n_pes * messages, round * n_pes * sum);
  }
  service.close();
  service.close();  // does nothing
  gravel_free(tallies);
}

/// Two services at once; what handlers and host threads send.
void others_send() {
  constexpr uint32_t service_blocks = 3, each = 40;
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
  auto* tallies = gravel_malloc<tally>(service_blocks * sizeof(tally));
  auto* slots = gravel_malloc<uint64_t>(16 * sizeof(uint64_t));
  gravel_service<adder> service(adder{tallies}, {.blocks = service_blocks, .chunks = 2});
  gravel_service<counter> second(counter{slots}, {.blocks = 4, .chunks = 8});
  expect_refusal("the same service twice", "open already", [&] { gravel_service<adder> again(adder{tallies}); });
  gravel_launch(count_both, blocks, lanes, service.handle(), second.handle(), each);
  gravel_launch(relay_some, 1u, lanes, gravel_handle(), service_blocks);
  gravel_service_delivery<adder>::message m{1, 1000, 0};
  gravel_am<gravel_service_delivery<adder>>(gravel_host_handle(), (gravel_my_pe() + 1) % gravel_n_pes(), 1u, m);
  second.close();
  std::vector<uint64_t> counts(16);
  gravel_copy(counts.data(), slots, 16 * sizeof(uint64_t));
  uint64_t counted = 0;
  for (uint64_t c : counts) counted += c;
  expect(counted == uint64_t{blocks} * lanes * each, "the second service counts");
  service.close();
  const uint64_t direct = uint64_t{blocks} * lanes * each, relayed = lanes * uint64_t{lanes - 1} / 2;
  expect_total("from kernels, handlers and the host", read(tallies, service_blocks), n_pes * (direct + lanes + 1),
               n_pes * (direct + relayed + 1000));
  gravel_free(slots);
  gravel_free(tallies);
}

void refusals() {
  const auto open = [](gravel_service_options how) {
    return [how] { gravel_service<adder> service(adder{nullptr}, how); };
  };
  expect_refusal("no service block", "0 service blocks", open({.blocks = 0}));
  expect_refusal("too many service blocks", "257 service blocks", open({.blocks = 257}));
  expect_refusal("no chunk", "0 chunks", open({.chunks = 0}));
  expect_refusal("three chunks", "not a power of two", open({.chunks = 3}));
  expect_refusal("small chunks", "31 messages", open({.chunk_messages = 31}));
}

}  // namespace

int main() {
  gravel_init<gravel_service_delivery<adder>, gravel_service_delivery<counter>, relay>();
  refusals();
  { gravel_service<counter> idle(counter{nullptr}); }
  send_with("the smallest rings", {.blocks = 1, .chunks = 1, .chunk_messages = 32}, 10, 0);
  send_with("usual rings", {.blocks = 4}, 30, 0);
  send_with("service blocks that send on, small rings", {.blocks = 3, .chunks = 2, .chunk_messages = 32}, 2, 3);
  gathered();
  others_send();
  const bool all_well = gravel_max_all(static_cast<uint64_t>(failures)) == 0;
  if (gravel_my_pe() == 0 && all_well) printf("services: all well on %d PEs, %s\n", gravel_n_pes(), gravel_backend());
  gravel_finalize();
  return all_well ? 0 : 1;
}
