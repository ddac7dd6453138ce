// How the aggregator's process is started: what it takes from the program, and what it does not.
#include "host/node/aggregator_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/support/catch.hpp"

using namespace gravel::detail;
namespace fs = std::filesystem;

namespace {

/// A script in the aggregator's place, which writes down what it was given.
struct stand_in {
  std::string directory = (fs::temp_directory_path() / "aggregator-test-XXXXXX").string();
  std::string script, report;
  stand_in() {
    REQUIRE(mkdtemp(directory.data()));
    script = directory + "/aggregator";
    report = directory + "/report";
    // The signals by the shell itself and first: dash blocks none in what it starts, and afterwards.
    std::ofstream(script)
        << "#!/bin/sh\nwhile read -r line; do case $line in Sig*) echo \"$line\" ;; esac; done </proc/self/status >"
        << report << "\nreadlink /proc/$$/fd/* >>" << report << "\nexit 0\n";
    chmod(script.c_str(), 0700);
  }
  ~stand_in() { fs::remove_all(directory); }
  std::string run(int listener) const {
    REQUIRE(wait_for_aggregator(spawn_aggregator(script, listener, 1, 1, 1), 60'000));
    std::ostringstream text;
    text << std::ifstream(report).rdbuf();
    return text.str();
  }
};

}  // namespace

TEST_CASE("an aggregator whose status is lost, as the program ignores SIGCHLD, has ended") {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const stand_in aggregator;
  CHECK_FALSE(aggregator.run(0).empty());
  signal(SIGCHLD, before);
}

TEST_CASE("the aggregator inherits its listener and no other descriptor, and no signal that is blocked or ignored") {
  const stand_in aggregator;
  const std::string files = aggregator.directory + "/file-";
  // As a program may have them: without close-on-exec, at low and high numbers.
  int opened[5];
  for (int i = 0; i < 5; ++i) opened[i] = open((files + std::to_string(i)).c_str(), O_RDWR | O_CREAT, 0600);
  const int high = fcntl(opened[4], F_DUPFD, 200);
  REQUIRE(high >= 200);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGUSR2);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0);
  const auto old = signal(SIGUSR1, SIG_IGN);
  for (int listener : {opened[0], opened[3]}) {
    const std::string report = aggregator.run(listener);
    INFO(report);
    for (int i = 0; i < 5; ++i)
      CHECK((report.find(files + std::to_string(i)) != std::string::npos) == (opened[i] == listener));
    CHECK_THAT(report, contains_text("SigBlk:\t0000000000004000"));  // SIGTERM, until its main
    const size_t at = report.find("SigIgn:\t");
    REQUIRE(at != std::string::npos);
    CHECK((std::stoull(report.substr(at + 8), nullptr, 16) & 1ull << (SIGUSR1 - 1)) == 0);
  }
  signal(SIGUSR1, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (int file : opened) close(file);
  close(high);
}
