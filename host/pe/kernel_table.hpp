// Kernels by their address, on the CPU backend.
//
// Problem. cudaLaunchKernel and nvshmemx_collective_launch take a kernel's address and an array of addresses of its
// arguments. On a GPU the driver knows the types of the parameters; an address of C++ code says nothing of them.
// Solution. Where a program takes a kernel's address, the translator of CUDA programs (tools/cuda_to_cpp.py) calls
// remember_kernel, which still knows the types.
#pragma once
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Makes a call of a kernel with copies of the arguments to which `arguments` points.
using bind_function = std::function<void()> (*)(const void* kernel, void** arguments);

/// Records how a kernel's arguments are read. Any thread.
void remember_kernel(const void* kernel, bind_function);
/// A call of the kernel in one lane. Any thread. Throws gravel::error for an address that no kernel is known to have.
std::function<void()> bind_kernel(const void* kernel, void** arguments);

template <class... P, size_t... I>
std::function<void()> bind_parameters(const void* kernel, void** arguments, std::index_sequence<I...>) {
  std::tuple<std::decay_t<P>...> values(*static_cast<const std::decay_t<P>*>(arguments[I])...);
  const auto function = reinterpret_cast<void (*)(P...)>(reinterpret_cast<uintptr_t>(kernel));
  return [function, values] { std::apply(function, values); };
}
template <class... P>
std::function<void()> bind_parameters(const void* kernel, void** arguments) {
  return bind_parameters<P...>(kernel, arguments, std::index_sequence_for<P...>());
}
template <class... P>
void remember_kernel(void (*kernel)(P...)) {
  remember_kernel(reinterpret_cast<const void*>(kernel), &bind_parameters<P...>);
}

}  // namespace gravel::detail
