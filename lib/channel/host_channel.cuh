// gravel_channel: a channel with its memory, whose producers and consumers are kernels and host threads.
//
//   gravel_channel<item> c({.capacity = 993});
//   gravel_launch(consume, grid, block, c.handle());  // for (b = h.next(warp, 32); b.count; b = h.next(warp, 32)) ...
//   c.put(items);                                     // any host thread; waits for room
//   c.close();                                        // consumers end when all elements are done
//
// Problem. A host thread is to be one more producer or consumer. But the words of a channel change by atomic additions,
// and over PCIe those of a GPU in memory of the host are not atomic for the CPU (hostNativeAtomicSupported is 0).
// Solution. The memory of the channel decides.
// - device: the words and the elements lie in the PE's device memory. A host thread puts, takes and closes by a kernel
//   of one warp, which copies from or to staging memory. This works on every GPU, and kernels pay nothing for it.
// - host: they lie in pinned memory of the host, and all words are accessed at system scope. A host thread runs the
//   channel's protocol itself. On a GPU this needs a link whose atomics the CPU shares (NVLink-C2C).
#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>

#include <gravel/gravel.cuh>
#include "device/watched_wait.cuh"
#include "host/launch_alone.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/base/error.hpp"
#include "lib/channel/channel.cuh"

/// Where the words and elements of a gravel_channel lie.
enum class gravel_channel_memory : uint8_t {
  device,  ///< memory of the PE's GPU: host threads put and take by small kernels
  host     ///< pinned memory of the host, at system scope: host threads put and take by themselves
};

/// Sizes of a gravel_channel.
struct gravel_channel_options {
  uint32_t capacity = 993;  ///< elements, 1 to 2^30; memory is taken for the next 2^k - 31
};

/// A gravel_channel for kernels: plain data, from gravel_channel::handle(). Besides the calls of gravel::channel, none
/// of which waits, it has calls that wait.
/// @scope the group, converged: the lanes of a warp that make the call together
/// @completion on return
/// @errors none are checked; a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
/// @source Channels (ISCA 2014), table 1; Gravel
template <class T, gravel_channel_memory WHERE = gravel_channel_memory::device>
struct gravel_channel_handle
    : gravel::detail::channel<T, uint32_t,
                              WHERE == gravel_channel_memory::host ? gravel::detail::scope::system
                                                                   : gravel::detail::scope::device,
                              gravel::detail::count_order::kept> {
  gravel_t g;

  /// Puts an element, and waits for room.
  /// @param element copied
  /// @return false: the channel is closed, and the element is not in it
  /// @scope lane, from divergent code
  GRAVEL_BOTH bool put(const T& element) const {
    using namespace gravel::detail;
    for (watched_wait wait;;) {
      // Lanes that come together put at once. If there is no room for all of them, there may be for some.
      if (put_into(*this, element) || put_into(*this, lone_lane{}, element)) return true;
      if (this->is_closed()) return false;
      wait.attentively(g, [&] { return wait_subject{.what = awaited::channel_room, .wanted = this->space.capacity}; });
    }
  }
  /// Takes elements like take(), and waits for some. Lanes must have freed what they took before.
  /// @param group the lanes that call
  /// @param most elements, at most
  /// @return no elements: the channel has ended
  template <class Group>
  GRAVEL_BOTH gravel::detail::channel_batch next(const Group& group, uint32_t most) const {
    using namespace gravel::detail;
    for (watched_wait wait;;) {
      const channel_batch b = this->take(group, most);
      if (b.count != 0 || most == 0) return b;
      uint32_t ended = 0;
      if (group.is_leader()) ended = this->has_ended();
      if (group.from_leader(ended) != 0) return {};
      group.wait_together([&] { wait.attentively(g, [] { return wait_subject{.what = awaited::channel_element}; }); });
    }
  }
};

