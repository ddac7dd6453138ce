// The CPU backend. The device is this process's own memory. Kernels run on fibers (device/cpu/simt_cpu.hpp) in the
// threads of their streams, and the receiver thread applies arriving messages. The route `peer` is used only if
// GRAVEL_ROUTES asks for it: the aggregator is faster here, and memory that other processes map has no huge pages.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "host/node/sealed_memory.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/launcher_cpu.hpp"
#include "host/pe/receiver.hpp"
#include "host/pe/resident_cpu.hpp"
#include "host/pe/ring_server.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {

template <class Handlers>
class cpu_backend : public cpu_launcher {
 public:
  const char* name() const override { return "cpu"; }
  std::string describe() const override { return "CPU backend: lanes on fibers, blocks on threads"; }
  handler_table handlers() const override { return Handlers::table(); }
  void open(uint32_t, uint32_t local_size) override {
    local_size_ = local_size;
    const uint32_t processors = std::max(std::thread::hardware_concurrency(), 1u);
    while (crowding < 6 && processors << crowding < local_size) ++crowding;
    const settings& s = current_settings();
    uses_fabric_ = s.handle_type == "fabric";
    uses_rings_ = s.routes == "peer" || s.routes == "direct" || s.routes == "rings";
    own_ring_bytes_ = s.own_ring_size ? s.own_ring_size : usual_own_ring;
    ring_options_.seed = s.cpu_seed;
    ring_options_.stack_bytes = s.cpu_stack_size;
  }

  /// Only reserves memory: a page uses memory once it is touched.
  void* allocate(uint64_t bytes, const char* what) override {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail_memory(what, bytes);
    madvise(at, bytes, MADV_HUGEPAGE);  // random access to a large table needs the TLB reach of huge pages
    allocated_[at] = bytes;
    return at;
  }
  void release(void* at) override {
    munmap(at, allocated_[at]);
    allocated_.erase(at);
  }

  /// Extents: a range is memory of its own from the start, and uses pages where it is touched. What other processes map
  /// replaces it, so an address without an extent can be accessed, too: messages to it are lost. Ranges that no other
  /// process maps keep that memory, which has huge pages.
  uint64_t granule() const override { return 2 << 20; }
  bool shares_extents() const override { return uses_rings_; }
  bool shares_by_fabric() const override { return uses_rings_ && uses_fabric_; }
  char* reserve(uint64_t bytes, const char* what) override {
    char* const at = map_private(nullptr, bytes, what);
    if (!uses_rings_) madvise(at, bytes, MADV_HUGEPAGE);
    std::lock_guard lock(ranges_lock_);
    ranges_[at] = bytes;
    return at;
  }
  void unreserve(char* at, uint64_t bytes) override {
    forget_handles(at, bytes);
    std::lock_guard lock(ranges_lock_);
    munmap(at, bytes);
    ranges_.erase(at);
  }
  memory_handle commit(char* at, uint64_t bytes, const char* what, place) override {
    if (!uses_rings_) return {};
    owned_descriptor memory = make_sealed("gravel-memory", what, bytes);
    map_shared(at, bytes, memory.get(), what);
    return handle_of(at, std::move(memory));
  }
  std::string describe_host_memory() override { return "as all memory of the CPU backend it is not pinned"; }
  void map_extent(char* at, uint64_t bytes, memory_handle memory) override {
    constexpr const char* what = "the memory of another PE";
    if (!memory.fabric.empty()) memory.descriptor = open_fabric_handle(memory.fabric);
    check_sealed(memory.descriptor.get(), what, bytes);
    map_shared(at, bytes, memory.descriptor.get(), what);
  }
  shareable_memory find_shareable(const char* at, uint64_t bytes) override { return find_shared_mappings(at, bytes); }
  memory_handle map_again(char* at, const char* from, uint64_t bytes) override {
    owned_descriptor memory = descriptor_of_mapping(from, bytes);
    map_shared(at, bytes, memory.get(), "memory of gravel_register");
    return uses_rings_ ? handle_of(at, std::move(memory)) : memory_handle();
  }
  void decommit(char* at, uint64_t bytes) override {
    forget_handles(at, bytes);
    map_private(at, bytes, "addresses of the symmetric heap");
    if (!uses_rings_) madvise(at, bytes, MADV_HUGEPAGE);
  }
  /// A larger heap is of no use here, and its rows would need several windows.
  uint64_t usual_heap_limit() const override {
    uint64_t limit = std::min<uint64_t>(usable_bytes(), 32ull << 30);
    rlimit addresses{};  // (ulimit -v) each PE maps the heaps of all others, too
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
      limit = std::min<uint64_t>(limit, addresses.rlim_cur / 2 / (local_size_ + 1));
    return limit;
  }

