// How much a fuzzer does: NAME_fuzz [--inputs N] [--seed S]. tools/soak starts many of them, each with a seed of its
// own.
#pragma once
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct fuzz_options {
  uint64_t inputs = 100'000;  ///< at least 10000, so that every kind of input occurs
  uint64_t seed = 20261121;

  /// Reads the command line; ends the program if it cannot be read.
  static fuzz_options parse(int argc, char** argv) {
    fuzz_options options;
    for (int i = 1; i < argc; i += 2) {
      uint64_t* value = nullptr;
      if (std::strcmp(argv[i], "--inputs") == 0) value = &options.inputs;
      if (std::strcmp(argv[i], "--seed") == 0) value = &options.seed;
      char* end = nullptr;
      if (value && i + 1 < argc) *value = std::strtoull(argv[i + 1], &end, 10);
      if (!end || end == argv[i + 1] || *end || options.inputs < 10'000) {
        std::fprintf(stderr, "usage: %s [--inputs N, at least 10000] [--seed S]\n", argv[0]);
        std::exit(2);
      }
    }
    input() = {0, options.seed};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these have handlers of their own
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(fault, say_which);
#endif
    return options;
  }

  /// Before each input: which one it is, for the message of a crash; now and then, how far the program has come.
  void note(uint64_t i) const {
    input().number = i;
    if (i % 1'000'000 == 0 && i != 0)
      std::fprintf(stderr, "%llu of %llu inputs\n", static_cast<unsigned long long>(i),
                   static_cast<unsigned long long>(inputs));
  }

  /// The line by which tools/soak knows that all inputs were tried.
  void print_done() const {
    std::printf("%llu inputs of seed %llu\n", static_cast<unsigned long long>(inputs),
                static_cast<unsigned long long>(seed));
  }

 private:
  struct place {
    uint64_t number, seed;
  };
  static place& input() {
    static place now{};
    return now;
  }
  static void say_which(int fault) {
    std::fprintf(stderr, "signal %d at input %llu of seed %llu\n", fault,
                 static_cast<unsigned long long>(input().number), static_cast<unsigned long long>(input().seed));
    std::signal(fault, SIG_DFL);
    std::raise(fault);
  }
};
