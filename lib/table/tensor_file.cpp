#include "lib/table/tensor_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

using nlohmann::json;

/// Bytes of an element; 0: the type is not known.
uint64_t bytes_of(const std::string& dtype) {
  static const std::pair<const char*, uint64_t> types[] = {
      {"BOOL", 1}, {"U8", 1},   {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"U16", 2}, {"I16", 2},
      {"F16", 2},  {"BF16", 2}, {"U32", 4}, {"I32", 4},     {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  for (const auto& [name, bytes] : types)
    if (dtype == name) return bytes;
  return 0;
}

/// Parses a header. An object may not have two members of one name: readers would differ in which one counts.
json parse(const std::string& file, std::string_view header) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  std::string twice;
  const auto look = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  json all;
  try {
    all = json::parse(header, look);
  } catch (const json::exception& e) {
    fail("{}: the header of the file is no JSON: {}", file, e.what());
  }
  if (!twice.empty()) fail("{}: the header of the file has '{}' twice", file, twice);
  if (!all.is_object()) fail("{}: the header of the file is no object of JSON", file);
  return all;
}

/// The numbers of a member that is a list of them.
std::vector<uint64_t> numbers(const std::string& where, const json& tensor, const char* member) {
  const auto found = tensor.find(member);
  std::vector<uint64_t> all;
  bool are_numbers = found != tensor.end() && found->is_array();
  if (are_numbers)
    for (const json& one : *found) {
      are_numbers &= one.is_number_unsigned();
      if (one.is_number_unsigned()) all.push_back(one.get<uint64_t>());
    }
  if (!are_numbers) fail("{}: '{}' is no list of whole numbers", where, member);
  return all;
}

/// A tensor, with its begin in the data.
tensor_place tensor_of(const std::string& where, const json& described, uint64_t data_bytes) {
  if (!described.is_object()) fail("{} is no object of JSON", where);
  const auto type = described.find("dtype");
  if (type == described.end() || !type->is_string()) fail("{}: 'dtype' is no text", where);
  tensor_place tensor{type->get<std::string>(), numbers(where, described, "shape"), 0, 0};
  const std::vector<uint64_t> offsets = numbers(where, described, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    fail("{}: 'data_offsets' are not the begin and the end of its bytes", where);
  if (offsets[1] > data_bytes)
    fail("{}: it ends at byte {} of the data, which have {}: is the file cut off?", where, offsets[1], data_bytes);
  tensor.begin = offsets[0];
  tensor.bytes = offsets[1] - offsets[0];
  const uint64_t element = bytes_of(tensor.dtype);
  if (element == 0) return tensor;
  uint64_t wanted = element;
  const bool is_empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end();
  bool fits = true;
  for (const uint64_t extent : tensor.shape)
    fits = fits && (is_empty || !__builtin_mul_overflow(wanted, extent, &wanted));
  if (is_empty) wanted = 0;
  if (!fits || wanted != tensor.bytes)
    fail("{}: its shape and its type ({}) do not make up the {} bytes that it has", where, tensor.dtype, tensor.bytes);
  return tensor;
}

}  // namespace

open_file::open_file(std::string path) : name(std::move(path)), descriptor(open(name.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (!descriptor || fstat(descriptor.get(), &status) != 0) fail("{}: {}", name, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("{}: this is no regular file", name);
  bytes = static_cast<uint64_t>(status.st_size);
}

void open_file::read(char* to, uint64_t begin, uint64_t count) const {
  while (count) {
    const ssize_t got = pread(descriptor.get(), to, std::min<uint64_t>(count, 1 << 30), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: reading at byte {}: {}", name, begin, std::strerror(errno));
    if (got == 0) fail("{}: the file ends at byte {}, and had {} when it was opened", name, begin, bytes);
    to += got;
    begin += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

tensor_place find_tensor(const std::string& file, std::string_view header, uint64_t data_at, uint64_t data_bytes,
                         const std::string& tensor) {
  const json all = parse(file, header);
  struct named {
    std::string name;
    tensor_place place;
  };
  std::vector<named> tensors;
  for (const auto& [name, described] : all.items())
    if (name != "__metadata__")
      tensors.push_back({name, tensor_of(file + ": tensor '" + name + "'", described, data_bytes)});
  std::sort(tensors.begin(), tensors.end(), [](const named& a, const named& b) {
    return std::pair(a.place.begin, a.place.bytes) < std::pair(b.place.begin, b.place.bytes);
  });
  uint64_t end = 0;
  for (const named& one : tensors) {
    if (one.place.begin < end) fail("{}: tensor '{}' overlaps another one", file, one.name);
    if (one.place.begin > end)
      fail("{}: no tensor has the {} bytes in front of tensor '{}'", file, one.place.begin - end, one.name);
    end += one.place.bytes;
  }
  if (end != data_bytes)
    fail("{}: behind the last tensor are {} bytes: the header does not belong to these data", file, data_bytes - end);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const named& one) { return one.name == tensor; });
  if (found == tensors.end()) {
    std::string names;
    for (size_t i = 0; i < tensors.size() && i < 8; ++i) names += (i ? ", '" : "'") + tensors[i].name + "'";
    if (tensors.size() > 8) names += ", ...";
    fail("{}: the file has no tensor '{}'; it has {}", file, tensor, names.empty() ? "none" : names);
  }
  if (bytes_of(found->place.dtype) == 0)
    fail("{}: tensor '{}' has elements of a type that is not known: {}", file, tensor, found->place.dtype);
  found->place.begin += data_at;
  return found->place;
}

tensor_place find_tensor(const open_file& file, const std::string& tensor) {
  unsigned char length[8];
  if (file.bytes < sizeof(length))
    fail("{}: {} bytes are no file of safetensors: it begins with 8 bytes for the length of its header", file.name,
         file.bytes);
  file.read(reinterpret_cast<char*>(length), 0, sizeof(length));
  uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i) bytes = bytes << 8 | length[i];
  if (bytes > most_header_bytes || bytes > file.bytes - sizeof(length))
    fail(
        "{}: the header would have {} bytes; the file has {}, and the format allows {}: this is no file of "
        "safetensors, or it is cut off",
        file.name, bytes, file.bytes, most_header_bytes);
  std::string header(bytes, '\0');
  file.read(header.data(), sizeof(length), bytes);
  const uint64_t data_at = sizeof(length) + bytes;
  return find_tensor(file.name, header, data_at, file.bytes - data_at, tensor);
}

}  // namespace gravel::detail