  /// A program without handlers on the device sends nothing through this ring.
  uint64_t own_ring_bytes() const override { return uses_rings_ && Handlers::runs_on_device ? own_ring_bytes_ : 0; }

  /// Frees whole pages. They are zero when they are touched again.
  void zero(void* at, uint64_t bytes) override {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(at),
                   end = begin + bytes;
    const uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
    // Pages that other processes map, too, are freed only by MADV_REMOVE.
    const bool shared = uses_rings_ && lies_in_range(at);
    if (first >= last ||
        madvise(reinterpret_cast<void*>(first), last - first, shared ? MADV_REMOVE : MADV_DONTNEED) != 0) {
      std::memset(at, 0, bytes);
      return;
    }
    std::memset(at, 0, first - begin);
    std::memset(reinterpret_cast<void*>(last), 0, end - last);
  }
  uint64_t usable_bytes() const override { return memory_of_host() / local_size_; }
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  /// A small copy may be of words that others are incrementing (queue tickets, device_counters). What was written
  /// before each increment must be visible afterwards.
  void copy(void* to, const void* from, uint64_t bytes) override {
    constexpr uint64_t word = sizeof(uint64_t), small = 4096;
    if (bytes > small || (reinterpret_cast<uintptr_t>(from) | bytes) % word != 0) {
      std::memcpy(to, from, bytes);
      return;
    }
    for (uint64_t at = 0; at < bytes; at += word) {
      const uint64_t value = load_acquire(reinterpret_cast<const uint64_t*>(static_cast<const char*>(from) + at));
      std::memcpy(static_cast<char*>(to) + at, &value, word);
    }
  }
  void copy_in_stream(void* stream, void* to, const void* from, uint64_t bytes) override {
    launch(stream, {1, 1, ring_options_, [=] { std::memcpy(to, from, bytes); }});
  }
  void wait_in_stream(void* stream, const uint64_t* word, uint64_t value) override {
    launch(stream, {1, 1, ring_options_, [=] {
                      for (relax wait; load_acquire(word) < value; wait.attentively()) {
                      }
                    }});
  }
  void write_in_stream(void* stream, uint64_t* word, uint64_t value) override {
    launch(stream, {1, 1, ring_options_, [=] { store_release(word, value); }});
  }
  void read_words(uint64_t* to, const uint64_t* from, uint64_t n) override {
    for (uint64_t i = 0; i < n; ++i) to[i] = load_acquire(from + i);
  }
  void store_word(uint64_t* at, uint64_t value) override { store_release(at, value); }  // [X1]

  bool settle(settling what, const settle_view& view, uint64_t number,
              const std::function<void()>& meanwhile) override {
    if (!view.g.peers) return false;
    waiting& mine = waiting_[what != settling::quiet];
    std::lock_guard lock(mine.lock);
    uint64_t settled = 0;
    mine.stream.put({1, settle_threads, ring_options_, [&, number] {
                       if (what == settling::quiet) gravel::detail::settle<settling::quiet>(view, number, &settled);
                       else if (what == settling::barrier)
                         gravel::detail::settle<settling::barrier>(view, number, &settled);
                       else gravel::detail::settle<settling::quiescence>(view, number, &settled);
                     }});
    uint32_t rounds = 0;
    for (relax wait; load_acquire(&settled) == 0; wait.attentively()) {  // [S2]
      if (++rounds % 64 != 0) continue;
      mine.stream.throw_if_unheard();
      meanwhile();
    }
    if (const std::exception_ptr thrown = mine.stream.wait()) std::rethrow_exception(thrown);
    return true;
  }

