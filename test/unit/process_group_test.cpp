// Jobs without a launcher: group_job (test/jobs) forks its PEs, which join by gravel_process_group.
#include <chrono>

#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

namespace {

command_result run(uint32_t n, const std::string& fault, const std::map<std::string, std::string>& environment = {}) {
  command_options options;
  options.environment = environment;
  std::vector<std::string> words{built("test/jobs/group_job-cpu"), std::to_string(n)};
  if (!fault.empty()) words.push_back(fault);
  command running(words, options);
  running.close_input();
  auto result = running.finish();
  CHECK(running.living_after_patience().empty());
  return result;
}

void check_right(uint32_t n, const std::map<std::string, std::string>& environment = {}) {
  INFO(n << " PEs");
  const auto result = run(n, "", environment);
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  for (uint32_t pe = 0; pe < n; ++pe)
    CHECK_THAT(result.out, contains_text("PE " + std::to_string(pe) + " of " + std::to_string(n) + " is right\n"));
}

}  // namespace

TEST_CASE("PEs of a process group are a job") {
  for (const uint32_t n : {1u, 2u, 4u}) check_right(n);
  check_right(3, {{"GRAVEL_NODES", "2"}});
  check_right(2, {{"GRAVEL_ROUTES", "net"}});
}

TEST_CASE("a process group comes before what a launcher says") {
  check_right(2, {{"RANK", "7"}, {"WORLD_SIZE", "8"}});
  check_right(2, {{"PMIX_NAMESPACE", "gone"}, {"PMIX_RANK", "5"}, {"PMIX_SERVER_URI41", "gone.0;tcp4://127.0.0.1:1"}});
}

TEST_CASE("PEs that have a unique id are a job") {
  for (const uint32_t n : {1u, 3u}) {
    const auto result = run(n, "id");
    INFO(result.err);
    CHECK(result.status == 0);
    for (uint32_t pe = 0; pe < n; ++pe)
      CHECK_THAT(result.out, contains_text("PE " + std::to_string(pe) + " of " + std::to_string(n) + " is right\n"));
  }
}

TEST_CASE("PEs with a unique id get in beside connections that stay silent") {
  const auto result = run(3, "id-silent");
  INFO(result.err);
  CHECK(result.status == 0);
}

TEST_CASE("a wrong unique id is an error that says what is wrong") {
  const std::pair<const char*, const char*> faults[] = {
      {"id-absent", "PEs [2] have not come within 1 s (GRAVEL_CONNECT_TIMEOUT_S)"},
      {"id-n_pes", "PE 2 of 4 came, to a job of 3 PEs"},
      {"id-same-pe", "a second PE 1 came, to a job of 3 PEs"},
      {"id-second-first", "PE 0 is the process that called gravel_unique_id()"},
      {"id-text", "it is not one that gravel_unique_id() returned"},
      {"id-secret", "is not PE 0 of this job"}};
  for (const auto& [fault, text] : faults) {
    INFO(fault);
    const auto result = run(3, fault, {{"GRAVEL_CONNECT_TIMEOUT_S", "1"}});
    CHECK(result.status != 0);
    CHECK_THAT(result.err, contains_text(text));
  }
}

TEST_CASE("a wrong process group is an error that says what is wrong") {
  const std::pair<const char*, const char*> faults[] = {
      {"nothing", "did not deliver what PE"},
      {"order", "at the place of PE"},
      {"sizes", "has changed the bytes of a PE"},
      {"n_pes", "says that the process group has"},
      {"pe", "a process group of 3 PEs has no PE 3: numbers are 0 to 2"},
      {"negative", "a process group of 3 PEs has no PE -1"},
      {"same-pe", "Two PEs have one number"},
      {"empty", "the process group has no allgather"},
      {"absent", "the process group's allgather failed: not all PEs came within 5 s"},
      {"die-in-init", "the process group's allgather failed: not all PEs came within 5 s"}};
  for (const auto& [fault, text] : faults) {
    INFO(fault);
    const auto result = run(3, fault);
    CHECK(result.status != 0);
    CHECK_THAT(result.err, contains_text(text));
    CHECK_THAT(result.out, !contains_text("is right"));
  }
}

TEST_CASE("the end of one PE ends a job without a launcher within ten seconds") {
  const std::pair<const char*, const char*> faults[] = {{"kill", "PE 2"},
                                                        {"exit", "ended with exit status 3 without gravel_finalize"},
                                                        {"throw", "thrown by the program"}};
  for (const auto& [fault, text] : faults)
    for (const char* nodes : {"1", "3"}) {
      INFO(fault << ", nodes: " << nodes);
      const auto before = std::chrono::steady_clock::now();
      const auto result = run(3, fault, {{"GRAVEL_NODES", nodes}});
      CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(10));
      INFO(result.err);
      CHECK(result.status != 0);
      CHECK_THAT(result.err, contains_text(text));
    }
}
