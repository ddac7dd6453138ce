// gravel_router and gravel_link: endpoints that are connected by a policy.
#pragma once
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/link/forwarder.cuh"
#include "lib/link/link_kernel.cuh"
#include "lib/link/link_receiver.cuh"
#include "lib/link/link_sender.cuh"
#include "lib/link/path.cuh"

/// Where a router sends segments: of all outputs, or of those that gravel_link_options::choose names.
enum gravel_policy : uint8_t {
  GRAVEL_BROADCAST,       ///< each segment to all outputs
  GRAVEL_SCATTER,         ///< each packet to the output that has a free buffer first, or equal shares to all
  GRAVEL_POINT_TO_POINT,  ///< each segment to one output: the first with a free buffer
  GRAVEL_GATHER,          ///< all inputs send to the one output, in the order of arrival
  GRAVEL_CHAIN,           ///< arrays of all inputs, combined from one to the next; the output is the last (reductions:
                          ///< lib/link/reduce.cuh)
  GRAVEL_TREE,            ///< arrays of all inputs, combined as a tree whose root is the output
  GRAVEL_RING             ///< each endpoint sends to the next: allreduce and broadcast
};

/// Options, the same at all PEs except `choose`.
struct gravel_link_options {
  uint32_t packet_bytes = GRAVEL_CUDA ? 1 << 20 : 4096;  ///< 1 to 2^27; rounded up to a multiple of 16
  uint32_t buffers = 2;                                  ///< packets at a destination, 1 to 1024; 2 is double buffering
  uint32_t lanes = 1;  ///< rings of a link, each with `buffers` buffers; one block of a kernel drives each
  uint32_t blocks = GRAVEL_CUDA ? 32 : 2;  ///< the most blocks of a kernel that sends for the host
  /// A copy engine carries packets of at least so many bytes, if the destination's memory is mapped and the host knows
  /// the output beforehand: links, broadcast, gather, equal shares. Multiprocessors stay free. A small kernel precedes
  /// each copy, so packets should be large.
  uint32_t copies_from = gravel_no_copies;
  bool equal_shares = false;  ///< GRAVEL_SCATTER: outputs get equal shares, whichever has a free buffer
  /// The program's part of the policy: returns the numbers of the outputs that a segment of this size and metadata may
  /// go to. A broadcast goes to all of these, a scatter packet by packet to one of these, and with
  /// GRAVEL_POINT_TO_POINT the segment to one of these. Without it: all outputs. Not with equal shares. Where a router
  /// feeds the input, a thread of Gravel calls it, with the size of the segment's first packet.
  std::function<std::vector<int>(uint64_t bytes, uint64_t metadata, const gravel_endpoint& source,
                                 const std::vector<gravel_endpoint>& outputs)>
      choose{};
};

class gravel_link;

/// Endpoints that are connected by a policy. The router is open from its constructor to its destructor, which are
/// collective. Thread scope: the program's host thread.
///
/// An input may be an output of another router, as_input(): its segments then enter this router without the program.
/// The destructor of such a router also shuts down the inputs of the routers that feed it.
/// @scope the program's host thread
/// @completion on return
/// @errors gravel::error
/// @source Groute, sections 3 and 4.1 to 4.2
class gravel_router {
  friend class gravel_link;

 public:
  /// Opens a router. Collective.
  /// @param inputs endpoints that send, the same at all PEs; also as_input() of routers that are open
  /// @param outputs endpoints that receive, the same at all PEs
  /// @param policy which output a segment goes to
  /// @param how the same at all PEs, except `choose`
  /// @param name for error messages
  /// @errors gravel::error, on all PEs, for invalid arguments, or if PEs differ: the message names the endpoints
  gravel_router(std::vector<gravel_endpoint> inputs, std::vector<gravel_endpoint> outputs, gravel_policy policy,
                const gravel_link_options& how = {}, const char* name = "gravel_router")
      : inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        open_(text_of(name, inputs_, outputs_)),
        policy_(policy),
        how_(how),
        name_(name),
        rings_(std::make_shared<gravel::detail::ring_set>(
            name, edges_of(inputs_, outputs_, policy, how),
            gravel::detail::ring_shape{how.packet_bytes, how.buffers, how.lanes})) {
    make_ends();
  }
  /// Opens a router over links that are open and have carried nothing yet. The router takes these links and their
  /// buffers; from now on the links' own ends must not be used. There must be a link for each pair that the policy
  /// connects, the same at all PEs. All have packets of one size, and for chains, trees and rings the same buffers and
  /// lanes. Other links are not changed. Collective.
  /// @param links open, the same at all PEs
  /// @param inputs endpoints that send
  /// @param outputs endpoints that receive
  /// @param policy which output a segment goes to
  /// @param how without packets, buffers and lanes
  gravel_router(const std::vector<gravel_link*>& links, std::vector<gravel_endpoint> inputs,
                std::vector<gravel_endpoint> outputs, gravel_policy policy, const gravel_link_options& how = {});

