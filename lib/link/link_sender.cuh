// gravel_sender: the sending end of a link, or an input of a router, for the host of its PE.
#pragma once
#include <algorithm>
#include <bit>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/launch_alone.cuh"
#include "lib/link/ring_set.cuh"

/// gravel_link_options::copies_from: no packet is carried by a copy engine.
constexpr uint32_t gravel_no_copies = ~0u;

/// How a segment is sent.
struct gravel_send_call {
  uint64_t metadata = 0;             ///< travels with each packet of the segment; 0: none
  gravel_event after{};              ///< the device waits for it before it reads the segment
  gravel_stream_t stream = nullptr;  ///< nullptr: the sender's own stream
};

/// Sends segments from one endpoint of this PE. gravel_link and gravel_router create it.
/// @scope one host thread of the PE at a time
/// @completion send(): the event that it returns; all other calls: on return
/// @errors gravel::error: invalid arguments, a link that is shut down or that a router has taken
/// @source Groute, sections 3 and 4.1
class gravel_sender {
 public:
  static constexpr uint64_t most_bytes = 1ull << 40;
  /// Returns the numbers of the outputs that a segment may go to.
  using choice = std::function<std::vector<int>(uint64_t bytes, uint64_t metadata)>;

  /// @internal
  /// `first_edge` to `first_edge + n_outputs - 1`: links of `rings` that all begin at one endpoint of this PE.
  gravel_sender(gravel::detail::ring_set& rings, size_t first_edge, uint32_t n_outputs, gravel::detail::send_way way,
                uint32_t blocks, uint32_t copies_from, choice choose = {})
      : rings_(rings),
        first_(first_edge),
        n_(n_outputs),
        way_(way),
        blocks_(blocks),
        copies_from_(copies_from),
        choose_(std::move(choose)),
        events_(rings.sender_events(first_edge)),
        exceptions_(std::uncaught_exceptions()) {
    for (size_t i = 0; i < n_; ++i) direct_ &= rings_.reaches(edge(i).destination.pe);
    // All blocks wait for the buffer of a packet together, so they must run at the same time.
    blocks_ = std::clamp(gravel::detail::most_cooperative_blocks(kernel(), {.block = threads}, true), 1u, blocks_);
  }
  /// Waits for segments that are on their way. Calls shutdown() if the program has not. If an exception passes, it does
  /// neither: the receiver may never receive.
  ~gravel_sender() noexcept(false) {
    if (std::uncaught_exceptions() != exceptions_) return;
    if (!closed_) shutdown();
    gravel::detail::await_event_as(last_, [&] { return awaited(); });
    if (own_) gravel_stream_destroy(own_);
    if (stage_) gravel::detail::current_backend().release(stage_);
  }
  /// @internal
  gravel_sender(const gravel_sender&) = delete;
  gravel_sender& operator=(const gravel_sender&) = delete;

