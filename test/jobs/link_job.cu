// Links and routers in a job: every byte comes once and in order, for packets that do not divide a segment, for one to
// three buffers, between all pairs of PEs, by hosts, by streams and by kernels; routers of all policies; ends with full
// buffers; what cannot be is refused, or ends the job with a message (arguments of this program). One source for the
// CPU backend and for GPUs.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/base/mix.hpp"
#include "lib/gravel/device_array.hpp"
#include "lib/link/link.cuh"
#include "test/support/expect.hpp"

using namespace gravel::detail;

namespace {

int me, n;

/// Byte i of what a source sends as its segment `number`.
GRAVEL_BOTH unsigned char byte_of(uint64_t source, uint64_t number, uint64_t i) {
  return static_cast<unsigned char>(mix(source << 40 ^ number << 24 ^ i));
}
/// Memory of the device that is no symmetric one.
class device_bytes {
 public:
  explicit device_bytes(uint64_t bytes)
      : at_(static_cast<char*>(current_backend().allocate(bytes ? bytes : 1, "a test"))) {}
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

/// The bytes that a receiver has seen of a source.
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
    if (s.is_last) {
      ++number;
      at = 0;
    }
  }
};
std::vector<unsigned char> copied(const gravel_segment& s) {
  std::vector<unsigned char> data(s.bytes);
  if (s.bytes) gravel_copy(data.data(), s.data, s.bytes);
  return data;
}

/// Segments from one endpoint to another, by hosts.
void by_hosts(const gravel_endpoint& source, const gravel_endpoint& destination, uint32_t packet_bytes,
              uint32_t buffers) {
  const std::vector<uint64_t> sizes{
      0, 1, packet_bytes, 3ull * packet_bytes + 5, 7, packet_bytes * 2ull, 2ull * packet_bytes - 1};
  const std::string what =
      text_of(source, destination) + ", " + std::to_string(buffers) + " buffers of " + std::to_string(packet_bytes);
  std::vector<std::unique_ptr<device_bytes>> sent;  // freed after the link, which waits until all has left
  // Large packets by a copy engine, where that can be, with some by kernels between them.
  gravel_link link(source, destination, {.packet_bytes = packet_bytes, .buffers = buffers, .copies_from = 500});
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
  if (destination.pe != me && buffers == 2)
    expect_error("gravel_link: PE " + std::to_string(me) + " has no output here; there is " + text_of(destination),
                 [&] { link.receive(); });
  if (destination.pe == me) {
    reading r;
    for (;;) {
      const gravel_pending_segment next = link.receive();
      const gravel_segment s = next.get();
      if (buffers == 2) expect_error("was taken before", [&] { next.get(); });
      if (s.empty()) break;
      if (destination.kind == gravel_endpoint::host)
        r.take(static_cast<uint64_t>(source.pe), reinterpret_cast<const unsigned char*>(s.data), s, sizes);
      else r.take(static_cast<uint64_t>(source.pe), copied(s).data(), s, sizes);
      link.release(s);
      if (buffers == 2) expect_error("was released before, or is none of the link from", [&] { link.release(s); });
    }
    expect(r.wrong == 0 && r.number == sizes.size(), what + ": " + std::to_string(r.wrong) + " wrong, " +
                                                         std::to_string(r.number) + " of " +
                                                         std::to_string(sizes.size()) + " segments came");
  }
}

/// Reads a packet many times. Adds the reads that see another number.
__global__ void reread_packet(const uint64_t* packet, uint64_t number, uint64_t* wrong) {
  for (int i = 0; i < 5000; ++i) *wrong += gravel::load_relaxed<gravel::scope::device>(packet) != number;
}
/// A release without a stream follows kernels that were launched without one.
void release_behind_kernels() {
  constexpr uint64_t packets = 30;
  device_array<uint64_t> numbers(packets), wrong(std::vector<uint64_t>(1));
  gravel_link link(gravel_device(0), gravel_device(n - 1, 1), sizeof(uint64_t), 1);
  if (me == 0) {
    std::vector<uint64_t> all(packets);
    std::iota(all.begin(), all.end(), 0);
    gravel_copy(numbers.data(), all.data(), packets * sizeof(uint64_t));
    for (uint64_t i = 0; i < packets; ++i) link.send(numbers.data() + i, sizeof(uint64_t));
    link.shutdown();
  }
  if (me != n - 1) return;
  for (uint64_t number = 0; number < packets; ++number) {
    const gravel_segment s = link.receive().get();
    gravel_launch(reread_packet, gravel_launch_config{.grid = 1, .block = 1}, reinterpret_cast<const uint64_t*>(s.data),
                  number, wrong.data());
    link.release(s);
  }
  gravel_synchronize();
  uint64_t found = 0;
  gravel_copy(&found, wrong.data(), sizeof(found));
  expect(found == 0, "packets changed while a kernel read them: " + std::to_string(found) + " reads");
}

/// Adds what is wrong in a packet; each of the grid's blocks has a part.
__global__ void check_packet(gravel_arrival a, uint64_t source, uint64_t number, uint64_t* wrong) {
  const gravel_packet p = gravel_receive(a);
  uint64_t bad = !p.has_come + (p.metadata != number + 1);
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.bytes; i += uint64_t{gridDim.x} * blockDim.x)
    bad += static_cast<unsigned char>(p.data[i]) != byte_of(source, number, i);
  if (bad) fetch_add<scope::device>(wrong, bad);
}
__global__ void fill_bytes(char* to, uint64_t bytes, uint64_t source, uint64_t number) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += uint64_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<char>(byte_of(source, number, i));
}
/// Segments of one packet each. Work in streams makes, sends, receives, reads and releases them; the hosts check
/// nothing in between.
void by_streams(uint32_t buffers) {
  constexpr uint64_t segments = 7, bytes = 1500;
  device_bytes memory(segments * bytes);
  auto* const wrong = gravel_malloc<uint64_t>(sizeof(uint64_t));
  {
    gravel_link link(gravel_device(n - 1), gravel_device(0, 1), 1500, buffers);
    const gravel_stream_t makes = gravel_stream_create(), reads = gravel_stream_create();
    gravel_event sent;
    if (me == n - 1)
      for (uint64_t i = 0; i < segments; ++i) {
        gravel_launch(fill_bytes, gravel_launch_config{.grid = 2, .block = 32, .stream = makes},
                      memory.get() + i * bytes, bytes, static_cast<uint64_t>(me), i);
        sent = link.send(memory.get() + i * bytes, bytes, {.metadata = i + 1, .stream = makes});
      }
    if (me == 0)
      for (uint64_t i = 0; i < segments; ++i) {
        const gravel_pending_segment next = link.receive();
        if (i % 2) next.wait(reads);  // otherwise the kernel waits
        gravel_launch(check_packet, gravel_launch_config{.grid = 2, .block = 32, .stream = reads, .cooperative = true},
                      next.handle(), static_cast<uint64_t>(n - 1), i, wrong);
        link.release(next.get(), reads);
      }
    gravel_wait(sent);
    expect(gravel_has_happened(sent), "an event that was waited for has not happened");
    gravel_stream_destroy(makes);
    gravel_stream_destroy(reads);
  }
  uint64_t bad = 0;
  gravel_copy(&bad, wrong, sizeof(bad));
  expect(bad == 0, "by streams, " + std::to_string(buffers) + " buffers: " + std::to_string(bad) + " wrong");
  gravel_free(wrong);
}

