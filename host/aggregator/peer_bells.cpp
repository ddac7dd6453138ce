#include "host/aggregator/peer_bells.hpp"

#include <algorithm>

namespace gravel {

peer_bells::peer_bells(std::vector<pe_segment*> local) : local_(std::move(local)) {
  local_.resize(std::min<size_t>(local_.size(), max_peers));
  seen_.resize(local_.size() * local_.size());
}

bool peer_bells::pass_on() {
  bool rang = false;
  for (size_t from = 0, n = local_.size(); from < n; ++from)
    for (size_t to = 0; to < n; ++to) {
      const uint64_t word = load_acquire(&local_[from]->control()->peer_bells[to]);
      if (word == seen_[from * n + to]) continue;
      seen_[from * n + to] = word;
      uint64_t& bell = local_[to]->control()->peer_bell;
      store_release(&bell, bell + 1);
      rang = true;
    }
  return rang;
}

}  // namespace gravel
