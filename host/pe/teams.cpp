#include "host/pe/teams.hpp"

#include <algorithm>
#include <cstring>

#include "host/pe/collectives.hpp"
#include "host/pe/runtime.hpp"
#include "lib/base/error.hpp"
#include "lib/base/join_rendezvous.hpp"

namespace gravel::detail {
namespace {

constexpr uint32_t node_id = 1, mapped_id = 2;
static_assert(mapped_id < block_scratch::fixed_teams);

std::vector<uint32_t> all_pes(uint32_t n) {
  std::vector<uint32_t> pes(n);
  for (uint32_t pe = 0; pe < n; ++pe) pes[pe] = pe;
  return pes;
}
/// The step of a progression; 0: these are none.
int32_t step_of(const std::vector<uint32_t>& pes) {
  if (pes.size() == 1) return 1;
  const auto step = static_cast<int32_t>(pes[1] - pes[0]);
  for (size_t i = 2; i < pes.size(); ++i)
    if (static_cast<int32_t>(pes[i] - pes[i - 1]) != step) return 0;
  return step;
}

/// By PE: the set of PEs whose memory the kernels of that PE reach, as bits.
class reach_matrix {
 public:
  explicit reach_matrix(const runtime& job) : n_(job.nodes().n_pes()), words_((n_ + 63) / 64) {}
  void gather_from(const std::vector<bool>& mine) {
    std::vector<uint64_t> row(words_);
    for (uint32_t pe = 0; pe < n_; ++pe) row[pe / 64] |= uint64_t{mine[pe]} << pe % 64;
    rows_.resize(n_ * words_);
    gather(rows_.data(), row.data(), words_ * sizeof(uint64_t));
  }
  bool reaches(uint32_t from, uint32_t to) const { return rows_[from * words_ + to / 64] >> to % 64 & 1; }
  bool is_same_row(uint32_t a, uint32_t b) const {
    return std::equal(&rows_[a * words_], &rows_[a * words_] + words_, &rows_[b * words_]);
  }