  /// @internal
  gravel_router(const gravel_router&) = delete;
  gravel_router& operator=(const gravel_router&) = delete;
  /// @internal
  ~gravel_router() noexcept(false) {
    open_routers_.erase(id_);
    if (feeding_.empty() || std::uncaught_exceptions() != exceptions_) return;
    shut_down_inputs();
    receivers_.clear();           // what is still to come here is dropped
    gravel_sum_all(uint64_t{0});  // now no PE receives any more: the forwarder may stop
  }

  /// Returns an output of this router as an input of another one: segments that arrive at the output go on into that
  /// router, and the end of all that feed the output ends the input. A router that is opened later takes it, once; from
  /// then on this output cannot be used by the program. All PEs call it.
  /// @param output number of an output that is a device
  /// @completion on return
  /// @errors gravel::error if there is no such output, or it is a host, or this is a chain, tree or ring
  gravel_endpoint as_input(int output = 0) const {
    if (!moves_segments())
      gravel::detail::fail_text(name_ +
                                "::as_input: chains, trees and rings combine arrays: no segments leave them for other "
                                "routers");
    if (output < 0 || output >= static_cast<int>(outputs_.size()))
      gravel::detail::fail_text(name_ + "::as_input: there is no output " + std::to_string(output) + ", but 0 to " +
                                std::to_string(outputs_.size() - 1));
    gravel_endpoint end = outputs_[static_cast<size_t>(output)];
    if (end.kind != gravel_endpoint::device)
      gravel::detail::fail_text(name_ + "::as_input: output " + std::to_string(output) + " is " +
                                gravel::detail::text_of(end) +
                                ": segments go on from device memory: make the output a gravel_device");
    end.router = id_;
    return end;
  }

  /// The sending end of an input of this PE.
  /// @param number of the input; -1: the PE's first
  /// @errors gravel::error if it is another PE's
  gravel_sender& input(int number = -1) { return *end_of(senders_, inputs_, number, "input"); }
  /// The receiving end of an output of this PE.
  /// @param number of the output; -1: the PE's first
  /// @errors gravel::error if it is another PE's
  gravel_receiver& output(int number = -1) { return *end_of(receivers_, outputs_, number, "output"); }

