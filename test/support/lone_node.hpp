// One node of a job by itself: its plane and receivers are real, and whatever leaves it is taken and acknowledged at
// once. For tests that give the node what producers or other nodes may not give it. Of four nodes in a grid of 2 x 2 it
// is number 1: it forwards what node 0 sends to node 3.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/fake_job.hpp"

namespace gravel::detail {

class lone_node {
 public:
  static constexpr uint32_t node = 1, pes[] = {2, 3}, n_sinks = 16;

  lone_node() : job_(fake_job::with<>({.nodes = 4, .pes_per_node = 2, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}})) {
    here() = this;
    relax_hook = [](uint32_t) {  // a wait in here waits for the plane
      here()->drain();
      return uint32_t{0};
    };
  }
  fake_job& job() { return *job_; }
  plane& the_plane() { return job_->plane_of(node); }
  const queue& queue_of(uint32_t pe, uint32_t kind) {
    const fake_pe& p = job_->pe(pe);
    const queue* const all[] = {&p.kernel.direct, &p.kernel.block, &p.host_thread.direct, &p.device_handler.direct,
                                &p.host_handler.direct};
    return *all[kind];
  }

  /// Until nothing moves any more. Throws gravel::error of the plane; ends the program if a packet that leaves is none.
  void drain() {
    for (uint32_t idle = 0; idle < 2;) {
      job_->now += 1000;
      bool moved = job_->step_plane(node, 0);
      for (uint32_t to = 0; to < 4; ++to)
        for (fake_link::delivery d; to != node && job_->node(node).links[0][to]->take(job_->draw(), d); moved = true)
          take(to, d);
      idle = moved ? 0 : idle + 1;
    }
  }
  /// Applies all packets in the landing rings. After a refused message the rest of its packet is dropped. Returns the
  /// text of the last such error.
  std::string apply() {
    std::string refused;
    for (uint32_t pe : pes)
      for (sink_kind kind : {sink_kind::device, sink_kind::host})
        for (bool again = true; again;) try {
            again = job_->pe(pe).receiver[static_cast<uint32_t>(kind)]->receive(
                [](const gravel_t& g, sink_kind k, const unit* m, uint32_t units) {
                  return apply_on_host<handler_list<>>(g, k, m, units);
                });
          } catch (const error& e) {
            refused = e.what();
            empty_packets(job_->pe(pe).segment->landing_of(kind));
          }
    return refused;
  }

 private:
  static lone_node*& here() {
    static lone_node* one = nullptr;
    return one;
  }
  void take(uint32_t to, const fake_link::delivery& d) {
    fake_link& link = *job_->node(node).links[0][to];
    link.arrived(d.puts);
    const bool is_notice = d.local && d.is_notice;
    if (!is_notice && d.header.kind != plane_message::packet) return;
    packet_table table;
    const packet_expectation expect{4096, d.header.sequence, d.header.sink, n_sinks};
    if (read_packet(is_notice ? d.local : d.data.data(), is_notice ? d.header.a : d.data.size(), expect, table) !=
        packet_fault::fine)
      std::abort();
    const plane_header credit{plane_message::credit, to, d.header.sink, 0, 0, d.header.sequence + 1,
                              d.header.sequence + 1};
    link.credit(credit);
    the_plane().receive(credit, {}, job_->now);
  }
  /// Replaces the next packet of each stream by one without messages.
  static void empty_packets(const landing& ring) {
    for (uint32_t c = 0; c < ring.streams; ++c)
      for (uint32_t p = 0; p < ring.packets; ++p) {
        auto* const slot = reinterpret_cast<landing_header*>(ring.slots + (uint64_t{c} * ring.packets + p) *
                                                                              ring.shape().slot_bytes());
        auto* const packet = reinterpret_cast<packet_header*>(slot + 1);
        if (slot->published == 0 || ring.is_done(c, slot->published - 1)) continue;
        const uint64_t sequence = slot->published - 1;
        *packet = {};
        packet->magic = packet_magic;
        packet->bytes = packet_payload_offset;
        packet->sequence = sequence;
        packet->sink = ring.sink;
      }
  }

  std::unique_ptr<fake_job> job_;
};

}  // namespace gravel::detail
