#include "transport/group_bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/base/error.hpp"
#include "lib/base/process_identity.hpp"

namespace gravel::detail {
namespace {

/// A larger number of bytes in one fence is a mistake of the group's allgather.
constexpr uint64_t most_bytes = uint64_t{1} << 30;

/// Every PE's part of the first exchange. It shows whether the group's allgather works.
struct introduction {
  static constexpr uint64_t expected_magic = 0x6772'6176'656c'3031;  // "gravel01"
  uint64_t magic = expected_magic, pe, n_pes;
  process_identity process;
};

void call_allgather(const gravel_process_group& group, const void* mine, uint64_t bytes, void* all) {
  try {
    group.allgather(mine, bytes, all);
  } catch (const error&) {
    throw;
  } catch (const std::exception& e) {
    fail("gravel_init: PE {}: the process group's allgather failed: {}", group.pe, e.what());
  }
}

job_place introduce(const gravel_process_group& group) {
  if (group.n_pes < 1 || group.pe < 0 || group.pe >= group.n_pes)
    fail("gravel_init: a process group of {} PEs has no PE {}: numbers are 0 to {}", group.n_pes, group.pe,
         group.n_pes - 1);
  if (!group.allgather) fail("gravel_init: the process group has no allgather");
  job_place place;
  place.rank = static_cast<uint32_t>(group.pe);
  place.size = static_cast<uint32_t>(group.n_pes);
  introduction mine{};
  mine.pe = place.rank;
  mine.n_pes = place.size;
  mine.process = this_process();
  std::vector<introduction> all(place.size);
  for (introduction& i : all) i.magic = 0;
  call_allgather(group, &mine, sizeof(mine), all.data());
  for (uint32_t pe = 0; pe < place.size; ++pe) {
    const introduction& theirs = all[pe];
    if (theirs.magic != introduction::expected_magic)
      fail(
          "gravel_init: at PE {} the process group's allgather did not deliver what PE {} passed. It must copy the "
          "bytes of every PE to `all`, in the order of their numbers; and all PEs must run the same version of Gravel",
          group.pe, pe);
    if (theirs.n_pes != place.size)
      fail("gravel_init: PE {} says that the process group has {} PEs, PE {} says {}", group.pe, place.size, pe,
           theirs.n_pes);
    if (theirs.pe != pe)
      fail(
          "gravel_init: the process group's allgather delivered the bytes of PE {} at the place of PE {}. Two PEs have "
          "one number, or the order is wrong",
          theirs.pe, pe);
  }
  place.find_hosts([&](uint32_t a, uint32_t b) { return on_one_host(all[a].process, all[b].process); });
  return place;
}

}  // namespace

group_bootstrap::group_bootstrap(gravel_process_group group) : bootstrap(introduce(group)), group_(std::move(group)) {}

void group_bootstrap::exchange(uint64_t, const staged_values& mine) {
  std::vector<std::byte> packed = to_wire(mine);
  const uint64_t bytes = packed.size();
  std::vector<uint64_t> bytes_of(size());
  call_allgather(group_, &bytes, sizeof(bytes), bytes_of.data());
  const uint64_t most = *std::max_element(bytes_of.begin(), bytes_of.end());
  if (most > most_bytes || bytes_of[rank()] != bytes)
    fail("gravel_init: the process group's allgather has changed the bytes of a PE: {} bytes are said to come", most);
  packed.resize(most);
  std::vector<std::byte> all(most * size());
  call_allgather(group_, packed.data(), most, all.data());
  std::vector<staged_values> values;
  for (uint32_t pe = 0; pe < size(); ++pe)
    values.push_back(
        from_wire<staged_values>(std::span(all).subspan(pe * most, bytes_of[pe]), fmt::format("PE {}", pe)));
  values_.push_back(std::move(values));
}

}  // namespace gravel::detail
