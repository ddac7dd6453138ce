// Hash maps (gravel::map): keys and values of all sizes, compared with maps of the standard library.
// One source for the CPU backend and for GPUs, where it has fewer types: nvcc takes long for each. Options: `short`;
// `full` and `full-elsewhere`, a map with too many items, at this PE and at another one; `full-all`, the same by
// phases; `dies`, a PE that dies amid calls; `little-memory`, a map that cannot grow; `large`: so many items that GPUs
// insert them by phases, too.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/map.cuh>
#include "test/support/expect.hpp"

namespace {
using gravel::device_array;
using gravel::detail::mix;

template <uint32_t BYTES>
struct bytes {
  uint32_t word[BYTES / 4];
};
struct alignas(16) wide_key {
  uint64_t word[2];
};

/// Bytes of a key, as the standard library orders them.
template <class T>
std::string text_of(const T& value) {
  std::string text(sizeof(T), 0);
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}
/// Key `number`: 0 has no bits, 1 has all bits, and neighbours in the list differ in few bits.
template <class Key>
Key key_of(uint64_t number) {
  Key key{};
  if (number == 1) std::memset(static_cast<void*>(&key), 0xff, sizeof(key));
  else if (sizeof(Key) == 16 && number % 2) std::memcpy(reinterpret_cast<char*>(&key) + 8, &number, 8);
  else std::memcpy(static_cast<void*>(&key), &number, std::min(sizeof(number), sizeof(Key)));
  return key;
}
template <class Value>
Value value_of(uint64_t number, uint64_t variant) {
  uint32_t words[16];
  for (uint32_t i = 0; i < 16; ++i) words[i] = static_cast<uint32_t>(mix(number * 64 + variant * 16 + i));
  Value value;
  std::memcpy(static_cast<void*>(&value), words, sizeof(value));
  return value;
}

template <class T>
std::vector<T> read(const device_array<T>& from, uint64_t n) {
  std::vector<T> all(n);
  gravel_copy(all.data(), from.data(), n * sizeof(T));
  return all;
}

/// What a map may have: for each key the values of which it has one.
template <class Key, class Value>
class expected_items {
 public:
  void add(const Key& key, const Value& value) { items_[text_of(key)].insert(text_of(value)); }
  void erase(const Key& key) { items_.erase(text_of(key)); }
  bool has(const Key& key) const { return items_.count(text_of(key)) != 0; }
  uint64_t size() const { return items_.size(); }
  bool allows(const Key& key, const Value& value) const {
    const auto at = items_.find(text_of(key));
    return at != items_.end() && at->second.count(text_of(value)) != 0;
  }

 private:
  std::map<std::string, std::set<std::string>> items_;
};

/// Whether items are inserted and found by the collective calls, and how their keys are drawn.
enum class way { one_sided, collective, collective_skewed };

/// Compares what find() says about the keys 0 ... n-1, in random order and some of them several times.
template <class Key, class Value>
void check_find(gravel::map<Key, Value>& map, const expected_items<Key, Value>& wanted, uint64_t n,
                std::mt19937_64& chance, const std::string& what, way how = way::one_sided,
                gravel_stream_t stream = nullptr) {
  std::vector<Key> keys;
  for (uint64_t number = 0; number < n; ++number) keys.push_back(key_of<Key>(number));
  for (uint64_t i = 0; i < n / 4; ++i) keys.push_back(keys[chance() % n]);
  std::shuffle(keys.begin(), keys.end(), chance);
  const Value untouched = value_of<Value>(~uint64_t{0}, 0);
  const device_array<Key> asked(keys);
  device_array<Value> values(std::vector<Value>(keys.size() + 1, untouched));
  device_array<uint8_t> found(std::vector<uint8_t>(keys.size() + 1, 7));
  if (how == way::one_sided) map.find(values.data(), found.data(), asked.data(), keys.size(), stream);
  else map.find_all(values.data(), found.data(), asked.data(), keys.size(), stream);
  gravel_stream_synchronize(stream);
  const std::vector<Value> got = read(values, keys.size() + 1);
  const std::vector<uint8_t> flags = read(found, keys.size() + 1);
  uint64_t wrong = flags.back() != 7 || text_of(got.back()) != text_of(untouched);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool is_there = wanted.has(keys[i]);
    const bool is_right = is_there ? wanted.allows(keys[i], got[i]) : text_of(got[i]) == text_of(untouched);
    wrong += flags[i] != is_there || !is_right;
  }
  expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong answers of " + std::to_string(keys.size()));
}

