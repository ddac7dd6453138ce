// A profiler for tests: NVTX_INJECTION64_PATH names this library, and NVTX_RECORD a folder. Each process writes its
// calls of NVTX into a file there, named by the number of the process:
//   process NAME      THREAD push DOMAIN NAME      THREAD pop DOMAIN      THREAD name NAME
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int file = -1;

/// One write a line: threads do not mix.
void record(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(file, whole.data(), whole.size()) < 0) std::abort();
}
std::string thread_number() { return std::to_string(syscall(SYS_gettid)); }

/// A domain's handle is its name.
nvtxDomainHandle_t domain_create(const char* name) { return reinterpret_cast<nvtxDomainHandle_t>(strdup(name)); }
std::string name_of(nvtxDomainHandle_t domain) { return domain ? reinterpret_cast<const char*>(domain) : "(none)"; }

int range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  const bool sound =
      event->version == NVTX_VERSION && event->size == sizeof(*event) && event->messageType == NVTX_MESSAGE_TYPE_ASCII;
  record(thread_number() + " push " + name_of(domain) + " " + (sound ? event->message.ascii : "(unsound)"));
  return 0;
}
int range_pop(nvtxDomainHandle_t domain) {
  record(thread_number() + " pop " + name_of(domain));
  return 0;
}
void name_thread(uint32_t thread, const char* name) { record(std::to_string(thread) + " name " + name); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const char* folder = std::getenv("NVTX_RECORD");
  if (!folder) return 0;
  file = open((std::string(folder) + "/" + std::to_string(getpid())).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
              0600);
  char program[4096] = "";
  if (file < 0 || readlink("/proc/self/exe", program, sizeof(program) - 1) < 0) return 0;
  record(std::string("process ") + (std::strrchr(program, '/') + 1));
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  const auto listen = [&](NvtxCallbackModule module, unsigned id, auto* function) {
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (callbacks->GetModuleFunctionTable(module, &table, &size) && id < size)
      *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  listen(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, domain_create);
  listen(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, range_push);
  listen(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, range_pop);
  listen(NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_NameOsThreadA, name_thread);
  return 1;
}
