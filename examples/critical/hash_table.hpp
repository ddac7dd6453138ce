// A hash table whose buckets are records: a section finds its key in the bucket, or a free place for it, and adds to
// the value. A bucket that is full refuses; refused insertions go to the next bucket: at once if the section has run
// where it was asked for, else when the service block's answer is there.
//
// Where insertions of one key become one, nobody is there to whom a bucket could answer. A full bucket then has others
// behind it, of its PE.
#pragma once
#include <algorithm>
#include <thread>
#include <unordered_map>
#include <vector>

#include "examples/common/mix.hpp"
#include "examples/critical/run_contest.hpp"

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::scope;

struct alignas(16) hash_key {
  uint64_t word[2];  ///< the first is not 0, and differs from that of all other keys
  GRAVEL_BOTH bool operator==(const hash_key& other) const {
    return word[0] == other.word[0] && word[1] == other.word[1];
  }
};
struct alignas(16) hash_value {
  uint64_t sum, insertions;
  GRAVEL_BOTH hash_value operator+(const hash_value& more) const {
    return {sum + more.sum, insertions + more.insertions};
  }
  GRAVEL_BOTH bool operator==(const hash_value& other) const {
    return sum == other.sum && insertions == other.insertions;
  }
};
struct hash_item {
  hash_key key;
  hash_value value;
};
struct spare_buckets;
/// With its lock, which lies behind it, a line of memory. Places are taken from the last on: that and the lock are in
/// one half of the line. An item lies in one sector of 32 bytes, so that who has read its key has its value.
struct alignas(16) hash_bucket {
  static constexpr uint32_t places = 3;
  hash_item item[places];  ///< first word of the key 0: free, as are those before it
  // Where insertions are combined; else nullptr.
  hash_bucket* next;     ///< has what this one, which is full, has no place for
  spare_buckets* spare;  ///< of this PE
};
/// Buckets of a PE, in device memory, that are put behind its full ones. Never too few: a bucket with n behind it has
/// more than n * places keys.
struct spare_buckets {
  hash_bucket* bucket;
  uint64_t taken;
  static uint64_t needed(uint64_t keys) { return keys / hash_bucket::places + 1; }
};

enum class hash_answer : uint8_t { none, inserted, refused };

struct hash_insert {
  static constexpr const char* name = "hash_insert";
  static constexpr bool pure = true;
  GRAVEL_HANDLER hash_answer operator()(hash_bucket& b, hash_item added) const {
    // All keys are read at once: one way to memory, not one for each place.
    hash_key keys[hash_bucket::places];
    uint32_t at = hash_bucket::places;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < hash_bucket::places; ++i) keys[i] = b.item[i].key;
    bool is_new = false;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < hash_bucket::places; ++i)
      if (keys[i].word[0] == 0 || keys[i] == added.key) {
        at = i;
        is_new = keys[i].word[0] == 0;
      }
    if (at == hash_bucket::places) return hash_answer::refused;
    if (is_new) b.item[at] = added;
    else b.item[at].value = b.item[at].value + added.value;
    return hash_answer::inserted;
  }
};

/// The same without an answer: items of one key, which are not all of a bucket, become one.
struct hash_add {
  static constexpr const char* name = "hash_add";
  GRAVEL_HANDLER void operator()(hash_bucket& b, hash_item added) const {
    for (hash_bucket* in = &b; hash_insert{}(*in, added) == hash_answer::refused; in = in->next)
      if (!in->next) in->next = b.spare->bucket + fetch_add<scope::device>(&b.spare->taken, uint64_t{1});
  }
  GRAVEL_HANDLER static uint64_t combine_by(const hash_item& i) { return i.key.word[0]; }
  GRAVEL_HANDLER static hash_item combine(hash_item a, hash_item b) { return {a.key, a.value + b.value}; }
};

struct hash_problem {
  static constexpr const char* name = "hash_table";
  static constexpr bool waits_for_answers = true;
  static constexpr bool combines = true, sorts = true;
  static constexpr const char* asks_less =
      "who inserts is not answered, and of insertions of one key at the same time one is made";
  using record = hash_bucket;
  using sections = gravel_critical_sections<hash_bucket, hash_insert>;
  using combining = gravel_critical_sections<hash_bucket, hash_add>;
  struct input {
    const hash_item* items;
    hash_answer* answers;  ///< [n], symmetric
    uint64_t n, buckets;
    uint32_t n_pes, my_pe;
    bool own;  ///< buckets of this PE alone
    /// How many buckets there are to choose from, and which of them an item is tried in first: worked out once for all
    /// items.
    struct choice {
      uint64_t all;
      GRAVEL_BOTH uint64_t first(const hash_item& item) const { return (mix(item.key.word[0]) >> 32) * all >> 32; }
      GRAVEL_BOTH uint64_t behind(uint64_t place) const { return place + 1 == all ? 0 : place + 1; }
    };
    GRAVEL_BOTH choice places() const { return {own ? (buckets - my_pe + n_pes - 1) / n_pes : buckets}; }
    GRAVEL_BOTH uint32_t bucket(uint64_t place) const {
      return static_cast<uint32_t>(own ? place * n_pes + my_pe : place);
    }
  };