/// Compares the items that lie at this PE.
template <class Key, class Value>
void check_local(gravel::map<Key, Value>& map, const expected_items<Key, Value>& wanted, const std::string& what) {
  const uint64_t size = map.size(), mine = map.local_size();
  expect(size == wanted.size(), what + ": size " + std::to_string(size) + ", not " + std::to_string(wanted.size()));
  device_array<Key> keys(mine + 1);
  device_array<Value> values(mine + 1);
  expect(map.copy_local(keys.data(), values.data(), mine) == mine, what + ": another number of local items");
  expect(gravel_sum_all(mine) == size, what + ": the local items are not all");
  const std::vector<Key> k = read(keys, mine);
  const std::vector<Value> v = read(values, mine);
  std::set<std::string> different;
  uint64_t wrong = 0;
  for (size_t i = 0; i < mine; ++i) {
    wrong += map.view().owner(k[i]) != gravel_my_pe() || !wanted.allows(k[i], v[i]);
    different.insert(text_of(k[i]));
  }
  wrong += mine - different.size();
  expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong local items");
  if (mine) {
    expect_error("local_size() returns the number", [&] { map.copy_local(keys.data(), values.data(), mine - 1); });
  }
  gravel_barrier_all();
}

/// Numbers of keys that PE `pe` draws. Skewed: half of them are among the first few.
std::vector<uint64_t> draw(uint64_t n, uint64_t different, uint64_t seed, int pe, way how = way::one_sided) {
  std::mt19937_64 chance(seed * 64 + static_cast<uint64_t>(pe));
  std::vector<uint64_t> numbers(n);
  for (uint64_t& number : numbers) {
    number = chance() % different;
    if (how == way::collective_skewed && chance() % 2) number %= 5;
  }
  return numbers;
}
/// Draws keys at all PEs, with values of a variant, and notes them. Returns those of this PE.
template <class Key, class Value, class Note>
std::pair<device_array<Key>, device_array<Value>> draw_items(uint64_t n, uint64_t different, uint64_t seed,
                                                             const Note& note, way how = way::one_sided) {
  std::pair<device_array<Key>, device_array<Value>> mine;
  for (int pe = 0; pe < gravel_n_pes(); ++pe) {
    std::vector<Key> keys;
    std::vector<Value> values;
    for (const uint64_t number : draw(n, different, seed, pe, how)) {
      keys.push_back(key_of<Key>(number));
      values.push_back(value_of<Value>(number, seed % 3 + keys.size() % 2));
      note(number, keys.back(), values.back());
    }
    if (pe == gravel_my_pe()) mine = {device_array<Key>(keys), device_array<Value>(values)};
  }
  return mine;
}

struct count_items {
  uint64_t* count;
  template <class Key, class Value>
  GRAVEL_DEVICE void operator()(const Key&, Value& value) const {
    Value copy = value;
    value = copy;
    gravel::fetch_add<gravel::scope::device>(count, uint64_t{1});
  }
};

std::string name_of(way how) {
  if (how == way::one_sided) return "";
  return how == way::collective ? "all PEs: " : "all PEs, skewed: ";
}

template <class Key, class Value>
void check_inserts(uint64_t n, uint64_t different, uint64_t seed, way how = way::one_sided) {
  const std::string what = name_of(how) + std::to_string(n) + " items of " + std::to_string(different) + " keys, " +
                           std::to_string(sizeof(Key)) + " and " + std::to_string(sizeof(Value)) + " bytes";
  std::mt19937_64 chance(seed + 1000 + static_cast<uint64_t>(gravel_my_pe()));
  gravel::map<Key, Value> map(different + 10);
  expected_items<Key, Value> wanted;
  check_find(map, wanted, different + 5, chance, what + ", empty", how);
  const auto insert = [&](uint64_t variant) {
    const expected_items<Key, Value> before = wanted;
    const auto items = draw_items<Key, Value>(
        n, different, variant,
        [&](uint64_t, const Key& key, const Value& value) {
          if (!before.has(key)) wanted.add(key, value);  // a key that is there keeps its value
        },
        how);
    gravel_barrier_all();
    if (how == way::one_sided) map.insert(items.first.data(), items.second.data(), n);
    else map.insert_all(items.first.data(), items.second.data(), n);
    gravel_barrier_all();
  };
  insert(3 * seed);
  check_find(map, wanted, different + 5, chance, what + ", inserted", how);
  check_local(map, wanted, what + ", inserted");
  insert(3 * seed + 1);
  check_find(map, wanted, different + 5, chance, what + ", inserted twice", how);
  gravel_barrier_all();
  const auto erased = draw_items<Key, Value>(n / 2 + 1, different, 3 * seed + 2,
                                             [&](uint64_t, const Key& key, const Value&) { wanted.erase(key); });
  map.erase(erased.first.data(), n / 2 + 1);
  map.insert(erased.first.data(), erased.second.data(), 0);
  gravel_barrier_all();
  check_find(map, wanted, different + 5, chance, what + ", erased", how);
  check_local(map, wanted, what + ", erased");
  insert(3 * seed + 1);
  check_local(map, wanted, what + ", inserted again");
  device_array<uint64_t> count(std::vector<uint64_t>{0});
  map.for_each_local(count_items{count.data()});
  gravel_synchronize();
  expect(read(count, 1)[0] == map.local_size(), what + ": for_each_local came to another number of items");
  gravel_barrier_all();
  map.erase(erased.first.data(), n / 2 + 1);
  draw_items<Key, Value>(n / 2 + 1, different, 3 * seed + 2,
                         [&](uint64_t, const Key& key, const Value&) { wanted.erase(key); });
  map.reserve(3 * different + 10);
  check_find(map, wanted, different + 5, chance, what + ", larger", how);
  check_local(map, wanted, what + ", larger");
  if (wanted.size()) map.reserve(wanted.size());
  check_find(map, wanted, different + 5, chance, what + ", as small as can be", how);
  check_local(map, wanted, what + ", as small as can be");
  map.clear();
  check_local(map, expected_items<Key, Value>{}, what + ", cleared");
}

