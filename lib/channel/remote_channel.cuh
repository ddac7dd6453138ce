// Remote channel: a channel at every PE, into which all PEs push by messages. Lanes of a PE take what has come to it.
//
//   struct order { static constexpr const char* name = "order"; ... };                 // 4 to 240 bytes
//   gravel_init<gravel_channel_delivery<order>>();
//   gravel_remote_channel<order> orders(4096);                                         // elements per PE; collective
//   gravel_launch(kernel, grid, block, orders.handle());
//   ... if (!h.at(pe).push(order{...})) ...                                            // no credit: try again later
//   ... const auto batch = h.take(warp, 32);  ...  h.read(batch.first + rank)  ...  h.free(warp, batch);
//
// Credits. Each PE has a share of the capacity of each PE, and spends one credit for each element that it sends there.
// When half a share of elements of one PE have been freed, these credits go back in one message. So there is room for
// each element that arrives. Only for a moment, while freed room is not visible yet, the handler may find none; it then
// sends the element to its own PE again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "device/team_check.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/base/error.hpp"
#include "lib/channel/channel.cuh"

namespace gravel::detail {

template <class T>
struct sent_element {
  T element;
  uint32_t from;
};

}  // namespace gravel::detail

/// The handler that puts elements into the channel. The program passes it to gravel_init.
template <class T>
struct gravel_channel_delivery {
  static constexpr const char* name = T::name;
  using context = gravel::detail::channel<gravel::detail::sent_element<T>>;
  GRAVEL_HANDLER void operator()(const gravel_t& g, context* mine, gravel::detail::sent_element<T> e) const {
    if (!gravel::detail::put_into(*mine, e)) gravel_am<gravel_channel_delivery>(g, static_cast<int>(g.my_pe), e);
  }
};

/// A remote channel for kernels: plain data, from gravel_remote_channel::handle().
/// @scope the group, converged: lanes of a warp that make the call together
/// @completion push(): the element is in the channel at quiescence, mostly much earlier; other calls: on return
/// @errors threads of the group that are missing: the job ends with a message; the answer says if there is no credit,
///   or no element
/// @source Channels (ISCA 2014); Gravel
template <class T>
struct gravel_remote_channel_handle {
  gravel_t g;
  gravel::detail::channel<gravel::detail::sent_element<T>> own;
  uint32_t* credits;   ///< [PE] number of elements that this PE may still send there; symmetric
  uint32_t* deferred;  ///< [PE] number of elements from that PE that have been freed here
  uint32_t share;      ///< credits that each PE has for each PE initially

  /// The channel of one PE, for push().
  struct end {
    const gravel_remote_channel_handle& of;
    int pe;
    /// Sends an element to that PE. False: there is no credit.
    /// @param element copied
    /// @scope lane, from divergent code
    /// @completion at quiescence, mostly much earlier
    /// @errors a PE out of range: the job ends with a message
    /// @source Gravel
    GRAVEL_DEVICE bool push(const T& element) const {
      using namespace gravel::detail;
      uint32_t* const mine = &of.credits[pe];
      for (;;) {
        const uint32_t left = load_relaxed<scope::device>(mine);
        if (left == 0) return false;
        if (compare_swap_acquire<scope::device>(mine, left, left - 1)) break;
      }
      gravel_am<gravel_channel_delivery<T>>(of.g, pe, sent_element<T>{element, of.g.my_pe});
      return true;
    }
  };
  /// The channel of a PE, for push().
  /// @param pe 0 to gravel_n_pes(g) - 1
  /// @scope any
  GRAVEL_DEVICE end at(int pe) const { return {*this, pe}; }

