// The CUDA backend. The heap lies in GPU memory, the segment is pinned for the GPU, and the resolver kernel applies
// arriving messages. The program contains the kernels (host/pe/cuda_program.cuh): no GPU code is compiled here.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "host/node/gpu_fabric.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/cuda_program.cuh"
#include "host/pe/extents_cuda.cuh"
#include "host/pe/launcher_cuda.cuh"
#include "host/pe/receiver.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {
namespace {

/// Number of GPUs that CUDA will show this process, counted without CUDA; 0: not known.
uint32_t visible_gpus() {
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES"))
    return *list == 0 ? 0 : static_cast<uint32_t>(std::count(list, list + std::strlen(list), ',')) + 1;
  uint32_t n = 0;
  while (access(("/dev/nvidia" + std::to_string(n)).c_str(), F_OK) == 0) ++n;
  return n;
}

/// Multiprocessors that a PE needs: of four the resolver takes three, one for packets and two for rings.
constexpr uint64_t least_processors = 4;
/// Parts of a GPU under MPS that have at most so many multiprocessors may overlap.
constexpr uint64_t most_in_overlapping_part = 16;

/// Without a lease the resolver's kernel ends when nothing has come for this long, in ns.
constexpr uint64_t resolver_idle_ns = 200'000;

class cuda_backend final : public cuda_launcher {
 public:
  explicit cuda_backend(const cuda_program& program) : program_(program) {}
  const char* name() const override { return "cuda"; }
  int device_number() const override { return device_; }
  uint32_t multiprocessors() const override { return static_cast<uint32_t>(processors_count()); }
  uint64_t block_shared_bytes() const override { return most_shared(); }
  std::string describe() const override { return description_; }
  std::string bus_id() const override {
    char id[32] = "";
    cuda_check(cudaDeviceGetPCIBusId(id, sizeof(id), device_), "cudaDeviceGetPCIBusId");
    return id;
  }
  handler_table handlers() const override { return program_.handlers; }

