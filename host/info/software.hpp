// Versions of Gravel and of the libraries it uses, and how it was built.
#pragma once
#include <string>
#include <vector>

namespace gravel::detail {

struct software_report {
  std::string version, compiler, build_type, cuda;  ///< cuda: "on, for sm_90 and PTX of sm_80", "off"
  bool built_with_cuda;
  std::string ucx, pmix, hwloc;
  std::vector<std::string> ucx_transports;
  std::string ucx_error;        ///< why UCX could not list its transports
  std::string ucx_build_error;  ///< why UCX cannot start with this environment
};
software_report inspect_software();

}  // namespace gravel::detail
