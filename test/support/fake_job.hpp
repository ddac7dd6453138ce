// A whole job in one process: N nodes of M PEs with real segments, planes, receivers and collectives; links that
// deliver in memory (fake_link.hpp); a clock that the test moves. No UCX, no sockets, one thread.
//
// A seed decides which party goes next. A party that waits (a lane, a host call, a handler) lets the rest of the job go
// on through relax_hook, and if nothing moves for very long, that is an error with a dump and no endless test.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/aggregator/collective.hpp"
#include "host/aggregator/plane.hpp"
#include "host/pe/collective_member.hpp"
#include "host/pe/pe_memory.hpp"
#include "host/pe/receiver.hpp"
#include "test/support/fake_link.hpp"
#include "test/support/shared_pes.hpp"

namespace gravel::detail {

/// Default settings but for these variables.
settings settings_with(const std::map<std::string, std::string>& values);

struct fake_shape {
  uint32_t nodes = 1, pes_per_node = 2;
  uint64_t seed = 1;
  bool self_in_place = true;
  bool peers = false;  ///< the PEs of a node reach each other on the route `peer`, through rings of four small chunks;
                       ///< the own PE in place
  /// Small rings, so that everything wraps and runs full; these override.
  std::map<std::string, std::string> settings = {};
};

struct fake_pe {
  uint32_t pe = 0, node = 0;
  shared_pe shared;  ///< of the PE's device, and its routes
  std::unique_ptr<pe_segment> segment;
  std::unique_ptr<collective_member> collectives;
  std::unique_ptr<pe_memory> memory;
  gravel_t kernel{}, host_thread{}, device_handler{}, host_handler{};  ///< handles
  std::unique_ptr<host_receiver> receiver[2];
  /// Kernels that serve the rings into this PE: so many lanes each.
  static constexpr uint32_t ring_lanes = 3;
  std::vector<uint64_t> drawn;     ///< [source]
  std::vector<ring_place> places;  ///< [lane][source]
  bool receiving[2] = {};          ///< its handler waits further down the stack

  /// The symmetric object at `offset`: the same address arithmetic as a program's pointer.
  template <class T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(memory->heap().at() + offset);
  }
};

struct fake_node {
  node_setup setup;
  spill_budget spill;
  std::vector<std::vector<unit>> staging;
  std::vector<unit> transit;
  std::vector<std::vector<std::unique_ptr<fake_link>>> links;  ///< [plane][node]: from here
  std::vector<std::unique_ptr<plane>> planes;
  std::unique_ptr<collective> collectives;
};

class fake_job {
 public:
  using receive_function = bool (*)(host_receiver&);
  using apply_function = message_fault (*)(const gravel_t&, const unit*, uint32_t units);
  template <class List>
  static bool receive_with(host_receiver& r) {
    return r.receive<List>();
  }
  template <class List>
  static message_fault apply_with(const gravel_t& g, const unit* message, uint32_t units) {
    return apply_message<List>(g, sink_kind::device, message, units);
  }
  fake_job(const fake_shape&, handler_table, receive_function, apply_function);
  template <class... Handlers>
  static std::unique_ptr<fake_job> with(const fake_shape& shape) {
    return with_list<handler_list<Handlers...>>(shape);
  }
  template <class List>
  static std::unique_ptr<fake_job> with_list(const fake_shape& shape) {
    return std::make_unique<fake_job>(shape, List::table(), receive_with<List>, apply_with<List>);
  }
  ~fake_job();
  fake_job(const fake_job&) = delete;

  uint32_t n_pes() const { return static_cast<uint32_t>(pes_.size()); }
  fake_pe& pe(uint32_t i) { return *pes_[i]; }
  fake_node& node(uint32_t i) { return *nodes_[i]; }
  plane& plane_of(uint32_t node, uint32_t index = 0) { return *nodes_[node]->planes[index]; }
  random_numbers& draw() { return draw_; }
  /// Sum over the planes of the job.
  uint64_t stat_of(stat) const;

  uint64_t now = 1'000'000;      ///< us
  uint32_t clock_step = 3;       ///< the clock advances by 0 to clock_step - 1 us a step; 0: the test moves it
  bool handlers_paused = false;  ///< receivers are not stepped
  /// May change what arrives.
  std::function<void(fake_link::delivery&)> tamper;

  // --- one actor each
  bool step_plane(uint32_t node, uint32_t index);
  bool step_plane(uint32_t node, uint32_t index, uint64_t when);
  bool step_receiver(uint32_t pe, sink_kind);
  bool step_collective(uint32_t node);
  bool deliver(uint32_t from, uint32_t to, uint32_t plane) { return deliver(from, to, plane, draw_, now); }
  /// For a plane on a thread of its own.
  bool deliver(uint32_t from, uint32_t to, uint32_t plane, random_numbers& draw, uint64_t when);

  /// One party takes a step, or each party one, in an order drawn from the seed. Throws gravel::error when a device
  /// error was reported and not taken.
  bool step();
  template <class F>
  void step_until(F ready) {
    for (uint64_t idle = 0; !ready();) check_idle(idle = step() ? 0 : idle + 1);
  }
  /// Until nothing moves any more, whatever the clock says.
  void settle();

  // --- what a PE does
  /// Runs `kernel` (no arguments) in every lane, as one PE. Seed 0: plain order.
  template <class F>
  void launch(dim3 grid, dim3 block, uint64_t seed, F kernel, size_t shared_bytes = 0) {
    simt::launch_options options{};
    options.threads = 1;
    options.seed = seed;
    options.shared_bytes = shared_bytes;
    simt::launch(grid, block, options, [&] {
      enter_lane();
      kernel();
    });
  }
  /// As completion::quiet.
  void quiet(uint32_t pe);
  void quiet_all();
  /// All PEs call a collective of this kind and contribute; the words that each of them got.
  std::vector<collective_words> combine(const std::vector<collective_words>& mine,
                                        collective_kind kind = collective_kind::barrier);
  /// A collective with data, which all PEs receive (collective_member::result_data).
  void exchange(const std::vector<std::vector<std::byte>>& mine);

  std::string describe() const;
  /// The first error a PE's device or host threads have reported; code 0: none.
  device_error error_of(uint32_t pe) const;

  /// The rest of the job goes on while something waits.
  void serve();
  static fake_job& current();

 private:
  void make_pe(uint32_t pe);
  void make_handles(fake_pe&);
  void make_node(uint32_t node);
  bool serve_ring(fake_pe&, uint32_t lane, uint32_t source);
  void enter_lane();
  void check_idle(uint64_t idle) const;
  bool step_actor(uint32_t actor);

  fake_shape shape_;
  settings values_;
  handler_table handlers_;
  receive_function receive_;
  apply_function apply_;
  topology topology_;
  random_numbers draw_;
  std::vector<std::unique_ptr<fake_pe>> pes_;
  std::vector<std::unique_ptr<fake_node>> nodes_;
  uint32_t n_planes_ = 1, n_actors_ = 0;
  uint64_t idle_ = 0;  ///< serve() calls in a row in which nothing moved
  uint64_t collective_calls_ = 0;
};

}  // namespace gravel::detail
