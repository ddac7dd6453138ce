// Critical sections as types, which run alone for their keys (docs/critical.md). Source: "synchronization servers" of
// GPUs, ASPLOS 2019: thread blocks that run critical sections for other blocks, which send them messages.
//
//   using bank = gravel_critical_sections<account, deposit, transfer>;
//   gravel_init<bank::delivery>();
//   bank sections({.keys = 1 << 24});                                     // collective
//   gravel_launch(kernel, grid, block, sections.handle());                // lib/critical/call.cuh: how kernels call
//   std::vector<account> accounts = sections.read();                      // collective
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/libgravel.hpp"
#include "lib/base/error.hpp"
#include "lib/critical/call_sender.cuh"

/// How sections of one key exclude each other.
enum class gravel_exclusion {
  owners,  ///< one lane of the service block owns a key at a time: no locks
  locks    ///< locks in the service block's shared memory, as in the paper
};
/// Where records lie.
enum class gravel_critical_data {
  automatic,  ///< shared, if the records fit there
  device,     ///< device memory
  shared      ///< the service blocks' shared memory; changes are written to device memory too
};
/// Where sections run.
enum class gravel_critical_place {
  automatic,  ///< caller, if records lie in device memory; else service
  service,    ///< all sections run at service blocks
  caller      ///< a caller that finds its keys free at its own PE runs the section itself
};

/// Options of gravel_critical_sections, the same at all PEs.
struct gravel_critical_options {
  /// Keys are 0 to keys - 1. They are spread over all service blocks of all PEs. At most 2^32, and as many as the
  /// number of sections leaves of 32 bits.
  uint64_t keys = 0;
  uint32_t blocks = 16;  ///< service blocks of each PE, 1 to 256
  gravel_exclusion exclusion = gravel_exclusion::owners;
  gravel_critical_data data = gravel_critical_data::automatic;
  gravel_critical_place place = gravel_critical_place::automatic;
  /// With nested sections: calls of each PE that are in progress at once; a power of two, at least 32.
  uint32_t calls = 4096;
  uint32_t chunks = 64;          ///< chunks of each of a service block's two rings; a power of two
  uint32_t chunk_messages = 64;  ///< messages of a chunk, 32 to 1024
};

/// The records of all keys, and the service blocks that run sections on them. It is open from its constructor to
/// close() or its destructor. The program passes `delivery` to gravel_init.
/// @scope the program's host thread; collective, except handle(), blocks(), in_place(), in_shared() and bytes()
/// @completion on return
/// @errors gravel::error, on all PEs
/// @source synchronization servers (ASPLOS 2019)
template <class Record, class... Sections>
class gravel_critical_sections {
  static_assert((gravel::detail::section_check<Record, Sections>::good && ...));
  using service_type = gravel::detail::key_service<Record, Sections...>;
  using layout = typename service_type::layout;
  using table = gravel::detail::record_table<layout>;
  using rooms = gravel::detail::block_rooms<layout>;
  static_assert(gravel::detail::has_name<typename gravel::detail::first_type<Sections...>::type>,
                "the first section has a name: static constexpr const char* name = \"...\";");
  static_assert(layout::fits, "a call has up to 128 bytes: of nested sections the records, but one, travel with it");
  static_assert(std::is_trivially_copyable_v<Record>, "records are copied byte by byte");
  static_assert(std::is_default_constructible_v<Record>, "a record needs a default constructor");
  static_assert(alignof(Record) <= 16, "a record is aligned to up to 16 bytes");

 public:
  using delivery = gravel_service_delivery<service_type>;
  using handle_type = gravel_critical_handle<Record, Sections...>;
  using sender = gravel_critical_sender<Record, Sections...>;
  using combining_sender = gravel_critical_combining_sender<Record, Sections...>;
  using large_sender = gravel_critical_large_sender<Record, Sections...>;

