// The part of a library of gr.Kernels that is the same in all of them. The package writes a file that includes this
// one, then has the program's source, and then the tables of `kernel_library`, made by the functions below: the
// compiler deduces the types of parameters.
#pragma once
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <type_traits>

#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>

#include "kernel_library.hpp"

namespace gravel::python {

template <class T>
constexpr value_type type_of() {
  using type = std::remove_cv_t<T>;
  if constexpr (std::is_void_v<type>) return {value_kind::bytes, 0};
  else if constexpr (std::is_same_v<type, gravel_t>) return {value_kind::handle, 0};
  else if constexpr (std::is_pointer_v<type>) return {value_kind::pointer, sizeof(type)};
  else if constexpr (std::is_same_v<type, bool>) return {value_kind::boolean, sizeof(type)};
  else if constexpr (std::is_same_v<type, float> || std::is_same_v<type, double>)
    return {value_kind::real, sizeof(type)};
  else if constexpr (std::is_integral_v<type> && std::is_signed_v<type>)
    return {value_kind::signed_integer, sizeof(type)};
  else if constexpr (std::is_integral_v<type>) return {value_kind::unsigned_integer, sizeof(type)};
  else return {value_kind::bytes, sizeof(type)};
}

template <class P>
constexpr kernel_parameter parameter_of() {
  static_assert(std::is_trivially_copyable_v<P>, "a parameter of a kernel is copied byte by byte");
  if constexpr (std::is_pointer_v<P>) {
    using pointee = std::remove_pointer_t<P>;
    return {type_of<P>(), type_of<pointee>(), std::is_const_v<pointee>};
  } else {
    return {type_of<P>(), {}, false};
  }
}
template <class... P>
struct parameter_list {
  static constexpr kernel_parameter all[sizeof...(P) + 1] = {parameter_of<P>()..., {}};
};

/// Reads the value of the next parameter.
template <class P>
P take_value(const char*& at) {
  if constexpr (std::is_same_v<P, gravel_t>) return gravel_handle();
  else {
    std::array<char, sizeof(P)> bytes;
    std::memcpy(bytes.data(), at, sizeof(P));
    at += (sizeof(P) + 7) / 8 * 8;
    return std::bit_cast<P>(bytes);
  }
}

template <class... P>
void launch(void (*kernel)(P...), const launch_shape& shape, [[maybe_unused]] const char* values) {
  gravel_launch_config how{dim3(shape.grid[0], shape.grid[1], shape.grid[2]),
                           dim3(shape.block[0], shape.block[1], shape.block[2])};
  how.shared_bytes = shape.shared_bytes;
  how.stream = reinterpret_cast<gravel_stream_t>(static_cast<uintptr_t>(shape.stream));
  how.cooperative = shape.is_cooperative;
  const std::tuple<P...> taken{take_value<P>(values)...};  // braces: one after the other
  std::apply([&](P... value) { gravel_launch(kernel, how, value...); }, taken);
#if !GRAVEL_CUDA
  gravel_stream_synchronize(how.stream);
#endif
}

#if GRAVEL_CUDA
/// Makes CUDA allocate what printf and assert of kernels need.
static __global__ void report_nothing(bool is_wrong) {
  if (is_wrong) printf("wrong\n");
  assert(!is_wrong);
}
#endif

/// Loads kernels onto the GPU, and starts one that could report. At a first launch CUDA may have to wait for all
/// kernels that run; the resolver is then one that waits for the launched kernel.
template <class... Kernels>
void load([[maybe_unused]] Kernels... kernels) {
#if GRAVEL_CUDA
  for (const void* kernel : {reinterpret_cast<const void*>(&report_nothing), reinterpret_cast<const void*>(kernels)...})
    detail::load_on_cuda(kernel);
  detail::launch_alone(report_nothing, gravel_launch_config{1, 1}, false);
  gravel_stream_synchronize(nullptr);
#endif
}

/// An entry of the table of kernels. `start` calls launch() with this kernel.
template <class... P>
constexpr kernel_entry entry_of(const char* name, void (*)(P...), void (*start)(const launch_shape&, const char*)) {
  return {name, parameter_list<P...>::all, sizeof...(P), start};
}

template <class Handler>
constexpr handler_entry handler_of(const char* name) {
  if constexpr (detail::handler_check<Handler>::good && detail::has_context<Handler>)
    return {name, true, detail::runs_on_host<Handler>(), parameter_of<typename Handler::context*>(),
            [](void* at) { gravel_set_context<Handler>(static_cast<typename Handler::context*>(at)); }};
  else return {name, false, false, {}, nullptr};
}

}  // namespace gravel::python
