// One thread of an aggregator: its plane, its way to the other nodes, and what it has heard from them.
#pragma once
#include <chrono>
#include <cstring>

#include "host/aggregator/aggregator.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel {

inline uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count());
}

/// All that one plane's thread owns. Destruction order: plane, links, worker, registration.
struct aggregator::plane_thread {
  aggregator* owner;
  uint32_t index;
  char* staging = nullptr;
  std::unique_ptr<ucx_memory> staging_memory;
  std::unique_ptr<ucx_worker> worker;
  std::vector<std::unique_ptr<ucx_link>> links;  ///< by node; nullptr for this node
  std::unique_ptr<plane> work;
  std::unique_ptr<collective> collectives;  ///< plane 0
  std::unique_ptr<node_watch> nodes;        ///< plane 0
  bool received = false;  ///< in this round; UCX's own keep-alive traffic is no progress of the job
  std::string binding;                      ///< in words, if it is bound
  std::string heard;                        ///< another node's reason for ending the job
  std::string lost;                         ///< a connection that broke, which may be a consequence of something else
  uint64_t lost_at = 0;
  std::jthread thread;

  std::vector<remote_link*> link_pointers(uint32_t n_nodes) const {
    std::vector<remote_link*> pointers(n_nodes);
    for (size_t i = 0; i < links.size(); ++i) pointers[i] = links[i].get();
    return pointers;
  }
  static void on_am(void* context, std::span<const std::byte> header, std::span<const std::byte> data) {
    static_cast<plane_thread*>(context)->receive(header, data);
  }
  void receive(std::span<const std::byte> raw, std::span<const std::byte> data) {
    plane_header header;
    if (raw.size() != sizeof(header)) fail("a message with a header of {} bytes arrived", raw.size());
    std::memcpy(&header, raw.data(), sizeof(header));
    if (header.word == plane_word::abort) {
      heard = from_wire<abort_word>(data, fmt::format("node {}", header.source_node)).why;
      return;
    }
    if (header.word == plane_word::pulse && nodes) return nodes->receive(header);
    received = true;
    const profile_range range("receive");
    if (work->receive(header, data, now_us())) return;
    if (!collectives || (header.word != plane_word::contribution && header.word != plane_word::result))
      fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.word));
    collectives->receive(header, data);
  }
};

}  // namespace gravel
