// NVML to go with cuda.cpp: GPU 0 and 1 have 18 NVLinks, to a fabric of several hosts; GPU 3 is behind another I/O hub.
#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "fake error"; }
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "999.1");
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  int number = 0;
  if (std::sscanf(id, "00F0:0%d:00.0", &number) != 1) return 6;
  *device = reinterpret_cast<void*>(static_cast<intptr_t>(number + 1));
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned, int* active) {
  if (reinterpret_cast<intptr_t>(device) > 2) return 3;  // not supported
  *active = 1;
  return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, int index, int* status) {
  const intptr_t sum = reinterpret_cast<intptr_t>(a) + reinterpret_cast<intptr_t>(b);
  const bool last = reinterpret_cast<intptr_t>(a) == 4 || reinterpret_cast<intptr_t>(b) == 4;
  *status = index == 2 && sum != 3 ? 5 : 0;
  if (last) *status = 3;
  return 0;
}
int nvmlDeviceGetGpuFabricInfo(void* device, unsigned char* info) {
  std::memset(info, 0, 28);
  if (reinterpret_cast<intptr_t>(device) > 2) return 3;  // not supported
  info[0] = 0xab;
  info[20] = 5;  // clique
  info[24] = 3;  // completed
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  *level = reinterpret_cast<intptr_t>(a) == 4 || reinterpret_cast<intptr_t>(b) == 4 ? 50 : 30;
  return 0;
}
}