  void open(uint32_t local_rank, uint32_t local_size) override {
    // A kernel that is loaded while the resolver is resident may wait for it forever. If this setting comes in time,
    // CUDA loads all kernels of the program now. If not, each is loaded at its first launch (load() in the launcher).
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    // Under MPS kernels of several PEs run at once. A kernel that waits for another PE's resolver must not occupy the
    // place of that resolver. So each PE has its own part of the multiprocessors. CUDA reads this variable at its first
    // use.
    if (const uint32_t gpus = visible_gpus(); gpus && local_size > gpus)
      setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(100 / ((local_size + gpus - 1) / gpus)).c_str(), 0);
    int count = 0;
    cuda_check(cudaGetDeviceCount(&count), "looking for GPUs (programs NAME-cpu run without one)");
    device_ = static_cast<int>(local_rank) % count;
    cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    cudaDeviceProp properties;
    cuda_check(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    description_ = joined("GPU ", device_, ": ", properties.name, ", ", properties.multiProcessorCount, " SMs");
    open_launcher(properties);
    resolver_stream_ = new_stream(true);
    copy_ = new_stream(true);
    for (waiting& w : waiting_) w.stream = new_stream(true);
    cuda_check(cudaHostAlloc(&control_, sizeof(resolver_control), cudaHostAllocDefault), "cudaHostAlloc");
    *control_ = {};
    const settings& s = current_settings();
    // A kernel that uses shared memory cannot run on a multiprocessor where the resolver runs, because the division of
    // its memory into cache and shared memory is fixed meanwhile. So a quarter of the multiprocessors is left to
    // programs. Under MPS the resolvers of all PEs of this GPU run at once; otherwise only that of one PE.
    int under_mps = 0;
    cudaDeviceGetAttribute(&under_mps, cudaDevAttrMpsEnabled, device_);
    under_mps_ = under_mps != 0;
    const uint32_t on_this_gpu = (local_size + static_cast<uint32_t>(count) - 1) / static_cast<uint32_t>(count);
    on_this_gpu_ = on_this_gpu;
    own_ring_bytes_ = s.own_ring_size ? s.own_ring_size : properties.totalGlobalMem / 16 / on_this_gpu;
    // Without a channel fabric handles are refused, and NVML need not be asked.
    const bool has_channel = access("/dev/nvidia-caps-imex-channels", F_OK) == 0;
    if (has_channel || s.handle_type == "fabric") nvlink_domain_ = find_gpu_fabric(bus_id()).domain;
    handles_ = choose_handles(s.handle_type, has_channel && !nvlink_domain_.empty(),
                              [&](handle_kind kind) { return extents_.try_handles(device_, kind); });
    if (handles_.kind) extents_.share_by(*handles_.kind);
    // Under MPS a process sees only its part of the GPU.
    const char* const percentage = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const auto part = std::clamp<uint64_t>(percentage ? std::strtoul(percentage, nullptr, 10) : 100, 1, 100);
    const uint64_t at_once = under_mps_ ? (on_this_gpu * part + 99) / 100 : 1;
    const uint64_t share = static_cast<uint64_t>(properties.multiProcessorCount) / at_once;
    if (share < least_processors)
      fail_text(joined("GPU ", device_, " has ", share, " multiprocessors for this PE (", at_once,
                       " PEs use it at once; CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is ",
                       percentage ? percentage : "not set", "); Gravel needs ", least_processors,
                       ", as its resolver takes up to three of them"));
    // Small parts under MPS may overlap: 16 parts of 8 do not fit the groups in which a GPU has its multiprocessors.
    // Then two resolvers must leave room for both programs.
    const bool may_overlap = under_mps_ && share <= most_in_overlapping_part;
    const uint64_t most_blocks = may_overlap ? share / 8 : share / 4,
                   most_ring_blocks = may_overlap ? share / 8 : share / 2;
    blocks_ = static_cast<unsigned>(std::clamp<uint64_t>(s.resolver_blocks, 1, std::max<uint64_t>(most_blocks, 1)));
    ring_blocks_ =
        static_cast<unsigned>(std::clamp<uint64_t>(s.resolver_ring_blocks, 1, std::max<uint64_t>(most_ring_blocks, 1)));
    resident_ = s.resolver_resident;
    lingers_ = under_mps_ || on_this_gpu == 1;
    resolvers_at_once_ = at_once;
    is_only_pe_ = !under_mps_ || on_this_gpu == 1;
    services_.open(s.partition, under_mps_, s.resolver_quantum_us, blocks_ + ring_blocks_);
    if (services_.has_parts()) {  // otherwise the resolver runs where it finds room
      cudaStreamDestroy(resolver_stream_);
      resolver_part_ = services_.parts().take(blocks_ + ring_blocks_, urgency());
      resolver_stream_ = resolver_part_.stream;
    }
    limits_ = {s.resolver_quantum_us * 1000, resolver_idle_ns, 0};
  }

  void* allocate(uint64_t bytes, const char* what) override {
    const device_scope here(context_);
    void* at = nullptr;
    if (cudaMalloc(&at, bytes) != cudaSuccess) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fail_text(joined(what, " of ", text_of_bytes(bytes), " does not fit: GPU ", device_, " has ", text_of_bytes(free),
                       " free of ", text_of_bytes(total), " (see GRAVEL_SYMMETRIC_SIZE)"));
    }
    zero(at, bytes);
    return at;
  }
  void release(void* at) override {
    const device_scope here(context_);
    cudaFree(at);
  }
  void zero(void* at, uint64_t bytes) override {
    const device_scope here(context_);
    cuda_check(cudaMemsetAsync(at, 0, bytes, copy_), "cudaMemset");
    cuda_check(cudaStreamSynchronize(copy_), "cudaMemset");
  }

