// One of two processes between which packets go: a worker and a link, as an aggregator's plane has them
// (host/aggregator/ucx_link.hpp).
#pragma once
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "bench/bench.hpp"
#include "host/aggregator/ucx_link.hpp"
#include "lib/base/error.hpp"
#include "lib/base/relax.hpp"

namespace gravel_bench {
using namespace gravel::detail;

constexpr size_t largest_packet = 64 << 10;

enum class packet_way { put, message };

/// One of the two processes. Both call the same functions in the same order; `first` sends, or begins.
class packet_end {
 public:
  packet_end(int socket, bool first, uint32_t in_flight)
      : socket_(socket), first_(first), in_flight_(in_flight), landed_(in_flight) {
    worker_.on_am(
        plane_am, [](void* self, auto header, auto data) { static_cast<packet_end*>(self)->receive(header, data); },
        this);
    worker_.on_error([](const std::string& text) { fail_text(text); });
    const auto exchange = [&](const std::vector<std::byte>& ours) {
      const uint64_t bytes = ours.size();
      uint64_t theirs = 0;
      std::vector<std::byte> got;
      if (send(socket_, &bytes, sizeof bytes, 0) < 0 || send(socket_, ours.data(), bytes, 0) < 0 ||
          recv(socket_, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs)
        fail_errno("the other process");
      got.resize(theirs);
      if (recv(socket_, got.data(), theirs, MSG_WAITALL) != static_cast<ssize_t>(theirs))
        fail_errno("the other process");
      return got;
    };
    const auto address = exchange(worker_.address());
    link_.emplace(worker_, address, std::vector<std::vector<std::byte>>{exchange(landing_.packed_key())},
                  "the other process", std::vector<const ucx_memory*>{&staging_});
  }
  /// To be called last: from here on the other end may be gone.
  void finish() {
    worker_.expect_disconnects();
    synchronize();
  }

  /// Seconds to send the packets; 0 at the other end. `check`: every byte is written and checked.
  double stream(packet_way how, size_t bytes, uint64_t packets, bool check) {
    begin(bytes, check);
    const double start = seconds_now();
    if (first_) {
      for (uint64_t sequence = 0; sequence < packets; ++sequence) {
        until([&] { return sequence - freed_ < in_flight_; });
        send_packet(how, sequence);
      }
      until([&] { return freed_ == packets; });
      return seconds_now() - start;
    }
    credits_ = true;
    until([&] { return expected_ == packets; });
    return 0;
  }

  /// Half round trips in seconds, sorted.
  std::vector<double> ping_pong(packet_way how, size_t bytes, uint64_t rounds) {
    begin(bytes, false);
    std::vector<double> halves;
    for (uint64_t sequence = 0; sequence < rounds; ++sequence) {
      const double start = seconds_now();
      if (first_) send_packet(how, sequence);
      until([&] { return expected_ == sequence + 1; });
      if (!first_) send_packet(how, sequence);
      halves.push_back((seconds_now() - start) / 2);
    }
    std::sort(halves.begin(), halves.end());
    return halves;
  }

 private:
  /// The words of packet `sequence`: no two packets in a slot one after the other are alike anywhere.
  static uint64_t stamp(uint64_t sequence, size_t word) { return sequence * 0x9e3779b97f4a7c15 + word; }
  template <class F>
  void each_word(F&& code) const {
    const size_t words = bytes_ / sizeof(uint64_t);
    if (!check_) {
      code(size_t{0});
      return code(words - 1);
    }
    for (size_t w = 0; w < words; ++w) code(w);
  }

  void send_packet(packet_way how, uint64_t sequence) {
    const uint64_t at = sequence % in_flight_ * largest_packet;
    auto* words = reinterpret_cast<uint64_t*>(staging_area_.data() + at);
    each_word([&](size_t w) { words[w] = stamp(sequence, w); });
    const plane_header header{
        how == packet_way::put ? plane_message::notice : plane_message::packet, 0, 0, 0, sequence, bytes_, 0};
    if (how == packet_way::put) link_->put_and_notify(words, bytes_, 0, at, header);
    else link_->send(header, {reinterpret_cast<const std::byte*>(words), bytes_});
  }

  void receive(std::span<const std::byte> head, std::span<const std::byte> data) {
    plane_header header;
    std::memcpy(&header, head.data(), sizeof header);
    if (header.kind == plane_message::credit) {
      freed_ = header.sequence;
      return;
    }
    const uint64_t slot = header.sequence % in_flight_;
    char* packet = landing_area_.data() + slot * largest_packet;
    std::memcpy(packet, data.data(), data.size());  // a notice has none
    auto* words = reinterpret_cast<uint64_t*>(packet);
    each_word([&](size_t w) {
      if (words[w] != stamp(header.sequence, w)) fail("packet {} is damaged at word {}", header.sequence, w);
      std::memset(&words[w], static_cast<int>(poison), sizeof words[w]);
    });
    landed_[slot] = header.sequence + 1;
    // A short message may overtake a put: credits go by what has arrived without a gap.
    while (landed_[expected_ % in_flight_] == expected_ + 1) ++expected_;
    if (credits_) link_->send({plane_message::credit, 0, 0, 0, expected_, 0, 0}, {});
  }

  template <class F>
  void until(F&& ready) {
    for (relax wait; !ready();) worker_.progress() ? wait.reset() : wait.briefly();  // as a plane at work
  }
  /// A rendezvous of both processes: nothing is under way then.
  void synchronize() {
    char word = 0;
    if (send(socket_, &word, 1, MSG_NOSIGNAL) != 1) fail_errno("the other process");
    ssize_t got = -1;
    // The other process may still wait for something that only progress here can complete.
    until([&] { return (got = recv(socket_, &word, 1, MSG_DONTWAIT)) >= 0; });
    if (got == 0) fail("the other process has ended");
  }
  void begin(size_t bytes, bool check) {
    synchronize();
    bytes_ = bytes;
    check_ = check;
    credits_ = false;
    freed_ = expected_ = 0;
    std::fill(landed_.begin(), landed_.end(), 0);
    synchronize();  // both have cleared the state of the last run
  }

  int socket_;
  bool first_;
  uint32_t in_flight_;
  ucx_context context_{1};
  bench_memory staging_area_{in_flight_ * largest_packet}, landing_area_{in_flight_ * largest_packet};
  ucx_memory staging_{context_, staging_area_.data(), staging_area_.size()};
  ucx_memory landing_{context_, landing_area_.data(), landing_area_.size()};
  ucx_worker worker_{context_};
  std::optional<ucx_link> link_;

  size_t bytes_ = 0;
  bool check_ = false, credits_ = false;
  std::vector<uint64_t> landed_;  ///< by slot: sequence + 1 of what lies there
  uint64_t expected_ = 0;         ///< all packets below have arrived
  uint64_t freed_ = 0;            ///< all packets below have arrived at the other end
};

}  // namespace gravel_bench
