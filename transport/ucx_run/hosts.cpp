#include "transport/ucx_run/hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

constexpr uint32_t most_slots = 16384;

uint32_t parse_slots(const std::string& text, const std::string& where) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 1 || value > most_slots)
    fail("{}: '{}' is not a number of slots (1 to {})", where, text, most_slots);
  return value;
}

void add(std::vector<host_slots>& hosts, const std::string& name, uint32_t slots, const std::string& where) {
  // A name that begins with a dash would be an option of the launcher to which it is passed.
  const bool valid = !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == ':' || c == '[' || c == ']';
  });
  if (!valid) fail("{}: '{}' is not the name of a host", where, name);
  for (auto& host : hosts)
    if (host.name == name) {
      host.slots += slots;
      return;
    }
  hosts.push_back({name, slots});
}

/// Splits "name:slots". Several colons are an IPv6 address without slots, unless it stands in brackets.
void add_with_colon(std::vector<host_slots>& hosts, const std::string& text, uint32_t slots, const std::string& where) {
  const size_t colon = text.rfind(':');
  const bool has_slots = colon != std::string::npos &&
                         (std::count(text.begin(), text.end(), ':') == 1 || (colon > 0 && text[colon - 1] == ']'));
  if (!has_slots) return add(hosts, text, slots, where);
  add(hosts, text.substr(0, colon), parse_slots(text.substr(colon + 1), where), where);
}

}  // namespace

std::vector<host_slots> parse_host_list(const std::string& text) {
  std::vector<host_slots> hosts;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) add_with_colon(hosts, item, 1, "--host");
  if (hosts.empty()) fail("--host: no host named");
  return hosts;
}

std::vector<host_slots> parse_hostfile(std::istream& lines, const std::string& name) {
  std::vector<host_slots> hosts;
  uint32_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", name, ++number);
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string host, word;
    if (!(words >> host)) continue;
    uint32_t slots = 1;
    while (words >> word) {
      if (word.starts_with("slots=")) slots = parse_slots(word.substr(6), where);
      else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
        fail("{}: '{}' is not understood; expected `HOST [slots=N]`", where, word);
    }
    add_with_colon(hosts, host, slots, where);
  }
  if (hosts.empty()) fail("{}: no host named in this file", name);
  return hosts;
}

std::vector<host_slots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail_errno("--hostfile " + path);
  return parse_hostfile(file, path);
}

uint32_t total_slots(const std::vector<host_slots>& hosts) {
  uint32_t total = 0;
  for (const auto& host : hosts) total += host.slots;
  return total;
}

std::string own_hostname() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

bool all_local(const std::vector<host_slots>& hosts) {
  const std::string own = own_hostname();
  const std::string short_name = own.substr(0, own.find('.'));
  return std::all_of(hosts.begin(), hosts.end(), [&](const host_slots& host) {
    return host.name == "localhost" || host.name == "127.0.0.1" || host.name == "::1" || host.name == "[::1]" ||
           host.name == own || host.name == short_name;
  });
}

}  // namespace gravel::detail
