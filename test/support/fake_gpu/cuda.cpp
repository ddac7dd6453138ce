// A CUDA driver without GPUs, for tests of gravel-info: libcuda.so.1 with four devices that FAKE_GPU
// describes.
//   unset        GPU 0, 1 and 2 reach each other (0 and 1 over NVLink), GPU 3 reaches none
//   fabric       fabric handles are permitted; else they are not
//   none         no device; broken   cuInit fails; ipc   a second process cannot open memory
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
bool says(const char* word) {
  const char* set = std::getenv("FAKE_GPU");
  return set && std::strcmp(set, word) == 0;
}
struct ipc_handle {
  char bytes[64];
};
}  // namespace

extern "C" {
int cuInit(unsigned) { return says("broken") ? 100 : 0; }
int cuGetErrorName(int code, const char** text) {
  *text = "CUDA_ERROR_INVALID_VALUE";
  if (code == 100) *text = "CUDA_ERROR_NO_DEVICE";
  if (code == 800) *text = "CUDA_ERROR_NOT_PERMITTED";
  return 0;
}
int cuGetErrorString(int code, const char** text) {
  *text = "invalid argument";
  if (code == 100) *text = "no CUDA-capable device is detected";
  if (code == 800) *text = "operation not permitted";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = says("none") ? 0 : 4;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "Fake GPU");
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{8} << 30;
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  std::snprintf(id, static_cast<size_t>(bytes), "00F0:0%d:00.0", device);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 16: *value = 132; return 0;
    case 75: *value = 9; return 0;
    case 76: *value = 0; return 0;
    case 99:
    case 103:
    case 128: *value = 1; return 0;
    default: *value = 0; return 0;
  }
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != 3 && peer != 3;
  return 0;
}
int cuDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  *value = attribute == 3 && device + peer == 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = nullptr;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuMemAlloc_v2(uint64_t* memory, size_t) {
  *memory = 4096;
  return 0;
}
int cuMemFree_v2(uint64_t) { return 0; }
int cuIpcGetMemHandle(ipc_handle* handle, uint64_t) {
  for (int i = 0; i < 64; ++i) handle->bytes[i] = static_cast<char>(i * 5);
  return 0;
}
int cuIpcOpenMemHandle_v2(uint64_t* memory, ipc_handle handle, unsigned) {
  for (int i = 0; i < 64; ++i)
    if (handle.bytes[i] != static_cast<char>(i * 5)) return 1;
  *memory = 4096;
  return says("ipc") ? 1 : 0;
}
int cuIpcCloseMemHandle(uint64_t) { return 0; }
/// The properties begin with the kind of memory and that of its handles, of which 8 is fabric.
int cuMemCreate(uint64_t* memory, size_t, const int* properties, unsigned long long) {
  *memory = 1;
  return properties[1] == 8 && !says("fabric") ? 800 : 0;
}
int cuMemRelease(uint64_t) { return 0; }
int cuMemExportToShareableHandle(void* handle, uint64_t, int type, unsigned long long) {
  if (type == 1) *static_cast<int*>(handle) = -1;
  else std::memset(handle, 7, 64);
  return 0;
}
}
