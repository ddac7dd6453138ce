// A distributed worklist: how many edges lead from vertex 0 to each vertex? The graph is a path through all PEs.
#include <cstdio>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/worklist.cuh>

struct search {
  static constexpr const char* name = "search";  // the same at all PEs
  using state = gravel::least_keys;              // a vertex keeps the least level that it was offered
  state vertices;                                // gravel_worklist sets it
  GRAVEL_DEVICE uint32_t begin(uint32_t, uint32_t level, uint64_t) const { return level; }  // expands a vertex
  GRAVEL_DEVICE uint32_t along(uint32_t from, uint64_t) const { return from + 1; }          // offers to a neighbour
  GRAVEL_BOTH uint32_t limit_after(uint32_t level) const { return level + 64; }             // levels of one round
  GRAVEL_BOTH uint32_t rank_of(uint32_t level) const { return level / 16; }                 // asynchronous: priority
};

int main() {
  gravel_init<gravel_worklist_delivery<search>>();  // the handler that takes offers of other PEs
  constexpr uint32_t own = 1000;                    // vertices of each PE: 0 to own - 1; own is a vertex of another PE
  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  const gravel::vertex_code codes{10};  // a vertex of any PE is its owner and its number there, which has 10 bits
  const bool is_last = me + 1 == n_pes;
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> targets, ghosts;
  for (uint32_t v = 0; v < own; ++v) {
    offsets.push_back(targets.size());
    if (v + 1 < own || !is_last) targets.push_back(v + 1);
  }
  offsets.push_back(targets.size());
  if (!is_last) ghosts.push_back(codes.code(static_cast<int>(me + 1), 0));

  uint64_t wrong = 0;
  {
    gravel::device_array<uint64_t> rows(offsets);
    gravel::device_array<uint32_t> edges(targets), others(ghosts);
    const gravel::worklist_graph graph{rows.data(), edges.data(), others.data(), codes, own, ghosts.size()};
    gravel_worklist<search> work(search{}, graph, targets.size());  // collective
    work.start();                                                   // collective
    if (me == 0) work.offer(0, 0);                                  // vertex 0, level 0
    work.run();                                                     // collective: until no PE has work
    std::vector<uint32_t> words(own);
    gravel_copy(words.data(), work.vertex_words(), own * sizeof(uint32_t));
    for (uint32_t v = 0; v < own; ++v) wrong += gravel::least_keys::key_of(words[v]) != me * own + v;
  }
  wrong = gravel_sum_all(wrong);
  if (me == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