__global__ void wait_then_copy(gravel_t g, gravel_event e, uint64_t* to, const uint64_t* from) {
  gravel_wait(g, e);
  *to = *from;
}
__global__ void store_word(uint64_t* to, uint64_t value) { *to = value; }
/// A sent buffer may be reused when the host, a stream or a kernel has waited for the event. A segment is read when the
/// event that it waits for has happened.
void events() {
  constexpr uint64_t sends = 3;
  device_bytes memory(2 * sizeof(uint64_t));
  auto* const word = reinterpret_cast<uint64_t*>(memory.get());
  const gravel_stream_t makes = gravel_stream_create(), late = gravel_stream_create();
  for (const uint32_t copies_from : {gravel_no_copies, 1u}) {
    gravel_link link(gravel_device(0), gravel_device(n - 1, 1),
                     {.packet_bytes = 8, .buffers = 3, .copies_from = copies_from});
    auto* const flag = gravel_malloc<uint64_t>(sizeof(uint64_t));
    if (me == 0) {
      // In a stream of its own: only the event keeps it from reading before `late` has stored.
      const gravel_event stored{flag, 1};
      const gravel_event first = link.send(word, 8, {.after = stored});
      expect(!gravel_has_happened(first), "a segment was sent before what it waits for");
      gravel_launch(store_word, gravel_launch_config{.grid = 1, .block = 1, .stream = late}, word, uint64_t{71});
      gravel_launch(raise_event_in_stream<>, gravel_launch_config{.grid = 1, .block = 1, .stream = late}, stored);
      gravel_wait(first, makes);  // a stream
      gravel_launch(store_word, gravel_launch_config{.grid = 1, .block = 1, .stream = makes}, word, uint64_t{72});
      const gravel_event second = link.send(word, 8, {.stream = makes});
      gravel_launch(wait_then_copy, gravel_launch_config{.grid = 1, .block = 1, .stream = late}, gravel_handle(),
                    second, word + 1, word);
      gravel_stream_synchronize(late);
      uint64_t seen = 0;
      gravel_copy(&seen, word + 1, sizeof(seen));
      expect(seen == 72, "a kernel waits for an event: it saw " + std::to_string(seen));
      gravel_wait(second);  // the host
      const uint64_t third = 73;
      gravel_copy(word, &third, sizeof(third));
      gravel_wait(link.send(word, 8));
    }
    for (uint64_t i = 0; me == n - 1 && i < sends; ++i) {
      const gravel_segment s = link.receive().get();
      const auto data = copied(s);
      uint64_t value = 0;
      std::memcpy(&value, data.data(), std::min<size_t>(data.size(), 8));
      expect(value == 71 + i, "segment " + std::to_string(i) + " of events: " + std::to_string(value));
      link.release(s);
    }
    gravel_free(flag);
  }
  gravel_stream_destroy(makes);
  gravel_stream_destroy(late);
}

constexpr uint64_t kernel_bytes = 2500;
/// Blocks send on their lanes, each segments of its own; the memory of one is reused for the next.
__global__ void send_by_blocks(gravel_link_handle h, char* memory, uint64_t segments, bool ends) {
  char* const mine = memory + blockIdx.x * kernel_bytes;
  gravel_packet_sender sender(h, blockIdx.x);
  for (uint64_t number = 0; number < segments; ++number) {
    const uint64_t bytes = mix(number) % kernel_bytes;
    for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
      mine[i] = static_cast<char>(byte_of(blockIdx.x, number, i));
    __syncthreads();
    sender.send(mine, bytes, number % 2 ? number : 0);
  }
  if (ends) sender.shutdown();
}
__global__ void receive_by_blocks(gravel_link_handle h, uint64_t segments, bool ends, uint64_t* wrong) {
  gravel_packet_receiver receiver(h, blockIdx.x);
  uint64_t bad = 0;
  for (uint64_t number = 0; number < segments; ++number)
    for (uint64_t at = 0;;) {
      const gravel_packet p = receiver.receive();
      for (uint64_t i = threadIdx.x; i < p.bytes; i += blockDim.x)
        bad += static_cast<unsigned char>(p.data[i]) != byte_of(blockIdx.x, number, at + i);
      bad += p.metadata != (number % 2 ? number : 0);
      at += p.bytes;
      const bool is_last = p.is_last || !p.has_come;
      if (is_last) bad += at != mix(number) % kernel_bytes;
      receiver.release(p);
      if (is_last) break;
    }
  if (ends) bad += receiver.receive().has_come;
  if (bad) fetch_add<scope::device>(wrong, bad);
}
/// The words of a lane are as if `packets` packets had gone over it, and had been read.
__global__ void as_if_used(gravel_link_handle h, uint64_t packets, bool at_source, bool at_destination) {
  const packet_ring& r = h.rings[blockIdx.x];
  if (at_source) r.origin()->sent = packets;
  if (at_destination) r.sink()->taken = packets;
  for (uint64_t number = packets - r.buffers; number < packets; ++number) {
    if (at_source) r.credit(number)->freed = number + 1;
    if (at_destination) r.arrival(number)->word = packet_word::make(number, 5, true, false, false).value;
  }
}
void packet_words() {
  constexpr uint64_t wrap = 1ull << 32;
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, wrap - 3, wrap - 2, wrap - 1, wrap, wrap + 1, 2 * wrap - 1, 5 * wrap})
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, packet_word::most_bytes})
      for (uint32_t flags = 0; flags < 8; ++flags) {
        const packet_word word = packet_word::make(number, bytes, flags & 1, flags & 2, flags & 4);
        bool right = word.is_of(number) && word.bytes() == bytes && word.is_last() == !!(flags & 1) &&
                     word.has_metadata() == !!(flags & 2) && word.is_counted() == !!(flags & 4) && word.value != 0;
        for (uint64_t far = 1; far <= ring_set::most_buffers; ++far)
          right &= !word.is_of(number + far) && (number < far || !word.is_of(number - far));
        expect(right, "the word of packet " + std::to_string(number));
      }
  expect(!packet_word{}.is_of(wrap - 1) && !packet_word{}.is_of(0), "no word is a packet's");
}
void by_kernels(uint32_t buffers, uint64_t packets_before = 0) {
  const uint32_t lanes = 3;
  const uint64_t segments = 6;
  device_bytes memory(lanes * kernel_bytes);
  auto* const wrong = gravel_malloc<uint64_t>(sizeof(uint64_t));
  {
    gravel_link link(gravel_device(0), gravel_device(n - 1, 7),
                     {.packet_bytes = 700, .buffers = buffers, .lanes = lanes});
    const gravel_stream_t other = gravel_stream_create();
    if (packets_before) {
      gravel_launch(as_if_used, lanes, 1, link.handle(), packets_before, me == 0, me == n - 1);
      gravel_barrier_all();
    }
    for (const bool ends : {false, true}) {  // the second kernels go on where the first ended
      if (me == 0)
        gravel_launch(send_by_blocks, gravel_launch_config{.grid = lanes, .block = 32, .cooperative = true},
                      link.handle(), memory.get(), segments, ends);
      if (me == n - 1)
        gravel_launch(receive_by_blocks,
                      gravel_launch_config{.grid = lanes, .block = 32, .stream = other, .cooperative = true},
                      link.handle(), segments, ends, wrong);
    }
    gravel_stream_synchronize(other);
    gravel_synchronize();
    gravel_stream_destroy(other);
  }
  uint64_t bad = 0;
  gravel_copy(&bad, wrong, sizeof(bad));
  expect(bad == 0, "by kernels, " + std::to_string(buffers) + " buffers, after " + std::to_string(packets_before) +
                       " packets: " + std::to_string(bad) + " wrong");
  gravel_free(wrong);
}

