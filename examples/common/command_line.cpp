#include "examples/common/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <type_traits>
#include <vector>

namespace app {
namespace {

/// CLI::Range takes "nan".
CLI::Validator real_from(double least, double most) {
  const auto check = [=](const std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, wrong] = std::from_chars(text.data(), end, value);
    const bool right = wrong == std::errc() && stop == end && value >= least && value <= most;
    return right ? std::string() : fmt::format("'{}' is not a number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, fmt::format("{} to {}", least, most));
}

/// CLI11 takes -1 for the largest number.
CLI::Validator no_minus() {
  const auto check = [](const std::string& text) {
    return text.starts_with('-') ? fmt::format("'{}' is below 0", text) : std::string();
  };
  return CLI::Validator(check, "");
}

}  // namespace

using option = command_line_option;

option option::range(int least, int most) const { return option(option_->check(CLI::Range(least, most))); }
option option::range(uint32_t least, uint32_t most) const { return option(option_->check(CLI::Range(least, most))); }
option option::range(uint64_t least, uint64_t most) const { return option(option_->check(CLI::Range(least, most))); }
option option::range(double least, double most) const { return option(option_->check(real_from(least, most))); }
option option::range_or_0(uint64_t least, uint64_t most) const {
  return option(option_->check(CLI::IsMember({0}) | CLI::Range(least, most)));
}
option option::one_of(std::initializer_list<const char*> values) const {
  return option(option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end()))));
}
option option::one_of(std::initializer_list<int> values) const {
  return option(option_->check(CLI::IsMember(std::vector<int>(values))));
}
option option::one_of(std::initializer_list<uint32_t> values) const {
  return option(option_->check(CLI::IsMember(std::vector<uint32_t>(values))));
}
option option::delimiter(char between) const { return option(option_->delimiter(between)); }
option option::expected(int values) const { return option(option_->expected(values)); }
option option::excludes(const char* other) const { return option(option_->excludes(std::string(other))); }
option option::type_name(const char* name) const { return option(option_->type_name(name)); }
option option::hidden() const { return option(option_->group("")); }
option option::capture_default_str() const { return option(option_->capture_default_str()); }
size_t option::count() const { return option_->count(); }

command_line::command_line(const char* description, const char* name)
    : owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()) {}
command_line::command_line(CLI::App* app) : app_(app) {}
command_line::command_line(command_line&&) noexcept = default;
command_line::~command_line() = default;

template <class T>
option command_line::add_option(const char* name, T& value, const std::string& text) {
  CLI::Option* const added = app_->add_option(name, value, text);
  if constexpr (std::is_unsigned_v<T> || std::is_same_v<T, std::optional<uint64_t>>) added->check(no_minus());
  return option(added);
}
#define GRAVEL_OPTION_OF(T)                                                         \
  template option command_line::add_option<T>(const char*, T&, const std::string&); \
  template option command_line::add_option<std::vector<T>>(const char*, std::vector<T>&, const std::string&);
GRAVEL_OPTION_OF(int)
GRAVEL_OPTION_OF(uint16_t)
GRAVEL_OPTION_OF(uint32_t)
GRAVEL_OPTION_OF(uint64_t)
GRAVEL_OPTION_OF(float)
GRAVEL_OPTION_OF(double)
GRAVEL_OPTION_OF(std::string)
template option command_line::add_option<std::optional<uint64_t>>(const char*, std::optional<uint64_t>&,
                                                                  const std::string&);
#undef GRAVEL_OPTION_OF
option command_line::add_option(const char* name, const std::function<void(const std::string&)>& take,
                                const std::string& text) {
  return option(app_->add_option_function<std::string>(name, take, text));
}
option command_line::add_flag(const char* name, bool& flag, const std::string& text) {
  return option(app_->add_flag(name, flag, text));
}
option command_line::add_flag(const char* name, const std::function<void()>& set, const std::string& text) {
  return option(app_->add_flag_callback(name, set, text));
}
size_t command_line::count(const char* option) const { return app_->count(option); }
command_line command_line::add_subcommand(const char* name, const char* text) {
  return command_line(app_->add_subcommand(name, text));
}
void command_line::require_subcommand(int count) { app_->require_subcommand(count); }
bool command_line::parsed() const { return app_->parsed(); }

}  // namespace app
