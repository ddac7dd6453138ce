// gravel_receiver: the receiving end of a link, or an output of a router, for the host of its PE.
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "host/pe/pinned_array.hpp"
#include "lib/link/link_segment.hpp"
#include "lib/link/ring_set.cuh"

namespace gravel::detail {
template <int = 0>
__global__ void __launch_bounds__(32) await_packet_in_stream(const __grid_constant__ gravel_arrival a) {
  await_packet(a.g, a.ring, a.number);
}
template <int = 0>
__global__ void __launch_bounds__(32)
    free_packet_in_stream(const __grid_constant__ gravel_arrival a, packet_word word, gravel_event done) {
  free_packet(a.g, a.ring, far_heap::of(a.g, a.ring.source), {a.number, word});
  raise_event(done);
}
/// Frees all buffers for ever, since this PE receives no more: the source never waits for credit again.
template <int = 0>
__global__ void __launch_bounds__(32)
    free_for_ever(const __grid_constant__ gravel_t g, const packet_ring* rings, uint32_t lanes) {
  for (uint32_t c = 0; c < lanes; ++c) {
    const packet_ring& r = rings[c];
    const far_heap back = far_heap::of(g, r.source);
    for (uint32_t i = threadIdx.x; i < r.buffers; i += blockDim.x) {
      uint64_t* const at = &r.credit(i)->freed;
      if (back.is_mapped()) store_release(back.at(at), ~uint64_t{0});    // [L5]
      else gravel_max(g, at, ~uint64_t{0}, static_cast<int>(r.source));  // max: it may overtake an earlier credit
    }
  }
  if (threadIdx.x == 0) gravel_flush(g);
}
}  // namespace gravel::detail

/// Receives segments at one endpoint of this PE. gravel_link and gravel_router create it.
/// @scope one host thread of the PE at a time
/// @completion on return
/// @errors gravel::error: invalid arguments, too many pending segments, a link that a router has taken
/// @source Groute, sections 3 and 4.1
class gravel_receiver {
 public:
  /// @internal
  /// `edges`: links of `rings` that all end at one endpoint of this PE.
  gravel_receiver(gravel::detail::ring_set& rings, std::vector<size_t> edges)
      : rings_(rings),
        edges_(std::move(edges)),
        next_(edges_.size()),
        ended_(edges_.size()),
        events_(rings.receiver_events(edges_[0])) {
    for (const size_t e : edges_) direct_ &= rings_.reaches(rings_.edges()[e].source.pe);
  }
  /// Drops what was not received: sources do not wait for it.
  ~gravel_receiver() noexcept(false) {
    if (handed_over_) return;
    for (const auto& [stream, event] : releases_)
      gravel::detail::await_event_as(event, [&] { return awaited_release(); });
    const gravel_stream_t stream = own();
    for (const size_t e : edges_)
      gravel_launch(gravel::detail::free_for_ever<>, gravel_launch_config{.grid = 1, .block = 32, .stream = stream},
                    gravel_handle(), rings_.device_ring(e), rings_.shape().lanes);
    gravel_stream_destroy(own_);
  }
  /// @internal
  gravel_receiver(const gravel_receiver&) = delete;
  gravel_receiver& operator=(const gravel_receiver&) = delete;

  /// Requests the next segment, which may not have arrived yet. The number of segments that are pending or not yet
  /// released is at most the number of buffers of the links to this endpoint: a further segment could never arrive, so
  /// the call throws gravel::error.
  /// @completion returns at once
  gravel_pending_segment receive() {
    if (pending_ + held_.size() >= buffers())
      gravel::detail::fail_text("gravel_receiver::receive: " + std::to_string(buffers()) + " segments of " + text() +
                                " are pending or not released, and there are no more buffers");
    ++pending_;
    return {this, tickets_++};
  }
  /// Returns the segment's memory to its link, after the work in `stream`. Does nothing for an empty segment, which
  /// marks the end. Throws gravel::error for a segment that is not held.
  /// @param segment what get() returned
  /// @param stream the release follows the work in this stream; nullptr: the PE's own stream
  /// @completion returns at once
  void release(const gravel_segment& segment, gravel_stream_t stream = nullptr) {
    if (segment.empty()) return;
    const auto held = std::find(held_.begin(), held_.end(), held_packet{segment.input, segment.packet.number});
    if (held == held_.end())
      gravel::detail::fail_text("gravel_receiver::release: the segment was released before, or is none of " + text());
    held_.erase(held);
    if (is_of_host()) free_host_.push_back(segment.data);
    else start_release(segment.input, segment.packet, stream);
  }