/// All PEs add to all keys. The values are small whole numbers, so the order of sums does not matter.
template <class Key, class Value>
void check_sums(uint64_t n, uint64_t different, uint64_t seed, way how = way::one_sided) {
  const std::string what = name_of(how) + std::to_string(n) + " sums of " + std::to_string(different) + " keys, " +
                           std::to_string(sizeof(Key)) + " and " + std::to_string(sizeof(Value)) + " bytes";
  std::mt19937_64 chance(seed + static_cast<uint64_t>(gravel_my_pe()));
  // By phases, more keys than the map was made for: many parts become full.
  gravel::map<Key, Value> map(how == way::one_sided ? different : different - different / 7);
  std::vector<Value> sums(different);
  std::vector<bool> is_there(different);
  const gravel_stream_t side = gravel_stream_create();
  for (uint64_t round = 0; round < 2; ++round) {
    device_array<Key> keys;
    device_array<Value> values;
    for (int pe = 0; pe < gravel_n_pes(); ++pe) {
      std::vector<Key> k;
      std::vector<Value> v;
      for (const uint64_t number : draw(n, different, seed + round, pe, how)) {
        k.push_back(key_of<Key>(number));
        v.push_back(static_cast<Value>(number % 7 + k.size() % 5));
        sums[number] += v.back();
        is_there[number] = true;
      }
      if (pe != gravel_my_pe()) continue;
      keys = device_array<Key>(k);
      values = device_array<Value>(v);
    }
    if (how == way::one_sided) {
      // Two kernels at the same time, beside the handlers.
      map.insert_or_add(keys.data(), values.data(), n / 2, side);
      map.insert_or_add(keys.data() + n / 2, values.data() + n / 2, n - n / 2);
    } else {
      map.insert_or_add_all(keys.data(), values.data(), n / 2, side);
      gravel_stream_synchronize(side);
      // The last PE has no more items.
      const bool has_more = gravel_n_pes() == 1 || gravel_my_pe() + 1 < gravel_n_pes();
      map.insert_or_add_all(keys.data() + n / 2, values.data() + n / 2, has_more ? n - n / 2 : 0);
      if (!has_more) map.insert_or_add_all(keys.data() + n / 2, values.data() + n / 2, n - n / 2);
      else if (gravel_n_pes() > 1) map.insert_or_add_all(nullptr, nullptr, 0);
    }
    gravel_barrier_all();
    if (round == 0 && seed % 2) map.reserve(different * 2);
  }
  gravel_stream_destroy(side);
  expected_items<Key, Value> wanted;
  for (uint64_t number = 0; number < different; ++number)
    if (is_there[number]) wanted.add(key_of<Key>(number), sums[number]);
  check_find(map, wanted, different + 2, chance, what, how);
  check_local(map, wanted, what);
}

/// Fills nine tenths of all slots, then all of them.
void check_load() {
  gravel::map<uint64_t, uint64_t> map(300);
  const auto pes = static_cast<size_t>(gravel_n_pes()), me = static_cast<size_t>(gravel_my_pe());
  std::vector<std::vector<uint64_t>> numbers(pes);  // by owner
  std::mt19937_64 chance(9);
  uint64_t all = 0;
  for (bool is_full = false; !is_full;) {
    numbers[static_cast<size_t>(map.view().owner(key_of<uint64_t>(all)))].push_back(all);
    ++all;
    is_full = true;
    for (const auto& of_owner : numbers) is_full &= of_owner.size() >= map.local_slots();
  }
  expected_items<uint64_t, uint64_t> wanted;
  const uint64_t begins[] = {0, map.local_slots() * 9 / 10, map.local_slots()};
  for (int step = 0; step < 2; ++step) {
    std::vector<uint64_t> keys;
    std::vector<uint64_t> values;
    for (size_t owner = 0; owner < pes; ++owner)
      for (uint64_t i = begins[step]; i < begins[step + 1]; ++i) {
        const uint64_t key = numbers[owner][i];
        const auto value = value_of<uint64_t>(key, 1);
        wanted.add(key_of<uint64_t>(key), value);
        if (i % pes != me && i % 3) continue;
        keys.push_back(key);
        values.push_back(value);
      }
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = key_of<uint64_t>(keys[i]);
    const device_array<uint64_t> k(keys);
    const device_array<uint64_t> v(values);
    map.insert(k.data(), v.data(), keys.size());
    gravel_barrier_all();
    check_find(map, wanted, all + 50, chance, step ? "all slots" : "nine tenths of the slots");
    check_local(map, wanted, step ? "all slots" : "nine tenths of the slots");
  }
}

