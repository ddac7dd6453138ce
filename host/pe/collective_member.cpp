#include "host/pe/collective_member.hpp"

#include <cstring>

#include "host/pe/backend.hpp"
#include "lib/base/error.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

collective_member::call::call(collective_member& member, collective_kind kind, uint64_t argument, uint64_t another)
    : member_(member), lock_(member.lock_), what_{++member.calls_, kind, member.pe_, {argument, another}} {}

collective_member::call::~call() {
  if (load_relaxed(&member_.segment_.control()->waiting)) store_release(&member_.segment_.control()->waiting, uint64_t{0});
}

void collective_member::call::waits_without_aggregator() {
  store_release(&member_.segment_.control()->waiting, waiting_word(what_.number, what_.kind));
}

collective_words collective_member::call::combine(const collective_words& mine) {
  member_.contribute(what_, mine);
  member_.wait_for_result();
  return member_.result();
}

std::span<const std::byte> collective_member::call::exchange(std::span<const std::byte> mine) {
  if (mine.size() > room()) fail("{} bytes for one collective; {} fit", mine.size(), room());
  member_.contribute(what_, {}, mine);
  member_.wait_for_result();
  return member_.result_data();
}

void collective_member::wait_for_result() const {
  for (relax wait; !has_result(); wait.attentively()) {
  }
  packets_applied.load(std::memory_order_acquire);
}

void collective_member::contribute(const collective_call& call, const collective_words& mine, std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(segment_.collective_in_data().data(), data.data(), data.size());
  collective_words in = mine;
  in.sequence = ++sequence_;
  in.call = call;
  in.bytes = data.size();
  publish(segment_.control()->collective_in, in);  // [C1]
}

bool collective_member::has_result() const { return load_acquire(&result().sequence) == sequence_; }  // [C2]

}  // namespace gravel
