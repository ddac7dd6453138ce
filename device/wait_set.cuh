// Waits for, and tests of, several words that other PEs change.
//
// The words that take part are those with status 0, or all if there is no status. A test reads each of them at most
// once and does not wait. A wait is one that gravel_wait_until would be, for one of the words.
//
// What all calls of this file have in common. T: as of gravel_wait_until.
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @param words [count] words, aligned to their type, in this PE's own memory; on the host also variables of the program
// @param count number of words, 0 or more
// @param status [count], in memory that the caller reads: words with another status than 0 are left out. nullptr: none is
// @param compare GRAVEL_EQ, GRAVEL_NE, GRAVEL_GT, GRAVEL_GE, GRAVEL_LT or GRAVEL_LE
// @param value what each word is compared with
// @param values [count], in memory that the caller reads: what each word is compared with
// @param found [count], written by the caller: numbers of words whose condition held, ascending
// @errors a wait in a handler: the job ends with a message that names the call. A wait that lasts for
//   GRAVEL_WATCHDOG_S is reported on stderr, and goes on
#pragma once
#include "device/wait.cuh"

namespace gravel::detail {

/// What a set of words is compared with: one value, or one for each.
template <class T>
struct one_value {
  T value;
  GRAVEL_BOTH T operator[](size_t) const { return value; }
};

/// Words with conditions.
template <class T, class Values>
struct word_set {
  const T* words;
  size_t count;
  const int* status;
  gravel_compare compare;
  Values values;

  GRAVEL_BOTH bool has(size_t i) const { return !status || status[i] == 0; }
  /// Returns the number of the first word of the set from `i` on; `count` if there is none.
  GRAVEL_BOTH size_t next(size_t i) const {
    while (i < count && !has(i)) ++i;
    return i;
  }
  GRAVEL_BOTH bool holds(const gravel_t& g, size_t i) const {
    return compares<T>(poll_word(g, &words[i]), compare, values[i]);
  }
  /// Reads each word once. Calls found(i) for each one whose condition holds, until it returns false.
  template <class Found>
  GRAVEL_BOTH void poll(const gravel_t& g, const Found& found) const {
    for (size_t i = next(0); i < count; i = next(i + 1))
      if (holds(g, i) && !found(i)) return;
  }
  /// Calls poll(g, found) until has_ended(). A set without words has ended. The first word stands for all in the report
  /// of a long wait.
  template <class Found, class Ended>
  GRAVEL_BOTH void await(const gravel_t& g, const Found& found, const Ended& has_ended) const {
    const size_t first = next(0);
    if (first == count) return;
    watched_wait wait;
    for (poll(g, found); !has_ended(); poll(g, found))
      wait.attentively(g, [&] {
        return subject_of_word<T>(g, awaited::word, &words[first], static_cast<comparison>(compare), values[first],
                                  poll_word(g, &words[first]));
      });
  }

  GRAVEL_BOTH bool test_all(const gravel_t& g) const {
    for (size_t i = next(0); i < count; i = next(i + 1))
      if (!holds(g, i)) return false;
    return true;
  }
  GRAVEL_BOTH void await_all(const gravel_t& g) const {
    for (size_t i = next(0); i < count; i = next(i + 1)) gravel_wait_until(g, &words[i], compare, values[i]);
  }
  static constexpr size_t none = ~size_t{0};
  GRAVEL_BOTH size_t test_any(const gravel_t& g) const {
    size_t number = none;
    poll(g, [&](size_t i) {
      number = i;
      return false;
    });
    return number;
  }
  GRAVEL_BOTH size_t await_any(const gravel_t& g) const {
    size_t number = none;
    await(
        g,
        [&](size_t i) {
          number = i;
          return false;
        },
        [&] { return number != none; });
    return number;
  }
  GRAVEL_BOTH size_t test_some(const gravel_t& g, size_t* found) const {
    size_t n = 0;
    poll(g, [&](size_t i) {
      found[n++] = i;
      return true;
    });
    return n;
  }
  GRAVEL_BOTH size_t await_some(const gravel_t& g, size_t* found) const {
    size_t n = 0;
    await(
        g,
        [&](size_t i) {
          found[n++] = i;
          return true;
        },
        [&] { return n != 0; });
    return n;
  }
};

}  // namespace gravel::detail

/// Returns whether `*word compare value` holds. Then what other PEs wrote before the write that made it hold, with a
/// fence between, is visible (to the host: by gravel_copy).
/// @param word aligned to its type, in this PE's own memory; on the host also a variable of the program
/// @return true if the condition held
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test
template <class T>
GRAVEL_BOTH bool gravel_test(const gravel_t& g, const T* word, gravel_compare compare, gravel::detail::same<T> value) {
  gravel::detail::check_handle_everywhere(g, "gravel_test");
  return gravel::detail::compares<T>(gravel::detail::poll_word(g, word), compare, value);
}

