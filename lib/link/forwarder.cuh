// Junctions of routers: what arrives at an output of one router goes on to an input of another, packet by packet,
// without the program. A thread of the host does what a program would do by hand: it receives, sends, and releases
// behind the send in a CUDA stream.
//
// A buffer of the first router is released when the packet has left it, so packets wait where they are if the buffers
// behind are full. The thread itself waits for nothing: one full output does not keep the others from going on.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/capacity.hpp"
#include "lib/base/profile.hpp"
#include "lib/link/link_receiver.cuh"
#include "lib/link/link_sender.cuh"

namespace gravel::detail {

/// An output of a router at this PE, and the input of another router that it feeds.
struct junction {
  std::shared_ptr<gravel_receiver> from;
  gravel_sender* to;
  /// All packets of a segment come one after the other, and stay a segment. Otherwise each packet is one from now on.
  bool is_whole;
};

/// Forwards what arrives at junctions of this PE, from constructor to destructor. It ends the job if a call of the
/// router's policy throws.
class forwarder {
 public:
  explicit forwarder(const std::vector<junction>& junctions) : exceptions_(std::uncaught_exceptions()) {
    for (const junction& j : junctions) {
      if (j.is_whole) j.from->keep_whole();
      places_.push_back({j, gravel_stream_create(), {}, false});
    }
    thread_ = start_thread("routers that feed routers", [this] { run(); });
  }
  /// What has not left the junction is dropped. If an exception passes, nothing waits for what is on its way.
  ~forwarder() noexcept(false) {
    store_release(&stop_, uint64_t{1});
    thread_.join();
    for (const place& p : places_)
      if (std::uncaught_exceptions() == exceptions_) gravel_stream_destroy(p.stream);
      else p.from->hand_over();
  }
  forwarder(const forwarder&) = delete;
  forwarder& operator=(const forwarder&) = delete;

 private:
  struct place : junction {
    gravel_stream_t stream;
    std::optional<gravel_pending_segment> next;
    bool has_ended;
  };

  void run() {
    name_this_thread("gravel routers");
    try {
      size_t ended = 0;
      for (relax wait; ended < places_.size() && load_acquire(&stop_) == 0;) {
        bool has_moved = false;
        for (place& p : places_) {
          if (p.has_ended || !step(p)) continue;
          has_moved = true;
          ended += p.has_ended;
        }
        if (has_moved) wait.reset();
        else wait.attentively();
      }
    } catch (const std::exception& e) {
      gravel_abort((std::string("what one router sends to another: ") + e.what()).c_str());
    }
  }
  /// Moves one packet, or the end, if that is possible without waiting.
  static bool step(place& p) {
    if (!p.to->has_room() || !p.from->has_room()) return false;
    if (!p.next) p.next = p.from->receive();
    if (!p.next->is_ready()) return false;
    const gravel_segment packet = std::exchange(p.next, {})->get();
    if (packet.empty()) {
      p.to->shutdown({.stream = p.stream});
      p.has_ended = true;
      return true;
    }
    p.to->send_part(packet.data, packet.bytes, packet.is_last || !p.is_whole,
                    {.metadata = packet.metadata, .stream = p.stream});
    p.from->release(packet, p.stream);
    return true;
  }

  std::vector<place> places_;
  uint64_t stop_ = 0;
  int exceptions_;
  std::thread thread_;
};

}  // namespace gravel::detail
