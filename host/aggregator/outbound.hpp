// The packets of one plane for one destination: a sink (a PE's device or host), or another node that forwards.
//
// On the same node a packet is built in the landing slot itself. For another node it is built in registered staging
// memory, put into the landing slot, and announced. Sequence s may be opened once packet s - packets is freed:
//
//   applied <= freed <= sequence <= freed + packets        (sequence: packets closed so far)
//
// Long pieces of rows are not copied into staging memory. An open packet already has its landing slot. So each piece of
// at least GRAVEL_ZERO_COPY_SIZE bytes is put to its place there as soon as it is appended, straight from the slot of
// the queue. The bytes between two such pieces are copied, and put when the next piece follows. Header and table, and
// the bytes copied directly behind them, are put when the packet is closed. The notice follows that last put. A notice
// says that all puts before it have arrived, too:
//
//   staging memory    [header, table, copied]              [copied]                     [copied]
//   slots of queues                           [piece, 1st]          [2nd, of this slot or of another]
//   order of puts               5                  1           2             3              4 and, behind 5, the notice
//
// So a slot is read as long as `puts` of it are under way, however early its packet is closed or applied. The slot
// returns to its producers when the plane has taken all of it and none of its puts is under way. Slots return in order,
// as `consumed` is one count (plane_source.hpp). A put waits for the network and for the other node's progress() only,
// never for credits. So a slot does not wait long for its puts. If the connection breaks, its slots never return: the
// network may still read them. The model is test/models/zero_copy.pml.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "host/aggregator/fault.hpp"
#include "host/node/stats.hpp"
#include "lib/base/landing.hpp"

namespace gravel::detail {

/// Kinds of messages between planes. plane_header is the header of such a message, a UCX active message.
enum class plane_message : uint32_t {
  packet,
  notice,
  credit,
  contribution,
  result,
  pulse,
  abort,
  flush,
  doorbell,
  waiting
};
struct plane_header {
  plane_message kind;
  uint32_t source_node;
  uint32_t sink;  ///< packet, notice, credit, flush: the stream's sink, or transit_sink
  uint32_t plane;
  uint64_t sequence;  ///< packet, notice: of the packet; flush: all packets below it; collectives: of the collective;
                      ///< doorbell: the PE; waiting: a waiting_word()
  uint64_t a, b;      ///< notice: bytes; credit: freed, applied; waiting: a: the PE
};
static_assert(sizeof(plane_header) == 40);

/// The way of a plane to the same plane of one other node. Only the plane's thread calls it.
class remote_link {
 public:
  virtual ~remote_link() = default;
  /// Writes into landing memory of the other node. `local` must stay unchanged. With `puts`: until the link has
  /// decremented *puts, which says that `local` was read. That may happen before this call returns, and never happens
  /// if the connection breaks. Without `puts` (nullptr): until the packet's credit has come back.
  virtual void put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, uint32_t* puts) = 0;
  /// Does what put() does. When these bytes and those of all earlier puts have arrived, sends the notice. `local` must
  /// stay unchanged until the packet's credit has come back.
  virtual void put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset,
                              const plane_header& notice) = 0;
  /// Sends header and data. The caller may reuse both at once.
  virtual void send(const plane_header&, std::span<const std::byte> data) = 0;
  /// Sends a packet, which must stay unchanged until its credit has come back.
  virtual void send_packet(const plane_header& header, std::span<const std::byte> packet) { send(header, packet); }
  /// True if a packet of any size is faster inside a message than by a put.
  virtual bool prefers_messages() const { return false; }
};

/// Landing slots of a remote stream: the byte offset of slot 0 in a region of the other node.
struct remote_slots {
  uint32_t region = 0;
  uint64_t offset = 0;
};

enum class close_cause { full, age, flush, idle };

/// Messages that share a packet: all for a destination; or, for comparison, only those of one row; or none.
enum class aggregation : uint8_t { packets, rows, messages };

/// Memory for messages that receivers send beyond their credits. The planes of an aggregator share it. Answers to gets
/// and fetching operations are never refused: there are at most as many as requests under way (docs/message.md,
/// "Memory").
struct spill_budget {
  std::atomic<uint64_t> used{0};     ///< bytes of handlers' messages
  std::atomic<uint64_t> answers{0};  ///< bytes of answers
  uint64_t limit = 0;                ///< limit of `used`
};

class outbound;

/// Where messages lie that were appended to an outbound: in packets below `packets`. While `backlog` is not 0 they are
/// among the first `backlog` messages that ever entered the backlog.
struct position {
  outbound* to;
  uint64_t packets, backlog;
};

