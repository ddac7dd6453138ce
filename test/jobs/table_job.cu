// Tables of rows (gravel::rows): rows of several sizes and types, ids of all kinds, compared with what hosts expect.
// Arrays, optimizers, exchanges of rows, and rows from files. One source for the CPU backend and for GPUs. Options:
// `short`; `bad-row` and `bad-sum`, a call with a row that does not exist; `bad-target`, `bad-room` and `least-room`,
// an exchange with a PE that does not exist, with one row too many for a PE, and with as many as there is room for;
// `no-handler`, elements of 16 bits without the handler; `larger`, a table that is larger than one PE's memory; `dies`,
// a PE that dies amid calls.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/table.cuh>
#include "test/support/expect.hpp"

namespace {
using gravel::copy_behind_kernels;
using gravel::device_array;

/// Word of a row, of 4 bytes.
uint32_t word_of(uint64_t row, uint64_t place) {
  uint64_t x = (row + 1) * 0x9e3779b97f4a7c15ull + place * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 31;
  return static_cast<uint32_t>(x * 0x94d049bb133111ebull >> 32);
}

/// Ids of a bulk call.
std::vector<uint64_t> draw_ids(const std::string& kind, const gravel::rows& table, uint64_t n,
                               std::mt19937_64& chance) {
  std::vector<uint64_t> ids(n);
  const uint64_t one = chance() % table.count();
  const int pe = static_cast<int>(chance() % static_cast<uint64_t>(gravel_n_pes()));
  const uint64_t of_pe = std::max<uint64_t>(table.view().dealing.count(static_cast<uint32_t>(pe)), 1);
  for (uint64_t& id : ids) {
    id = chance() % table.count();
    if (kind == "equal") id = one;
    if (kind == "ends") id = chance() % 2 ? 0 : table.count() - 1;
    if (kind == "of one PE") id = table.view().row(pe, chance() % of_pe) % table.count();
  }
  return ids;
}

void fill(const gravel::rows& table) {
  const uint64_t words = table.row_bytes() / 4;
  std::vector<uint32_t> mine(table.local_count() * words);
  for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = word_of(table.local_row(i / words), i % words);
  gravel_copy(table.local(), mine.data(), mine.size() * 4);
  gravel_barrier_all();
}

template <class Id>
void check_gather(gravel::rows& table, const std::vector<uint64_t>& ids, const std::string& what,
                  gravel_stream_t stream, uint64_t shift) {
  const std::vector<Id> narrow(ids.begin(), ids.end());
  const uint64_t words = table.row_bytes() / 4, n = ids.size();
  const device_array<Id> on_device(narrow);
  constexpr uint32_t poison = 0xdeadbeef;
  std::vector<uint32_t> found(shift + n * words + 1, poison);
  device_array<uint32_t> out(found);
  table.gather(out.data() + shift, on_device.data(), n, stream);
  gravel_stream_synchronize(stream);
  gravel_copy(found.data(), out.data(), found.size() * 4);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < n * words; ++i) wrong += found[shift + i] != word_of(ids[i / words], i % words);
  for (uint64_t i = 0; i < shift; ++i) wrong += found[i] != poison;
  wrong += found.back() != poison;
  expect(wrong == 0, "gather, " + what + ": " + std::to_string(wrong) + " wrong words");
}

void check_gathers(uint64_t count, uint64_t row_bytes, gravel::dealt dealt, bool is_short, std::mt19937_64& chance) {
  // About every second shape lies in memory of the host.
  const bool on_host = (row_bytes / 4 % 2 == 1) != (dealt == gravel::dealt::cyclic);
  const gravel::place where = on_host ? gravel::place::host : gravel::place::device;
  gravel::rows table(count, row_bytes, dealt, where);
  expect(table.local_first() + table.local_count() <= count, "rows of this PE beyond the table");
  expect(gravel_sum_all(table.local_count()) == count, "the PEs have not all rows");
  fill(table);
  const gravel_stream_t side = gravel_stream_create();
  int round = 0;
  for (const char* const kind : {"random", "equal", "ends", "of one PE"}) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{33}, is_short ? uint64_t{300} : uint64_t{3000}}) {
      if (is_short && round % 3 && n > 1) continue;
      const std::vector<uint64_t> ids = draw_ids(kind, table, n, chance);
      const std::string what = std::to_string(n) + " ids, " + kind + ", of " + std::to_string(count) + " rows of " +
                               std::to_string(row_bytes) + " bytes, dealt " +
                               (dealt == gravel::dealt::cyclic ? "one by one" : "in blocks");
      const gravel_stream_t stream = round % 2 ? side : nullptr;
      const auto shift = static_cast<uint64_t>(round % 5);
      switch (round++ % 4) {
        case 0: check_gather<uint32_t>(table, ids, what, stream, shift); break;
        case 1: check_gather<int64_t>(table, ids, what, stream, shift); break;
        case 2: check_gather<int32_t>(table, ids, what, stream, shift); break;
        default: check_gather<uint64_t>(table, ids, what, stream, shift);
      }
    }
  }
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

/// Gathers in two streams at a time do not disturb each other.
void check_two_streams() {
  gravel::rows table(500, 40);
  fill(table);
  const gravel_stream_t side = gravel_stream_create();
  const uint64_t words = table.row_bytes() / 4;
  std::vector<uint32_t> first(2000), second(1500);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<uint32_t>(i * 7 % 500);
  for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<uint32_t>(499 - i * 11 % 500);
  const device_array<uint32_t> ids_1(first), ids_2(second);
  device_array<uint32_t> out_1(first.size() * words), out_2(second.size() * words);
  for (int round = 0; round < 3; ++round) {
    table.gather(out_1.data(), ids_1.data(), first.size());
    table.gather(out_2.data(), ids_2.data(), second.size(), side);
  }
  gravel_synchronize();
  const auto check = [&](const std::vector<uint32_t>& ids, const device_array<uint32_t>& out) {
    std::vector<uint32_t> found(ids.size() * words);
    gravel_copy(found.data(), out.data(), found.size() * 4);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < found.size(); ++i) wrong += found[i] != word_of(ids[i / words], i % words);
    expect(wrong == 0, "gathers in two streams: " + std::to_string(wrong) + " wrong words");
  };
  check(first, out_1);
  check(second, out_2);
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

