// In place: runs a section of one key where its record lies. A lane that finds the key free takes the lock beside the
// record, runs the section, and releases the key. Callers do so in kernels (call.cuh), and so does the handler that
// takes the calls of other PEs (key_service.cuh). A lane that has a key waits for nothing.
#pragma once
#include "lib/critical/table.cuh"

/// The answer of a section. True: the section has run here, and `value` is its answer, which is also in the caller's
/// slot.
template <class T>
struct gravel_critical_answer {
  bool here = false;
  T value{};
  GRAVEL_BOTH operator bool() const { return here; }
};
template <>
struct gravel_critical_answer<void> {
  bool here = false;
  GRAVEL_BOTH operator bool() const { return here; }
};

namespace gravel::detail {

/// Tries to run a section several times, while other callers have a key: they will release it soon. `once` runs the
/// section if its keys are free; if not, it returns the state of a key that is not. KEYS: number of keys of the
/// section. ATTEMPTS: few if the key is another PE's, since each attempt goes over the link, and that PE's service
/// block answers sooner.
template <uint32_t KEYS, uint32_t ATTEMPTS = KEYS == 1 ? 16 : 256, class F>
GRAVEL_DEVICE bool run_soon(const F& once) {
  bool ran = false, tries = true;
  relax wait;
  GRAVEL_NO_UNROLL
  for (uint32_t attempt = 0; tries; ++attempt) {
    const key_state found = once();
    ran = found == key_state::free;
    tries = !ran && attempt + 1 < ATTEMPTS && (KEYS > 1 || found == key_state::client);
    if (tries) wait();
  }
  return ran;
}

/// Runs section S, which has one key. The calls have this layout.
template <class S, class Layout>
struct section_in_place {
  using table_type = record_table<Layout>;
  using slot = typename table_type::slot;
  using traits = section_traits<typename Layout::record, S>;
  using answer_type = gravel_critical_answer<typename traits::result>;

  /// Runs the section for the call at `call`, on the record at `at`. True: it has run, and its answer is in `answer`.
  /// WHERE: the scope of all parties that use the slot. Thread scope: lane.
  template <scope WHERE>
  GRAVEL_DEVICE static bool run_on(slot* at, const uint32_t* call, answer_type& answer) {
    if constexpr (table_type::in_words) return run_on_word<WHERE>(reinterpret_cast<slot_word*>(at), call, answer);
    else
      return run_soon<1, attempts<WHERE>>([&] {
        const key_state found = table_type::template take_slot<WHERE>(at, key_state::client);
        if (found != key_state::free) return found;
        run(call, answer, at->record);
        table_type::template release_slot<WHERE>(at);
        return key_state::free;
      });
  }
  /// Runs the section on records that this lane has taken.
  template <class... R>
  GRAVEL_DEVICE static void run(const uint32_t* call, answer_type& answer, R&... records) {
    if constexpr (traits::answers) answer.value = run_section<S, Layout>(call, records...);
    else run_section<S, Layout>(call, records...);
  }

 private:
  template <scope WHERE>
  static constexpr uint32_t attempts = WHERE == scope::device ? 16 : 2;
  /// Runs the section where record and lock are one word. A pure section without answer runs on a copy of the record,
  /// which then replaces the record by compare and swap. After three attempts the key counts as contended.
  template <scope WHERE>
  GRAVEL_DEVICE static bool run_on_word(slot_word* at, const uint32_t* call, answer_type& answer) {
    slot_word seen = load_slot<WHERE>(at);
    for (uint32_t attempt = 0; attempt < 3; ++attempt) {
      auto slot = table_type::slot_of(seen);
      if (state_in(slot.lock) != key_state::free) return false;
      if constexpr (traits::pure && !traits::answers) {
        run(call, answer, slot.record);
        if (swap_slot<WHERE>(at, seen, table_type::word_of(slot.record, key_state::free))) return true;
      } else if (swap_slot_acquire<WHERE>(at, seen, table_type::word_of(slot.record, key_state::client))) {  // [U1]
        run(call, answer, slot.record);
        store_slot_release<WHERE>(at, table_type::word_of(slot.record, key_state::free));  // [U1]
        return true;
      }
    }
    return false;
  }
};

}  // namespace gravel::detail
