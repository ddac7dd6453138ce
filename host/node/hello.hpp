// What a PE tells its aggregator when it connects, and what aggregators tell each other through their first PEs.
// Written and read by one small serializer that refuses what is too short.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "host/node/segment.hpp"
#include "lib/base/error.hpp"

namespace gravel {

class blob_writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> blob_writer& operator<<(const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
    return *this;
  }
  blob_writer& operator<<(std::span<const std::byte> value) {
    *this << uint64_t{value.size()};
    bytes.insert(bytes.end(), value.begin(), value.end());
    return *this;
  }
  blob_writer& operator<<(const std::string& value) { return *this << std::as_bytes(std::span(value)); }
  blob_writer& operator<<(const std::vector<std::byte>& value) { return *this << std::span<const std::byte>(value); }
  std::vector<std::byte> bytes;
};

class blob_reader {
 public:
  explicit blob_reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> blob_reader& operator>>(T& value) {
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return *this;
  }
  blob_reader& operator>>(std::vector<std::byte>& value) {
    uint64_t n;
    *this >> n;
    const std::byte* from = take(n);
    value.assign(from, from + n);
    return *this;
  }
  blob_reader& operator>>(std::string& value) {
    std::vector<std::byte> raw;
    *this >> raw;
    value.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
    return *this;
  }
  bool empty() const { return rest_.empty(); }

 private:
  const std::byte* take(uint64_t n) {
    if (n > rest_.size()) fail("a start-up message is too short ({} bytes where {} were announced)", rest_.size(), n);
    const std::byte* at = rest_.data();
    rest_ = rest_.subspan(n);
    return at;
  }
  std::span<const std::byte> rest_;
};

constexpr uint32_t hello_version = 2;

/// PE -> aggregator, with the segment's descriptor.
struct hello {
  uint32_t pe = 0;
  uint32_t node = 0;
  segment_shape shape{};
  std::string bus_id;  ///< of its device, see backend::bus_id
  std::vector<uint32_t> node_of_pe;
  std::vector<std::pair<uint32_t, std::string>> handlers;  ///< id, name

  std::vector<std::byte> pack() const {
    blob_writer out;
    out << hello_version << pe << node << shape << bus_id;
    out << std::as_bytes(std::span(node_of_pe)) << static_cast<uint32_t>(handlers.size());
    for (const auto& [id, name] : handlers) out << id << name;
    return out.bytes;
  }
  static hello unpack(std::span<const std::byte> bytes) {
    blob_reader in(bytes);
    hello h;
    uint32_t version, count;
    std::vector<std::byte> nodes;
    in >> version;
    if (version != hello_version) fail("a PE of another version of Gravel connected (protocol {})", version);
    in >> h.pe >> h.node >> h.shape >> h.bus_id >> nodes >> count;
    h.node_of_pe.resize(nodes.size() / sizeof(uint32_t));
    if (!h.node_of_pe.empty()) std::memcpy(h.node_of_pe.data(), nodes.data(), h.node_of_pe.size() * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; ++i) {
      auto& [id, name] = h.handlers.emplace_back();
      in >> id >> name;
    }
    return h;
  }
};

/// One node's addresses and keys, for all others.
struct wiring {
  std::vector<std::vector<std::byte>> worker;  ///< by plane
  std::vector<std::vector<std::byte>> keys;    ///< landing memory of each PE, then transit memory (may be empty)

  std::vector<std::byte> pack() const {
    blob_writer out;
    out << static_cast<uint32_t>(worker.size()) << static_cast<uint32_t>(keys.size());
    for (const auto& w : worker) out << w;
    for (const auto& k : keys) out << k;
    return out.bytes;
  }
  static wiring unpack(std::span<const std::byte> bytes) {
    blob_reader in(bytes);
    uint32_t workers, keys;
    in >> workers >> keys;
    if (workers > max_planes || keys > max_pes + 1) fail("a wiring of {} workers and {} keys", workers, keys);
    wiring w;
    w.worker.resize(workers);
    w.keys.resize(keys);
    for (auto& one : w.worker) in >> one;
    for (auto& one : w.keys) in >> one;
    return w;
  }
};

}  // namespace gravel