  using section_of_many = hash_add;
  using argument = hash_item;
  using sorted_by = uint64_t;  ///< first words of keys: different keys go to one bucket
  static uint64_t most_calls(const input& in) { return in.n; }
  template <class F>
  GRAVEL_DEVICE static void each_call(const input& in, const F& call) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      call(in.items[i].key.word[0], in.items[i]);
      in.answers[i] = hash_answer::inserted;  // there are places for all keys
    }
  }
  /// What is left of each key: buckets have locks, which are hardly ever taken.
  GRAVEL_DEVICE static void apply_sorted(locked_record<record>* table, const input& in, uint32_t n_pes,
                                         const hash_item& item) {
    const auto places = in.places();
    for (uint64_t place = places.first(item);
         insert_by_lock(table[in.bucket(place) / n_pes], item, false) == hash_answer::refused;)
      place = places.behind(place);
  }

  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    if constexpr (std::is_same_v<Sections, sections>) {
      ask_all(out, to, in);
    } else {
      out.begin(to);
      const auto places = in.places();
      each_call(in, [&](uint64_t, const hash_item& item) {
        out.template call<hash_add>(in.bucket(places.first(item)), item);
      });
      out.end();
    }
  }
  /// Calls `insert(i, bucket, item)` for the items of this lane; true: that bucket is full. Who is refused goes on with
  /// the next bucket while others of the warp go on with their next items: a loop within a loop would have all of them
  /// wait for each that is refused.
  template <class F>
  GRAVEL_DEVICE static void insert_all(const input& in, const F& insert) {
    const auto places = in.places();
    hash_item item{};
    uint64_t place = 0;
    bool again = false;
    for (uint64_t i = first_of_lane(); __any_sync(~0u, i < in.n);) {
      if (i < in.n) {
        if (again) {
          place = places.behind(place);
        } else {
          item = in.items[i];
          place = places.first(item);
        }
        again = insert(i, in.bucket(place), item);
        if (!again) i += lanes_of_grid();
      }
      __syncwarp();  // lanes whose calls went different ways
    }
  }
  /// Waits for what is under way of this warp's items, and calls `insert(i)` for each that was refused: 32 lanes at a
  /// time, whosever items they are. `i` is in.n for lanes without one. Thread scope: warp, converged.
  template <class F>
  GRAVEL_DEVICE static void each_refused(const gravel_t& g, const input& in, const F& insert) {
    const uint32_t lane = threadIdx.x % 32;
    uint64_t held = in.n;
    uint32_t n = 0;
    for (uint64_t of_warp = first_of_lane() - lane; of_warp < in.n; of_warp += lanes_of_grid()) {
      const uint64_t i = of_warp + lane;
      bool refused = false;
      if (i < in.n && in.answers[i] != hash_answer::inserted) {
        gravel_wait_until(g, &in.answers[i], GRAVEL_NE, hash_answer::none);
        refused = in.answers[i] == hash_answer::refused;
      }
      for (uint32_t rest = __ballot_sync(~0u, refused); rest; rest &= rest - 1) {
        const uint64_t next = __shfl_sync(~0u, i, __ffs(static_cast<int>(rest)) - 1);
        if (lane == n) held = next;
        if (++n < 32) continue;
        insert(held);
        held = in.n;
        n = 0;
      }
    }
    insert(held);
  }
  /// Has a bucket of this PE refused item i, which it was asked for? Then the next one is asked, into the same slot.
  /// `sent`: the answer is to come.
  template <class Answer>
  GRAVEL_DEVICE static bool is_refused(const input& in, uint64_t i, const Answer& answer, bool* sent) {
    if (!answer) *sent = true;
    if (!answer || answer.value != hash_answer::refused) return false;
    in.answers[i] = hash_answer::none;
    return true;
  }
  template <class Sender, class Handle>
  GRAVEL_DEVICE static void ask_all(Sender& out, const Handle& to, const input& in) {
    bool sent = false;
    out.begin(to);
    insert_all(in, [&](uint64_t i, uint32_t bucket, const hash_item& item) {
      return is_refused(in, i, out.template ask<hash_insert>(&in.answers[i], bucket, item), &sent);
    });
    out.end();
    if (__syncthreads_or(sent)) ask_again(to, in);
  }
  /// Repeats the requests that service blocks or the arriving PE refused, one bucket further in each round: each round
  /// was refused by one bucket at least, and full buckets stay full. Few requests are repeated, and by calls that run
  /// at once, also in peers' memory: in a sender, each of them would wait for the block's others. Not inlined: it needs
  /// registers that the first round uses.
  template <class Handle>
  __device__ GRAVEL_NOINLINE static void ask_again(const Handle& to, const input& in) {
    const auto places = in.places();
    bool sent = true;
    for (uint32_t round = 1; __syncthreads_or(sent); ++round) {
      sent = false;
      each_refused(to.service.g, in, [&](uint64_t i) {
        hash_item item{};
        uint64_t place = 0;
        bool again = i < in.n;
        if (again) {
          item = in.items[i];
          place = (places.first(item) + round) % places.all;
          in.answers[i] = hash_answer::none;
        }
        while (__any_sync(~0u, again)) {
          if (again)
            again =
                is_refused(in, i, gravel_critical_ask<hash_insert>(to, &in.answers[i], in.bucket(place), item), &sent);
          place = places.behind(place);
          __syncwarp();
        }
      });
    }
  }
  GRAVEL_DEVICE static hash_answer insert_by_lock(locked_record<record>& slot, const hash_item& item, bool backs_off) {
    hash_answer answer = hash_answer::none;
    with_lock(&slot.lock, backs_off, [&] { answer = hash_insert{}(slot.record, item); });
    return answer;
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    insert_all(in, [&](uint64_t i, uint32_t bucket, const hash_item& item) {
      const hash_answer answer = insert_by_lock(table[bucket / n_pes], item, backs_off);
      if (answer == hash_answer::inserted) in.answers[i] = answer;
      return answer == hash_answer::refused;
    });
  }
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    const auto places = in.places();
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      const hash_item item = in.items[i];
      uint64_t place = places.first(item);
      while (!insert_by_atomics(table[in.bucket(place) / n_pes].record, item)) place = places.behind(place);
      in.answers[i] = hash_answer::inserted;
    }
  }
  GRAVEL_DEVICE static bool insert_by_atomics(record& bucket, const hash_item& item) {
    for (hash_item* i = bucket.item + record::places; i-- != bucket.item;) {
      hash_item& place = *i;
      const uint64_t old = atomicCAS(&place.key.word[0], uint64_t{0}, item.key.word[0]);
      if (old != 0 && old != item.key.word[0]) continue;
      if (old == 0) place.key.word[1] = item.key.word[1];
      fetch_add<scope::device>(&place.value.sum, item.value.sum);
      fetch_add<scope::device>(&place.value.insertions, item.value.insertions);
      return true;
    }
    return false;
  }
};

