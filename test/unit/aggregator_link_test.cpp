// host/pe/aggregator_link.*: a job of one PE, and programs that are no aggregator. (True ones: the jobs.)
#include "host/pe/aggregator_link.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"

using namespace gravel::detail;

namespace {

/// A process can join one job.
membership& the_job() {
  static membership job(join_job());
  return job;
}

/// The error of a connection to this program.
std::string connecting_to(const std::string& program) {
  return error_of([&] {
    membership& job = the_job();
    job.values.aggregator = program;
    aggregator_link link(job);
    const pe_segment segment = pe_segment::create(make_segment_shape(job.values, job.nodes, 0), 0);
    hello h;
    h.shape = segment.shape();
    h.node_of_pe = {0};
    link.connect(h, segment.descriptor());
  });
}

}  // namespace

TEST_CASE("a PE by itself is the first of its node") {
  const membership& job = the_job();
  CHECK(job.pe == 0);
  CHECK(job.nodes.n_pes() == 1);
  CHECK(job.local_size == 1);
  CHECK(job.is_leader());
  CHECK(job.leader() == 0);
}

TEST_CASE("a program that is not there is named") {
  CHECK_THAT(connecting_to("/nonexistent/aggregator"),
             contains_text("GRAVEL_AGGREGATOR: '/nonexistent/aggregator' is not an executable file"));
}

TEST_CASE("an aggregator that ends at once, or is killed, is an error that says how") {
  const char* const false_program = std::filesystem::exists("/bin/false") ? "/bin/false" : "/usr/bin/false";
  CHECK_THAT(connecting_to(false_program),
             contains_text("while the job was starting, the aggregator of node 0 (process ") &&
                 contains_text("ended with exit status 1; its message is above"));
  const auto script = std::filesystem::temp_directory_path() / ("gravel-link-test-" + std::to_string(getpid()));
  FILE* out = std::fopen(script.c_str(), "w");
  REQUIRE(out);
  std::fputs("#!/bin/sh\nkill -KILL $$\n", out);
  std::fclose(out);
  REQUIRE(chmod(script.c_str(), 0700) == 0);
  CHECK_THAT(connecting_to(script.string()), contains_text("was killed by signal 9"));
  std::filesystem::remove(script);
}