namespace gravel::detail {

/// What a host thread asks of a channel.
enum class host_request : uint8_t { put, take, close, look };
struct host_answer {
  uint32_t moved;  ///< number of elements that were put or taken
  uint32_t is_closed, has_ended;
};

/// Puts the first elements of an array, as many as there is room for. Thread scope: the group, converged.
template <class Channel, class Group, class T>
GRAVEL_BOTH uint32_t put_some(const Channel& to, const Group& group, const T* from, uint32_t n) {
  uint32_t put = 0;
  while (put < n) {
    const uint32_t left = n - put;
    uint32_t some = left < to.space.capacity ? left : to.space.capacity;
    if (!to.space.take_room(group, some)) {
      const uint32_t room = group.from_leader(to.room());
      if (room < some) some = room;
      if (some == 0) break;
      if (!to.space.take_room(group, some)) continue;  // another producer was faster
    }
    const channel_reservation r = to.draw_together(group, some);
    for (uint32_t i = group.rank(); i < some; i += group.size()) to.write(r.first + i, from[put + i]);
    to.commit(group, r);
    put += some;
  }
  return put;
}
/// Takes up to n elements into an array. Thread scope: the group, converged.
template <class Channel, class Group, class T>
GRAVEL_BOTH uint32_t take_some(const Channel& from, const Group& group, T* to, uint32_t n) {
  const uint32_t at_once = group.is_whole_warp() ? 32 * chunk_tickets : chunk_tickets;
  uint32_t taken = 0;
  while (taken < n) {
    const channel_batch b = from.take(group, n - taken < at_once ? n - taken : at_once);
    if (b.count == 0) break;
    for (uint32_t i = group.rank(); i < b.count; i += group.size()) to[taken + i] = from.read(b.first + i);
    from.free(group, b);
    taken += b.count;
  }
  return taken;
}
template <class Channel, class Group, class T>
GRAVEL_BOTH host_answer serve_host(const Channel& c, const Group& group, host_request what, T* data, uint32_t n) {
  host_answer answer{0, 0, 0};
  if (what == host_request::put) answer.moved = put_some(c, group, data, n);
  if (what == host_request::take) answer.moved = take_some(c, group, data, n);
  if (!group.is_leader()) return answer;
  if (what == host_request::close) c.close();
  if (what == host_request::put || what == host_request::look) answer.is_closed = c.is_closed();
  if (answer.moved == 0 && (what == host_request::take || what == host_request::look)) answer.has_ended = c.has_ended();
  return answer;
}
/// Does for a host thread what it asks. `data`, `answer`: staging memory.
template <class Channel, class T>
__global__ void __launch_bounds__(32)
    serve_host_by_kernel(const Channel c, host_request what, T* data, uint32_t n, host_answer* answer) {
  const lane_group warp = lane_group::converged_warp(threadIdx.x, blockDim.x);
  const host_answer found = serve_host(c, warp, what, data, n);
  if (warp.is_leader()) *answer = found;
}

}  // namespace gravel::detail

/// A channel with its memory. Kernels use it by its handle; host threads put and take as well. It exists between
/// gravel_init and gravel_finalize, and belongs to one PE. Kernels and threads that use it must have ended before its
/// destructor. What one producer puts comes to one consumer in order.
///
/// T is trivially copyable. WHERE: gravel_channel_memory::device, which is for every GPU: each call of a host thread
/// starts a kernel of one warp, which must find room beside kernels that wait for it. Or gravel_channel_memory::host.
/// @scope any host thread, several at the same time; not collective
/// @completion on return
/// @errors gravel::error
/// @source Channels (ISCA 2014), section 4.2: the host as producer; Gravel
template <class T, gravel_channel_memory WHERE = gravel_channel_memory::device>
class gravel_channel {
  static_assert(std::is_trivially_copyable_v<T>,
                "gravel_channel<T>: its elements are copied word by word between lanes and host threads, so T must be "
                "trivially copyable: no virtual functions, no std::string, no copy constructor of its own");
  using channel = gravel_channel_handle<T, WHERE>;
  using request = gravel::detail::host_request;
  using answer = gravel::detail::host_answer;
  static constexpr bool directly = WHERE == gravel_channel_memory::host;