  std::string refuse_resident(const resident_kernel&) override { return {}; }
  void keep_resident(resident_kernel& kernel) override { residents_.keep(kernel, ring_options_); }
  void let_go(resident_kernel& kernel) override { residents_.let_go(kernel); }

  void start_receiver(const receiver_setup& setup) override {
    device_ = std::make_unique<host_receiver>(setup.device_ring, sink_kind::device, setup.device_handle);
    host_ = std::make_unique<host_receiver>(setup.host_ring, sink_kind::host, setup.host_handle);
    rings_ = std::make_unique<ring_server>(setup, ring_options_);
  }
  bool receive() override {
    throw_if_unheard();
    residents_.throw_if_failed();
    bool moved = device_->receive<Handlers>();
    moved |= host_->receive<Handlers>();
    return rings_->serve<Handlers>() || moved;
  }
  void stop_receiver() override {}

 private:
  /// The handle of an extent. A fabric handle of this backend, which is there to test how such handles travel, names a
  /// descriptor of this process. The descriptor stays open as long as the extent is there.
  memory_handle handle_of(const char* at, owned_descriptor memory) {
    if (!uses_fabric_) return memory;
    memory_handle named;
    named.fabric = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(memory.get());
    named.fabric.resize(memory_handle::fabric_bytes);
    std::lock_guard lock(ranges_lock_);
    handles_[at] = std::move(memory);
    return named;
  }
  static owned_descriptor open_fabric_handle(const std::string& handle) {
    owned_descriptor memory(::open(handle.c_str(), O_RDWR | O_CLOEXEC));
    if (!memory) fail_text(std::string("the memory of another PE: ") + handle.c_str() + ": " + std::strerror(errno));
    return memory;
  }
  void forget_handles(const char* at, uint64_t bytes) {
    std::lock_guard lock(ranges_lock_);
    handles_.erase(handles_.lower_bound(at), handles_.lower_bound(at + bytes));
  }
  static constexpr uint64_t usual_own_ring = 16 << 20;
  /// Two streams: a quiet of one thread must not wait behind a wait for all PEs.
  struct waiting {
    std::atomic<bool> failed{false};
    cpu_stream stream{failed};
    std::mutex lock;
  };
  static char* map_private(char* at, uint64_t bytes, const char* what) {
    void* const mapped = mmap(at, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
    if (mapped == MAP_FAILED) fail_memory(what, bytes);
    return static_cast<char*>(mapped);
  }
  static void map_shared(char* at, uint64_t bytes, int memory, const char* what) {
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory, 0) == MAP_FAILED)
      fail_memory(what, bytes);
  }
  bool lies_in_range(const void* at) {
    std::lock_guard lock(ranges_lock_);
    const auto next = ranges_.upper_bound(static_cast<const char*>(at));
    return next != ranges_.begin() && static_cast<const char*>(at) < std::prev(next)->first + std::prev(next)->second;
  }

  uint32_t local_size_ = 1;
  bool uses_rings_ = false, uses_fabric_ = false;
  uint64_t own_ring_bytes_ = 0;
  simt::launch_options ring_options_{};
  std::map<void*, uint64_t> allocated_;
  std::mutex ranges_lock_;
  std::map<const char*, uint64_t> ranges_;           ///< of reserve(): begin -> bytes
  std::map<const char*, owned_descriptor> handles_;  ///< begin of an extent -> what its fabric handle names
  std::unique_ptr<host_receiver> device_, host_;
  std::unique_ptr<ring_server> rings_;
  waiting waiting_[2];
  resident_cpu residents_;
};

}  // namespace gravel::detail