/// Finds in two streams do not disturb each other.
void check_two_streams() {
  gravel::map<uint64_t, uint64_t> map(500);
  expected_items<uint64_t, uint64_t> wanted;
  const auto items = draw_items<uint64_t, uint64_t>(
      300, 500, 5, [&](uint64_t, const uint64_t& key, const uint64_t& value) { wanted.add(key, value); });
  map.insert(items.first.data(), items.second.data(), 300);
  gravel_barrier_all();
  const gravel_stream_t side = gravel_stream_create();
  std::vector<uint64_t> first, second;
  for (uint64_t i = 0; i < 700; ++i) first.push_back(key_of<uint64_t>(i * 7 % 600));
  for (uint64_t i = 0; i < 500; ++i) second.push_back(key_of<uint64_t>(599 - i * 11 % 600));
  const device_array<uint64_t> keys_1(first), keys_2(second);
  device_array<uint64_t> values_1(first.size()), values_2(second.size());
  device_array<uint8_t> found_1(first.size()), found_2(second.size());
  for (int round = 0; round < 3; ++round) {
    map.find(values_1.data(), found_1.data(), keys_1.data(), first.size());
    map.find(values_2.data(), found_2.data(), keys_2.data(), second.size(), side);
  }
  gravel_stream_synchronize(nullptr);
  gravel_stream_synchronize(side);
  const auto check = [&](const std::vector<uint64_t>& keys, const device_array<uint64_t>& values,
                         const device_array<uint8_t>& found) {
    const std::vector<uint64_t> v = read(values, keys.size());
    const std::vector<uint8_t> f = read(found, keys.size());
    uint64_t wrong = 0;
    for (size_t i = 0; i < keys.size(); ++i)
      wrong += f[i] != wanted.has(keys[i]) || (f[i] && !wanted.allows(keys[i], v[i]));
    expect(wrong == 0, "finds in two streams: " + std::to_string(wrong) + " wrong answers");
  };
  check(first, values_1, found_1);
  check(second, values_2, found_2);
  gravel_stream_destroy(side);
  gravel_barrier_all();
}

/// More keys than a find by messages has under way at once.
void check_many_finds() {
  gravel::map<wide_key, bytes<64>> map(100);
  expected_items<wide_key, bytes<64>> wanted;
  const auto items = draw_items<wide_key, bytes<64>>(
      60, 100, 8, [&](uint64_t, const wide_key& key, const bytes<64>& value) { wanted.add(key, value); });
  map.insert(items.first.data(), items.second.data(), 60);
  gravel_barrier_all();
  std::mt19937_64 chance(8);
  check_find(map, wanted, 23000, chance, "many keys");
  gravel_barrier_all();
}

void check_refusals() {
  using small = gravel::map<uint64_t, uint64_t>;
  expect_error("a capacity of 0 items; it is at least 1", [] { small map(0); });
  expect_error("is more than any memory has", [] { small map(~uint64_t{0}); });
  expect_error("is more than any memory has", [] { small map(uint64_t{1} << 47); });
  expect_error("gravel_init<gravel::map<Key, Value>::delivery>(), with keys of 16 bytes and values of 60",
               [] { gravel::map<wide_key, bytes<60>> map(5); });
  expect_error("gravel_malloc", [] { small map(uint64_t{1} << 37); });
  if (gravel_n_pes() > 1) {
    const auto mine = static_cast<uint64_t>(gravel_my_pe());
    expect_error("here, and another one at other PEs", [&] { small map(100 + mine); });
  }
  small map(100);
  const device_array<uint64_t> keys(std::vector<uint64_t>{1, 2, 3});
  map.insert(keys.data(), keys.data(), 3);
  expect_error("the map has 3 items", [&] { map.reserve(2); });
  expect_error("gravel_malloc", [&] { map.reserve(uint64_t{1} << 37); });
  expect_error("gravel::map::reserve: a capacity of 0 items", [&] { map.reserve(0); });
  expect(map.size() == 3, "a refused reserve() has changed the map");
}

