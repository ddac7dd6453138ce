#include "host/pe/services.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "device/service.cuh"
#include "host/pe/collectives.hpp"
#include "host/pe/runtime.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

/// Text of a description, for messages to the user.
std::string text_of(const service_description& d) {
  return fmt::format("'{}' ({} blocks of {} threads, {} chunks of {} messages, {} bytes a message)", d.name,
                     d.shape.blocks, d.threads, d.shape.chunks, d.shape.chunk_messages, d.shape.message_bytes);
}
constexpr size_t most_name = 63, most_text = 256;

void check(const service_description& d) {
  const auto in = [&](const char* what, uint64_t value, uint64_t least, uint64_t most) {
    if (value < least || value > most)
      fail("service '{}': {} {}; there may be {} to {}", d.name, value, what, least, most);
  };
  if (d.name.empty() || d.name.size() > most_name)
    fail("service '{}': its name has {} characters; it may have 1 to {}", d.name, d.name.size(), most_name);
  in("service blocks", d.shape.blocks, 1, service_shape::most_blocks);
  in("chunks", d.shape.chunks, 1, service_shape::most_chunks);
  if (!std::has_single_bit(d.shape.chunks))
    fail("service '{}': {} chunks is not a power of two", d.name, d.shape.chunks);
  in("messages of a chunk", d.shape.chunk_messages, service_shape::least_chunk_messages,
     service_shape::most_chunk_messages);
}

/// Returns a number that no service has had, for a place that no open service has.
uint32_t new_opening() {
  static uint32_t last = 0;
  uint32_t place = 1;  // handles that are not checked have place 0
  while (load_relaxed(&open_now[place]) != 0) ++place;
  const uint32_t number = ++last * opening_places + place;
  store_relaxed(&open_now[place], number);
  return number;
}
static_assert(settle_view::most_services < opening_places);

}  // namespace

uint32_t open_now[opening_places] = {};

void refuse_closed(const char* call, const char* what, const char* name) {
  fail("{} was called after the close() of {}{}: its handle may no longer be used", call, what,
       *name ? fmt::format(" '{}'", name) : "");
}

open_service::open_service(const service_description& what) : job_(&waiting_runtime("gravel_service")), what_(what) {
  check(what_);
  const auto& open = job_->services().open();
  if (std::any_of(open.begin(), open.end(), [&](const open_service* s) { return s->name() == what_.name; }))
    fail("service '{}' is open already", what_.name);
  if (open.size() == settle_view::most_services)
    fail("service '{}': {} are open; there may be no more", what_.name, open.size());
  auto& device = job_->device();
  resident_kernel wanted{};
  wanted.name = what_.name;
  wanted.blocks = what_.shape.blocks;
  wanted.threads = what_.threads;
  wanted.function = what_.kernel;
  if (const std::string why = device.refuse_resident(wanted); !why.empty()) fail("service '{}': {}", what_.name, why);
  agree(collective_kind::open_service);

  const uint64_t rings = what_.shape.bytes(), bytes = rings + sizeof(service_life) + what_.context_bytes;
  std::string why;
  try {
    memory_ = static_cast<char*>(device.allocate(bytes, "rings of a service"));
    control_ = {device, 1, "control of a service"};
  } catch (const std::exception& e) {
    why = e.what();
  }
  collective_words mine{};
  mine.sum[0] = !why.empty();
  const bool all = job_->begin_collective(collective_kind::open_service).combine(mine).sum[0] == 0;
  if (!all) {
    forget();
    if (!why.empty()) fail("service '{}': {}", what_.name, why);
    fail("service '{}': it cannot be opened at another PE", what_.name);
  }
  view_ = {memory_, control_.data(), what_.shape};
  life_ = reinterpret_cast<service_life*>(memory_ + rings);
  for (uint32_t s = 0; s < what_.shape.blocks; ++s) device.store_word(&view_.block(s).room, what_.shape.far_messages());
  std::vector<char> context(what_.context_bytes);
  if (what_.context) std::memcpy(context.data(), what_.context, context.size());
  std::memcpy(context.data(), &view_, sizeof(view_));
  device.copy(life_ + 1, context.data(), context.size());
  what_.context = nullptr;
  opening_ = new_opening();
  log_info(
      "service '{}': {} blocks of {} threads; {} bytes of device memory for rings of {} chunks of {} messages, "
      "and of "
      "{} messages of "
      "other PEs, of {} bytes for each",
      what_.name, what_.shape.blocks, what_.threads, bytes, what_.shape.chunks, what_.shape.chunk_messages,
      what_.shape.far_messages(), what_.shape.message_bytes);
}

gravel_t open_service::handle() const { return job_->memory().of_kernels(); }

void open_service::start(std::function<void(void*, uint64_t)> run) {
  kernel_ = {what_.name, what_.shape.blocks, what_.threads, life_, control_.data(), what_.kernel, std::move(run)};
  if (what_.handler) job_->memory().set_context(what_.handler, what_.name.c_str(), sink_kind::device, life_ + 1);
  job_->services().add(*this);
  try {
    job_->device().keep_resident(kernel_);
  } catch (const std::exception& e) {
    job_->abort_job(fmt::format("service '{}': {}", what_.name, e.what()),
                    1);  // a kernel that waits to be scheduled cannot be cancelled
  }
  runs_ = true;
  job_->begin_collective(collective_kind::open_service).combine();
}

void open_service::agree(collective_kind kind) {
  std::array<char, most_text> mine{};
  text_of(what_).copy(mine.data(), most_text - 1);
  std::vector<std::array<char, most_text>> all(job_->nodes().n_pes());
  gather(all.data(), mine.data(), most_text, kind);
  for (size_t pe = 1; pe < all.size(); ++pe)
    if (all[pe] != all[0])
      fail("the PEs {} different services: PE 0 {}, PE {} {}", kind == collective_kind::open_service ? "open" : "close",
           all[0].data(), pe, all[pe].data());
}

void open_service::close() {
  if (!runs_) return;
  job_->done().wait_quiescent();  // quiescence includes the counts of services
  agree(collective_kind::close_service);
  let_go();
}

void open_service::let_go() {
  is_to_end_ = true;
  if (std::exchange(runs_, false)) job_->device().let_go(kernel_);
  job_->services().remove(*this);  // watched until its end
  if (what_.handler) job_->memory().set_context(what_.handler, what_.name.c_str(), sink_kind::device, nullptr);
  forget();
}

void open_service::forget() {
  if (opening_) store_relaxed(&open_now[opening_ % opening_places], 0u);
  opening_ = 0;
  if (memory_) job_->device().release(memory_);
  memory_ = nullptr;
  control_ = {};
}

open_service::~open_service() {
  try {
    if (memory_) let_go();
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
}

std::vector<service_block> open_service::read_blocks() {
  std::vector<service_block> blocks(what_.shape.blocks);
  job_->device().read_words(reinterpret_cast<uint64_t*>(blocks.data()), reinterpret_cast<const uint64_t*>(memory_),
                            blocks.size() * sizeof(service_block) / sizeof(uint64_t));
  return blocks;
}

open_service::counts open_service::read() {
  counts c;
  for (const service_block& s : read_blocks()) c.applied += s.applied();
  for (const service_block& s : read_blocks()) c.tickets += s.tickets();
  return c;
}

}  // namespace gravel::detail