  /// Returns the handle of a chain, a tree or a ring, for kernels (lib/link/reduce.cuh).
  gravel_path_handle path() const {
    if (moves_segments())
      gravel::detail::fail_text("gravel_router::path: the router moves segments; chains, trees and rings have a path");
    for (uint32_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].pe == gravel_my_pe())
        return {gravel_handle(), rings_->device_ring(0), how_.lanes, static_cast<uint32_t>(inputs_.size()), i, policy_,
                directly_};
    gravel::detail::fail_text("gravel_router::path: PE " + std::to_string(gravel_my_pe()) + " is not on the path");
  }
  /// Returns the handle of a path over all of whose links kernels store.
  /// @errors gravel::error if messages carry packets on a link of the path
  gravel_direct_path_handle direct_path() const {
    if (!directly_)
      gravel::detail::fail_text(
          "gravel_router::direct_path: kernels cannot store over some link of the path: take path()");
    return {path()};
  }
  /// Returns whether kernels store over all links of a path.
  bool is_direct() const { return directly_; }
  /// Returns the router's policy.
  gravel_policy policy() const { return policy_; }
  /// Returns the endpoints that send.
  const std::vector<gravel_endpoint>& inputs() const { return inputs_; }
  /// Returns the endpoints that receive.
  const std::vector<gravel_endpoint>& outputs() const { return outputs_; }
  /// Returns the options with which the router was opened.
  const gravel_link_options& options() const { return how_; }
  /// @internal
  gravel::detail::event_pool& path_events() { return path_events_; }
  /// Symmetric memory that it takes, bytes at each PE.
  uint64_t bytes() const { return rings_->bytes(); }
  /// @internal
  gravel::detail::ring_set& rings() { return *rings_; }
  /// @internal
  const gravel::detail::ring_set& rings() const { return *rings_; }

 private:
  using edge_list = std::vector<gravel::detail::link_edge>;
  static std::string text_of(const std::string& name, const std::vector<gravel_endpoint>& inputs,
                             const std::vector<gravel_endpoint>& outputs) {
    if (inputs.empty() || outputs.empty()) return name;
    return name + " (" + gravel::detail::text_of(inputs[0], outputs[0]) +
           (inputs.size() + outputs.size() > 2 ? " and others)" : ")");
  }
  bool moves_segments() const { return policy_ <= GRAVEL_GATHER; }
  /// Returns the number of the output that `input` was made of.
  size_t output_of(const gravel_endpoint& input) const {
    return static_cast<size_t>(std::find(outputs_.begin(), outputs_.end(), input) - outputs_.begin());
  }

  /// Checks the inputs that other routers feed. Collective if there are any.
  static void check_feeding(const std::vector<gravel_endpoint>& inputs, const std::vector<gravel_endpoint>& outputs,
                            gravel_policy policy, const gravel_link_options& how) {
    for (const gravel_endpoint& out : outputs)
      if (out.router)
        gravel::detail::fail_text("gravel_router: an output, " + gravel::detail::text_of(out) +
                                  ", is another router's as_input(): open the router that sends first, and list its "
                                  "as_input() among the inputs of the router that receives");
    bool is_fed = false;
    std::string used;
    for (const gravel_endpoint& in : inputs) {
      if (!in.router) continue;
      is_fed = true;
      const std::string what = "gravel_router: an input is an output of another router, " + gravel::detail::text_of(in);
      if (policy > GRAVEL_GATHER)
        gravel::detail::fail_text(what + ": chains, trees and rings combine arrays: no router can feed them");
      if (policy == GRAVEL_SCATTER && how.equal_shares)
        gravel::detail::fail_text(what + ", whose packets come one by one: equal shares need whole segments");
      const auto found = open_routers_.find(in.router);
      if (found == open_routers_.end()) gravel::detail::fail_text(what + ", but that router is closed");
      const gravel_router& from = *found->second;
      const size_t output = from.output_of(in);
      if (from.feeds_[output]) gravel::detail::fail_text(what + ", but it feeds a router already: it can feed one");
      if (from.receivers_[output] && from.receivers_[output]->was_used())
        used = what + ", but the program has received there before";
    }
    if (is_fed && gravel_max_all(used.empty() ? 0u : 1u) != 0)
      gravel::detail::fail_text(used.empty() ? "gravel_router: refused at another PE" : used);
  }
  /// Starts to forward from the routers that feed this one.
  void connect() {
    std::vector<gravel::detail::junction> here;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].router) continue;
      gravel_router& from = *open_routers_.at(inputs_[i].router);
      const size_t output = from.output_of(inputs_[i]);
      from.feeds_[output] = true;
      feeding_.push_back({inputs_[i].router, from.rings_});
      // A broadcast's sender serves its outputs in turn. If one of them waited for the rest of a segment, and another
      // for that of another segment, both would wait for ever.
      is_parallel_ |= from.is_parallel_;
      if (inputs_[i].pe != gravel_my_pe()) continue;
      const std::shared_ptr<gravel_receiver>& end = from.receivers_[output];
      here.push_back({end, senders_[i].get(), end->sources() == 1 || !from.is_parallel_});
    }
    if (!here.empty()) forwarder_ = std::make_unique<gravel::detail::forwarder>(here);
  }
  /// Shuts down what the program sends into the routers that feed this one, directly or through others.
  void shut_down_inputs() {
    for (const feeding& f : feeding_) {
      const auto found = open_routers_.find(f.router);
      if (found == open_routers_.end()) continue;  // closed, and so shut down
      gravel_router& from = *found->second;
      for (size_t i = 0; i < from.senders_.size(); ++i)
        if (from.senders_[i] && !from.inputs_[i].router && !from.senders_[i]->is_shut_down())
          from.senders_[i]->shutdown();
      from.shut_down_inputs();
    }
  }

  static edge_list edges_of(const std::vector<gravel_endpoint>& inputs, const std::vector<gravel_endpoint>& outputs,
                            gravel_policy policy, const gravel_link_options& how) {
    if (inputs.empty() || outputs.empty()) gravel::detail::fail_text("gravel_router: it has no inputs, or no outputs");
    check_feeding(inputs, outputs, policy, how);
    const size_t n = inputs.size();
    edge_list edges;
    if (policy <= GRAVEL_GATHER) {
      if (outputs.size() > gravel::detail::most_outputs)
        gravel::detail::fail_text("gravel_router: " + std::to_string(outputs.size()) + " outputs; there may be " +
                                  std::to_string(gravel::detail::most_outputs));
      if (policy == GRAVEL_GATHER && outputs.size() != 1)
        gravel::detail::fail_text("gravel_router: gather has one output, not " + std::to_string(outputs.size()));
      if (how.lanes != 1 && n * outputs.size() > 1)
        gravel::detail::fail_text("gravel_router: " + std::to_string(how.lanes) +
                                  " lanes; they are for links of two endpoints, chains, trees and rings");
      for (const auto& in : inputs)
        for (const auto& out : outputs) edges.push_back({in, out});
      return edges;
    }
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < i; ++k)
        if (inputs[i].pe == inputs[k].pe)
          gravel::detail::fail_text("gravel_router: PE " + std::to_string(inputs[i].pe) + " is on the path twice, as " +
                                    gravel::detail::text_of(inputs[k]) + " and " + gravel::detail::text_of(inputs[i]));
    if (policy == GRAVEL_RING) {
      if (how.buffers < 2)
        gravel::detail::fail_text(
            "gravel_router: a ring with 1 buffer; it needs 2, as each PE holds a packet while it passes on what it "
            "made of it");
      if (outputs != inputs)
        gravel::detail::fail_text("gravel_router: inputs and outputs of a ring are the same endpoints");
      for (size_t i = 0; n > 1 && i < n; ++i) edges.push_back({inputs[i], inputs[(i + 1) % n]});
      return edges;
    }
    if (outputs.size() != 1 || !(outputs[0] == inputs.back()))
      gravel::detail::fail_text("gravel_router: the output of a reduction along a chain or tree is its last input");
    // A binary tree: the root is the last input, place 0; places are counted from there, and the children of place i
    // are 2 i + 1 and 2 i + 2.
    for (size_t i = 0; i + 1 < n; ++i)
      edges.push_back({inputs[i], policy == GRAVEL_CHAIN ? inputs[i + 1] : inputs[n - 1 - (n - 2 - i) / 2]});
    return edges;
  }

  void make_ends() {
    feeds_.resize(outputs_.size());
    if (moves_segments()) {
      make_senders_and_receivers();
      connect();
      open_routers_[id_] = this;
      return;
    }
    path_events_ = rings_->sender_events(rings_->edges().size());
    bool reaches = true;
    for (const gravel::detail::link_edge& e : rings_->edges())
      if (e.source.pe == gravel_my_pe()) reaches &= rings_->reaches(e.destination.pe);
    directly_ = gravel_min_all(uint64_t{reaches}) != 0;
  }
  void make_senders_and_receivers() {
    const auto n_out = static_cast<uint32_t>(outputs_.size());
    senders_.resize(inputs_.size());
    receivers_.resize(outputs_.size());
    auto way = gravel::detail::send_way::any;
    if (policy_ == GRAVEL_BROADCAST || n_out == 1) way = gravel::detail::send_way::all;
    else if (policy_ == GRAVEL_POINT_TO_POINT) way = gravel::detail::send_way::one;
    else if (how_.equal_shares) way = gravel::detail::send_way::shares;
    is_parallel_ = n_out > 1 && (way == gravel::detail::send_way::all || way == gravel::detail::send_way::shares);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].pe != gravel_my_pe()) continue;
      gravel_sender::choice choose;
      if (how_.choose)
        choose = [this, i](uint64_t bytes, uint64_t metadata) {
          return how_.choose(bytes, metadata, inputs_[i], outputs_);
        };
      senders_[i] = std::make_unique<gravel_sender>(*rings_, i * n_out, n_out, way, how_.blocks, how_.copies_from,
                                                    std::move(choose));
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o].pe != gravel_my_pe()) continue;
      std::vector<size_t> edges;
      for (size_t i = 0; i < inputs_.size(); ++i) edges.push_back(i * n_out + o);
      receivers_[o] = std::make_shared<gravel_receiver>(*rings_, std::move(edges));
    }
  }
  void check_own() const {
    if (taken_)
      gravel::detail::fail_text(name_ + ": a router has taken " + gravel::detail::text_of(inputs_[0], outputs_[0]) +
                                ": use the router's ends");
  }
  void hand_over() {
    taken_ = true;
    for (const auto& end : senders_)
      if (end) end->hand_over();
    for (const auto& end : receivers_)
      if (end) end->hand_over();
  }
  /// Returns whether an end is used by the forwarder of this router, or of another one.
  bool is_forwarded(const std::unique_ptr<gravel_sender>&, size_t number) const { return inputs_[number].router != 0; }
  bool is_forwarded(const std::shared_ptr<gravel_receiver>&, size_t number) const { return feeds_[number]; }
  template <class End>
  const End& end_of(const std::vector<End>& ends, const std::vector<gravel_endpoint>& at, int number,
                    const std::string& what) const {
    check_own();
    if (ends.empty())
      gravel::detail::fail_text(name_ + ": a chain, tree or ring has no " + what + " of its own: it combines arrays");
    size_t forwarded = ends.size();
    for (size_t i = 0; i < ends.size(); ++i) {
      if (!ends[i] || (number >= 0 && static_cast<size_t>(number) != i)) continue;
      if (!is_forwarded(ends[i], i)) return ends[i];
      forwarded = i;
    }
    if (forwarded < ends.size())
      gravel::detail::fail_text(name_ + ": " + what + " " + std::to_string(forwarded) + ", " +
                                gravel::detail::text_of(at[forwarded]) +
                                ", is a junction of two routers: Gravel forwards the segments there");
    const std::string pe = "PE " + std::to_string(gravel_my_pe());
    if (number >= 0)
      gravel::detail::fail_text(
          name_ + ": " + what + " " + std::to_string(number) + " is not one of " + pe + ", but of " +
          (static_cast<size_t>(number) < at.size() ? gravel::detail::text_of(at[static_cast<size_t>(number)])
                                                   : "no PE"));
    std::string all;
    for (const gravel_endpoint& end : at) all += (all.empty() ? "" : ", ") + gravel::detail::text_of(end);
    gravel::detail::fail_text(name_ + ": " + pe + " has no " + what + " here; there is " + all);
  }

  std::vector<gravel_endpoint> inputs_, outputs_;
  gravel::detail::open_object open_;
  gravel_policy policy_;
  gravel_link_options how_;
  gravel::detail::event_pool path_events_;
  bool directly_ = false;  ///< for a path: kernels store over all its links
  std::string name_;
  bool taken_ = false;  ///< for a link: a router uses its rings
  std::shared_ptr<gravel::detail::ring_set> rings_;
  std::vector<std::unique_ptr<gravel_sender>> senders_;
  std::vector<std::shared_ptr<gravel_receiver>>
      receivers_;  // destroyed before senders, which wait for other PEs' receivers
  /// A router that feeds this one, and its rings, which last as long.
  struct feeding {
    uint32_t router;
    std::shared_ptr<gravel::detail::ring_set> rings;
  };
  std::vector<feeding> feeding_;
  std::vector<bool> feeds_;   ///< [outputs] the output feeds another router
  bool is_parallel_ = false;  ///< a segment goes to several outputs at once, here or in a router that feeds this one
  std::unique_ptr<gravel::detail::forwarder> forwarder_;  // destroyed before the ends that it uses
  int exceptions_ = std::uncaught_exceptions();
  /// Routers are opened in the same order at all PEs, so their numbers are the same.
  GRAVEL_API static inline uint32_t last_id_ = 0;
  GRAVEL_API static inline std::map<uint32_t, gravel_router*> open_routers_;
  uint32_t id_ = ++last_id_;
};

