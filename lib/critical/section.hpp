// Critical sections: a section is a type whose operator() takes records, and then the arguments of the call.
//
//   struct account { int64_t balance; };
//   struct deposit {
//     static constexpr const char* name = "deposit";
//     GRAVEL_HANDLER void operator()(account& a, int32_t amount) const { a.balance += amount; }
//     // Optional: calls of one key may be combined into one.
//     GRAVEL_HANDLER static int32_t combine(int32_t a, int32_t b) { return a + b; }
//     // Optional, if not all calls of a key may be combined: only calls for which this is equal are.
//     GRAVEL_HANDLER static uint64_t combine_by(int32_t a);
//     // Optional: the section uses only the record. It may then run several times for a call, of which one run counts.
//     static constexpr bool pure = true;
//   };
//
// A section takes one record for each of its 1 to 4 keys. Its return value is the answer of the call. The service has
// the name of its first section; the other sections need no name. A nested section is one with several keys. Its
// records may be at another PE while it runs, so addresses in them mean nothing there.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "device/am.cuh"

namespace gravel::detail {

template <class First, class...>
struct first_type {
  using type = First;
};
template <class... A>
struct section_arguments {
  static constexpr uint32_t count = sizeof...(A);
};
template <class First, class... Rest>
struct first_type<section_arguments<First, Rest...>> {
  using type = First;
};

/// The parameters of a section's operator(): leading parameters `Record&` are for keys, the others are arguments.
template <class Record, uint32_t KEYS, class... P>
struct section_parameters {
  static constexpr uint32_t keys = KEYS;
  using arguments = section_arguments<std::decay_t<P>...>;
  static constexpr bool trivial = (std::is_trivially_copyable_v<std::decay_t<P>> && ...);
  static constexpr bool values = ((!std::is_reference_v<P> || std::is_convertible_v<const std::decay_t<P>&, P>)&&...);
};
template <class Record, uint32_t KEYS, class... P>
struct section_parameters<Record, KEYS, Record&, P...> : section_parameters<Record, KEYS + 1, P...> {};

template <class Record, class F>
struct section_operator {
  static constexpr bool known = false;
};
template <class Record, bool CONST, class Result, class... P>
struct known_section_operator : section_parameters<Record, 0, P...> {
  static constexpr bool known = true, is_const = CONST;
  using result = Result;
};
template <class Record, class S, class R, class... P>
struct section_operator<Record, R (S::*)(P...)> : known_section_operator<Record, false, R, P...> {};
template <class Record, class S, class R, class... P>
struct section_operator<Record, R (S::*)(P...) noexcept> : known_section_operator<Record, false, R, P...> {};
template <class Record, class S, class R, class... P>
struct section_operator<Record, R (S::*)(P...) const> : known_section_operator<Record, true, R, P...> {};
template <class Record, class S, class R, class... P>
struct section_operator<Record, R (S::*)(P...) const noexcept> : known_section_operator<Record, true, R, P...> {};

template <class S>
constexpr bool has_combine = requires {
  &S::combine;
};
/// Does combine take two arguments of the one argument's type, and return one?
template <class S, class Arguments>
constexpr bool combines_well = false;
template <class S, class A>
constexpr bool combines_well<S, section_arguments<A>> = requires(A a) {
  requires std::is_same_v<decltype(S::combine(a, a)), A>;
};

template <class S>
constexpr bool has_combine_by = requires {
  &S::combine_by;
};
/// Does combine_by take the one argument, and return a trivially copyable value?
template <class S, class Arguments>
constexpr bool combine_by_well = false;
template <class S, class A>
constexpr bool combine_by_well<S, section_arguments<A>> = requires(A a) {
  requires std::is_trivially_copyable_v<decltype(S::combine_by(a))>;
};

/// Does the section declare that it uses only its records?
template <class S>
constexpr bool is_pure = [] {
  if constexpr (requires { typename std::bool_constant<S::pure>; }) return S::pure;
  else return false;
}();

/// The rules that a section can break.
enum class section_fault { none, no_operator, not_const, records, arguments, answer, combine, combine_by, pure, made };

/// The first rule that a section breaks.
template <class Record, class S>
constexpr section_fault fault_of_section() {
  if constexpr (!requires { &S::operator(); }) return section_fault::no_operator;
  else {
    using call = section_operator<Record, decltype(&S::operator())>;
    if constexpr (!call::known) return section_fault::no_operator;
    else if constexpr (!call::is_const) return section_fault::not_const;
    else if constexpr (call::keys < 1 || call::keys > 4) return section_fault::records;
    else if constexpr (!call::trivial || !call::values) return section_fault::arguments;
    else if constexpr (!is_value<std::conditional_t<std::is_void_v<typename call::result>, int, typename call::result>>)
      return section_fault::answer;
    else if constexpr (has_combine<S> && (call::keys != 1 || !std::is_void_v<typename call::result> ||
                                          !combines_well<S, typename call::arguments>))
      return section_fault::combine;
    else if constexpr (has_combine_by<S> && !(has_combine<S> && combine_by_well<S, typename call::arguments>))
      return section_fault::combine_by;
    else if constexpr (
        requires { S::pure; } && !requires { typename std::bool_constant<S::pure>; })
      return section_fault::pure;
    else if constexpr (!std::is_default_constructible_v<S>) return section_fault::made;
    else return section_fault::none;
  }
}

/// Reports the fault of a section, once, where critical sections are declared. Other templates use a section without
/// fault in its place (good_section), so that they cause no further errors.
template <class Record, class S>
struct section_check {
  static constexpr section_fault fault = fault_of_section<Record, S>();
  static constexpr bool good = true;
  static_assert(fault != section_fault::no_operator, "a section has one operator(), neither overloaded nor a template");
  static_assert(fault != section_fault::not_const,
                "a section's operator() is const: write const behind its parameters");
  static_assert(fault != section_fault::records, "a section takes 1 to 4 records, by reference, before its arguments");
  static_assert(fault != section_fault::arguments, "a section's arguments are values that are copied byte by byte");
  static_assert(fault != section_fault::answer,
                "a section answers with an integer, an enumeration, a pointer, a float or a double");
  static_assert(fault != section_fault::combine,
                "combine(a, b) is static, takes and returns the argument, and is for sections of one key and one "
                "argument that answer nothing");
  static_assert(fault != section_fault::combine_by,
                "combine_by(a) is static, takes the argument, returns a value that is copied byte by byte, and is for "
                "sections with combine");
  static_assert(fault != section_fault::pure, "pure of a section is a static constexpr bool");
  static_assert(fault != section_fault::made, "a section is made anew for each call: it needs a default constructor");
};
struct no_section {
  template <class Record>
  struct of {
    GRAVEL_BOTH void operator()(Record&) const {}
  };
};
template <class Record, class S, bool GOOD = fault_of_section<Record, S>() == section_fault::none>
struct good_section {
  using type = S;
};
template <class Record, class S>
struct good_section<Record, S, false> {
  using type = no_section::of<Record>;
};

template <class T>
constexpr uint32_t words_of = (sizeof(T) + 3) / 4;

template <class T>
GRAVEL_BOTH void write_words(uint32_t* to, const T& value) {
  uint32_t word[words_of<T>] = {};
  __builtin_memcpy(word, &value, sizeof(T));
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < words_of<T>; ++i) to[i] = word[i];
}
template <class T>
GRAVEL_BOTH T read_words(const uint32_t* from) {
  uint32_t word[words_of<T>];
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < words_of<T>; ++i) word[i] = from[i];
  unpacked_value<T> result;
  __builtin_memcpy(static_cast<void*>(&result.value), word, sizeof(T));
  return result.value;
}

