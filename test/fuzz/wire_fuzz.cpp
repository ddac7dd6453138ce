// Records with a right checksum and wrong fields, of every kind: each is refused with a gravel::error that names who
// sent it, or is what a process of the job may send. Then it is used as the aggregator uses it: memory is taken for
// what it says, and collectives run. Nothing may end the program, nor take much memory.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "host/aggregator/gathering.hpp"
#include "host/aggregator/wirings.hpp"
#include "lib/base/error.hpp"
#include "test/fuzz/fuzz_options.hpp"
#include "test/support/packet_samples.hpp"
#include "test/support/wire_samples.hpp"

using namespace gravel::detail;
using namespace gravel::detail::wire_samples;

namespace {

class no_link final : public remote_link {
 public:
  void put(const void*, uint64_t, uint32_t, uint64_t, uint32_t*) override {}
  void put_and_notify(const void*, uint64_t, uint32_t, uint64_t, const plane_header&) override {}
  void send(const plane_header&, std::span<const std::byte>) override {}
};

/// The aggregator of one of the two nodes, as far as records reach it.
struct one_node {
  std::vector<pe_segment> segments;
  node_setup setup;
  explicit one_node(uint32_t node) {
    for (uint32_t pe : nodes().pes_of(node))
      segments.push_back(pe_segment::create(make_segment_shape(values(), nodes(), node), pe));
    setup.nodes = nodes();
    setup.node = node;
    setup.values = values();
    for (pe_segment& segment : segments) setup.local.push_back(&segment);
  }

  /// A collective to which the other node, and then the own PEs, contribute; or of which the result comes.
  void take_part(plane_message kind, std::span<const std::byte> record) {
    no_link link;
    collective job(setup, {&link, &link});
    const uint32_t from = 1 - setup.node;
    job.receive({kind, from, 0, 0, 1, 0, 0}, record);
    for (pe_segment& segment : segments) {
      collective_words mine{};
      mine.sequence = 1;
      mine.call = {1, collective_kind::gather, nodes().pes_of(setup.node)[&segment - segments.data()], {3, 0}};
      publish(segment.control()->collective_in, mine);
    }
    job.step();
    for (pe_segment& segment : segments)
      if (segment.control()->collective_out.bytes > segment.shape().collective_bytes()) std::abort();
  }
};

void use(wire_kind kind, std::span<const std::byte> record, random_bits& draw) {
  static one_node first(0), second(1);
  const char* const from = "PE 3";
  switch (kind) {
    case wire_kind::hello: {
      const auto h = from_wire<hello>(record, from);
      check_hello(h, nullptr, {2, 4}, values());
      const topology all(h.node_of_pe, values().two_hop_nodes);
      // A record may name other nodes than the sample does: the shape must be the one that follows from them.
      const segment_shape own = make_segment_shape(values(), all, h.node);
      if (pe_segment::bytes_of(h.shape) != pe_segment::bytes_of(own) || h.pe >= all.n_pes()) std::abort();
      return;
    }
    case wire_kind::wiring: return void(read_wirings({{{}, {record.begin(), record.end()}}}, first.setup));
    case wire_kind::all_wirings: return void(read_wirings(from_wire<all_wirings>(record, from), first.setup));
    case wire_kind::memory_key: {
      wiring w = sample_wiring();
      w.keys[draw.below(3)] = {record.begin(), record.end()};
      return void(read_wirings({{{}, to_wire(w)}}, first.setup));
    }
    case wire_kind::worker_address: return void(read_of_ucx<ucx_address>(record, from));
    case wire_kind::contribution: return first.take_part(plane_message::contribution, record);
    case wire_kind::result: return second.take_part(plane_message::result, record);
    default:
      for (const kind_of_message& k : all_kinds())
        if (k.kind == kind) k.read(record);
  }
}

/// Numbers that lie at the edge of something, in 4 or 8 bytes, at any place.
void put_number(bytes& body, random_bits& draw) {
  const uint64_t edges[] = {0,          1,   2,          3,          4,          5,          64,
                            65,         255, 4096,       65535,      65536,      1ull << 20, 20'000'000,
                            1ull << 31, ~0u, 1ull << 32, 1ull << 40, 1ull << 63, ~0ull};
  const uint64_t number = edges[draw.below(std::size(edges))];
  const size_t size = draw.below(2) ? 4 : 8;
  if (body.size() >= size)
    std::memcpy(body.data() + draw.below(static_cast<uint32_t>(body.size() - size + 1)), &number, size);
}

bytes wrong_body(const kind_of_message& k, random_bits& draw) {
  bytes body = body_of(k);
  const uint32_t how = draw.below(16);
  if (how == 0) return body;
  if (how == 1) {  // small numbers lead on
    body.resize(draw.below(300));
    for (std::byte& b : body) b = std::byte(draw.below(4) ? 0 : draw());
    return body;
  }
  for (uint32_t i = 1 + draw.below(3); i > 0 && !body.empty(); --i) {
    const uint32_t at = draw.below(static_cast<uint32_t>(body.size()));
    switch (draw.below(6)) {
      case 0: body[at] = std::byte(draw()); break;
      case 1: body[at] ^= std::byte(1u << draw.below(8)); break;
      case 2: body.resize(draw.below(4) ? body.size() : at); break;
      case 3: {
        const bytes twice(body.begin() + at / 2, body.begin() + at);
        body.insert(body.begin() + at, twice.begin(), twice.end());
        break;
      }
      default: put_number(body, draw);
    }
  }
  return body;
}

/// So that what takes much more than a record of a small job may take fails.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (64u << 20);
  setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz_options options = fuzz_options::parse(argc, argv);
  random_bits draw(options.seed);
  const auto& kinds = all_kinds();
  std::vector<uint64_t> taken(kinds.size()), refused(kinds.size());
  use(wire_kind::ready, kinds[3].sample, draw);
  limit_memory();
  for (uint64_t i = 0; i < options.inputs; ++i) {
    const size_t k = i % kinds.size();
    options.note(i);
    const bytes record = sealed(kinds[k].kind, wrong_body(kinds[k], draw));
    std::string fault;
    try {
      use(kinds[k].kind, record, draw);
      ++taken[k];
    } catch (const error& e) {
      ++refused[k];
      const std::string_view text = e.what();
      if (text.find("PE ") == text.npos && text.find("node ") == text.npos)
        fault = fmt::format("'{}' names nobody", text);
    } catch (const std::exception& e) {
      fault = fmt::format("no gravel::detail::error, but '{}'", e.what());
    }
    if (fault.empty()) continue;
    std::printf("input %llu, '%s': %s\n", static_cast<unsigned long long>(i), name_of(kinds[k].kind), fault.c_str());
    return 1;
  }
  bool good = true;
  std::printf("   taken  refused\n");
  for (size_t k = 0; k < kinds.size(); ++k) {
    std::printf("%8llu %8llu  %s\n", static_cast<unsigned long long>(taken[k]),
                static_cast<unsigned long long>(refused[k]), name_of(kinds[k].kind));
    good = good && taken[k] != 0 && refused[k] != 0;
  }
  if (!good) std::printf("records of some kind were never taken, or never refused\n");
  options.print_done();
  return good ? 0 : 1;
}
