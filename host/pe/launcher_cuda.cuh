// Starts kernels on a GPU so that the resolver runs beside them. Makes room for their local memory, acquires the
// residency lease, and ends it when all of them have ended. Nothing here depends on the program's handlers or kernels.
//
// Problem. Without the lease the resolver ends at once if it has had nothing to do, so each launch of a program that
// launches and waits in turn would start the resolver again, which takes longer than a small kernel.
// Solution. The lease stays in force for `linger` after the last kernel has ended. A launch under a lease that the
// resolver has acknowledged costs nothing more than CUDA's own. A kernel that needs no resolver ends the lease at once
// if no other one runs. While the lease is in force the receiver polls streams only now and then: it would compete with
// the threads that launch and wait for this file's lock and for the driver's.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/resolver_state.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/device_scope.cuh"
#include "host/pe/launch_config.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/residency_cuda.cuh"
#include "host/pe/stream_memory_cuda.cuh"
#include "lib/base/relax.hpp"

namespace gravel::detail {

/// The part of the backend that starts kernels.
class cuda_launcher : public backend {
 public:
  /// Puts the kernel into its stream when the resolver is resident and cannot end. A kernel that sends nothing and
  /// waits for no message is put there at once. Such a kernel may also be captured into a graph; then the program
  /// itself waits for it. Throws gravel::error, and then has started nothing. Any thread.
  void launch(const void* kernel, const gravel_launch_config& how, void** arguments, launch_needs needs) {
    const device_scope here(context_);
    const bool alone = needs != launch_needs::resolver && needs != launch_needs::waits,
               apart = needs == launch_needs::apart;
    const cudaStream_t stream = own_or(how.stream);
    const bool captured = needs != launch_needs::resolver && is_captured(stream);
    if (needs == launch_needs::resolver) refuse_capture(stream);
    std::unique_lock lock(lock_);
    kernel_facts& facts = prepare(kernel, lock);
    check(facts, kernel, how, alone);
    load(facts, kernel, how, lock);
    if (captured) return start(kernel, how, stream, arguments, apart);
    resolver_use use = alone ? resolver_use::must_go : resolver_use::must_run;
    if (needs == launch_needs::little) use = resolver_use::may_stay;
    put(stream, lock, use, [&] { start(kernel, how, stream, arguments, apart); });
  }
  /// Loads a kernel of a library that came into the process after gravel_init. Waits until no lease is in force. Any
  /// thread.
  void load_late(const void* kernel) {
    const device_scope here(context_);
    gravel_launch_config how;
    how.grid = dim3(8, 8, 8);  // also for kernels that say how large their clusters are
    std::unique_lock lock(lock_);
    wait_for_end_of_lease(lock);
    kernel_facts& facts = prepare(kernel, lock);
    facts.is_loaded = false;
    load(facts, kernel, how, lock);
  }
  /// Returns the most blocks that a cooperative launch of this kernel, which needs no resolver, may have now.
  /// `beside_resolver`: with room for the resolver nevertheless. Throws gravel::error if the kernel cannot have blocks
  /// of how.block and how.shared_bytes. Any thread.
  uint64_t most_cooperative_blocks(const void* kernel, gravel_launch_config how, bool beside_resolver) {
    const device_scope here(context_);
    how.grid = 1;
    how.cooperative = false;
    std::unique_lock lock(lock_);
    check(prepare(kernel, lock), kernel, how, true);
    return room_for(kernel, how, uint64_t{how.block.x} * how.block.y * how.block.z, free_processors(!beside_resolver));
  }
  /// Puts a wait, or a store, into the stream, which does it by itself. It needs the lease: the event for which the
  /// stream waits may need resolver and services, and these could not start behind the wait if they use the same
  /// hardware queue.
  void wait_in_stream(void* stream, const uint64_t* word, uint64_t value) override {
    in_stream(stream, [&](cudaStream_t in) {
      stream_memory::check(
          streams_memory().wait(in, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WAIT_VALUE_GEQ),
          "cuStreamWaitValue64");
    });
  }
  void write_in_stream(void* stream, uint64_t* word, uint64_t value) override {
    in_stream(stream, [&](cudaStream_t in) {
      stream_memory::check(
          streams_memory().write(in, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
          "cuStreamWriteValue64");
    });
  }

  /// Puts a copy into the stream. The caller puts a kernel behind it, so that Gravel knows that the stream is busy.
  void copy_in_stream(void* stream, void* to, const void* from, uint64_t bytes) override {
    const device_scope here(context_);
    refuse_capture(own_or(stream));
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, own_or(stream)), "a copy engine's copy to a peer");
  }

