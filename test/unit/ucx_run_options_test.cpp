// The parts of ucx-run that need no job: command line, lists of hosts, other launchers, tags, directories.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"
#include "transport/ucx_run/connection_gate.hpp"
#include "transport/ucx_run/delegate.hpp"
#include "transport/ucx_run/hosts.hpp"
#include "transport/ucx_run/options.hpp"
#include "transport/ucx_run/output.hpp"
#include "transport/ucx_run/session_directory.hpp"
#include "transport/ucx_run/stop_watch.hpp"
#include "transport/ucx_run/verdict.hpp"

using namespace gravel::detail;
namespace fs = std::filesystem;
using words = std::vector<std::string>;

namespace {

run_options parsed(const words& arguments) {
  const auto result = parse_options(arguments);
  INFO(result.text);
  REQUIRE(result.run.has_value());
  return *result.run;
}

command_result ucx_run(words arguments, const command_options& options = {}) {
  arguments.insert(arguments.begin(), built("transport/ucx-run"));
  return run_command(arguments, options);
}

/// A directory with programs that answer as the launchers do; PATH for ucx-run.
void fake_program(const scratch_directory& directory, const std::string& name, const std::string& answer) {
  const std::string path = directory.path() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\ncat <<EOF\n" << answer << "\nEOF\n";
  REQUIRE(chmod(path.c_str(), 0755) == 0);
}

}  // namespace

TEST_CASE("options end where the program begins") {
  auto run = parsed({"-n", "4", "prog", "-n", "5", "--nodes", "2"});
  CHECK(run.n_pes == 4u);
  CHECK(run.nodes == 0);
  CHECK(run.program == words{"prog", "-n", "5", "--nodes", "2"});
  run = parsed({"--np=3", "--", "-prog", "--", "x"});
  CHECK(run.n_pes == 3u);
  CHECK(run.program == words{"-prog", "--", "x"});
  run = parsed({"-n2", "--tag-output", "--stats", "prog", "-np", "1"});
  CHECK(run.n_pes == 2u);
  CHECK((run.tag_output && run.stats && run.stats_json.empty()));
  CHECK(run.program == words{"prog", "-np", "1"});
  run = parsed({"-np", "2", "-host", "a,b:3", "-x", "A=1", "-x", "B", "-wdir", "/", "prog"});
  CHECK(run.n_pes == 2u);
  CHECK(run.hosts == std::vector<host_slots>{{"a", 1}, {"b", 3}});
  REQUIRE(run.exports.size() == 2);
  CHECK((run.exports[0].first == "A" && run.exports[0].second == "1"));
  CHECK((run.exports[1].first == "B" && !run.exports[1].second));
  CHECK(run.working_directory == "/");
  CHECK_FALSE(parsed({"prog"}).n_pes.has_value());
  run = parsed({"-x", "A=b=c d", "prog", "", "two words"});
  CHECK(run.exports[0].second == "b=c d");
  CHECK(run.program == words{"prog", "", "two words"});
}

