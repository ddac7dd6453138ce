// Tensors in files of the form safetensors: 8 bytes with the length of the header, the header in JSON, and the data.
//
// Problem. A file comes from elsewhere, and may be damaged. None of its numbers may decide how much memory is used, or
// which bytes are read, before it is checked.
// Solution. A header is read only if it is no longer than the file and than the format allows. Each tensor has a type
// and a shape that make up its bytes, and all tensors together cover the data, without gaps or overlaps.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// A file that is open for reading.
struct open_file {
  std::string name;
  owned_descriptor descriptor;
  uint64_t bytes = 0;

  /// Opens a regular file. Throws gravel::error that names it.
  explicit open_file(std::string path);
  /// Copies bytes [begin, begin + count) of the file. Throws gravel::error that names it, also if it has become
  /// shorter.
  void read(char* to, uint64_t begin, uint64_t count) const;
};

/// A tensor in a file.
struct tensor_place {
  std::string dtype;  ///< as in the file: "F32", "BF16", "U8", ...
  std::vector<uint64_t> shape;
  uint64_t begin, bytes;  ///< of the data: offset in the file
};

/// Longest header that the format allows.
constexpr uint64_t most_header_bytes = 100'000'000;

/// Finds a tensor in a header. `file`: for errors; `data_at`: offset of the data in the file; `data_bytes`: behind the
/// header. Throws gravel::error if something is wrong in the header, or if it has no such tensor.
tensor_place find_tensor(const std::string& file, std::string_view header, uint64_t data_at, uint64_t data_bytes,
                         const std::string& tensor);
/// Finds a tensor in a file. Throws gravel::error.
tensor_place find_tensor(const open_file& file, const std::string& tensor);

}  // namespace gravel::detail
