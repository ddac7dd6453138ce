// Numbers the vertex ids of a file densely. Ids are any 64-bit numbers, and every PE must know all of them, so the
// table is compact: 64 neighbouring ids share one entry of 24 bytes. Ids without gaps cost less than a byte each, ids
// scattered over 64 bits some 50 bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/base/mix.hpp"

namespace gravel::detail {

/// Use: insert() all ids, number() once, then find(). For one thread while it is filled.
class id_index {
 public:
  id_index() : groups_(1 << 10) {}

  void insert(uint64_t id) {
    const uint64_t key = id >> 6;
    group& g = groups_[slot_of(key)];
    if (g.present) {
      g.present |= 1ull << (id & 63);
      return;
    }
    g = {key, 1ull << (id & 63), 0};
    if (++used_ * 8 > groups_.size() * 5) grow();
  }

  /// Numbers the ids from 0 in ascending order; returns them in this order.
  std::vector<uint64_t> number() {
    std::vector<group*> order;
    order.reserve(used_);
    for (group& g : groups_)
      if (g.present) order.push_back(&g);
    std::sort(order.begin(), order.end(), [](const group* a, const group* b) { return a->key < b->key; });
    uint64_t count = 0;
    for (group* g : order) {
      g->before = count;
      count += static_cast<uint64_t>(__builtin_popcountll(g->present));
    }
    std::vector<uint64_t> ids;
    ids.reserve(count);
    for (const group* g : order)
      for (uint64_t bits = g->present; bits; bits &= bits - 1)
        ids.push_back(g->key << 6 | static_cast<uint64_t>(__builtin_ctzll(bits)));
    return ids;
  }

  /// Finds the number of an id. Returns false if the id was never inserted.
  bool find(uint64_t id, uint64_t& number) const {
    const group& g = groups_[slot_of(id >> 6)];
    const uint64_t bit = 1ull << (id & 63);
    if (!(g.present & bit)) return false;
    number = g.before + static_cast<uint64_t>(__builtin_popcountll(g.present & (bit - 1)));
    return true;
  }

 private:
  struct group {
    uint64_t key = 0;      // id / 64
    uint64_t present = 0;  // bit i: id key * 64 + i exists; 0: the entry is free
    uint64_t before = 0;   // number of ids that are smaller than this group's
  };

  // Returns the entry that holds the key, or the free entry where it belongs. Ends, since the table is never full.
  size_t slot_of(uint64_t key) const {
    const size_t mask = groups_.size() - 1;
    size_t slot = static_cast<size_t>(mix(key)) & mask;
    while (groups_[slot].present && groups_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    std::vector<group> old(groups_.size() * 2);
    old.swap(groups_);
    for (const group& g : old)
      if (g.present) groups_[slot_of(g.key)] = g;
  }

  std::vector<group> groups_;  // open addressing; the size is a power of two, at most 5/8 in use
  size_t used_ = 0;
};

}  // namespace gravel::detail
