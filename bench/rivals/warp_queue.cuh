// By hand: items for warps that stay, in device memory, as many as there ever are. It ends when all that was put in is
// done. Sort and strassen by hand are written on it.
#pragma once
#include <cstdint>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "lib/base/relax.hpp"

template <class Item>
struct warp_queue {
  Item* items;
  uint32_t *ready, *head, *tail, *pending, capacity;

  /// Places for n items. Thread scope: lane.
  GRAVEL_DEVICE uint32_t places(uint32_t n) const {
    gravel::fetch_add<gravel::scope::device>(pending, n);
    return gravel::fetch_add<gravel::scope::device>(tail, n);
  }
  GRAVEL_DEVICE void put(uint32_t place, const Item& item) const {
    items[place] = item;
    gravel::store_release<gravel::scope::device>(&ready[place], 1u);
  }
  /// Thread scope: warp.
  template <class Work>
  GRAVEL_DEVICE void serve(Work work) const {
    using namespace gravel::detail;
    const lane_group warp = lane_group::of(~0u);
    for (;;) {
      uint32_t ticket = 0, found = 0;
      if (warp.is_leader()) ticket = fetch_add<scope::device>(head, 1u);
      ticket = warp.from_leader(ticket);
      for (relax idle; found == 0; idle()) {
        if (warp.is_leader()) {
          if (ticket < capacity && load_acquire<scope::device>(&ready[ticket])) found = 1;
          else if (load_acquire<scope::device>(pending) == 0) found = 2;
        }
        found = warp.from_leader(found);
        if (found) break;
      }
      if (found == 2) return;
      warp.sync();
      work(items[ticket]);
      warp.sync();
      if (warp.is_leader()) fetch_add_release<scope::device>(pending, ~0u);
    }
  }
};

/// Its memory.
template <class Item>
class warp_queue_memory {
 public:
  explicit warp_queue_memory(uint64_t capacity)
      : items_(capacity), words_(capacity + 96), capacity_(static_cast<uint32_t>(capacity)) {}

  /// Empty but for one item.
  warp_queue<Item> begin(const Item& first) {
    uint32_t* const at = words_.data();
    const uint32_t one = 1;
    gravel::detail::current_backend().zero(at, (uint64_t{capacity_} + 96) * 4);
    gravel_copy(items_.data(), &first, sizeof(first));
    for (uint32_t* word : {at + 32, at + 64, at + 96}) gravel_copy(word, &one, 4);
    return {items_.data(), at + 96, at, at + 32, at + 64, capacity_};
  }

 private:
  gravel::device_array<Item> items_;
  gravel::device_array<uint32_t> words_;
  uint32_t capacity_;
};
