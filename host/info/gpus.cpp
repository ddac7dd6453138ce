#include "host/info/gpus.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "host/info/cuda_driver.hpp"
#include "host/info/nvml.hpp"

namespace gravel::detail {
namespace {

void describe_pair(const cuda_driver& cuda, const nvml& n, int from, int to, void* nvml_from, void* nvml_to,
                   gpu_pair& pair) {
  int value = 0;
  pair.access = cuda.can_access_peer(&value, from, to) == 0 && value != 0;
  pair.atomics = cuda.p2p_attribute(&value, cuda_driver::p2p_atomics, from, to) == 0 && value != 0;
  if (cuda.p2p_attribute(&value, cuda_driver::p2p_rank, from, to) == 0) pair.rank = value;
  if (!nvml_from || !nvml_to) return;
  if (int status = 0; n.p2p_status(nvml_from, nvml_to, nvml::index_nvlink, &status) == 0) pair.nvlink = status == 0;
  if (int status = 0; !pair.access && n.p2p_status(nvml_from, nvml_to, nvml::index_read, &status) == 0)
    pair.status = nvml::p2p_reason(status);
  if (int level = 0; n.common_ancestor(nvml_from, nvml_to, &level) == 0) pair.path = nvml::path_of_level(level);
}

}  // namespace

gpu_report find_gpus() {
  gpu_report report;
  const cuda_driver cuda;
  if (!cuda.why_not.empty()) {
    report.why_none = cuda.why_not;
    return report;
  }
  report.green_contexts = cuda.library.has("cuGreenCtxStreamCreate");  // the newest of the functions needed
  const nvml n;
  report.nvml = n.why_not;
  int version = 0, count = 0;
  cuda.driver_version(&version);
  report.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  char text[256] = "";
  if (n.why_not.empty() && n.driver_version(text, sizeof(text)) == 0) report.driver += fmt::format(", driver {}", text);
  if (const int result = cuda.device_count(&count)) {
    report.why_none = fmt::format("the CUDA driver cannot count its devices: {}", cuda.text_of(result));
    return report;
  }
  if (count == 0) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    report.why_none = "the CUDA driver finds no GPU";
    if (visible) report.why_none += fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible);
    return report;
  }

  std::vector<int> devices(static_cast<size_t>(count));
  std::vector<void*> in_nvml(static_cast<size_t>(count), nullptr);
  for (int i = 0; i < count; ++i) {
    int& device = devices[static_cast<size_t>(i)];
    if (const int result = cuda.device(&device, i)) {
      report.gpus.clear();
      report.why_none = fmt::format("GPU {} cannot be used: {}", i, cuda.text_of(result));
      return report;
    }
    const auto attribute = [&](int which) {
      int value = 0;
      return cuda.device_attribute(&value, which, device) == 0 ? value : 0;
    };
    gpu g{};
    g.ordinal = i;
    char name[256] = "?", bus_id[64] = "";
    size_t memory = 0;
    cuda.device_name(name, sizeof(name), device);
    cuda.device_bus_id(bus_id, sizeof(bus_id), device);
    cuda.device_memory(&memory, device);
    g.name = name;
    g.bus_id = bus_id;
    g.memory = memory;
    g.major = attribute(cuda_driver::major);
    g.minor = attribute(cuda_driver::minor);
    g.multiprocessors = attribute(cuda_driver::multiprocessors);
    g.host_native_atomics = attribute(cuda_driver::host_native_atomics) != 0;
    g.host_register = attribute(cuda_driver::host_register) != 0;
    g.compute_mode = attribute(cuda_driver::compute_mode);
    void*& handle = in_nvml[static_cast<size_t>(i)];
    if (!n.why_not.empty() || n.device_of_bus_id(bus_id, &handle) != 0) handle = nullptr;
    g.nvlinks = n.count_links(handle);
    g.fabric = find_gpu_fabric(g.bus_id);
    report.gpus.push_back(std::move(g));
  }
  report.pairs.assign(devices.size(), std::vector<gpu_pair>(devices.size()));
  for (size_t i = 0; i < devices.size(); ++i)
    for (size_t j = 0; j < devices.size(); ++j)
      if (i != j) describe_pair(cuda, n, devices[i], devices[j], in_nvml[i], in_nvml[j], report.pairs[i][j]);
  return report;
}

mps_state find_mps() {
  const char* set = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string folder = set ? set : "/tmp/nvidia-mps";
  std::ifstream file(folder + "/nvidia-cuda-mps-control.pid");
  pid_t pid = 0;
  if (!(file >> pid) || pid <= 0) return {false, fmt::format("not running (nothing in {})", folder)};
  // EPERM: the process exists and belongs to another user.
  if (kill(pid, 0) == 0 || errno == EPERM) return {true, fmt::format("running (process {}, {})", pid, folder)};
  return {false, fmt::format("not running (process {} of {} is gone)", pid, folder)};
}

}  // namespace gravel::detail