  uint64_t granule() const override { return handles_.kind ? extents_cuda::granule : 0; }
  std::string why_fixed() const override { return handles_.why_fixed; }
  bool shares_extents() const override { return handles_.kind.has_value(); }
  std::string describe_sharing() const override { return gravel::detail::describe(handles_); }
  bool shares_by_fabric() const override { return handles_.kind == handle_kind::fabric; }
  std::string nvlink_domain() const override { return shares_by_fabric() ? nvlink_domain_ : std::string(); }
  char* reserve(uint64_t bytes, const char* what) override {
    const device_scope here(context_);
    char* const at = extents_.reserve(bytes, what);
    ranges_[at] = {bytes, {}};
    return at;
  }
  void unreserve(char* at, uint64_t bytes) override {
    const device_scope here(context_);
    for (const auto& [begin, size] : ranges_[at].extents) extents_.decommit(begin, size);
    ranges_.erase(at);
    extents_.unreserve(at, bytes);
  }
  memory_handle commit(char* at, uint64_t bytes, const char* what, place where) override {
    const device_scope here(context_);
    memory_handle memory = extents_.commit(at, bytes, what, where);
    range_of(at).extents[at] = bytes;
    zero(at, bytes);
    return memory;
  }
  std::string describe_host_memory() override { return extents_.describe_host(); }
  void map_extent(char* at, uint64_t bytes, memory_handle theirs) override {
    const device_scope here(context_);
    extents_.map_shared(at, bytes, theirs);
    range_of(at).extents[at] = bytes;
  }
  shareable_memory find_shareable(const char* at, uint64_t bytes) override {
    const device_scope here(context_);
    return extents_.find_shareable(at, bytes);
  }
  memory_handle map_again(char* at, const char* from, uint64_t bytes) override {
    const device_scope here(context_);
    memory_handle memory = extents_.map_again(at, from, bytes);
    range_of(at).extents[at] = bytes;
    return memory;
  }
  void decommit(char* at, uint64_t bytes) override {
    const device_scope here(context_);
    extents_.decommit(at, bytes);
    range_of(at).extents.erase(at);
  }
  /// What is free now, for each PE of this GPU, less a reserve for the program and CUDA, and less the own ring.
  uint64_t usual_heap_limit() const override {
    if (!handles_.kind) return usual_fixed_heap;
    const device_scope here(context_);
    size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const uint64_t reserve = std::max<uint64_t>(1ull << 30, total / 16), least = 64 << 20;
    const uint64_t each = free > reserve ? (free - reserve) / on_this_gpu_ : 0;
    return std::max(least, each > own_ring_bytes_ ? each - own_ring_bytes_ : 0);
  }

