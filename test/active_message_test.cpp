// Active messages in a job within one process: every mix of arguments on every route and way, in seeded schedules.
#include "test/argument_mixes.hpp"
#include "test/catch.hpp"
#include "test/fake_job.hpp"

using namespace gravel;

namespace {

constexpr uint32_t lanes = 96, each_lane = 3, each = lanes * each_lane;

/// Every PE's kernels (directly and by block sender) and host threads send all mixes to everybody.
void send_all(const fake_shape& shape, uint64_t kernel_seed) {
  const auto job = std::make_unique<fake_job>(
      shape, [](host_receiver& r) { return r.receive<mixes::all::list>(); }, std::map<uint32_t, std::string>{},
      [](const gravel_t& g, const unit* m, uint32_t units) { return apply_message<mixes::all::list>(g, sink_kind::device, m, units); });
  const uint32_t n = job->n_pes();
  std::vector<uint32_t> senders;
  for (uint32_t pe = 0; pe < n; ++pe) {
    const gravel_t& kernel = job->pe(pe).kernel;
    job->launch(2, lanes / 2, kernel_seed, [&] {
      for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
        mixes::all::each([&]<class H>() { H::send(kernel, (i + pe) % n, i); });
    });
    job->launch(2, lanes / 2, kernel_seed, [&] {
      __shared__ gravel_block_sender<lanes / 2, lanes * 3> sender;
      sender.begin(kernel);
      for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
        mixes::all::each([&]<class H>() { H::send_by(sender, (i + pe) % n, i); });
      sender.end();
    });
    for (uint32_t i = 0; i < each; ++i) mixes::all::each([&]<class H>() { H::send(job->pe(pe).host_thread, (i + pe) % n, i); });
    senders.insert(senders.end(), 3, pe);
  }
  job->settle();
  for (uint32_t pe = 0; pe < n; ++pe) {
    REQUIRE(job->error_of(pe).code == 0);
    REQUIRE(mixes::compare(job->pe(pe).at<mixes::tally>(0), pe, n, senders, each) == "");
  }
}

}  // namespace

TEST_CASE("active messages arrive once and whole, whatever their arguments, by every way") {
  uint64_t seed = 1;
  for (auto [nodes, pes, self, peers] : {std::tuple{1u, 1u, true, false}, {1u, 2u, false, false}, {1u, 3u, true, true}, {2u, 2u, true, true}})
    for (bool plain : {true, false}) {
      INFO(nodes << " nodes of " << pes << " PEs, in place " << self << ", peers " << peers << ", seed " << seed);
      send_all({.nodes = nodes, .pes_per_node = pes, .seed = seed, .self_in_place = self, .peers = peers}, plain ? 0 : seed);
      ++seed;
    }
}

TEST_CASE("arguments lie one behind the other, without padding") {
  am_message<mixes::carries<3, false, char, uint16_t, uint32_t, uint64_t, bool>> m;
  m.fill('a', uint16_t{0x0201}, 0x06050403u, uint64_t{0x0e0d0c0b0a090807}, true);
  CHECK(m.units == 2);
  CHECK(argument_bytes_of(m.data[0].word[0]) == 16);
  CHECK(m.data[0].word[1] == 0x0706050403020161);
  CHECK(m.data[1].word[0] == 0x010e0d0c0b0a0908);
  CHECK(m.data[1].word[1] == 0);
}

TEST_CASE("a bulk message in a row of others is refused") {
  const auto job = fake_job::with<>({});
  const unit message[max_am_units] = {{{make_word0(op::put_bulk, 0, 0), 100}}};
  CHECK(fake_job::apply_with<>(job->pe(0).device_handler, message, bulk_units(100)) == message_fault::bad_op);
}