/// A source that has long ended, and a destination that only then begins; one that stops in the middle; one that never
/// looks.
void ends(uint32_t buffers) {
  device_bytes memory(10 * 100);
  gravel_launch(fill_bytes, 1, 32, memory.get(), uint64_t{1000}, uint64_t{5}, uint64_t{0});
  gravel_synchronize();
  for (const uint64_t reads : {10, 3, 0}) {
    gravel_link link(gravel_device(0), gravel_device(n - 1, 1), 100, buffers);
    if (me == 0) {
      link.send(memory.get(), 1000);
      if (reads == 10) link.shutdown();
    }
    gravel_sum_all(uint64_t{0});
    if (me != n - 1) continue;
    std::vector<gravel_segment> held;
    uint64_t wrong = 0, came = 0;
    for (uint64_t i = 0; i < reads; ++i) {
      held.push_back(link.receive().get());
      const auto data = copied(held.back());
      came += data.size();
      for (uint64_t k = 0; k < data.size(); ++k) wrong += data[k] != byte_of(5, 0, i * 112 + k);
      if (held.size() < buffers && i + 1 < reads) continue;  // all buffers are held, and go back in another order
      for (auto s = held.rbegin(); s != held.rend(); ++s) link.release(*s);
      held.clear();
    }
    if (reads == 10) {
      // 1000 bytes are 9 packets of 112, which is 100 rounded up: the tenth is the end, and so is what comes behind.
      expect(link.receive().get().empty(), "there is something behind the end");
      expect(came == 1000, "full buffers: " + std::to_string(came) + " bytes came");
    }
    expect(wrong == 0, "full buffers: " + std::to_string(wrong) + " bytes are wrong");
    if (reads == 3) {
      std::vector<gravel_pending_segment> pending;
      for (uint32_t i = 0; i < buffers; ++i) pending.push_back(link.receive());
      expect_error("there are no more buffers", [&] { link.receive(); });
    }
  }
}