 private:
  uint32_t n_;
  size_t words_;
  std::vector<uint64_t> rows_;
};

void make_fixed_teams(runtime& job) {
  if (job.teams().of[node_id].team.n_pes) return;
  const uint32_t me = job.pe();
  reach_matrix all(job);
  all.gather_from(job.reached());
  const std::vector<uint32_t> of_node = job.nodes().pes_of(job.nodes().node_of(me));
  bool directly = true;
  for (const uint32_t from : of_node)
    for (const uint32_t to : of_node) directly &= all.reaches(from, to);
  std::vector<uint32_t> mapped;  // PEs with the same row as this one reach each other, as each reaches itself
  for (uint32_t pe = 0; pe < job.nodes().n_pes(); ++pe)
    if (all.is_same_row(pe, me)) mapped.push_back(pe);
  make_team(node_id, 0, of_node, directly);
  make_team(mapped_id, 0, mapped, true);
  job.begin_collective(collective_kind::gather).combine();  // no PE uses a team before its memory is ready everywhere
}

/// The entry of a team; nullptr: it is over.
const team_table::entry* find(const runtime& job, const gravel_team_t& team) {
  const team_table::entry& found = job.teams().of[team.id % block_scratch::teams];
  return found.team == team ? &found : nullptr;
}

}  // namespace

const std::vector<uint32_t>& members_of(const gravel_team_t& team, const char* call) {
  const runtime& job = waiting_runtime(call);
  gravel_team_world();  // it is in the table
  if (team.n_pes == 0) fail("{}: PE {} is no member of this team: a split returns {{}} at such PEs", call, job.pe());
  const team_table::entry* const found = find(job, team);
  if (!found) fail("{}: gravel_team_destroy has ended this team", call);
  return found->pes;
}
uint32_t free_team_ids() {
  const team_table& teams = waiting_runtime("a split of a team").teams();
  uint32_t free = 0;
  for (uint32_t id = block_scratch::fixed_teams; id < block_scratch::teams; ++id)
    if (teams.of[id].team.n_pes == 0) free |= 1u << id;
  return free;
}
uint32_t last_team_serial() { return waiting_runtime("a split of a team").teams().last_serial; }
bool reaches_all_of(const std::vector<uint32_t>& pes) {
  const std::vector<bool> reached = waiting_runtime("a split of a team").reached();
  return std::all_of(pes.begin(), pes.end(), [&](uint32_t pe) { return reached[pe]; });
}

gravel_team_t make_team(uint32_t id, uint32_t serial, const std::vector<uint32_t>& pes, bool directly) {
  runtime& job = waiting_runtime("a split of a team");
  const auto me = static_cast<uint32_t>(std::find(pes.begin(), pes.end(), job.pe()) - pes.begin());
  const gravel_team_t team{id, static_cast<uint32_t>(pes.size()), me, pes[0], step_of(pes), serial, directly};
  team_table& teams = job.teams();
  teams.of[id] = {team, pes};
  teams.last_serial = std::max(teams.last_serial, serial);
  const gravel_t& g = job.memory().of_kernels();
  block_scratch* const scratch = block_scratch::of(g.scratch, id, g.n_pes);
  block_scratch words{};
  std::memset(static_cast<void*>(&words), 0, sizeof(words));
  words.team = team;
  job.device().copy(scratch, &words, sizeof(words));
  if (team.stride == 0) job.device().copy(scratch->members(g.n_pes), pes.data(), pes.size() * sizeof(uint32_t));
  return team;
}
gravel_team_t set_directly(uint32_t id, bool directly) {
  runtime& job = waiting_runtime("gravel_team_join");
  gravel_team_t& team = job.teams().of[id].team;
  team.directly = directly;
  const gravel_t& g = job.memory().of_kernels();
  job.device().copy(&block_scratch::of(g.scratch, id, g.n_pes)->team, &team, sizeof(team));
  return team;
}
uint64_t next_team_id() {
  runtime& job = current_runtime("gravel_team_unique_id");
  return join_rendezvous::id_of(job.pe(), ++job.teams().ids);
}

}  // namespace gravel::detail

using namespace gravel::detail;

gravel_team_t gravel_team_world() {
  runtime& job = current_runtime("gravel_team_world");
  team_table::entry& world = job.teams().of[0];
  if (world.team.n_pes == 0) {
    const gravel_t& g = job.memory().of_kernels();
    world = {{0, g.n_pes, g.my_pe, 0, 1, 0, g.all_mapped}, all_pes(g.n_pes)};
  }
  return world.team;
}
gravel_team_t gravel_team_node() {
  runtime& job = waiting_runtime("gravel_team_node");
  make_fixed_teams(job);
  return job.teams().of[node_id].team;
}
gravel_team_t gravel_team_mapped() {
  runtime& job = waiting_runtime("gravel_team_mapped");
  make_fixed_teams(job);
  return job.teams().of[mapped_id].team;
}
int gravel_team_translate_pe(const gravel_team_t& from, int pe, const gravel_team_t& to) {
  constexpr const char* call = "gravel_team_translate_pe";
  if (static_cast<uint32_t>(pe) >= from.n_pes || to.n_pes == 0) return -1;
  const std::vector<uint32_t>& others = members_of(to, call);
  const auto at = std::find(others.begin(), others.end(), members_of(from, call)[static_cast<uint32_t>(pe)]);
  return at == others.end() ? -1 : static_cast<int>(at - others.begin());
}
void gravel_team_destroy(const gravel_team_t& team) {
  constexpr const char* call = "gravel_team_destroy";
  runtime& job = waiting_runtime(call);
  if (team.n_pes == 0) return;
  if (team.id < block_scratch::fixed_teams)
    fail("{}: the teams of the job, of its nodes and of mapped peers end with the job", call);
  members_of(team, call);  // it is not over
  job.teams().of[team.id] = {};
  const gravel_t& g = job.memory().of_kernels();
  const gravel_team_t none{};
  job.device().copy(&block_scratch::of(g.scratch, team.id, g.n_pes)->team, &none, sizeof(none));
}
