// Links and routers in a job: every byte comes once and in order, for packets that do not divide a segment, for one to three buffers, between all pairs of PEs, by
// hosts, by streams and by kernels; routers of all policies; ends with full buffers; what cannot be is refused, or ends the job with a message (arguments of this
// program). One source for the CPU backend and for GPUs.
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/mix.hpp"
#include "lib/link/link.cuh"
#include "test/expect.hpp"

using namespace gravel;

namespace {

int me, n;

/// Byte i of what a source sends as its segment `number`.
GRAVEL_BOTH unsigned char byte_of(uint64_t source, uint64_t number, uint64_t i) {
  return static_cast<unsigned char>(mix(source << 40 ^ number << 24 ^ i));
}
/// Memory of the device that is no symmetric one.
class device_bytes {
 public:
  explicit device_bytes(uint64_t bytes) : at_(static_cast<char*>(current_backend().allocate(bytes ? bytes : 1, "a test"))) {}
  ~device_bytes() { current_backend().release(at_); }
  device_bytes(const device_bytes&) = delete;
  device_bytes& operator=(const device_bytes&) = delete;
  char* get() const { return at_; }

 private:
  char* at_;
};
std::vector<unsigned char> bytes_of(uint64_t source, uint64_t number, uint64_t bytes) {
  std::vector<unsigned char> all(bytes);
  for (uint64_t i = 0; i < bytes; ++i) all[i] = byte_of(source, number, i);
  return all;
}

/// What a receiver has seen of a source, byte by byte.
struct reading {
  uint64_t number = 0, at = 0, wrong = 0, packets = 0;
  void take(uint64_t source, const unsigned char* data, const gravel_segment& s, const std::vector<uint64_t>& sizes) {
    ++packets;
    if (number >= sizes.size()) {
      ++wrong;
      return;
    }
    for (uint64_t i = 0; i < s.bytes; ++i) wrong += data[i] != byte_of(source, number, at + i);
    wrong += s.metadata != (number % 3 ? number : 0);
    at += s.bytes;
    wrong += s.is_last != (at == sizes[number]);
    if (s.is_last) ++number, at = 0;
  }
};
std::vector<unsigned char> copied(const gravel_segment& s) {
  std::vector<unsigned char> data(s.bytes);
  if (s.bytes) gravel_copy(data.data(), s.data, s.bytes);
  return data;
}

/// Segments from one endpoint to another, by hosts.
void by_hosts(const gravel_endpoint& source, const gravel_endpoint& destination, uint32_t packet_bytes, uint32_t buffers) {
  const std::vector<uint64_t> sizes{0, 1, packet_bytes, 3ull * packet_bytes + 5, 7, packet_bytes * 2ull, 2ull * packet_bytes - 1};
  const std::string what = text_of(source, destination) + ", " + std::to_string(buffers) + " buffers of " + std::to_string(packet_bytes);
  std::vector<std::unique_ptr<device_bytes>> sent;  // freed behind the link, which waits until all has left
  gravel_link link(source, destination, packet_bytes, buffers);
  if (source.pe == me) {
    for (uint64_t i = 0; i < sizes.size(); ++i) {
      const auto all = bytes_of(static_cast<uint64_t>(source.pe), i, sizes[i]);
      if (source.kind == gravel_endpoint::host) {
        auto gone = all;
        link.send(gone.data(), gone.size(), {.metadata = i % 3 ? i : 0});
        std::fill(gone.begin(), gone.end(), 0);  // it may be reused
        continue;
      }
      sent.push_back(std::make_unique<device_bytes>(sizes[i]));
      if (!all.empty()) gravel_copy(sent.back()->get(), all.data(), all.size());
      link.send(sent.back()->get(), sizes[i], {.metadata = i % 3 ? i : 0});
    }
    link.shutdown();
    expect_error("was shut down", [&] { link.send(nullptr, 0); });
    expect_error("was shut down before", [&] { link.shutdown(); });
  }
  if (destination.pe == me) {
    reading r;
    for (;;) {
      const gravel_segment s = link.receive().get();
      if (s.empty()) break;
      if (destination.kind == gravel_endpoint::host)
        r.take(static_cast<uint64_t>(source.pe), reinterpret_cast<const unsigned char*>(s.data), s, sizes);
      else r.take(static_cast<uint64_t>(source.pe), copied(s).data(), s, sizes);
      link.release(s);
    }
    expect(r.wrong == 0 && r.number == sizes.size(), what + ": " + std::to_string(r.wrong) + " wrong, " + std::to_string(r.number) + " of " +
                                                         std::to_string(sizes.size()) + " segments came");
  }
}

}  // namespace

int main() {
  gravel_init<>();
  me = gravel_my_pe(), n = gravel_n_pes();
  for (const uint32_t buffers : {1u, 2u, 3u})
    for (const uint32_t packet_bytes : {48u, 1000u, 5000u}) by_hosts(gravel_device(0), gravel_device(n - 1, 1), packet_bytes, buffers);
  const bool right = gravel_sum_all(uint64_t{failures != 0}) == 0;
  if (right && me == 0) std::printf("ok\n");
  gravel_finalize();
  return right ? 0 : 1;
}
