// From slots to packets: one plane of an aggregator (host/aggregator/plane.hpp) takes slots and appends their rows to
// packets for 1 to 512 PEs of another node. Slots as a block sorts them, beside slots whose every message is
// a run of its own. The link takes packets and frees them at once, so only the plane's work is
// measured.
#include <random>

#include "bench/bench.hpp"
#include "host/aggregator/plane.hpp"
#include "lib/base/error.hpp"

using namespace gravel_bench;
using namespace gravel::detail;

namespace {

constexpr uint32_t ring_bytes = 4 << 20;  // GRAVEL_SLOTS times GRAVEL_SLOT_SIZE, by default

/// A message for `sink`. No two are alike, and each says where it belongs.
unit make_message(uint32_t sink, uint64_t number) {
  return {{make_word0(op::add, static_cast<uint8_t>(value_type::u64), sink), number}};
}
uint64_t digest(const unit& m) { return m.word[0] * m.word[1]; }

/// The other node: records the arriving packets, and on request reads every message.
class far_node final : public remote_link {
 public:
  explicit far_node(uint64_t packet_size, uint32_t n_sinks) : packet_size_(packet_size), n_sinks_(n_sinks) {}

  void put(const void*, uint64_t, uint32_t, uint64_t, uint32_t*) override { fail("a row was put from its slot"); }
  void put_and_notify(const void* local, uint64_t, uint32_t, uint64_t, const plane_header& notice) override {
    take(static_cast<const packet_header*>(local), notice);
  }
  void send(const plane_header& header, std::span<const std::byte> data) override {
    take(reinterpret_cast<const packet_header*>(data.data()), header);
  }

  std::vector<plane_header> arrived;  ///< credits are deferred for these
  uint64_t messages = 0, sum = 0;
  bool check = false;

 private:
  void take(const packet_header* packet, const plane_header& header) {
    arrived.push_back(header);
    messages += packet->n_messages;
    if (!check) return;
    const packet_fault fault =
        check_packet(packet, packet->bytes, {packet_size_, header.sequence, header.sink, n_sinks_});
    if (fault != packet_fault::fine) fail("a packet for sink {} has {}", header.sink, name_of(fault));
    for (const unit& m : std::span(payload_of(packet), packet->n_units)) {
      if (offset_of(m.word[0]) != header.sink)
        fail("a message for sink {} is in a packet for {}", offset_of(m.word[0]), header.sink);
      sum += digest(m);
    }
  }
  uint64_t packet_size_;
  uint32_t n_sinks_;
};

/// PE 0 is alone on its node; its block queue is full of prepared slots, which are published again and again.
class repack_job {
 public:
  repack_job(uint32_t destinations, uint32_t slot_bytes, bool sorted)
      : values_(settings_for(slot_bytes)),
        setup_{nodes_for(destinations), 0, false, values_, {}, &spill_, nullptr, {}},
        segment_(pe_segment::create(make_segment_shape(values_, setup_.nodes, 0), 0)),
        staging_(prepare()),
        link_(values_.packet_size, setup_.nodes.n_pes() * 2),
        plane_(setup_, 0, {nullptr, &link_}, staging_.data(), nullptr),
        queue_(segment_.queue_of(static_cast<uint32_t>(queue_kind::kernel_block))) {
    fill_slots(destinations, sorted);
    link_.check = true;
    run(1);
    if (link_.sum != sum_) fail("what is in the packets is not what was in the slots");
    link_.check = false;
  }

  uint64_t ring_messages() const { return messages_; }
  double mean_run() const { return static_cast<double>(messages_) / static_cast<double>(runs_); }
  size_t staging() const { return staging_.size(); }

  /// Moves the ring's messages `rounds` times. Returns seconds of processor time.
  double run(uint64_t rounds) {
    const uint64_t before = link_.messages;
    const double begin = thread_seconds();
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t end = tickets_ + queue_.shape.slots;
      for (; tickets_ != end; ++tickets_) ring<>::publish(&queue_.slot(tickets_)->published, tickets_);
      while (load_acquire(&queue_.control->plane[0].consumed) != end) step();
    }
    for (; !queue_.flushed(tickets_); step()) queue_.request_flush(tickets_);  // packets that are not full
    const double seconds = thread_seconds() - begin;
    if (link_.messages - before != rounds * messages_)
      fail("{} messages arrived of {}", link_.messages - before, rounds * messages_);
    return seconds;
  }

