// The aggregator process, one per node. It gathers its PEs, connects to the other nodes, and runs the planes. It ends
// when its PEs have said goodbye, or when the job cannot continue. In that case it sends the reason to all PEs and
// nodes.
#pragma once
#include <sys/mman.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host/aggregator/fault.hpp"
#include "host/aggregator/gathering.hpp"
#include "host/aggregator/job_state.hpp"
#include "host/aggregator/network.hpp"
#include "host/aggregator/pe_watch.hpp"
#include "host/aggregator/placement.hpp"
#include "host/aggregator/plane_thread.hpp"
#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

class aggregator {
 public:
  /// `here`: the PEs of its node.
  aggregator(local_pes here, const settings& values) : here_(std::move(here)), injected_(values.fault) {
    spill_.limit = values.spill_size;
    setup_.nodes = here_.nodes;
    setup_.node = here_.node;
    setup_.one_host = here_.one_host;
    setup_.values = values;
    for (auto& segment : here_.segments) setup_.local.push_back(&segment);
    setup_.spill = &spill_;
    setup_.fault = &injected_;
    setup_.handler_name = [this](uint32_t id) { return here_.name_of_handler(id); };
  }
  ~aggregator() {
    job_.stop = true;
    planes_.clear();
  }

  /// Throws gravel::error if it cannot begin. Returns the exit status, 0 if all PEs said goodbye.
  int run() {
    placement_ = place_threads(setup_.values.aggregator_bind, here_.bus_ids,
                               static_cast<uint32_t>(setup_.values.aggregator_threads));
    if (placement_.threads.empty()) log_info("threads are not bound: {}", placement_.reason);
    transit_ = map_pages(setup_.transit_bytes(), "packets of other nodes");
    for (uint64_t i = 0; i < setup_.values.aggregator_threads; ++i)
      staging_.push_back(map_pages(setup_.staging_bytes(), "packets to other nodes"));
    if (setup_.nodes.n_nodes() > 1) connect_nodes();
    start_planes();
    for (auto& socket : here_.sockets) socket.send(ready_word{});
    pe_watch watch(here_, job_, setup_.values.watchdog_s, [this](const std::string& why) { end_planes(why); });
    if (!watch.run()) return 1;
    // The PEs of this node say goodbye after the last collective. So the whole job is done.
    job_.over = true;
    end_planes({});
    return 0;
  }

 private:
  /// Maps memory that lasts until the process ends.
  static std::span<char> map_pages(uint64_t bytes, const char* what) {
    if (bytes == 0) return {};
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail_errno(fmt::format("{} bytes for {}", bytes, what));
    return {static_cast<char*>(at), bytes};
  }
  void connect_nodes() {
    network_.emplace(setup_, staging_, transit_);
    node_socket& to_first = here_.sockets[0];
    to_first.send(network_->mine());
    // The answer comes through the first PE when all nodes are here.
    auto answer = to_first.receive();
    if (!answer || answer->kind != wire_kind::all_wirings)
      fail_second_hand(fmt::format("PE {} ended while the job was starting", here_.pes[0]));
    network_->connect(answer->as<all_wirings>(fmt::format("PE {}", here_.pes[0])));
  }
  void start_planes() {
    for (uint32_t i = 0; i < staging_.size(); ++i)
      planes_.push_back(std::make_unique<plane_thread>(setup_, i, network_ ? &network_->of_plane(i) : nullptr,
                                                       staging_[i].data(), transit_.data(), placement_, job_));
    for (auto& p : planes_) p->start();
  }
  /// Stops the planes: nothing moves from now on. Sends `last_words`, if not empty, to the other nodes.
  void end_planes(const std::string& last_words) {
    job_.stop = true;
    for (auto& p : planes_) p->join();
    if (!network_) return;
    if (!last_words.empty()) try {
        for (remote_link* link : network_->of_plane(0).links())
          if (link) link->send({plane_message::abort, setup_.node, 0, 0, 0, 0, 0}, to_wire(abort_message{last_words}));
      } catch (const std::exception& e) {
        log_debug("{}", e.what());
      }
    for (uint32_t i = 0; i < planes_.size(); ++i) network_->of_plane(i).close(std::chrono::milliseconds(500));
  }

  local_pes here_;
  injected_fault injected_;
  spill_budget spill_;
  node_setup setup_;
  placement placement_;
  job_state job_;
  // Destroyed in reverse order: the planes, then what is registered with UCX, then the memory.
  std::span<char> transit_;
  std::vector<std::span<char>> staging_;  ///< by plane
  std::optional<network> network_;        ///< none if there is one node
  std::vector<std::unique_ptr<plane_thread>> planes_;
};

}  // namespace gravel::detail