  /// CUDA exports whole allocations, in multiples of 2 MiB. A smaller one might share its allocation with others.
  void* allocate_exportable(uint64_t bytes, const char* what) override {
    constexpr uint64_t granule = 2 << 20;
    return allocate((bytes + granule - 1) / granule * granule, what);
  }
  std::string export_memory(void* at) override {
    const device_scope here(context_);
    cudaIpcMemHandle_t handle;
    if (cudaIpcGetMemHandle(&handle, at) != cudaSuccess) {
      cudaGetLastError();
      return std::string();
    }
    return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
  }
  void* import_memory(const std::string& exported, std::string* why) override {
    const device_scope here(context_);
    cudaIpcMemHandle_t handle;
    if (exported.size() != sizeof(handle)) {
      *why = "its description has a wrong size";
      return nullptr;
    }
    std::memcpy(&handle, exported.data(), sizeof(handle));
    void* at = nullptr;
    const cudaError_t code = cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess);
    if (code == cudaSuccess) return at;
    cudaGetLastError();
    *why = joined("cudaIpcOpenMemHandle: ", cudaGetErrorString(code));
    return nullptr;
  }
  peer_access access_to(const std::string& bus_id) override {
    const device_scope here(context_);
    int other = -1;
    if (cudaDeviceGetByPCIBusId(&other, bus_id.c_str()) != cudaSuccess) {
      cudaGetLastError();
      return {false, false, "this process does not see its GPU, " + bus_id};
    }
    if (other == device_) return {};
    // What the driver does not say counts as no.
    int reaches = 0, atomic = 0;
    if (cudaDeviceCanAccessPeer(&reaches, device_, other) != cudaSuccess) reaches = 0;
    if (cudaDeviceGetP2PAttribute(&atomic, cudaDevP2PAttrNativeAtomicSupported, device_, other) != cudaSuccess)
      atomic = 0;
    cudaGetLastError();
    const std::string pair = joined("GPU ", device_, " to GPU ", other);
    if (!reaches) return {false, false, pair + ": no peer access"};
    if (!atomic) return {true, false, pair + ": no atomic operations between them (no NVLink)"};
    return {};
  }
  void forget_memory(void* at) override {
    const device_scope here(context_);
    cudaIpcCloseMemHandle(at);
  }
  bool runs_beside_others() const override { return under_mps_; }
  /// A program without handlers on the device sends nothing through this ring.
  uint64_t own_ring_bytes() const override { return program_.handlers.any_on_device ? own_ring_bytes_ : 0; }

  void pin(void* memory, uint64_t bytes) override {
    const device_scope here(context_);
    cuda_check(cudaHostRegister(memory, bytes, cudaHostRegisterDefault),
               "pinning the segment for the GPU (cudaHostRegister)");
    void* on_device = nullptr;
    cuda_check(cudaHostGetDevicePointer(&on_device, memory, 0), "cudaHostGetDevicePointer");
    if (on_device != memory) fail_text(joined("GPU ", device_, " does not see pinned memory at its host address"));
  }
  void unpin(void* memory) override {
    const device_scope here(context_);
    cudaHostUnregister(memory);
  }
  void wait_for_other_stream(void* stream) override {
    const device_scope here(context_);
    cuda_check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "a stream of another library");
  }
  void copy(void* to, const void* from, uint64_t bytes) override {
    const device_scope here(context_);
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, copy_), "copying to or from the GPU");
    cuda_check(cudaStreamSynchronize(copy_), "copying to or from the GPU");
  }
  bool is_reached_by_kernels(const void* at) override {
    const device_scope here(context_);
    cudaPointerAttributes a{};
    cuda_check(cudaPointerGetAttributes(&a, at), "cudaPointerGetAttributes");
    return a.type != cudaMemoryTypeUnregistered;
  }
  bool is_device_memory(const void* at) override {
    const device_scope here(context_);
    cudaPointerAttributes a{};
    cuda_check(cudaPointerGetAttributes(&a, at), "cudaPointerGetAttributes");
    return a.type == cudaMemoryTypeDevice;
  }
  bool settle(settling what, const settle_view& view, uint64_t number,
              const std::function<void()>& meanwhile) override {
    if (!resident_) return false;  // kernels that wait need the resolver beside them
    const device_scope here(context_);
    if (what != settling::quiescence && settle_by_order(what == settling::barrier ? number : 0, meanwhile)) return true;
    const bool together = what != settling::quiet;
    waiting& mine = waiting_[together];
    std::lock_guard lock(mine.lock);
    uint64_t* settled = &control_->settled[together];
    store_relaxed(settled, uint64_t{0});
    settle_view copied = view;
    void* arguments[] = {&copied, &number, &settled};
    cuda_check(cudaLaunchKernel(program_.settle[static_cast<int>(what)], 1, settle_threads, arguments, 0, mine.stream),
               "waiting on the device");
    uint32_t rounds = 0;
    for (relax wait; load_acquire(settled) == 0; wait.attentively()) {  // [S2]
      if (++rounds % 1024 != 0) continue;
      const cudaError_t state = cudaStreamQuery(mine.stream);
      if (state != cudaSuccess && state != cudaErrorNotReady) cuda_check(state, "waiting on the device");
      meanwhile();
    }
    return true;
  }

  /// Orders the resolver to settle (device/settle_orders.cuh). `barrier`: number of the barrier; 0: a quiet. False: no
  /// resolver is resident for long enough, or another thread's order is under way.
  bool settle_by_order(uint64_t barrier, const std::function<void()>& meanwhile) {
    if (!rings_.orders) return false;
    const std::unique_lock one(ordering_, std::try_to_lock);
    if (!one || !keep_seen_lease()) return false;
    const std::unique_ptr<backend, void (*)(backend*)> lease(this, [](backend* of) { of->release_receiver(); });
    const uint64_t order = settle_order::word(++orders_, barrier);
    store_release(&control_->order, order);  // [Q1]
    uint32_t rounds = 0;
    for (relax wait; load_acquire(&control_->answered) != order; wait.attentively()) {  // [Q2]
      if (++rounds % 1024 != 0) continue;
      const cudaError_t state = cudaStreamQuery(resolver_stream_);
      if (state != cudaErrorNotReady) cuda_check(state, "waiting on the device");
      meanwhile();
    }
    return true;
  }

  std::string refuse_resident(const resident_kernel& kernel) override {
    if (!resident_) return "services need GRAVEL_RESOLVER_RESIDENT=yes";
    const device_scope here(context_);
    std::lock_guard lock(lock_);
    // If each block may occupy a multiprocessor of its own, an eighth of them is left to the program.
    const uint64_t needed = services_.has_parts() ? residency_cuda::processors_for(kernel) : kernel.blocks;
    const uint64_t most = processors_count() - processors_count() / 8,
                   taken = resolver_processors_ + resolvers_at_once_ * services_.blocks();
    if (resolvers_at_once_ * needed + taken <= most) return {};
    return joined(kernel.blocks, " blocks of ", kernel.threads,
                  " threads; beside the resolver and other services there is room for ",
                  taken < most ? (most - taken) / resolvers_at_once_ : 0, " on the ", processors_count(),
                  " multiprocessors");
  }
  void keep_resident(resident_kernel& kernel) override {
    const device_scope here(context_);
    std::unique_lock lock(lock_);
    load(prepare(kernel.function, lock), kernel.function, {.grid = kernel.blocks, .block = kernel.threads}, lock);
    services_.add(kernel, urgency());
    const auto begin = std::chrono::steady_clock::now();
    for (relax wait;;) {
      advance_services();
      if (load_acquire(&kernel.control->resident) != 0) return;  // [V3]; its quantum may be over already
      const bool late =
          std::chrono::steady_clock::now() - begin > std::chrono::seconds(current_settings().connect_timeout_s);
      if (late)
        fail_text(joined("it has not become resident in ", current_settings().connect_timeout_s,
                         " s; what else runs on this GPU?"));
      lock.unlock();
      wait();
      lock.lock();
    }
  }
  void let_go(resident_kernel& kernel) override {
    const device_scope here(context_);
    std::unique_lock lock(lock_);
    services_.leave(kernel);
    for (relax wait;;) {
      advance_services();
      if (!services_.runs(kernel)) break;
      lock.unlock();
      wait.attentively();
      lock.lock();
    }
    const partition_cuda::part left = services_.remove(kernel);
    lock.unlock();
    services_.destroy(left);
  }

  void start_receiver(const receiver_setup& setup) override {
    const device_scope here(context_);
    setup_ = setup;
    attention_ = setup.attention;
    const uint64_t bytes = sizeof(resolver_state) + setup.device_ring.streams * sizeof(stream_state);
    state_ = static_cast<resolver_state*>(allocate(bytes, "resolver state"));
    if (setup.n_peer_sources) {
      const uint64_t warps = ring_blocks_ * uint64_t{resolver_warps},
                     all_warps = (blocks_ + ring_blocks_) * uint64_t{resolver_warps};
      const std::vector<ring_place> nowhere(warps * 32 * ring_watch::groups_for(setup.n_peer_sources),
                                            ring_place{ring_place::none, ring_place::none});
      const auto state = [&](uint64_t size) { return allocate(size, "resolver state"); };
      rings_ = {setup.peer_sources,
                static_cast<uint64_t*>(state(setup.n_peer_sources * sizeof(uint64_t))),
                static_cast<ring_place*>(state(nowhere.size() * sizeof(ring_place))),
                setup.n_peer_sources,
                ring_blocks_,
                setup.own_source,
                static_cast<deferred_tickets*>(state(all_warps * sizeof(deferred_tickets))),
                nullptr};
      if (setup.settle.all.n) {
        auto* const view = static_cast<rendezvous_view*>(state(sizeof(rendezvous_view)));
        copy(view, &setup.settle, sizeof(rendezvous_view));
        rings_.orders = view;
      }
      copy(rings_.places, nowhere.data(), nowhere.size() * sizeof(ring_place));
    }
    host_ = std::make_unique<host_receiver>(setup.host_ring, sink_kind::host, setup.host_handle);
    if (resident_) resolver_processors_ = resolvers_at_once_ * (blocks_ + rings_.blocks);
    // Launches the resolver once now. It finds nothing and ends.
    std::unique_lock lock(lock_);
    // A packet of the usual size fits into the shared memory of a block.
    const size_t own = prepare(program_.resolver, lock).static_shared + resolver_shared_bytes;
    limits_.stage_units = static_cast<uint32_t>(
        std::min<uint64_t>(packet_capacity_units(setup.device_ring.packet_size), (most_shared() - own) / sizeof(unit)));
    cuda_check(cudaFuncSetAttribute(program_.resolver, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(resolver_bytes())),
               "shared memory of the resolver");
    for (const void* kernel : program_.settle)
      load(prepare(kernel, lock), kernel, {.grid = 1, .block = settle_threads}, lock);
    launch_resolver();
  }

  bool receive() override {
    bool moved = host_->receive(program_.apply);
    const uint64_t arrived = load_acquire(setup_.device_ring.arrivals);
    moved |= arrived != seen_arrivals_;
    seen_arrivals_ = arrived;
    if (may_skip_polls()) return true;
    const device_scope here(context_);
    std::lock_guard lock(lock_);
    poll_end();
    const uint64_t doorbell = setup_.peer_doorbell ? load_acquire(setup_.peer_doorbell) : 0;
    if (has_lease_ || arrived != load_acquire(&control_->taken) || doorbell != seen_doorbell_ ||
        load_acquire(&control_->left_over))
      ensure_resolver();
    const bool services_run = advance_services();
    return moved || has_lease_ || doorbell != seen_doorbell_ || services_run;
  }

  void stop_receiver() override {
    if (!state_) return;
    const device_scope here(context_);
    store_release(&control_->lease, uint64_t{0});
    cudaStreamSynchronize(resolver_stream_);
    cudaFree(state_);
    cudaFree(rings_.drawn);
    cudaFree(rings_.places);
    cudaFree(rings_.deferred);
    cudaFree(const_cast<rendezvous_view*>(rings_.orders));
    state_ = nullptr;
  }

  std::string describe_receiver() override {
    if (!state_) return "no resolver";
    const device_scope here(context_);
    resolver_state s;
    copy(&s, state_, sizeof(s));
    const cudaError_t kernel = cudaStreamQuery(resolver_stream_);
    std::vector<stream_state> streams(setup_.device_ring.streams);
    copy(streams.data(), state_->stream, streams.size() * sizeof(stream_state));
    uint64_t seen = 0;
    for (const stream_state& c : streams) seen += c.arrived;
    std::string text = joined("resolver: ", cudaGetErrorName(kernel), ", program: ", describe_launches(),
                              "; packets arrived ", load_acquire(setup_.device_ring.arrivals), ", seen ", seen,
                              ", taken ", s.taken, ", applied ", s.finished, ", applied when the last kernel ended ",
                              load_acquire(&control_->taken), "; blocks resident ", s.resident, ", left ", s.leaving,
                              ", stop ", s.stop, "; lease ", load_acquire(&control_->lease), ", seen ",
                              load_acquire(&control_->lease_seen), "; next packet by stream");
    for (const stream_state& c : streams) text += " " + std::to_string(c.next);
    if (kernel == cudaErrorNotReady && s.resident == 0)
      text +=
          "; the resolver has been started and finds no room, as a kernel that waits fills the GPU; start such a "
          "kernel "
          "with gravel_launch, in NVSHMEM's interface nvshmemx_collective_launch, instead of <<< >>>";
    if (const std::unique_lock lock(lock_, std::try_to_lock); lock) text += services_.describe();
    return text;
  }

  ~cuda_backend() override {
    const device_scope here(context_);
    close_launcher();
    if (resolver_part_.stream) {
      services_.destroy(resolver_part_);
      resolver_stream_ = nullptr;
    }
    for (cudaStream_t stream : {resolver_stream_, copy_})
      if (stream) cudaStreamDestroy(stream);
    for (waiting& w : waiting_)
      if (w.stream) cudaStreamDestroy(w.stream);
    if (control_) cudaFreeHost(control_);
  }

 private:
  /// A range of addresses, and the extents that have memory now.
  struct range {
    uint64_t bytes;
    std::map<char*, uint64_t> extents;
  };
  range& range_of(char* at) { return std::prev(ranges_.upper_bound(at))->second; }
  void ensure_resolver() override {
    const cudaError_t state = cudaStreamQuery(resolver_stream_);
    if (state == cudaSuccess) launch_resolver();
    else if (state != cudaErrorNotReady) cuda_check(state, "the resolver kernel");
  }
  /// Dynamic shared memory of the resolver's blocks.
  size_t resolver_bytes() const { return resolver_shared_bytes + limits_.stage_units * sizeof(unit); }
  void launch_resolver() {
    const profile_range range("launch resolver");
    // A doorbell that changes from here on asks for another kernel: this one may just have polled.
    if (setup_.peer_doorbell) seen_doorbell_ = load_acquire(setup_.peer_doorbell);
    store_relaxed(&control_->left_over, uint64_t{0});
    cuda_check(cudaMemsetAsync(&state_->resident, 0, 4 * sizeof(uint32_t), resolver_stream_), "cudaMemset");
    void* arguments[] = {&setup_.device_handle, &setup_.device_ring, &rings_, &state_, &control_, &limits_};
    cuda_check(cudaLaunchKernel(program_.resolver, blocks_ + rings_.blocks, resolver_threads, arguments,
                                resolver_bytes(), resolver_stream_),
               "starting the resolver kernel");
  }

  const cuda_program program_;
  int device_ = 0;
  std::string description_;
  unsigned blocks_ = 1, ring_blocks_ = 1;  ///< of the resolver: for the landing ring, for peer rings
  uint64_t resolvers_at_once_ = 1;         ///< on this GPU
  resolver_limits limits_{};
  cudaStream_t resolver_stream_ = nullptr, copy_ = nullptr;
  partition_cuda::part resolver_part_;  ///< part of the GPU, if it is partitioned
  /// Two streams: a quiet of one thread must not wait behind a wait for all PEs.
  struct waiting {
    std::mutex lock;
    cudaStream_t stream = nullptr;
  };
  waiting waiting_[2];
  std::mutex ordering_;  ///< an order is under way
  uint64_t orders_ = 0;  ///< number of the last order
  bool under_mps_ = false;
  uint32_t on_this_gpu_ = 1;  ///< PEs that use this GPU
  uint64_t own_ring_bytes_ = 0;
  extents_cuda extents_;
  handle_choice handles_;
  std::string nvlink_domain_;
  std::map<char*, range> ranges_;  ///< of reserve()
  receiver_setup setup_{};
  resolver_state* state_ = nullptr;
  peer_rings rings_{};
  uint64_t seen_doorbell_ = 0;
  std::unique_ptr<host_receiver> host_;
  uint64_t seen_arrivals_ = 0;
};

}  // namespace

void start_on_cuda(const cuda_program& program, std::optional<gravel_process_group> group) {
  start(std::make_unique<cuda_backend>(program), std::move(group));
}

void launch_on_cuda(const void* kernel, const gravel_launch_config& how, void** arguments, launch_needs needs) {
  dynamic_cast<cuda_launcher&>(current_backend()).launch(kernel, how, arguments, needs);
}
void load_on_cuda(const void* kernel) { dynamic_cast<cuda_launcher&>(current_backend()).load_late(kernel); }
uint64_t most_cooperative_blocks_on_cuda(const void* kernel, const gravel_launch_config& how, bool beside_resolver) {
  return dynamic_cast<cuda_launcher&>(current_backend()).most_cooperative_blocks(kernel, how, beside_resolver);
}

}  // namespace gravel::detail
