#include "lib/base/profile.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define GRAVEL_HAS_NVTX 1
#endif

namespace gravel::detail {

#if GRAVEL_HAS_NVTX
namespace {

/// nullptr: there is no profiler
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("gravel");
  return made;
}

thread_local const char* waiting = nullptr;  ///< name of the wait that is open in this thread

void push_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void end_wait() {
  if (waiting) nvtxDomainRangePop(domain());
  waiting = nullptr;
}

}  // namespace

void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  if (domain()) nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), name);
}

bool profile_range::push(const char* name) {
  if (!domain()) return false;
  end_wait();
  push_range(name);
  return true;
}

void profile_range::pop() {
  end_wait();
  nvtxDomainRangePop(domain());
}

void profile_wait::begin(const char* name) {
  if (!domain() || waiting == name) return;
  end_wait();
  push_range(name);
  waiting = name;
}

void profile_wait::end_if_begun() {
  if (domain()) end_wait();
}
#else
void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }
bool profile_range::push(const char*) { return false; }
void profile_range::pop() {}
void profile_wait::begin(const char*) {}
void profile_wait::end_if_begun() {}
#endif

}  // namespace gravel::detail