  /// Sends bytes [data, data + bytes) in packets; kernels of this PE must be able to read this memory. Returns at once,
  /// but the 33rd call waits until the first is done. The event happens when `data` may be reused. For a host endpoint
  /// `data` is any host memory, and may be reused on return. Segments of a sender leave in the order of its calls.
  /// Throws gravel::error after shutdown(), and for more than most_bytes.
  /// @param data memory that kernels of this PE can read; for a host endpoint: host memory
  /// @param bytes 0 or more
  /// @param how stream, event to wait for, metadata
  gravel_event send(const void* data, uint64_t bytes, const gravel_send_call& how = {}) {
    if (closed_) gravel::detail::fail_text("gravel_sender::send: " + text() + " was shut down");
    if (bytes > most_bytes)
      gravel::detail::fail_text("gravel_sender::send: a segment of " + std::to_string(bytes) + " bytes on " + text() +
                                "; there may be " + std::to_string(most_bytes));
    if (!data && bytes)
      gravel::detail::fail_text("gravel_sender::send: a segment of " + std::to_string(bytes) + " bytes at nullptr on " +
                                text());
    const gravel::detail::send_job job = job_of(data, bytes, how, chosen(bytes, how.metadata));
    if (edge(0).source.kind == gravel_endpoint::host) return send_from_host(job, how);
    return start(job, how.stream);
  }
  /// @internal
  /// Sends the next part of a segment whose parts come one by one. The first part decides about the outputs.
  gravel_event send_part(const void* data, uint64_t bytes, bool is_last, const gravel_send_call& how) {
    const bool continues = part_outputs_ != 0;
    if (!continues) part_outputs_ = chosen(bytes, how.metadata);
    gravel::detail::send_job job = job_of(data, bytes, how, part_outputs_);
    job.continues = continues;
    job.has_more = !is_last;
    if (is_last) part_outputs_ = 0;
    return start(job, how.stream);
  }
  /// @internal
  /// Returns whether a call that sends, or ends, would not wait for an earlier one.
  bool has_room() const { return events_.has_room(); }
  /// Ends the stream of segments: this sender sends no more. Returns at once, even if all buffers are full.
  /// @param how stream and event to wait for
  gravel_event shutdown(const gravel_send_call& how = {}) {
    if (closed_) gravel::detail::fail_text("gravel_sender::shutdown: " + text() + " was shut down before");
    closed_ = true;
    const gravel_stream_t stream = follow(how.stream);
    const gravel_launch_config config{.grid = 1, .block = 32, .stream = stream};
    const gravel_event done = events_.take([&] { return awaited(); });
    const uint32_t n = n_ * rings_.shape().lanes;
    if (direct_ && !how.after.word)
      gravel::detail::launch_alone(gravel::detail::end_rings<>, config, gravel_handle(), rings_.device_ring(first_), n,
                                   how.after, done);
    else
      gravel_launch(gravel::detail::end_rings<>, config, gravel_handle(), rings_.device_ring(first_), n, how.after,
                    done);
    return last_ = done;
  }
  /// Returns whether shutdown() was called.
  bool is_shut_down() const { return closed_; }
  /// @internal
  bool was_used() const { return closed_ || last_.word; }
  /// @internal
  /// A router sends on these links from now on.
  void hand_over() { closed_ = true; }
  /// Returns whether kernels store everything directly into the destinations' memory. Otherwise it goes through the
  /// aggregator.
  bool is_direct() const { return direct_; }

 private:
  static constexpr unsigned threads = GRAVEL_CUDA ? 512 : 32;  ///< of a block
  decltype(&gravel::detail::send_segment<gravel::detail::stored_heap>) kernel() const {
    return direct_ ? gravel::detail::send_segment<gravel::detail::stored_heap>
                   : gravel::detail::send_segment<gravel::detail::far_heap>;
  }

  const gravel::detail::link_edge& edge(size_t output) const { return rings_.edges()[first_ + output]; }
  std::string text() const {
    return n_ == 1 ? gravel::detail::text_of(edge(0).source, edge(0).destination)
                   : "the router's input at " + gravel::detail::text_of(edge(0).source);
  }
  /// Describes what a call waits for while all buffers are full.
  std::string awaited() const {
    return "what was sent on " + text() + " to leave: its " + std::to_string(rings_.shape().buffers) +
           " buffers at a destination are full until segments are received and released there. A thread that sends and "
           "receives must "
           "receive meanwhile: use two threads, or poll gravel_pending_segment::is_ready()";
  }
  gravel::detail::send_job job_of(const void* data, uint64_t bytes, const gravel_send_call& how,
                                  uint64_t outputs) const {
    // The host knows the output beforehand if there is one only.
    const bool is_known = way_ == gravel::detail::send_way::one && std::has_single_bit(outputs);
    const auto way = is_known ? gravel::detail::send_way::all : way_;
    return {static_cast<const char*>(data), bytes, how.metadata, outputs, way, false, false, how.after, {}};
  }
  uint64_t chosen(uint64_t bytes, uint64_t metadata) const {
    const uint64_t all = n_ == 64 ? ~0ull : (1ull << n_) - 1;
    if (!choose_) return all;
    if (way_ == gravel::detail::send_way::shares)
      gravel::detail::fail_text("gravel_sender::send: " + text() +
                                " sends equal shares to all outputs: its options cannot have `choose`, too");
    uint64_t some = 0;
    for (const int output : choose_(bytes, metadata)) {
      if (output < 0 || output >= static_cast<int>(n_))
        gravel::detail::fail_text("gravel_sender::send: the policy of " + text() + " chose output " +
                                  std::to_string(output) + "; there are 0 to " + std::to_string(n_ - 1));
      some |= 1ull << output;
    }
    if (!some) gravel::detail::fail_text("gravel_sender::send: the policy of " + text() + " chose no output");
    return some;
  }

