// Transfers between accounts: a section of two keys. Accounts may be overdrawn, so the result does not depend on the
// order.
#pragma once
#include "examples/critical/contest.hpp"

namespace app {
using gravel::fetch_add;
using gravel::scope;

#pragma pack(push, 4)
/// 12 bytes, so that with a lock it is a word that a device swaps at once.
struct bank_account {
  int64_t balance;
  uint32_t entries;
  bool operator==(const bank_account& other) const { return balance == other.balance && entries == other.entries; }
};
#pragma pack(pop)

struct bank_transfer {
  static constexpr const char* name = "bank_transfer";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(bank_account& from, bank_account& to, uint32_t amount) const {
    from.balance -= amount;
    ++from.entries;
    to.balance += amount;
    ++to.entries;
  }
};

/// A transfer is two of these, if the accounts need not be right together: in between others may see one without the
/// other.
struct bank_entry {
  static constexpr const char* name = "bank_entry";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(bank_account& a, bank_account more) const {
    a.balance += more.balance;
    a.entries += more.entries;
  }
  GRAVEL_HANDLER static bank_account combine(bank_account a, bank_account b) {
    return {a.balance + b.balance, a.entries + b.entries};
  }
};

struct bank_problem {
  static constexpr const char* name = "bank";
  static constexpr uint32_t keys_of_call = 2;
  static constexpr bool combines = true, sorts = true;
  static constexpr const char* asks_less = "a transfer is two sections, one of each account";
  using input = keyed_calls;
  using record = bank_account;
  using sections = gravel_critical_sections<bank_account, bank_transfer>;
  using combining = gravel_critical_sections<bank_account, bank_entry>;
  using section_of_many = bank_entry;
  using argument = bank_account;
  GRAVEL_BOTH static uint32_t amount_of(uint64_t i) { return 1 + static_cast<uint32_t>(i * 0x9e3779b9u >> 16 & 0xff); }

  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    out.begin(to);
    if constexpr (std::is_same_v<Sections, sections>) {
      for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid())
        out.template call<bank_transfer>(in.keys[2 * i], in.keys[2 * i + 1], amount_of(i));
    } else {
      each_call(in, [&](uint32_t key, const bank_account& more) { out.template call<bank_entry>(key, more); });
    }
    out.end();
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      auto &from = table[in.keys[2 * i] / n_pes], &to = table[in.keys[2 * i + 1] / n_pes];
      const bool up = &from < &to;
      with_locks(up ? &from.lock : &to.lock, up ? &to.lock : &from.lock, backs_off,
                 [&] { bank_transfer{}(from.record, to.record, amount_of(i)); });
    }
  }
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      bank_account &from = table[in.keys[2 * i] / n_pes].record, &to = table[in.keys[2 * i + 1] / n_pes].record;
      const uint64_t amount = amount_of(i);
      const auto add = [](bank_account& a, int64_t more) {
        fetch_add<scope::device>(reinterpret_cast<int64_t*>(&a), more);  // it lies at the beginning of a locked_record
        fetch_add<scope::device>(&a.entries, 1u);
      };
      add(from, -static_cast<int64_t>(amount));
      add(to, static_cast<int64_t>(amount));
    }
  }
  static uint64_t most_calls(const input& in) { return 2 * in.n; }
  template <class F>
  GRAVEL_DEVICE static void each_call(const input& in, const F& call) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      const int64_t amount = amount_of(i);
      call(in.keys[2 * i], {-amount, 1});
      call(in.keys[2 * i + 1], {amount, 1});
    }
  }
  /// By one thread.
  static void run_serially(std::vector<record>& records, const uint32_t* keys, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) bank_transfer{}(records[keys[2 * i]], records[keys[2 * i + 1]], amount_of(i));
  }
};

}  // namespace app