/// All items of all PEs belong to the last PE: lists there overflow.
void check_one_owner(uint64_t n) {
  const auto pes = static_cast<uint64_t>(gravel_n_pes());
  std::mt19937_64 chance(11);
  gravel::map<uint64_t, uint64_t> map(4 * n);
  expected_items<uint64_t, uint64_t> wanted;
  std::vector<uint64_t> keys;
  uint64_t number = 0;
  for (; keys.size() < n; ++number) {
    const auto key = key_of<uint64_t>(number);
    if (map.view().owner(key) + 1 != gravel_n_pes()) continue;
    keys.push_back(key);
    wanted.add(key, 2 * pes);
  }
  const device_array<uint64_t> k(keys), ones(std::vector<uint64_t>(n, 1));
  for (int round = 0; round < 2; ++round) map.insert_or_add_all(k.data(), ones.data(), n);
  check_find(map, wanted, number, chance, "one owner");  // in the same stream: no barrier is needed
  check_local(map, wanted, "one owner");
}

/// A change of one key, by a lane of a kernel or of a handler.
enum class single_call : uint32_t { insert, add, erase };
template <class Key, class Value>
GRAVEL_DEVICE void change_one(const gravel_t& g, const gravel::map_view<Key, Value>& map, single_call call,
                              const Key& key, const Value& value) {
  if (call == single_call::insert) map.insert(g, key, value);
  if (call == single_call::erase) map.erase(g, key);
  if constexpr (gravel::detail::map_number_of<Value> != gravel::detail::map_number::none)
    if (call == single_call::add) map.insert_or_add(g, key, value);
}
/// Changes a key of any PE in a handler. The view lies in the context.
template <class Key, class Value>
struct change_in_handler {
  static constexpr const char* name = "change_in_handler";
  using context = gravel::map_view<Key, Value>;
  GRAVEL_HANDLER void operator()(const gravel_t& g, context* map, single_call call, Key key, uint64_t value) const {
    change_one(g, *map, call, key, static_cast<Value>(value));
  }
};
template <class Key, class Value>
__global__ void change_each(gravel_t g, gravel::map_view<Key, Value> map, single_call call, const Key* keys,
                            const Value* values, uint64_t n, bool in_handlers) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    if constexpr (std::is_same_v<Value, uint64_t>)
      if (in_handlers && i % 2) {
        gravel_am<change_in_handler<Key, Value>>(g, static_cast<int>(i % g.n_pes), call, keys[i], values[i]);
        continue;
      }
    change_one(g, map, call, keys[i], values[i]);
  }
}
template <class Key, class Value>
__global__ void find_each(gravel_t g, gravel::map_view<Key, Value> map, Value* values, uint8_t* found, const Key* keys,
                          uint64_t n) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    found[i] = map.find(g, keys[i], &values[i]);
}

/// Calls of single keys from kernels and handlers.
template <class Key, class Value>
void check_single_calls(uint64_t n, uint64_t different, uint64_t seed) {
  constexpr bool adds = std::is_same_v<Value, uint64_t>;
  const std::string what = "single calls, " + std::to_string(sizeof(Key)) + " and " + std::to_string(sizeof(Value));
  std::mt19937_64 chance(seed);
  gravel::map<Key, Value> map(different + 10);
  device_array<gravel::map_view<Key, Value>> view(std::vector<gravel::map_view<Key, Value>>{map.view()});
  if constexpr (adds) gravel_set_context<change_in_handler<Key, Value>>(view.data());
  gravel_barrier_all();
  expected_items<Key, Value> wanted;
  std::vector<Value> sums(adds ? different : 0);
  const auto check = [&](const std::string& when) {
    std::vector<Key> keys;
    for (uint64_t i = 0; i < n; ++i) keys.push_back(key_of<Key>(chance() % (different + 5)));
    const device_array<Key> asked(keys);
    const Value untouched = value_of<Value>(~uint64_t{0}, 0);
    device_array<Value> values(std::vector<Value>(n, untouched));
    device_array<uint8_t> found(n);
    gravel_launch(find_each<Key, Value>, 2, 64, gravel_handle(), map.view(), values.data(), found.data(), asked.data(),
                  n);
    gravel_synchronize();
    const std::vector<Value> v = read(values, n);
    const std::vector<uint8_t> f = read(found, n);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const bool is_there = wanted.has(keys[i]);
      const bool is_right = is_there ? wanted.allows(keys[i], v[i]) : text_of(v[i]) == text_of(untouched);
      wrong += f[i] != is_there || !is_right;
    }
    expect(wrong == 0, what + ", " + when + ": " + std::to_string(wrong) + " wrong answers");
    check_local(map, wanted, what + ", " + when);
  };
  const auto change = [&](single_call call, uint64_t items, uint64_t variant, const auto& note) {
    const auto drawn = draw_items<Key, Value>(items, different, variant, note);
    gravel_launch(change_each<Key, Value>, 2, 64, gravel_handle(), map.view(), call, drawn.first.data(),
                  drawn.second.data(), items, adds && call != single_call::insert);
    gravel_wait_quiescent();  // handlers send messages, too
  };
  check("empty");
  if constexpr (adds) {
    std::vector<bool> is_there(different);
    change(single_call::add, n, 3 * seed, [&](uint64_t number, const Key&, const Value& value) {
      sums[number] += value;
      is_there[number] = true;
    });
    for (uint64_t number = 0; number < different; ++number)
      if (is_there[number]) wanted.add(key_of<Key>(number), sums[number]);
  } else {
    change(single_call::insert, n, 3 * seed,
           [&](uint64_t, const Key& key, const Value& value) { wanted.add(key, value); });
  }
  check("inserted");
  change(single_call::erase, n / 4, 3 * seed + 2, [&](uint64_t, const Key& key, const Value&) { wanted.erase(key); });
  check("erased");
  const expected_items<Key, Value> before = wanted;
  change(single_call::insert, n, 3 * seed + 1, [&](uint64_t, const Key& key, const Value& value) {
    if (!before.has(key)) wanted.add(key, value);
  });
  check("inserted again");
}