/// Rows of two tables are read and added to in two streams at a time: other rows are read than those that change.
void check_beside() {
  gravel::rows first(600, 20), second(400, 8, gravel::dealt::cyclic);
  fill(first);
  fill(second);
  constexpr uint64_t n = 600;
  constexpr int rounds = 3;
  std::vector<uint32_t> low_1(n), high_1(n), low_2(n), high_2(n);
  for (uint32_t i = 0; i < n; ++i) {
    low_1[i] = i * 7 % 300;  // each row twice
    high_1[i] = 300 + low_1[i];
    low_2[i] = i * 7 % 200;  // three times
    high_2[i] = 200 + low_2[i];
  }
  const device_array<uint32_t> reads_1(low_1), adds_1(high_1), reads_2(low_2), adds_2(high_2),
      ones(std::vector<uint32_t>(n * 5, 1));
  device_array<uint32_t> out_1(n * 5), out_2(n * 2);
  const gravel_stream_t side = gravel_stream_create();
  for (int round = 0; round < rounds; ++round) {
    first.gather(out_1.data(), reads_1.data(), n);
    first.scatter_add(adds_1.data(), ones.data(), n, side);
    second.scatter_add(adds_2.data(), ones.data(), n);
    second.gather(out_2.data(), reads_2.data(), n, side);
  }
  gravel_barrier_all();
  const auto check = [&](const gravel::rows& table, const std::vector<uint32_t>& read,
                         const device_array<uint32_t>& out, uint64_t first_added, uint32_t added) {
    const uint64_t words = table.row_bytes() / 4;
    std::vector<uint32_t> found(n * words), mine(table.local_count() * words);
    gravel_copy(found.data(), out.data(), found.size() * 4);
    gravel_copy(mine.data(), table.local(), mine.size() * 4);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < found.size(); ++i) wrong += found[i] != word_of(read[i / words], i % words);
    for (uint64_t i = 0; i < mine.size(); ++i) {
      const uint64_t row = table.local_row(i / words);
      wrong += mine[i] != word_of(row, i % words) + (row >= first_added ? added : 0);
    }
    expect(wrong == 0, "gathers beside additions: " + std::to_string(wrong) + " wrong words");
  };
  const auto times = static_cast<uint32_t>(rounds * gravel_n_pes());
  check(first, low_1, out_1, 300, 2 * times);
  check(second, low_2, out_2, 200, 3 * times);
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

/// A graph with a gather reads the ids that are there when it is launched.
void check_graph() {
#if GRAVEL_CUDA
  gravel::rows table(500, 264);
  fill(table);
  if (!table.is_mapped()) return;
  constexpr uint64_t n = 700;
  const uint64_t words = table.row_bytes() / 4;
  device_array<uint32_t> ids(n), out(n * words);
  const gravel_stream_t stream = gravel_stream_create();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  table.gather(out.data(), ids.data(), n, stream);
  cudaStreamEndCapture(stream, &graph);
  expect(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess, "a graph with a gather");
  for (uint32_t round = 1; round < 4; ++round) {
    std::vector<uint32_t> numbers(n), found(n * words);
    for (uint32_t i = 0; i < n; ++i) numbers[i] = i * 7 * round % 500;
    gravel_copy(ids.data(), numbers.data(), n * 4);
    cudaGraphLaunch(executable, stream);
    gravel_stream_synchronize(stream);
    gravel_copy(found.data(), out.data(), found.size() * 4);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < found.size(); ++i) wrong += found[i] != word_of(numbers[i / words], i % words);
    expect(wrong == 0, "a graph with other ids: " + std::to_string(wrong) + " wrong words");
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  gravel_stream_destroy(stream);
  gravel_barrier_all();
#endif
}

/// A table that is larger than one PE's memory.
void check_larger() {
  gravel::rows table(gravel_handle().heap_bytes * 5 / 4 / 264, 264);
  expect(table.count() * table.row_bytes() > gravel_handle().heap_bytes, "the table is not larger than a PE's memory");
  fill(table);
  std::mt19937_64 chance(static_cast<uint64_t>(3 + gravel_my_pe()));
  check_gather<uint64_t>(table, draw_ids("random", table, 3000, chance), "larger than one PE", nullptr, 0);
  gravel_barrier_all();
}

/// All PEs read and add, until PE 1 dies amid its calls.
void read_until_death() {
  gravel::rows table(1000, 264);
  const std::vector<uint32_t> numbers(500, 777);
  const device_array<uint32_t> ids(numbers), values(500 * 66);
  device_array<uint32_t> out(500 * 66);
  for (int round = 0; round < 100'000; ++round) {
    table.gather(out.data(), ids.data(), 500);
    table.scatter_add(ids.data(), values.data(), 500);
    if (gravel_my_pe() == 1 && round == 20) raise(SIGKILL);
    gravel_barrier_all();
  }
}

/// A folder that PE 0 makes, and removes with what is in it.
class folder_of_job {
 public:
  folder_of_job() {
    const uint64_t number = gravel_max_all(gravel_my_pe() == 0 ? static_cast<uint64_t>(getpid()) : 0);
    path_ = (std::filesystem::temp_directory_path() / ("gravel-table-" + std::to_string(number))).string();
    if (gravel_my_pe() == 0) std::filesystem::create_directory(path_);
  }
  ~folder_of_job() {
    if (gravel_my_pe() == 0) std::filesystem::remove_all(path_);
  }
  folder_of_job(const folder_of_job&) = delete;
  /// PE 0 writes a file. Collective.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = path_ + "/" + name;
    if (gravel_my_pe() == 0) std::ofstream(path, std::ios::binary) << bytes;
    gravel_barrier_all();
    return path;
  }

 private:
  std::string path_;
};

/// The bytes of rows, and of a file of safetensors that has them as tensor `t`, behind one of 4 bytes.
std::string bytes_of_rows(uint64_t first, uint64_t count, uint64_t words) {
  std::string bytes(count * words * 4, 0);
  for (uint64_t i = 0; i < count * words; ++i) {
    const uint32_t word = word_of(first + i / words, i % words);
    std::memcpy(bytes.data() + i * 4, &word, 4);
  }
  return bytes;
}
std::string bytes_of_tensor(uint64_t first, uint64_t count, uint64_t words) {
  const std::string header = R"({"o":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[)" +
                             std::to_string(count) + "," + std::to_string(words) + R"(],"data_offsets":[4,)" +
                             std::to_string(count * words * 4 + 4) + "]}}";
  std::string length(8, 0);
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i & 255);
  return length + header + "abcd" + bytes_of_rows(first, count, words);
}