 public:
  /// Allocates the channel's memory.
  /// @param options sizes
  /// @errors gravel::error if the capacity is out of range, if there is not enough memory, or if the memory is the
  ///   host's and atomics of this GPU there are not atomic for the CPU
  explicit gravel_channel(const gravel_channel_options& options = {}) : capacity_(options.capacity) {
    if (capacity_ == 0 || capacity_ > gravel::detail::slots<>::most)
      gravel::detail::fail_text("gravel_channel: a capacity of " + std::to_string(capacity_) +
                                " elements; it is 1 to 2^30");
    gravel::detail::backend& device = gravel::detail::current_backend();
    const uint64_t bytes = channel::bytes(capacity_);
    char* memory = nullptr;
    if constexpr (directly) {
      check_host_atomics();
      host_memory_ = {device, bytes, "a channel in memory of the host"};
      memory = host_memory_.data();
    } else {
      memory = device_memory_ = static_cast<char*>(device.allocate(bytes, "a channel"));
      staged_ = static_cast<uint32_t>(
          std::clamp<uint64_t>(staging_bytes / sizeof(T), 1, std::min(capacity_, uint32_t{1} << 16)));
      staging_ = {device, line(sizeof(answer)) + staged_ * sizeof(T), "the staging memory of a channel"};
      stream_ = gravel_stream_create();
    }
    static_cast<base&>(handle_) = base::in(memory, capacity_);
    gravel_copy(&handle_.state().room, &capacity_, sizeof(capacity_));
  }
  /// @internal
  gravel_channel(const gravel_channel&) = delete;
  gravel_channel& operator=(const gravel_channel&) = delete;
  ~gravel_channel() {
    if constexpr (!directly) {
      gravel_stream_destroy(stream_);
      gravel::detail::release_device_memory(device_memory_);
    }
  }

  /// The channel for kernels: an argument for gravel_launch.
  gravel_channel_handle<T, WHERE> handle() const {
    channel h = handle_;
    h.g = gravel_handle();
    return h;
  }
  /// Elements that the channel has room for.
  uint32_t capacity() const { return capacity_; }

  /// Puts all elements, in order, and waits for room.
  /// @param elements copied
  /// @errors gravel::error if the channel is closed, also while the call waits: the message says how many elements are
  ///   in it. A wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
  void put(std::span<const T> elements) {
    gravel::detail::watched_wait wait;
    for (size_t done = 0; done < elements.size();) {
      const answer a = ask(request::put, const_cast<T*>(&elements[done]), elements.size() - done);
      done += a.moved;
      if (done == elements.size()) break;
      if (a.moved != 0) wait.reset();
      else if (a.is_closed) refuse("put", done, elements.size());
      else wait_for_room(wait);
    }
  }
  /// Puts one element, and waits for room.
  /// @param element copied
  void put(const T& element) { put(std::span<const T>(&element, 1)); }
  /// Puts the first elements, as many as there is room for. Does not wait.
  /// @param elements copied
  /// @return number of elements that were put
  /// @errors gravel::error if the channel is closed
  size_t try_put(std::span<const T> elements) {
    if (elements.empty()) return 0;
    const answer a = ask(request::put, const_cast<T*>(elements.data()), elements.size());
    if (a.moved == 0 && a.is_closed) refuse("try_put", 0, elements.size());
    return a.moved;
  }
  /// Puts one element, if there is room. Does not wait.
  /// @param element copied
  /// @return whether it was put
  bool try_put(const T& element) { return try_put(std::span<const T>(&element, 1)) == 1; }

  /// Takes elements: as many as there are, and waits for the first.
  /// @param to gets them
  /// @return number of elements; 0: the channel has ended
  /// @errors a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
  size_t take(std::span<T> to) {
    if (to.empty()) return 0;
    for (gravel::detail::watched_wait wait;;) {
      const answer a = ask(request::take, to.data(), to.size());
      if (a.moved != 0 || a.has_ended) return a.moved;
      wait_for_element(wait);
    }
  }
  /// Takes one element, and waits for it.
  /// @param to gets it
  /// @return false: the channel has ended
  bool take(T& to) { return take(std::span<T>(&to, 1)) == 1; }
  /// Takes the elements that it finds. Does not wait.
  /// @param to gets them
  /// @return number of elements; 0: it has found none, and may find some when it looks again
  size_t try_take(std::span<T> to) { return to.empty() ? 0 : ask(request::take, to.data(), to.size()).moved; }
  /// Takes one element, if it finds one. Does not wait.
  /// @param to gets it
  /// @return whether it was taken
  bool try_take(T& to) { return try_take(std::span<T>(&to, 1)) == 1; }

