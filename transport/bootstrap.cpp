#include "transport/bootstrap.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/base/error.hpp"
#include "transport/group_bootstrap.hpp"
#include "transport/pmix_bootstrap.hpp"

namespace gravel::detail {

void job_place::find_hosts(const std::function<bool(uint32_t, uint32_t)>& same_host) {
  std::vector<uint32_t> first_of;  // the first PE of each host
  host_of.assign(size, 0);
  for (uint32_t pe = 0; pe < size; ++pe) {
    const auto found = std::find_if(first_of.begin(), first_of.end(), [&](uint32_t a) { return same_host(a, pe); });
    host_of[pe] = static_cast<uint32_t>(found - first_of.begin());
    if (found == first_of.end()) first_of.push_back(pe);
  }
  const auto mine = host_of.begin() + rank;
  local_rank = static_cast<uint32_t>(std::count(host_of.begin(), mine, *mine));
  local_size = static_cast<uint32_t>(std::count(host_of.begin(), host_of.end(), *mine));
}

void bootstrap::put(std::string_view key, std::span<const std::byte> value) {
  staged_.values.emplace_back(key, std::vector<std::byte>(value.begin(), value.end()));
}

std::vector<std::byte> bootstrap::get(uint32_t pe, std::string_view key) {
  if (pe >= size()) fail("get of '{}': there is no PE {}, the job has {} (0 to {})", key, pe, size(), size() - 1);
  for (uint64_t fence = fences_; fence-- > 0;) {  // the latest value counts
    const staged_values then = values_of(pe, fence, key);
    const auto found =
        std::find_if(then.values.rbegin(), then.values.rend(), [&](const auto& value) { return value.first == key; });
    if (found != then.values.rend()) return found->second;
  }
  fail("PE {} has put no value under '{}' before the last fence", pe, key);
}

void bootstrap::fence() {
  exchange(fences_, staged_);
  staged_.values.clear();
  ++fences_;
}

namespace {
std::atomic<bool> joined{false};

template <class Join>
std::unique_ptr<bootstrap> join_once(Join&& join) {
  if (joined) fail("this process has joined its job already");
  std::unique_ptr<bootstrap> job = join();
  joined = true;
  return job;
}
}  // namespace

std::unique_ptr<bootstrap> join_job() {
  return join_once([]() -> std::unique_ptr<bootstrap> {
    if (has_pmix_launcher()) return std::make_unique<pmix_bootstrap>();
    refuse_other_launchers();
    const auto alone = [](const void* mine, uint64_t bytes, void* all) { std::memcpy(all, mine, bytes); };
    return std::make_unique<group_bootstrap>(gravel_process_group{0, 1, alone});
  });
}
std::unique_ptr<bootstrap> join_job(gravel_process_group group) {
  return join_once([&] { return std::make_unique<group_bootstrap>(std::move(group)); });
}

}  // namespace gravel::detail