/// Tables that are filled from files.
void check_reads(uint64_t count, uint64_t row_bytes, bool is_short) {
  const folder_of_job folder;
  const uint64_t words = row_bytes / 4, half = count / 2;
  const std::string raw = folder.write("rows", bytes_of_rows(0, count, words)),
                    first = folder.write("first", bytes_of_tensor(0, half, words)),
                    second = folder.write("second", bytes_of_tensor(half, count - half, words));
  for (const gravel::dealt dealt : {gravel::dealt::blocks, gravel::dealt::cyclic})
    for (const gravel::place where : {gravel::place::device, gravel::place::host}) {
      for (const bool is_raw : {true, false}) {
        if (is_short && is_raw == (where == gravel::place::host)) continue;
        gravel::rows table(count, row_bytes, dealt, where);
        if (is_raw) table.read(raw);
        else table.read(std::vector<std::string>{first, second}, {.tensor = "t", .dtype = "F32"});
        std::vector<uint32_t> found(table.local_count() * words);
        gravel_copy(found.data(), table.local(), found.size() * 4);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < found.size(); ++i) wrong += found[i] != word_of(table.local_row(i / words), i % words);
        expect(wrong == 0, std::to_string(count) + " rows of " + std::to_string(row_bytes) +
                               " bytes from files: " + std::to_string(wrong) + " wrong words");
        gravel_barrier_all();
      }
    }
  gravel::rows table(count, row_bytes);
  const auto refused = [&](const char* why, const std::string& file, const gravel::row_format& format) {
    expect_error(why, [&] { table.read(file, format); });
  };
  refused("No such file", raw + "-", {});
  refused("no whole number of rows", folder.write("long", bytes_of_rows(0, count, words) + "x"), {});
  refused("the table has", folder.write("short", bytes_of_rows(0, count - 1, words)), {});
  refused("the table has", first, {.tensor = "t", .dtype = {}});
  refused("elements of type F32; BF16 is wanted", first, {.tensor = "t", .dtype = "BF16"});
  refused("has 1 dimensions", first, {.tensor = "o", .dtype = {}});
  refused("those of the table have", folder.write("wide", bytes_of_tensor(0, count, words + 1)),
          {.tensor = "t", .dtype = {}});
  refused("is the file cut off?", folder.write("cut", bytes_of_tensor(0, count, words).substr(0, 300)),
          {.tensor = "t", .dtype = {}});
  if (gravel_n_pes() > 1)  // one PE cannot read its rows
    expect_error(gravel_my_pe() ? "1 of the other PEs cannot" : "No such file",
                 [&] { table.read(gravel_my_pe() ? raw : raw + "-"); });
  gravel_barrier_all();
}

enum class update { add, min, max, count, put };

/// The number in which hosts compute with a T.
template <class T>
using wide = typename gravel::detail::element<T>::wide;
template <class T>
T narrow(wide<T> value) {
  return gravel::detail::element<T>::narrow(value);
}

/// All PEs update all rows. The values are small whole numbers, so the order of sums does not matter; a sum of elements
/// of 16 bits is at most 256. `put`: the value of a place depends on the row alone, so it does not matter who writes
/// last.
template <class T>
void check_update(update how, const std::string& type, uint64_t count, uint64_t elements, uint64_t n, const char* kind,
                  uint64_t seed) {
  const gravel::dealt dealt = seed % 2 ? gravel::dealt::cyclic : gravel::dealt::blocks;
  const gravel::place where = seed / 2 % 2 ? gravel::place::host : gravel::place::device;
  gravel::rows table(count, elements * sizeof(T), dealt, where);
  std::vector<wide<T>> wanted(count * elements);
  const auto me = static_cast<uint64_t>(gravel_my_pe()), n_pes = static_cast<uint64_t>(gravel_n_pes());
  const bool is_narrow = sizeof(T) == 2;
  device_array<T> values;
  device_array<uint32_t> ids;
  for (uint64_t pe = 0; pe < n_pes; ++pe) {
    std::mt19937_64 chance(seed + pe);
    const std::vector<uint64_t> drawn = draw_ids(kind, table, n, chance);
    std::vector<T> given(n * elements);
    for (uint64_t i = 0; i < given.size(); ++i) {
      const uint64_t place = drawn[i / elements] * elements + i % elements;
      wide<T>& at = wanted[place];
      wide<T> value = static_cast<wide<T>>(chance() % 100) - wide<T>{20};
      if (how == update::put) value = static_cast<wide<T>>(place % 1000 + 1);
      if (how == update::add && is_narrow) value = i / elements < 256 / n_pes ? static_cast<wide<T>>(chance() % 2) : 0;
      given[i] = narrow<T>(value);
      value = gravel::detail::element<T>::widen(given[i]);
      if (how == update::put) at = value;
      if (how == update::add) at += value;
      if (how == update::min) at = std::min(at, value);
      if (how == update::max) at = std::max(at, value);
      if (how == update::count) at += wide<T>{1};
    }
    if (pe != me) continue;
    values = device_array<T>(given);
    ids = device_array<uint32_t>(std::vector<uint32_t>(drawn.begin(), drawn.end()));
  }
  if (how == update::put) table.scatter(ids.data(), values.data(), n);
  if (how == update::add) table.scatter_add(ids.data(), values.data(), n);
  if (how == update::min) table.scatter_min(ids.data(), values.data(), n);
  if (how == update::max) table.scatter_max(ids.data(), values.data(), n);
  if constexpr (std::is_unsigned_v<T>)
    if (how == update::count) table.template histogram<T>(ids.data(), n);
  gravel_barrier_all();
  std::vector<T> found(table.local_count() * elements);
  gravel_copy(found.data(), table.local(), found.size() * sizeof(T));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < found.size(); ++i) {
    const uint64_t place = table.local_row(i / elements) * elements + i % elements;
    wrong += gravel::detail::element<T>::widen(found[i]) != wanted[place];
  }
  expect(wrong == 0, "update " + std::to_string(static_cast<int>(how)) + " of " + type + ", " +
                         std::to_string(elements) + " a row, ids " + kind + ": " + std::to_string(wrong) +
                         " wrong elements");
}