class outbound {
 public:
  struct common {
    uint32_t node, plane, packets;  ///< node: this plane's own
    uint64_t packet_size, eager_size, zero_copy_size;
    spill_budget* spill;
    stats_row* stats;
    injected_fault* fault = nullptr;
    aggregation together = aggregation::packets;
  };
  /// Same node: `ring` is the destination's landing ring, `stream` the number of this stream in it.
  outbound(const common&, landing ring, uint32_t stream, uint64_t* arrivals);
  /// Other node: `staging` has room for `packets` packets. The owner of the link has registered it.
  outbound(const common&, uint32_t sink, remote_link&, remote_slots, char* staging);

  /// Takes up to `messages` messages of one row; fewer (even 0) when all packets are in flight. A packet that is full
  /// leaves. With `puts`: `from` lies in registered memory and does not change while *puts, which this call increments,
  /// is not 0. Without `puts` (nullptr) all is copied.
  uint32_t append(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages, uint64_t now,
                  uint32_t* puts = nullptr);
  /// Takes all messages. What the packets in flight leave over goes to the backlog. False: the handlers' budget is used
  /// up.
  bool append_or_spill(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages, uint64_t now);
  /// For a destination that has had no credit for long: takes up to `messages` messages into the backlog, as long as
  /// the backlog is smaller than the packets that may be in flight. Returns how many. The rest has to wait.
  uint32_t add_to_backlog(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages);
  bool has_deferred_backlog() const { return deferred_bytes_ != 0; }
  bool drain_backlog(uint64_t now);
  bool has_backlog() const { return !backlog_.empty(); }

  bool has_open_messages() const { return writer_.is_open() && !writer_.empty(); }
  /// True if the open packet gains little by waiting for more messages.
  bool has_large_open() const { return has_open_messages() && writer_.has_large(); }
  /// Sends the open packet unless it is empty.
  void close(close_cause);
  uint64_t opened_at() const { return opened_at_; }

  /// Position of the message appended last.
  position last() { return {this, sequence_ + has_open_messages(), has_backlog() ? waited_ : 0}; }
  bool is_applied(position&);
  /// Called when somebody waits for the messages at this position: sends them, and asks an intermediate node to forward
  /// them at once. False: they still wait for credits.
  bool send_now(position&);

  /// Same node: reads the receiver's `done` words. True if any of them was new.
  bool poll_done();
  /// Other node: takes a credit. Throws gravel::error if its counts are impossible.
  void credit(uint64_t freed, uint64_t applied);

  bool is_local() const { return link_ == nullptr; }
  bool busy() const { return applied_ != sequence_ || has_open_messages() || has_backlog(); }
  bool in_flight() const { return applied_ != sequence_; }
  uint32_t sink() const { return sink_; }
  uint64_t sequence() const { return sequence_; }  ///< packets closed so far
  uint64_t freed() const { return freed_; }
  uint64_t applied() const { return applied_; }
  /// Number of the appended messages that are known to be applied.
  uint64_t acked_messages() const { return acked_; }
  std::string describe() const;

  bool listed = false;           ///< on the plane's list of busy outbounds
  uint64_t listed_by_flush = 0;  ///< number of the plane's last flush that concerns it

 private:
  bool is_settled(position&) const;
  bool can_open() const { return sequence_ - freed_ < c_.packets; }
  char* slot_memory(uint64_t sequence) const;
  void put_piece(const uint32_t* from, uint64_t at, uint64_t bytes, uint32_t& puts);
  void put_copied();
  uint64_t landing_at(uint64_t at) const;
  void advance(uint64_t freed, uint64_t applied);

  void spill(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages,
             std::atomic<uint64_t>& account);

  /// Messages of one row that wait for credits, charged to one account.
  struct piece {
    uint32_t sink;
    row_kind kind;
    std::atomic<uint64_t>* account;
    std::vector<uint32_t> data;
    size_t taken = 0;  ///< words already appended
  };

  common c_;
  uint32_t sink_;
  landing ring_{};
  uint32_t stream_ = 0;
  uint64_t* arrivals_ = nullptr;
  remote_link* link_ = nullptr;
  remote_slots remote_{};
  char* staging_ = nullptr;
  bool puts_pieces_ = false;
  packet_writer writer_;
  // The open packet, as offsets in it:
  uint64_t head_ = 0;         ///< end of the bytes copied behind the table before the first piece; 0: no piece was put
  uint64_t copied_from_ = 0;  ///< all bytes below this, except the head, are put
  uint64_t copied_to_ = 0;    ///< end of the bytes copied last
  uint64_t opened_at_ = 0;
  uint64_t sequence_ = 0, freed_ = 0, applied_ = 0, acked_ = 0;
  uint64_t requested_ = 0;                   ///< an intermediate node knows that somebody waits for packets below this
  uint64_t waited_ = 0, drained_ = 0;        ///< messages that have ever entered the backlog, and left it
  std::atomic<uint64_t> deferred_bytes_{0};  ///< bytes of the backlog that came from add_to_backlog()
  std::vector<uint32_t> counts_;             ///< messages of the packets in flight, by sequence modulo a power of two
  std::deque<piece> backlog_;
};

}  // namespace gravel::detail