/// What calls of one key must have in common to be combined: the words of S::combine_by() of their argument. There are
/// no words if section S has no combine_by().
template <class S, class Argument>
struct combined_by {
  static constexpr uint32_t words = [] {
    if constexpr (has_combine_by<S>) return words_of<decltype(S::combine_by(std::declval<Argument>()))>;
    else return 0u;
  }();
  uint32_t word[words + 1];  ///< the last one is not used: there are no arrays of size 0

  GRAVEL_BOTH explicit combined_by([[maybe_unused]] const Argument& a) {
    if constexpr (words > 0) write_words(word, S::combine_by(a));
  }
  GRAVEL_BOTH bool operator==([[maybe_unused]] const combined_by& other) const {
    bool same = true;
    if constexpr (words > 0) {
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < words; ++i) same &= word[i] == other.word[i];
    }
    return same;
  }
};

/// The properties of a section, and how its arguments lie in a message.
template <class Record, class Named>
struct section_traits {
  using S = typename good_section<Record, Named>::type;
  using call = section_operator<Record, decltype(&S::operator())>;
  using result = std::remove_cv_t<typename call::result>;
  using arguments = typename call::arguments;
  static constexpr uint32_t keys = call::keys;
  static constexpr bool answers = !std::is_void_v<result>, combines = has_combine<S>, pure = is_pure<S>;