/// Segments of words through a router, from its inputs to its outputs: how often each word comes where.
struct routed {
  std::vector<uint32_t> here;     ///< [input][word]
  std::vector<uint64_t> packets;  ///< by input
  uint64_t wrong = 0;
};
constexpr uint64_t routed_words = 900, routed_segments = 3;
using router_list = std::vector<std::unique_ptr<gravel_router>>;
/// Sends into some routers and receives from others, which they feed. Input i, of all, sends words
/// i << 32 | segment << 16 | place. `is_whole`: what comes to an output from one place comes in whole segments. A
/// router of both lists that feeds others has one output more, the last, for the program.
routed through(const std::vector<gravel_router*>& into, const std::vector<gravel_router*>& from, bool is_whole) {
  size_t n_inputs = 0;
  for (const gravel_router* router : into) n_inputs += router->inputs().size();
  routed r{std::vector<uint32_t>(n_inputs * routed_segments * routed_words), std::vector<uint64_t>(n_inputs), 0};
  std::vector<std::vector<uint64_t>> words;
  std::vector<std::unique_ptr<device_bytes>> memory;
  std::vector<std::pair<gravel_router*, size_t>> inputs;
  for (gravel_router* router : into)
    for (size_t i = 0; i < router->inputs().size(); ++i) inputs.emplace_back(router, i);
  for (size_t i = 0; i < n_inputs; ++i) {
    gravel_router& router = *inputs[i].first;
    if (router.inputs()[inputs[i].second].pe != me) continue;
    gravel_sender& sender = router.input(static_cast<int>(inputs[i].second));
    for (uint64_t segment = 0; segment < routed_segments; ++segment) {
      words.emplace_back(routed_words);
      for (uint64_t k = 0; k < routed_words; ++k) words.back()[k] = i << 32 | segment << 16 | k;
      memory.push_back(std::make_unique<device_bytes>(routed_words * 8));
      gravel_copy(memory.back()->get(), words.back().data(), routed_words * 8);
      sender.send(memory.back()->get(), routed_words * 8, {.metadata = segment + 1});
    }
    sender.shutdown();
  }
  // All outputs of this PE in turn: none may keep the others waiting.
  std::vector<gravel_receiver*> open;
  std::vector<gravel_pending_segment> pending;
  const bool is_same = into == from;
  for (gravel_router* router : from)
    for (size_t o = !is_same && router == into[0] ? router->outputs().size() - 1 : 0; o < router->outputs().size(); ++o)
      if (router->outputs()[o].pe == me) {
        open.push_back(&router->output(static_cast<int>(o)));
        pending.push_back(open.back()->receive());
      }
  std::vector<uint64_t> last(n_inputs);
  std::vector<std::map<size_t, uint64_t>> begun(open.size());  // [output][source] what has come in part, + 1
  for (size_t left = open.size(), at = 0; left; ++at) {
    const size_t o = at % open.size();
    if (!open[o] || !pending[o].is_ready()) continue;
    const gravel_segment s = pending[o].get();
    const auto data = copied(s);
    open[o]->release(s);
    if (s.empty()) {
      open[o] = nullptr;
      --left;
      continue;
    }
    r.wrong += data.size() % 8 || data.empty();
    if (is_same) {
      ++r.packets[s.input];
      r.wrong += !(s.source == into[0]->inputs()[s.input]);
    }
    for (uint64_t k = 0; k + 8 <= data.size(); k += 8) {
      uint64_t word;
      std::memcpy(&word, data.data() + k, 8);
      const uint64_t input = word >> 32, segment = word >> 16 & 0xffff, place = word & 0xffff;
      if ((is_same && input != s.input) || input >= n_inputs || segment + 1 != s.metadata || place >= routed_words ||
          segment >= routed_segments) {
        ++r.wrong;
        continue;
      }
      ++r.here[(input * routed_segments + segment) * routed_words + place];
      if (is_whole && k + 8 == data.size()) {
        uint64_t& part = begun[o][s.input];
        r.wrong += s.is_last != (place + 1 == routed_words) || (part && part != (word >> 16) + 1);
        part = s.is_last ? 0 : (word >> 16) + 1;
      }
      // In order: of one source words only rise at one output.
      uint64_t& before = last[input];
      if (open.size() == 1 && (is_same || is_whole)) {
        r.wrong += segment * routed_words + place + 1 <= before;
        before = segment * routed_words + place + 1;
      }
    }
    pending[o] = open[o]->receive();
  }
  gravel_synchronize();
  gravel_sum_all(uint64_t{0});  // all that is sent has been read
  return r;
}
routed through(gravel_router& router) { return through({&router}, {&router}, false); }
void expect_times(const routed& r, const std::vector<uint32_t>& times_of_segments, const std::string& what) {
  uint64_t bad = r.wrong;
  std::vector<uint64_t> all(r.here.begin(), r.here.end());
  gravel_sum_all(all.data(), all.data(), all.size());
  for (uint64_t i = 0; i < all.size(); ++i) bad += all[i] != times_of_segments[i / routed_words % routed_segments];
  expect(bad == 0, what + ": " + std::to_string(bad) + " words came not so often as they should, or were wrong");
}
void expect_times(const routed& r, uint32_t times, const std::string& what) {
  expect_times(r, std::vector<uint32_t>(routed_segments, times), what);
}
void routers(uint32_t packet_bytes, uint32_t buffers) {
  const auto all = gravel_all_devices();
  const std::string sizes = ", " + std::to_string(buffers) + " buffers of " + std::to_string(packet_bytes);
  const auto outputs = static_cast<uint32_t>(all.size());
  // With two buffers by kernels alone.
  const gravel_link_options how{
      .packet_bytes = packet_bytes, .buffers = buffers, .copies_from = buffers == 2 ? gravel_no_copies : 1};
  {
    gravel_router router({gravel_device(0, 2), gravel_device(n - 1, 1)}, all, GRAVEL_BROADCAST, how);
    expect_times(through(router), outputs, "broadcast" + sizes);
  }
  {
    gravel_router router({gravel_device(0, 1)}, all, GRAVEL_SCATTER, how);
    expect_times(through(router), 1, "scatter" + sizes);
  }
  {
    gravel_link_options shares = how;
    shares.equal_shares = true;
    gravel_router router({gravel_device(0, 1)}, all, GRAVEL_SCATTER, shares);
    const routed r = through(router);
    expect_times(r, 1, "scatter, equal shares" + sizes);
    const uint64_t packets =
        (routed_words * 8 + router.rings().shape().packet_bytes - 1) / router.rings().shape().packet_bytes;
    const uint64_t few = packets / outputs * routed_segments;
    expect(r.packets[0] >= few && r.packets[0] <= few + routed_segments,
           "scatter: a share of " + std::to_string(r.packets[0]) + " packets");
  }
  {
    gravel_link_options some = how;
    some.choose = [](uint64_t, uint64_t metadata, const gravel_endpoint&, const std::vector<gravel_endpoint>& outs) {
      return metadata == 2 ? std::vector<int>{0, static_cast<int>(outs.size()) - 1}
                           : std::vector<int>{static_cast<int>(metadata % outs.size())};
    };
    gravel_router router({gravel_device(n - 1, 1), gravel_device(0, 2)}, all, GRAVEL_POINT_TO_POINT, some);
    expect_times(through(router), 1, "point to point" + sizes);
  }
  if (buffers == 2) {  // policies that the program's function completes
    gravel_link_options some = how;
    some.copies_from = 1;
    some.choose = [](uint64_t, uint64_t metadata, const gravel_endpoint&, const std::vector<gravel_endpoint>& outs) {
      std::vector<int> first;
      for (uint64_t i = 0; i < std::min(metadata, outs.size()); ++i) first.push_back(static_cast<int>(i));
      return first;
    };
    {
      gravel_router router({gravel_device(0, 2)}, all, GRAVEL_BROADCAST, some);
      expect_times(through(router), {1, std::min(2u, outputs), std::min(3u, outputs)}, "broadcast to some" + sizes);
    }
    {
      gravel_router router({gravel_device(0, 2)}, all, GRAVEL_SCATTER, some);
      const routed r = through(router);
      expect_times(r, 1, "scatter to some" + sizes);
      expect(r.packets[0] == 0 || std::find(all.begin(), all.end(), gravel_device(me)) < all.begin() + 3,
             "a packet came to an output that was not chosen" + sizes);
    }
    some.equal_shares = true;
    gravel_router shares({gravel_device(0, 2)}, all, GRAVEL_SCATTER, some);
    if (me == 0 && n > 1)
      expect_error("its options cannot have `choose`, too", [&] { shares.input().send(nullptr, 0); });
  }
  {
    gravel_router router({gravel_device(0), gravel_device(0, 1), gravel_device(n - 1, 2)}, {gravel_device(n / 2, 9)},
                         GRAVEL_GATHER, how);
    expect_times(through(router), 1, "gather" + sizes);
  }
}
std::vector<gravel_router*> all_of(const router_list& routers) {
  std::vector<gravel_router*> all;
  for (const auto& router : routers) all.push_back(router.get());
  return all;
}
/// Routers that feed routers: one in each group of two PEs and one between the groups, upwards and downwards; a segment
/// that comes to the same place on two ways.
void routers_of_routers(uint32_t buffers) {
  const int groups = (n + 1) / 2;
  const auto first = [](int group) { return 2 * group; };
  const auto second = [](int group) { return std::min(2 * group + 1, n - 1); };
  const std::string sizes = ", " + std::to_string(buffers) + " buffers";
  const gravel_link_options large{.packet_bytes = 4000, .buffers = buffers},
      small{.packet_bytes = 1600, .buffers = buffers};
  {
    router_list inside;
    std::vector<gravel_endpoint> ends;
    for (int group = 0; group < groups; ++group) {
      inside.push_back(std::make_unique<gravel_router>(
          std::vector{gravel_device(first(group), 1), gravel_device(second(group), 2)},
          std::vector{gravel_device(first(group), 3)}, GRAVEL_GATHER, group % 2 ? small : large));
      ends.push_back(inside.back()->as_input());
    }
    ends.push_back(gravel_device(n - 1, 4));
    gravel_router between(ends, {gravel_device(n - 1)}, GRAVEL_GATHER, small);
    gravel_router last({between.as_input()}, {gravel_device(0, 5)}, GRAVEL_GATHER, large);
    if (me == n - 1) between.input().shutdown();  // the input that no router feeds
    expect_times(through(all_of(inside), {&last}, true), 1, "gathers that feed a gather" + sizes);
  }
  for (const gravel_policy policy : {GRAVEL_POINT_TO_POINT, GRAVEL_BROADCAST}) {
    std::vector<gravel_endpoint> leaders;
    for (int group = 0; group < groups; ++group) leaders.push_back(gravel_device(first(group), 1));
    leaders.push_back(gravel_device(n - 1, 2));  // received by the program
    gravel_router between({gravel_device(n - 1, 3), gravel_device(0, 4)}, leaders, policy, large);
    router_list inside;
    for (int group = 0; group < groups; ++group)
      inside.push_back(
          std::make_unique<gravel_router>(std::vector{between.as_input(group)},
                                          std::vector{gravel_device(first(group)), gravel_device(second(group), 5)},
                                          policy == GRAVEL_BROADCAST ? GRAVEL_SCATTER : policy, small));
    auto from = all_of(inside);
    from.push_back(&between);
    if (policy == GRAVEL_POINT_TO_POINT)
      expect_times(through({&between}, from, true), 1, "point to point that feeds the same" + sizes);
    else
      expect_times(through({&between}, from, false), static_cast<uint32_t>(groups) + 1,
                   "a broadcast that feeds scatters" + sizes);
  }
  {
    // Both ways come together at `joined`. Packets of one way fill all buffers while those of the other are behind.
    gravel_link_options copied = small;
    copied.copies_from = 1;
    gravel_router fork({gravel_device(0, 1)}, {gravel_device(n - 1, 2), gravel_device(0, 3)}, GRAVEL_BROADCAST, copied);
    gravel_router joined({fork.as_input(0), fork.as_input(1)}, {gravel_device(n / 2, 4)}, GRAVEL_GATHER, large);
    gravel_router behind({joined.as_input()}, {gravel_device(0), gravel_device(n - 1, 5)}, GRAVEL_BROADCAST, copied);
    expect_times(through({&fork}, {&behind}, false), 4, "two ways that join" + sizes);
  }
  {
    gravel_router top({gravel_device(0, 1)}, {gravel_device(n - 1, 2), gravel_device(0, 3)}, GRAVEL_BROADCAST, small);
    gravel_router left({top.as_input(0)}, {gravel_device(n - 1), gravel_device(n / 2, 4)}, GRAVEL_BROADCAST, large);
    gravel_router right({top.as_input(1)}, {gravel_device(0), gravel_device(n / 2, 5)}, GRAVEL_POINT_TO_POINT, small);
    expect_times(through({&top}, {&left, &right}, true), 3, "a broadcast that feeds a broadcast" + sizes);
  }
}
/// What waits at a junction of routers; what is dropped there; what cannot be.
void junctions() {
  device_bytes memory(1000);
  const gravel_link_options one{.packet_bytes = 16, .buffers = 1};
  for (const bool receives : {true, false}) {
    auto from = std::make_unique<gravel_router>(std::vector{gravel_device(0, 1)}, std::vector{gravel_device(n - 1, 2)},
                                                GRAVEL_POINT_TO_POINT, one);
    auto to = std::make_unique<gravel_router>(std::vector{from->as_input()}, std::vector{gravel_device(n / 2)},
                                              GRAVEL_POINT_TO_POINT, one);
    gravel_event events[3];
    if (me == 0) {
      for (uint64_t i = 0; i < 3; ++i)
        gravel_launch(fill_bytes, 1, 16, memory.get() + 16 * i, uint64_t{16}, uint64_t{3}, i);
      gravel_synchronize();
      for (uint64_t i = 0; i < 3; ++i) {
        events[i] = from->input().send(memory.get() + 16 * i, 16);
        if (i) gravel_wait(events[i - 1]);
      }
      // One is in the buffer of `to`; the second is at the junction, and cannot leave; for the third there is no
      // buffer. A packet that were released early would let it go.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      expect(!gravel_has_happened(events[2]), "a packet was released before it had left");
      if (receives) from->input().shutdown();
    }
    gravel_sum_all(uint64_t{0});
    if (!receives) continue;  // neither received nor shut down
    if (me == n / 2) {
      uint64_t wrong = 0, came = 0;
      for (;; ++came) {
        const gravel_segment s = to->output().receive().get();
        if (s.empty()) break;
        const auto data = copied(s);
        wrong += !s.is_last || data.size() != 16;
        for (uint64_t k = 0; k < data.size(); ++k) wrong += data[k] != byte_of(3, came, k);
        to->output().release(s);
      }
      expect(came == 3 && wrong == 0, "at a junction: " + std::to_string(came) + " segments came, " +
                                          std::to_string(wrong) + " bytes are wrong");
    }
    from.reset();  // in any order, if all has come
  }
  const auto all = gravel_all_devices();
  gravel_router from({gravel_device(0, 1)}, {gravel_device(n - 1, 2), gravel_host(0), gravel_device(n - 1, 6)},
                     GRAVEL_BROADCAST, one);
  gravel_endpoint closed;
  {
    const gravel_router brief({gravel_device(0, 1)}, {gravel_device(0, 2)}, GRAVEL_GATHER, one);
    closed = brief.as_input();
  }
  const auto open = [](const std::vector<gravel_endpoint>& inputs, const std::vector<gravel_endpoint>& outputs,
                       gravel_policy policy, const gravel_link_options& how = {}) {
    return [=] { gravel_router(inputs, outputs, policy, how); };
  };
  const std::vector<gravel_endpoint> out{gravel_device(0, 9)};
  const std::string fed = "an input is an output of another router, device 2 of PE " + std::to_string(n - 1);
  expect_error("but that router is closed", open({closed}, out, GRAVEL_GATHER));
  expect_error("there is no output 3, but 0 to 2", [&] { from.as_input(3); });
  expect_error("output 1 is host 0 of PE 0: segments go on from device memory", [&] { from.as_input(1); });
  expect_error("list its as_input() among the inputs", open(all, {from.as_input()}, GRAVEL_GATHER));
  expect_error(fed + ": chains, trees and rings combine arrays",
               open({gravel_device(0), from.as_input()}, {gravel_device(n - 1, 2)}, GRAVEL_CHAIN));
  gravel_link_options shares = one;
  shares.equal_shares = true;
  expect_error(fed + ", whose packets come one by one: equal shares",
               open({from.as_input()}, out, GRAVEL_SCATTER, shares));
  expect_error("is listed twice", open({from.as_input(), gravel_device(n - 1, 2)}, out, GRAVEL_GATHER));
  gravel_router ring(all, all, GRAVEL_RING, gravel_path_options());
  expect_error("no segments leave them for other routers", [&] { ring.as_input(); });
  {
    gravel_router to({from.as_input()}, out, GRAVEL_GATHER, one);
    expect_error(fed + ", but it feeds a router already", open({from.as_input()}, out, GRAVEL_GATHER));
    if (me == n - 1) {
      const std::string forwards = "0, device 2 of PE " + std::to_string(n - 1) + ", is a junction of two routers";
      expect_error("gravel_router: output " + forwards, [&] { from.output(0); });
      expect_error("gravel_router: input " + forwards, [&] { to.input(); });
    }
  }
  if (me == 0) expect_error("was shut down", [&] { from.input().send(nullptr, 0); });
  if (me == n - 1) from.output(2).receive();
  expect_error(me == n - 1 ? "but the program has received there before" : "refused at another PE",
               open({from.as_input(2)}, out, GRAVEL_GATHER));
}
/// Routers over links that were made before, of several buffers; one link is left alone.
void routers_of_links() {
  const auto all = gravel_all_devices();
  const std::vector<gravel_endpoint> inputs{gravel_device(0, 2), gravel_device(n - 1, 1)};
  std::vector<std::unique_ptr<gravel_link>> made;
  std::vector<gravel_link*> links;
  const auto open = [&](const std::vector<gravel_endpoint>& from, const std::vector<gravel_endpoint>& to,
                        bool different) {
    links.clear();
    made.clear();
    for (const auto& a : from)
      for (const auto& b : to) {
        const auto buffers = static_cast<uint32_t>(different ? 1 + made.size() % 3 : 2);
        made.push_back(
            std::make_unique<gravel_link>(a, b, gravel_link_options{.packet_bytes = 1000, .buffers = buffers}));
        links.push_back(made.back().get());
      }
  };
  open(inputs, all, true);
  gravel_link other(gravel_device(0, 7), gravel_device(0, 8), 64, 1);
  links.insert(links.begin(), &other);
  {
    gravel_router router(links, inputs, all, GRAVEL_BROADCAST, {.copies_from = 1});
    expect_error("another router has taken the link from device 2 of PE 0",
                 [&] { gravel_router again(links, inputs, all, GRAVEL_BROADCAST); });
    expect_error("a router has taken the link from device 2 of PE 0", [&] { made[0]->handle(); });
    if (me == 0) expect_error("a router has taken", [&] { made[0]->send(nullptr, 0); });
    expect_times(through(router), static_cast<uint32_t>(all.size()), "broadcast over links");
  }
  expect_error("the link from device 0 of PE 0 to device 9 of PE 0 is not among the links",
               [&] { gravel_router router(links, {gravel_device(0)}, {gravel_device(0, 9)}, GRAVEL_SCATTER); });
  open(inputs, all, true);
  {
    gravel_router router(links, inputs, all, GRAVEL_SCATTER);
    expect_times(through(router), 1, "scatter over links");
  }
  made[0].reset();  // in any order
  open({gravel_device(0, 2)}, all, true);
  if (me == 0) made[0]->shutdown();
  expect_error(me == 0 ? "has been used before" : "refused at another PE",
               [&] { gravel_router router(links, {gravel_device(0, 2)}, all, GRAVEL_SCATTER); });
  open({gravel_device(0, 2)}, {gravel_device(0, 1)}, false);
  gravel_link larger(gravel_device(0, 2), gravel_device(0, 3), 2000, 2);
  links.push_back(&larger);
  expect_error("those of one router have one size", [&] {
    gravel_router router(links, {gravel_device(0, 2)}, {gravel_device(0, 1), gravel_device(0, 3)}, GRAVEL_SCATTER);
  });
  std::vector<gravel_endpoint> next(all.begin() + 1, all.end());
  next.push_back(all[0]);
  links.clear();
  made.clear();
  for (size_t i = 0; n > 1 && i < all.size(); ++i) {
    made.push_back(std::make_unique<gravel_link>(all[i], next[i], 256, 2));
    links.push_back(made.back().get());
  }
  gravel_router ring(links, all, all, GRAVEL_RING);
  auto* const sum = gravel_malloc<uint64_t>(3 * sizeof(uint64_t));
  const std::vector<uint64_t> mine(3, 1);
  gravel_copy(sum, mine.data(), 24);
  gravel_allreduce(ring, sum, sum, 3);
  std::vector<uint64_t> got(3);
  gravel_copy(got.data(), sum, 24);
  expect(got == std::vector<uint64_t>(3, static_cast<uint64_t>(n)), "allreduce over links: " + std::to_string(got[0]));
  made.clear();  // the router keeps their memory
  gravel_free(sum);
}

