#include "host/pe/kernel_table.hpp"

#include <mutex>
#include <unordered_map>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

struct kernel_table {
  std::mutex mutex;
  std::unordered_map<const void*, bind_function> kernels;
  /// Used by initializers of other files, too.
  static kernel_table& instance() {
    static kernel_table* const table = new kernel_table;
    return *table;
  }
};

}  // namespace

void remember_kernel(const void* kernel, bind_function bind) {
  kernel_table& table = kernel_table::instance();
  std::lock_guard lock(table.mutex);
  table.kernels[kernel] = bind;
}

std::function<void()> bind_kernel(const void* kernel, void** arguments) {
  kernel_table& table = kernel_table::instance();
  std::unique_lock lock(table.mutex);
  const auto found = table.kernels.find(kernel);
  if (found == table.kernels.end())
    fail(
        "a launch by a kernel's address: {} is not the address of a kernel that gravel-c++ has seen; take it where "
        "the kernel is launched, as (void*)kernel, and compile with gravel-c++ --cuda",
        kernel);
  const bind_function bind = found->second;
  lock.unlock();
  return bind(kernel, arguments);
}

}  // namespace gravel::detail
