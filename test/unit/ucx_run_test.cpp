// ucx-run as a user sees it: real jobs, and what is left of them.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

namespace fs = std::filesystem;

namespace {

/// A job whose processes and files are its own.
struct job {
  scratch_directory temporary;
  command_options options;
  job() { options.environment["TMPDIR"] = temporary.path(); }

  static std::vector<std::string> words(std::vector<std::string> run_options, std::vector<std::string> task) {
    std::vector<std::string> result{built("transport/ucx-run")};
    result.insert(result.end(), run_options.begin(), run_options.end());
    if (!task.empty()) result.push_back(built("test/jobs/bootstrap_probe"));
    result.insert(result.end(), task.begin(), task.end());
    return result;
  }
  /// Runs it to its end and checks that nothing is left.
  command_result run(std::vector<std::string> run_options, std::vector<std::string> task,
                     const std::string& input = "") {
    command running(words(std::move(run_options), std::move(task)), options);
    if (!input.empty()) running.type(input);
    running.close_input();
    return finish(running);
  }
  command_result finish(command& running) {
    command_result result = running.finish();
    CHECK(running.living().empty());
    CHECK(temporary.entries().empty());
    return result;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

size_t count_stopped(const command& running) {
  size_t count = 0;
  for (const pid_t pid : running.living()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t end = text.rfind(") ");
    if (end != std::string::npos && text[end + 2] == 'T') ++count;
  }
  return count;
}

/// Waits up to ten seconds for it.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    usleep(20'000);
  }
  return false;
}

}  // namespace

