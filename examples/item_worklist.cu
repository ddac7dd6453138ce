// A distributed worklist of items: in how many ways can n queens (8; an argument of 1 to 17) be placed on a board of
// n x n? The search begins at PE 0. PEs that have no boards get some of others.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/item_worklist.cuh>

struct board {                              // with queens in the first rows
  uint32_t rows, columns, falling, rising;  // number of rows; bits of columns, and of diagonals in the next row
  GRAVEL_BOTH board with(uint32_t queen) const {
    return {rows + 1, columns | queen, (falling | queen) << 1, (rising | queen) >> 1};
  }
  GRAVEL_BOTH uint32_t free(uint32_t n) const { return ~(columns | falling | rising) & ((1u << n) - 1); }
};

struct queens {
  static constexpr const char* name = "queens";  // the same at all PEs
  using item = board;
  uint32_t n, alone;  // a lane counts the last rows alone
  int me;
  unsigned long long* solutions;  // of this PE

  GRAVEL_DEVICE int owner(const board&) const { return me; }  // boards stay, unless another PE has none
  GRAVEL_DEVICE uint32_t priority(const board& b) const { return n - b.rows; }  // the fullest first: few boards wait
  GRAVEL_DEVICE void process(const gravel_item_list<queens>& list, const board& b) const {
    if (b.rows + alone >= n) atomicAdd(solutions, count(b));
    else
      for (uint32_t left = b.free(n); left != 0; left &= left - 1) list.push(b.with(left & (~left + 1)));
  }

 private:
  GRAVEL_DEVICE unsigned long long count(const board& b) const {
    board path[9];  // as many as rows that a lane counts alone
    uint32_t left[9];
    unsigned long long found = 0;
    path[0] = b;
    left[0] = b.free(n);
    for (int depth = 0; depth >= 0;) {
      const uint32_t queen = left[depth] & (~left[depth] + 1);
      left[depth] &= ~queen;
      if (queen == 0) --depth;
      else if (path[depth].rows + 1 == n) ++found;
      else {
        path[depth + 1] = path[depth].with(queen);
        ++depth;
        left[depth] = path[depth].free(n);
      }
    }
    return found;
  }
};

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 8;
  const uint32_t n = wanted >= 1 && wanted <= 17 ? static_cast<uint32_t>(wanted) : 8;
  gravel_init<gravel_item_delivery<queens>>();  // the handler that takes boards of other PEs
  constexpr uint64_t known[] = {1,   1,   0,    0,     2,     10,     4,       40,       92,
                                352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104};
  uint64_t found = 0, moved = 0;
  {
    gravel::device_array<unsigned long long> solutions(std::vector<unsigned long long>(1, 0));
    const queens program{n, n > 12 ? 9u : 3u, gravel_my_pe(), solutions.data()};
    gravel_item_worklist<queens> work(program, {.ranks = 32, .items_move = true});  // collective
    if (gravel_my_pe() == 0) work.offer({});
    work.run();  // collective: until no PE has a board
    gravel_copy(&found, solutions.data(), sizeof(found));
    moved = gravel_sum_all(work.counts().moved);
  }
  found = gravel_sum_all(found);
  const bool right = found == known[n];
  if (gravel_my_pe() == 0)
    std::printf("%u queens: %llu ways, %llu boards moved: %s\n", n, (unsigned long long)found,
                (unsigned long long)moved, right ? "ok" : "WRONG");
  gravel_finalize();
  return right ? 0 : 1;
}