template <class T>
T element_at(int pe, uint64_t i) {
  const uint64_t random = mix(static_cast<uint64_t>(pe) << 32 | i);
  const auto small = static_cast<int>(random % 9) - 4;  // sums are exact
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(small);
  else if constexpr (requires { T::from_float(0); }) return T::from_float(static_cast<float>(small));
  else return T(random);
}
/// The calls of an operation on numbers.
template <gravel_reduction HOW>
struct by_operation {
  template <class T>
  void allreduce(gravel_router& router, T* to, const T* from, uint64_t count) const {
    gravel_allreduce<HOW>(router, to, from, count);
  }
  template <class T>
  void reduce(gravel_router& router, T* to, const T* from, uint64_t count) const {
    gravel_reduce<HOW>(router, to, from, count);
  }
  template <class T>
  T expected(uint64_t i) const {
    combination<HOW, T, T> all;
    all.begin(element_at<T>(0, i));
    for (int pe = 1; pe < n; ++pe) all.add(element_at<T>(pe, i));
    return all.result();
  }
};
/// The calls of a merge.
template <class Merge>
struct by_merge {
  Merge merge;

  template <class T>
  void allreduce(gravel_router& router, T* to, const T* from, uint64_t count) const {
    gravel_allreduce(router, to, from, count, merge);
  }
  template <class T>
  void reduce(gravel_router& router, T* to, const T* from, uint64_t count) const {
    gravel_reduce(router, to, from, count, merge);
  }
  template <class T>
  T expected(uint64_t i) const {
    auto all = element_at<T>(0, i);
    for (int pe = 1; pe < n; ++pe) merge.combine(all, element_at<T>(pe, i));
    return all;
  }
};
template <class T, class Calls>
void paths_of(const std::string& name, gravel_router& ring, gravel_router& chain, gravel_router& tree,
              const std::vector<uint64_t>& counts, const Calls& calls) {
  constexpr uint64_t most = 6000;
  auto* const from = gravel_malloc<T>(most * sizeof(T));
  auto* const to = gravel_malloc<T>(most * sizeof(T));
  for (const uint64_t count : counts)
    for (const int way : {0, 1, 2, 3}) {
      for (const uint64_t shift : {0, 1}) {
        std::vector<T> mine(count + 2), poison(count + 2, T{});
        for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = element_at<T>(me, i);
        gravel_copy(from + shift, mine.data(), mine.size() * sizeof(T));
        gravel_copy(to + shift, poison.data(), poison.size() * sizeof(T));
        T* const result = way == 3 ? from + shift : to + shift;
        if (way == 0 || way == 3) calls.allreduce(ring, result, from + shift, count);
        if (way == 1) calls.reduce(chain, result, from + shift, count);
        if (way == 2) calls.reduce(tree, result, from + shift, count);
        const bool written = way == 0 || way == 3 || me == (way == 1 ? chain : tree).outputs()[0].pe;
        std::vector<T> got(count + 2);
        gravel_copy(got.data(), result, got.size() * sizeof(T));
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < got.size(); ++i) {
          T expected{};
          if (i < count && written) expected = calls.template expected<T>(i);
          else if (way == 3) expected = mine[i];
          wrong += std::memcmp(&got[i], &expected, sizeof(T)) != 0;
        }
        const char* const names[] = {"allreduce", "reduce along a chain", "reduce along a tree", "allreduce in place"};
        expect(wrong == 0, name + ", " + names[way] + " of " + std::to_string(count) + " from " +
                               std::to_string(shift) + " on: " + std::to_string(wrong) + " wrong");
      }
      gravel_sum_all(uint64_t{0});  // nobody poisons what a neighbour still writes
    }
  gravel_free(to);
  gravel_free(from);
}

