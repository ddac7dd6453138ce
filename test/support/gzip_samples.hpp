// Members of gzip files, made byte by byte.
#pragma once
#include <zlib.h>

#include <string>
#include <string_view>

namespace gravel::detail {

inline void append_little_endian(std::string& to, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to += static_cast<char>(value >> 8 * i & 0xff);
}

/// A member that holds a text of less than 64 KiB in one stored block. `extra`: bytes of the header's extra field, if
/// any.
inline std::string gzip_member(std::string_view text, std::string_view extra = {}) {
  std::string member("\x1f\x8b\x08", 3);
  member += extra.empty() ? '\0' : '\4';
  append_little_endian(member, 0, 6);
  if (!extra.empty()) append_little_endian(member, extra.size(), 2);
  member += extra;
  member += '\1';  // the last block, stored
  append_little_endian(member, text.size(), 2);
  append_little_endian(member, ~text.size(), 2);
  member += text;
  append_little_endian(member, crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())),
                       4);
  append_little_endian(member, text.size(), 4);
  return member;
}

/// A gzip file as bgzip writes it: the extra field has the size of the member, and an empty member ends the file.
inline std::string block_gzip(std::string_view text) {
  const auto member = [](std::string_view part) {
    std::string extra("BC\2\0", 4);
    append_little_endian(extra, gzip_member(part, "123456").size() - 1, 2);
    return gzip_member(part, extra);
  };
  std::string all;
  for (size_t at = 0; at < text.size(); at += 100) all += member(text.substr(at, 100));
  return all + member({});
}

}  // namespace gravel::detail
