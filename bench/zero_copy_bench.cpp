// From slots into the memory of another node (host/aggregator/outbound.hpp): packets of pieces that lie in slots are
// gathered in staging memory and put as one, or each piece is put from where it lies. Both ends are links of one
// thread. Its processor time is measured: the work of an aggregator's threads for these bytes at both ends, independent
// of other load of the machine. GRAVEL_ZERO_COPY_SIZE should be where the two cross.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "bench/bench.hpp"
#include "host/aggregator/ucx_link.hpp"
#include "lib/base/error.hpp"

using namespace gravel_bench;
using namespace gravel::detail;

namespace {

constexpr size_t packet = 64 << 10, line = 64;  ///< line: header and table of a packet, which are never in a slot

/// The beginning of a segment: what UCX shares with the other end, if it has shared memory.
struct landing_file {
  explicit landing_file(size_t bytes) : bytes(bytes) {
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) fail_errno("ftruncate");
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail_errno("mmap");
    data = static_cast<char*>(at);
  }
  ~landing_file() {
    munmap(data, bytes);
    close(file);
  }
  landing_file(const landing_file&) = delete;
  int file = memfd_create("zero_copy_bench", MFD_CLOEXEC);
  size_t bytes;
  char* data;
};

class two_ends {
 public:
  explicit two_ends(uint64_t in_flight) : in_flight_(in_flight) {
    there_.on_am(
        plane_am, [](void* self, auto header, auto) { static_cast<two_ends*>(self)->notice(header); }, this);
    for (ucx_worker* w : {&here_, &there_}) w->on_error([](const std::string& text) { fail_text(text); });
    for (size_t i = 0; i < slots_area_.size(); ++i) slots_area_.data()[i] = static_cast<char>(i * 2654435761u >> 13);
  }

  /// GB a second of processor time. `check`: each byte that arrives is compared.
  double run(size_t piece, bool copies, uint64_t packets, bool check) {
    check_ = check;
    from_.assign(in_flight_, nullptr);
    arrived_ = 0;
    const double begin = thread_seconds();
    for (uint64_t sequence = 0; sequence < packets; ++sequence) {
      until(sequence < in_flight_ ? 0 : sequence + 1 - in_flight_);
      send(sequence, piece, copies);
    }
    until(packets);
    const double seconds = thread_seconds() - begin;
    while (puts_ != 0) {
      here_.progress();
      there_.progress();
    }
    return static_cast<double>(packets * packet) / seconds / 1e9;
  }

 private:
  void send(uint64_t sequence, size_t piece, bool copies) {
    // A slot is read long after it was written: it is not in the cache.
    at_ = at_ + packet == slots_area_.size() ? 0 : at_ + packet;
    const char* const slots = from_[sequence % in_flight_] = slots_area_.data() + at_;
    const uint64_t to = sequence % in_flight_ * packet;
    char* const staged = staging_area_.data() + to;
    std::memcpy(staged, slots, line);
    for (size_t i = line; i < packet; i += piece) {
      const size_t n = std::min(piece, packet - i);
      if (copies) {
        std::memcpy(staged + i, slots + i, n);
      } else {
        ++puts_;
        link_.put(slots + i, n, 0, to + i, &puts_);
      }
    }
    link_.put_and_notify(staged, copies ? packet : line, 0, to, {plane_message::notice, 0, 0, 0, sequence, packet, 0});
  }
  void notice(std::span<const std::byte> raw) {
    plane_header header;
    std::memcpy(&header, raw.data(), sizeof(header));
    const uint64_t slot = header.sequence % in_flight_;
    if (check_ && std::memcmp(landing_area_.data + slot * packet, from_[slot], packet) != 0)
      fail("packet {} is damaged", header.sequence);
    ++arrived_;
  }
  void until(uint64_t arrived) {
    while (arrived_ < arrived) {
      here_.progress();
      there_.progress();
    }
  }

  uint64_t in_flight_;
  bench_memory slots_area_{64 << 20}, staging_area_{in_flight_ * packet};
  landing_file landing_area_{in_flight_ * packet};
  ucx_context context_{2};
  ucx_memory slots_{context_, slots_area_.data(), slots_area_.size()},
      staging_{context_, staging_area_.data(), staging_area_.size()},
      landing_{context_, landing_area_.file, landing_area_.data, landing_area_.bytes};
  ucx_worker here_{context_}, there_{context_};
  ucx_endpoint back_{there_, here_.address(), "this end"};
  ucx_link link_{here_, there_.address(), {landing_.packed_key()}, "the other end", {&staging_, &slots_}};
  bool check_ = false;
  size_t at_ = 0;
  uint64_t arrived_ = 0;
  uint32_t puts_ = 0;  ///< of pieces, under way
  std::vector<const char*> from_;
};

}  // namespace

int main(int argc, char** argv) {
  install_terminate_handler();
  bench b("zero_copy",
          "Pieces of packets from slots to another node: copied into staging memory, or put from where they lie.",
          {{"transport", "transport"},
           {"piece_bytes", "pieces of"},
           {"copied_gb_per_s", "copied GB/s"},
           {"put_gb_per_s", "put GB/s"},
           {"ratio", "put / copied"}});
  uint64_t packets = 1500, in_flight = 3;
  std::vector<uint32_t> pieces{512, 1024, 2048, 4096, 8192, 16384, 65536};
  b.app.add_option("--packets", packets, "packets of a run")
      .range(uint64_t{10}, uint64_t{1} << 34)
      .capture_default_str();
  b.app.add_option("--in-flight", in_flight, "packets in flight (GRAVEL_PACKETS_PER_DESTINATION)")
      .range(1, 1024)
      .capture_default_str();
  b.app.add_option("--pieces", pieces, "bytes of the pieces").delimiter(',').range(64, 1 << 16).capture_default_str();
  b.parse(argc, argv);

  setenv("UCX_TLS", "posix", 0);
  two_ends ends(in_flight);
  for (uint32_t piece : pieces) {
    for (bool copies : {true, false}) ends.run(piece, copies, 100, true);
    // In turns, so that both run on the machine in the same state.
    std::vector<double> rate[2];
    for (uint32_t i = 0; i < b.repeat; ++i)
      for (bool copies : {true, false}) rate[copies].push_back(ends.run(piece, copies, packets, false));
    for (auto& r : rate) std::nth_element(r.begin(), r.begin() + b.repeat / 2, r.end());
    const double copied = rate[true][b.repeat / 2], put = rate[false][b.repeat / 2];
    b.row({std::getenv("UCX_TLS"), piece, copied, put, put / copied});
  }
  b.finish();
}
