#include "host/aggregator/aggregator.hpp"

#include <sys/mman.h>

#include "host/aggregator/pe_watch.hpp"
#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel {
namespace {

/// Stays until the process ends.
std::span<char> map_pages(uint64_t bytes, const char* what) {
  if (bytes == 0) return {};
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail_errno(fmt::format("{} bytes for {}", bytes, what));
  return {static_cast<char*>(at), bytes};
}

}  // namespace

aggregator::aggregator(local_pes here, const settings& values) : here_(std::move(here)), injected_(values.fault) {
  spill_.limit = values.spill_size;
  setup_.nodes = here_.nodes;
  setup_.node = here_.node;
  setup_.values = values;
  for (auto& segment : here_.segments) setup_.local.push_back(&segment);
  setup_.spill = &spill_;
  setup_.fault = &injected_;
  setup_.handler_name = [this](uint32_t id) { return here_.name_of_handler(id); };
}

aggregator::~aggregator() {
  job_.stop = true;
  planes_.clear();
}

int aggregator::run() {
  placement_ = place_threads(setup_.values.aggregator_bind, here_.bus_ids, static_cast<uint32_t>(setup_.values.aggregator_threads));
  if (placement_.threads.empty()) log_info("threads are not bound: {}", placement_.reason);
  transit_ = map_pages(transit_bytes(setup_), "packets of other nodes");
  for (uint64_t i = 0; i < setup_.values.aggregator_threads; ++i)
    staging_.push_back(map_pages(staging_bytes(setup_), "packets to other nodes"));
  if (setup_.nodes.n_nodes() > 1) connect_nodes();
  start_planes();
  for (auto& channel : here_.channels) channel.send(ready_word{});
  pe_watch watch(here_, job_, setup_.values.watchdog_s, [this](const std::string& why) { end_planes(why); });
  if (!watch.run()) return 1;
  // Our PEs are done, so all of the job is (they said goodbye after the last collective).
  job_.over = true;
  end_planes({});
  return 0;
}

void aggregator::connect_nodes() {
  network_.emplace(setup_, staging_, transit_);
  node_channel& to_first = here_.channels[0];
  to_first.send(network_->mine());
  // The answer comes through the first PE when all nodes are here.
  auto answer = to_first.receive();
  if (!answer || answer->kind != wire_kind::all_wirings)
    fail_second_hand(fmt::format("PE {} ended while the job was starting", here_.pes[0]));
  network_->connect(answer->as<all_wirings>(fmt::format("PE {}", here_.pes[0])));
}

void aggregator::start_planes() {
  for (uint32_t i = 0; i < staging_.size(); ++i)
    planes_.push_back(std::make_unique<plane_thread>(setup_, i, network_ ? &network_->of_plane(i) : nullptr, staging_[i].data(),
                                                     transit_.data(), placement_, job_));
  for (auto& p : planes_) p->start();
}

void aggregator::end_planes(const std::string& last_words) {
  job_.stop = true;
  for (auto& p : planes_) p->join();
  if (!network_) return;
  if (!last_words.empty()) try {
      for (remote_link* link : network_->of_plane(0).links())
        if (link) link->send({plane_word::abort, setup_.node, 0, 0, 0, 0, 0}, to_wire(abort_word{last_words}));
    } catch (const std::exception& e) {
      log_debug("{}", e.what());
    }
  for (uint32_t i = 0; i < planes_.size(); ++i) network_->of_plane(i).close(std::chrono::milliseconds(500));
}

}  // namespace gravel
