// A plane and its receivers against slots and packets of any contents: sound ones, and sound ones with a few changes.
// Slots in each queue of a PE; packets from other nodes, in transit and for the PEs here, by notice and inside a
// message. What is sound is taken whole and applied; of the rest a gravel::error names the PE or the node.
// (packet_fuzz.cpp: the check of packets by itself.)
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "test/fuzz/fuzz_options.hpp"
#include "test/support/lone_node.hpp"
#include "test/support/packet_samples.hpp"

using namespace gravel::detail;

namespace {

struct counts {
  uint64_t taken = 0, refused = 0, rejected = 0;  ///< rejected: by a receiver, for a message
};

[[noreturn]] void give_up(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::abort();
}

/// Fills a slot as a producer may, and then, mostly, changes a few words.
void fill(random_bits& draw, const queue& q, slot_header* slot, uint64_t& messages) {
  uint32_t units = 0, rows = draw.below(q.shape.max_rows + 1);
  messages = 0;
  unit* const payload = q.payload(slot);
  for (uint32_t u = 0; u < q.shape.payload_units; ++u) payload[u] = {{draw() & 0xffff'000f'ffff, draw() & 0x1fff}};
  for (uint32_t r = 0; r < rows; ++r) {
    const row_kind kind = sample_kind(draw);
    const message_row row{kind, draw.below(lone_node::n_sinks), 1 + draw.below(8)};
    if (units + row.units() > q.shape.payload_units) rows = r;
    else {
      q.rows(slot)[r] = row;
      units += static_cast<uint32_t>(row.units());
      messages += row.messages;
    }
  }
  slot->n_rows = rows;
  slot->n_units = units;
  if (draw.below(4) == 0) return;
  const uint32_t values[] = {
      0,   1,   2,      15,      16,         17,          31,          33,
      127, 129, 0xffff, 0x10000, 0x7fffffff, 0x80000000u, 0xffffffffu, static_cast<uint32_t>(draw())};
  for (uint32_t i = 1 + draw.below(3); i > 0; --i) {
    const uint32_t value = values[draw.below(16)];
    const uint32_t row_words = std::max(rows, 1u) * sizeof(message_row) / 4;
    if (draw.below(3) == 0) (draw.below(2) ? slot->n_rows : slot->n_units) = value;
    else std::memcpy(reinterpret_cast<uint32_t*>(q.rows(slot)) + draw.below(row_words), &value, 4);
  }
}

void try_slot(random_bits& draw, lone_node& node, counts& c) {
  const uint32_t pe = lone_node::pes[draw.below(2)], kind = draw.below(n_queue_kinds);
  const queue& q = node.queue_of(pe, kind);
  const uint64_t ticket = q.claim();
  slot_header* const slot = q.slot(ticket);
  uint64_t messages;
  fill(draw, q, slot, messages);
  ring<>::publish(&slot->published, ticket);
  try {
    node.drain();
    ++c.taken;
  } catch (const error& e) {
    ++c.refused;
    if (std::string(e.what()).find(fmt::format("PE {} handed over a corrupt slot", pe)) != 0) give_up(e.what());
    slot->n_rows = slot->n_units = 0;
    node.drain();
  }
  if (q.read_consumed() != ticket + 1) give_up("a slot was not taken");
}

/// A stream into the node, and how many of its packets have been accepted.
struct stream {
  uint32_t source, sink;
  uint64_t sequence = 0;
};

/// False: the node is stuck and has to be made anew.
bool try_packet(random_bits& draw, lone_node& node, stream& from, counts& c) {
  std::vector<uint8_t> packet = sample_packet(draw, 4096, from.sequence, from.sink, lone_node::n_sinks);
  if (from.sink == transit_sink)  // PEs of nodes 1 and 3
    for (uint32_t r = 0; r < max_packet_rows; ++r) {
      uint8_t* const at = packet.data() + sizeof(packet_header) + r * sizeof(message_row) + offsetof(message_row, sink);
      uint32_t sink;
      std::memcpy(&sink, at, sizeof(sink));
      sink = sink % 4 + (sink & 4 ? 12 : 4);
      std::memcpy(at, &sink, sizeof(sink));
    }
  if (draw.below(2))  // small numbers lead on
    for (size_t at = packet_payload_offset; at + 4 <= packet.size(); at += 4) {
      packet[at + 2] = packet[at + 3] = 0;
      packet[at + 1] &= 0x1f;
    }
  if (draw.below(3)) mutate(packet, draw);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(packet));
  try {
    if (draw.below(2)) {
      node.the_plane().receive({plane_message::packet, from.source, from.sink, 0, from.sequence, 0, 0}, bytes,
                               node.job().now);
    } else {
      const node_setup& setup = node.job().node(lone_node::node).setup;
      const bool transit = from.sink == transit_sink;
      const auto at = transit ? setup.remote_transit_of(lone_node::node, from.source, 0)
                              : setup.remote_slots_of(lone_node::node, from.sink, from.source, 0);
      char* const memory = transit ? reinterpret_cast<char*>(node.job().node(lone_node::node).transit.data())
                                   : setup.local[at.region]->base();
      const landing_shape shape{1, static_cast<uint32_t>(setup.values.packets_per_destination),
                                setup.values.packet_size};
      std::memcpy(memory + at.offset + shape.slot_at(0, from.sequence) + sizeof(landing_header), bytes.data(),
                  std::min<size_t>(bytes.size(), 4096));
      node.the_plane().receive(
          {plane_message::notice, from.source, from.sink, 0, from.sequence, draw.below(8) ? bytes.size() : draw(), 0},
          {}, node.job().now);
    }
  } catch (const error& e) {
    ++c.refused;
    if (std::string(e.what()).find(fmt::format("corrupt packet from node {}", from.source)) != 0) give_up(e.what());
    return true;
  }
  ++from.sequence;
  ++c.taken;
  try {
    node.drain();
  } catch (const error& e) {
    if (std::string(e.what()).find("this node is not on its route") == std::string::npos) give_up(e.what());
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz_options options = fuzz_options::parse(argc, argv);
  random_bits draw(options.seed);
  std::optional<lone_node> node;
  std::vector<stream> streams;
  counts slots, packets;
  for (uint64_t i = 0; i < options.inputs; ++i) {
    options.note(i);
    if (!node) {
      node.emplace();
      streams = {{0, transit_sink}};
      for (uint32_t source : {0u, 3u})
        for (uint32_t sink = 4; sink < 8; ++sink) streams.push_back({source, sink});
    }
    if (i % 2) try_slot(draw, *node, slots);
    else if (!try_packet(draw, *node, streams[i % 4 ? 0 : 1 + draw.below(8)], packets)) {
      node.reset();
      continue;
    }
    // Packets were checked before: what is refused now is a message.
    const std::string refused = node->apply();
    if (refused.find("a corrupt packet") == 0) give_up("a packet that was let through: " + refused);
    (i % 2 ? slots : packets).rejected += !refused.empty();
    node->drain();
  }
  std::printf("   taken  refused  with a message that a receiver refused\n");
  for (const auto& [name, c] : {std::pair{"slots", &slots}, {"packets", &packets}})
    std::printf("%8llu %8llu %8llu  %s\n", static_cast<unsigned long long>(c->taken),
                static_cast<unsigned long long>(c->refused), static_cast<unsigned long long>(c->rejected), name);
  bool good = true;
  for (const counts* c : {&slots, &packets})
    good = good && c->taken != 0 && c->refused != 0 && c->rejected != 0 && c->rejected < c->taken;
  if (!good) std::printf("of slots or of packets none was taken, none refused, or none applied\n");
  options.print_done();
  return good ? 0 : 1;
}