  /// Symmetric memory that critical sections take, in bytes at each PE.
  /// @param how options
  /// @param n_pes PEs of the job
  static uint64_t bytes(const gravel_critical_options& how, int n_pes) {
    const auto pes = static_cast<uint32_t>(n_pes);
    return 1024 + table::keys_of_pe(how.keys, pes) * sizeof(typename table::slot) +
           (layout::nested ? rooms::bytes(how.calls, pes) : 0);
  }

  /// Allocates the records and starts the service blocks.
  /// @param how the same at all PEs
  /// @param initial returns the initial record of a key; called for the keys of this PE; without it all bytes are 0
  /// @errors gravel::error, on all PEs, if the options are not valid or there is not enough memory
  explicit gravel_critical_sections(const gravel_critical_options& how,
                                    const std::function<Record(uint32_t key)>& initial = {}) {
    const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
    check_alike(how);
    check(how, n_pes);
    table_.keys = how.keys;
    table_.n_pes = n_pes;
    table_.my_pe = static_cast<uint32_t>(gravel_my_pe());
    table_.blocks = how.blocks;
    table_.by_locks = how.exclusion == gravel_exclusion::locks;
    const bool fits = fits_shared(how, n_pes);
    table_.in_shared = how.data == gravel_critical_data::shared || (how.data == gravel_critical_data::automatic &&
                                                                    fits && how.place != gravel_critical_place::caller);
    table_.in_place = how.place == gravel_critical_place::caller ||
                      (how.place == gravel_critical_place::automatic && !table_.in_shared);
    try {
      take_memory(how, initial);
      gravel_barrier_all();  // the memory of all PEs is ready before a service block runs
      service_.emplace(service_type{table_}, gravel_service_options{how.blocks, how.chunks, how.chunk_messages});
    } catch (const gravel::detail::error&) {  // on all PEs
      free_memory();
      throw;
    }
  }

  /// The handle for kernels: an argument for gravel_launch, until close().
  handle_type handle() const {
    check_open("handle()");
    return {service_->handle(), table_};
  }
  /// Number of service blocks of each PE.
  uint32_t blocks() const { return table_.blocks; }
  /// May callers run sections in place?
  bool in_place() const { return table_.in_place; }
  /// Do records lie in shared memory?
  bool in_shared() const { return table_.in_shared; }

  /// Waits until all calls have run. Returns the records of this PE: record i is that of key i * n_pes + PE.
  std::vector<Record> read() const {
    check_open("read()");
    gravel_wait_quiescent();
    const uint64_t n = table::keys_of_pe(table_.keys, table_.n_pes);
    std::vector<typename table::slot> slots(n);
    gravel_copy(slots.data(), table_.slots, n * sizeof(typename table::slot));
    std::vector<Record> records;
    records.reserve(n);
    for (uint64_t i = 0; i < n && i * table_.n_pes + table_.my_pe < table_.keys; ++i)
      records.push_back(slots[i].record);
    return records;
  }