/// 12 bytes, which do not divide 16.
struct extent {
  int32_t least = 1, most = -1;
  uint32_t numbers = 0;
  extent() = default;
  explicit extent(uint64_t random) : least(static_cast<int32_t>(random)), most(least), numbers(random >> 40) {}
};
/// Counts its calls in memory of the PE.
struct merge_extents {
  uint64_t* calls;
  GRAVEL_BOTH static void combine(extent& into, const extent& from) {
    if (from.least < into.least) into.least = from.least;
    if (from.most > into.most) into.most = from.most;
    into.numbers += from.numbers;
  }
  GRAVEL_DEVICE void operator()(extent& into, const extent& from) const {
    combine(into, from);
    fetch_add<scope::device>(calls, uint64_t{1});
  }
};
/// 40 bytes: the largest numbers, in ascending order.
struct largest {
  uint64_t numbers[5] = {};
  largest() = default;
  explicit largest(uint64_t random) {
    for (uint64_t i = 0; i < 5; ++i) numbers[i] = random / (5 - i);
  }
};
struct merge_largest {
  GRAVEL_BOTH static void combine(largest& into, const largest& from) {
    for (uint64_t next : from.numbers)
      for (int i = 4; i >= 0; --i)
        if (next > into.numbers[i]) {
          const uint64_t less = into.numbers[i];
          into.numbers[i] = next;
          next = less;
        }
  }
  GRAVEL_DEVICE void operator()(largest& into, const largest& from) const { combine(into, from); }
};
/// Neither associative nor commutative.
struct append_digit {
  GRAVEL_DEVICE void operator()(uint64_t& into, const uint64_t& from) const { into = 10 * into + from; }
};
void merges(gravel_router& ring, gravel_router& chain, gravel_router& tree, const std::string& sizes) {
  constexpr uint64_t count = 1501;
  auto* const calls = gravel_malloc<uint64_t>(sizeof(uint64_t));
  paths_of<extent>("extents, " + sizes, ring, chain, tree, {count}, by_merge<merge_extents>{{calls}});
  uint64_t called = 0;
  gravel_copy(&called, calls, sizeof(called));
  const uint64_t all_called = gravel_sum_all(called), wanted = 8 * count * static_cast<uint64_t>(n - 1);
  expect(all_called == wanted,
         "a merge was called " + std::to_string(all_called) + " times, not " + std::to_string(wanted) + ", " + sizes);
  paths_of<largest>("largest numbers, " + sizes, ring, chain, tree, {1, 400}, by_merge<merge_largest>{});
  // A chain merges in the order of its inputs.
  uint64_t in_order = 0;
  for (const gravel_endpoint& input : chain.inputs()) in_order = 10 * in_order + static_cast<uint64_t>(input.pe) + 1;
  const std::vector<uint64_t> mine(3, static_cast<uint64_t>(me) + 1);
  auto* const digits = gravel_malloc<uint64_t>(24);
  gravel_copy(digits, mine.data(), 24);
  const gravel_stream_t stream = gravel_stream_create();
  const gravel_event done = gravel_reduce_start(chain, digits, digits, 3, append_digit{}, {.stream = stream});
  gravel_wait(done);
  std::vector<uint64_t> got(3);
  gravel_copy(got.data(), digits, 24);
  if (me == chain.outputs()[0].pe)
    expect(got == std::vector<uint64_t>(3, in_order), "a chain has merged to " + std::to_string(got[0]));
  gravel_stream_destroy(stream);
  gravel_free(digits);
  gravel_free(calls);
}
struct add_words {
  GRAVEL_DEVICE void operator()(uint32_t& into, const uint32_t& from) const { into += from; }
};
/// Several calls in one kernel, one after the other, by the operation and by a merge.
__global__ void reduce_in_kernel(gravel_path_handle h, uint32_t* to, uint32_t* from, uint64_t count, uint32_t calls) {
  const element_range mine = element_range{0, count}.part(blockIdx.x, gridDim.x, 4);
  for (uint32_t i = 0; i < calls; ++i) {
    if (i % 2) gravel_allreduce(h, to, from, count, add_words{});
    else gravel_allreduce(h, to, from, count);
    for (uint64_t k = mine.begin + threadIdx.x; k < mine.end; k += blockDim.x) from[k] = to[k] + 1;
  }
}
void paths(uint32_t packet_bytes, uint32_t buffers) {
  const auto all = gravel_all_devices();
  auto rest = all;
  std::rotate(rest.begin(), rest.begin() + 1, rest.end());
  const gravel_link_options how{.packet_bytes = packet_bytes, .buffers = buffers, .lanes = 2};
  gravel_link_options two = how;
  two.buffers = std::max(buffers, 2u);
  gravel_router ring(all, all, GRAVEL_RING, two), chain(all, {all.back()}, GRAVEL_CHAIN, how),
      tree(rest, {rest.back()}, GRAVEL_TREE, how);
  const std::string sizes = std::to_string(buffers) + " buffers of " + std::to_string(packet_bytes);
  paths_of<float>("float, " + sizes, ring, chain, tree, {0, 1, 5, 700, 5900}, by_operation<GRAVEL_SUM>{});
  paths_of<int64_t>("int64, " + sizes, ring, chain, tree, {3, 2000}, by_operation<GRAVEL_MAX>{});
  if (buffers == 2) {
    paths_of<gravel_half>("half, " + sizes, ring, chain, tree, {2047}, by_operation<GRAVEL_SUM>{});
    paths_of<uint32_t>("uint32, " + sizes, ring, chain, tree, {1001}, by_operation<GRAVEL_PROD>{});
    paths_of<double>("double, " + sizes, ring, chain, tree, {333}, by_operation<GRAVEL_MIN>{});
    merges(ring, chain, tree, sizes);
  }
  constexpr uint64_t bytes = 9000;
  auto* const data = gravel_malloc<char>(bytes + 16);
  for (const uint64_t shift : {0, 3})
    for (int root = 0; root < n; ++root) {
      const auto expected = bytes_of(77, static_cast<uint64_t>(root), bytes),
                 nothing = std::vector<unsigned char>(bytes);
      gravel_copy(data + shift, me == root ? expected.data() : nothing.data(), bytes);
      gravel_broadcast(ring, data + shift, bytes, root);
      std::vector<unsigned char> got(bytes);
      gravel_copy(got.data(), data + shift, bytes);
      expect(got == expected, "broadcast from PE " + std::to_string(root) + ", " + sizes + ": wrong");
    }
  gravel_free(data);
  constexpr uint64_t count = 3000;
  auto* const from = gravel_malloc<uint32_t>(count * 4);
  auto* const to = gravel_malloc<uint32_t>(count * 4);
  gravel_launch(reduce_in_kernel, gravel_launch_config{.grid = 2, .block = 32, .cooperative = true}, ring.path(), to,
                from, count, 5u);
  gravel_barrier_all();
  uint32_t expected = 0;
  for (int i = 1; i < 5; ++i) expected = (expected + 1) * static_cast<uint32_t>(n);
  std::vector<uint32_t> got(count);
  gravel_copy(got.data(), to, count * 4);
  uint64_t wrong = 0;
  for (const uint32_t x : got) wrong += x != expected;
  expect(wrong == 0, "allreduces in a kernel, " + sizes + ": " + std::to_string(wrong) + " wrong, such as " +
                         std::to_string(got[0]));
  gravel_free(to);
  gravel_free(from);
}