  /// Closes the channel: no more elements are put from now on. Consumers still take those that are in it, and then find
  /// that the channel has ended. A second call does nothing. Kernels call handle().close().
  void close() { ask(request::close, nullptr, 0); }
  /// Whether the channel is closed.
  bool is_closed() { return ask(request::look, nullptr, 0).is_closed != 0; }
  /// Whether the channel is closed, and all elements are done: taken and freed.
  bool has_ended() { return ask(request::look, nullptr, 0).has_ended != 0; }

 private:
  using base =
      gravel::detail::channel<T, uint32_t, directly ? gravel::detail::scope::system : gravel::detail::scope::device,
                              gravel::detail::count_order::kept>;
  static constexpr uint64_t staging_bytes = 64 << 10;
  static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }

  /// Makes one request, without waiting for elements or room: for at most as many elements as the staging memory has.
  answer ask(request what, T* data, size_t n) {
    if constexpr (directly) {
      const auto most = static_cast<uint32_t>(std::min<size_t>(n, gravel::detail::slots<>::most));
      return gravel::detail::serve_host(static_cast<const base&>(handle_), gravel::detail::lane_group::active(), what,
                                        data, most);
    } else {
      const auto most = static_cast<uint32_t>(std::min<size_t>(n, staged_));
      const std::lock_guard lock(mutex_);
      auto* const staged = reinterpret_cast<T*>(staging_.data() + line(sizeof(answer)));
      auto* const found = reinterpret_cast<answer*>(staging_.data());
      if (what == request::put) std::copy_n(data, most, staged);
      gravel::detail::launch_alone(gravel::detail::serve_host_by_kernel<base, T>,
                                   gravel_launch_config{.grid = 1, .block = 32, .stream = stream_},
                                   static_cast<const base&>(handle_), what, staged, most, found);
      gravel_stream_synchronize(stream_);
      if (what == request::take) std::copy_n(staged, found->moved, data);
      return *found;
    }
  }
  /// One round of a host thread's wait. `describe`: says in words what it waits for.
  template <class Describe>
  static void pause(gravel::detail::watched_wait& wait, const Describe& describe) {
    if constexpr (directly) wait.attentively(describe);
    else wait.patiently(describe);
  }
  void wait_for_room(gravel::detail::watched_wait& wait) const {
    pause(wait, [&] {
      return "room for an element in a channel of " + std::to_string(capacity_) +
             ": no consumer frees any, and the channel is not closed (gravel_channel::put)";
    });
  }
  static void wait_for_element(gravel::detail::watched_wait& wait) {
    pause(wait, [] {
      return std::string(
          "an element of a channel: none is put into it, and it has not ended. It ends when it is closed "
          "and consumers have freed all that they took (gravel_channel::take)");
    });
  }
  [[noreturn]] static void refuse(const char* call, size_t done, size_t all) {
    gravel::detail::fail_text(std::string("gravel_channel::") + call + " after close(): " + std::to_string(done) +
                              " of " + std::to_string(all) +
                              " elements are in the channel. Close it when all producers "
                              "have put what they have");
  }
  static void check_host_atomics() {
#if GRAVEL_CUDA
    int device = 0, atomics = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&atomics, cudaDevAttrHostNativeAtomicSupported, device) != cudaSuccess || atomics == 0)
      gravel::detail::fail_text(
          "gravel_channel in memory of the host: atomic operations of this GPU there are not atomic for the CPU "
          "(hostNativeAtomicSupported is 0). Leave out gravel_channel_memory::host: then host threads put and take by "
          "small kernels");
#endif
  }

  gravel::detail::open_object open_{"gravel_channel"};
  uint32_t capacity_, staged_ = 0;
  channel handle_{};
  char* device_memory_ = nullptr;
  gravel::detail::pinned_array<char> host_memory_, staging_;
  gravel_stream_t stream_ = nullptr;
  std::mutex mutex_;  ///< one request at a time uses the staging memory
};
