// Errors of the host API. Everything that Gravel throws is a gravel::error. Its text says what was wrong, where, and
// what to do about it.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "lib/base/platform.hpp"

namespace gravel::detail {

struct GRAVEL_API error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws gravel::error with this text.
[[noreturn]] inline void fail_text(const std::string& text) { throw error(text); }

namespace inner {

/// A value in the text of an error: a number, an address, or a string, of which it keeps a view.
class text_value {
 public:
  enum class kind : uint8_t { boolean, character, integer, whole, real, address, text };
  text_value(bool v) : kind_(kind::boolean), whole_(v) {}
  text_value(char v) : kind_(kind::character), integer_(v) {}
  template <std::signed_integral T>
  text_value(T v) : kind_(kind::integer), integer_(v) {}
  template <std::unsigned_integral T>
  text_value(T v) : kind_(kind::whole), whole_(v) {}
  text_value(double v) : kind_(kind::real), real_(v) {}
  template <class T>  // a template, since a pointer would become a bool rather than a const void*
  requires(!std::convertible_to<T*, std::string_view>) text_value(T* v) : kind_(kind::address), address_(v) {}
  text_value(std::nullptr_t) = delete;
  template <class T>
  requires std::convertible_to<const T&, std::string_view> text_value(const T& v) : kind_(kind::text), text_(v) {}

  /// Calls `f` with the value, as the type of its kind.
  template <class F>
  void visit(F f) const {
    switch (kind_) {
      case kind::boolean: return f(whole_ != 0);
      case kind::character: return f(static_cast<char>(integer_));
      case kind::integer: return f(integer_);
      case kind::whole: return f(whole_);
      case kind::real: return f(real_);
      case kind::address: return f(address_);
      case kind::text: return f(text_);
    }
  }

 private:
  kind kind_;
  union {
    int64_t integer_;
    uint64_t whole_;
    double real_;
    const void* address_;
    std::string_view text_;
  };
};

/// Not constexpr: a format string that reaches this call does not compile.
void no_value_for_this_field();

/// A format string, which the compiler checks: its fields, `{}` or `{0}`, name every value and no other, and only
/// numbers have a specification, as in `{:#x}`.
template <class... Values>
class text_format {
 public:
  consteval text_format(const char* text) : text_(text) {
    constexpr bool is_number[] = {std::is_arithmetic_v<Values>..., false};
    size_t next = 0, named = 0;
    for (const char* at = text; *at; ++at) {
      if (*at != '{' && *at != '}') continue;
      if (at[1] == *at) {
        ++at;
        continue;
      }
      if (*at == '}') no_value_for_this_field();
      ++at;
      const size_t index = *at >= '0' && *at <= '9' ? static_cast<size_t>(*at++ - '0') : next++;
      if (index >= sizeof...(Values) || (*at == ':' && !is_number[index])) no_value_for_this_field();
      named = index < named ? named : index + 1;
      while (*at != '}')
        if (!*at++) no_value_for_this_field();
    }
    if (named != sizeof...(Values)) no_value_for_this_field();
  }
  const char* text() const { return text_; }

 private:
  const char* text_;
};

[[noreturn]] void fail_with(const char* format, const text_value* values, size_t n);

}  // namespace inner

/// Throws gravel::error with a text formatted as by std::format, from numbers and strings. libgravel formats it, so
/// programs need no library for that.
template <class... Values>
[[noreturn]] void fail(inner::text_format<std::type_identity_t<Values>...> format, const Values&... values) {
  const inner::text_value all[] = {values..., false};
  inner::fail_with(format.text(), all, sizeof...(Values));
}

/// Throws gravel::error with the text "<what>: <strerror(errno)>".
[[noreturn]] void fail_errno(const std::string& what);

/// The text of the exception; `unknown` if it is no std::exception.
inline std::string text_of_thrown(const std::exception_ptr& thrown,
                                  const char* unknown = "something that is no std::exception") {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return unknown;
  }
}

/// The text of the gravel::error that `action` throws; empty if it throws none.
template <class F>
std::string text_of_error(F action) {
  try {
    action();
    return {};
  } catch (const error& e) {
    return e.what();
  }
}

/// Calls `last_words` with the text of an uncaught exception before the process ends. It may end the process itself.
void set_last_words(void (*last_words)(const std::string&));
/// Ends the process because of an uncaught exception: last words, one line on stderr, exit status 1.
[[noreturn]] void end_by_exception(const std::string& text);
/// Makes an uncaught exception end the process by end_by_exception(), instead of a core dump. A program and libgravel
/// may each contain a C++ library. Each of the two has a terminate handler of its own then, so each of the two calls
/// this function, and each has a copy of it: hidden, because the linker would let libgravel call that of the program.
[[gnu::visibility("hidden")]] inline void install_terminate_handler() {
  std::set_terminate([] {
    const std::exception_ptr pending = std::current_exception();
    end_by_exception(pending ? text_of_thrown(pending, "uncaught exception of unknown type")
                             : "terminate called without an exception");
  });
}

/// Waits a moment, so that the process that failed first can report the cause, and the launcher can end this process.
/// To be called before a report of what is only a consequence of that failure: then only the cause is reported.
void wait_for_root_cause();

}  // namespace gravel::detail
