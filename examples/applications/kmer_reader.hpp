// The k-mers of a stretch of reads, one behind the other.
#pragma once
#include <gravel/gravel.cuh>
#include <gravel/reads.hpp>

namespace app {
using gravel::kmer_shape;
using gravel::no_base;

/// A k-mer in canonical form, with the bases before and after it (codes, no_base at the ends of reads).
struct read_kmer {
  uint64_t kmer;
  uint8_t before, after;
};

/// Codes begin and end with no_base.
class kmer_reader {
 public:
  /// Of the k-mers that begin at places begin ... end of `codes`, which has `size` codes. Thread scope of every member:
  /// lane.
  GRAVEL_DEVICE kmer_reader(kmer_shape shape, const uint8_t* codes, uint64_t size, uint64_t begin, uint64_t end)
      : shape_(shape), codes_(codes), at_(begin), end_(begin) {
    if (begin >= end || begin >= size) return;
    end_ = end + shape.k - 1 < size ? end + shape.k - 1 : size;
    const uint64_t first_end = begin + shape.k - 1 < end_ ? begin + shape.k - 1 : end_;
    while (at_ < first_end) append(codes_[at_++]);  // no k-mer ends here
  }
  GRAVEL_DEVICE bool is_done() const { return at_ >= end_; }
  /// Reads a code, if there is one. False: no k-mer ends with it.
  GRAVEL_DEVICE bool next(read_kmer& found) {
    if (is_done()) return false;
    const uint64_t i = at_++;
    append(codes_[i]);
    if (length_ < shape_.k) return false;
    const uint8_t before = codes_[i - shape_.k], after = codes_[i + 1];
    if (word_ <= reverse_) found = {word_, before, after};
    else found = {reverse_, complement(after), complement(before)};
    return true;
  }

 private:
  GRAVEL_DEVICE static uint8_t complement(uint8_t code) {
    return code == no_base ? no_base : static_cast<uint8_t>(3 - code);
  }
  GRAVEL_DEVICE void append(uint8_t code) {
    if (code == no_base) {
      length_ = 0;
      return;
    }
    word_ = shape_.append(word_, code);
    reverse_ = shape_.append_reverse(reverse_, code);
    ++length_;
  }

  kmer_shape shape_;
  const uint8_t* codes_;
  uint64_t at_, end_, word_ = 0, reverse_ = 0;
  unsigned length_ = 0;  ///< bases since the last no_base
};

}  // namespace app
