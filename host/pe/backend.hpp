// What the host runtime needs from a device: memory, copies, and a receiver that applies arriving messages. All code
// that depends on the program's handlers is compiled with the program (host/pe/cuda_program.cuh,
// host/pe/backend_cpu.hpp), so no program needs -rdc.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "device/handler.cuh"
#include "device/settle.cuh"
#include "host/node/segment.hpp"
#include "host/pe/memory_handle.hpp"
#include "host/pe/resident_kernel.hpp"
#include "host/pe/shareable_memory.hpp"
#include "lib/base/error.hpp"
#include "lib/base/place.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {

/// Parameters of a receiver.
struct receiver_setup {
  gravel_t device_handle;  ///< for handlers that run on the device
  gravel_t host_handle;    ///< for handlers that run on the host
  landing device_ring, host_ring;
  const peer_ring* peer_sources;  ///< rings that end at this PE, in device memory
  uint32_t n_peer_sources;
  uint32_t own_source;            ///< number of the ring from this PE itself; n_peer_sources: there is none
  const uint64_t* peer_doorbell;  ///< changes when a peer has pushed a chunk; nullptr: no peers
  uint64_t* attention;            ///< the receiver sets it while kernels run that may send
  rendezvous_view settle;         ///< for a quiet or a barrier by a resident kernel
};

/// What kernels of one device may do in the memory of another, over the link between them.
struct peer_access {
  bool stores = true;   ///< and loads
  bool atomics = true;  ///< atomic operations are atomic for both devices
  std::string why;      ///< why not all of that; names the two devices
};

/// Number of packets that this process has applied on the host. It orders what host handlers wrote before what the
/// program reads after a collective. The words of a collective pass through another process, which ThreadSanitizer does
/// not see.
GRAVEL_API extern std::atomic<uint64_t> packets_applied;

class GRAVEL_API backend {
 public:
  virtual ~backend() = default;
  virtual const char* name() const = 0;  ///< "cpu" or "cuda"
  virtual std::string describe() const = 0;
  /// The device on the PCI bus, such as "0000:3B:00.0"; empty: it has no place there.
  virtual std::string bus_id() const { return {}; }
  virtual handler_table handlers() const = 0;
  /// Number of multiprocessors that kernels of this PE may use: under MPS its share. 0: the device is no GPU.
  virtual uint32_t multiprocessors() const { return 0; }
  /// Shared memory that a block may have at most, static and dynamic together.
  virtual uint64_t block_shared_bytes() const { return 227 << 10; }

  /// Number of the device in this process, as CUDA counts; -1: it has none.
  virtual int device_number() const { return -1; }
  /// Chooses the device of this PE, which is number `local_rank` of `local_size` PEs on this host.
  virtual void open(uint32_t local_rank, uint32_t local_size) = 0;
  /// Device memory, zeroed. Throws gravel::error with the free amount if there is not enough.
  virtual void* allocate(uint64_t bytes, const char* what) = 0;
  virtual void release(void*) = 0;
  /// Zeroes a part of such memory. Returns when that is done.
  virtual void zero(void* at, uint64_t bytes) = 0;
  /// How much of the memory of allocate() may be in use at once, if that is less than can be reserved.
  virtual uint64_t usable_bytes() const { return ~uint64_t{0}; }
  /// Memory in extents. Extents begin at multiples of this number of bytes, and have multiples of it; 0: this device
  /// has no such memory, and the members below are not called.
  virtual uint64_t granule() const { return 0; }
  /// Why it has none.
  virtual std::string why_fixed() const { return "this backend has no memory in extents"; }
  /// Reserves addresses that have no memory behind them yet. Throws gravel::error if that is impossible.
  virtual char* reserve([[maybe_unused]] uint64_t bytes, const char*) { refuse_extents(); }
  /// Takes the memory of a range of reserve() away, and the addresses.
  virtual void unreserve(char*, [[maybe_unused]] uint64_t bytes) {}
  /// Puts zeroed memory of the device or of the host behind an extent. Returns the handle by which other processes map
  /// the memory, or none if they cannot. Throws gravel::error with the free amount if there is not enough.
  virtual memory_handle commit(char*, [[maybe_unused]] uint64_t bytes, const char*, place) { refuse_extents(); }
  /// Where memory of the host behind extents lies, for the log.
  virtual std::string describe_host_memory() { return {}; }
  /// Puts memory of another process behind an extent. Throws gravel::error.
  virtual void map_extent(char*, [[maybe_unused]] uint64_t bytes, memory_handle) { refuse_extents(); }
  /// Finds the memory of the program that contains a range of addresses, if others can map it. Throws gravel::error
  /// that says why they cannot.
  virtual shareable_memory find_shareable(const char*, [[maybe_unused]] uint64_t bytes) { refuse_extents(); }
  /// Puts a piece of such memory, which lies at `from`, behind an extent of the same size, too. Returns the handle as
  /// commit(). Throws gravel::error.
  virtual memory_handle map_again(char*, [[maybe_unused]] const char* from, [[maybe_unused]] uint64_t bytes) {
    refuse_extents();
  }
  /// Takes the memory of an extent away. That of map_again() stays where it was.
  virtual void decommit(char*, [[maybe_unused]] uint64_t bytes) {}
  /// True if other processes can map extents of this device.
  virtual bool shares_extents() const { return false; }
  /// True if the handles of its extents are fabric handles.
  virtual bool shares_by_fabric() const { return false; }
  /// How other PEs map memory of this device, for the log; empty: there is nothing to say.
  virtual std::string describe_sharing() const { return {}; }
  /// The NVLink domain within which fabric handles map memory of this device (host/node/gpu_fabric.hpp); empty: handles
  /// of this device do not reach beyond this host.
  virtual std::string nvlink_domain() const { return {}; }
  /// What kernels of this device may do in memory of that device (a bus_id() of another PE).
  virtual peer_access access_to(const std::string&) { return {}; }
  /// Bytes that the symmetric heap may have at most, if GRAVEL_SYMMETRIC_SIZE says nothing.
  virtual uint64_t usual_heap_limit() const { return usual_fixed_heap; }