TEST_CASE("a wrong command line is an error that names the mistake") {
  struct row {
    words arguments;
    std::string text;
  };
  for (const row& expected : {row{{"-n", "0", "prog"}, "0"},
                              row{{"-n", "x", "prog"}, "x"},
                              row{{"-n", "-1", "prog"}, "-1"},
                              row{{"-n", "2.5", "prog"}, "2.5"},
                              row{{"-n", "99999999999999999999", "prog"}, "9999"},
                              row{{"-n", "1000000", "prog"}, "1000000"},
                              row{{"-n"}, "-n"},
                              row{{}, "no program given"},
                              row{{"-n", "2"}, "no program given"},
                              row{{"-n", "2", "--"}, "no program given"},
                              row{{"--nodes", "0", "prog"}, "0"},
                              row{{"--nodse", "2", "prog"}, "--nodse (did you mean --nodes?)"},
                              row{{"--nodse=2", "prog"}, "--nodse (did you mean --nodes?)"},
                              row{{"-tag-outptu", "prog"}, "-tag-outptu (did you mean --tag-output?)"},
                              row{{"--tag_output", "prog"}, "did you mean --tag-output?"},
                              row{{"--verbose", "prog"}, "unknown option --verbose\n"},
                              row{{"-z", "prog"}, "-z"},
                              row{{"--timeout", "0", "prog"}, "0"},
                              row{{"-x", "=1", "prog"}, "-x =1"},
                              row{{"-x", "A B=1", "prog"}, "A B"},
                              row{{"--host", "a,,b", "prog"}, "--host"},
                              row{{"--host", "a:0", "prog"}, "'0'"},
                              row{{"--host", "-oops", "prog"}, "-oops"},
                              row{{"--host", "a;b", "prog"}, "a;b"},
                              row{{"--hostfile", "/no/such/file", "prog"}, "/no/such/file"},
                              row{{"--host", "a", "--hostfile", "b", "prog"}, "exclude each other"},
                              row{{"--stats=/no/such/directory/x", "prog"}, "/no/such/directory"},
                              row{{"--stats=/tmp", "prog"}, "is a directory"}}) {
    INFO((expected.arguments.empty() ? "(nothing)" : expected.arguments[0] + " ...") << " expecting " << expected.text);
    const auto result = parse_options(expected.arguments);
    CHECK_FALSE(result.run.has_value());
    CHECK(result.status == 2);
    CHECK_THAT(result.text, contains_text(expected.text) && contains_text("--help"));
  }
}

TEST_CASE("mistakes on the command line end ucx-run with status 2 before anything starts") {
  for (const words& arguments :
       {words{"-n", "0", "true"}, {"-n", "x", "true"}, {"-n", "4", "--nodes", "5", "true"}, {}}) {
    const auto result = ucx_run(arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, contains_text("ucx-run: "));
  }
  CHECK_THAT(ucx_run({"-n", "4", "--nodes", "5", "true"}).err,
             contains_text("use -n 5 or more, or --nodes 4 or fewer"));
}

