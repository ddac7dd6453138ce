// GRAVEL_AGGREGATOR_BIND, seen from outside: what a job says about the threads of its aggregators.
#include "host/aggregator/placement.hpp"
#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

using namespace gravel::detail;

namespace {

command_result job(const std::string& bind) {
  return run_command(
      {built("transport/ucx-run"), "-n", "2", "--nodes", "2", built("examples/gups-cpu"), "--table-log2", "8"},
      {{{"GRAVEL_AGGREGATOR_BIND", bind}, {"GRAVEL_AGGREGATOR_THREADS", "2"}, {"GRAVEL_LOG", "info"}}, "", false});
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("all threads of all aggregators run where the list says") {
  const std::string cpu = std::to_string(binding_of_this_thread().last());
  const command_result done = job(cpu);
  INFO(done.err);
  CHECK(done.status == 0);
  for (const char* plane : {"plane 0", "plane 1"})
    CHECK(count(done.err, std::string(plane) + " runs on processors " + cpu + ", as GRAVEL_AGGREGATOR_BIND says") == 2);
}

TEST_CASE("nothing is bound where there is no GPU, or if nothing shall be") {
  for (auto [bind, reason] : {std::pair{"auto", "no PE has a GPU"}, {"none", "as GRAVEL_AGGREGATOR_BIND says"}}) {
    const command_result done = job(bind);
    INFO(done.err);
    CHECK(done.status == 0);
    CHECK(count(done.err, std::string("threads are not bound: ") + reason) == 2);
    CHECK(count(done.err, " runs on ") == 0);
  }
}

TEST_CASE("a list that cannot be ends the job with a reason") {
  for (auto [bind, reason] :
       {std::pair{"0,65535", "there is no processor 65535 here"}, {"all", "'all' is not a list of processors"}}) {
    const command_result done = job(bind);
    INFO(done.err);
    CHECK(done.status == 1);
    CHECK_THAT(done.err, contains_text("GRAVEL_AGGREGATOR_BIND") && contains_text(reason));
  }
}