  /// Returns the stream for the next kernel. Kernels of one input run one after the other.
  gravel_stream_t follow(gravel_stream_t stream) {
    if (!stream) stream = own_ ? own_ : own_ = gravel_stream_create();
    if (stream != last_stream_ && last_stream_) gravel_wait(last_, stream);
    return last_stream_ = stream;
  }
  gravel_event start(gravel::detail::send_job job, gravel_stream_t stream) {
    stream = follow(stream);
    job.done = events_.take([&] { return awaited(); });
    if (may_copy()) {
      if (is_copied(job)) {
        copy_packets(job, stream);
        return last_ = job.done;
      }
      number_packets(job, [](auto...) {});
    }
    const gravel::detail::send_end end{gravel_handle(), rings_.device_ring(first_), n_, rings_.state(first_)};
    constexpr uint64_t each = GRAVEL_CUDA ? 16384 : 1024;  // bytes of a packet for each block
    const uint64_t packet = std::min<uint64_t>(job.bytes, rings_.shape().packet_bytes);
    const auto grid = static_cast<unsigned>(std::clamp<uint64_t>((packet + each - 1) / each, 1, blocks_));
    const gravel_launch_config config{.grid = grid, .block = threads, .stream = stream, .cooperative = grid > 1};
    // A kernel that waits only for credits, which other kernels store here, needs no resolver.
    if (direct_ && !job.after.word) gravel::detail::launch_alone(kernel(), config, end, job);
    else gravel_launch(kernel(), config, end, job);
    return last_ = job.done;
  }

  /// Copies need outputs that the host knows beforehand; the host then numbers all packets.
  bool may_copy() const {
    return direct_ && copies_from_ != gravel_no_copies && way_ != gravel::detail::send_way::any &&
           way_ != gravel::detail::send_way::one;
  }
  /// Returns whether a copy engine carries the segment. The CUDA stream must have room: send() must not wait for it.
  bool is_copied(const gravel::detail::send_job& job) {
    constexpr uint64_t most = 256;  // copies, and kernels between them
    if (std::min<uint64_t>(job.bytes, rings_.shape().packet_bytes) < copies_from_) return false;
    const uint64_t steps = 2 * gravel::detail::segment_cut{job.bytes, rings_.shape().packet_bytes}.packets() * n_;
    for (; in_stream_ + steps > most && !copied_.empty() && gravel_has_happened(copied_.front().first);
         copied_.pop_front())
      in_stream_ -= copied_.front().second;
    if (in_stream_ + steps > most) return false;
    copied_.emplace_back(job.done, steps);
    in_stream_ += steps;
    return true;
  }
  /// Numbers the packets of the segment in the order of send_packets. Calls each(output, number, packet of the segment,
  /// whether it is the last one at that output).
  template <class Each>
  void number_packets(const gravel::detail::send_job& job, const Each& each) {
    if (next_.empty()) {  // kernels may have sent before
      next_.resize(n_);
      for (uint32_t i = 0; i < n_; ++i)
        gravel_copy(&next_[i], &rings_.ring(first_ + i).origin()->sent, sizeof(uint64_t));
    }
    const uint64_t packets = gravel::detail::segment_cut{job.bytes, rings_.shape().packet_bytes}.packets();
    for (uint64_t p = 0; p < packets; ++p)
      for (uint32_t output = 0; output < n_; ++output) {
        const auto share = gravel::detail::packet_share::of(job, output, n_, packets);
        if (share.begin + p < share.end)
          each(output, next_[output]++, share.begin + p, share.begin + p + 1 == share.end);
      }
  }
  /// Sends the segment by copies in the stream. Each copy waits for its buffer.
  void copy_packets(const gravel::detail::send_job& job, gravel_stream_t stream) {
    const gravel::detail::segment_cut cut{job.bytes, rings_.shape().packet_bytes};
    gravel_event after = job.after;
    gravel::detail::copied_packet before{};
    const auto step = [&](const gravel::detail::copied_packet& next, const gravel_event& done) {
      const gravel_launch_config config{.grid = 1, .block = 32, .stream = stream};
      if (after.word)
        gravel_launch(gravel::detail::between_copies<>, config, gravel_handle(), before, next, after, done);
      else
        gravel::detail::launch_alone(gravel::detail::between_copies<>, config, gravel_handle(), before, next, after,
                                     done);
      after = {};
      before = next;
    };
    number_packets(job, [&](uint32_t output, uint64_t number, uint64_t packet, bool is_last) {
      const gravel::detail::packet_ring& r = rings_.ring(first_ + output);
      const uint64_t bytes = cut.size(packet);
      const auto word =
          gravel::detail::packet_word::make(number, bytes, is_last && !job.has_more, job.metadata != 0, false);
      step({rings_.device_ring(first_ + output), number, job.metadata, word}, {});
      if (bytes)
        gravel::detail::current_backend().copy_in_stream(
            stream, rings_.at(static_cast<int>(r.destination), r.data(number)), job.from + cut.begin(packet), bytes);
    });
    step({}, job.done);
  }

