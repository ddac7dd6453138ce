// The error texts of programs that parse their options with CLI11.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lib/base/closest_name.hpp"

namespace gravel::detail {

/// " (did you mean --nodes?)" for the first argument that `app` does not know and that resembles one that it knows;
/// otherwise nothing.
inline std::string suggestion(const CLI::App& app) {
  std::vector<std::string> options, commands;
  const auto add_options = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options())
      if (!option->get_group().empty())  // not hidden
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  };
  add_options(app);
  for (const CLI::App* chosen : app.get_subcommands()) add_options(*chosen);
  for (const CLI::App* known : app.get_subcommands({})) commands.push_back(known->get_name());
  for (const std::string& argument : app.remaining(true)) {
    const bool is_option = argument.starts_with('-');
    const std::string text =
        did_you_mean(is_option ? argument.substr(0, argument.find('=')) : argument, is_option ? options : commands);
    if (!text.empty()) return text;
  }
  return {};
}

/// Two lines for stderr: the error, and where the options are described.
inline std::string text_of(const CLI::App& app, const CLI::ParseError& e) {
  return app.get_name() + ": " + e.what() + suggestion(app) + "\n(" + app.get_name() + " --help lists all options)\n";
}

}  // namespace gravel::detail
