// Options of a program's command line: CLI11 behind functions that are compiled once. Its headers alone cost nvcc ten
// seconds a program.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace app {

/// An option of a command_line, which owns it. Each function gives the option back, for the next one.
class command_line_option {
 public:
  explicit command_line_option(CLI::Option* option) : option_(option) {}

  /// Only values from `least` to `most`; of real numbers no "nan".
  command_line_option range(int least, int most) const;
  command_line_option range(uint32_t least, uint32_t most) const;
  command_line_option range(uint64_t least, uint64_t most) const;
  command_line_option range(double least, double most) const;
  command_line_option range_or_0(uint64_t least, uint64_t most) const;
  /// Only these values.
  command_line_option one_of(std::initializer_list<const char*> values) const;
  command_line_option one_of(std::initializer_list<int> values) const;
  command_line_option one_of(std::initializer_list<uint32_t> values) const;
  /// Splits the values of a list.
  command_line_option delimiter(char between) const;
  /// How many values it takes.
  command_line_option expected(int values) const;
  command_line_option excludes(const char* other) const;
  /// What --help calls its value.
  command_line_option type_name(const char* name) const;
  /// --help does not name it: it is for tests.
  command_line_option hidden() const;
  /// --help shows the value that the variable has now.
  command_line_option capture_default_str() const;

  /// How often it was given.
  size_t count() const;
  CLI::Option& parser() const { return *option_; }

 private:
  CLI::Option* option_;
};

/// A command line, or that of one of its subcommands; parse_or_exit() (examples/common/program.hpp) parses it.
class command_line {
 public:
  explicit command_line(const char* description, const char* name = "");
  ~command_line();
  command_line(command_line&&) noexcept;

  /// An option whose value goes to `value`: int, uint16_t, uint32_t, uint64_t, float, double, std::string, a
  /// std::vector of these, or std::optional<uint64_t>.
  template <class T>
  command_line_option add_option(const char* name, T& value, const std::string& text);
  /// An option whose value goes to a function, when all are parsed, in the order in which options were added.
  command_line_option add_option(const char* name, const std::function<void(const std::string&)>& take,
                                 const std::string& text);
  /// An option without a value: sets `flag`, or calls `set` as above.
  command_line_option add_flag(const char* name, bool& flag, const std::string& text);
  command_line_option add_flag(const char* name, const std::function<void()>& set, const std::string& text);
  /// How often an option was given.
  size_t count(const char* option) const;

  /// The command line of a subcommand. It lives as long as this one.
  command_line add_subcommand(const char* name, const char* text);
  void require_subcommand(int count);
  /// Whether the subcommand was given.
  bool parsed() const;

  /// For who needs more of CLI11, and includes it.
  CLI::App& parser() const { return *app_; }

 private:
  explicit command_line(CLI::App* app);
  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
};

}  // namespace app
