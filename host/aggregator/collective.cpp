#include "host/aggregator/collective.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

collective_words neutral(uint64_t sequence) {
  collective_words words{};
  words.sequence = sequence;
  words.least = ~0ull;
  return words;
}

void combine(collective_words& into, const collective_words& more) {
  if (into.call.number == 0) into.call = more.call;
  else if (const std::string why = mismatch(into.call, more.call); !why.empty()) fail("{}", why);
  for (int i = 0; i < 4; ++i) into.sum[i] += more.sum[i];
  into.least = std::min(into.least, more.least);
  into.most = std::max(into.most, more.most);
  into.last |= more.last;
  into.bytes += more.bytes;
}

void check_words(const wire_check& c, const collective_words& words, uint64_t data) {
  c.range("the kind of its call", static_cast<uint64_t>(words.call.kind), 0,
          static_cast<uint64_t>(collective_kind::count) - 1);
  c.holds(words.bytes == data, "the number of bytes", "does not fit the data that came");
}

}  // namespace

void collective::contribution::check(const wire_check& c) const {
  c.range("the number of sizes", sizes.size(), 0, max_pes);
  check_words(c, words, data.size());
  c.holds(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}) == data.size() && sizes.empty() == data.empty(),
          "sizes", "does not fit the data that came");
}

void collective::result::check(const wire_check& c) const { check_words(c, words, data.size()); }

collective::collective(const node_setup& setup, std::vector<remote_link*> links)
    : setup_(setup),
      links_(std::move(links)),
      waiting_elsewhere_(setup.nodes.n_nodes()),
      total_(neutral(1)),
      in_(setup.nodes.n_nodes()) {}

void collective::check_call(const collective_call& call) {
  const auto same =
      std::find_if(calls_.begin(), calls_.end(), [&](const collective_call& c) { return c.number == call.number; });
  if (same == calls_.end()) return calls_.push_back(call);
  if (const std::string why = mismatch(*same, call); !why.empty()) fail("{}", why);
}

/// Contribution of a PE of this node to sequence_ + 1, copied out of its memory and checked.
collective_words collective::contributed_by(size_t local) const {
  const pe_segment& segment = *setup_.local[local];
  const collective_words in = copy_once(segment.control()->collective_in);
  if (in.bytes > segment.collective_in_data().size())
    fail("PE {} contributed {} bytes to a collective; {} fit", pe_of(local), in.bytes,
         segment.collective_in_data().size());
  if (in.call.kind >= collective_kind::count || (in.call.number != 0 && in.call.pe != pe_of(local)))
    fail("PE {} contributed to an unknown collective: call {} of PE {}, kind {}", pe_of(local), in.call.number,
         in.call.pe, static_cast<uint32_t>(in.call.kind));
  return in;
}

/// Compares the calls of the PEs that have begun, without waiting for the others: PEs that call different collectives
/// may be waiting for each other.
void collective::find_mismatches() {
  calls_.clear();
  for (size_t i = 0; i < setup_.local.size(); ++i) {
    const pe_control& control = *setup_.local[i]->control();
    if (load_acquire(&control.collective_in.sequence) == sequence_ + 1) check_call(contributed_by(i).call);  // [C1]
    const uint64_t word = load_acquire(&control.waiting);
    if (word == 0) continue;
    check_call(call_of_waiting_word(word, pe_of(i)));
    if (setup_.node == 0 || word <= reported_) continue;
    reported_ = word;
    links_[0]->send({plane_message::waiting, setup_.node, 0, 0, word, pe_of(i), 0}, {});
  }
  for (const collective_call& call : waiting_elsewhere_)
    if (call.number) check_call(call);
  if (total_.call.number) check_call(total_.call);
}

void collective::receive_waiting(const plane_header& header) {
  if (setup_.node != 0 || header.source_node == 0 || header.source_node >= setup_.nodes.n_nodes() ||
      header.a >= setup_.nodes.n_pes() || (header.sequence & 0xff) >= static_cast<uint64_t>(collective_kind::count))
    fail("node {} sent a call in which a PE waits that does not fit: {:#x} of PE {}", header.source_node,
         header.sequence, header.a);
  waiting_elsewhere_[header.source_node] = call_of_waiting_word(header.sequence, static_cast<uint32_t>(header.a));
}

bool collective::step() {
  const uint64_t next = sequence_ + 1;
  find_mismatches();
  if (sent_) return false;
  for (const pe_segment* segment : setup_.local)
    if (load_acquire(&segment->control()->collective_in.sequence) != next) return false;  // [C1]
  contribution mine{neutral(next), {}, {}};
  for (size_t i = 0; i < setup_.local.size(); ++i) {
    const collective_words in = contributed_by(i);
    combine(mine.words, in);
    mine.sizes.push_back(static_cast<uint32_t>(in.bytes));
    const auto data = setup_.local[i]->collective_in_data().first(in.bytes);
    mine.data.insert(mine.data.end(), data.begin(), data.end());
  }
  if (mine.words.bytes == 0) mine.sizes.clear();
  sent_ = true;
  if (setup_.node == 0) contribute(0, mine);
  else links_[0]->send({plane_message::contribution, setup_.node, 0, 0, next, 0, 0}, to_wire(mine));
  return true;
}

