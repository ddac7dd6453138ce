#include "host/pe/services.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/service.cuh"
#include "host/pe/runtime.hpp"
#include "lib/base/log.hpp"

namespace gravel {
namespace {

/// What PEs compare. Names are longer than a word: a collective call alone could not say them.
struct description_record {
  char name[64];
  service_shape shape;
  uint32_t threads;
  bool operator==(const description_record&) const = default;
};

std::string text_of(const description_record& d) {
  return fmt::format("'{}' ({} servers of {} threads, {} chunks of {} messages, {} bytes a message)", d.name, d.shape.servers, d.threads,
                     d.shape.chunks, d.shape.chunk_messages, d.shape.message_bytes);
}

void check(const service_description& d) {
  const auto in = [&](const char* what, uint64_t value, uint64_t least, uint64_t most) {
    if (value < least || value > most) fail("service '{}': {} {}; there may be {} to {}", d.name, value, what, least, most);
  };
  if (d.name.empty() || d.name.size() >= sizeof(description_record::name))
    fail("service '{}': its name has {} characters; it may have 1 to {}", d.name, d.name.size(), sizeof(description_record::name) - 1);
  in("servers", d.shape.servers, 1, service_shape::most_servers);
  in("chunks", d.shape.chunks, 1, service_shape::most_chunks);
  if (!std::has_single_bit(d.shape.chunks)) fail("service '{}': {} chunks is not a power of two", d.name, d.shape.chunks);
  in("messages of a chunk", d.shape.chunk_messages, service_shape::least_chunk_messages, service_shape::most_chunk_messages);
}

/// A number that no service had before, at a place that none has.
uint32_t new_opening() {
  static uint32_t last = 0;
  uint32_t place = 1;  // 0 is that of handles that are not checked
  while (load_relaxed(&open_now[place]) != 0) ++place;
  const uint32_t number = ++last * opening_places + place;
  store_relaxed(&open_now[place], number);
  return number;
}
static_assert(settle_view::most_services < opening_places);

}  // namespace

uint32_t open_now[opening_places] = {};

void refuse_closed(const char* call, const char* what, const char* name) {
  fail("{} was called after the close() of {}{}: its handle may no longer be used", call, what, *name ? fmt::format(" '{}'", name) : "");
}

open_service::open_service(const service_description& what) : job_(&waiting_runtime("gravel_service")), what_(what) {
  check(what_);
  const auto& open = job_->services().open();
  if (std::any_of(open.begin(), open.end(), [&](const open_service* s) { return s->name() == what_.name; }))
    fail("service '{}' is open already", what_.name);
  if (open.size() == settle_view::most_services) fail("service '{}': {} are open; there may be no more", what_.name, open.size());
  auto& device = job_->device();
  resident_kernel wanted{};
  wanted.name = what_.name;
  wanted.blocks = what_.shape.servers;
  wanted.threads = what_.threads;
  wanted.function = what_.kernel;
  if (const std::string why = device.refuse_resident(wanted); !why.empty()) fail("service '{}': {}", what_.name, why);
  agree(collective_kind::open_service);

  const uint64_t rings = what_.shape.bytes(), bytes = rings + sizeof(service_life) + what_.context_bytes;
  std::string why;
  try {
    memory_ = static_cast<char*>(device.allocate(bytes, "rings of a service"));
    mail_ = static_cast<service_mail*>(std::aligned_alloc(4096, 4096));  // a page of its own: pages are pinned
    if (!mail_) fail("no memory");
    std::memset(static_cast<void*>(mail_), 0, 4096);
    device.pin(mail_, 4096);
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
  view_ = {memory_, mail_, what_.shape};
  life_ = reinterpret_cast<service_life*>(memory_ + rings);
  for (uint32_t s = 0; s < what_.shape.servers; ++s) device.store_word(&view_.server(s).room, what_.shape.far_messages());
  std::vector<char> context(what_.context_bytes);
  if (what_.context) std::memcpy(context.data(), what_.context, context.size());
  std::memcpy(context.data(), &view_, sizeof(view_));
  device.copy(life_ + 1, context.data(), context.size());
  what_.context = nullptr;
  opening_ = new_opening();
  log_info(
      "service '{}': {} servers of {} threads; {} bytes of device memory for rings of {} chunks of {} messages, and of {} messages of "
      "other PEs, of {} bytes for each",
      what_.name, what_.shape.servers, what_.threads, bytes, what_.shape.chunks, what_.shape.chunk_messages, what_.shape.far_messages(),
      what_.shape.message_bytes);
}

gravel_t open_service::handle() const { return job_->memory().of_kernels(); }

void open_service::start(std::function<void(void*, uint64_t)> run) {
  kernel_ = {what_.name, what_.shape.servers, what_.threads, life_, mail_, what_.kernel, std::move(run)};
  if (what_.handler) job_->memory().set_context(what_.handler, what_.name.c_str(), sink_kind::device, life_ + 1);
  job_->services().add(*this);
  try {
    job_->device().keep_resident(kernel_);
  } catch (const std::exception& e) {
    job_->abort_job(fmt::format("service '{}': {}", what_.name, e.what()), 1);  // a kernel that waits for its place cannot be taken back
  }
  runs_ = true;
  job_->begin_collective(collective_kind::open_service).combine();
}

void open_service::agree(collective_kind kind) {
  description_record mine{};
  what_.name.copy(mine.name, sizeof(mine.name) - 1);
  mine.shape = what_.shape;
  mine.threads = what_.threads;
  auto call = job_->begin_collective(kind);
  const auto all = call.exchange(std::as_bytes(std::span(&mine, 1)));
  std::vector<description_record> theirs(all.size() / sizeof(mine));
  std::memcpy(theirs.data(), all.data(), theirs.size() * sizeof(mine));
  for (size_t pe = 1; pe < theirs.size(); ++pe)
    if (!(theirs[pe] == theirs[0]))
      fail("the PEs {} different services: PE 0 {}, PE {} {}", kind == collective_kind::open_service ? "open" : "close", text_of(theirs[0]),
           pe, text_of(theirs[pe]));
}

void open_service::close() {
  if (!runs_) return;
  job_->done().wait_quiescent();  // counts of services are among those it looks at
  agree(collective_kind::close_service);
  let_go();
}

void open_service::let_go() {
  is_to_end_ = true;
  if (std::exchange(runs_, false)) job_->device().let_go(kernel_);
  job_->services().remove(*this);  // watched to its end
  if (what_.handler) job_->memory().set_context(what_.handler, what_.name.c_str(), sink_kind::device, nullptr);
  forget();
}

void open_service::forget() {
  if (opening_) store_relaxed(&open_now[opening_ % opening_places], 0u);
  opening_ = 0;
  if (memory_) job_->device().release(memory_);
  if (mail_) {
    job_->device().unpin(mail_);
    std::free(mail_);
  }
  memory_ = nullptr;
  mail_ = nullptr;
}

open_service::~open_service() {
  try {
    if (memory_) let_go();
  } catch (const std::exception& e) {
    log_error("{}", e.what());
  }
}

std::vector<service_server> open_service::read_servers() {
  std::vector<service_server> servers(what_.shape.servers);
  job_->device().read_words(reinterpret_cast<uint64_t*>(servers.data()), reinterpret_cast<const uint64_t*>(memory_),
                            servers.size() * sizeof(service_server) / sizeof(uint64_t));
  return servers;
}

open_service::counts open_service::read() {
  counts c;
  for (const service_server& s : read_servers()) c.applied += s.applied();
  for (const service_server& s : read_servers()) c.tickets += s.tickets();
  return c;
}

}  // namespace gravel