  /// Takes elements that have come to this PE, like channel::take.
  /// @param group the lanes that call
  /// @param most elements, at most
  template <class Group>
  GRAVEL_DEVICE gravel::detail::channel_batch take(const Group& group, uint32_t most) const {
    if (!gravel::detail::enter_group(g, gravel::detail::team_call::channel_take, group, most)) return {};
    return own.take(group, most);
  }
  /// The element of a ticket.
  /// @param ticket of a batch
  /// @scope lane
  GRAVEL_DEVICE T read(uint64_t ticket) const { return own.read(ticket).element; }
  /// Frees the slots. Credits go back to their PEs, half a share at once.
  /// @param group the lanes that took
  /// @param b what take() returned
  template <class Group>
  GRAVEL_DEVICE void free(const Group& group, const gravel::detail::channel_batch& b) const {
    if (!gravel::detail::enter_group(g, gravel::detail::team_call::channel_free, group)) return;
    const uint32_t bulk = half_share();
    uint32_t from = 0, before = 0;
    const bool has = group.rank() < b.count;
    if (has) {
      from = own.read(b.first + group.rank()).from;
      before = gravel::detail::fetch_add<gravel::detail::scope::device>(&deferred[from], 1u);
    }
    own.free(group, b);
    if (has && before % bulk == bulk - 1) gravel_add(g, &credits[g.my_pe], bulk, static_cast<int>(from));
  }
  /// Returns the credits of a PE that are less than half a share.
  /// @param pe the PE whose elements were freed
  /// @scope lane; alone for that PE
  GRAVEL_DEVICE void settle(uint32_t pe) const {
    const uint32_t rest = deferred[pe] % half_share();
    deferred[pe] = 0;
    if (rest) gravel_add(g, &credits[g.my_pe], rest, static_cast<int>(pe));
  }

 private:
  GRAVEL_DEVICE uint32_t half_share() const { return share > 1 ? share / 2 : 1; }
};

/// A channel at every PE. It exists between gravel_init and gravel_finalize; there is one of a T at a time.
/// @scope the program's host thread; collective, except handle(), share() and credits()
/// @completion on return
/// @errors gravel::error
/// @source Channels (ISCA 2014); Gravel
template <class T>
class gravel_remote_channel {
  using element = gravel::detail::sent_element<T>;
  using channel = gravel::detail::channel<element>;
  static_assert(sizeof(T) <= 240, "an element travels in one message");

 public:
  /// Opens the channel.
  /// @param capacity elements at each PE, from the number of PEs to 2^30; all PEs get the same share
  /// @errors gravel::error if the capacity is out of range, or if there is not enough memory
  explicit gravel_remote_channel(uint32_t capacity) : n_pes_(static_cast<uint32_t>(gravel_n_pes())) {
    if (capacity < n_pes_ || capacity > 1u << 30)
      gravel::detail::fail_text("remote channel: a capacity of " + std::to_string(capacity) + " for " +
                                std::to_string(n_pes_) + " PEs; one element for each, 2^30 at most");
    handle_.share = capacity / n_pes_;
    const uint64_t first = (sizeof(channel) + 127) / 128 * 128, bytes = channel::bytes(capacity);
    memory_ =
        static_cast<char*>(gravel::detail::current_backend().allocate(first + bytes + n_pes_ * 4, "a remote channel"));
    handle_.own = channel::in(memory_ + first, capacity);
    handle_.deferred = reinterpret_cast<uint32_t*>(memory_ + first + bytes);
    gravel_copy(memory_, &handle_.own, sizeof(handle_.own));
    gravel_copy(&handle_.own.state().room, &capacity, sizeof(capacity));
    handle_.credits = gravel_malloc<uint32_t>(n_pes_ * 4);
    const std::vector<uint32_t> all(n_pes_, handle_.share);
    gravel_copy(handle_.credits, all.data(), n_pes_ * 4);
    gravel_set_context<gravel_channel_delivery<T>>(reinterpret_cast<channel*>(memory_));
    gravel_barrier_all();
  }
  /// @internal
  gravel_remote_channel(const gravel_remote_channel&) = delete;
  gravel_remote_channel& operator=(const gravel_remote_channel&) = delete;
  /// Waits for quiescence.
  ~gravel_remote_channel() {
    gravel_wait_quiescent();
    gravel_free(handle_.credits);
    gravel::detail::current_backend().release(memory_);
  }

  /// The handle for kernels: an argument for gravel_launch.
  gravel_remote_channel_handle<T> handle() const {
    gravel_remote_channel_handle<T> h = handle_;
    h.g = gravel_handle();
    return h;
  }
  /// Number of elements that a PE may have at another PE at once.
  uint32_t share() const { return handle_.share; }
  /// Number of elements that this PE may still send to each PE.
  std::vector<uint32_t> credits() const {
    std::vector<uint32_t> now(n_pes_);
    gravel_copy(now.data(), handle_.credits, n_pes_ * 4);
    return now;
  }

 private:
  gravel::detail::open_object open_{"gravel_remote_channel"};
  uint32_t n_pes_;
  char* memory_ = nullptr;
  gravel_remote_channel_handle<T> handle_{};
};