/// A link of two endpoints. It is open from its constructor to its destructor. Both are collective: all PEs call them,
/// also PEs that have no end of the link.
/// @scope the program's host thread
/// @completion of send(): the event that it returns; of the others on return
/// @errors gravel::error
/// @source Groute, sections 3 and 4.1
class gravel_link {
 public:
  /// Opens a link. Collective.
  /// @param source where segments are sent
  /// @param destination where they arrive
  /// @param how the same at all PEs
  gravel_link(const gravel_endpoint& source, const gravel_endpoint& destination, const gravel_link_options& how = {})
      : router_({source}, {destination}, GRAVEL_POINT_TO_POINT, how, "gravel_link") {}
  /// Opens a link. Collective.
  /// @param source where segments are sent
  /// @param destination where they arrive
  /// @param packet_bytes 1 to 2^27
  /// @param buffers packets at the destination, 1 to 1024
  gravel_link(const gravel_endpoint& source, const gravel_endpoint& destination, uint32_t packet_bytes,
              uint32_t buffers)
      : gravel_link(source, destination, gravel_link_options{.packet_bytes = packet_bytes, .buffers = buffers}) {}

  // Calls at the source's PE.
  /// Sends a segment, as gravel_sender::send.
  /// @param data memory of the source's device
  /// @param bytes 0 or more
  /// @param how stream, event to wait for, metadata
  gravel_event send(const void* data, uint64_t bytes, const gravel_send_call& how = {}) {
    return sender().send(data, bytes, how);
  }
  /// Ends the stream of segments, as gravel_sender::shutdown.
  /// @param how stream and event to wait for
  gravel_event shutdown(const gravel_send_call& how = {}) { return sender().shutdown(how); }
  /// The sending end; at the source's PE.
  gravel_sender& sender() { return router_.input(); }
  // Calls at the destination's PE.
  /// Requests the next segment, as gravel_receiver::receive.
  gravel_pending_segment receive() { return receiver().receive(); }
  /// Returns the buffer of a segment, as gravel_receiver::release.
  /// @param segment what get() returned
  /// @param stream the release follows the work in this stream; nullptr: the PE's own stream
  void release(const gravel_segment& segment, gravel_stream_t stream = nullptr) { receiver().release(segment, stream); }
  /// The receiving end; at the destination's PE.
  gravel_receiver& receiver() { return router_.output(); }

