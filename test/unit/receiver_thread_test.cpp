// host/pe/receiver_thread.*
#include "host/pe/receiver_thread.hpp"

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/shared_pes.hpp"

using namespace gravel::detail;

namespace {

class counting final : public backend {
 public:
  const char* name() const override { return "fake"; }
  std::string describe() const override { return "fake"; }
  handler_table handlers() const override { return {}; }
  void open(uint32_t, uint32_t) override {}
  void* allocate(uint64_t, const char*) override { return nullptr; }
  void release(void*) override {}
  void zero(void*, uint64_t) override {}
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  void copy(void*, const void*, uint64_t) override {}
  void synchronize() override {}
  void start_receiver(const receiver_setup&) override {}
  bool receive() override {
    on_its_thread = receiver_thread::is_this;
    if (++rounds == throws_at) fail("a corrupt packet arrived");
    return true;
  }
  void stop_receiver() override { ++stops; }
  std::atomic<int> rounds{0}, stops{0}, throws_at{0};
  std::atomic<bool> on_its_thread{false};
};

}  // namespace

TEST_CASE("it receives until it is stopped, once, and checks in every round") {
  counting device;
  std::atomic<int> checks{0};
  receiver_thread thread(
      device, [&] { ++checks; }, [](const std::string&) {});
  while (device.rounds < 100) std::this_thread::yield();
  CHECK(device.on_its_thread);
  CHECK_FALSE(receiver_thread::is_this);
  thread.stop();
  const int rounds = device.rounds;
  CHECK(checks >= rounds);
  thread.stop();
  CHECK(device.stops == 1);
  CHECK(device.rounds == rounds);
}

TEST_CASE("an exception while receiving is reported") {
  counting device;
  device.throws_at = 3;
  std::string text;
  {
    receiver_thread thread(
        device, [] {}, [&](const std::string& why) { text = why; });
    while (device.rounds < 3) std::this_thread::yield();
  }
  CHECK(text == "a corrupt packet arrived");
  CHECK(device.rounds == 3);
}