template <class Source>
__global__ void make_items(Source from, hash_item* items, uint64_t n) {
  const zipf ranks(from.keys, from.exponent);
  for (uint64_t i = first_of_lane(); i < n; i += lanes_of_grid()) {
    const uint64_t key = 1 + mix(from.key(ranks, i)) / 2;
    items[i] = {{key, mix(key)}, {1 + mix(i) % 16, 1}};
  }
}

__global__ void count_left(const hash_answer* answers, uint64_t n, uint64_t* left) {
  uint64_t mine = 0;
  for (uint64_t i = first_of_lane(); i < n; i += lanes_of_grid()) mine += answers[i] != hash_answer::inserted;
  if (mine) fetch_add<scope::device>(left, mine);
}

/// What is to be found, in tables of the standard library: one for each of several threads, as tens of millions of
/// insertions take one thread seconds.
class expected_items {
 public:
  explicit expected_items(uint64_t threads) : tables_(threads) {}
  void insert(const std::vector<hash_item>& items) {
    std::vector<std::jthread> threads;
    for (auto& table : tables_)
      threads.emplace_back([&] {
        for (const hash_item& i : items) {
          if (&table_of(i.key) != &table) continue;
          hash_item& to = table[i.key.word[0]];
          to = {i.key, to.value + i.value};
        }
      });
  }
  bool is_right(const hash_item& item) {
    auto& table = table_of(item.key);
    const auto at = table.find(item.key.word[0]);
    return at != table.end() && at->second.key == item.key && at->second.value == item.value;
  }
  uint64_t size() const {
    uint64_t n = 0;
    for (const auto& table : tables_) n += table.size();
    return n;
  }

 private:
  using table_type = std::unordered_map<uint64_t, hash_item>;
  table_type& table_of(const hash_key& key) { return tables_[mix(key.word[1]) % tables_.size()]; }
  std::vector<table_type> tables_;
};

