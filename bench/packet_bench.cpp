// From packet to packet: two processes, each with a worker and a link as an aggregator's plane has them
// (host/ucx_link.hpp). A packet goes as a put with its notice, or inside an active message; bandwidth with a
// few packets in flight, and the half round trip of one. Every packet is stamped and checked; those of a
// first round, not timed, are checked to the last byte.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "bench/bench.hpp"
#include "host/ucx_link.hpp"
#include "lib/base/error.hpp"
#include "lib/base/relax.hpp"

using namespace gravel;

namespace {

constexpr size_t largest = 64 << 10;

struct options {
  uint32_t repeat, in_flight;
  uint64_t packets;
};

enum class way { put, message };

/// One of the two processes. Both call the same functions in the same order; `first` sends, or begins.
class packet_end {
 public:
  packet_end(int socket, bool first, const options& o)
      : socket_(socket), first_(first), o_(o), landed_(o.in_flight) {
    worker_.on_am(
        plane_am,
        [](void* self, auto header, auto data) { static_cast<packet_end*>(self)->receive(header, data); },
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
                  "the other process", staging_);
  }
  /// To be called last: from here on the other end may be gone.
  void finish() {
    worker_.expect_disconnects();
    meet();
  }

  /// Seconds to send the packets; 0 at the other end. `look`: every byte is written and checked.
  double stream(way how, size_t bytes, uint64_t packets, bool look) {
    begin(bytes, look);
    const double start = seconds_now();
    if (first_) {
      for (uint64_t sequence = 0; sequence < packets; ++sequence) {
        until([&] { return sequence - freed_ < o_.in_flight; });
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
  std::vector<double> ping_pong(way how, size_t bytes, uint64_t rounds) {
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
    if (!look_) return code(size_t{0}), code(words - 1);
    for (size_t w = 0; w < words; ++w) code(w);
  }

  void send_packet(way how, uint64_t sequence) {
    const uint64_t at = sequence % o_.in_flight * largest;
    auto* words = reinterpret_cast<uint64_t*>(staging_area_.data() + at);
    each_word([&](size_t w) { words[w] = stamp(sequence, w); });
    const plane_header header{
        how == way::put ? plane_word::notice : plane_word::packet, 0, 0, 0, sequence, bytes_, 0};
    if (how == way::put)
      link_->put_and_notify(words, bytes_, 0, at, header);
    else
      link_->send(header, {reinterpret_cast<const std::byte*>(words), bytes_});
  }

  void receive(std::span<const std::byte> head, std::span<const std::byte> data) {
    plane_header header;
    std::memcpy(&header, head.data(), sizeof header);
    if (header.word == plane_word::credit) {
      freed_ = header.sequence;
      return;
    }
    const uint64_t slot = header.sequence % o_.in_flight;
    char* packet = landing_area_.data() + slot * largest;
    std::memcpy(packet, data.data(), data.size());  // a notice has none
    auto* words = reinterpret_cast<uint64_t*>(packet);
    each_word([&](size_t w) {
      if (words[w] != stamp(header.sequence, w)) fail("packet {} is damaged at word {}", header.sequence, w);
      std::memset(&words[w], static_cast<int>(poison), sizeof words[w]);
    });
    landed_[slot] = header.sequence + 1;
    // A short message may overtake a put: credits go by what has arrived without a gap.
    while (landed_[expected_ % o_.in_flight] == expected_ + 1) ++expected_;
    if (credits_) link_->send({plane_word::credit, 0, 0, 0, expected_, 0, 0}, {});
  }

  template <class F>
  void until(F&& ready) {
    for (relax wait; !ready();) worker_.progress() ? wait.reset() : wait.briefly();  // as a plane at work
  }
  /// Both are here, and nothing is under way.
  void meet() {
    char word = 0;
    if (send(socket_, &word, 1, MSG_NOSIGNAL) != 1) fail_errno("the other process");
    ssize_t got = -1;
    // Meanwhile the other may still wait for what only progress brings.
    until([&] { return (got = recv(socket_, &word, 1, MSG_DONTWAIT)) >= 0; });
    if (got == 0) fail("the other process has ended");
  }
  void begin(size_t bytes, bool look) {
    meet();
    bytes_ = bytes;
    look_ = look;
    credits_ = false;
    freed_ = expected_ = 0;
    std::fill(landed_.begin(), landed_.end(), 0);
    meet();  // not before both have forgotten the last run
  }

  int socket_;
  bool first_;
  options o_;
  ucx_context context_{1};
  bench_memory staging_area_{o_.in_flight * largest}, landing_area_{o_.in_flight * largest};
  ucx_memory staging_{context_, staging_area_.data(), staging_area_.size()};
  ucx_memory landing_{context_, landing_area_.data(), landing_area_.size()};
  ucx_worker worker_{context_};
  std::optional<ucx_link> link_;

  size_t bytes_ = 0;
  bool look_ = false, credits_ = false;
  std::vector<uint64_t> landed_;  ///< by slot: sequence + 1 of what lies there
  uint64_t expected_ = 0;         ///< all packets below have arrived
  uint64_t freed_ = 0;            ///< all packets below have arrived at the other end
};

struct result {
  double gb_per_s, p50_us, p99_us;
};

result measure(packet_end& end, way how, size_t bytes, const options& o) {
  end.stream(how, bytes, o.in_flight * 8, true);
  std::vector<double> seconds;
  for (uint32_t i = 0; i < o.repeat; ++i) seconds.push_back(end.stream(how, bytes, o.packets, false));
  std::nth_element(seconds.begin(), seconds.begin() + o.repeat / 2, seconds.end());
  const std::vector<double> halves = end.ping_pong(how, bytes, o.packets);
  return {static_cast<double>(o.packets * bytes) / seconds[o.repeat / 2] / 1e9,
          halves[halves.size() / 2] * 1e6, halves[halves.size() * 99 / 100] * 1e6};
}

}  // namespace

int main(int argc, char** argv) {
  install_terminate_handler();
  bench b("packet", "Packets between two processes over UCX.",
          {{"transport", "transport"},
           {"way", "way"},
           {"packet_kib", "packet KiB"},
           {"gb_per_s", "GB/s"},
           {"half_round_trip_p50_us", "1/2 rtt p50 us"},
           {"half_round_trip_p99_us", "p99 us"},
           {"memcpy_gb_per_s", "memcpy GB/s"},
           {"ratio", "ratio"}});
  options o{0, 3, 10'000};
  const char* chosen = std::getenv("UCX_TLS");
  std::vector<std::string> transports =
      chosen ? std::vector<std::string>{chosen} : std::vector<std::string>{"shm", "tcp"};
  std::vector<uint32_t> packet_kib{1, 2, 4, 8, 16, 32, 64};
  b.app.add_option("--packets", o.packets, "packets of a run")
      ->check(CLI::Range(uint64_t{10}, uint64_t{1} << 34))
      ->capture_default_str();
  b.app.add_option("--in-flight", o.in_flight, "packets in flight (GRAVEL_PACKETS_PER_DESTINATION)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  b.app.add_option("--sizes", packet_kib, "sizes of packets (KiB)")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  b.app.add_option("--tls", transports, "values of UCX_TLS, each measured; give the option once for each")
      ->capture_default_str();
  b.parse(argc, argv);
  o.repeat = b.repeat;

  const auto run = [&](int socket, bool first, const std::string& transport) {
    setenv("UCX_TLS", transport.c_str(), 1);
    packet_end end(socket, first, o);
    for (way how : {way::put, way::message})
      for (uint32_t kib : packet_kib) {
        const size_t bytes = kib * 1024;
        const result r = measure(end, how, bytes, o);
        if (!first) continue;
        const double limit = memcpy_rate(o.in_flight * bytes, o.in_flight * bytes, bytes) / 1e9;
        b.row({transport, how == way::put ? "put" : "message", kib, r.gb_per_s, r.p50_us, r.p99_us, limit,
               r.gb_per_s / limit});
      }
    end.finish();
  };

  // The second processes are made before this one has touched UCX, which does not survive a fork.
  std::fflush(stdout);
  std::vector<std::pair<int, pid_t>> others;
  for (const std::string& transport : transports) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail_errno("socketpair");
    const pid_t child = fork();
    if (child < 0) fail_errno("fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(ends[1], false, transport);
      std::_Exit(0);
    }
    close(ends[1]);
    others.emplace_back(ends[0], child);
  }
  for (size_t i = 0; i < transports.size(); ++i) {
    run(others[i].first, true, transports[i]);
    int status = 0;
    if (waitpid(others[i].second, &status, 0) < 0 || status != 0)
      fail("the other process failed over {}", transports[i]);
  }
  b.finish();
}
