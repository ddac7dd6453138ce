// The bootstrap under every launcher there is: ucx-run, Open MPI's mpirun (given as the build found it), and
// none.
#include <unistd.h>

#include <map>

#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

namespace {

struct launched {
  scratch_directory temporary;
  command_options options;
  launched() {
    options.environment["TMPDIR"] = temporary.path();
    // Open MPI starts jobs for root only if two variables allow it.
    options.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    options.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  command_result run(std::vector<std::string> words, const std::vector<std::string>& task) {
    words.push_back(built("test/jobs/bootstrap_probe"));
    words.insert(words.end(), task.begin(), task.end());
    command running(words, options);
    running.close_input();
    auto result = running.finish();
    CHECK(running.living_after_patience().empty());
    CHECK(left_after_patience([&] { return ours(); }) == std::vector<std::string>{});
    return result;
  }
  /// What lies in the temporary folder, without Open MPI's own folder: mpirun may leave that after an aborted job.
  std::vector<std::string> ours() const {
    std::vector<std::string> names = temporary.entries();
    std::erase_if(names,
                  [](const std::string& name) { return name.starts_with("ompi.") || name.starts_with("prte."); });
    return names;
  }
};

void check_exchange(const std::vector<std::string>& launcher, uint32_t n, const char* bytes) {
  INFO(n << " PEs, " << bytes << " bytes");
  launched it;
  const auto result = it.run(launcher, {"exchange", "0", bytes});
  INFO(result.err);
  CHECK(result.status == 0);
  for (uint32_t pe = 0; pe < n; ++pe)
    CHECK_THAT(result.out, contains_text("PE " + std::to_string(pe) + " of " + std::to_string(n) + " is content\n"));
}

std::vector<std::string> ucx_run(uint32_t n) { return {built("transport/ucx-run"), "-n", std::to_string(n)}; }

}  // namespace

TEST_CASE("a process started by hand is a job of one PE") {
  launched it;
  const auto result = it.run({}, {"exchange", "0", "300000"});
  CHECK(result.status == 0);
  CHECK(result.out == "PE 0 of 1 is content\n");
}

TEST_CASE("PEs exchange values under ucx-run") {
  for (const uint32_t n : {1u, 2u, 4u, 8u}) check_exchange(ucx_run(n), n, "300000");
  check_exchange(ucx_run(2), 2, "0");
  check_exchange(ucx_run(2), 2, "8000000");
}

TEST_CASE("a PE that does not come to a fence is an error after the time limit") {
  launched it;
  it.options.environment["GRAVEL_CONNECT_TIMEOUT_S"] = "1";
  const auto result = it.run(ucx_run(3), {"late", "1"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, contains_text("not all 3 PEs came to fence 1") && contains_text("GRAVEL_CONNECT_TIMEOUT_S"));
}

TEST_CASE("several processes without PMIx are an error, not several jobs") {
  using variables = std::map<std::string, std::string>;
  const auto run_with = [](const variables& environment) {
    launched it;
    it.options.environment.insert(environment.begin(), environment.end());
    return it.run({}, {"exchange", "0", "1"});
  };
  const std::pair<const char*, const char*> launchers[] = {{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                           {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                                           {"PALS_RANKID", "PALS_NRANKS"},
                                                           {"ALPS_APP_PE", "ALPS_APP_NRANKS"},
                                                           {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                           {"PMI_RANK", "PMI_SIZE"},
                                                           {"HOROVOD_RANK", "HOROVOD_SIZE"},
                                                           {"RANK", "WORLD_SIZE"}};
  for (const auto& [rank, size] : launchers) {
    INFO(rank << " " << size);
    const auto result = run_with({{rank, "0"}, {size, "4"}});
    CHECK(result.status == 1);
    CHECK_THAT(result.err, contains_text("started 4 processes without PMIx") && contains_text("ucx-run -n 4") &&
                               contains_text(std::string("env -u ") + rank));
  }
  CHECK(run_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).status == 0);  // one process is a job of one PE
  CHECK(run_with({{"WORLD_SIZE", "4"}}).status == 0);                 // nobody's process
  CHECK_THAT(run_with({{"ALPS_APP_PE", "1"}}).err, contains_text("several processes"));
  CHECK_THAT(run_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}).err, contains_text("--mpi=pmix"));
  CHECK_THAT(run_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).err, contains_text("needs PMIx"));
  const auto second = run_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  CHECK(second.status == 1);
  CHECK_THAT(second.err, contains_text("started 2 processes without PMIx") && contains_text("process 0 says"));
  CHECK_THAT(second.err, !contains_text("needs PMIx"));
}

TEST_CASE("a launcher that is gone is an error") {
  launched it;
  it.options.environment["PMIX_NAMESPACE"] = "gone";
  it.options.environment["PMIX_RANK"] = "0";
  it.options.environment["PMIX_SERVER_URI41"] = "gone.0;tcp4://127.0.0.1:1";
  const auto result = it.run({}, {"exchange", "0", "1"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, contains_text("PMIx_Init") && contains_text("Check that the launcher still runs"));
}

#ifdef TEST_MPIRUN
namespace {
std::vector<std::string> mpirun(uint32_t n) { return {TEST_MPIRUN, "--oversubscribe", "-n", std::to_string(n)}; }
}  // namespace

TEST_CASE("PEs exchange values under mpirun") {
  check_exchange(mpirun(1), 1, "300000");
  check_exchange(mpirun(4), 4, "300000");
}

TEST_CASE("a PE that fails ends the job under mpirun") {
  {
    launched it;
    CHECK(it.run(mpirun(4), {"signal", "2", "9"}).status == 137);
  }
  {
    launched it;
    const auto result = it.run(mpirun(4), {"abort", "1", "33"});
    CHECK(result.status == 33);
    CHECK_THAT(result.err, contains_text("PE 1: error: the probe gives up"));
  }
  {
    launched it;
    CHECK(it.run(mpirun(4), {"exit-in-fence", "1", "0"}).status != 0);
  }
}
#endif
