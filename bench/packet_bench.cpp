// From packet to packet: two processes, each with a worker and a link as an aggregator's plane has them
// (host/aggregator/ucx_link.hpp). A packet goes as a put with its notice, or inside an active message; bandwidth with a
// few packets in flight, and the half round trip of one. Every packet is stamped and checked; the packets of
// a first round, which is not timed, are checked to the last byte.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/packet_end.hpp"

using namespace gravel_bench;
using namespace gravel::detail;

namespace {

struct result {
  double gb_per_s, p50_us, p99_us;
};

result measure(const bench& b, packet_end& end, packet_way how, size_t bytes, uint64_t packets) {
  end.stream(how, bytes, std::min<uint64_t>(packets, 100), true);
  const double seconds = b.median_of([&] { return end.stream(how, bytes, packets, false); });
  const std::vector<double> halves = end.ping_pong(how, bytes, packets);
  return {static_cast<double>(packets * bytes) / seconds / 1e9, halves[halves.size() / 2] * 1e6,
          halves[halves.size() * 99 / 100] * 1e6};
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
  uint64_t packets = 10'000;
  uint32_t in_flight = 3;
  const char* chosen = std::getenv("UCX_TLS");
  std::vector<std::string> transports =
      chosen ? std::vector<std::string>{chosen} : std::vector<std::string>{"shm", "tcp"};
  std::vector<uint32_t> packet_kib{1, 2, 4, 8, 16, 32, 64};
  b.app.add_option("--packets", packets, "packets of a run")
      .range(uint64_t{10}, uint64_t{1} << 34)
      .capture_default_str();
  b.app.add_option("--in-flight", in_flight, "packets in flight (GRAVEL_PACKETS_PER_DESTINATION)")
      .range(1, 1024)
      .capture_default_str();
  b.app.add_option("--sizes", packet_kib, "sizes of packets (KiB)").delimiter(',').range(1, 64).capture_default_str();
  b.app.add_option("--tls", transports, "values of UCX_TLS, each measured; give the option once for each")
      .capture_default_str();
  b.parse(argc, argv);

  const auto run = [&](int socket, bool first, const std::string& transport) {
    setenv("UCX_TLS", transport.c_str(), 1);
    packet_end end(socket, first, in_flight);
    for (packet_way how : {packet_way::put, packet_way::message})
      for (uint32_t kib : packet_kib) {
        const size_t bytes = kib * 1024;
        const result r = measure(b, end, how, bytes, packets);
        if (!first) continue;
        const double limit = memcpy_rate(in_flight * bytes, in_flight * bytes, bytes) / 1e9;
        b.row({transport, how == packet_way::put ? "put" : "message", kib, r.gb_per_s, r.p50_us, r.p99_us, limit,
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
