// Lists of hosts, in mpirun's format.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace gravel::detail {

struct host_slots {
  std::string name;
  uint32_t slots = 1;
  bool operator==(const host_slots&) const = default;
};

/// Parses "a,b:4": a with 1 slot, b with 4. A host named twice has the sum. Throws gravel::error.
std::vector<host_slots> parse_host_list(const std::string& text);

/// Parses lines "HOST", "HOST slots=N" or "HOST:N"; `#` begins a comment. `name` is for messages. Throws gravel::error.
std::vector<host_slots> parse_hostfile(std::istream& lines, const std::string& name);
std::vector<host_slots> read_hostfile(const std::string& path);

uint32_t total_slots(const std::vector<host_slots>& hosts);

/// True if all of them name this machine (localhost, a loopback address, its own name), or the list is empty.
bool all_local(const std::vector<host_slots>& hosts);

/// This machine's name.
std::string own_hostname();

}  // namespace gravel::detail
