// The messages between the processes of a job, besides packets: how they find each other, and what they agree on.
//
// A message is
//
//   [wire_header][its fields, one after the other, without gaps]
//
// Each kind of message is a struct that names its fields once, for both directions:
//
//   struct greeting {
//     static constexpr wire_kind kind = wire_kind::hello;
//     uint32_t pe; std::string name; std::vector<uint32_t> nodes;
//     static auto fields(auto& m) { return std::tie(m.pe, m.name, m.nodes); }
//     void check(const wire_check& c) const { c.range("pe", pe, 0, max_pes - 1); }
//   };
//
// A receiver trusts nothing that arrives. It compares magic number, version, kind, length and checksum before it reads
// a field. It compares each field with the bytes that are left, and allocates memory only for bytes that have arrived.
// Then the record's check says which values its fields may have, alone and together. A record that accepts all values
// says so (any_values_will_do). If only the receiver knows a bound, such as the size of the job, it compares with it
// before it uses the record. (CBOR of nlohmann-json does less: it converts numbers that do not fit silently, and it
// recurses on nested input.) The words between planes are in host/aggregator/outbound.hpp: they travel with packets, to
// nodes whose wiring was checked.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// All kinds of messages. The number of a kind is never used for another kind. Those up to `abort` travel between a PE
/// and its aggregator. A `hello` and an `extent` come with a descriptor. A `sample` goes from an aggregator to
/// gravel-top.
#define GRAVEL_WIRE_KINDS(X)                                     \
  X(hello, "hello")                                              \
  X(wiring, "wiring")                                            \
  X(all_wirings, "wirings")                                      \
  X(ready, "ready")                                              \
  X(goodbye, "goodbye")                                          \
  X(abort, "abort")                                              \
  X(staged_values, "start-up values")                            \
  X(program, "description of the program")                       \
  X(peer, "description as a peer")                               \
  X(reached_peers, "list of peers")                              \
  X(extent, "description of memory")                             \
  X(contribution, "contribution to a collective")                \
  X(result, "result of a collective")                            \
  X(worker_address, "UCX address")                               \
  X(memory_key, "UCX memory key")                                \
  X(fabric_extents, "description of memory with fabric handles") \
  X(sample, "sample of a node")
enum class wire_kind : uint16_t { none, GRAVEL_WIRE_KINDS(GRAVEL_NAME) count };
/// The name of a kind for error messages, such as "wiring".
const char* name_of(wire_kind);

/// To be raised whenever a field of any message changes.
constexpr uint16_t wire_version = 7;

struct wire_header {
  uint32_t magic;
  uint16_t version;
  wire_kind kind;
  uint64_t bytes;  ///< bytes behind the header
  /// Of the fields above and the bytes behind the header. It detects cut and mixed-up bytes, but not an attacker.
  uint64_t checksum;
};
static_assert(sizeof(wire_header) == 24);

/// Reads the header at the beginning of `bytes`, of which there may be more or fewer than it announces. `from`: the
/// sender, for the errors ("PE 3"). Throws gravel::error if there is no header, or one of another version.
wire_header read_wire_header(std::span<const std::byte> bytes, std::string_view from);

/// Checks the fields of a record that has arrived. On a wrong value throws gravel::error that names sender, kind of
/// message, and field.
class wire_check {
 public:
  wire_check(wire_kind kind, std::string_view from) : kind_(kind), from_(from) {}
  void range(const char* field, uint64_t value, uint64_t least, uint64_t most) const {
    if (value < least || value > most) refuse(field, value, least, most);
  }
  /// `what`: the reason if the field does not fit.
  void holds(bool fits, const char* field, const char* what) const {
    if (!fits) refuse(field, what);
  }

 private:
  [[noreturn]] void refuse(const char* field, uint64_t value, uint64_t least, uint64_t most) const;
  [[noreturn]] void refuse(const char* field, const char* what) const;
  wire_kind kind_;
  std::string_view from_;
};

/// Each record has one of these two, so a check cannot be forgotten.
template <class T>
concept wire_checked = requires(const T& value, const wire_check& check) {
  value.check(check);
};
template <class T>
concept wire_unchecked = requires {
  requires T::any_values_will_do;
};
template <class T>
concept wire_record = requires(T& value) {
  T::fields(value);
};
template <class T>
concept wire_message = wire_record<T> &&(wire_checked<T> != wire_unchecked<T>)&&requires {
  { T::kind } -> std::convertible_to<wire_kind>;
};
/// A type that travels as it lies in memory: without gaps, and with a meaning for every bit pattern (so not bool).
template <class T>
concept wire_plain = !wire_record<T> && !std::is_same_v<T, bool> && !std::is_pointer_v<T> &&
                     std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>;