void refusals() {
  const auto open = [](const gravel_endpoint& from, const gravel_endpoint& to, const gravel_link_options& how) {
    return [=] { gravel_link link(from, to, how); };
  };
  expect_error("gravel_link: the link from device 0 of PE 0 to device 0 of PE " + std::to_string(n) +
                   " has an end at PE " + std::to_string(n),
               open(gravel_device(0), gravel_device(n), {}));
  expect_error("ends where it begins", open(gravel_device(0, 2), gravel_device(0, 2), {}));
  expect_error("has 0 buffers", open(gravel_device(0), gravel_device(0, 1), {.buffers = 0}));
  expect_error("has packets of 0 bytes", open(gravel_device(0), gravel_device(0, 1), {.packet_bytes = 0}));
  if (n > 1) {
    expect_error(
        "the two ends of the link from device 0 of PE 0 to device 0 of PE 1 do not fit: PE 0 has 2 buffers of 64 "
        "bytes, PE 1 3 buffers of "
        "64 bytes",
        open(gravel_device(0), gravel_device(1), {.packet_bytes = 64, .buffers = me == 1 ? 3u : 2u}));
    expect_error("PE 1 2 buffers of 128 bytes",
                 open(gravel_device(0), gravel_device(1), {.packet_bytes = me == 1 ? 128u : 64u}));
    expect_error("the PEs open different links", open(gravel_device(me == 1), gravel_device(0, 3), {}));
  }
  const auto all = gravel_all_devices();
  expect_error("gather has one output", [&] {
    gravel_router({gravel_device(0)}, {gravel_device(0, 1), gravel_device(0, 2)}, GRAVEL_GATHER);
  });
  expect_error("same endpoints", [&] { gravel_router(all, {gravel_device(0, 5)}, GRAVEL_RING); });
  expect_error("a ring with 1 buffer", [&] { gravel_router(all, all, GRAVEL_RING, {.buffers = 1}); });
  expect_error("its last input", [&] { gravel_router(all, {gravel_device(0, 5)}, GRAVEL_CHAIN); });
  expect_error("is on the path twice", [&] {
    gravel_router({gravel_device(0), gravel_device(0, 1)}, {gravel_device(0, 1)}, GRAVEL_TREE);
  });
  gravel_link link(gravel_device(0), gravel_device(n - 1, 1), 64, 2);
  if (me == 0)
    expect_error("a segment of 2199023255552 bytes on the link from device 0 of PE 0",
                 [&] { link.send(nullptr, 1ull << 41); });
  if (me == 0)
    expect_error("a segment of 9 bytes at nullptr on the link from device 0 of PE 0", [&] { link.send(nullptr, 9); });
  gravel_segment nobodys;
  nobodys.has_come = true;
  if (me == n - 1) expect_error("is none of the link from device 0 of PE 0", [&] { link.release(nobodys); });
  gravel_router ring(all, all, GRAVEL_RING, gravel_path_options());
  float x[2];
  if (n > 1) expect_error("is not in the symmetric heap", [&] { gravel_allreduce(ring, x, x, 2); });
  expect_error("it takes GRAVEL_CHAIN or GRAVEL_TREE", [&] { gravel_reduce(ring, x, x, 2); });
  expect_error("is not on the ring", [&] { gravel_broadcast(ring, x, 4, n); });
  expect_error("has no input of its own", [&] { ring.input(); });
  gravel_router small(all, all, GRAVEL_RING, {.packet_bytes = 20, .buffers = 2});
  auto* const numbers = reinterpret_cast<largest*>(gravel_handle().heap);
  if (n > 1)
    expect_error("gravel_allreduce of 0 elements of 40 bytes: the router's packets have 32 bytes",
                 [&] { gravel_allreduce(small, numbers, numbers, 0, merge_largest{}); });
}

