#include <gravel/gravel.hpp>

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "host/pe/describe_error.hpp"
#include "host/pe/runtime.hpp"
#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/version.hpp"
#include "transport/unique_id.hpp"

namespace gravel::detail {
namespace {
std::unique_ptr<runtime> the_runtime;
bool was_finalized = false;
runtime* of_parent = nullptr;  ///< in a forked child: the runtime of the PE, which must not be touched

/// A forked child is no PE. It may end, also by exit(), without a message.
void become_child() {
  if (!the_runtime) return;
  of_parent = the_runtime.release();
  of_parent->forget_in_child();
}

/// An exception that nobody catches ends the job, with its text on stderr.
void last_words(const std::string& text) {
  if (the_runtime) the_runtime->abort_job(text, 1);
  if (membership::own_pe != 0) wait_for_root_cause();  // during gravel_init: a mistake often occurs at every PE
}

void set_own_pe(uint32_t pe) {
  set_log_name(fmt::format("PE {}", pe));
  membership::own_pe = pe;
}
/// Prepares for errors before gravel_init has joined the job: which PE this is, and what happens to exceptions.
void prepare_to_fail() {
  if (const char* rank = std::getenv("PMIX_RANK"); rank && log_name().empty())
    set_own_pe(static_cast<uint32_t>(std::atoi(rank)));
  set_last_words(last_words);
  install_terminate_handler();
}

/// If a program just ended, the other PEs would wait forever.
void at_exit(int status, void*) {
  if (!the_runtime) return;
  std::fflush(nullptr);
  the_runtime->abort_job(fmt::format("the program ended with exit status {} without gravel_finalize", status),
                         status ? status : 1);
}

}  // namespace

runtime& current_runtime(const char* caller) {
  if (simt::in_kernel()) fail("{} inside a kernel: it is for host threads", caller);
  if (!the_runtime) {
    prepare_to_fail();
    const char* when = "before gravel_init";
    if (of_parent) when = "in a process that was forked from a PE";
    else if (was_finalized) when = "after gravel_finalize";
    fail("{} was called {}", caller, when);
  }
  return *the_runtime;
}

uint16_t valid_stamp = handle_stamp::before_init;

void refuse_handle(const gravel_t& g, const char* call) {
  if (!the_runtime) prepare_to_fail();
  if (g.stamp == handle_stamp::valid)
    fail("{} was called after gravel_finalize: its handle is of a job that is over", call);
  if (valid_stamp == handle_stamp::before_init) fail("{} was called before gravel_init", call);
  fail("{} was called with a handle that neither gravel_handle() nor gravel_host_handle() made{}", call,
       g.n_pes == 0 ? ": it is empty" : "");
}
void refuse_handle(const gravel_t& g, op o) { refuse_handle(g, calls_of(o, true).c_str()); }
void refuse_handle(const gravel_t& g, other_call call) { refuse_handle(g, name_of(call)); }

runtime& waiting_runtime(const char* caller) {
  if (receiver_thread::is_this) fail("{} inside a handler: handlers must not wait", caller);
  if (simt::in_kernel()) fail("{} inside a kernel: it is for host threads", caller);
  return current_runtime(caller);
}

namespace {
/// The part of a version that identifies the interface: "0.1" of "0.1.3"; since 1.0, "1" of "1.4.2".
std::string_view interface_of(std::string_view version) {
  const size_t major = version.find('.');
  return version.substr(0, version.starts_with("0.") ? version.find('.', major + 1) : major);
}
}  // namespace

void check_program(const program_view& program) {
  prepare_to_fail();
  if (interface_of(program.version) != interface_of(GRAVEL_VERSION))
    fail(
        "gravel_init: the program was compiled with the headers of Gravel {}, and runs with libgravel {}; compile it "
        "again with the "
        "headers of {}, "
        "or let it find libgravel.so of {} (rpath, LD_LIBRARY_PATH)",
        program.version, GRAVEL_VERSION, GRAVEL_VERSION, program.version);
  if (program.thread_index && program.thread_index != &threadIdx)
    fail(
        "gravel_init: the program has a threadIdx of its own beside that of libgravel, so its kernels would all be "
        "thread 0. There are two "
        "copies "
        "of libgravel in this process, or the program was compiled with other headers. Compile it with the headers of "
        "libgravel {}, and "
        "link "
        "libgravel.so once, in all of its parts",
        GRAVEL_VERSION);
}

gravel_process_group group_of(const gravel_unique_id_t& id, int pe, int n_pes) {
  prepare_to_fail();
  const auto group = std::make_shared<id_group>(id, pe, n_pes);
  return {pe, n_pes, [group](const void* mine, uint64_t bytes, void* all) { group->allgather(mine, bytes, all); }};
}
void start(std::unique_ptr<backend> device, std::optional<gravel_process_group> group) {
  const profile_range range("gravel_init");
  prepare_to_fail();
  if (the_runtime) fail("gravel_init was called twice");
  if (of_parent) fail("gravel_init was called in a process that was forked from a PE");
  if (was_finalized) fail("gravel_init was called after gravel_finalize: a process can join one job");
  if (group && group->pe >= 0) set_own_pe(static_cast<uint32_t>(group->pe));
  open_standard_descriptors();
  the_runtime = std::make_unique<runtime>(std::move(device), group ? join_job(std::move(*group)) : join_job());
  on_exit(at_exit, nullptr);
  pthread_atfork(nullptr, nullptr, become_child);
}

backend& current_backend() { return waiting_runtime("gravel_launch").device(); }
void release_device_memory(void* at) {
  if (the_runtime) the_runtime->device().release(at);
}

namespace {
/// Open objects, in the order in which they were opened. Any host thread.
struct open_objects {
  std::mutex lock;
  std::vector<std::pair<const open_object*, std::string>> all;
};
open_objects& opened() {
  static auto* const objects = new open_objects;  // never destroyed: an object of the program may end after it
  return *objects;
}
void refuse_open_objects() {
  const std::lock_guard lock(opened().lock);
  if (opened().all.empty()) return;
  fail(
      "gravel_finalize: {} is still open: end it before, by its close(), or by a scope or a pointer that ends before "
      "gravel_finalize",
      opened().all.back().second);
}
}  // namespace

open_object::open_object(std::string what) {
  waiting_runtime(what.c_str());
  const std::lock_guard lock(opened().lock);
  opened().all.emplace_back(this, std::move(what));
}
open_object::~open_object() {
  const std::lock_guard lock(opened().lock);
  std::erase_if(opened().all, [this](const auto& one) { return one.first == this; });
}
void set_context(uint32_t handler, const char* name, sink_kind kind, void* context) {
  waiting_runtime("gravel_set_context").memory().set_context(handler, name, kind, context);
}
void note_host_wait(host_wait& wait, const std::function<std::string()>& describe) {
  const uint64_t now = globaltimer_ns(), patience = the_runtime ? the_runtime->values().watchdog_s * 1'000'000'000 : 0;
  if (wait.since_ns == 0) wait.since_ns = now;
  if (patience && wait.times.is_due(now - wait.since_ns, patience))
    log_warning("a thread of the host has waited {} s (GRAVEL_WATCHDOG_S) for {}. It goes on waiting",
                (now - wait.since_ns) / 1'000'000'000, describe());
}
void note_host_wait(host_wait& wait, const wait_subject& subject) {
  note_host_wait(wait, [&] { return text_of(subject); });
}
void warn(const char* text) { log_warning("{}", text); }
std::vector<named_counter> read_counters() {
  const stats_row mine = current_runtime("read_counters").read_stats();
  std::vector<named_counter> all;
  for (uint32_t i = 0; i < n_stats; ++i) all.push_back({name_of(static_cast<stat>(i)), mine.value[i]});
  return all;
}
void* create_stream() { return waiting_runtime("gravel_stream_create").device().create_stream(); }
void destroy_stream(void* stream) { waiting_runtime("gravel_stream_destroy").device().destroy_stream(stream); }
void synchronize_stream(void* stream) {
  waiting_runtime("gravel_stream_synchronize").device().synchronize_stream(stream);
}
void check_stream_word(const char* call, runtime& job, const uint64_t* word) {
  const gravel_t& g = job.memory().of_kernels();
  const uint64_t offset = static_cast<uint64_t>(reinterpret_cast<const char*>(word) - g.heap);
  if (offset % sizeof(uint64_t) || !lies_in_heap(offset, sizeof(uint64_t), g.heap_bytes))
    fail("{}: no word of the own symmetric heap: offset {:#x} of {:#x} bytes", call, offset, g.heap_bytes);
}
void wait_in_stream(void* stream, const uint64_t* word, uint64_t value) {
  runtime& job = waiting_runtime("gravel_stream_wait");
  check_stream_word("gravel_stream_wait", job, word);
  job.device().wait_in_stream(stream, word, value);
}
void write_in_stream(void* stream, uint64_t* word, uint64_t value) {
  runtime& job = waiting_runtime("gravel_stream_write");
  check_stream_word("gravel_stream_write", job, word);
  job.device().write_in_stream(stream, word, value);
}
void* reach_in_stream(const char* call, const void* symmetric, uint64_t bytes, int pe) {
  runtime& job = waiting_runtime(call);
  const gravel_t& g = job.memory().of_kernels();
  if (static_cast<uint32_t>(pe) >= g.n_pes) fail("{}: PE {}: the job has PEs 0 to {}", call, pe, g.n_pes - 1);
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(symmetric) - g.heap);
  if (bytes && !lies_in_heap(offset, bytes, g.heap_bytes))
    fail(
        "{}: {} bytes at an address that is not in the symmetric heap: pass the address that gravel_malloc returned "
        "here, whichever PE is meant",
        call, bytes);
  char* const heap = job.mapped_heap(static_cast<uint32_t>(pe));
  return heap ? heap + offset : nullptr;
}
bool all_heaps_are_mapped() {
  runtime& job = waiting_runtime("a call on a stream");
  for (uint32_t pe = 0; pe < job.nodes().n_pes(); ++pe)
    if (!job.mapped_heap(pe)) return false;
  return true;
}
void check_reached_by_kernels(const char* call, const void* memory) {
  if (!waiting_runtime(call).device().is_reached_by_kernels(memory))
    fail("{}: memory of the host that kernels do not reach: use cudaMallocHost, cudaHostRegister, or memory of the GPU",
         call);
}
void copy_alone_in_stream(void* stream, void* to, const void* from, uint64_t bytes) {
  waiting_runtime("a copy in a stream").device().copy_alone_in_stream(stream, to, from, bytes);
}
void* allocate_symmetric(uint64_t bytes, place where, uint64_t alignment) {
  return waiting_runtime("gravel_malloc").heap().allocate(bytes, where, alignment);
}
void* register_range(const void* address, uint64_t bytes) {
  return waiting_runtime("gravel_register").heap().register_range(address, bytes);
}
void copy_from_device(void* to, const void* from, uint64_t bytes) {
  current_runtime("an operation of a host thread").device().copy(to, from, bytes);
}
bool is_device_memory(const void* at) {
  return current_runtime("an operation of a host thread").device().is_device_memory(at);
}
void update_host_gets(const gravel_t&) { current_runtime("gravel_get").memory().update_host_gets(); }

void launch_on_cpu(const gravel_launch_config& how, std::function<void()> lane) {
  runtime& job = waiting_runtime("gravel_launch");
  const settings& s = job.values();
  const uint64_t in_cluster = uint64_t{how.cluster.x} * how.cluster.y * how.cluster.z;
  const bool none = how.cluster.x == 0 && how.cluster.y == 0 && how.cluster.z == 0;
  if (!none && in_cluster != 1)
    fail("gravel_launch: a cluster of ({},{},{}) blocks; the CPU backend has no clusters", how.cluster.x, how.cluster.y,
         how.cluster.z);
  simt::launch_options options{};
  options.threads = static_cast<unsigned>(s.cpu_threads);
  options.seed = s.cpu_seed;
  options.shared_bytes = how.shared_bytes;
  options.stack_bytes = s.cpu_stack_size;
  options.cooperative = how.cooperative;
  dynamic_cast<cpu_launcher&>(job.device()).launch(how.stream, {how.grid, how.block, options, std::move(lane)});
}

}  // namespace gravel::detail

