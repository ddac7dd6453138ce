// How much a launch may do in the models that gather messages before any leaves: what a block sends has to fit its
// shared memory, and, of the coprocessor model, what all send has to fit the queues.
#pragma once
#include <algorithm>
#include <string>

#include "bench/rivals/model_lists.hpp"
#include "lib/base/error.hpp"

namespace app {

/// Of a kernel that handles a range of items, in loops by which all lanes of its grid share them: what it sends at
/// most. Lanes of a warp or a block may share an item.
struct network_work {
  uint64_t items = 1;
  unsigned blocks = 1;                         ///< at least so many; where nothing is gathered, so many
  uint64_t of_item = 0, of_item_to_one = 0;    ///< messages of an item to all PEs, and to one
  uint64_t of_block = 0, of_block_to_one = 0;  ///< messages of a block, however many items there are
  uint64_t message_bytes = 0;                  ///< of each in a row (lib/base/row.hpp)
  uint64_t most_of_lane = ~uint64_t{0};        ///< items that a lane can take in one launch
  uint32_t shared_bytes = 0;                   ///< the kernel's own dynamic shared memory
  bool mapped = false;                         ///< Gravel's instance of it has a mapped_sender, or none
  unsigned mapped_lanes = lanes_of_block;      ///< of a block of that one

  /// Items that so many blocks can take.
  uint64_t most_items(uint64_t with_blocks) const {
    const uint64_t lanes = with_blocks * lanes_of_block;
    return most_of_lane < ~uint64_t{0} / lanes ? most_of_lane * lanes : ~uint64_t{0};
  }
};

/// Messages of a launch that a lane may send if all send as many.
constexpr uint64_t most_of_lane = block_lists::capacity / lanes_of_block;

/// Blocks for `items` items, so that shared memory holds what a block sends. Throws gravel::error if it cannot.
inline unsigned blocks_that_fit(const network_work& work, uint64_t items) {
  const uint64_t each = work.of_item ? most_of_lane / work.of_item : ~uint64_t{0};
  if (each == 0 || work.of_block > block_lists::capacity)
    fail_text("the networking model sends a block's messages together, " + std::to_string(block_lists::capacity) +
              " at most, but " +
              (each ? "a block here may send " + std::to_string(work.of_block)
                    : std::to_string(lanes_of_block) + " lanes may send " + std::to_string(work.of_item) + " each"));
  const uint64_t least = work.of_item ? (items + each * lanes_of_block - 1) / (each * lanes_of_block) : 1;
  return static_cast<unsigned>(std::max<uint64_t>(work.blocks, least));
}

/// Blocks whose messages to one PE fit a queue for `room` messages.
inline uint64_t blocks_for_queue(const network_work& work, uint64_t room) {
  return work.of_block_to_one ? std::max<uint64_t>(room / work.of_block_to_one, 1) : ~uint64_t{0};
}
/// Items whose messages do. Throws gravel::error if those of one do not.
inline uint64_t items_for_queue(const network_work& work, uint64_t room) {
  const uint64_t of_lanes = work.most_items(std::min<uint64_t>(work.blocks, blocks_for_queue(work, room)));
  if (work.of_item_to_one == 0) return of_lanes;
  if (room < work.of_item_to_one)
    fail_text("coprocessor: a queue has room for " + std::to_string(room) + " messages, but one item may send " +
              std::to_string(work.of_item_to_one) + ": give a larger --model-queue");
  return std::min(room / work.of_item_to_one, of_lanes);
}

}  // namespace app