bool collective::begun() const {
  return sent_ || std::any_of(setup_.local.begin(), setup_.local.end(), [&](const pe_segment* segment) {
           return load_relaxed(&segment->control()->collective_in.sequence) > sequence_;
         });
}

void collective::receive(const plane_header& header, std::span<const std::byte> data) {
  if (header.sequence != sequence_ + 1 || header.source_node >= in_.size() ||
      (header.kind == plane_message::contribution) != (setup_.node == 0))
    fail("node {} sent a collective message that does not fit: sequence {}, {} bytes", header.source_node,
         header.sequence, data.size());
  const std::string from = fmt::format("node {}", header.source_node);
  if (header.kind == plane_message::contribution) {
    const auto theirs = from_wire<contribution>(data, from);
    check_fits(header.source_node, theirs.words);
    contribute(header.source_node, theirs);
  } else {
    const auto theirs = from_wire<result>(data, from);
    check_fits(header.source_node, theirs.words);
    deliver(theirs);
  }
}

/// Throws gravel::error unless these words can belong to the collective under way, as far as this node can know.
void collective::check_fits(uint32_t node, const collective_words& words) const {
  const uint64_t room = setup_.local[0]->shape().collective_bytes();
  if (words.sequence != sequence_ + 1 || words.bytes > room || words.call.pe >= setup_.nodes.n_pes())
    fail("node {} sent a collective message that does not fit: sequence {}, {} bytes of {} at most, PE {}", node,
         words.sequence, words.bytes, room, words.call.pe);
}

void collective::contribute(uint32_t node, const contribution& theirs) {
  if (in_[node]) fail("node {} contributed twice to collective {}", node, sequence_ + 1);
  const auto& pes = setup_.nodes.pes_of(node);
  if (!theirs.sizes.empty() && theirs.sizes.size() != pes.size())
    fail("node {} sent a collective message that does not fit: sizes of {} PEs, where it has {}", node,
         theirs.sizes.size(), pes.size());
  in_[node] = 1;
  combine(total_, theirs.words);
  if (!theirs.data.empty()) data_of_pe_.resize(setup_.nodes.n_pes());
  const std::byte* from = theirs.data.data();
  for (size_t i = 0; i < theirs.sizes.size(); from += theirs.sizes[i++])
    data_of_pe_[pes[i]].assign(from, from + theirs.sizes[i]);
  if (std::find(in_.begin(), in_.end(), 0) != in_.end()) return;

  result out{total_, {}};
  if (const uint64_t room = setup_.local[0]->shape().collective_bytes(); total_.bytes > room)
    fail("the PEs contributed {} bytes to one collective; {} fit", total_.bytes, room);
  for (const auto& part : data_of_pe_) out.data.insert(out.data.end(), part.begin(), part.end());
  const std::vector<std::byte> bytes_of_it = to_wire(out);
  for (uint32_t other = 1; other < setup_.nodes.n_nodes(); ++other)
    links_[other]->send({plane_message::result, 0, 0, 0, total_.sequence, 0, 0}, bytes_of_it);
  deliver(out);
}

void collective::deliver(const result& all) {
  const auto& [result, data] = all;
  sequence_ = result.sequence;
  sent_ = false;
  over_ = result.last != 0;
  total_ = neutral(sequence_ + 1);
  std::fill(in_.begin(), in_.end(), 0);
  data_of_pe_.clear();
  for (pe_segment* segment : setup_.local) {
    if (!data.empty()) std::memcpy(segment->collective_out_data().data(), data.data(), data.size());
    publish(segment->control()->collective_out, result);  // [C2]
  }
}

std::string collective::describe() const {
  std::string text = fmt::format("collective {}: this node {}", sequence_ + 1, sent_ ? "has contributed" : "waits for");
  if (!sent_)
    for (size_t i = 0; i < setup_.local.size(); ++i)
      if (load_acquire(&setup_.local[i]->control()->collective_in.sequence) != sequence_ + 1)
        text += fmt::format(" PE {}", pe_of(i));
  return text + "\n";
}

std::string why_not_leave(const std::vector<pe_segment*>& local, const std::vector<uint32_t>& pes, size_t leaver) {
  const collective_words& result = local[leaver]->control()->collective_out;
  if (load_acquire(&result.sequence) != 0 && result.last) return {};  // [C2]
  for (size_t i = 0; i < local.size(); ++i) {
    const pe_control& control = *local[i]->control();
    collective_call call = call_of_waiting_word(load_acquire(&control.waiting), pes[i]);
    if (load_acquire(&control.collective_in.sequence) != load_acquire(&control.collective_out.sequence))
      call = copy_once(control.collective_in.call);
    if (i != leaver && call.number)
      return fmt::format("PE {} waits in {}, PE {} has left the job", pes[i], text_of(call), pes[leaver]);
  }
  return fmt::format("PE {} has left the job before its end", pes[leaver]);
}

}  // namespace gravel::detail