using gravel::detail::current_runtime;

gravel_unique_id_t gravel_unique_id(const char* address, uint16_t port) {
  return gravel::detail::make_unique_id(address, port);
}

void gravel_finalize() {
  const gravel::detail::profile_range range("gravel_finalize");
  gravel::detail::runtime& job = gravel::detail::waiting_runtime("gravel_finalize");
  gravel::detail::refuse_open_objects();
  const std::string unwritten = job.finalize();
  gravel::detail::the_runtime.reset();
  gravel::detail::was_finalized = true;
  if (unwritten.empty()) return;
  std::fflush(stdout);  // an exception that nobody catches ends the process at once
  gravel::detail::fail("GRAVEL_STATS_JSON: {}", unwritten);
}

void gravel_abort(const char* text, int status) {
  gravel::detail::runtime& job = current_runtime("gravel_abort");
  std::fflush(nullptr);
  job.abort_job(text, status);
}

int gravel_my_pe() { return static_cast<int>(current_runtime("gravel_my_pe").pe()); }
int gravel_n_pes() { return static_cast<int>(current_runtime("gravel_n_pes").nodes().n_pes()); }
int gravel_node_of(int pe) {
  const auto& nodes = current_runtime("gravel_node_of").nodes();
  if (static_cast<uint32_t>(pe) >= nodes.n_pes())
    gravel::detail::fail("gravel_node_of: PE {} of {}", pe, nodes.n_pes());
  return static_cast<int>(nodes.node_of(static_cast<uint32_t>(pe)));
}
int gravel_n_nodes() { return static_cast<int>(current_runtime("gravel_n_nodes").nodes().n_nodes()); }
const char* gravel_backend() { return current_runtime("gravel_backend").device().name(); }
const char* gravel_version() { return GRAVEL_VERSION; }