  void copy_alone_in_stream(void* which, void* to, const void* from, uint64_t bytes) override {
    const device_scope here(context_);
    const cudaStream_t stream = own_or(which);
    const auto copy = [&] {
      cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "a copy in a stream");
    };
    if (is_captured(stream)) return copy();
    std::unique_lock lock(lock_);
    put(stream, lock, resolver_use::may_stay, copy);
  }

  /// Keeps the resolver resident although no kernel runs.
  void keep_receiver_resident() override {
    const device_scope here(context_);
    std::unique_lock lock(lock_);
    ++launching_;
    idle_since_.reset();
    if (resident_) acquire_lease(lock);
  }
  void release_receiver() override {
    std::lock_guard lock(lock_);
    --launching_;
  }

  void* create_stream() override {
    const device_scope here(context_);
    const cudaStream_t stream =
        new_stream(false);  // without the lock: if this waits for kernels, the receiver can end the lease
    std::lock_guard lock(lock_);
    streams_.push_back({stream, false});
    return stream;
  }
  void destroy_stream(void* which) override {
    const device_scope here(context_);
    const auto stream = static_cast<cudaStream_t>(which);
    {
      std::lock_guard lock(lock_);
      if (!stream || stream == user_ || !find_stream(stream))
        fail_text("gravel_stream_destroy: not a stream of gravel_stream_create");
    }
    synchronize_stream(stream);
    {
      std::lock_guard lock(lock_);
      streams_.erase(streams_.begin() + (find_stream(stream) - streams_.data()));
    }
    cuda_check(cudaStreamDestroy(stream), "gravel_stream_destroy");
  }
  void synchronize_stream(void* stream) override {
    const device_scope here(context_);
    cuda_check(cudaStreamSynchronize(own_or(stream)), "a kernel of gravel_launch");
  }
  void synchronize() override {
    const device_scope here(context_);
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
    {
      std::lock_guard lock(lock_);
      for (const own_stream& s : streams_)
        if (s.busy) streams.push_back(s.stream);
      events.assign(pending_.begin(), pending_.end());
    }
    for (cudaStream_t s : streams) cuda_check(cudaStreamSynchronize(s), "a kernel of gravel_launch");
    // An event that the receiver has seen pass meanwhile may have been recorded again behind a later kernel. Then this
    // waits for that kernel, too.
    for (cudaEvent_t e : events) cuda_check(cudaEventSynchronize(e), "a kernel of gravel_launch");
  }

 protected:
  /// Bytes of shared memory that a block can have.
  size_t most_shared() const { return most_shared_; }
  struct own_stream {
    cudaStream_t stream;
    bool busy;  ///< a kernel was put into it after it was last seen idle
  };

  virtual void ensure_resolver() = 0;  ///< call it with lock_ held
  /// Puts a lease into force, if there is none, without waiting for the resolver. Call it with lock_ held.
  void begin_lease() {
    if (has_lease_) return;
    has_lease_ = true;
    if (attention_) store_relaxed(attention_, uint64_t{1});
    store_release(&control_->lease, ++lease_);
    services_.lease(lease_);
  }
  /// Keeps a lease that the resolver has acknowledged in force, until release_receiver(). False: there is none now.
  /// Then a lease begins, which a later call finds acknowledged, if this was called shortly before and no kernel that
  /// needs no lease was launched since. Any thread, with the PE's context current.
  bool keep_seen_lease() {
    std::lock_guard lock(lock_);
    if (!lingers_ || !resident_) return false;
    const clock::time_point now = clock::now();
    const bool again = now - last_wish_ < linger;
    last_wish_ = now;
    if (!has_lease_ && !again) return false;
    idle_since_.reset();
    begin_lease();
    if (load_acquire(&control_->lease_seen) == lease_) {  // [H1]
      ++launching_;
      return true;
    }
    ensure_resolver();
    return false;
  }
  /// Restarts the kernels of services that sleep and have work. True: call this again soon. Call it with lock_ held.
  bool advance_services() { return !services_.is_empty() && services_.advance(); }

  /// Call it once, with the PE's device current.
  void open_launcher(const cudaDeviceProp& properties) {
    cuda_check(cudaDeviceGetStreamPriorityRange(&least_, &greatest_), "stream priorities");
    user_ = new_stream(false);
    streams_.push_back({user_, false});
    context_ = current_cuda_context();
    CUmoduleLoadingMode mode{};
    loads_late_ = cuda_driver::get().loading_mode(&mode) != CUDA_SUCCESS || mode != CU_MODULE_EAGER_LOADING;
    if (loads_late_)
      warn(
          "CUDA loads this program's kernels when they are first used: the first gravel_launch of each waits for all "
          "kernels that run, and "
          "one that is started in another way may hang; set CUDA_MODULE_LOADING=EAGER in the environment, as ucx-run "
          "does, or call "
          "gravel_init before all that uses CUDA");
    cuda_check(cudaDeviceGetLimit(&local_bytes_, cudaLimitStackSize), "cudaDeviceGetLimit");
    processors_ = static_cast<uint64_t>(properties.multiProcessorCount);
    most_shared_ = properties.sharedMemPerBlockOptin;
    has_clusters_ = properties.major >= 9;
  }
  void close_launcher() {
    for (const own_stream& s : streams_) cudaStreamDestroy(s.stream);
    for (cudaEvent_t event : pending_) cudaEventDestroy(event);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  uint64_t processors_count() const { return processors_; }
  int urgency() const { return greatest_; }  ///< the highest priority of streams
  cudaStream_t new_stream(bool urgent) {
    cudaStream_t stream = nullptr;
    cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest_ : least_),
               "cudaStreamCreate");
    return stream;
  }

  /// Makes room for a kernel's local memory. If CUDA had to do that at the launch, it would wait for all running
  /// kernels, including the resolver, which a lease keeps forever. Call it with lock_ held, which it releases
  /// meanwhile.
  struct kernel_facts {
    uint64_t most_threads;  ///< in a block
    size_t static_shared;
    size_t dynamic_shared;  ///< that a launch may ask for now
    bool is_loaded;
  };
  kernel_facts& prepare(const void* kernel, std::unique_lock<std::mutex>& lock) {
    if (const auto known = kernels_.find(kernel); known != kernels_.end()) return known->second;
    cudaFuncAttributes a;
    cuda_check(cudaFuncGetAttributes(&a, kernel), "loading a kernel (is it compiled for this GPU?)");
    if (a.localSizeBytes > local_bytes_) {
      wait_for_end_of_lease(lock);
      cuda_check(cudaDeviceSetLimit(cudaLimitStackSize, a.localSizeBytes), "making room for a kernel's local memory");
      local_bytes_ = a.localSizeBytes;
    }
    return kernels_[kernel] = {static_cast<uint64_t>(a.maxThreadsPerBlock), a.sharedSizeBytes,
                               static_cast<size_t>(std::max(a.maxDynamicSharedSizeBytes, 0)), !loads_late_};
  }
  /// Loads a kernel before the lease. CUDA would load it at its first launch, and might wait then for the end of the
  /// resolver, which waits for that kernel. The kernel is loaded by a graph that is uploaded but never launched. Call
  /// it with lock_ held, which it releases meanwhile.
  void load(kernel_facts& facts, const void* kernel, const gravel_launch_config& how,
            std::unique_lock<std::mutex>& lock) {
    if (facts.is_loaded) return;
    wait_for_end_of_lease(lock);
    // The arguments are never read.
    static constexpr uint32_t most_parameters = 4096, most_bytes = 32768;
    std::vector<char> nothing(most_bytes);
    std::vector<void*> arguments(most_parameters, nothing.data());
    loading_graph at(new_stream(false));
    at.begin();
    start(kernel, how, at.stream, arguments.data(), false);
    at.end();
    cuda_check(cudaGraphInstantiate(&at.ready, at.graph, 0), "loading a kernel");
    cuda_check(cudaGraphUpload(at.ready, at.stream), "loading a kernel");
    cuda_check(cudaStreamSynchronize(at.stream), "loading a kernel");
    facts.is_loaded = true;
  }

  using clock = std::chrono::steady_clock;
  /// How long the lease stays in force after the last kernel has ended. Calls of the program that wait for all kernels,
  /// such as cudaFree, wait for the resolver so much longer.
  static constexpr clock::duration linger = std::chrono::microseconds(100);
  /// How often the receiver polls the streams while the lease is in force.
  static constexpr clock::duration poll_interval = std::chrono::microseconds(20);

  /// Returns whether the receiver may leave out poll_end() and all that needs the lock: while the lease is in force
  /// nothing has to be started, and the lease may end late. The receiver's thread.
  bool may_skip_polls() {
    if (!has_lease_) return false;
    const clock::time_point now = clock::now();
    if (now < next_poll_) return true;
    next_poll_ = now + poll_interval;
    return false;
  }
  /// Ends the lease when all launched work has ended for `linger`, or, if `at_once`, when it has ended. Call it with
  /// lock_ held. Throws the error of a kernel that failed.
  void poll_end(bool at_once = false) {
    if (launching_) return;
    for (own_stream& s : streams_)
      if (s.busy && (s.busy = !has_ended(cudaStreamQuery(s.stream)))) return;
    for (; !pending_.empty(); pending_.pop_front()) {
      if (!has_ended(cudaEventQuery(pending_.front()))) return;
      events_.push_back(pending_.front());
    }
    if (!has_lease_) return;
    if (!idle_since_) idle_since_ = clock::now();
    const bool may_linger = lingers_ && !waits_for_end_ && !at_once;
    if (may_linger && clock::now() - *idle_since_ < linger) return;
    has_lease_ = false;
    store_release(&control_->lease, uint64_t{0});
    services_.lease(0);
    if (attention_) store_relaxed(attention_, uint64_t{0});
  }

  std::string describe_launches() {
    const std::unique_lock lock(lock_, std::try_to_lock);  // the thread that reports must not get stuck as well
    if (!lock) return "a launch is under way";
    std::string text = "streams";
    for (const own_stream& s : streams_) text += std::string(s.busy ? " busy" : " idle");
    return text + ", kernels in other streams " + std::to_string(pending_.size());
  }

  std::mutex lock_;
  CUcontext context_ = nullptr;  ///< of the PE's device
  resolver_control* control_ = nullptr;
  uint64_t* attention_ = nullptr;
  std::atomic<bool> has_lease_{false};  ///< written with lock_ held
  bool lingers_ = true;                 ///< false: other processes wait for this GPU while a kernel is resident
  bool resident_ = true;
  uint64_t resolver_processors_ = 0;  ///< multiprocessors that resolvers may occupy
  bool is_only_pe_ = true;            ///< no other PE's kernels run on this GPU at the same time
  residency_cuda services_;

 private:
  /// What is put into a stream wants of the resolver.
  enum class resolver_use : uint8_t {
    must_run,  ///< the lease
    may_stay,  ///< nothing
    must_go    ///< its multiprocessors: the lease ends if no other kernel needs it
  };
  /// Calls `begin`, which puts something into the stream, and records that the stream is busy. Acquires the lease if it
  /// is wanted. Call it with lock_ held, which it releases.
  template <class F>
  void put(cudaStream_t stream, std::unique_lock<std::mutex>& lock, resolver_use use, F&& begin) {
    // It is not known how long a stream exists that is not Gravel's. So an event is recorded behind the kernel.
    own_stream* const own = find_stream(stream);
    if (use == resolver_use::must_go) {
      if (has_lease_) poll_end(true);
      last_wish_ = {};
    }
    const cudaEvent_t behind = own ? nullptr : take_event();
    if (own) own->busy = true;
    start_scope starting(*this, lock, behind);
    if (resident_ && use == resolver_use::must_run) acquire_lease(lock);
    // Done without the lock: a full stream makes this wait, and the receiver needs the lock.
    lock.unlock();
    begin();
    if (!behind) return;
    cuda_check(cudaEventRecord(behind, stream), "gravel_launch: cudaEventRecord");
    starting.recorded = true;
  }
  template <class F>
  void in_stream(void* which, F&& begin) {
    const device_scope here(context_);
    streams_memory();  // throws, if it must, before anything is changed
    const cudaStream_t stream = own_or(which);
    refuse_capture(stream);
    std::unique_lock lock(lock_);
    put(stream, lock, resolver_use::must_run, [&] { begin(stream); });
  }
  /// Stream memory operations of the PE's device, which is current. Throws gravel::error if it has none.
  static const stream_memory& streams_memory() {
    static const stream_memory found;
    return found;
  }

  /// Objects that load() makes and nobody needs afterwards. They are destroyed also if CUDA fails half-way.
  struct loading_graph {
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    bool captures = false;
    explicit loading_graph(cudaStream_t of) : stream(of) {}
    loading_graph(const loading_graph&) = delete;
    loading_graph& operator=(const loading_graph&) = delete;
    void begin() {
      cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "loading a kernel");
      captures = true;
    }
    void end() {
      captures = false;
      cuda_check(cudaStreamEndCapture(stream, &graph), "loading a kernel");
    }
    ~loading_graph() {
      if (captures) cudaStreamEndCapture(stream, &graph);
      if (ready) cudaGraphExecDestroy(ready);
      if (graph) cudaGraphDestroy(graph);
      cudaStreamDestroy(stream);
      cudaGetLastError();  // the current error is reported by its exception
    }
  };
  /// A launch under way. Until its end, or an exception, the kernel is not yet in its stream, so an idle stream must
  /// not end the lease. Construct it with the lock held.
  struct start_scope {
    cuda_launcher& of;
    std::unique_lock<std::mutex>& lock;
    cudaEvent_t behind;
    bool recorded = false;
    start_scope(cuda_launcher& launcher, std::unique_lock<std::mutex>& held, cudaEvent_t event)
        : of(launcher), lock(held), behind(event) {
      ++of.launching_;
      of.idle_since_.reset();
    }
    ~start_scope() {
      if (!lock.owns_lock()) lock.lock();
      --of.launching_;
      if (recorded) of.pending_.push_back(behind);
      else if (behind) of.events_.push_back(behind);
    }
  };

  void acquire_lease(std::unique_lock<std::mutex>& lock) {
    begin_lease();
    const uint64_t lease = lease_;
    for (relax wait; load_acquire(&control_->lease_seen) != lease || !services_.all_resident();) {  // [H1]
      ensure_resolver();
      advance_services();
      // A GPU that is full of other work has no room for a resolver yet. This kernel waits for that work anyway.
      lock.unlock();
      wait();
      lock.lock();
    }
  }
  void wait_for_end_of_lease(std::unique_lock<std::mutex>& lock) {
    const auto begin = std::chrono::steady_clock::now();
    bool reported = false;
    ++waits_for_end_;
    for (relax wait; has_lease_ || services_.any_runs();) {
      lock.unlock();
      if (!reported && std::chrono::steady_clock::now() - begin > std::chrono::seconds(10)) {
        reported = true;
        warn(
            "gravel_launch has waited for 10 s: before there can be room for a kernel's local memory, all kernels that "
            "run must end; if "
            "they wait for that kernel, launch it once before them");
      }
      wait();
      lock.lock();
    }
    --waits_for_end_;
  }

  cudaStream_t own_or(void* stream) const { return stream ? static_cast<cudaStream_t>(stream) : user_; }
  static bool has_ended(cudaError_t state) {
    if (state == cudaErrorNotReady) return false;
    cuda_check(state, "a kernel of gravel_launch");
    return true;
  }
  own_stream* find_stream(cudaStream_t stream) {
    for (own_stream& s : streams_)
      if (s.stream == stream) return &s;
    return nullptr;
  }
  cudaEvent_t take_event() {
    cudaEvent_t event = nullptr;
    if (events_.empty()) {
      cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    } else {
      event = events_.back();
      events_.pop_back();
    }
    return event;
  }

  static bool is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cuda_check(cudaStreamIsCapturing(stream, &status), "gravel_launch: the stream");
    return status != cudaStreamCaptureStatusNone;
  }
  static void refuse_capture(cudaStream_t stream) {
    if (is_captured(stream))
      fail_text(
          "gravel_launch inside a stream capture: a graph starts its kernels without Gravel, which then does not know "
          "that the resolver "
          "kernel has to run beside them; launch the kernel outside the graph");
  }

  /// Checks everything that would make the launch fail, or never start, once the lease is acquired.
  void check(kernel_facts& facts, const void* kernel, const gravel_launch_config& how, bool alone) {
    const dim3 &grid = how.grid, &block = how.block, &cluster = how.cluster;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
    if (threads == 0 || threads > facts.most_threads || block.x > 1024 || block.y > 1024 || block.z > 64)
      fail_text(joined("gravel_launch: a block of ", text_of(block), " threads; for this kernel it must have 1 to ",
                       facts.most_threads, ", and at most 64 in z"));
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || blocks == 0)
      fail_text(joined("gravel_launch: a grid of ", text_of(grid),
                       " blocks; each extent must be at least 1, x below 2^31, y and z below 2^16"));
    if (how.shared_bytes > facts.dynamic_shared) {
      if (how.shared_bytes + facts.static_shared > most_shared_)
        fail_text(joined("gravel_launch: ", how.shared_bytes, " bytes of dynamic and ", facts.static_shared,
                         " of static shared memory; a block on this GPU has at most ", most_shared_));
      cuda_check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(how.shared_bytes)),
          "gravel_launch: cudaFuncSetAttribute");
      facts.dynamic_shared = how.shared_bytes;
    }
    const uint64_t in_cluster = uint64_t{cluster.x} * cluster.y * cluster.z;
    if (in_cluster == 0 && (cluster.x || cluster.y || cluster.z))
      fail_text(joined("gravel_launch: a cluster of ", text_of(cluster), " blocks"));
    if (in_cluster > 1) {
      if (!has_clusters_) fail_text("gravel_launch: this GPU has no clusters, which came with sm_90");
      if (in_cluster > 8 || grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
        fail_text(joined("gravel_launch: a cluster of ", text_of(cluster), " blocks in a grid of ", text_of(grid),
                         "; it must have at most 8, and its extents divide the grid's"));
      if (how.cooperative) fail_text("gravel_launch: a cooperative kernel with clusters is not supported");
    }
    if (how.cooperative) check_room(kernel, how, threads, blocks, alone);
  }
  /// Number of multiprocessors that the resolver and services leave. `alone`: to a kernel that needs no resolver. This
  /// PE's resolver ends before such a kernel begins. Those of other PEs on this GPU do not.
  uint64_t free_processors(bool alone) const {
    const bool resolvers_stay = resident_ && !(alone && is_only_pe_);
    return processors_ - std::min(processors_, (resolvers_stay ? resolver_processors_ : 0) + services_.blocks());
  }
  /// Blocks of this kernel that run at once on so many multiprocessors.
  static uint64_t room_for(const void* kernel, const gravel_launch_config& how, uint64_t threads, uint64_t processors) {
    int on_one = 0;
    cuda_check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel, static_cast<int>(threads), how.shared_bytes),
        "gravel_launch: occupancy");
    return processors * static_cast<uint64_t>(on_one);
  }
  /// A cooperative kernel starts when all its blocks have room. Beside the resolver that may never happen.
  void check_room(const void* kernel, const gravel_launch_config& how, uint64_t threads, uint64_t blocks,
                  bool alone) const {
    const uint64_t free = free_processors(alone), most = room_for(kernel, how, threads, free);
    if (blocks > most)
      fail_text(joined("gravel_launch: a cooperative grid of ", blocks, " blocks of ", threads, " threads with ",
                       how.shared_bytes, " bytes of dynamic shared memory; at most ", most,
                       " of them run at once on the ", free, " of ", processors_,
                       " multiprocessors that the resolver and services leave (GRAVEL_RESOLVER_BLOCKS, "
                       "GRAVEL_RESOLVER_RING_BLOCKS)"));
  }

  static void start(const void* kernel, const gravel_launch_config& how, cudaStream_t stream, void** arguments,
                    bool apart) {
    cudaLaunchAttribute attributes[3];
    cudaLaunchConfig_t config{};
    config.gridDim = how.grid;
    config.blockDim = how.block;
    config.dynamicSmemBytes = how.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (how.cooperative) {
      attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
      attributes[config.numAttrs++].val.cooperative = 1;
    }
    if (how.cluster.x) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs++].val.clusterDim = {how.cluster.x, how.cluster.y, how.cluster.z};
    }
    if (apart) {  // a memory synchronization domain of its own
      attributes[config.numAttrs].id = cudaLaunchAttributeMemSyncDomain;
      attributes[config.numAttrs++].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
    }
    cuda_check(cudaLaunchKernelExC(&config, kernel, arguments), "gravel_launch");
  }
  static std::string text_of(const dim3& v) { return joined("(", v.x, ",", v.y, ",", v.z, ")"); }
  cudaStream_t user_ = nullptr;                            ///< the PE's own stream
  std::vector<own_stream> streams_;                        ///< the PE's own stream, and those of create_stream
  std::deque<cudaEvent_t> pending_;                        ///< behind kernels in streams that are not Gravel's
  std::vector<cudaEvent_t> events_;                        ///< free events
  std::unordered_map<const void*, kernel_facts> kernels_;  ///< kernels that are loaded
  uint64_t lease_ = 0;
  int launching_ = 0;
  int waits_for_end_ = 0;                        ///< threads that wait for the end of the lease
  std::optional<clock::time_point> idle_since_;  ///< when the receiver saw that all launched work had ended
  clock::time_point next_poll_{};                ///< the receiver's
  clock::time_point last_wish_{};                ///< the last call of keep_seen_lease()
  int least_ = 0, greatest_ = 0;                 ///< priorities
  size_t local_bytes_ = 0;                       ///< local memory of a thread for which CUDA has made room
  uint64_t processors_ = 0;
  size_t most_shared_ = 0;
  bool has_clusters_ = false;
  bool loads_late_ = false;  ///< CUDA loads each kernel when it is first used
};

}  // namespace gravel::detail