/// Sums, minima and maxima of elements of 16 bits are what float gives, rounded once: each element gets two operands,
/// random numbers of any size.
template <class T>
void check_rounding(const std::string& type, uint64_t count, uint64_t seed) {
  constexpr uint64_t elements = 6;
  const auto draw = [](std::mt19937_64& chance) {
    T value;
    do value.bits = static_cast<uint16_t>(chance());
    while (!(std::abs(value.to_float()) <= std::numeric_limits<float>::max()));
    return value;
  };
  std::mt19937_64 chance(seed);
  std::vector<uint32_t> numbers(count);
  for (uint64_t i = 0; i < count; ++i) numbers[i] = static_cast<uint32_t>(i);
  std::vector<T> first(count * elements), second(count * elements);
  for (T& value : first) value = draw(chance);
  for (T& value : second) value = draw(chance);
  const device_array<uint32_t> ids(numbers);
  const device_array<T> values_1(first), values_2(second);
  for (const update how : {update::add, update::min, update::max}) {
    gravel::rows table(count, elements * sizeof(T));
    if (gravel_my_pe() == 0) table.scatter(ids.data(), values_1.data(), count);
    gravel_barrier_all();
    if (gravel_my_pe() == 0 && how == update::add) table.scatter_add(ids.data(), values_2.data(), count);
    if (gravel_my_pe() == 0 && how == update::min) table.scatter_min(ids.data(), values_2.data(), count);
    if (gravel_my_pe() == 0 && how == update::max) table.scatter_max(ids.data(), values_2.data(), count);
    gravel_barrier_all();
    std::vector<T> found(table.local_count() * elements);
    gravel_copy(found.data(), table.local(), found.size() * sizeof(T));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < found.size(); ++i) {
      const uint64_t place = table.local_first() * elements + i;
      const float a = first[place].to_float(), b = second[place].to_float();
      float wanted = a + b;
      if (how == update::min) wanted = std::min(a, b);
      if (how == update::max) wanted = std::max(a, b);
      wrong += found[i].to_float() != T::from_float(wanted).to_float();
    }
    expect(wrong == 0, "update " + std::to_string(static_cast<int>(how)) + " of " + type +
                           " of any size: " + std::to_string(wrong) + " wrong elements");
  }
}

/// Hot elements of 16 bits are added up in float: each PE adds 1/256 so often to two elements that sums of 16 bits
/// would stop far below, as a half that is 8 or more, and a bfloat16 that is 1 or more, do not change by 1/256.
template <class T>
void check_hot_sums(const std::string& type) {
  const uint64_t n = GRAVEL_CUDA ? 1 << 22 : 1 << 13;
  const T small = T::from_float(1.0f / 256);
  gravel::rows table(10, 2 * sizeof(T), gravel::dealt::cyclic);
  const device_array<uint32_t> ids(std::vector<uint32_t>(n, 3));
  const device_array<T> values(std::vector<T>(2 * n, small));
  table.scatter_add(ids.data(), values.data(), n);
  gravel_barrier_all();
  // On GPUs blocks send sums of about 15.5, which a bfloat16 of 4096 or more does not take.
  const float wanted = static_cast<float>(n) / 256 * static_cast<float>(gravel_n_pes());
  std::vector<T> found(table.local_count() * 2);
  gravel_copy(found.data(), table.local(), found.size() * sizeof(T));
  for (uint64_t i = 0; i < found.size(); ++i) {
    const bool is_hot = table.local_row(i / 2) == 3;
    const float value = found[i].to_float();
    const bool is_right = value >= std::min(wanted, 4096.0f) * 0.75f && value <= wanted * 1.25f;
    expect(is_hot ? is_right : value == 0,
           "hot sum of " + type + ": " + std::to_string(value) + " instead of " + std::to_string(wanted));
  }
}

/// An array has the calls of a table. Each PE counts, adds and reads elements that all PEs use.
template <class T>
void check_array(gravel::dealt dealt) {
  constexpr uint64_t count = 101, n = 400;
  gravel::array<T> numbers(count, dealt), counts(count, dealt);
  const auto n_pes = static_cast<T>(gravel_n_pes());
  std::vector<T> first(count), values(n), wanted(count), occurs(count);
  std::vector<int32_t> drawn(n), all(count);
  for (uint64_t i = 0; i < count; ++i) {
    all[i] = static_cast<int32_t>(i);
    wanted[i] = first[i] = static_cast<T>(i * 3);
  }
  for (uint64_t i = 0; i < n; ++i) {
    drawn[i] = static_cast<int32_t>(i * i % count);
    values[i] = static_cast<T>(i % 7);
    wanted[static_cast<size_t>(drawn[i])] += values[i] * n_pes;
    occurs[static_cast<size_t>(drawn[i])] += n_pes;
  }
  for (T& at : wanted) at = std::min(std::max(at, T{50}), T{200});
  const device_array<int32_t> ids(drawn), ids_of_all(all);
  const device_array<T> given(values), begin(first), least(std::vector<T>(count, T{50})),
      most(std::vector<T>(count, T{200}));
  numbers.scatter(ids_of_all.data(), begin.data(), count);
  gravel_barrier_all();
  numbers.scatter_add(ids.data(), given.data(), n);
  gravel_barrier_all();
  numbers.scatter_max(ids_of_all.data(), least.data(), count);
  gravel_barrier_all();
  numbers.scatter_min(ids_of_all.data(), most.data(), count);
  if constexpr (std::is_unsigned_v<T>) counts.histogram(ids.data(), n);
  else occurs.assign(count, T{0});
  gravel_barrier_all();
  device_array<T> out(count), out_counts(count);
  numbers.gather(out.data(), ids_of_all.data(), count);
  counts.gather(out_counts.data(), ids_of_all.data(), count);
  gravel_synchronize();
  std::vector<T> found(count), counted(count), mine(numbers.local_count());
  gravel_copy(found.data(), out.data(), count * sizeof(T));
  gravel_copy(counted.data(), out_counts.data(), count * sizeof(T));
  gravel_copy(mine.data(), numbers.local(), mine.size() * sizeof(T));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; ++i) wrong += found[i] != wanted[i] || counted[i] != occurs[i];
  for (uint64_t i = 0; i < mine.size(); ++i) wrong += mine[i] != wanted[numbers.local_row(i)];
  expect(wrong == 0, "array of elements of " + std::to_string(sizeof(T)) + ": " + std::to_string(wrong) + " wrong");
  gravel_barrier_all();
}

