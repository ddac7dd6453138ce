// Sets of processors, by the operating system's numbers: hwloc's bitmaps as values. The text form is that of taskset
// and /proc: "0-3,8".
#pragma once
#include <hwloc/bitmap.h>

#include <memory>
#include <string>

namespace gravel::detail {

class cpu_set {
 public:
  cpu_set() : cpu_set(nullptr) {}
  /// Copies the set; nullptr means an empty set.
  explicit cpu_set(hwloc_const_bitmap_t set);
  cpu_set(const cpu_set& other) : cpu_set(other.get()) {}
  cpu_set(cpu_set&&) noexcept = default;
  cpu_set& operator=(cpu_set other) noexcept {
    set_ = std::move(other.set_);
    return *this;
  }
  /// Throws gravel::error if the text is not such a list.
  static cpu_set parse(const std::string& text);

  hwloc_const_bitmap_t get() const { return set_.get(); }
  hwloc_bitmap_t get() { return set_.get(); }
  bool empty() const { return hwloc_bitmap_iszero(get()); }
  unsigned count() const { return static_cast<unsigned>(hwloc_bitmap_weight(get())); }
  int first() const { return hwloc_bitmap_first(get()); }  ///< -1: the set is empty
  int last() const { return hwloc_bitmap_last(get()); }
  bool operator==(const cpu_set& other) const { return hwloc_bitmap_isequal(get(), other.get()); }
  cpu_set operator&(const cpu_set& other) const { return combined(other, hwloc_bitmap_and); }
  cpu_set operator|(const cpu_set& other) const { return combined(other, hwloc_bitmap_or); }
  cpu_set operator-(const cpu_set& other) const { return combined(other, hwloc_bitmap_andnot); }
  std::string text() const;

 private:
  cpu_set combined(const cpu_set& other, int (*how)(hwloc_bitmap_t, hwloc_const_bitmap_t, hwloc_const_bitmap_t)) const {
    cpu_set result;
    how(result.get(), get(), other.get());
    return result;
  }

  struct deleter {
    void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
  };
  std::unique_ptr<hwloc_bitmap_s, deleter> set_;
};

}  // namespace gravel::detail
