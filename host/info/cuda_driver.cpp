#include "host/info/cuda_driver.hpp"

#include <fmt/format.h>

namespace gravel::detail {

cuda_driver::cuda_driver() {
  if (!library.why_not().empty()) why_not = fmt::format("no NVIDIA driver: {}", library.why_not());
  else if (const int result = init(0)) why_not = fmt::format("the CUDA driver does not start: {}", text_of(result));
}

std::string cuda_driver::text_of(int result) const {
  const char *name = nullptr, *text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  return fmt::format("{}: {}", name ? name : fmt::format("error {}", result), text ? text : "unknown");
}

std::string cuda_driver::make_context() const {
  if (!why_not.empty()) return why_not;
  int first = 0;
  void* handle = nullptr;
  int result = device(&first, 0);
  if (result == 0) result = retain_context(&handle, first);
  if (result == 0) result = set_context(handle);
  return result ? fmt::format("no CUDA context on GPU 0: {}", text_of(result)) : "";
}

}  // namespace gravel::detail
