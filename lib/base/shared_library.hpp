// A library that may be absent. It is opened at run time, so that gravel-info starts on machines without it.
#pragma once
#include <dlfcn.h>

#include <string>

namespace gravel::detail {

/// The library stays loaded, because it may run threads of its own.
class shared_library {
 public:
  explicit shared_library(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) why_not_ = dlerror();
  }
  /// What is missing: the library, or a function that was requested. Empty: nothing.
  const std::string& why_not() const { return why_not_; }
  bool has(const char* function) const { return handle_ && dlsym(handle_, function); }

  /// A function, convertible to a pointer of its type. nullptr if the library has no such function; why_not() then says
  /// so.
  struct symbol {
    void* at;
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(at);
    }
  };
  symbol find(const char* function) {
    if (why_not_.empty() && !has(function)) why_not_ = std::string(name_) + " has no " + function;
    return {handle_ ? dlsym(handle_, function) : nullptr};
  }

 private:
  const char* name_;
  void* handle_;
  std::string why_not_;
};

}  // namespace gravel::detail