 private:
  static settings settings_for(uint32_t slot_bytes) {
    const std::map<std::string, std::string> ours{{"GRAVEL_SLOT_SIZE", std::to_string(slot_bytes)},
                                                  {"GRAVEL_SLOTS", std::to_string(ring_bytes / slot_bytes)},
                                                  {"GRAVEL_WARP_SLOTS", "4"},
                                                  {"GRAVEL_ZERO_COPY_SIZE", "0"},
                                                  {"GRAVEL_AGGREGATOR_THREADS", "1"}};
    return read_settings([&](const char* name) {
      const auto found = ours.find(name);
      return found == ours.end() ? nullptr : found->second.c_str();
    });
  }
  static topology nodes_for(uint32_t destinations) {
    std::vector<uint32_t> node_of_pe(1 + destinations, 1);
    node_of_pe[0] = 0;
    return topology(node_of_pe, ~0ull);
  }
  uint64_t prepare() {
    setup_.local = {&segment_};
    return setup_.staging_bytes();
  }

  void fill_slots(uint32_t destinations, bool sorted) {
    std::minstd_rand draw(1);
    const queue_shape& shape = queue_.shape;
    // Unsorted, a slot ends where its table of rows does.
    const uint32_t in_slot = sorted ? shape.payload_units : std::min(shape.payload_units, shape.max_rows);
    for (uint32_t i = 0; i < shape.slots; ++i) {
      slot_header* slot = queue_.slot(i);
      std::vector<uint32_t> sinks(in_slot);
      for (uint32_t& sink : sinks) sink = sink_of(1 + static_cast<uint32_t>(draw() % destinations), sink_kind::device);
      if (sorted) std::sort(sinks.begin(), sinks.end());
      slot->n_rows = 0;
      slot->n_units = in_slot;
      for (uint32_t m = 0; m < in_slot; ++m) {
        if (!sorted || m == 0 || sinks[m] != sinks[m - 1])
          queue_.rows(slot)[slot->n_rows++] = {wide_kind(1), sinks[m], 0};
        ++queue_.rows(slot)[slot->n_rows - 1].messages;
        queue_.payload(slot)[m] = make_message(sinks[m], ++messages_);
        sum_ += digest(queue_.payload(slot)[m]);
      }
      runs_ += slot->n_rows;
    }
  }

  void step() {
    constexpr uint64_t now = 0;  // it stands still: packets leave when they are full, or for a flush
    plane_.step(now);
    for (const plane_header& h : link_.arrived)
      plane_.receive({plane_message::credit, 1, h.sink, 0, 0, h.sequence + 1, h.sequence + 1}, {}, now);
    link_.arrived.clear();
  }

  settings values_;
  spill_budget spill_;
  node_setup setup_;
  pe_segment segment_;
  bench_memory staging_;
  far_node link_;
  plane plane_;
  queue queue_;
  uint64_t tickets_ = 0, messages_ = 0, runs_ = 0, sum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  install_terminate_handler();
  bench b("repack", "From slots to packets: one thread of an aggregator, by number of destinations.",
          {{"slots", "slots"},
           {"slot_kib", "slot KiB"},
           {"destinations", "destinations"},
           {"mean_run", "msg/run"},
           {"million_messages_per_s", "M msg/s"},
           {"gb_per_s", "GB/s"},
           {"memcpy_gb_per_s", "memcpy GB/s"},
           {"ratio", "ratio"}});
  uint64_t messages = 20'000'000;
  std::vector<uint32_t> slot_kib{4, 16, 64}, destinations{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  b.app.add_option("--messages", messages, "messages of a run, about")
      .range(uint64_t{1000}, uint64_t{1} << 34)
      .capture_default_str();
  b.app.add_option("--slots", slot_kib, "sizes of slots (payload, KiB)")
      .delimiter(',')
      .one_of({4, 8, 16, 32, 64})
      .capture_default_str();
  b.app.add_option("--destinations", destinations, "numbers of PEs that are sent to")
      .delimiter(',')
      .range(1, 4096)
      .capture_default_str();
  b.parse(argc, argv);

  for (bool sorted : {true, false})
    for (uint32_t kib : slot_kib)
      for (uint32_t n : destinations) {
        repack_job job(n, kib * 1024, sorted);
        const double limit = memcpy_rate(ring_bytes, job.staging(), kib * 1024) / 1e9;
        const uint64_t rounds = messages / job.ring_messages() + 1;
        const double rate =
            static_cast<double>(rounds * job.ring_messages()) / b.median_of([&] { return job.run(rounds); }) / 1e6;
        const double bytes = rate * sizeof(unit) / 1e3;
        b.row({sorted ? "sorted" : "unsorted", kib, n, job.mean_run(), rate, bytes, limit, bytes / limit});
      }
  b.finish();
}