  // For gravel_pending_segment.
  /// @internal
  bool is_ready(uint64_t ticket) {
    resolve(ticket);
    return ticket < first_ + found_.size();
  }
  /// @internal
  gravel_segment get(uint64_t ticket) {
    if (ticket < first_ || (ticket < first_ + found_.size() && found_[ticket - first_].is_taken))
      gravel::detail::fail_text("gravel_pending_segment::get: the segment was taken before, on " + text());
    for (gravel::detail::watched_wait wait; !is_ready(ticket);) wait.attentively([&] { return awaited_segment(); });
    gravel_segment found = found_[ticket - first_];
    found_[ticket - first_].is_taken = true;
    while (!found_.empty() && found_.front().is_taken) {
      found_.pop_front();
      ++first_;
    }
    --pending_;
    if (!found.has_come) return found;
    held_.push_back({found.input, found.packet.number});
    if (is_of_host()) deliver_to_host(found);
    return found;
  }
  /// @internal
  gravel_arrival arrival(uint64_t ticket) const {
    if (edges_.size() != 1)
      gravel::detail::fail_text("gravel_pending_segment: " + text() + " has " + std::to_string(edges_.size()) +
                                " sources: which of them is first the host finds out, by get()");
    return {gravel_handle(), rings_.ring(edges_[0]), ticket};
  }
  /// @internal
  void wait(uint64_t ticket, gravel_stream_t stream) {
    const gravel_arrival a = arrival(ticket);
    const gravel_launch_config config{.stream = stream};
    if (direct_) gravel::detail::launch_alone(gravel::detail::await_packet_in_stream<>, config, a);
    else gravel_launch(gravel::detail::await_packet_in_stream<>, config, a);
  }
  /// Returns whether sources store packets directly into this PE's memory.
  bool is_direct() const { return direct_; }
  /// @internal
  bool was_used() const { return tickets_ != 0; }
  /// @internal
  /// A router receives on these links from now on.
  void hand_over() { handed_over_ = true; }
  /// @internal
  /// From now on all packets of a segment come before those of another source.
  void keep_whole() { is_whole_ = true; }
  /// @internal
  size_t sources() const { return edges_.size(); }
  /// @internal
  /// Returns whether release() would not wait for an earlier one.
  bool has_room() const { return events_.has_room(); }

 private:
  struct found_segment : gravel_segment {
    bool is_taken = false;
  };
  struct held_packet {
    size_t input;
    uint64_t number;
    bool operator==(const held_packet&) const = default;
  };
  /// Buffers of all links to this endpoint.
  uint64_t buffers() const {
    uint64_t all = 0;
    for (const size_t e : edges_) all += rings_.ring(e).buffers;
    return all;
  }
  std::string text() const {
    const gravel::detail::link_edge& e = rings_.edges()[edges_[0]];
    return edges_.size() == 1 ? gravel::detail::text_of(e.source, e.destination)
                              : "the router's output at " + gravel::detail::text_of(e.destination);
  }
  std::string awaited_segment() const {
    return "a segment on " + text() + ", by gravel_pending_segment::get(): nothing comes, and " +
           std::to_string(ended_.size() - n_ended_) + " of its " + std::to_string(ended_.size()) +
           " sources have not shut down; " + std::to_string(pending_) + " segments are pending, " +
           std::to_string(held_.size()) +
           " not released. A thread that also sends, or releases, must not wait here for itself: use two threads, or "
           "poll is_ready()";
  }
  std::string awaited_release() const {
    return "a segment of " + text() + " to be released, after the work in its stream";
  }
  /// For work that follows none of the program's.
  gravel_stream_t own() { return own_ ? own_ : own_ = gravel_stream_create(); }

