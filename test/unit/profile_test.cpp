// What a profiler receives: from the classes of lib/base/profile.hpp, and from the processes of a job.
#include "lib/base/profile.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

using namespace gravel::detail;

namespace {

using names = std::vector<std::string>;

/// The calls of one thread. Ranges as paths: "outer/inner", in order of their beginning.
struct thread_record {
  std::string name;
  names open, ranges;
};
struct process_record {
  std::string program;
  std::vector<thread_record> threads;

  size_t count(const std::string& range) const {
    size_t n = 0;
    for (const auto& thread : threads)
      for (const auto& path : thread.ranges) n += path.substr(path.rfind('/') + 1) == range;
    return n;
  }
  std::set<std::string> paths(const std::string& thread_name) const {
    std::set<std::string> all;
    for (const auto& thread : threads)
      if (thread.name == thread_name) all.insert(thread.ranges.begin(), thread.ranges.end());
    return all;
  }
};

process_record read_record(const std::string& path) {
  process_record found;
  std::ifstream file(path);
  std::string line, number, what;
  std::map<std::string, size_t> index_of;  // of the thread that has this number now
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream words(line);
    words >> number >> what >> std::ws;
    if (const auto [known, is_new] = index_of.try_emplace(number, found.threads.size());
        is_new || (what == "name" && !found.threads[known->second].name.empty())) {
      known->second = found.threads.size();
      found.threads.emplace_back();
    }
    thread_record& thread = found.threads[index_of[number]];
    if (what == "name") {
      std::getline(words, thread.name);
      continue;
    }
    std::string domain, range;
    words >> domain >> std::ws;
    std::getline(words, range);
    CHECK(domain == "gravel");
    if (what == "push") {
      thread.open.push_back(thread.open.empty() ? range : thread.open.back() + "/" + range);
      thread.ranges.push_back(thread.open.back());
    } else {
      REQUIRE_FALSE(thread.open.empty());  // as many ends as beginnings
      thread.open.pop_back();
    }
  }
  file = std::ifstream(path);
  file >> what >> found.program;
  return found;
}

/// This process is recorded, too, from its first range on.
const scratch_directory& own_folder() {
  static const scratch_directory folder;
  static const bool is_set = setenv("NVTX_INJECTION64_PATH", built("test/support/nvtx_record.so").c_str(), 1) == 0 &&
                             setenv("NVTX_RECORD", folder.path().c_str(), 1) == 0;
  REQUIRE(is_set);
  return folder;
}

/// The ranges of a thread that does this.
names ranges_of(const std::function<void()>& work) {
  static int tests = 0;
  const std::string path = own_folder().path() + "/" + std::to_string(getpid()),
                    name = "test " + std::to_string(++tests);
  std::thread([&] {
    name_this_thread(name.c_str());
    work();
  }).join();
  for (const auto& thread : read_record(path).threads)
    if (thread.name == name) {
      CHECK(thread.open.empty());
      return thread.ranges;
    }
  FAIL("the thread's name was not recorded");
  return {};
}

}  // namespace

TEST_CASE("ranges nest, and one that was never begun is none") {
  CHECK(ranges_of([] {
          profile_range outer("outer"), never;
          {
            profile_range inner;
            inner.begin("inner");
            inner.begin("again");
          }
          const profile_range second("second");
        }) == names{"outer", "outer/inner", "outer/second"});
}

TEST_CASE("waiting is one range, however many rounds it takes, and none if it is short") {
  const auto wait = [](profile_wait& w, int rounds, const char* name) {
    for (int i = 0; i < rounds; ++i) w.in_vain(name);
  };
  CHECK(ranges_of([&] {
          profile_wait w;
          wait(w, 1000, "idle");
          w.end();
          wait(w, 32, "short");
          w.end();
          wait(w, 33, "wait");
          wait(w, 1000, "idle");
          wait(w, 1, "wait");
        }) == names{"idle", "wait", "idle", "wait"});
}

TEST_CASE("work ends the waiting before it, and is not inside it") {
  CHECK(ranges_of([] {
          const profile_range all("all");
          profile_wait w;
          for (int i = 0; i < 100; ++i) w.in_vain("idle");
          { const profile_range work("work"); }
          for (int i = 0; i < 100; ++i) w.in_vain("idle");
        }) == names{"all", "all/idle", "all/work", "all/idle"});
}

TEST_CASE("a job: what PEs and aggregators do, without a range for every look in vain") {
  const scratch_directory folder, results;
  const std::string stats = results.path() + "/stats.json";
  const command_result done = run_command(
      {built("transport/ucx-run"), "-n", "2", "--nodes", "2", "--stats=" + stats,
       built("examples/ring_of_messages-cpu"), "--messages", "50", "--hops", "20"},
      {{{"NVTX_INJECTION64_PATH", built("test/support/nvtx_record.so")},
        {"NVTX_RECORD", folder.path()},
        {"GRAVEL_AGGREGATOR_THREADS", "2"},
        {"GRAVEL_TIMEOUT_US", "5000"},  // packets that stay open: a thread with one looks in vain, and waits
        {"GRAVEL_IDLE_US", "3000"}},
       "",
       false});
  INFO(done.err);
  REQUIRE(done.status == 0);

  std::map<std::string, std::vector<process_record>> processes;
  for (const auto& name : folder.entries()) {
    process_record one = read_record(folder.path() + "/" + name);
    for (const auto& thread : one.threads) CHECK(thread.open.empty());
    processes[one.program].push_back(std::move(one));
  }
  REQUIRE(processes.size() == 2);
  REQUIRE(processes["ring_of_messages-cpu"].size() == 2);
  REQUIRE(processes["gravel-aggregator"].size() == 2);

  for (const auto& pe : processes["ring_of_messages-cpu"]) {
    const auto main_thread = pe.paths("");
    for (const char* range : {"gravel_init", "gravel_launch", "gravel_barrier_all", "gravel_barrier_all/gravel_quiet",
                              "gravel_wait_quiescent", "gravel_wait_quiescent/gravel_quiet", "gravel_finalize",
                              "gravel_finalize/gravel_quiet"}) {
      INFO(range);
      CHECK(main_thread.count(range) == 1);
    }
    CHECK(pe.count("gravel_init") == 1);
    CHECK(pe.count("gravel_finalize") == 1);
    CHECK(pe.paths("gravel receiver") == std::set<std::string>{"apply packets"});
  }

  std::map<std::string, size_t> ranges;
  for (const auto& aggregator : processes["gravel-aggregator"]) {
    for (const char* plane : {"gravel plane 0", "gravel plane 1"}) {
      const auto paths = aggregator.paths(plane);
      INFO(plane);
      CHECK(paths.count("idle") == 1);
      CHECK(paths.count("receive") == 1);
    }
    for (const char* range : {"take slots", "send packet", "flush", "receive", "wait", "idle"})
      ranges[range] += aggregator.count(range);
  }
  const auto counted = nlohmann::json::parse(std::ifstream(stats));
  CHECK(ranges["send packet"] == counted["packets"]);
  CHECK(ranges["take slots"] > 0);
  CHECK(ranges["take slots"] <= counted["slots_taken"].get<size_t>() + counted["stalls"].get<size_t>());
  CHECK(ranges["flush"] > 0);
  CHECK(ranges["wait"] > 0);
}