/// Returns whether the conditions of all words of the set hold.
/// @return true if all held, or no word takes part
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_all
template <class T>
GRAVEL_BOTH bool gravel_test_all(const gravel_t& g, const T* words, size_t count, const int* status,
                                 gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_all");
  return word_set<T, one_value<T>>{words, count, status, compare, {value}}.test_all(g);
}
/// Returns whether the conditions of all words of the set hold, each compared with a value of its own.
/// @return true if all held, or no word takes part
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_all_vector
template <class T>
GRAVEL_BOTH bool gravel_test_all_vector(const gravel_t& g, const T* words, size_t count, const int* status,
                                        gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_all_vector");
  return word_set<T, const T*>{words, count, status, compare, values}.test_all(g);
}
/// Returns the number of a word of the set whose condition holds.
/// @return the number; SIZE_MAX if there is none
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_any
template <class T>
GRAVEL_BOTH size_t gravel_test_any(const gravel_t& g, const T* words, size_t count, const int* status,
                                   gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_any");
  return word_set<T, one_value<T>>{words, count, status, compare, {value}}.test_any(g);
}
/// Returns the number of a word of the set whose condition holds, each compared with a value of its own.
/// @return the number; SIZE_MAX if there is none
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_any_vector
template <class T>
GRAVEL_BOTH size_t gravel_test_any_vector(const gravel_t& g, const T* words, size_t count, const int* status,
                                          gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_any_vector");
  return word_set<T, const T*>{words, count, status, compare, values}.test_any(g);
}
/// Finds the words of the set whose conditions hold.
/// @return how many words were found
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_some
template <class T>
GRAVEL_BOTH size_t gravel_test_some(const gravel_t& g, const T* words, size_t count, size_t* found, const int* status,
                                    gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_some");
  return word_set<T, one_value<T>>{words, count, status, compare, {value}}.test_some(g, found);
}
/// Finds the words of the set whose conditions hold, each compared with a value of its own.
/// @return how many words were found
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return: it does not wait
/// @source OpenSHMEM 1.5: shmem_test_some_vector
template <class T>
GRAVEL_BOTH size_t gravel_test_some_vector(const gravel_t& g, const T* words, size_t count, size_t* found,
                                           const int* status, gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_test_some_vector");
  return word_set<T, const T*>{words, count, status, compare, values}.test_some(g, found);
}
/// Waits until the condition of each word of the set has held.
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_all
template <class T>
GRAVEL_BOTH void gravel_wait_until_all(const gravel_t& g, const T* words, size_t count, const int* status,
                                       gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_all)) return;
  word_set<T, one_value<T>>{words, count, status, compare, {value}}.await_all(g);
}
/// Waits until the condition of each word of the set has held, each compared with a value of its own.
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_all_vector
template <class T>
GRAVEL_BOTH void gravel_wait_until_all_vector(const gravel_t& g, const T* words, size_t count, const int* status,
                                              gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_all)) return;
  word_set<T, const T*>{words, count, status, compare, values}.await_all(g);
}
/// Waits until the condition of a word of the set holds.
/// @return the number of that word; SIZE_MAX, without a wait, if no word takes part
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_any
template <class T>
GRAVEL_BOTH size_t gravel_wait_until_any(const gravel_t& g, const T* words, size_t count, const int* status,
                                         gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_any)) return word_set<T, one_value<T>>::none;
  return word_set<T, one_value<T>>{words, count, status, compare, {value}}.await_any(g);
}
/// Waits until the condition of a word of the set holds, each compared with a value of its own.
/// @return the number of that word; SIZE_MAX, without a wait, if no word takes part
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_any_vector
template <class T>
GRAVEL_BOTH size_t gravel_wait_until_any_vector(const gravel_t& g, const T* words, size_t count, const int* status,
                                                gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_any)) return word_set<T, const T*>::none;
  return word_set<T, const T*>{words, count, status, compare, values}.await_any(g);
}
/// Waits until the condition of at least one word of the set holds.
/// @return how many words were found; 0, without a wait, if no word takes part
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_some
template <class T>
GRAVEL_BOTH size_t gravel_wait_until_some(const gravel_t& g, const T* words, size_t count, size_t* found,
                                          const int* status, gravel_compare compare, gravel::detail::same<T> value) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_some)) return 0;
  return word_set<T, one_value<T>>{words, count, status, compare, {value}}.await_some(g, found);
}
/// Waits until the condition of at least one word of the set holds, each compared with a value of its own.
/// @return how many words were found; 0, without a wait, if no word takes part
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_wait_until_some_vector
template <class T>
GRAVEL_BOTH size_t gravel_wait_until_some_vector(const gravel_t& g, const T* words, size_t count, size_t* found,
                                                 const int* status, gravel_compare compare, const T* values) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::wait_until_some)) return 0;
  return word_set<T, const T*>{words, count, status, compare, values}.await_some(g, found);
}