  /// Returns the handle for kernels that drive an end, block by block (lib/link/link_kernel.cuh). The host must not use
  /// that end, too.
  gravel_link_handle handle() const {
    router_.check_own();
    return {gravel_handle(), router_.rings().device_ring(0), router_.options().lanes};
  }
  /// Returns whether kernels store everything directly into the destination's memory; at the source's PE.
  bool is_direct() { return sender().is_direct(); }
  /// Symmetric memory that it takes, bytes at each PE.
  uint64_t bytes() const { return router_.bytes(); }

 private:
  friend class gravel_router;
  gravel_router router_;
};

inline gravel_router::gravel_router(const std::vector<gravel_link*>& links, std::vector<gravel_endpoint> inputs,
                                    std::vector<gravel_endpoint> outputs, gravel_policy policy,
                                    const gravel_link_options& how)
    : inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      open_(text_of("gravel_router", inputs_, outputs_)),
      policy_(policy),
      how_(how),
      name_("gravel_router") {
  gravel::detail::ring_set::rings_before used;
  std::string wrong;
  how_.lanes = 1;
  how_.buffers = 2;  // of a ring; the links' own number is checked below
  for (const gravel::detail::link_edge& e : edges_of(inputs_, outputs_, policy, how_)) {
    const auto found = std::find_if(links.begin(), links.end(), [&](const gravel_link* l) {
      return l->router_.inputs_[0] == e.source && l->router_.outputs_[0] == e.destination;
    });
    const std::string text = gravel::detail::text_of(e.source, e.destination);
    if (found == links.end())
      gravel::detail::fail_text(name_ + ": " + text + " is not among the links, and the policy needs it");
    gravel_router& link = (*found)->router_;
    if (link.taken_) gravel::detail::fail_text(name_ + ": another router has taken " + text);
    for (const auto& end : link.senders_)
      if (end && end->was_used()) wrong = text + " has been used before";
    for (const auto& end : link.receivers_)
      if (end && end->was_used()) wrong = text + " has been used before";
    if (policy == GRAVEL_RING && link.how_.buffers < 2) wrong = text + " has 1 buffer; links of a ring need 2";
    const gravel::detail::ring_shape &here = link.rings_->shape(), &first = used.empty() ? here : used[0]->shape();
    if (!moves_segments() && (here.buffers != first.buffers || here.lanes != first.lanes))
      wrong = text + " has other buffers or lanes than others of the path";
    used.push_back(link.rings_);
  }
  if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
    gravel::detail::fail_text(name_ + ": " + (wrong.empty() ? std::string("refused at another PE") : wrong));
  how_.lanes = moves_segments() || used.empty() ? 1 : used[0]->shape().lanes;
  if (used.empty()) {  // one PE
    rings_ = std::make_shared<gravel::detail::ring_set>(name_, edge_list{}, gravel::detail::ring_shape{16, 2, 1});
  } else {
    how_.packet_bytes = used[0]->shape().packet_bytes;
    how_.buffers = used[0]->shape().buffers;
    rings_ = std::make_shared<gravel::detail::ring_set>(name_, used, how_.lanes);
    for (const gravel::detail::link_edge& e : rings_->edges())
      for (gravel_link* l : links)
        if (l->router_.inputs_[0] == e.source && l->router_.outputs_[0] == e.destination) l->router_.hand_over();
  }
  make_ends();
}
