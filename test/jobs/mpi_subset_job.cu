// The subset of MPI over Gravel (lib/gravel/mpi_subset, docs/mpi.md): one-sided operations by types, operations and
// epochs, reductions, each compared with the result that MPI's standard gives. One source for the CPU backend and for
// GPUs; run under ucx-run with any number of PEs and nodes. With the name of a mistake as its argument it makes that
// mistake, which test/scripts/mpi_errors_test.py expects to end the job.
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace {

int rank = 0, n = 0, failures = 0;

void expect(bool holds, const std::string& what) {
  if (!holds && ++failures < 30) std::fprintf(stderr, "rank %d: wrong: %s\n", rank, what.c_str());
}

template <class T>
constexpr MPI_Datatype type_of() {
  if constexpr (std::is_same_v<T, char>) return MPI_CHAR;
  else if constexpr (std::is_same_v<T, int>) return MPI_INT;
  else if constexpr (std::is_same_v<T, long>) return MPI_LONG;
  else if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  else return MPI_DOUBLE;
}

/// A window of MPI_Win_allocate, whose memory is the device's.
template <class T>
struct allocated {
  int count;
  T* at = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  explicit allocated(int elements) : count(elements) {
    MPI_Win_allocate(elements * static_cast<MPI_Aint>(sizeof(T)), sizeof(T), MPI_INFO_NULL, MPI_COMM_WORLD, &at, &win);
  }
  ~allocated() { MPI_Win_free(&win); }
  allocated(const allocated&) = delete;
  allocated& operator=(const allocated&) = delete;
  std::vector<T> read() const {
    std::vector<T> all(static_cast<size_t>(count));
    gravel_copy(all.data(), at, all.size() * sizeof(T));
    return all;
  }
  void accumulate(const std::vector<T>& values, int to, int first, MPI_Op how) const {
    const int k = static_cast<int>(values.size());
    MPI_Accumulate(values.data(), k, type_of<T>(), to, first, k, type_of<T>(), how, win);
  }
};

template <class T>
T value(int of, int i) {
  return static_cast<T>((of + 1) * (i % 7 + 1));
}
template <class T>
std::vector<T> values(int count) {
  std::vector<T> all(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<size_t>(i)] = value<T>(rank, i);
  return all;
}

/// All ranks accumulate into the same elements of all ranks: sums, maxima, minima, and behind these a part for each
/// rank that it replaces. The places do not begin at multiples of 4 bytes. The element in front of each part stays 0.
template <class T>
void test_accumulate(int count) {
  const int step = count + 1;
  const allocated<T> window((3 + n) * step);
  MPI_Win_fence(0, window.win);
  const std::vector<T> mine = values<T>(count);
  std::vector<T> negative = mine;
  for (T& v : negative) v = static_cast<T>(-v);
  for (int to = 0; to < n; ++to) {
    window.accumulate(mine, to, 1, MPI_SUM);
    window.accumulate(mine, to, step + 1, MPI_MAX);
    window.accumulate(negative, to, 2 * step + 1, MPI_MIN);
    window.accumulate(mine, to, (3 + rank) * step + 1, MPI_REPLACE);
  }
  MPI_Win_fence(0, window.win);
  const std::vector<T> all = window.read();
  const auto check = [&](int part, auto expected, const char* what) {
    bool right = all[static_cast<size_t>(part * step)] == T{};
    for (int i = 0; i < count; ++i) right &= all[static_cast<size_t>(part * step + 1 + i)] == expected(i);
    expect(right, "accumulate, type " + std::to_string(type_of<T>()) + ", " + what);
  };
  check(
      0, [](int i) { return static_cast<T>(n * (n + 1) / 2 * (i % 7 + 1)); }, "sum");
  check(
      1, [](int i) { return value<T>(n - 1, i); }, "max");
  check(
      2, [](int i) { return static_cast<T>(-value<T>(n - 1, i)); }, "min");
  for (int from = 0; from < n; ++from)
    check(
        3 + from, [=](int i) { return value<T>(from, i); }, "replace");
}

/// Accumulates of one rank to one place keep their order, without a flush between them.
void test_order() {
  const allocated<int> window(n);
  const int to = (rank + 1) % n;
  MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window.win);
  for (int round = 0; round < 3; ++round) {
    window.accumulate({round}, to, rank, MPI_REPLACE);
    window.accumulate({10}, to, rank, MPI_SUM);
    window.accumulate({5}, to, rank, MPI_MAX);
  }
  MPI_Win_unlock(to, window.win);
  MPI_Barrier(MPI_COMM_WORLD);
  expect(window.read()[static_cast<size_t>((rank + n - 1) % n)] == 12, "order of accumulates");
}