/// Keys with neighbouring numbers.
std::vector<uint64_t> keys_from(uint64_t first, uint64_t count) {
  std::vector<uint64_t> keys(count);
  for (uint64_t i = 0; i < count; ++i) keys[i] = key_of<uint64_t>(first + i);
  return keys;
}
/// Maps that get new slots before collective insertions, also behind one-sided ones, and none for keys that repeat or
/// were erased; and slots that are held.
void check_growth(uint64_t n) {
  using map_type = gravel::map<uint64_t, uint64_t>;
  const auto pes = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  std::mt19937_64 chance(31);
  map_type map(50);
  expected_items<uint64_t, uint64_t> wanted;
  const auto insert = [&](uint64_t first, uint64_t count, const auto& call) {
    for (const uint64_t key : keys_from(first, count * pes)) wanted.add(key, key);
    const device_array<uint64_t> k(keys_from(first + me * count, count));
    call(k.data(), count);
    gravel_barrier_all();
  };
  const auto all = [&](const uint64_t* k, uint64_t count) { map.insert_all(k, k, count); };
  insert(0, 40 / pes, all);
  expect(map.capacity() == 50, "growth: a map with room has grown");
  insert(40, 30 / pes, [&](const uint64_t* k, uint64_t count) { map.insert(k, k, count); });
  insert(70, 80 / pes, all);
  // The smallest map of a GPU has slots for all of these.
  expect(pes > 1 || GRAVEL_CUDA || map.capacity() == 200, "growth: room for " + std::to_string(map.capacity()));
  uint64_t next = 150;
  for (uint64_t count = 60; count < n; count *= 3) {
    insert(next, count, all);
    next += count * pes;
  }
  check_find(map, wanted, next + 20, chance, "growth");
  check_local(map, wanted, "growth");
  const uint64_t slots = map.local_slots() * pes;
  expect(map.capacity() > 50 && slots >= wanted.size() && slots <= 16 * wanted.size() + 512 * pes,
         "growth: room for " + std::to_string(map.capacity()) + ", " + std::to_string(slots) + " slots");

  map_type same(100);
  const device_array<uint64_t> few(keys_from(0, 90)), ones(std::vector<uint64_t>(90, 1));
  for (int round = 0; round < 5; ++round) same.insert_or_add_all(few.data(), ones.data(), 90);
  expect(same.capacity() == 100 && same.size() == 90, "growth: a map has grown for keys that were there");
  same.erase(few.data(), 90);
  gravel_barrier_all();
  for (uint64_t round = 1; round < 8; ++round) {
    const device_array<uint64_t> k(keys_from(90 * round, 60));
    same.insert_all(k.data(), k.data(), 60);
    same.erase(k.data(), 60);
    gravel_barrier_all();
  }
  expect(same.capacity() == 100 && same.size() == 0, "growth: a map has grown for keys that were erased");

  same.clear();
  same.insert_all(few.data(), few.data(), me == 0 ? 10 : 0);
  gravel_barrier_all();
  // PE 0 looks keys up, while all PEs insert more than fits.
  const gravel_stream_t side = gravel_stream_create();
  device_array<uint64_t> values(90);
  device_array<uint8_t> found(90);
  if (me == 0) {
    same.hold_slots();
    same.find(values.data(), found.data(), few.data(), 90, side);
  }
  const device_array<uint64_t> many(keys_from(0, 600));
  expect_error("as 1 PEs hold its slots", [&] { same.insert_all(many.data(), many.data(), 600); });
  expect_error("gravel::map::reserve: it gets no new slots", [&] { same.reserve(700); });
  gravel_stream_synchronize(side);
  if (me == 0) {
    const std::vector<uint64_t> v = read(values, 10);
    const std::vector<uint8_t> f = read(found, 90);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 90; ++i) wrong += f[i] != (i < 10) || (i < 10 && v[i] != key_of<uint64_t>(i));
    expect(wrong == 0, "growth: " + std::to_string(wrong) + " wrong finds beside a refused insertion");
  }
  gravel_stream_destroy(side);
  expect(same.size() == 10 && same.capacity() == 100, "growth: a refused insertion has changed the map");
  if (me == 0) same.release_slots();
  expect_error("this PE does not hold the slots", [&] { same.release_slots(); });
  same.insert_all(many.data(), many.data(), 600);
  expect(same.size() == 600 && same.capacity() == 800, "growth: room for " + std::to_string(same.capacity()));
  if (pes > 1) expect_error("pass the same at all PEs", [&] { map_type other(100, {.grow = me == 0}); });
}
/// Maps that get new slots before one-sided insertions, and before those of single keys: room for what each PE says.
void check_room(uint64_t n) {
  const auto pes = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  std::mt19937_64 chance(41);
  gravel::map<uint64_t, uint64_t> map(50);
  expected_items<uint64_t, uint64_t> wanted;
  uint64_t next = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    // The last PE brings none.
    const uint64_t all = n << round, bringing = std::max<uint64_t>(pes - 1, 1), count = me < bringing ? all : 0;
    for (const uint64_t key : keys_from(next, all * bringing)) wanted.add(key, key);
    const device_array<uint64_t> k(keys_from(next + me * all, count));
    map.make_room(count);
    const uint64_t capacity = map.capacity();
    map.make_room(count);
    expect(map.capacity() == capacity, "room: a map with room has grown");
    if (round % 2) {
      gravel_launch(change_each<uint64_t, uint64_t>, 2, 64, gravel_handle(), map.view(), single_call::insert, k.data(),
                    k.data(), count, false);
    } else {
      map.insert(k.data(), k.data(), count);
    }
    gravel_barrier_all();
    next += all * bringing;
    check_find(map, wanted, next + 20, chance, "room");
    check_local(map, wanted, "room");
  }
  expect((GRAVEL_CUDA || map.capacity() > 50) && map.capacity() < 8 * wanted.size() + 100,
         "room: a map for " + std::to_string(map.capacity()) + " items has " + std::to_string(wanted.size()));
  map.hold_slots();
  expect_error("one-sided insertions into a map for", [&] { map.make_room(100 * n); });
  expect_error("more than any memory has", [&] { map.make_room(~uint64_t{0}); });
  map.release_slots();
  gravel::map<uint64_t, uint64_t> fixed(50, {.grow = false});
  expect_error("the map was made with `grow` false", [&] { fixed.make_room(10); });
}
/// A map that cannot grow, as there is too little memory.
void check_refused_growth() {
  gravel::map<uint64_t, uint64_t> map(100);
  const device_array<uint64_t> few(keys_from(0, 100)), many(keys_from(0, 100000));
  map.insert_all(few.data(), few.data(), 100);
  expect_error("it cannot grow to", [&] { map.insert_all(many.data(), many.data(), 100000); });
  expect(map.size() == 100 && map.capacity() == 100, "a refused growth has changed the map");
  map.insert_all(few.data(), few.data(), 100);
  expect(map.size() == 100, "a map that could not grow takes no items");
}

