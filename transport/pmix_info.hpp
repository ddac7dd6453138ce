// Builds and frees the C arrays of tagged values that PMIx takes as attributes.
#pragma once
#include <pmix_common.h>

#include <string>
#include <vector>

namespace gravel::detail {

/// A growing array of PMIx attributes. Values are copied in. Not copyable; single-threaded.
class pmix_info_list {
 public:
  pmix_info_list() = default;
  pmix_info_list(const pmix_info_list&) = delete;
  pmix_info_list& operator=(const pmix_info_list&) = delete;
  ~pmix_info_list() {
    for (auto& entry : entries_) PMIX_INFO_DESTRUCT(&entry);
  }

  void add(const char* key, bool value) { load(key, &value, PMIX_BOOL); }
  void add(const char* key, uint16_t value) { load(key, &value, PMIX_UINT16); }
  void add(const char* key, uint32_t value) { load(key, &value, PMIX_UINT32); }
  void add(const char* key, const std::string& value) { load(key, value.c_str(), PMIX_STRING); }
  void add(const char* key, const char* value) { load(key, value, PMIX_STRING); }
  void add(const char* key, const pmix_proc_t& value) { load(key, &value, PMIX_PROC); }
  void add_rank(const char* key, pmix_rank_t value) { load(key, &value, PMIX_PROC_RANK); }
  /// A regular expression as PMIx_generate_regex returns it (a string, but with a type of its own in PMIx).
  void add_regex(const char* key, const char* value) { load(key, value, PMIX_REGEX); }
  /// An array of attributes as one value.
  void add_array(const char* key, const pmix_info_list& values) {
    const pmix_data_array_t array{PMIX_INFO, values.size(), const_cast<pmix_info_t*>(values.entries_.data())};
    load(key, &array, PMIX_DATA_ARRAY);
  }

  pmix_info_t* data() { return entries_.empty() ? nullptr : entries_.data(); }
  size_t size() const { return entries_.size(); }

 private:
  void load(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t& entry = entries_.emplace_back();  // PMIx's macros evaluate their arguments more than once
    PMIX_INFO_CONSTRUCT(&entry);
    PMIX_INFO_LOAD(&entry, key, const_cast<void*>(value), type);
  }
  std::vector<pmix_info_t> entries_;  // plain C structs: moving their bytes is fine
};

}  // namespace gravel::detail
