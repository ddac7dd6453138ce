#include "lib/base/team_call.hpp"

namespace gravel::detail {

const team_call_facts& facts_of(team_call call) {
#define GRAVEL_TEAM_CALL_FACTS(name, text, scope, arguments, instead) {text, team_scope::scope, arguments, instead},
  static constexpr team_call_facts all[] = {GRAVEL_TEAM_CALLS(GRAVEL_TEAM_CALL_FACTS)};
#undef GRAVEL_TEAM_CALL_FACTS
  static constexpr team_call_facts unknown{"an unknown call", team_scope::block, "", ""};
  return call < team_call::count ? all[static_cast<size_t>(call)] : unknown;
}

std::string rule_of(team_call call) {
  const team_call_facts& facts = facts_of(call);
  const char* who = "All lanes of the warp that its mask names";
  if (facts.scope == team_scope::block) who = "All threads of the block";
  else if (facts.scope == team_scope::grid) who = "All threads of all blocks of the grid";
  else if (facts.scope == team_scope::task) who = "All threads of the block, or of the task's block,";
  return std::string(who) + " must call " + facts.name + (*facts.arguments ? ", with the same arguments; " : "; ") +
         facts.instead + ".";
}

}  // namespace gravel::detail