TEST_CASE("help and version") {
  auto result = ucx_run({"--help"});
  CHECK(result.status == 0);
  for (const char* option : {"--np", "--nodes", "--host", "--hostfile", "--stats[=FILE.json]", "--tag-output",
                             "--timeout", "-x", "--wdir", "--dry-run", "Examples:", "Exit status"})
    CHECK_THAT(result.out, contains_text(option));
  result = ucx_run({"--version"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text("ucx-run (Gravel) ") && contains_text("PMIx"));
}

TEST_CASE("lists of hosts") {
  CHECK(parse_host_list("a") == std::vector<host_slots>{{"a", 1}});
  CHECK(parse_host_list("a:2,b.c.d,a") == std::vector<host_slots>{{"a", 3}, {"b.c.d", 1}});
  CHECK(parse_host_list("::1,[fe80::1]:4") == std::vector<host_slots>{{"::1", 1}, {"[fe80::1]", 4}});
  std::istringstream file("# a comment\n\n a slots=4 # more\nb:2\nc slots=1 max_slots=8\na\n");
  const auto hosts = parse_hostfile(file, "F");
  CHECK(hosts == std::vector<host_slots>{{"a", 5}, {"b", 2}, {"c", 1}});
  CHECK(total_slots(hosts) == 8);
  std::istringstream wrong("a\nb slots=many\n"), strange("a what\n"), empty("# nothing\n");
  CHECK_THROWS_WITH(parse_hostfile(wrong, "F"), contains_text("F:2") && contains_text("many"));
  CHECK_THROWS_WITH(parse_hostfile(strange, "F"), contains_text("F:1") && contains_text("what"));
  CHECK_THROWS_WITH(parse_hostfile(empty, "F"), contains_text("no host"));
  CHECK(all_local({}));
  CHECK(all_local({{"localhost", 2}, {"127.0.0.1", 1}, {own_hostname(), 4}}));
  CHECK_FALSE(all_local({{"localhost", 2}, {"some.other.host", 1}}));
}

TEST_CASE("other launchers get the equivalent options") {
  run_options run;
  run.hosts = {{"a", 2}, {"b", 2}};
  run.program = {"prog", "--flag", "two words"};
  const launcher prterun{launcher_kind::prterun, "/p/prterun"}, mpirun{launcher_kind::open_mpi, "/p/mpirun"},
      srun{launcher_kind::srun, "/p/srun"};
  CHECK(launcher_command(mpirun, run, {"GRAVEL_NODES", "V"}, false) == words{"/p/mpirun", "-n", "4", "--host",
                                                                             "a:2,b:2", "-x", "GRAVEL_NODES", "-x", "V",
                                                                             "prog", "--flag", "two words"});
  CHECK(launcher_command(prterun, run, {}, true) ==
        words{"/p/prterun", "-n", "4", "--host", "a:2,b:2", "--allow-run-as-root", "prog", "--flag", "two words"});
  CHECK(launcher_command(srun, run, {"V"}, false) == words{"/p/srun", "--mpi=pmix", "-n", "4", "--nodelist", "a,b",
                                                           "--nodes", "2", "--ntasks-per-node", "2", "prog", "--flag",
                                                           "two words"});
  run.n_pes = 6;
  run.timeout_s = 90;
  run.tag_output = true;
  run.working_directory = "/w";
  run.program = {"prog"};
  CHECK(launcher_command(mpirun, run, {}, false) == words{"/p/mpirun", "-n", "6", "--host", "a:2,b:2",
                                                          "--oversubscribe", "--wdir", "/w", "--tag-output",
                                                          "--timeout", "90", "prog"});
  CHECK(launcher_command(srun, run, {}, false) == words{"/p/srun", "--mpi=pmix", "-n", "6", "--nodelist", "a,b",
                                                        "--nodes", "2", "--overcommit", "--chdir", "/w", "--label",
                                                        "--time=1:30", "prog"});
  run.hostfile = "/f";
  CHECK(launcher_command(prterun, run, {}, false) == words{"/p/prterun", "-n", "6", "--hostfile", "/f", "--map-by",
                                                           ":OVERSUBSCRIBE", "--wdir", "/w", "--output", "tag",
                                                           "--timeout", "90", "prog"});
}

TEST_CASE("ucx-run finds the launcher, and says so if there is none") {
  scratch_directory bin;
  command_options options;
  options.environment = {{"PATH", bin.path() + ":/usr/bin/no:/bin/no"}, {"SLURM_JOB_ID", ""}, {"UCX_TLS", "tcp"}};
  const words job{"--dry-run", "--host", "far:2,away", "--nodes", "1", "prog", "a b"};
  auto result = ucx_run(job, options);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, contains_text("prterun") && contains_text("mpirun") && contains_text("openmpi-bin"));

  // The stand-ins are scripts: they need a PATH with cat.
  options.environment["PATH"] = bin.path();
  fs::create_symlink("/bin/cat", bin.path() + "/cat");
  fake_program(bin, "mpirun", "HYDRA build details:");
  CHECK(ucx_run(job, options).status == 1);  // MPICH's
  fake_program(bin, "srun", "MPI plugin types are...\n\tpmix\n\tpmi2");
  CHECK_THAT(ucx_run(job, options).out, contains_text(bin.path() + "/srun --mpi=pmix -n 3 --nodelist far,away"));
  fake_program(bin, "mpirun.openmpi", "mpirun.openmpi (OpenRTE) 4.1.4");
  CHECK_THAT(ucx_run(job, options).out, contains_text(bin.path() + "/mpirun.openmpi -n 3 "));
  fake_program(bin, "mpirun", "mpirun (Open MPI) 4.1.4");
  result = ucx_run(job, options);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text(bin.path() + "/mpirun -n 3 --host far:2,away:1 ") &&
                             contains_text(" -x GRAVEL_NODES ") && contains_text(" -x UCX_TLS ") &&
                             contains_text(" prog 'a b'\n"));
  fake_program(bin, "prterun", "");
  CHECK_THAT(ucx_run(job, options).out, contains_text(bin.path() + "/prterun -n 3 "));
  options.environment["SLURM_JOB_ID"] = "7";
  CHECK_THAT(ucx_run(job, options).out, contains_text(bin.path() + "/srun "));
}

