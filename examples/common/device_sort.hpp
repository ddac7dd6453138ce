// Sorting in device memory: by CUB on a GPU (device_sort.cu), by the standard library on the CPU backend
// (device_sort.cpp). Compiled once for all programs that need it.
#pragma once
#include <cstdint>

namespace app {

/// Sorts keys of the given number of bits, from the lowest on. Of the two arrays of `count` one has the keys, and the
/// answer is the one that has them sorted; the other one's contents are lost. Throws gravel::error. Host; returns when
/// done.
uint64_t* sort_keys(uint64_t* keys, uint64_t* other, uint64_t count, int bits);

/// The same, and with each key goes its value. The values are where the answer says: `values` with `keys`,
/// `other_values` with `other`.
uint64_t* sort_pairs(uint64_t* keys, uint64_t* other, uint32_t* values, uint32_t* other_values, uint64_t count,
                     int bits);

/// Of equal neighbours the first one each goes from `keys` to `kept`, in order. Returns how many. Throws gravel::error.
/// Host; returns when done.
uint64_t keep_first(const uint64_t* keys, uint64_t* kept, uint64_t count);

}  // namespace app
