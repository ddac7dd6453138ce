// The calls of map.hpp: one gravel::map for each size of the key, and for each type of number and each size of other
// values. The bits of signed and unsigned integers are the same, and so are their sums.
#include "map.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/kmers.cuh>
#include <gravel/map.cuh>

#include "arguments.hpp"

namespace gravel::python {
namespace {

/// An array in memory of the device: the caller's, or a copy of one of the host.
struct device_copy {
  memory of;
  void* at;
  uint64_t bytes;
  void copy_back() const {
    if (at != of.at) gravel_copy(of.at, at, bytes);
  }
};

/// A key or a value of several numbers.
struct pair_of_words {
  uint64_t word[2];
};

template <class Key, class Value>
class typed_map final : public hash_map {
 public:
  typed_map(uint64_t capacity, bool grow) { map_.emplace(capacity, gravel::map_options{.grow = grow}); }
  ~typed_map() noexcept override = default;
  void update(map_call what, memory keys, memory values, uint64_t n, bool collective, stream_of_call stream) override {
    if (n == 0 && !collective) return;
    const bool has_values = what != map_call::erase;
    std::optional<host_arrays> copied;
    if (!keys.on_device || (has_values && !values.on_device)) copied.emplace(n * item_bytes);
    const auto there = [&](memory array, uint64_t bytes) {
      return copied ? copied->on_device(array, bytes, true) : array.at;
    };
    const auto* const k = static_cast<const Key*>(there(keys, n * sizeof(Key)));
    const auto* const v = has_values ? static_cast<const Value*>(there(values, n * sizeof(Value))) : nullptr;
    switch (what) {
      case map_call::insert:
        if (collective) map_->insert_all(k, v, n, stream_from(stream));
        else map_->insert(k, v, n, stream_from(stream));
        break;
      case map_call::add:
        if constexpr (detail::map_number_of<Value> != detail::map_number::none) {
          if (collective) map_->insert_or_add_all(k, v, n, stream_from(stream));
          else map_->insert_or_add(k, v, n, stream_from(stream));
        } else detail::fail_text("gravel.Map.add: values of 16 bytes are no numbers");
        break;
      case map_call::erase: map_->erase(k, n, stream_from(stream)); break;
    }
    if (copied) gravel_stream_synchronize(stream_from(stream));
  }
  void find(memory values, memory found, memory keys, uint64_t n, bool collective, stream_of_call stream) override {
    if (n == 0 && !collective) return;
    const std::lock_guard lock(find_lock_);  // gravel::map::find is for one thread at a time
    std::optional<host_arrays> copied;
    if (!keys.on_device || !values.on_device || !found.on_device) copied.emplace(n * (item_bytes + 1));
    const auto there = [&](memory array, uint64_t bytes) {
      return device_copy{array, copied ? copied->on_device(array, bytes, true) : array.at, bytes};
    };
    const device_copy k = there(keys, n * sizeof(Key)), v = there(values, n * sizeof(Value)), f = there(found, n);
    auto* const to = static_cast<Value*>(v.at);
    auto* const flags = static_cast<uint8_t*>(f.at);
    const auto* const asked = static_cast<const Key*>(k.at);
    if (collective) map_->find_all(to, flags, asked, n, stream_from(stream));
    else map_->find(to, flags, asked, n, stream_from(stream));
    if (!copied) return;
    gravel_stream_synchronize(stream_from(stream));
    v.copy_back();
    f.copy_back();
  }
  uint64_t copy_local(memory keys, memory values, uint64_t room) override {
    std::optional<host_arrays> copied;
    if (!keys.on_device || !values.on_device) copied.emplace(room * item_bytes);
    const auto there = [&](memory array, uint64_t bytes) {
      return device_copy{array, copied ? copied->on_device(array, bytes, false) : array.at, bytes};
    };
    const device_copy k = there(keys, room * sizeof(Key)), v = there(values, room * sizeof(Value));
    const uint64_t items = map_->copy_local(static_cast<Key*>(k.at), static_cast<Value*>(v.at), room);
    k.copy_back();
    v.copy_back();
    return items;
  }
  uint64_t local_size() override { return map_->local_size(); }
  uint64_t size() override { return map_->size(); }
  uint64_t capacity() const override { return map_->capacity(); }
  void count_kmers(memory codes, uint64_t size, uint32_t k) override {
    if constexpr (std::is_same_v<Key, uint64_t> && std::is_same_v<Value, uint32_t>) {
      host_arrays copied(codes.on_device ? 0 : size);
      const auto* const there = static_cast<const uint8_t*>(copied.on_device(codes, size, true));
      gravel::kmer_counter<> counter(k, size, {.most_inbox_bytes = uint64_t{64} << 20});
      counter.count(there, size);
      const uint64_t need = map_->size() + gravel_sum_all(counter.size());
      if (need > map_->capacity()) map_->reserve(need);
      map_->insert_or_add_all(counter.kmers(), counter.counts(), counter.size());
      gravel_synchronize();
      gravel_barrier_all();
    } else detail::fail_text("gravel.reads.count_kmers: the map is from k-mers of 8 bytes to counts of 4 bytes");
  }
  void clear() override { map_->clear(); }
  void reserve(uint64_t capacity) override { map_->reserve(capacity); }
  void close() override { map_.reset(); }

 private:
  static constexpr uint64_t item_bytes = sizeof(Key) + sizeof(Value);
  std::optional<gravel::map<Key, Value>> map_;
  std::mutex find_lock_;
};

template <class Key>
std::shared_ptr<hash_map> make_map_of(const map_value& value, uint64_t capacity, bool grow) {
  const uint64_t bytes = value.width * bytes_of(value.type);
  if (bytes == 16) return std::make_shared<typed_map<Key, pair_of_words>>(capacity, grow);
  if (value.width == 1 && value.type == element::f4) return std::make_shared<typed_map<Key, float>>(capacity, grow);
  if (value.width == 1 && value.type == element::f8) return std::make_shared<typed_map<Key, double>>(capacity, grow);
  if (bytes == 4) return std::make_shared<typed_map<Key, uint32_t>>(capacity, grow);
  return std::make_shared<typed_map<Key, uint64_t>>(capacity, grow);
}
std::shared_ptr<hash_map> make_any_map(uint64_t key_bytes, const map_value& value, uint64_t capacity, bool grow) {
  if (key_bytes == 4) return make_map_of<uint32_t>(value, capacity, grow);
  if (key_bytes == 8) return make_map_of<uint64_t>(value, capacity, grow);
  return make_map_of<pair_of_words>(value, capacity, grow);
}

/// Maps that are open. Collective calls change it, so it has the same order at all PEs. It is never destroyed: a
/// process that ends without close_maps(), such as one that was forked, must not free symmetric memory.
std::vector<std::shared_ptr<hash_map>>& open_maps() {
  static auto* const all = new std::vector<std::shared_ptr<hash_map>>;
  return *all;
}

}  // namespace

std::shared_ptr<hash_map> make_map(uint64_t key_bytes, const map_value& value, uint64_t capacity, bool grow) {
  auto made = make_any_map(key_bytes, value, capacity, grow);
  open_maps().push_back(made);
  return made;
}
void close_map(const std::shared_ptr<hash_map>& map) {
  std::erase(open_maps(), map);
  map->close();
}
void close_maps() {
  for (const auto& map : std::exchange(open_maps(), {})) map->close();
}

}  // namespace gravel::python