  /// Polls each source once for its next packet, until ticket `ticket` has its segment.
  void resolve(uint64_t ticket) {
    const gravel_t g = gravel_host_handle();
    for (size_t i = 0; i < edges_.size() && first_ + found_.size() <= ticket; ++i) {
      const size_t input = within_ < edges_.size() ? within_ : turn_++ % edges_.size();
      if (ended_[input]) continue;
      const gravel::detail::packet_ring& r = rings_.ring(edges_[input]);
      gravel::detail::received_packet p;
      if (!gravel::detail::poll_packet(g, r, next_[input], &p)) continue;
      if (p.is_end()) {
        ended_[input] = true;
        ++n_ended_;
        within_ = none;
        continue;
      }
      ++next_[input];
      found_segment s;
      s.data = r.data(p.number);
      s.bytes = p.word.bytes();
      s.metadata = gravel::detail::metadata_of(g, r, p);
      s.source = rings_.edges()[edges_[input]].source;
      s.is_last = p.word.is_last();
      s.has_come = true;
      s.input = input;
      s.packet = p;
      found_.push_back(s);
      within_ = is_whole_ && !s.is_last ? input : none;
    }
    if (n_ended_ == edges_.size())
      while (first_ + found_.size() <= ticket) found_.emplace_back();
  }
  bool is_of_host() const { return rings_.edges()[edges_[0]].destination.kind == gravel_endpoint::host; }
  /// Copies the packet into host memory and releases its buffer at once.
  void deliver_to_host(gravel_segment& s) {
    if (free_host_.empty()) {
      host_.emplace_back(gravel::detail::current_backend(), rings_.shape().packet_bytes,
                         "gravel_receiver: a packet for the host");
      free_host_.push_back(host_.back().data());
    }
    char* const at = free_host_.back();
    free_host_.pop_back();
    if (s.bytes) gravel_copy(at, s.data, s.bytes);
    s.data = at;
    start_release(s.input, s.packet, own());
  }
  void start_release(size_t input, const gravel::detail::received_packet& p, gravel_stream_t stream) {
    const gravel_arrival a{gravel_handle(), rings_.ring(edges_[input]), p.number};
    const gravel_event done = releases_[stream] = events_.take([&] { return awaited_release(); });
    const gravel_launch_config config{.stream = stream};
    if (rings_.reaches(static_cast<int>(a.ring.source)))
      gravel::detail::launch_alone(gravel::detail::free_packet_in_stream<>, config, a, p.word, done);
    else gravel_launch(gravel::detail::free_packet_in_stream<>, config, a, p.word, done);
  }

  gravel::detail::ring_set& rings_;
  std::vector<size_t> edges_;
  std::vector<uint64_t> next_;  ///< [sources] number of the next packet
  std::vector<bool> ended_;
  gravel::detail::event_pool events_;
  static constexpr size_t none = ~size_t{0};
  size_t n_ended_ = 0, turn_ = 0;
  size_t within_ = none;                ///< the source whose segment has come in part, if segments are kept whole
  uint64_t tickets_ = 0, pending_ = 0;  ///< pending: requested, and get() has not returned
  std::vector<held_packet> held_;       ///< returned by get(), and not released
  std::deque<found_segment> found_;     ///< for tickets first_ and later
  uint64_t first_ = 0;
  std::vector<gravel::detail::pinned_array<char>> host_;  ///< for a host endpoint: packets in host memory
  std::vector<char*> free_host_;                          ///< packets of host_ that are free
  bool direct_ = true, handed_over_ = false, is_whole_ = false;
  gravel_stream_t own_ = nullptr;
  std::unordered_map<gravel_stream_t, gravel_event> releases_;  ///< the last release in each stream
};

inline bool gravel_pending_segment::is_ready() const { return receiver_->is_ready(ticket_); }
inline gravel_segment gravel_pending_segment::get() const { return receiver_->get(ticket_); }
inline void gravel_pending_segment::wait(gravel_stream_t stream) const { receiver_->wait(ticket_, stream); }
inline gravel_arrival gravel_pending_segment::handle() const { return receiver_->arrival(ticket_); }
