// The part of the Python module that uses gravel::map. Like job.hpp it knows nothing of Python.
//
// Common to all calls of this file:
// @errors gravel::error is thrown
#pragma once
#include <cstdint>
#include <memory>

#include "job.hpp"

namespace gravel::python {

/// Calls of hash_map::update(). The order is that of `UPDATES` in gravel/_map.py.
enum class map_call : uint32_t { insert, add, erase };

/// A gravel::map whose types are known when the program runs. Arrays that a call reads or writes are as for gather():
/// those of the host may be changed on return, and those of the device behind the call in the stream.
class hash_map {
 public:
  virtual ~hash_map() = default;
  /// Inserts, adds or erases keys.
  /// @param keys [n]
  /// @param values [n]; erase has none
  /// @param collective all PEs insert or add together, and the map may grow; never with erase
  virtual void update(map_call what, memory keys, memory values, uint64_t n, bool collective,
                      stream_of_call stream) = 0;
  /// Finds keys. Nothing may change the map meanwhile.
  /// @param values [n]: where a key is not there, the value stays as it is
  /// @param found [n], bytes: 1 if the key is there, else 0
  /// @param collective all PEs find keys together, in copies of a small map
  virtual void find(memory values, memory found, memory keys, uint64_t n, bool collective, stream_of_call stream) = 0;
  /// Copies this PE's items, of which there are local_size() if nothing changes the map.
  /// @param keys [room]
  /// @param values [room]
  virtual uint64_t copy_local(memory keys, memory values, uint64_t room) = 0;
  /// Returns the number of this PE's items.
  virtual uint64_t local_size() = 0;
  /// Returns the number of items of all PEs. Collective, as the following calls are.
  virtual uint64_t size() = 0;
  /// Returns the number of items for which there is room.
  virtual uint64_t capacity() const = 0;
  /// Adds up how often each k-mer occurs in the reads of all PEs, in a map of k-mers (8 bytes) to counts (4 bytes).
  /// @param codes [size]: of this PE's reads, as in gravel::read_set
  /// @param k bases of a k-mer
  virtual void count_kmers(memory codes, uint64_t size, uint32_t k) = 0;
  virtual void clear() = 0;
  virtual void reserve(uint64_t capacity) = 0;
  /// Frees the memory. Nothing but the destructor may be called afterwards.
  virtual void close() = 0;
};

/// What the values of a map are: `width` numbers of a type, with 4, 8 or 16 bytes together.
struct map_value {
  element type;
  uint64_t width;
};
/// Makes an empty map. Collective. Only values of one number can be added to.
/// @param key_bytes 4, 8 or 16
/// @param grow whether collective insertions may give the map more room
std::shared_ptr<hash_map> make_map(uint64_t key_bytes, const map_value& value, uint64_t capacity, bool grow);
/// Closes a map of make_map(). Collective.
void close_map(const std::shared_ptr<hash_map>& map);
/// Closes all maps that are open, in the order in which they were made. Collective.
void close_maps();

}  // namespace gravel::python