/// The least number of bytes that a value takes in a message.
template <class T>
struct least_wire_bytes;
template <class... T>
struct least_wire_bytes<std::tuple<T&...>> {
  static constexpr uint64_t value = (least_wire_bytes<T>::value + ... + 0);
};
template <wire_record T>
struct least_wire_bytes<T> : least_wire_bytes<decltype(T::fields(std::declval<T&>()))> {};
template <wire_plain T>
struct least_wire_bytes<T> {
  static constexpr uint64_t value = sizeof(T);
};
template <>
struct least_wire_bytes<bool> {
  static constexpr uint64_t value = 1;
};
template <>
struct least_wire_bytes<std::string> {
  static constexpr uint64_t value = sizeof(uint64_t);
};
template <class T>
struct least_wire_bytes<std::vector<T>> {
  static constexpr uint64_t value = sizeof(uint64_t);
};
template <class A, class B>
struct least_wire_bytes<std::pair<A, B>> {
  static constexpr uint64_t value = least_wire_bytes<A>::value + least_wire_bytes<B>::value;
};

class wire_writer {
 public:
  explicit wire_writer(wire_kind);
  template <class T>
  void put(const T& value) {
    if constexpr (wire_record<T>)
      std::apply([this](const auto&... field) { (this->put(field), ...); }, T::fields(value));
    else if constexpr (std::is_same_v<T, bool>) put(static_cast<uint8_t>(value));
    else {
      static_assert(wire_plain<T>);
      append(&value, sizeof(T));
    }
  }
  void put(const std::string& text) {
    put(uint64_t{text.size()});
    append(text.data(), text.size());
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(uint64_t{values.size()});
    if constexpr (wire_plain<T>) append(values.data(), values.size() * sizeof(T));
    else
      for (const T& value : values) put(value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  std::vector<std::byte> finish() &&;

 private:
  void append(const void* from, uint64_t bytes);
  wire_kind kind_;
  std::vector<std::byte> bytes_;
};

class wire_reader {
 public:
  /// Checks the header. `bytes` and `from` must outlive the reader.
  wire_reader(wire_kind, std::span<const std::byte> bytes, std::string_view from);
  template <class T>
  void get(T& value) {
    if constexpr (wire_record<T>) {
      static_assert(wire_checked<T> != wire_unchecked<T>,
                    "a record has a check, or says that any values of its fields will do");
      std::apply([this](auto&... field) { (this->get(field), ...); }, T::fields(value));
      if constexpr (wire_checked<T>) value.check(wire_check(kind_, from_));
    } else if constexpr (std::is_same_v<T, bool>) value = truth();
    else {
      static_assert(wire_plain<T>);
      std::memcpy(&value, take(1, sizeof(T)), sizeof(T));
    }
  }
  void get(std::string& text) {
    const uint64_t n = size();
    text.assign(reinterpret_cast<const char*>(take(n, 1)), n);
  }
  template <class T>
  void get(std::vector<T>& values) {
    const uint64_t n = size();
    values.clear();
    if constexpr (wire_plain<T>) {
      const std::byte* const from = take(n, sizeof(T));  // before any memory is allocated
      values.resize(n);
      if (n) std::memcpy(values.data(), from, n * sizeof(T));
    } else {
      static_assert(least_wire_bytes<T>::value != 0, "memory would be taken for values that have no bytes");
      expect(n, least_wire_bytes<T>::value);
      for (uint64_t i = 0; i < n; ++i) get(values.emplace_back());
    }
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  /// Throws gravel::error if bytes are left.
  void finish() const;

 private:
  uint64_t size();
  bool truth();
  /// Throws gravel::error if fewer than n * bytes_each bytes are left.
  void expect(uint64_t n, uint64_t bytes_each) const;
  const std::byte* take(uint64_t n, uint64_t bytes_each);
  wire_kind kind_;
  std::span<const std::byte> rest_;
  std::string_view from_;
};

template <wire_message T>
std::vector<std::byte> to_wire(const T& message) {
  wire_writer out(T::kind);
  out.put(message);
  return std::move(out).finish();
}

/// Throws gravel::error that names `from` and the fault, also if the record's check finds it.
template <wire_message T>
T from_wire(std::span<const std::byte> bytes, std::string_view from) {
  wire_reader in(T::kind, bytes, from);
  T message{};
  in.get(message);
  in.finish();
  return message;
}

}  // namespace gravel::detail