  /// The word at which argument i begins.
  template <class... A>
  GRAVEL_BOTH static constexpr uint32_t offset(section_arguments<A...>, uint32_t i) {
    constexpr uint32_t sizes[] = {words_of<A>..., 0};
    uint32_t at = 0;
    for (uint32_t before = 0; before < i; ++before) at += sizes[before];
    return at;
  }
  static constexpr uint32_t words = offset(arguments{}, arguments::count);

  /// Writes the arguments to `to`.
  template <class... A, class... P>
  GRAVEL_BOTH static void write([[maybe_unused]] uint32_t* to, section_arguments<A...>, P... values) {
    [[maybe_unused]] uint32_t i = 0;
    ((write_words(to + offset(arguments{}, i++), static_cast<A>(values))), ...);
  }
  /// Runs the section with the arguments at `from`.
  template <class... A, class... R>
  GRAVEL_BOTH static result run(const uint32_t* from, section_arguments<A...> list, R&... records) {
    return run_with(from, list, std::index_sequence_for<A...>(), records...);
  }
  template <class... A, size_t... I, class... R>
  GRAVEL_BOTH static result run_with([[maybe_unused]] const uint32_t* from,
                                     [[maybe_unused]] section_arguments<A...> list, std::index_sequence<I...>,
                                     R&... records) {
    return S{}(records..., read_words<A>(from + std::integral_constant<uint32_t, offset(list, I)>::value)...);
  }
};

/// The layout of a call in a message of 4-byte words:
///
///   word 0            kind of the call, and above it the number of the record at its owner
///   ticket            if any section is nested: the room that the caller has reserved
///   keys, values      likewise: the call's keys; the records of its held keys, from the lowest key on
///   slot (2 words)    if any section answers: PE << 40 | offset in its symmetric heap + 1; 0: no answer is wanted
///   arguments
template <class Record, class... Sections>
struct call_layout {
  using record = Record;
  static constexpr uint32_t sections = sizeof...(Sections);
  static constexpr uint32_t largest(std::initializer_list<uint32_t> values) {
    uint32_t most = 0;
    for (uint32_t v : values) most = v > most ? v : most;
    return most;
  }
  static constexpr uint32_t keys = largest({section_traits<Record, Sections>::keys...});
  static constexpr bool nested = keys > 1, answers = (section_traits<Record, Sections>::answers || ...),
                        combines = (section_traits<Record, Sections>::combines || ...);

  /// The kinds are the sections, in their order, and the message that returns a held key.
  static constexpr uint32_t key_return = sections, kinds = sections + nested;
  static constexpr uint32_t kind_bits() {
    uint32_t n = 0;
    while (1u << n < kinds) ++n;
    return n;
  }
  static constexpr uint32_t bits = kind_bits(), kind_mask = (1u << bits) - 1;
  static constexpr uint32_t record_words = words_of<Record>;
  static constexpr uint32_t at_ticket = 1, at_keys = at_ticket + nested, at_values = at_keys + (nested ? keys : 0),
                            at_slot = at_values + (nested ? keys - 1 : 0) * record_words,
                            at_arguments = at_slot + (answers ? 2 : 0),
                            words = at_arguments + largest({section_traits<Record, Sections>::words...});
  static constexpr bool fits = words <= 32;
  struct message {
    uint32_t word[fits ? words : 32];
  };
  /// The kind of section S; `sections` if it is none of them.
  template <class S>
  GRAVEL_BOTH static constexpr uint32_t kind_of() {
    constexpr bool same[] = {std::is_same_v<S, Sections>...};
    for (uint32_t i = 0; i < sections; ++i)
      if (same[i]) return i;
    return sections;
  }
};

// A nested call visits its keys in ascending order.
/// The lowest key above `mine`; `mine` if there is none.
template <uint32_t N>
GRAVEL_BOTH uint32_t next_key(const uint32_t* keys, uint32_t mine) {
  uint32_t next = mine;
  for (uint32_t i = 0; i < N; ++i)
    if (keys[i] > mine && (next == mine || keys[i] < next)) next = keys[i];
  return next;
}
/// Number of different keys below `key`.
template <uint32_t N>
GRAVEL_BOTH uint32_t rank_of(const uint32_t* keys, uint32_t key) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < N; ++i) {
    bool first = keys[i] < key;
    for (uint32_t j = 0; j < i; ++j) first &= keys[j] != keys[i];
    rank += first;
  }
  return rank;
}

}  // namespace gravel::detail