  /// Waits until all calls have run, and frees the records. No kernel that calls may run.
  void close() {
    if (!service_) return;
    service_->close();
    service_.reset();
    free_memory();
    open_.reset();
  }
  /// Calls close(), unless the stack is unwound because of an exception.
  ~gravel_critical_sections() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) close();
  }
  /// @internal
  gravel_critical_sections(const gravel_critical_sections&) = delete;
  gravel_critical_sections& operator=(const gravel_critical_sections&) = delete;

 private:
  void check_open(const char* call) const {
    if (!service_) gravel::detail::refuse_closed(call, handle_type::what, service_type::name);
  }
  void take_memory(const gravel_critical_options& how, const std::function<Record(uint32_t key)>& initial) {
    const uint32_t n_pes = table_.n_pes;
    const uint64_t mine = table::keys_of_pe(how.keys, n_pes);
    table_.slots = gravel_malloc<typename table::slot>(mine * sizeof(typename table::slot));
    if constexpr (layout::nested) {
      const uint64_t all = uint64_t{n_pes} * how.calls;
      memory_ = gravel_malloc<char>(rooms::bytes(how.calls, n_pes));
      auto* const words = reinterpret_cast<uint32_t*>(memory_ + 256);
      table_.rooms = {how.calls, reinterpret_cast<uint64_t*>(memory_), words, words + how.calls,
                      words + how.calls + all};
    }
    if (!initial) return;
    std::vector<typename table::slot> slots(mine);
    for (uint64_t i = 0; i < mine; ++i)
      if (const uint64_t key = i * n_pes + table_.my_pe; key < how.keys)
        slots[i].record = initial(static_cast<uint32_t>(key));
    gravel_copy(table_.slots, slots.data(), mine * sizeof(typename table::slot));
  }
  void free_memory() {
    gravel_free(table_.slots);
    gravel_free(memory_);
  }
  static bool fits_shared(const gravel_critical_options& how, uint32_t n_pes) {
    const uint64_t each = (table::keys_of_pe(how.keys, n_pes) + how.blocks - 1) / how.blocks;
    return each <= service_type::shared_records;
  }
  static void check(const gravel_critical_options& how, uint32_t n_pes) {
    const uint64_t most = (uint64_t{1} << (32 - layout::bits)) - 1;  // a number of all ones is no key's
    if (how.keys == 0 || how.keys > uint64_t{1} << 32 || table::keys_of_pe(how.keys, n_pes) > most)
      refuse(std::to_string(how.keys) + " keys; there may be 1 to " +
             std::to_string(std::min(uint64_t{1} << 32, most * n_pes)));
    if (how.blocks == 0) refuse("0 blocks");
    if (layout::nested &&
        (how.calls < 32 || (how.calls & (how.calls - 1)) != 0 || uint64_t{how.calls} * n_pes > rooms::most))
      refuse(std::to_string(how.calls) +
             " calls; it is a power of two, at least 32, and those of all PEs are at most " +
             std::to_string(rooms::most));
    if (how.data == gravel_critical_data::shared && how.place == gravel_critical_place::caller)
      refuse("sections cannot run in place if the records lie in the service blocks' shared memory");
    if (how.data == gravel_critical_data::shared && !fits_shared(how, n_pes))
      refuse("a service block has shared memory for " + std::to_string(service_type::shared_records) +
             " records: more service blocks, fewer keys, or data = device");
  }

  [[noreturn]] static void refuse(const std::string& why) {
    gravel::detail::fail_text("critical sections '" + std::string(service_type::name) + "': " + why);
  }
  /// Checks that options are the same at all PEs. It comes first, so that all PEs refuse the same later.
  static void check_alike(const gravel_critical_options& how) {
    constexpr const char* names[] = {"keys",  "blocks", "exclusion", "data",
                                     "place", "calls",  "chunks",    "chunk_messages"};
    constexpr uint64_t n = std::size(names);
    const uint64_t mine[n] = {how.keys,
                              how.blocks,
                              static_cast<uint64_t>(how.exclusion),
                              static_cast<uint64_t>(how.data),
                              static_cast<uint64_t>(how.place),
                              how.calls,
                              how.chunks,
                              how.chunk_messages};
    const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
    std::vector<uint64_t> all(n * n_pes);
    gravel_allgather(all.data(), mine, n);
    for (uint64_t i = n; i < all.size(); ++i)
      if (all[i] != all[i % n])
        refuse("the PEs' options differ: " + std::string(names[i % n]) + " is " + std::to_string(all[i % n]) +
               " at PE 0, " + std::to_string(all[i]) + " at PE " + std::to_string(i / n));
  }

  std::optional<gravel::detail::open_object> open_{std::in_place, "gravel_critical_sections"};
  table table_{};
  char* memory_ = nullptr;  ///< rooms
  std::optional<gravel_service<service_type>> service_;
  int exceptions_ = std::uncaught_exceptions();
};
