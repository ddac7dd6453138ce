// A library that may be absent: opened at run time, so that gravel-info starts on machines without it.
#pragma once
#include <dlfcn.h>

#include <string>

namespace gravel {

class shared_library {
 public:
  explicit shared_library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_)
      if (const char* text = dlerror()) why_not_ = text;
  }
  ~shared_library() {
    if (handle_) dlclose(handle_);
  }
  shared_library(const shared_library&) = delete;
  shared_library& operator=(const shared_library&) = delete;

  bool is_open() const { return handle_ != nullptr; }
  const std::string& why_not() const { return why_not_; }

  /// A function, for a pointer of its type; nullptr if the library has none of that name.
  struct symbol {
    void* at;
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(at);
    }
  };
  symbol find(const char* name) const { return {handle_ ? dlsym(handle_, name) : nullptr}; }

 private:
  void* handle_;
  std::string why_not_;
};

}  // namespace gravel
