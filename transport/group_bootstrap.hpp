// The bootstrap of a job whose program says who its PEs are, and how they exchange bytes: gravel_process_group.
//
// Nothing reports the death of a PE. While the job starts, the group's allgather has to give up by itself. Afterwards
// the aggregators notice deaths, as under every launcher.
#pragma once
#include "transport/bootstrap.hpp"

namespace gravel::detail {

class group_bootstrap final : public bootstrap {
 public:
  /// Collective. Throws gravel::error if the group's numbers are impossible, or if the PEs do not agree on them.
  explicit group_bootstrap(gravel_process_group);

  void on_abort(std::function<void(std::string)>) override {}
  bool has_launcher() const override { return false; }
  void finalize() override {}

 private:
  void exchange(uint64_t fence, const staged_values& mine) override;
  staged_values values_of(uint32_t pe, uint64_t fence, std::string_view) override { return values_[fence][pe]; }

  gravel_process_group group_;
  std::vector<std::vector<staged_values>> values_;  ///< by fence and PE
};

}  // namespace gravel::detail
