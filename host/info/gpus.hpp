// GPUs of this machine and their connections, as CUDA's driver and NVML report them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/node/gpu_fabric.hpp"

namespace gravel::detail {

struct gpu {
  int ordinal;  ///< CUDA's number (CUDA_VISIBLE_DEVICES applies)
  std::string name, bus_id;
  uint64_t memory;  ///< bytes
  int major, minor, multiprocessors;
  bool host_native_atomics;  ///< hostNativeAtomicSupported: read-modify-write on host memory is atomic for CPU and GPU
  bool host_register;
  int compute_mode;                 ///< 0: shared, 2: prohibited, 3: one process
  std::optional<uint32_t> nvlinks;  ///< active links; nullopt: NVML does not report them
  gpu_fabric fabric;
};

/// How GPU i reaches the memory of GPU j.
struct gpu_pair {
  bool access = false;         ///< loads and stores
  bool atomics = false;        ///< native atomics
  int rank = 0;                ///< CUDA's performance rank: lower is faster
  std::optional<bool> nvlink;  ///< the path is NVLink; nullopt: NVML does not report it
  std::string status;          ///< NVML's reason why there is no access; may be empty
  std::string path;            ///< "same PCIe switch", ...; may be empty
};

struct gpu_report {
  std::string why_none;         ///< why `gpus` is empty
  std::string driver;           ///< "13.0 (driver 580.65.06)"
  bool green_contexts = false;  ///< the driver supports green contexts: parts of a GPU's multiprocessors
  std::string nvml;             ///< why NVML could not be used; empty: it could
  std::vector<gpu> gpus;
  std::vector<std::vector<gpu_pair>> pairs;  ///< [i][j]
};

gpu_report find_gpus();

/// Tests whether one process can map another's GPU memory. Starts a copy of this program. Both make a CUDA context on
/// GPU 0. Empty: it works; otherwise the reason.
std::string try_cuda_ipc();
/// Runs in the copy: opens the handle (in hexadecimal). Returns why it cannot; empty: it can.
std::string open_cuda_ipc(const std::string& handle);

/// State of the MPS daemon. text: "running (process 12)", "not running".
struct mps_state {
  bool running;
  std::string text;
};
mps_state find_mps();

}  // namespace gravel::detail