template <class T>
void test_put_and_get(int count) {
  const allocated<T> window(n * count);
  const std::vector<T> mine = values<T>(count);
  MPI_Win_fence(0, window.win);
  for (int to = 0; to < n; ++to)
    MPI_Put(mine.data(), count, type_of<T>(), to, rank * count, count, type_of<T>(), window.win);
  MPI_Win_fence(0, window.win);
  std::vector<T> came(static_cast<size_t>(n * count));
  const int from = (rank + 1) % n;
  MPI_Get(came.data(), n * count, type_of<T>(), from, 0, n * count, type_of<T>(), window.win);
  MPI_Win_fence(0, window.win);
  bool right = true;
  for (int i = 0; i < n * count; ++i) right &= came[static_cast<size_t>(i)] == value<T>(i / count, i % count);
  expect(right && came == window.read(), "put and get, type " + std::to_string(type_of<T>()));
}

/// Passive targets: rank 0's counter by locks of one at a time, by accumulates of all at once.
void test_locks() {
  const allocated<long> window(3);
  constexpr int rounds = 4;
  for (int i = 0; i < rounds; ++i) {
    long seen = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win);
    MPI_Get(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window.win);
    MPI_Win_flush_local(0, window.win);
    ++seen;
    MPI_Put(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window.win);
    MPI_Win_unlock(0, window.win);
  }
  const long one = 1;
  MPI_Win_lock_all(0, window.win);
  for (int i = 0; i < rounds; ++i) MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window.win);
  MPI_Win_flush(0, window.win);
  MPI_Win_unlock_all(window.win);
  MPI_Win_lock(MPI_LOCK_SHARED, n - 1, 0, window.win);
  for (int i = 0; i < rounds; ++i) {
    MPI_Accumulate(&one, 1, MPI_LONG, n - 1, 2, 1, MPI_LONG, MPI_SUM, window.win);
    MPI_Win_flush(n - 1, window.win);
  }
  MPI_Win_unlock(n - 1, window.win);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<long> all = window.read();
  expect(rank != 0 || all[0] == rounds * n, "exclusive locks: " + std::to_string(all[0]));
  expect(rank != 0 || all[1] == rounds * n, "lock_all: " + std::to_string(all[1]));
  expect(rank != n - 1 || all[2] == rounds * n, "shared locks, flush: " + std::to_string(all[2]));
}

/// A ring: each rank writes to the next one, which has posted its window for it.
void test_post_and_start() {
  const allocated<int> window(1);
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  MPI_Group all = MPI_GROUP_NULL, to = MPI_GROUP_NULL, from = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &right, &to);
  MPI_Group_incl(all, 1, &left, &from);
  for (int round = 1; round <= 3; ++round) {
    const int mine = 100 * rank + round, one = 1;
    MPI_Win_post(from, 0, window.win);
    MPI_Win_start(to, 0, window.win);
    if (round < 3) MPI_Put(&mine, 1, MPI_INT, right, 0, 1, MPI_INT, window.win);
    else MPI_Accumulate(&one, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_SUM, window.win);
    MPI_Win_complete(window.win);
    MPI_Win_wait(window.win);
    expect(window.read()[0] == 100 * left + round, "post, start, complete, wait");
  }
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Group_free(&all);
  expect(all == MPI_GROUP_NULL, "MPI_Group_free");
}