/// Insertions by the collective calls.
void check_phases(uint64_t n) {
  check_one_owner(n);
  for (const way how : {way::collective, way::collective_skewed}) {
    for (const uint64_t different : {uint64_t{1}, uint64_t{30}, n / 6, 2 * n})
      check_sums<uint64_t, uint64_t>(n, different, 1, how);
    check_sums<wide_key, double>(n, n / 5, 3, how);
#if GRAVEL_CUDA
    check_inserts<uint64_t, uint64_t>(n, n / 2, 5, how);
#else
    check_sums<uint32_t, uint32_t>(n, n / 5, 2, how);
    check_sums<uint64_t, float>(n, n / 5, 4, how);
    check_inserts<uint32_t, bytes<12>>(n, n, 5, how);
    check_inserts<uint64_t, bytes<16>>(n, n / 2, 6, how);
    check_inserts<wide_key, bytes<20>>(n, n / 2, 7, how);  // too large for phases
#endif
  }
}

template <class Key, uint32_t... VALUES>
void check_sizes(uint64_t n, uint64_t seed) {
  (check_inserts<Key, bytes<VALUES>>(n, n / 2, seed + VALUES), ...);
}

/// More items than there are slots: of this PE alone, or of the last PE alone.
void fill_too_far(const std::string& option) {
  gravel::map<uint64_t, uint64_t> map(20, {.grow = false});
  const int owner = option == "full" ? 0 : gravel_n_pes() - 1;
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; keys.size() < 1000; ++key)
    if (map.view().owner(key) == owner) keys.push_back(key);
  const device_array<uint64_t> k(keys);
  if (option == "full-all") map.insert_all(k.data(), k.data(), gravel_my_pe() == 0 ? keys.size() : 0);
  else if (gravel_my_pe() == 0) map.insert(k.data(), k.data(), keys.size());
  gravel_barrier_all();
  gravel_barrier_all();
}

