// Expectations of a job at its PE: a failed one is printed at once and counted; the job ends with the count.
#pragma once
#include <cstdio>
#include <functional>
#include <string>

#include <gravel/gravel.cuh>

inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s\n", gravel_my_pe(), what.c_str());
}
inline void expect_error(const std::string& word, const std::function<void()>& call) {
  std::string text = "(nothing)";
  try {
    call();
  } catch (const gravel::detail::error& e) {
    text = e.what();
  }
  expect(text.find(word) != std::string::npos, "expected an error with '" + word + "' in it, got " + text);
}