TEST_CASE("a job that succeeds says nothing of its own") {
  job it;
  const auto result = it.run({"-n", "2"}, {"exchange", "0", "100"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(lines_of(result.out).size() == 2);
}

TEST_CASE("CUDA loads kernels at the start, unless the environment says otherwise") {
  job it;
  CHECK(it.run({"-n", "1", "--", "/bin/sh", "-c", "echo $CUDA_MODULE_LOADING"}, {}).out == "EAGER\n");
  it.options.environment["CUDA_MODULE_LOADING"] = "LAZY";
  CHECK(it.run({"-n", "1", "--", "/bin/sh", "-c", "echo $CUDA_MODULE_LOADING"}, {}).out == "LAZY\n");
}

TEST_CASE("programs that know nothing of PMIx run, too") {
  job it;
  const auto result = it.run({"-np", "3", "--", "/bin/sh", "-c", "echo one line"}, {});
  CHECK(result.status == 0);
  CHECK(result.out == "one line\none line\none line\n");
  CHECK(result.err.empty());
}

TEST_CASE("the exit status is that of the first PE that fails, and a line says which") {
  struct row {
    std::vector<std::string> task;
    int status;
    std::string pe, how;
  };
  for (const row& expected : {
           row{{"exit", "1", "7"}, 7, "PE 1 (pid ", "ended with exit status 7"},
           row{{"exit", "3", "255"}, 255, "PE 3 (pid ", "ended with exit status 255"},
           row{{"signal", "2", "9"}, 137, "PE 2 (pid ", "killed by signal 9 (Killed)"},
           row{{"signal", "0", "15"}, 143, "PE 0 (pid ", "killed by signal 15 (Terminated)"},
           row{{"abort", "2", "33"}, 33, "PE 2 (pid ", "aborted the job with status 33"},
           row{{"abort", "1", "0"}, 1, "PE 1 (pid ", "aborted the job with status 1"},
           row{{"abort-in-fence", "1", "44"}, 44, "PE 1 (pid ", "aborted the job with status 44"},
           row{{"exit-in-fence", "1", "5"}, 5, "PE 1 (pid ", "ended with exit status 5"},
           row{{"exit-in-fence", "1", "0"}, 1, "PE 1 (pid ", "left the job without finalizing"},
           row{{"absent", "3"}, 1, "PE 3 (pid ", "ended with exit status 0 without joining the job"},
       }) {
    INFO(expected.task[0] << " " << expected.how);
    job it;
    const auto result = it.run({"-n", "4"}, expected.task);
    CHECK(result.status == expected.status);
    CHECK_THAT(result.err, contains_text("ucx-run: " + expected.pe));
    CHECK_THAT(result.err, contains_text("bootstrap_probe) " + expected.how));
  }
}

TEST_CASE("a PE that was killed is named, though it is not dead yet when others have failed because of it") {
  job it;
  const auto result = it.run({"-n", "4"}, {"die-slowly", "2", "7"});
  if (result.err.find("this process may be traced") != std::string::npos) {
    WARN("skipped: no process may trace another here");
    return;
  }
  CHECK(result.status == 137);
  CHECK_THAT(result.err, contains_text("ucx-run: PE 2 (pid ") && contains_text("killed by signal 9 (Killed)"));
  // So is one that ends with a status of its own, where the others end with 1.
  const auto exits = it.run({"-n", "4"}, {"exit-slowly", "2", "1"});
  CHECK(exits.status == 3);
  CHECK_THAT(exits.err, contains_text("ucx-run: PE 2 (pid ") && contains_text("ended with exit status 3"));
}

TEST_CASE("--quiet leaves the status and drops the line") {
  job it;
  const auto result = it.run({"-q", "-n", "2"}, {"exit", "1", "7"});
  CHECK(result.status == 7);
  CHECK(result.err.empty());
}

TEST_CASE("a PE that is killed takes with it PEs that resist, and their orphans") {
  job it;
  const auto result = it.run({"-n", "4"}, {"stubborn", "2"});
  CHECK(result.status == 137);
  for (const char* pe : {"PE 0", "PE 1", "PE 3"})
    CHECK_THAT(result.out, contains_text(std::string(pe) + " heard: PE 2 (pid "));
}

TEST_CASE("a PE that is killed from outside ends the job") {
  job it;
  command running(job::words({"-n", "4"}, {"wait"}), it.options);
  running.await_output(" waits\n", 4);
  for (const pid_t pid : running.living())
    if (pid != running.pid()) {
      kill(pid, SIGKILL);
      break;
    }
  const auto result = it.finish(running);
  CHECK(result.status == 137);
  CHECK_THAT(result.err, contains_text("killed by signal 9 (Killed)"));
}

TEST_CASE("orphans in sessions of their own do not outlive a job that succeeds") {
  job it;
  const auto result = it.run({"-n", "2"}, {"orphan"});
  CHECK(result.status == 0);
  CHECK_THAT(result.err, contains_text("had left running: bootstrap_probe (pid "));
}

TEST_CASE("--timeout ends the job with status 124") {
  job it;
  const auto result = it.run({"-n", "2", "--timeout", "1"}, {"wait"});
  CHECK(result.status == 124);
  CHECK_THAT(result.err, contains_text("ran longer than 1 s (--timeout)"));
}

TEST_CASE("--tag-output keeps lines whole and streams apart") {
  job it;
  const auto result = it.run({"-n", "4", "--tag-output"}, {"lines", "0", "500"});
  CHECK(result.status == 0);
  std::map<std::string, std::vector<std::string>> by_pe;
  for (const auto& line : lines_of(result.out)) {
    REQUIRE(line.size() > 4);
    by_pe[line.substr(0, 4)].push_back(line.substr(4));
  }
  CHECK(by_pe.size() == 4);
  for (int pe = 0; pe < 4; ++pe) {
    const auto& lines = by_pe[std::string(1, '[') + std::to_string(pe) + "] "];
    REQUIRE(lines.size() == 501);
    for (int i = 0; i < 500; ++i)
      CHECK(lines[static_cast<size_t>(i)] == "line " + std::to_string(i) + " of PE " + std::to_string(pe));
    CHECK(lines[500] == "unended");
  }
  for (const auto& line : lines_of(result.err)) CHECK_THAT(line, contains_text("] complaint "));
  CHECK(lines_of(result.err).size() == 2000);
}

TEST_CASE("input goes to PE 0, the others read nothing") {
  job it;
  const auto result = it.run({"-n", "3"}, {"echo"}, "first\nsecond\n");
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text("PE 0 read first\n") && contains_text("PE 0 read second\n"));
  for (const char* pe : {"0", "1", "2"})
    CHECK_THAT(result.out, contains_text(std::string("PE ") + pe + " at end of input\n"));
  CHECK(lines_of(result.out).size() == 5);
}

TEST_CASE("input at a terminal goes to PE 0", "[terminal]") {
  job it;
  it.options.terminal = true;
  command running(job::words({"-n", "2"}, {"echo"}), it.options);
  running.await_output("PE 1 at end of input\n");
  running.type("hello\n");
  running.await_output("PE 0 read hello\n");
  running.type("\x04");
  running.await_output("PE 0 at end of input\n");
  CHECK(it.finish(running).status == 0);
}

TEST_CASE("control-C at a terminal reaches every PE", "[terminal]") {
  job it;
  it.options.terminal = true;
  command running(job::words({"-n", "2"}, {"wait"}), it.options);
  running.await_output(" waits\n", 2);
  running.type("\x03");
  CHECK(it.finish(running).status == 128 + SIGINT);
}

TEST_CASE("control-Z at a terminal stops the whole job, and it can go on", "[terminal]") {
  job it;
  it.options.terminal = true;
  command running(job::words({"-n", "2"}, {"wait"}), it.options);
  running.await_output(" waits\n", 2);
  running.type("\x1a");
  CHECK(comes_true([&] { return count_stopped(running) == 3; }));
  running.signal(SIGCONT);
  CHECK(comes_true([&] { return count_stopped(running) == 0; }));
  running.type("\x03");
  CHECK(it.finish(running).status == 128 + SIGINT);
}

TEST_CASE("a PE that is stopped at its end, when no aggregator looks at it any more, ends the job") {
  for (const char* moment : {"stop-before-end", "stop-after-end", "stop-at-exit"}) {
    INFO(moment);
    job it;
    it.options.environment["GRAVEL_WATCHDOG_S"] = "1";
    auto result = it.run({"-n", "3"}, {moment, "1"});
    CHECK(result.status == 1);
    CHECK_THAT(result.err, contains_text("ucx-run: PE 1 (pid ") && contains_text("has been stopped") &&
                               contains_text("GRAVEL_WATCHDOG_S"));
    // Again with a program that a script starts.
    result = it.run({"-n", "2", "/bin/sh", "-c", "\"$0\" \"$@\"; true"}, {moment, "1"});
    CHECK(result.status == 1);
    CHECK_THAT(result.err, contains_text("has been stopped"));
  }
}

TEST_CASE("signals are passed on to every PE") {
  job it;
  command running(job::words({"-n", "3"}, {"await-signal"}), it.options);
  running.await_output(" waits\n", 3);
  for (const int number : {SIGUSR1, SIGUSR2, SIGHUP, SIGTERM}) {
    running.signal(number);
    running.await_output("got signal " + std::to_string(number) + "\n", 3);
  }
  const auto result = it.finish(running);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
}

TEST_CASE("a second SIGINT kills processes that the first does not end") {
  job it;
  command running(job::words({"-n", "2"}, {"deaf"}), it.options);
  running.await_output(" waits\n", 2);
  running.signal(SIGINT);
  running.await_output("got signal 2\n", 2);
  running.signal(SIGINT);
  const auto result = it.finish(running);
  CHECK(result.status == 128 + SIGINT);
  CHECK_THAT(result.err, contains_text("interrupted twice"));
}

TEST_CASE("no PE outlives a ucx-run that is killed, and the next one removes its directory") {
  job it;
  {
    command running(job::words({"-n", "4"}, {"wait"}), it.options);
    running.await_output(" waits\n", 4);
    running.signal(SIGKILL);
    CHECK(running.living_after_patience().empty());
    CHECK(it.temporary.entries().size() == 1);
  }
  CHECK(it.run({"-n", "1"}, {"exchange", "0", "10"}).status == 0);  // checks that the directory is empty
}

TEST_CASE("a job does not take away the directory of another one") {
  job it;
  command first(job::words({"-n", "1"}, {"wait"}), it.options);
  first.await_output(" waits\n");
  const auto before = it.temporary.entries();
  CHECK(before.size() == 1);
  CHECK(run_command(job::words({"-n", "1"}, {"exchange", "0", "10"}), it.options).status == 0);
  CHECK(it.temporary.entries() == before);
  first.signal(SIGTERM);
  CHECK(it.finish(first).status == 128 + SIGTERM);
}

TEST_CASE("a program that cannot be started is an error that says why") {
  job it;
  write_file(it.temporary.path() + "/plain", "no program", 0644);
  write_file(it.temporary.path() + "/no-first-line", "exit 0\n", 0755);
  write_file(it.temporary.path() + "/no-interpreter", "#!/no/such/interpreter\n", 0755);
  struct row {
    std::string program;
    int status;
    std::string text;
  };
  for (const row& expected :
       {row{"no-such-program", 127, "program not found in PATH"}, row{"./no-such-program", 127, "program not found"},
        row{"/no/such/program", 127, "program not found"}, row{it.temporary.path(), 126, "it is a directory"},
        row{it.temporary.path() + "/plain", 126, "cannot be executed: Permission denied"},
        row{it.temporary.path() + "/no-first-line", 126, "#!/bin/sh"},
        row{it.temporary.path() + "/no-interpreter", 126, "interpreter"}}) {
    INFO(expected.program);
    command running(job::words({"-n", "2", expected.program}, {}), it.options);
    const auto result = running.finish();
    CHECK(result.status == expected.status);
    CHECK_THAT(result.err, contains_text("ucx-run: " + expected.program) && contains_text(expected.text));
    CHECK(running.living().empty());
    CHECK(it.temporary.entries().size() == 3);
  }
}

TEST_CASE("options reach the PEs") {
  job it;
  scratch_directory elsewhere;
  const std::string json = elsewhere.path() + "/net.json";
  it.options.environment["PROBE_VARIABLE"] = "inherited";
  auto result =
      it.run({"-n", "4", "--nodes", "2", "--stats=" + json, "-x", "PROBE_VARIABLE=given", "--wdir", elsewhere.path()},
             {"environment"});
  CHECK(result.status == 0);
  for (const auto& line : {std::string("GRAVEL_NODES=2"), std::string("GRAVEL_STATS=1"), "GRAVEL_STATS_JSON=" + json,
                           std::string("PROBE_VARIABLE=given"), "in " + elsewhere.path()})
    CHECK_THAT(result.out, contains_text(line + "\n"));
  result = it.run({"-n", "1", "--stats"}, {"environment"});
  CHECK_THAT(result.out, contains_text("GRAVEL_STATS=1\n") && contains_text("GRAVEL_STATS_JSON=(unset)\n") &&
                             contains_text("GRAVEL_NODES=(unset)\n") && contains_text("PROBE_VARIABLE=inherited\n"));
}

TEST_CASE("odd environments: the job runs, or an error names what is missing") {
  struct row {
    std::string before;  ///< what a shell does before it becomes ucx-run
    int status;
    std::string text;  ///< of the error
  };
  for (const row& expected : {
           row{"ulimit -S -s 128", 0, ""},
           row{"umask 777", 0, ""},
           row{"trap '' CHLD PIPE XFSZ HUP", 0, ""},
           row{"export PMIX_MCA_gds=ds21 PMIX_MCA_psec=none PMIX_NAMESPACE=outer PMIX_RANK=7 PMIX_HOSTNAME=a,b "
               "OMPI_COMM_WORLD_SIZE=9",
               0, ""},
           row{"export PMIX_MCA_ptl_base_if_include=none PMIX_MCA_ptl_base_remote_connections=1", 0, ""},
           row{"i=3; while [ $i -lt 9 ]; do eval \"exec $i</dev/null\"; i=$((i+1)); done", 0, ""},
           row{"exec <&-", 0, ""},
           row{"unset HOME PATH; export LANG=xx_YY.weird", 0, ""},
           row{"ulimit -f 0", 1, "File too large"},
           row{"ulimit -n 20", 1, "ulimit -n"},
       }) {
    INFO(expected.before);
    job it;
    std::vector<std::string> words{"/bin/bash", "-c", expected.before + "; exec \"$0\" \"$@\""};
    const auto run = job::words({"-n", "2"}, {"exchange", "0", "10"});
    words.insert(words.end(), run.begin(), run.end());
    command running(words, it.options);
    const auto result = it.finish(running);
    INFO(result.err);
    CHECK(result.status == expected.status);
    if (expected.status == 0) CHECK(lines_of(result.out).size() == 2);
    else CHECK_THAT(result.err, contains_text("ucx-run: ") && contains_text(expected.text));
  }
}

TEST_CASE("a host's name, and what interfaces it has, do not matter") {
  if (geteuid() != 0 || run_command({"/bin/sh", "-c", "unshare -n -u true"}).status != 0) {
    WARN("skipped: no namespaces may be made here");
    return;
  }
  const std::string name(63, 'h');
  for (const std::string host : {name, std::string("a,b"), std::string("7[1-3]")}) {
    INFO(host);
    job it;
    command running({"/usr/bin/env", "unshare", "-u", "/bin/sh", "-c",
                     "printf %s '" + host + "' >/proc/sys/kernel/hostname; exec \"$0\" -n 2 \"$1\" exchange 0 10",
                     built("transport/ucx-run"), built("test/jobs/bootstrap_probe")},
                    it.options);
    const auto result = it.finish(running);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
  }
  job it;
  std::vector<std::string> words{"/usr/bin/env", "unshare", "-n"};
  for (const auto& word : job::words({"-n", "2"}, {"exchange", "0", "10"})) words.push_back(word);
  command running(words, it.options);
  const auto result = it.finish(running);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, contains_text("ucx-run: ") && contains_text("ip link set lo up"));
}

TEST_CASE("output that cannot be written is an error with the reason") {
  job it;
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full"};
  for (const auto& word : job::words({"-n", "2", "--tag-output"}, {"lines", "0", "10"})) words.push_back(word);
  command running(words, it.options);
  const auto result = it.finish(running);
  CHECK(result.status != 0);
  CHECK_THAT(result.err, contains_text("ucx-run: standard output: No space left on device"));
}

TEST_CASE("a job inside a job is a job of its own") {
  job it;
  const auto result = it.run({"-n", "1", built("transport/ucx-run"), "-n", "2"}, {"exchange", "0", "10"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text("PE 1 of 2 is content"));
}
