// The CPU backend: the device is this process's own memory, kernels run on fibers (device/simt_cpu.hpp) in threads of their
// streams, and the receiver thread applies what arrives.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "host/backend.hpp"
#include "host/launcher_cpu.hpp"
#include "host/receiver.hpp"

namespace gravel {

template <class Handlers>
class cpu_backend final : public backend, public cpu_launcher {
 public:
  const char* name() const override { return "cpu"; }
  std::string describe() const override { return "CPU backend: lanes on fibers, blocks on threads"; }
  std::vector<handler_info> handlers() const override { return Handlers::template table<handler_info>(); }
  void open(uint32_t, uint32_t local_size) override { local_size_ = local_size; }

  /// Only reserved: pages cost memory when they are touched.
  void* allocate(uint64_t bytes, const char* what) override {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail_errno(std::string(what) + " of " + std::to_string(bytes) + " bytes does not fit");
    madvise(at, bytes, MADV_HUGEPAGE);  // random access over a large table lives on TLB reach
    allocated_[at] = bytes;
    return at;
  }
  void release(void* at) override {
    munmap(at, allocated_[at]);
    allocated_.erase(at);
  }
  /// Gives whole pages back, which are zero when they come again.
  void zero(void* at, uint64_t bytes) override {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(at), end = begin + bytes;
    const uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
    if (first >= last || madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0) {
      std::memset(at, 0, bytes);
      return;
    }
    std::memset(at, 0, first - begin);
    std::memset(reinterpret_cast<void*>(last), 0, end - last);
  }
  uint64_t usable_bytes() const override {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / local_size_;
  }
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  /// What is small may be words that others count up meanwhile (queue tickets, device_counters), which promise what
  /// was written before them.
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
  void store_pointer(void** at, void* value) override { store_release(at, value); }  // [X1]
  void synchronize() override { wait_for_kernels(); }
  void* create_stream() override { return new_stream(); }
  void destroy_stream(void* stream) override { end_stream(static_cast<cpu_stream*>(stream)); }
  void synchronize_stream(void* stream) override { wait_for_stream(static_cast<cpu_stream*>(stream)); }

  void start_receiver(const receiver_setup& setup) override {
    device_ = std::make_unique<host_receiver>(setup.device_ring, sink_kind::device, setup.device_handle);
    host_ = std::make_unique<host_receiver>(setup.host_ring, sink_kind::host, setup.host_handle);
  }
  bool receive() override {
    throw_if_unheard();
    const bool moved = device_->receive<Handlers>();
    return host_->receive<Handlers>() || moved;
  }
  void stop_receiver() override {}

 private:
  uint32_t local_size_ = 1;
  std::map<void*, uint64_t> allocated_;
  std::unique_ptr<host_receiver> device_, host_;
};

}  // namespace gravel