__global__ void send_after_end(gravel_link_handle h, uint32_t lane) {
  gravel_packet_sender sender(h, lane);
  sender.shutdown();
  sender.send(nullptr, 0);
}
__global__ void send_packets_of(gravel_link_handle h, const char* data, uint32_t packets) {
  gravel_packet_sender sender(h, 0);
  for (uint32_t i = 0; i < packets; ++i) sender.send(data, 10);
}
__global__ void receive_packets(gravel_link_handle h, uint32_t packets) {
  gravel_packet_receiver receiver(h, 0);
  for (uint32_t i = 0; i < packets; ++i) receiver.receive();
}
__global__ void merge_in_kernel(gravel_path_handle h, largest* numbers) {
  gravel_reduce(h, numbers, numbers, 1, merge_largest{});
}
/// One thread feeds a gather and drains it, and waits for what it has sent before it receives: for ever. "event": for
/// the event of a send; "sends": in send() itself; "host": for a segment, before it has sent any.
[[noreturn]] void wait_for_oneself(const std::string& how) {
  device_bytes memory(1000);
  gravel_router gather({gravel_device(0, 1), gravel_device(1)}, {gravel_device(0)}, GRAVEL_GATHER,
                       {.packet_bytes = 64, .buffers = 2});
  if (me == 0 && how == "event") gravel_wait(gather.input().send(memory.get(), 1000));
  if (me == 0 && how == "sends")
    for (;;) gather.input().send(memory.get(), 100);
  if (me == 0 && how == "host") gather.output().receive().get();
  for (;;) gravel_barrier_all();
}
/// "closed", "lane", "held", "element": what a kernel does wrong. "thrown": an exception passes an open link, and is
/// caught. "dies-WHAT": PE 0 is killed while PE 1 waits: its host, a stream or a kernel for a packet, its kernels or
/// copies for a buffer.
int go_wrong(const std::string& what) {
  device_bytes memory(1000);
  const gravel_stream_t stream = gravel_stream_create();
  const gravel_launch_config in_stream{.grid = 1, .block = 32, .stream = stream};
  try {
    gravel_link link(gravel_device(0), gravel_device(1), 64, 2);
    gravel_link back(gravel_device(1), gravel_device(0),
                     {.packet_bytes = 64, .buffers = 2, .copies_from = what == "dies-copies" ? 1 : 65u});
    if (what == "closed" || what == "lane") {
      if (me == 0) gravel_launch(send_after_end, 1, 32, link.handle(), what == "lane" ? 4u : 0u);
    } else if (what == "element") {
      gravel_router chain(gravel_all_devices(), {gravel_device(gravel_n_pes() - 1)}, GRAVEL_CHAIN,
                          {.packet_bytes = 16});
      gravel_launch(merge_in_kernel, 1, 32, chain.path(), reinterpret_cast<largest*>(memory.get()));
      gravel_synchronize();
    } else if (what == "held") {
      if (me == 0) gravel_launch(send_packets_of, 1, 32, link.handle(), memory.get(), 4u);
      else gravel_launch(receive_packets, in_stream, link.handle(), 3u);
    } else if (me == 0) {
      if (what == "thrown") link.send(memory.get(), 1000);  // waits for buffers
      if (what == "thrown") fail_text("something has gone wrong");
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::raise(SIGKILL);
    } else if (what == "dies-host") {
      link.receive().get();
    } else if (what == "dies-stream") {
      link.receive().wait(stream);
      gravel_stream_synchronize(stream);
    } else if (what == "dies-kernel") {
      gravel_launch(receive_packets, in_stream, link.handle(), 1u);
      gravel_stream_synchronize(stream);
    } else if (what == "dies-sends" || what == "dies-copies") {
      gravel_wait(back.send(memory.get(), 1000));
    }
    for (;;) gravel_barrier_all();  // the job ends here
  } catch (const error& e) {
    std::fprintf(stderr, "caught: %s\n", e.what());
    return 1;
  }
}

int finish() {
  const bool right = gravel_sum_all(uint64_t{failures != 0}) == 0;
  if (right && me == 0) std::printf("ok\n");
  gravel_finalize();
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  gravel_init<>();
  me = gravel_my_pe();
  n = gravel_n_pes();
  const bool is_short = argc > 1 && std::strcmp(argv[1], "short") == 0;  // for PEs that take turns on a GPU
  if (argc > 2 && std::strcmp(argv[1], "waits") == 0) wait_for_oneself(argv[2]);
  if (argc > 1 && std::strcmp(argv[1], "open") == 0) {
    gravel_link link(gravel_device(0), gravel_device(1), 64, 2);
    gravel_finalize();
  }
  if (argc > 2 && std::strcmp(argv[1], "junctions") == 0) {  // only what is about routers that feed routers
    routers_of_routers(static_cast<uint32_t>(std::stoul(argv[2])));
    junctions();
    return finish();
  }
  if (argc > 1 && !is_short) return go_wrong(argv[1]);
  for (const uint32_t buffers : is_short ? std::vector<uint32_t>{2} : std::vector<uint32_t>{1, 2, 3}) {
    for (const uint32_t packet_bytes : {48u, 1000u})
      by_hosts(gravel_device(0), gravel_device(n - 1, 1), packet_bytes, buffers);
    by_streams(buffers);
    by_kernels(buffers);
    ends(buffers);
    routers(buffers == 2 ? 256 : 1000, buffers);
    paths(buffers == 2 ? 256 : 1000, buffers);
  }
  packet_words();
  release_behind_kernels();
  // The low half of packets' numbers starts again from 0 among these.
  by_kernels(2, (1ull << 32) - 4);
  if (!is_short) {
    by_kernels(1, (1ull << 32) - 1);
    by_kernels(3, (1ull << 32) - 9);
  }
  events();
  routers_of_links();
  routers_of_routers(is_short ? 2 : 1);
  junctions();
  by_hosts(gravel_device(n - 1), gravel_host(0), 1000, 2);
  if (n > 1) by_hosts(gravel_host(n - 1, 3), gravel_device(0), 1000, 2);
  refusals();
  return finish();
}
