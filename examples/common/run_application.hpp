// run_application: how every application runs, from its command line to its exit status.
//
// An application is a type of options and a function. The options O have, as far as they apply:
//
//   void add_options(command_line&)      declares them
//   void check()                         before gravel_init: throws gravel::error for values that do not go together;
//                                        it may also be check(const command_line&), and set what was not given
//   uint64_t symmetric_bytes() const     what the run needs of the symmetric heap
//   void complete()                      after gravel_init: sets what depends on the job or the device; throws
//                                        gravel::error, at all PEs, for values that do not go with the job
//   std::string dump, json               --dump and --json, which run_application declares
//
// The function `bool run(const O&, fact_list&)` is called at every PE. It does the work, prints at PE 0, verifies the
// result, and returns whether the result is right, the same at all PEs. The facts that it fills in at PE 0 are written
// to the file of --json.
#pragma once
#include <chrono>
#include <cstdio>
#include <utility>

#include <gravel/gravel.cuh>
#include "examples/common/command_line.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/together.hpp"

namespace app {

struct application {
  const char* name;         ///< of the program, in all that it prints
  const char* description;  ///< for --help
};

// What options have.
template <class O>
concept has_dump = requires(O& o) {
  o.dump;
};
template <class O>
concept has_json = requires(O& o) {
  o.json;
};
template <class O>
concept has_check = requires(O& o) {
  o.check();
};
template <class O>
concept has_check_of_line = requires(O& o, const command_line& line) {
  o.check(line);
};
template <class O>
concept has_symmetric_bytes = requires(const O& o) {
  o.symmetric_bytes();
};
template <class O>
concept has_complete = requires(O& o) {
  o.complete();
};

/// Runs an application. Returns the status for main: 0, exit_wrong_result or exit_bad_usage.
/// Handlers: what gravel_init registers.
template <class... Handlers, class Options, class Run>
int run_application(const application& what, int argc, char** argv, Options options, Run&& run) {
  command_line line(what.description, what.name);
  options.add_options(line);
  if constexpr (has_dump<Options>) add_dump_option(line, options.dump);
  if constexpr (has_json<Options>) line.add_option("--json", options.json, "Write the results to this file too");
  parse_or_exit(line, argc, argv, [&] {
    if constexpr (has_check_of_line<Options>) options.check(line);
    if constexpr (has_check<Options>) options.check();
    if constexpr (has_symmetric_bytes<Options>) need_symmetric(options.symmetric_bytes());
    if constexpr (has_json<Options>)
      if (!options.json.empty()) need_writable(options.json);
  });

  gravel_init<Handlers...>();
  if constexpr (has_complete<Options>) {
    try {
      options.complete();
    } catch (const gravel::error& e) {
      if (gravel_my_pe() == 0) std::fprintf(stderr, "%s: %s\n", what.name, e.what());
      gravel_finalize();
      return exit_bad_usage;
    }
  }
  fact_list facts;
  const bool right = run(std::as_const(options), facts);
  if constexpr (has_json<Options>)
    all_succeed(what.name, [&] {
      if (gravel_my_pe() == 0 && !options.json.empty() && !facts.empty()) write_json(options.json, facts);
    });
  return finish(what.name, right);
}

/// What the facts of most applications begin with.
inline fact_list facts_of_job(const char* program) {
  return {{"program", program},
          {"backend", gravel_backend()},
          {"pes", static_cast<uint64_t>(gravel_n_pes())},
          {"nodes", static_cast<uint64_t>(gravel_n_nodes())}};
}

/// Waits until all PEs are ready for work that is timed. Collective. Who waits long for the others sleeps, and wakes up
/// some 100 us after them; nobody waits long for the second barrier.
inline void wait_to_begin_together() {
  gravel_barrier_all();
  gravel_barrier_all();
}
/// Seconds that `work` takes at this PE.
template <class Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace app
