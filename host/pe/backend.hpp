// What the host runtime needs from a device: memory, copies, and something that applies arriving messages. What depends
// on the program's handlers is compiled with the program (host/pe/cuda_program.cuh, host/pe/backend_cpu.hpp): so nobody
// needs -rdc.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "device/handler.cuh"
#include "device/settle.cuh"
#include "host/node/segment.hpp"
#include "host/pe/resident_kernel.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

/// What the receiver works on.
struct receiver_setup {
  gravel_t device_handle;  ///< for handlers that run on the device
  gravel_t host_handle;    ///< for handlers that run on the host
  landing device_ring, host_ring;
  const peer_ring* peer_sources;  ///< rings into this PE, in device memory
  uint32_t n_peer_sources;
  uint32_t own_source;            ///< number of the ring from this PE itself; n_peer_sources: there is none
  const uint64_t* peer_doorbell;  ///< changes when a peer has pushed something; nullptr: no peers
  uint64_t* attention;            ///< to be set while kernels run that may send
};

/// Packets that this process has applied on the host. What host handlers wrote before is ordered by it before what the
/// program reads after a collective; the words in between pass through another process, which ThreadSanitizer does not
/// see.
GRAVEL_API extern std::atomic<uint64_t> packets_applied;

class GRAVEL_API backend {
 public:
  virtual ~backend() = default;
  virtual const char* name() const = 0;  ///< "cpu" or "cuda"
  virtual std::string describe() const = 0;
  /// The device on the PCI bus, as "0000:3B:00.0"; empty: it is not there.
  virtual std::string bus_id() const { return {}; }
  virtual handler_table handlers() const = 0;
  /// Of the device, those that kernels of this PE may use: under MPS its share. 0: it is no GPU.
  virtual uint32_t multiprocessors() const { return 0; }

  /// Chooses the device for this PE: `local_rank` of `local_size` PEs on this host.
  virtual void open(uint32_t local_rank, uint32_t local_size) = 0;
  /// Device memory, zeroed; throws gravel::error with the free amount if it does not fit.
  virtual void* allocate(uint64_t bytes, const char* what) = 0;
  virtual void release(void*) = 0;
  /// Makes a piece of such memory zero again; returns when done.
  virtual void zero(void* at, uint64_t bytes) = 0;
  /// How much of what allocate() reserves may be in use at once, where that is less than can be reserved.
  virtual uint64_t usable_bytes() const { return ~uint64_t{0}; }
  /// Device memory that other processes of this machine may map, zeroed. To be given back by release().
  virtual void* allocate_exportable(uint64_t bytes, const char* what) { return allocate(bytes, what); }
  /// What import_memory() of another process needs to map such memory; empty: this device has nothing like that.
  virtual std::string export_memory(void*) { return {}; }
  /// Maps it; nullptr and a reason if that cannot be done, or atomic operations would not work there.
  virtual void* import_memory(const std::string&, std::string* why) {
    *why = "this backend maps no other PE's memory";
    return nullptr;
  }
  virtual void forget_memory(void*) {}
  /// Do kernels of several processes run on this device at the same time (MPS)?
  virtual bool runs_beside_others() const { return false; }
  /// Device memory for the ring of this PE to itself (lib/base/peer_ring.hpp); 0: the receiver serves none.
  virtual uint64_t own_ring_bytes() const { return 0; }
  /// Makes host memory reachable for kernels, at the same address.
  virtual void pin(void* memory, uint64_t bytes) = 0;
  virtual void unpin(void* memory) = 0;
  /// Copies between any two memories; returns when done. Does not wait for kernels.
  virtual void copy(void* to, const void* from, uint64_t bytes) = 0;
  /// The same between device memory of this PE and memory that is mapped here, without a kernel: by a copy engine,
  /// behind what is in the stream (one of create_stream; nullptr: the PE's own). Returns at once.
  virtual void copy_in_stream(void*, void*, const void*, uint64_t) { refuse_streams(); }
  /// What is put into the stream from now on begins when the word, in the own device memory, is at least `value`. The
  /// device's streams do that themselves, without a kernel; throws gravel::error where they cannot. Returns at once.
  virtual void wait_in_stream(void*, const uint64_t*, [[maybe_unused]] uint64_t value) { refuse_streams(); }
  /// The word becomes `value` behind what is in the stream; who sees that sees what that has written. Returns at once.
  virtual void write_in_stream(void*, uint64_t*, [[maybe_unused]] uint64_t value) { refuse_streams(); }
  /// Reads `n` words that kernels, or other processes, may be counting up, each with all that was written before it.
  virtual void read_words(uint64_t* to, const uint64_t* from, uint64_t n) { copy(to, from, n * sizeof(uint64_t)); }
  /// Whether host threads must not load from there.
  virtual bool is_device_memory(const void*) { return false; }
  /// Stores a word in device memory that kernels may read meanwhile, after all that was copied before [X1].
  virtual void store_word(uint64_t* at, uint64_t value) { copy(at, &value, sizeof(value)); }
  /// Waits for all kernels started by gravel_launch.
  virtual void synchronize() = 0;
  /// Streams for gravel_launch: a gravel_stream_t. nullptr is the PE's own.
  virtual void* create_stream() { refuse_streams(); }
  virtual void destroy_stream(void*) {}
  virtual void synchronize_stream(void*) {}
  /// Waits on the device (device/settle.cuh), in a barrier for all PEs to be in theirs of this number, not 0. Calls
  /// `meanwhile` now and then. False: this device cannot; the host is to look itself.
  virtual bool settle(settling, const settle_view&, [[maybe_unused]] uint64_t number, const std::function<void()>&) {
    return false;
  }

  /// While some thread holds it, what applies messages on the device stays there. To be given back by
  /// release_receiver().
  virtual void keep_receiver_resident() {}
  virtual void release_receiver() {}

  /// Why such a kernel cannot be kept resident here; empty: it can.
  virtual std::string refuse_resident(const resident_kernel&) { return "this backend has no services"; }
  /// From now on it is resident while kernels of gravel_launch run, and whenever its doorbell has changed. Returns when
  /// it is for the first time. Throws gravel::error if it does not become so. The kernel stays where it is until
  /// let_go().
  virtual void keep_resident(resident_kernel&) {}
  /// Ends it, and returns when it has ended.
  virtual void let_go(resident_kernel&) {}

  /// After this, receive() is called again and again by one thread. True: something moved.
  virtual void start_receiver(const receiver_setup&) = 0;
  virtual bool receive() = 0;
  virtual void stop_receiver() = 0;
  /// What it is doing, for whoever looks into a job that does not go on.
  virtual std::string describe_receiver() { return {}; }

 private:
  [[noreturn]] static void refuse_streams() { fail_text("this backend has no streams"); }
};

}  // namespace gravel::detail