TEST_CASE("the launcher found is the one that runs, with the variables set") {
  scratch_directory bin;
  command_options options;
  options.environment = {{"PATH", bin.path() + ":/usr/bin:/bin"}, {"SLURM_JOB_ID", ""}};
  fake_program(bin, "prterun", "nodes $GRAVEL_NODES stats $GRAVEL_STATS mine $MINE arguments $*");
  const auto result =
      ucx_run({"-n", "4", "--host", "far", "--nodes", "2", "--stats", "-x", "MINE=a,b", "prog", "x"}, options);
  CHECK(result.status == 0);
  CHECK_THAT(result.out,
             contains_text("nodes 2 stats 1 mine a,b arguments -n 4 --host far:1") && contains_text("prog x\n"));
}

TEST_CASE("a dry run on this host starts nothing") {
  auto result = ucx_run({"--dry-run", "-n", "3", "--nodes", "2", "/bin/echo", "started"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text("3 PEs on this host") && contains_text("GRAVEL_NODES=2 /bin/echo started\n"));
  result = ucx_run({"--dry-run", "--host", "localhost:5", "/bin/echo"});
  CHECK_THAT(result.out, contains_text("5 PEs on this host"));
  result = ucx_run({"--dry-run", "/bin/echo"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, contains_text(" PEs on this host") || contains_text("1 PE"));
}

TEST_CASE("words are quoted as a shell wants them") {
  CHECK(shell_quoted({"a", "-b=c,d", "", "two words", "it's", "$x", "~"}) ==
        "a -b=c,d '' 'two words' 'it'\\''s' '$x' '~'");
}

TEST_CASE("lines are tagged whole however they arrive") {
  line_tagger tagger(7);
  CHECK(tagger.feed("one\ntwo") == "[7] one\n");
  CHECK(tagger.feed("").empty());
  CHECK(tagger.feed(" more\n\nthree") == "[7] two more\n[7] \n");
  CHECK(tagger.finish() == "[7] three\n");
  CHECK(tagger.finish().empty());
  const std::string line(line_tagger::longest, 'x');
  CHECK(tagger.feed(line + "yz") == "[7] " + line + "\n");  // bounded memory
  CHECK(tagger.feed("\n") == "[7] yz\n");
}

TEST_CASE("a session directory is private, and goes with its owner") {
  scratch_directory parent;
  {
    const session_directory session(parent.path());
    struct stat found {};
    REQUIRE(stat(session.path().c_str(), &found) == 0);
    CHECK((found.st_mode & 07777) == 0700);
    fs::create_directories(session.path() + "/some/depth");
    std::ofstream(session.path() + "/some/depth/file") << "text";
    CHECK(parent.entries().size() == 1);
    remove_stale_sessions(parent.path());
    CHECK(parent.entries().size() == 1);  // in use
  }
  CHECK(parent.entries().empty());
  CHECK_THROWS_WITH(session_directory("/no/such/parent"), contains_text("/no/such/parent"));
}

TEST_CASE("only session directories of dead launchers of this user are stale") {
  scratch_directory parent;
  const std::string ours = parent.path() + "/gravel-" + std::to_string(geteuid()) + "-";
  fs::create_directories(ours + "dead/deep");
  std::ofstream(ours + "dead/launcher.pid") << "1\n";
  fs::create_directory(ours + "fresh0");  // just being made: no lock file yet
  fs::create_directory(parent.path() + "/gravel-999999-abcdef");
  fs::create_directory(parent.path() + "/other");
  std::ofstream(ours + "file") << "not a directory";
  fs::create_directory_symlink(parent.path() + "/other", ours + "link");
  remove_stale_sessions(parent.path());
  CHECK_FALSE(fs::exists(ours + "dead"));
  CHECK(parent.entries().size() == 5);
  CHECK(fs::exists(parent.path() + "/other"));
}

TEST_CASE("a process that is stopped long enough, polled often, is found; one that goes on in between is not") {
  using namespace std::chrono_literals;
  bool stopped = true;
  stop_watch watch(2, [&](pid_t) { return stopped; });
  stop_watch::time now{};
  int polls = 0;
  const auto polls_until_found = [&](int most) {
    for (polls = 0; polls < most; now += 10ms) {
      if (!watch.is_due(now)) continue;
      ++polls;
      if (watch.poll(7)) return polls;
    }
    return 0;
  };
  const auto begin = now;
  CHECK(polls_until_found(1000) == 50);
  CHECK(now - begin > 4s);
  CHECK(now - begin < 6s);
  stopped = false;
  CHECK(polls_until_found(3) == 0);
  stopped = true;
  CHECK(polls_until_found(40) == 0);
  now += std::chrono::hours(1);  // the whole job was stopped, and ucx-run with it: that is one look
  CHECK(polls_until_found(2) == 0);
  stopped = false;
  CHECK(polls_until_found(1) == 0);
  stop_watch never(0, [](pid_t) { return true; });
  CHECK_FALSE(never.next().has_value());
  CHECK_FALSE(never.is_due(now));
}

TEST_CASE("the kernel names the owner of the socket at the other end") {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  socklen_t length = sizeof(at);
  const owned_descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(bind(listener.get(), address, length) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  REQUIRE(getsockname(listener.get(), address, &length) == 0);
  owned_descriptor client(socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(connect(client.get(), address, length) == 0);
  const owned_descriptor accepted(accept(listener.get(), nullptr, nullptr));
  struct stat theirs {};
  REQUIRE(fstat(client.get(), &theirs) == 0);
  for (const bool with_list : {false, true}) {
    const auto owner = owner_of_other_end(accepted.get(), with_list);
    REQUIRE(owner.has_value());
    CHECK(owner->user == geteuid());
    CHECK(owner->inode == theirs.st_ino);
  }
  client.reset();
  for (const bool with_list : {false, true}) CHECK_FALSE(owner_of_other_end(accepted.get(), with_list).has_value());
}

TEST_CASE("the failure reported is the cause, if it is seen soon enough") {
  const verdict::time start{};
  const auto later = start + verdict::patience;
  {
    verdict it;
    CHECK_FALSE(it.reached(later, true).has_value());
    CHECK_FALSE(it.when().has_value());
    it.add({1, 3, "an effect"}, evidence::none, start);
    CHECK_FALSE(it.reached(start).has_value());
    CHECK(it.when() == later);
    it.add({2, 4, "another effect"}, evidence::none, start);
    REQUIRE(it.reached(later).has_value());
    CHECK(it.reached(later)->pe == 1);
    CHECK(it.reached(start, true)->exit_status == 3);  // no process is left that could be the cause
  }
  {
    verdict it;
    it.add({1, 3, "an effect"}, evidence::none, start);
    it.add({2, 137, "killed"}, evidence::full, start);
    it.add({3, 139, "killed, too"}, evidence::full, start);
    REQUIRE(it.reached(start).has_value());
    CHECK(it.reached(start)->text == "killed");
  }
  {
    verdict it;
    it.add({1, 1, "an effect"}, evidence::none, start);
    it.add({2, 3, "of its own, and not dead yet"}, evidence::own_status, start);
    it.add({3, 4, "another one"}, evidence::own_status, start);
    CHECK(it.reached(later)->exit_status == 3);
  }
  {
    verdict it;
    it.add({1, 5, "no effect"}, evidence::none, start);
    it.add({2, 3, "of its own, later"}, evidence::own_status, start);
    CHECK(it.reached(later)->exit_status == 5);
  }
  CHECK(is_cause(SIGKILL));
  CHECK(is_cause(SIGSEGV));
  CHECK_FALSE(is_cause(SIGTERM));
  CHECK_FALSE(is_cause(3 << 8));  // exit status 3
}
