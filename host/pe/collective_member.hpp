// A PE's side of the job's collectives (host/aggregator/collective.hpp): it names the call, contributes, and waits for
// the result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "lib/base/error.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

class collective_member {
 public:
  collective_member(const pe_segment& segment, uint32_t pe) : segment_(segment), pe_(pe) {}

  /// One call of the program, which may take several collectives. Calls of other threads wait until this object is
  /// destroyed.
  class call {
   public:
    /// Sums, minimum and maximum over all PEs. Throws nothing: if PEs call different collectives, the job ends.
    collective_words combine(const collective_words& mine = {}) {
      member_.contribute(what_, mine);
      member_.wait_for_result();
      return member_.result();
    }
    /// Returns the data of all PEs, in order of PE. They are valid until this PE's next contribution. Throws
    /// gravel::error if `mine` is larger than room().
    std::span<const std::byte> exchange(std::span<const std::byte> mine) {
      if (mine.size() > room()) fail("{} bytes for one collective; {} fit", mine.size(), room());
      member_.contribute(what_, {}, mine);
      member_.wait_for_result();
      return member_.result_data();
    }
    /// Number of this call among the PE's calls, from 1.
    uint64_t number() const { return what_.number; }
    /// Publishes the call for which this PE waits, if the call does not pass through the aggregator. Valid until the
    /// call ends. If another PE calls something else meanwhile, the job ends.
    void waits_without_aggregator() {
      store_release(&member_.segment_.control()->waiting, waiting_word(what_.number, what_.kind));
    }
    ~call() {
      if (load_relaxed(&member_.segment_.control()->waiting))
        store_release(&member_.segment_.control()->waiting, uint64_t{0});
    }
    call(const call&) = delete;
    /// Bytes that all PEs together may contribute to one exchange.
    uint64_t room() const { return member_.segment_.shape().collective_bytes(); }

   private:
    friend collective_member;
    call(collective_member& member, collective_kind kind, uint64_t argument, uint64_t another)
        : member_(member), lock_(member.lock_), what_{++member.calls_, kind, member.pe_, {argument, another}} {}
    collective_member& member_;
    std::unique_lock<std::mutex> lock_;
    collective_call what_;
  };
  /// Begins a call. Any thread.
  call begin(collective_kind kind, uint64_t argument = 0, uint64_t another = 0) {
    return {*this, kind, argument, another};
  }

  /// The two halves of combine(), for a caller that must not wait in between.
  void contribute(const collective_call& call, const collective_words& mine, std::span<const std::byte> data = {}) {
    if (!data.empty()) std::memcpy(segment_.collective_in_data().data(), data.data(), data.size());
    collective_words in = mine;
    in.sequence = ++sequence_;
    in.call = call;
    in.bytes = data.size();
    publish(segment_.control()->collective_in, in);  // [C1]
  }
  bool has_result() const { return load_acquire(&segment_.control()->collective_out.sequence) == sequence_; }  // [C2]
  void wait_for_result() const {
    for (relax wait; !has_result(); wait.attentively()) {
    }
    packets_applied.load(std::memory_order_acquire);
  }
  /// The result, copied out of memory that the aggregator writes. Throws gravel::error if it is not sound.
  collective_words result() const {
    const collective_words words = copy_once(segment_.control()->collective_out);
    if (words.bytes > segment_.shape().collective_bytes())
      fail("the aggregator says that a collective has {} bytes of data; {} fit", words.bytes,
           segment_.shape().collective_bytes());
    return words;
  }
  std::span<const std::byte> result_data() const { return segment_.collective_out_data().first(result().bytes); }

 private:
  const pe_segment& segment_;
  uint32_t pe_;
  std::mutex lock_;
  uint64_t calls_ = 0;     ///< number of calls begun
  uint64_t sequence_ = 0;  ///< number of contributions
};

}  // namespace gravel::detail