/// Memory of the program: the owner and others write into different elements. Each rank has another size.
void test_created() {
  const int size = n + rank;
  std::vector<double> memory(static_cast<size_t>(size), 0.5);
  MPI_Win win = MPI_WIN_NULL;
  MPI_Win_create(memory.data(), size * static_cast<MPI_Aint>(sizeof(double)), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  const double mine = rank + 1, two = 2;
  for (int to = 0; to < n; ++to) MPI_Accumulate(&mine, 1, MPI_DOUBLE, to, 8 * rank, 1, MPI_DOUBLE, MPI_SUM, win);
  MPI_Win_fence(0, win);
  bool right = true;
  for (int i = 0; i < size; ++i) right &= memory[static_cast<size_t>(i)] == (i < n ? i + 1.5 : 0.5);
  expect(right, "created window: accumulates");
  memory[0] = 7 + rank;
  MPI_Win_fence(0, win);
  const int last = n - 1, end = 8 * (n + last - 1);
  double came = 0;
  MPI_Get(&came, 1, MPI_DOUBLE, last, 0, 1, MPI_DOUBLE, win);
  MPI_Win_fence(0, win);
  expect(came == 7 + last, "created window: what the owner stored");
  MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
  MPI_Accumulate(&two, 1, MPI_DOUBLE, last, end, 1, MPI_DOUBLE, MPI_SUM, win);
  MPI_Win_unlock(last, win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);  // the owner sees what came
  const double before = n == 1 ? 7 : 0.5;
  if (rank == last) expect(memory[static_cast<size_t>(end / 8)] == before + 2 * n, "created window: lock of the owner");
  MPI_Win_unlock(rank, win);
  MPI_Win_free(&win);
  expect(win == MPI_WIN_NULL, "MPI_Win_free");
}

template <class T>
void test_reductions(int count) {
  const std::string name = ", type " + std::to_string(type_of<T>());
  const std::vector<T> mine = values<T>(count);
  std::vector<T> sum(mine.size()), most(mine.size()), least(mine.size()), all = mine, at_root(mine.size(), T{9});
  MPI_Allreduce(mine.data(), sum.data(), count, type_of<T>(), MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(mine.data(), most.data(), count, type_of<T>(), MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(mine.data(), least.data(), count, type_of<T>(), MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, all.data(), count, type_of<T>(), MPI_SUM, MPI_COMM_WORLD);
  const int root = n - 1;
  if (rank == root) at_root = mine;
  MPI_Reduce(rank == root ? MPI_IN_PLACE : mine.data(), at_root.data(), count, type_of<T>(), MPI_SUM, root,
             MPI_COMM_WORLD);
  bool right = true, is_root_right = true;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const T expected = static_cast<T>(n * (n + 1) / 2 * (i % 7 + 1));
    right &=
        sum[at] == expected && all[at] == expected && most[at] == value<T>(n - 1, i) && least[at] == value<T>(0, i);
    is_root_right &= at_root[at] == (rank == root ? expected : T{9});
  }
  expect(right, "allreduce" + name);
  expect(is_root_right, "reduce" + name);
}

// --- mistakes, of a job of one rank

void put_at(int to, MPI_Aint displacement, MPI_Datatype type = MPI_INT, int target_count = 1) {
  const allocated<int> window(10);
  MPI_Win_fence(0, window.win);
  const int some[4] = {};
  MPI_Put(some, 1, type, to, displacement, target_count, type, window.win);
  MPI_Win_fence(0, window.win);
}
const std::map<std::string, std::function<void()>> mistakes = {
    {"displacement", [] { put_at(0, 10); }},
    {"before", [] { put_at(0, -1); }},
    {"rank", [] { put_at(1, 0); }},
    {"type", [] { put_at(0, 0, static_cast<MPI_Datatype>(99)); }},
    {"counts", [] { put_at(0, 0, MPI_INT, 2); }},
    {"place", [] { put_at(0, 1, MPI_DOUBLE); }},
    {"operation",
     [] {
       const allocated<int> window(1);
       MPI_Win_fence(0, window.win);
       window.accumulate({1}, 0, 0, MPI_OP_NULL);
     }},
    {"epoch", [] { allocated<int>(1).accumulate({1}, 0, 0, MPI_SUM); }},
    {"unlock", [] { MPI_Win_unlock(0, allocated<int>(1).win); }},
    {"lock",
     [] {
       const allocated<int> window(1);
       MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win);
       MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win);
     }},
    {"freed",
     [] {
       MPI_Win win = allocated<int>(1).win;
       win = MPI_WIN_NULL;
       MPI_Win_fence(0, win);
     }},
    {"communicator", [] { MPI_Barrier(MPI_COMM_NULL); }},
    {"assertion", [] { MPI_Win_fence(1, allocated<int>(1).win); }},
    {"characters",
     [] {
       char c = 1;
       MPI_Allreduce(MPI_IN_PLACE, &c, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"root",
     [] {
       int i = 1;
       MPI_Reduce(&i, &i, 1, MPI_INT, MPI_SUM, -1, MPI_COMM_WORLD);
     }},
    {"dynamic",
     [] {
       MPI_Win win = MPI_WIN_NULL;
       MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
     }},
    {"open", [] { new allocated<int>(1); }},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "early") MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  const double begin = MPI_Wtime();
  if (const auto mistake = mistakes.find(what); mistake != mistakes.end()) mistake->second();
  if (what.empty()) {
    test_accumulate<char>(50);
    test_accumulate<int>(100);
    test_accumulate<long>(1);
    test_accumulate<float>(33);
    test_accumulate<double>(4500);  // more than one task
    test_order();
    test_put_and_get<char>(13);
    test_put_and_get<double>(1000);
    test_locks();
    test_post_and_start();
    test_created();
    test_reductions<int>(1);
    test_reductions<long>(100);
    test_reductions<float>(3000);
    test_reductions<double>(1);
  }
  expect(MPI_Wtime() >= begin, "MPI_Wtime");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (what == "late") MPI_Barrier(MPI_COMM_WORLD);
  return failures != 0;
}