  /// Sends from host memory by way of staging in device memory. As many packets are on their way as there are buffers.
  /// When it returns, all of `data` has been read; the last packets may still be on their way.
  gravel_event send_from_host(gravel::detail::send_job job, const gravel_send_call& how) {
    const gravel::detail::segment_cut cut{job.bytes, rings_.shape().packet_bytes};
    const uint32_t buffers = rings_.shape().buffers;
    gravel::detail::await_event_as(job.after,
                                   [&] { return "the event after which a segment is to be sent on " + text(); });
    if (!stage_) {
      stage_ = static_cast<char*>(gravel::detail::current_backend().allocate(
          uint64_t{buffers} * rings_.shape().packet_bytes, "a host's end of links"));
      staged_.resize(buffers);
    }
    const char* const from = job.from;
    if (job.way == gravel::detail::send_way::shares || (job.way == gravel::detail::send_way::one && cut.packets() > 1))
      gravel::detail::fail_text("gravel_sender::send: " + text() +
                                " is of a host: its segments of several packets go to all, or each packet to any");
    gravel_event done;
    for (uint64_t p = 0; p < cut.packets(); ++p) {
      const uint32_t slot = static_cast<uint32_t>(stages_++ % buffers);
      gravel::detail::await_event_as(staged_[slot], [&] { return awaited(); });
      job.from = stage_ + uint64_t{slot} * rings_.shape().packet_bytes;
      job.bytes = cut.size(p);
      job.after = {};
      job.has_more = p + 1 < cut.packets();
      if (job.bytes) gravel_copy(const_cast<char*>(job.from), from + cut.begin(p), job.bytes);
      done = staged_[slot] = start(job, how.stream);
    }
    return done;
  }
  gravel::detail::ring_set& rings_;
  size_t first_;
  uint32_t n_;
  gravel::detail::send_way way_;
  uint32_t blocks_;
  uint32_t copies_from_;  ///< a copy engine carries packets of at least so many bytes
  choice choose_;
  gravel::detail::event_pool events_;
  int exceptions_;
  std::vector<uint64_t> next_;  ///< [outputs] number of the next packet, if copies may carry it
  std::deque<std::pair<gravel_event, uint64_t>>
      copied_;                 ///< segments that may be on their way, and their steps in streams
  uint64_t in_stream_ = 0;     ///< steps of all of them
  uint64_t part_outputs_ = 0;  ///< the outputs of a segment whose parts are sent one by one; 0: none is begun
  bool direct_ = true, closed_ = false;
  gravel_stream_t own_ = nullptr, last_stream_ = nullptr;
  gravel_event last_;
  char* stage_ = nullptr;             ///< for a host endpoint: staging for packets in device memory
  std::vector<gravel_event> staged_;  ///< [buffers] happens when the staged packet has been sent
  uint64_t stages_ = 0;
};
