#include "host/collective.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

collective_words neutral(uint64_t sequence) { return {sequence, {0, 0, 0, 0}, ~0ull, 0, 0}; }

void combine(collective_words& into, const collective_words& more) {
  for (int i = 0; i < 4; ++i) into.sum[i] += more.sum[i];
  into.least = std::min(into.least, more.least);
  into.most = std::max(into.most, more.most);
  into.last |= more.last;
}

}  // namespace

collective::collective(const node_setup& setup, std::vector<remote_link*> links)
    : setup_(setup), links_(std::move(links)), total_(neutral(1)), in_(setup.nodes.n_nodes()) {}

bool collective::step() {
  if (sent_) return false;
  const uint64_t next = sequence_ + 1;
  collective_words sum = neutral(next);
  for (const pe_segment* segment : setup_.local) {
    const collective_words& in = segment->control()->collective_in;
    if (load_acquire(&in.sequence) != next) return false;  // [C1]
    combine(sum, in);
  }
  sent_ = true;
  if (setup_.node == 0) {
    contribute(0, sum);
  } else {
    links_[0]->send({plane_word::contribution, setup_.node, 0, 0, next, 0, 0},
                    {reinterpret_cast<const std::byte*>(&sum), sizeof(sum)});
  }
  return true;
}

bool collective::begun() const {
  return sent_ || std::any_of(setup_.local.begin(), setup_.local.end(), [&](const pe_segment* segment) {
           return load_relaxed(&segment->control()->collective_in.sequence) > sequence_;
         });
}

void collective::receive(const plane_header& header, std::span<const std::byte> data) {
  collective_words words;
  if (data.size() != sizeof(words) || header.sequence != sequence_ + 1 ||
      (header.word == plane_word::contribution) != (setup_.node == 0))
    fail("node {} sent a collective message that does not fit: sequence {}, {} bytes", header.source_node,
         header.sequence, data.size());
  std::memcpy(&words, data.data(), sizeof(words));
  if (header.word == plane_word::contribution) contribute(header.source_node, words);
  else deliver(words);
}

void collective::contribute(uint32_t node, const collective_words& words) {
  if (in_[node]) fail("node {} contributed twice to collective {}", node, sequence_ + 1);
  in_[node] = 1;
  combine(total_, words);
  if (std::find(in_.begin(), in_.end(), 0) != in_.end()) return;
  const collective_words result = total_;
  for (uint32_t other = 1; other < setup_.nodes.n_nodes(); ++other)
    links_[other]->send({plane_word::result, 0, 0, 0, result.sequence, 0, 0},
                        {reinterpret_cast<const std::byte*>(&result), sizeof(result)});
  deliver(result);
}

void collective::deliver(const collective_words& result) {
  sequence_ = result.sequence;
  sent_ = false;
  over_ = result.last != 0;
  total_ = neutral(sequence_ + 1);
  std::fill(in_.begin(), in_.end(), 0);
  for (pe_segment* segment : setup_.local) {
    collective_words& out = segment->control()->collective_out;
    std::copy(result.sum, result.sum + 4, out.sum);
    out.least = result.least;
    out.most = result.most;
    store_release(&out.sequence, result.sequence);  // [C2]
  }
}

std::string collective::describe() const {
  std::string text = fmt::format("collective {}: this node {}", sequence_ + 1, sent_ ? "has contributed" : "waits for");
  if (!sent_)
    for (const pe_segment* segment : setup_.local)
      if (load_acquire(&segment->control()->collective_in.sequence) != sequence_ + 1)
        text += fmt::format(" PE {}", pe_of_sink(segment->landing_of(sink_kind::device).sink));
  return text + "\n";
}

}  // namespace gravel
