// GPUs of this machine and how they reach each other, as CUDA's driver and NVML tell it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gravel::detail {

struct gpu {
  int ordinal;  ///< as CUDA numbers them (CUDA_VISIBLE_DEVICES applies)
  std::string name, bus_id;
  uint64_t memory;  ///< bytes
  int major, minor, multiprocessors;
  bool host_native_atomics;  ///< hostNativeAtomicSupported: read-modify-write on host memory is atomic for
                             ///< CPU and GPU
  bool host_register;
  int compute_mode;                 ///< 0: shared, 2: prohibited, 3: one process
  std::optional<uint32_t> nvlinks;  ///< active links; nullopt: NVML did not say
};

/// How GPU i reaches the memory of GPU j.
struct gpu_pair {
  bool access = false;         ///< loads and stores
  bool atomics = false;        ///< native atomics
  int rank = 0;                ///< CUDA's performance rank: lower is faster
  std::optional<bool> nvlink;  ///< the path is NVLink; nullopt: NVML did not say
  std::string status;          ///< NVML's word for why there is no access; may be empty
  std::string path;            ///< "same PCIe switch", ...; may be empty
};

struct gpu_report {
  std::string why_none;         ///< if gpus is empty
  std::string driver;           ///< "13.0 (driver 580.65.06)"
  bool green_contexts = false;  ///< the driver has them: parts of a GPU's multiprocessors
  std::string nvml;             ///< why NVML was of no help; empty: it was
  std::vector<gpu> gpus;
  std::vector<std::vector<gpu_pair>> pairs;  ///< [i][j]
};

gpu_report find_gpus();

/// Whether one process can map another's GPU memory. Starts a copy of this program, which makes a CUDA
/// context on GPU 0, as this process does. Empty: it works; else the reason.
std::string try_cuda_ipc();
/// The copy's part: opens the handle (in hexadecimal). Returns why it cannot; empty: it can.
std::string open_cuda_ipc(const std::string& handle);

/// The MPS daemon's state in words: "running (process 12)", "not running".
struct mps_state {
  bool running;
  std::string text;
};
mps_state find_mps();

}  // namespace gravel::detail
