// The CPU backend. The device is this process's own memory. Kernels run on fibers (device/cpu/simt_cpu.hpp) in the
// threads of their streams, and the receiver thread applies arriving messages. The route `peer` is used only if
// GRAVEL_ROUTES asks for it: the aggregator is faster here, and memory that other processes map has no huge pages.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>

#include "host/pe/backend.hpp"
#include "host/pe/exported_memory.hpp"
#include "host/pe/launcher_cpu.hpp"
#include "host/pe/receiver.hpp"
#include "host/pe/resident_cpu.hpp"
#include "host/pe/ring_server.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {

template <class Handlers>
class cpu_backend final : public cpu_launcher {
 public:
  const char* name() const override { return "cpu"; }
  std::string describe() const override { return "CPU backend: lanes on fibers, blocks on threads"; }
  handler_table handlers() const override { return Handlers::table(); }
  void open(uint32_t, uint32_t local_size) override {
    local_size_ = local_size;
    const settings& s = current_settings();
    uses_rings_ = s.routes == "peer" || s.routes == "direct";
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
    if (exported_.erase(at)) return;
    munmap(at, allocated_[at]);
    allocated_.erase(at);
  }
  void* allocate_exportable(uint64_t bytes, const char* what) override {
    if (!uses_rings_) return allocate(bytes, what);
    sealed_memory made = make_exported(bytes, what);
    void* const at = made.at();
    exported_.emplace(at, std::move(made));
    return at;
  }
  std::string export_memory(void* at) override {
    const auto found = exported_.find(at);
    return found == exported_.end() ? std::string() : describe_exported(found->second);
  }
  void* import_memory(const std::string& exported, std::string* why) override {
    try {
      sealed_memory theirs = attach_exported(exported);
      void* const at = theirs.at();
      attached_.emplace(at, std::move(theirs));
      return at;
    } catch (const error& e) {
      *why = e.what();
      return nullptr;
    }
  }
  void forget_memory(void* at) override { attached_.erase(at); }
  /// A program without handlers on the device sends nothing through this ring.
  uint64_t own_ring_bytes() const override { return uses_rings_ && Handlers::runs_on_device ? own_ring_bytes_ : 0; }

  /// Frees whole pages. They are zero when they are touched again.
  void zero(void* at, uint64_t bytes) override {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(at),
                   end = begin + bytes;
    const uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
    // Pages that other processes map, too, are freed only by MADV_REMOVE.
    const bool shared = !exported_.empty() && exported_holds(at);
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
  static constexpr uint64_t usual_own_ring = 16 << 20;
  /// Two streams: a quiet of one thread must not wait behind a wait for all PEs.
  struct waiting {
    std::atomic<bool> failed{false};
    cpu_stream stream{failed};
    std::mutex lock;
  };
  bool exported_holds(const void* at) const {
    auto next = exported_.upper_bound(const_cast<void*>(at));
    return next != exported_.begin() && std::prev(next)->second.holds(at);
  }

  uint32_t local_size_ = 1;
  bool uses_rings_ = false;
  uint64_t own_ring_bytes_ = 0;
  simt::launch_options ring_options_{};
  std::map<void*, uint64_t> allocated_;
  std::map<void*, sealed_memory> exported_, attached_;
  std::unique_ptr<host_receiver> device_, host_;
  std::unique_ptr<ring_server> rings_;
  waiting waiting_[2];
  resident_cpu residents_;
};

}  // namespace gravel::detail