/// `buckets`: of all PEs together; of each if each inserts into its own.
inline contest_result solve_hash_table(const contest_options& o, uint64_t buckets) {
  const contest_method m = method_of(o.method);
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  const bool own = o.own || !uses_sections(m);
  device_array<hash_item> items(o.calls);
  if (own) buckets *= n_pes;
  const auto make_items_of = [&](uint32_t pe) {
    gravel_launch(make_items<key_source>, blocks_to_fill_device(), lanes_of_block,
                  key_source{o.keys, o.exponent, o.seed + pe, n_pes, pe, false}, items.data(), o.calls);
    gravel_synchronize();
  };
  make_items_of(me);
  auto* answers = gravel_malloc<hash_answer>(o.calls + 1);
  const std::vector<hash_bucket> empty(combines_calls(m) ? spare_buckets::needed(o.keys) : 0);
  device_array<hash_bucket> spare_of_pe(empty);
  spare_buckets taken{spare_of_pe.data(), 0};
  device_array<spare_buckets> spare(std::vector<spare_buckets>{taken});
  contest<hash_problem> run(m, buckets, o.blocks, o.calls_under_way);
  if (combines_calls(m)) run.fill({{}, nullptr, spare.data()});
  const hash_problem::input input{items.data(), answers, o.calls, buckets, n_pes, me, own};
  run.prepare(input);
  gravel_barrier_all();
  device_array<uint64_t> not_inserted(1);
  const auto count = [&] {
    uint64_t n = 0;
    gravel_copy(not_inserted.data(), &n, sizeof(n));
    gravel_launch(count_left, blocks_to_fill_device(), lanes_of_block, answers, o.calls, not_inserted.data());
    gravel_synchronize();
    gravel_copy(&n, not_inserted.data(), sizeof(n));
    return n;
  };
  const auto begin = std::chrono::steady_clock::now();
  run.run(input);
  const uint64_t left = gravel_sum_all(count());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  // What all PEs, or this one alone, have inserted. Each makes the items of all again: so that nothing of what is
  // compared has travelled.
  expected_items expected(std::clamp<uint64_t>(std::thread::hardware_concurrency() / n_pes, 1, 16));
  std::vector<hash_item> inserted(o.calls);
  for (uint32_t pe = own ? me : 0; pe < (own ? me + 1 : n_pes); ++pe) {
    make_items_of(pe);
    gravel_copy(inserted.data(), items.data(), o.calls * sizeof(hash_item));
    expected.insert(inserted);
  }
  std::vector<hash_bucket> filled = run.read();
  gravel_copy(&taken, spare.data(), sizeof(taken));
  if (taken.taken > empty.size()) fail_text("more buckets were put behind others than there are keys for");
  filled.resize(filled.size() + taken.taken);
  gravel_copy(filled.data() + filled.size() - taken.taken, spare_of_pe.data(), taken.taken * sizeof(hash_bucket));
  uint64_t wrong = 0, found = 0;
  for (const hash_bucket& b : filled)
    for (const hash_item& i : b.item) {
      if (i.key.word[0] == 0) continue;
      ++found;
      wrong += !expected.is_right(i);
    }
  const uint64_t sum = gravel_sum_all(found),
                 in_all = own ? gravel_sum_all(uint64_t{expected.size()}) : expected.size();
  wrong = gravel_sum_all(wrong) + (sum > in_all ? sum - in_all : in_all - sum) + left;
  const double rate = static_cast<double>(o.calls) * n_pes / seconds;
  if (me == 0)
    std::printf(
        "%s: %u PEs on %d nodes, %s backend: %llu insertions of each PE by %s, %llu keys, Zipf %g, %llu buckets of %u\n"
        "%.4g M insertions/s; %llu differences from std::unordered_map\n%s",
        hash_problem::name, n_pes, gravel_n_nodes(), gravel_backend(), static_cast<unsigned long long>(o.calls),
        o.method.c_str(), static_cast<unsigned long long>(o.keys), o.exponent, static_cast<unsigned long long>(buckets),
        hash_bucket::places, rate / 1e6, static_cast<unsigned long long>(wrong), text_of_less<hash_problem>(m).c_str());
  all_succeed(hash_problem::name, [&] {
    if (me == 0 && !o.json.empty())
      write_json(o.json, {{"program", hash_problem::name},
                          {"backend", gravel_backend()},
                          {"pes", uint64_t{n_pes}},
                          {"method", o.method.c_str()},
                          {"keys", o.keys},
                          {"zipf", o.exponent},
                          {"buckets", buckets},
                          {"insertions", o.calls * n_pes},
                          {"seconds", seconds},
                          {"insertions_per_s", rate},
                          {"wrong", wrong},
                          {"right", wrong == 0}});
  });
  gravel_free(answers);
  return {wrong == 0, rate};
}

}  // namespace app