/// A cache keeps the rows of other PEs that occur most often; what it does not keep is read from the owners.
void check_cache(uint64_t row_bytes, uint64_t room, gravel::dealt dealt) {
  constexpr uint64_t count = 200, n = 500;
  gravel::rows table(count, row_bytes, dealt);
  gravel::row_cache cache(table, room);
  fill(table);
  // Row i occurs about n / 2^(i + 1) times, if i is small; rows 100 and more occur once or never.
  std::vector<uint64_t> ids(n), times(count);
  for (uint64_t i = 0; i < n; ++i) {
    ids[i] = static_cast<uint64_t>(__builtin_ctzll(i + 1));
    if (i % 50 == 0) ids[i] = 100 + i / 10 % 100;
    ++times[ids[i]];
  }
  uint64_t wanted = 0, hottest = count;  // hottest: row of another PE
  for (uint64_t row = count; row-- > 0;) {
    if (times[row] < 2 || table.view().owner(row) == gravel_my_pe()) continue;
    ++wanted;
    if (hottest == count || times[row] >= times[hottest]) hottest = row;
  }
  const std::string what = "cache for " + std::to_string(room) + " rows of " + std::to_string(row_bytes) + " bytes";
  const device_array<uint64_t> on_device(ids);
  const gravel_stream_t side = gravel_stream_create();
  const uint64_t words = row_bytes / 4;
  const auto check = [&] {
    for (const gravel_stream_t stream : {gravel_stream_t{nullptr}, side}) {
      device_array<uint32_t> out(n * words);
      cache.gather(out.data(), on_device.data(), n, stream);
      gravel_stream_synchronize(stream);
      std::vector<uint32_t> found(n * words);
      gravel_copy(found.data(), out.data(), found.size() * 4);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < found.size(); ++i) wrong += found[i] != word_of(ids[i / words], i % words);
      expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong words");
    }
  };
  check();
  cache.fill(on_device.data(), n, side);
  expect(cache.size() == std::min(room, wanted), what + ": it keeps " + std::to_string(cache.size()));
  check();
  gravel_barrier_all();
  // The owner of the hottest row changes it, against the rules: so the old row is read until the cache is empty.
  const std::vector<uint32_t> sevens(words, 7);
  for (uint64_t place = 0; place < table.local_count(); ++place)
    if (table.local_row(place) < 2)
      gravel_copy(static_cast<char*>(table.local()) + place * row_bytes, sevens.data(), row_bytes);
  gravel_barrier_all();
  if (cache.size() && hottest < 2) {
    const device_array<uint64_t> one(std::vector<uint64_t>{hottest});
    device_array<uint32_t> out(words);
    std::vector<uint32_t> found(words);
    cache.gather(out.data(), one.data(), 1);
    copy_behind_kernels(found.data(), out.data(), row_bytes);
    expect(found[0] == word_of(hottest, 0), what + ": the hottest row is not kept");
    cache.invalidate();
    cache.gather(out.data(), one.data(), 1);
    copy_behind_kernels(found.data(), out.data(), row_bytes);
    expect(found == sevens, what + ": a row is kept behind invalidate()");
  }
  cache.invalidate();
  expect(cache.size() == 0, what + " is not empty");
  gravel_barrier_all();
  fill(table);
  check();
  cache.fill(on_device.data(), 0);
  expect(cache.size() == 0, what + " keeps rows, without ids");
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