gravel_t gravel_handle() { return current_runtime("gravel_handle").memory().of_kernels(); }
gravel_t gravel_host_handle() { return current_runtime("gravel_host_handle").memory().of_host(); }

void gravel_free(void* symmetric) {
  gravel::detail::runtime& job = gravel::detail::waiting_runtime("gravel_free");
  if (symmetric) job.done().quiet();  // no message of this PE may reach the object that will lie there
  job.heap().release(symmetric);
}
void gravel_unregister(void* symmetric) {
  gravel::detail::runtime& job = gravel::detail::waiting_runtime("gravel_unregister");
  job.done().quiet();  // no message of this PE may reach what will lie there
  job.heap().unregister_range(symmetric);
}

void* gravel_pool_malloc(ssize_t bytes, int device, void*) {
  gravel::detail::runtime& job = gravel::detail::waiting_runtime("gravel_pool_malloc");
  if (device != job.device().device_number())
    gravel::detail::fail("gravel_pool_malloc: memory of device {}; this PE uses {}", device, job.device().describe());
  try {
    return job.heap().allocate(static_cast<uint64_t>(bytes));
  } catch (const gravel::error& e) {  // a pool frees what it does not use, and asks again
    gravel::detail::log_warning("{}", e.what());
    return nullptr;
  }
}
void gravel_pool_free(void* symmetric, ssize_t, int, void* stream) {
  if (!gravel::detail::the_runtime || !symmetric) return;
  gravel::detail::waiting_runtime("gravel_pool_free").device().wait_for_other_stream(stream);
  gravel_free(symmetric);
}
void gravel_copy(void* to, const void* from, uint64_t bytes) {
  gravel::detail::waiting_runtime("gravel_copy").device().copy(to, from, bytes);
}

void gravel_quiet() { gravel::detail::waiting_runtime("gravel_quiet").done().quiet(); }
void gravel_barrier_all() { gravel::detail::waiting_runtime("gravel_barrier_all").done().barrier_all(); }
void gravel_wait_quiescent() { gravel::detail::waiting_runtime("gravel_wait_quiescent").done().wait_quiescent(); }
void gravel_synchronize() { gravel::detail::waiting_runtime("gravel_synchronize").device().synchronize(); }

uint64_t gravel_sum_all(uint64_t value) { return gravel_sum_all<uint64_t>(value); }
uint64_t gravel_min_all(uint64_t value) { return gravel_min_all<uint64_t>(value); }
uint64_t gravel_max_all(uint64_t value) { return gravel_max_all<uint64_t>(value); }