/// All PEs insert, by collective calls and one-sided ones, until PE 1 dies amid its calls.
void insert_until_death() {
  gravel::map<uint64_t, uint64_t> map(1000);
  const device_array<uint64_t> k(keys_from(0, 500));
  for (int round = 0; round < 100'000; ++round) {
    map.insert_or_add_all(k.data(), k.data(), 500);
    map.insert(k.data(), k.data(), 500);
    if (gravel_my_pe() == 1 && round == 20) raise(SIGKILL);
    gravel_barrier_all();
  }
}

template <class... T>
void start() {
  gravel_init<typename T::delivery..., change_in_handler<uint64_t, uint64_t>>();
}
}  // namespace

int main(int argc, char** argv) {
  using gravel::map;
#if GRAVEL_CUDA
  start<map<uint64_t, bytes<8>>, map<wide_key, bytes<8>>, map<wide_key, bytes<64>>>();
#else
  start<map<uint32_t, bytes<4>>, map<uint32_t, bytes<8>>, map<uint32_t, bytes<12>>, map<uint32_t, bytes<64>>,
        map<uint64_t, bytes<4>>, map<uint64_t, bytes<8>>, map<uint64_t, bytes<16>>, map<uint64_t, bytes<40>>,
        map<wide_key, bytes<4>>, map<wide_key, bytes<8>>, map<wide_key, bytes<20>>, map<wide_key, bytes<64>>>();
#endif
  const std::string option = argc > 1 ? argv[1] : "";
  if (option.starts_with("full")) {
    fill_too_far(option);
    gravel_finalize();
    return 0;
  }
  if (option == "dies") {
    insert_until_death();
    gravel_finalize();
    return 0;
  }
  if (option == "little-memory") {
    check_refused_growth();
    const uint64_t wrong = gravel_sum_all(static_cast<uint64_t>(failures));
    if (gravel_my_pe() == 0) std::printf("%s: a map that cannot grow\n", wrong ? "WRONG" : "ok");
    gravel_finalize();
    return wrong != 0;
  }
  if (option == "large") {
    // Two calls of 2^19 items, those that are left, and one call.
    const uint64_t n = uint64_t{1} << 20;
    for (const way how : {way::collective, way::collective_skewed}) {
      check_sums<uint64_t, uint64_t>(n, 1, 1, how);
      check_sums<uint64_t, uint64_t>(n, n / 16, 2, how);
      check_sums<wide_key, double>(n, n / 32, 3, how);
      check_inserts<uint64_t, uint64_t>(n / 2, n / 16, 4, how);
    }
    const uint64_t wrong = gravel_sum_all(static_cast<uint64_t>(failures));
    if (gravel_my_pe() == 0)
      std::printf("%s: large maps on %d PEs, %s\n", wrong ? "WRONG" : "ok", gravel_n_pes(), gravel_backend());
    gravel_finalize();
    return wrong != 0;
  }
  const bool is_short = option == "short";
  const uint64_t n = is_short ? 100 : 3000;
  check_refusals();
#if !GRAVEL_CUDA
  check_sizes<uint32_t, 4, 8, 12, 64>(n, 100);
  check_sizes<uint64_t, 4, 8, 16, 40>(n, 200);
  check_sizes<wide_key, 4, 8, 20>(n, 300);
#endif
  check_sizes<wide_key, 64>(n, 300);
  check_inserts<uint64_t, uint64_t>(n, 1, 1);  // one key, from all PEs
  for (const uint64_t different : {uint64_t{1}, uint64_t{7}, n}) {
    check_sums<uint64_t, uint64_t>(n, different, 2);
    check_sums<wide_key, double>(n, different, 5);
#if !GRAVEL_CUDA
    check_sums<uint32_t, uint32_t>(n, different, 1);
    check_sums<wide_key, float>(n, different, 3);
    check_sums<uint64_t, float>(n, different, 4);
    check_sums<uint32_t, int64_t>(n, different, 6);
#endif
  }
  check_phases(is_short ? 600 : 6000);
  check_load();
  check_growth(1000);
  check_room(is_short ? 50 : 300);
  check_single_calls<uint64_t, uint64_t>(n / 2, n / 3, 21);
  check_single_calls<wide_key, bytes<64>>(n / 2, n / 3, 22);
  check_two_streams();
  check_many_finds();
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0)
    std::printf("%s: maps on %d PEs, %s\n", all ? "WRONG" : "ok", gravel_n_pes(), gravel_backend());
  gravel_finalize();
  return all != 0;
}