/// Steps of an optimizer are those that one PE alone would make with the gradients of all. Each PE has two batches for
/// each step, with repeated ids; some rows are in none of them.
template <class T>
void check_optimizer(gravel::optimizer how, const std::string& name, uint64_t width, gravel::dealt dealt) {
  constexpr uint64_t count = 1500, n = 200;  // more rows than a block looks at
  constexpr int steps = 3;
  const gravel::optimizer_settings by{0.1, 1e-6, 0.8, 0.9};
  const bool has_moment = gravel::detail::has_moment(how), by_row = gravel::detail::is_rowwise(how);
  gravel::rows table(count, width * sizeof(T), dealt);
  std::vector<double> wanted(count * width), moments(count * width), squares(count * width);
  std::vector<T> mine(table.local_count() * width);
  for (uint64_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<double>(i % 17) - 8;
  for (uint64_t i = 0; i < mine.size(); ++i)
    mine[i] = static_cast<T>(wanted[table.local_row(i / width) * width + i % width]);
  gravel_copy(table.local(), mine.data(), mine.size() * sizeof(T));
  gravel::row_optimizer<T> optimizer(table, how, by);
  uint64_t wrong = 0;
  for (int step = 1; step <= steps; ++step) {
    std::vector<double> sums(count * width);
    std::vector<bool> is_marked(count);
    device_array<int32_t> ids[2];
    device_array<T> gradients[2];
    for (int pe = 0; pe < gravel_n_pes(); ++pe)
      for (int batch = 0; batch < 2; ++batch) {
        std::mt19937_64 chance(static_cast<uint64_t>(pe * 100 + step * 10 + batch));
        std::vector<int32_t> drawn(n);
        std::vector<T> given(n * width);
        for (int32_t& id : drawn) id = static_cast<int32_t>(chance() % (chance() % 2 ? 20 : count));
        for (uint64_t i = 0; i < given.size(); ++i) {
          given[i] = static_cast<T>(chance() % 9) - T{4};
          sums[static_cast<uint64_t>(drawn[i / width]) * width + i % width] += static_cast<double>(given[i]);
          is_marked[static_cast<size_t>(drawn[i / width])] = true;
        }
        if (pe != gravel_my_pe()) continue;
        ids[batch] = device_array<int32_t>(drawn);
        gradients[batch] = device_array<T>(given);
      }
    optimizer.add(ids[0].data(), gradients[0].data(), n);
    optimizer.update(ids[1].data(), gradients[1].data(), n);
    for (uint64_t row = 0; row < count; ++row) {
      if (!is_marked[row]) continue;
      double mean = 0;
      for (uint64_t i = row * width; i < (row + 1) * width; ++i) mean += sums[i] * sums[i] / static_cast<double>(width);
      for (uint64_t i = row * width; i < (row + 1) * width; ++i) {
        const double square = by_row ? mean : sums[i] * sums[i];
        moments[i] = by.beta1 * moments[i] + (1 - by.beta1) * sums[i];
        squares[i] = has_moment ? by.beta2 * squares[i] + (1 - by.beta2) * square : squares[i] + square;
        const double change = has_moment ? moments[i] / (1 - std::pow(by.beta1, step)) : sums[i];
        const double under_root = has_moment ? squares[i] / (1 - std::pow(by.beta2, step)) : squares[i];
        wanted[i] -=
            by.learning_rate * (how == gravel::optimizer::sgd ? change : change / (std::sqrt(under_root) + by.eps));
      }
    }
    gravel_copy(mine.data(), table.local(), mine.size() * sizeof(T));
    for (uint64_t i = 0; i < mine.size(); ++i) {
      const double right = wanted[table.local_row(i / width) * width + i % width];
      wrong +=
          !(std::abs(static_cast<double>(mine[i]) - right) <= (1 + std::abs(right)) * (sizeof(T) == 4 ? 1e-5 : 1e-13));
    }
    gravel_barrier_all();
  }
  expect(wrong == 0, name + " of " + std::to_string(width) + " elements of " + std::to_string(sizeof(T)) +
                         " bytes: " + std::to_string(wrong) + " wrong elements");
  expect(optimizer.steps() == steps, name + ": the number of steps");
  const auto check_state = [&](gravel::rows* state, bool is_there, const std::vector<double>& right, uint64_t step) {
    expect((state != nullptr) == is_there, name + ": which state there is");
    if (!state) return;
    std::vector<T> found(state->local_count() * state->row_bytes() / sizeof(T));
    gravel_copy(found.data(), state->local(), found.size() * sizeof(T));
    uint64_t differ = 0;
    for (uint64_t i = 0; i < found.size(); ++i) {
      const double value = right[state->local_row(i * step / width) * width + i * step % width];
      differ += !(std::abs(static_cast<double>(found[i]) - value) <= (1 + std::abs(value)) * 1e-5);
    }
    expect(differ == 0, name + ": " + std::to_string(differ) + " wrong numbers of the state");
  };
  check_state(optimizer.moments(), has_moment, moments, 1);
  check_state(optimizer.squares(), how != gravel::optimizer::sgd, squares, by_row ? width : 1);
}

void check_optimizers() {
  using gravel::dealt;
  using gravel::optimizer;
  check_optimizer<float>(optimizer::sgd, "sgd", 3, dealt::blocks);
  check_optimizer<float>(optimizer::adagrad, "adagrad", 64, dealt::cyclic);
  check_optimizer<double>(optimizer::rowwise_adagrad, "rowwise_adagrad", 5, dealt::blocks);
  check_optimizer<float>(optimizer::rowwise_adagrad, "rowwise_adagrad", 40, dealt::cyclic);
  check_optimizer<double>(optimizer::adam, "adam", 7, dealt::cyclic);
  check_optimizer<float>(optimizer::rowwise_adam, "rowwise_adam", 33, dealt::blocks);
  check_optimizer<double>(optimizer::rowwise_adam, "rowwise_adam", 1, dealt::cyclic);
  gravel::rows table(10, 12);
  expect_error("does not consist of elements of 8",
               [&] { gravel::row_optimizer<double> wrong(table, optimizer::sgd); });
  expect_error("each is 0 or more, and less than 1",
               [&] { gravel::row_optimizer<float> wrong(table, optimizer::adam, {.beta1 = 1}); });
  expect_error("eps is -1", [&] { gravel::row_optimizer<float> wrong(table, optimizer::adagrad, {.eps = -1}); });
  if (gravel_n_pes() > 1)
    expect_error("the PEs pass different optimizers or settings", [&] {
      gravel::row_optimizer<float> wrong(table, optimizer::sgd, {.learning_rate = 1.0 + gravel_my_pe()});
    });
}

/// The PE to which a PE sends one of its rows.
uint32_t target_of(const std::string& kind, uint64_t pe, uint64_t row) {
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
  if (kind == "to one PE") return n_pes - 1;
  if (kind == "to itself") return static_cast<uint32_t>(pe);
  if (kind == "in turn") return static_cast<uint32_t>((pe + row) % n_pes);
  return word_of(pe, row) % n_pes;
}
/// The number of rows that a PE sends.
uint64_t rows_of(const std::string& kind, uint64_t pe, uint64_t most) {
  if (kind == "none") return 0;
  if (kind == "of one PE") return pe == 0 ? most : 0;
  if (kind == "one row") return pe == 0;
  return most - pe * 7 % (most + 1);
}

/// Result of an exchange, copied to the host.
struct exchanged {
  std::vector<uint64_t> counts, firsts;
  std::vector<uint32_t> words;

  exchanged(const gravel::row_exchange& from, uint64_t words_of_row)
      : counts(static_cast<size_t>(gravel_n_pes())), firsts(counts.size() + 1) {
    gravel_copy(counts.data(), from.counts(), counts.size() * sizeof(uint64_t));
    gravel_copy(firsts.data(), from.firsts(), firsts.size() * sizeof(uint64_t));
    words.resize(firsts.back() * words_of_row);
    gravel_copy(words.data(), from.rows(), words.size() * sizeof(uint32_t));
  }
};

/// Rows go to other PEs and back again: there is no word of the host between the two calls, which are in one stream.
template <class Pe>
void check_exchange(uint64_t row_bytes, const std::string& kind, uint64_t most, gravel_stream_t stream) {
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  const uint64_t words = row_bytes / 4;
  gravel::row_exchange there(row_bytes, n_pes * most), back(row_bytes, most);
  const auto row_word = [](uint64_t pe, uint64_t row, uint64_t word) { return word_of(pe << 40 | row, word); };
  for (int round = 0; round < 2; ++round) {
    const uint64_t n = rows_of(kind, me, round == 1 ? most / 2 : most);
    std::vector<uint32_t> rows(n * words + 1), came, returned;
    std::vector<Pe> to(n);
    for (uint64_t i = 0; i < n; ++i) {
      to[i] = static_cast<Pe>(target_of(kind, me, i));
      for (uint64_t w = 0; w < words; ++w) rows[1 + i * words + w] = row_word(me, i, w);
    }
    std::vector<uint64_t> counts(n_pes), counts_back(n_pes);
    for (uint64_t pe = 0; pe < n_pes; ++pe)
      for (uint64_t i = 0; i < rows_of(kind, pe, round == 1 ? most / 2 : most); ++i) {
        if (target_of(kind, pe, i) != me) continue;
        ++counts[pe];
        for (uint64_t w = 0; w < words; ++w) came.push_back(row_word(pe, i, w));
      }
    for (uint64_t pe = 0; pe < n_pes; ++pe)
      for (uint64_t i = 0; i < n; ++i) {
        if (target_of(kind, me, i) != pe) continue;
        ++counts_back[pe];
        for (uint64_t w = 0; w < words; ++w) returned.push_back(row_word(me, i, w));
      }
    const device_array<uint32_t> given(rows);
    const device_array<Pe> targets(to);
    there.all_to_all(given.data() + 1, targets.data(), n, stream);
    back.all_to_all_sorted(there.rows(), there.counts(), stream);
    gravel_stream_synchronize(stream);
    const std::string what = std::to_string(row_bytes) + " bytes, " + kind + ", round " + std::to_string(round);
    const exchanged found(there, words), found_back(back, words);
    expect(found.counts == counts, "counts of an exchange of " + what);
    expect(found.words == came, "exchange of " + what);
    expect(found_back.counts == counts_back, "counts of an exchange back of " + what);
    expect(found_back.words == returned, "exchange back of " + what);
  }
  gravel_barrier_all();
}

/// Exchanges in two streams at a time do not disturb each other.
void check_two_exchanges() {
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  constexpr uint64_t n = 300;
  gravel::row_exchange first(4, n_pes * n), second(4, n_pes * n);
  const gravel_stream_t side = gravel_stream_create();
  std::vector<uint32_t> rows(n), to(n);
  for (uint64_t i = 0; i < n; ++i) {
    rows[i] = word_of(me, i);
    to[i] = target_of("random", me, i);
  }
  const device_array<uint32_t> given(rows), targets(to);
  for (int round = 0; round < 3; ++round) {
    first.all_to_all(given.data(), targets.data(), n);
    second.all_to_all(given.data(), targets.data(), n, side);
  }
  gravel_synchronize();
  const exchanged found(first, 1), found_2(second, 1);
  std::vector<uint32_t> wanted;
  for (uint64_t pe = 0; pe < n_pes; ++pe)
    for (uint64_t i = 0; i < n; ++i)
      if (target_of("random", pe, i) == me) wanted.push_back(word_of(pe, i));
  expect(found.words == wanted && found_2.words == wanted, "exchanges in two streams");
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

void check_exchanges(bool is_short) {
  const gravel_stream_t side = gravel_stream_create();
  check_exchange<int32_t>(8, "random", is_short ? 300 : 5000, nullptr);
  check_exchange<uint64_t>(4, "random", is_short ? 100 : 20000, side);
  check_exchange<uint32_t>(12, "in turn", 200, side);
  check_exchange<int64_t>(264, "random", is_short ? 50 : 1000, nullptr);
  check_exchange<int32_t>(is_short ? 40000 : 65536, "random", 5, nullptr);
  check_exchange<int32_t>(16, "to one PE", 100, nullptr);
  check_exchange<int32_t>(20, "to itself", 100, nullptr);
  check_exchange<int32_t>(64, "of one PE", 100, side);
  check_exchange<int32_t>(64, "one row", 10, nullptr);
  check_exchange<int32_t>(64, "none", 10, nullptr);
  gravel_stream_destroy(side);
  check_two_exchanges();
}

void check_refusals() {
  using gravel::detail::error;
  expect_error("a multiple of 4 from 4 to 65536", [] { gravel::rows table(10, 6); });
  expect_error("a multiple of 4 from 4 to 65536", [] { gravel::rows table(10, 0); });
  expect_error("a multiple of 4 from 4 to 65536", [] { gravel::rows table(10, 65540); });
  expect_error("more than any memory has", [] { gravel::rows table(~uint64_t{0}, 4096); });
  if (gravel_n_pes() > 1) {
    const auto mine = static_cast<uint64_t>(gravel_my_pe());
    expect_error("the PEs pass different sizes", [&] { gravel::rows table(100 + mine, 8); });
    expect_error("some PEs pass dealt::blocks, others dealt::cyclic",
                 [&] { gravel::array<float> numbers(100, mine ? gravel::dealt::cyclic : gravel::dealt::blocks); });
    expect_error("some PEs pass place::device, others place::host", [&] {
      gravel::rows table(100, 8, gravel::dealt::blocks, mine ? gravel::place::host : gravel::place::device);
    });
  }
  expect_error("raise GRAVEL_SYMMETRIC_SIZE",
               [] { gravel::rows table(uint64_t{1} << 46, 4, gravel::dealt::blocks, gravel::place::host); });
  expect_error("a multiple of 4 from 4 to 65536", [] { gravel::row_exchange exchange(6, 10); });
  expect_error("more than any memory has", [] { gravel::row_exchange exchange(4096, ~uint64_t{0}); });
  if (gravel_n_pes() > 1) {
    const auto mine = static_cast<uint64_t>(gravel_my_pe());
    expect_error("the PEs pass different sizes", [&] { gravel::row_exchange exchange(8, 100 + mine); });
  }
  gravel::rows table(10, 12);
  expect_error("less than 2^24 of up to 2^40 rows", [&] { gravel::row_cache cache(table, uint64_t{1} << 24); });
  const device_array<uint32_t> ids(4);
  const device_array<double> values(4);
  expect_error("does not consist of elements of 8", [&] { table.scatter_add(ids.data(), values.data(), 1); });
  device_array<gravel_half> halves(8);
  expect_error("values of 16 bits are not aligned to 4", [&] { table.scatter_add(ids.data(), halves.data() + 1, 1); });
  device_array<char> out(100);
  expect_error("not aligned to 4 bytes", [&] { table.gather(out.data() + 1, ids.data(), 1); });
}

/// A program that does not name the handler can write elements of 16 bits, and no more.
void check_without_handler() {
  gravel::rows table(10, 8);
  const device_array<uint32_t> ids(1);
  const device_array<gravel_half> values(4);
  expect_error("pass gravel::pair_updates to gravel_init", [&] { table.scatter_add(ids.data(), values.data(), 1); });
  table.scatter(ids.data(), values.data(), 1);
  gravel_barrier_all();
}
}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  if (option == "no-handler") {
    gravel_init<>();
    check_without_handler();
    gravel_finalize();
    return failures != 0;
  }
  gravel_init<gravel::pair_updates>();
  if (option == "bad-target" || option == "bad-room" || option == "least-room") {
    {
      gravel::row_exchange exchange(8, option == "bad-room" ? 7 : 8);
      const device_array<uint64_t> rows(4);
      const bool is_bad_target = option == "bad-target";
      const device_array<int32_t> to(is_bad_target ? std::vector<int32_t>{0, 1, -3, 1} : std::vector<int32_t>(4, 1));
      exchange.all_to_all(rows.data(), to.data(), gravel_my_pe() == 0 || !is_bad_target ? 4 : 0);
      gravel_barrier_all();
      gravel_barrier_all();
    }
    expect(option == "least-room", "a job goes on behind " + option);
    gravel_finalize();
    return failures != 0;
  }
  if (option == "bad-row" || option == "bad-sum") {
    gravel::rows table(10, 8);
    std::vector<uint64_t> numbers(2000, 3);  // more than are staged at once where the table is not mapped
    numbers[1503] = 10;
    const device_array<uint64_t> rows(numbers);
    const device_array<int32_t> signed_rows(std::vector<int32_t>{3, 4, -1, 9});
    device_array<uint64_t> words(numbers.size());
    if (gravel_my_pe() == 0 && option == "bad-row") table.gather(words.data(), rows.data(), numbers.size());
    if (gravel_my_pe() == 0 && option == "bad-sum") table.scatter_add(signed_rows.data(), words.data(), 4);
    gravel_barrier_all();
    gravel_barrier_all();
    return 0;
  }
  if (option == "larger" || option == "dies") {
    if (option == "larger") check_larger();
    else read_until_death();
    gravel_finalize();
    return failures != 0;
  }
  const bool is_short = option == "short";
  check_refusals();
  std::mt19937_64 chance(static_cast<uint64_t>(7 + gravel_my_pe()));
  for (const uint64_t row_bytes : {4, 8, 12, 16, 20, 264, 512, 4096})
    for (const uint64_t count : {1, 5, 1000})
      for (const gravel::dealt dealt : {gravel::dealt::blocks, gravel::dealt::cyclic})
        if (!is_short || (row_bytes + count) % 3 == 0) check_gathers(count, row_bytes, dealt, is_short, chance);
  check_gathers(5, 65536, gravel::dealt::cyclic, true, chance);  // a row is more than one request may ask for
  check_two_streams();
  check_beside();
  check_graph();
  for (const gravel::dealt dealt : {gravel::dealt::blocks, gravel::dealt::cyclic}) {
    check_array<float>(dealt);
    check_array<uint64_t>(dealt);
  }
  const uint64_t n = is_short ? 500 : 5000;
  for (const char* const kind : {"random", "equal", "ends"}) {
    check_update<float>(update::add, "float", 100, 1, n, kind, 1);
    check_update<double>(update::add, "double", 100, 3, n, kind, 2);
    check_update<float>(update::add, "float", 1000, 64, n / 50, kind, 3);
    check_update<uint32_t>(update::add, "uint32_t", 7, 5, n, kind, 4);
    check_update<int64_t>(update::min, "int64_t", 100, 1, n, kind, 5);
    check_update<float>(update::max, "float", 30, 3, n, kind, 6);
    check_update<uint64_t>(update::count, "uint64_t", 1000, 1, n, kind, 7);
    check_update<uint32_t>(update::count, "uint32_t", 10, 2, n, kind, 8);
    check_update<uint32_t>(update::put, "uint32_t", 300, 7, n, kind, 9);
    check_update<double>(update::put, "double", 300, 2, n, kind, 10);
    check_update<gravel_half>(update::add, "half", 100, 6, n, kind, 11);
    check_update<gravel_bfloat16>(update::add, "bfloat16", 300, 2, n, kind, 12);
    check_update<gravel_half>(update::min, "half", 50, 2, n, kind, 13);
    check_update<gravel_bfloat16>(update::max, "bfloat16", 50, 10, n / 5, kind, 14);
    check_update<gravel_bfloat16>(update::put, "bfloat16", 50, 6, n, kind, 15);
  }
  for (const uint64_t few : {uint64_t{0}, uint64_t{1}}) {
    check_update<float>(update::add, "float, few", 100, 3, few, "random", 16);
    check_update<gravel_half>(update::add, "half, few", 100, 2, few, "random", 17);
  }
  check_update<float>(update::add, "float", 90, 17, n / 20, "of one PE", 20);
  check_update<uint32_t>(update::put, "uint32_t", 90, 33, n / 20, "of one PE", 21);
  check_update<float>(update::add, "float", 20, 1024, n / 200, "of one PE", 24);
  check_reads(1000, 8, is_short);
  if (!is_short) check_reads(200'000, 264, false);
  check_cache(is_short ? 12 : 264, 5, gravel::dealt::blocks);
  check_cache(16, 1000, gravel::dealt::cyclic);
  if (!is_short) check_cache(20, 0, gravel::dealt::cyclic);
  check_optimizers();
  check_exchanges(is_short);
  check_hot_sums<gravel_half>("half");
  check_hot_sums<gravel_bfloat16>("bfloat16");
  check_rounding<gravel_half>("half", is_short ? 100 : 10000, 21);
  check_rounding<gravel_bfloat16>("bfloat16", is_short ? 100 : 10000, 22);
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0)
    std::printf("%s: tables on %d PEs, %s\n", all ? "WRONG" : "ok", gravel_n_pes(), gravel_backend());
  gravel_finalize();
  return all != 0;
}