  /// Device memory, zeroed, that other processes of this machine may map. release() frees it. For devices without
  /// extents.
  virtual void* allocate_exportable(uint64_t bytes, const char* what) { return allocate(bytes, what); }
  /// Text that import_memory() of another process needs to map such memory; empty: this device cannot export memory.
  virtual std::string export_memory(void*) { return {}; }
  /// Maps memory of another process. nullptr and a reason if that is impossible.
  virtual void* import_memory(const std::string&, std::string* why) {
    *why = "this backend maps no other PE's memory";
    return nullptr;
  }
  virtual void forget_memory(void*) {}
  /// True if kernels of several processes run on this device at the same time (MPS).
  virtual bool runs_beside_others() const { return false; }
  /// Bytes of device memory for the ring of this PE to itself (lib/base/peer_ring.hpp); 0: the receiver serves no such
  /// ring.
  virtual uint64_t own_ring_bytes() const { return 0; }
  /// Makes host memory accessible to kernels, at the same address.
  virtual void pin(void* memory, uint64_t bytes) = 0;
  virtual void unpin(void* memory) = 0;
  /// Copies between any two memories. Returns when that is done. Does not wait for kernels.
  virtual void copy(void* to, const void* from, uint64_t bytes) = 0;
  /// Copies between device memory of this PE and memory that is mapped here, by a copy engine, without a kernel, behind
  /// what is in the stream (one of create_stream; nullptr: the PE's own). Returns at once.
  virtual void copy_in_stream(void*, void*, const void*, uint64_t) { refuse_streams(); }
  /// As copy_in_stream(), for a copy that nothing has to follow: synchronize() waits for it. A stream capture takes it,
  /// too.
  virtual void copy_alone_in_stream(void* stream, void* to, const void* from, uint64_t bytes) {
    copy_in_stream(stream, to, from, bytes);
  }
  /// Makes the stream wait: what is put into it from now on begins when the word, in the PE's own device memory, is at
  /// least `value`. The stream waits by itself, without a kernel. Throws gravel::error if streams of this device
  /// cannot. Returns at once.
  virtual void wait_in_stream(void*, const uint64_t*, [[maybe_unused]] uint64_t value) { refuse_streams(); }
  /// Makes the stream write `value` into the word, behind what is in it. A reader that sees the value sees all earlier
  /// writes of the stream. Returns at once.
  virtual void write_in_stream(void*, uint64_t*, [[maybe_unused]] uint64_t value) { refuse_streams(); }
  /// Reads `n` words that kernels, or other processes, may be incrementing. What was written before each increment is
  /// visible.
  virtual void read_words(uint64_t* to, const uint64_t* from, uint64_t n) { copy(to, from, n * sizeof(uint64_t)); }
  /// True if kernels can load from this address.
  virtual bool is_reached_by_kernels(const void*) { return true; }
  /// True if host threads cannot load from this address.
  virtual bool is_device_memory(const void*) { return false; }
  /// Stores a word into device memory that kernels may be reading, after all earlier copies [X1].
  virtual void store_word(uint64_t* at, uint64_t value) { copy(at, &value, sizeof(value)); }
  /// Waits for all kernels of gravel_launch.
  virtual void synchronize() = 0;
  /// Makes a stream for gravel_launch: a gravel_stream_t. nullptr stands for the PE's own stream.
  virtual void* create_stream() { refuse_streams(); }
  virtual void destroy_stream(void*) {}
  virtual void synchronize_stream(void*) {}
  /// Waits for a stream that another library has made.
  virtual void wait_for_other_stream(void*) {}
  /// Waits on the device (device/settle.cuh). In a barrier it also waits until all PEs have come to their barrier of
  /// this number, which is not 0. Calls `meanwhile` now and then. False: this device cannot; the host has to poll
  /// itself.
  virtual bool settle(settling, const settle_view&, [[maybe_unused]] uint64_t number, const std::function<void()>&) {
    return false;
  }

  /// Keeps the part of the device that applies messages resident, until as many calls of release_receiver().
  virtual void keep_receiver_resident() {}
  virtual void release_receiver() {}

  /// Why such a kernel cannot be kept resident; empty: it can.
  virtual std::string refuse_resident(const resident_kernel&) { return "this backend has no services"; }
  /// From now on the kernel is resident while kernels of gravel_launch run, and whenever its doorbell has changed.
  /// Returns when it is resident for the first time. Throws gravel::error if it does not become resident. The object
  /// must not move before let_go().
  virtual void keep_resident(resident_kernel&) {}
  /// Ends the kernel. Returns when it has ended.
  virtual void let_go(resident_kernel&) {}

  /// After this call one thread calls receive() again and again. receive() returns true if anything moved.
  virtual void start_receiver(const receiver_setup&) = 0;
  virtual bool receive() = 0;
  virtual void stop_receiver() = 0;
  /// State of the receiver, as a text for a report about a job that makes no progress.
  virtual std::string describe_receiver() { return {}; }

 private:
  [[noreturn]] static void refuse_streams() { fail_text("this backend has no streams"); }
  [[noreturn]] static void refuse_extents() { fail_text("this backend has no memory in extents"); }
};

}  // namespace gravel::detail
