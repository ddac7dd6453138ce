#include "host/info/software.hpp"

#include <hwloc/autogen/config.h>
#include <pmix.h>

#include "lib/base/version.hpp"
#include "transport/ucx_context.hpp"

namespace gravel::detail {
namespace {

/// The first part of "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, ...)\n".
std::string short_pmix(const std::string& text) {
  const size_t end = text.find(" (");
  return text.substr(0, end == std::string::npos ? text.find('\n') : end);
}

}  // namespace

software_report inspect_software() {
  software_report s;
  s.version = GRAVEL_VERSION;
#if defined(__clang__)
  s.compiler = "clang " __clang_version__;
#else
  s.compiler = "g++ " __VERSION__;
#endif
  s.build_type = GRAVEL_BUILD_TYPE;
  s.built_with_cuda = std::string(GRAVEL_NVCC).size() != 0;
  const std::string ptx = GRAVEL_CUDA_PTX;
  const std::string with_ptx = ptx.empty() ? "" : " and PTX of sm_" + ptx;
  s.cuda = s.built_with_cuda ? "on (" GRAVEL_NVCC ", for sm_" GRAVEL_CUDA_ARCHS + with_ptx + ")"
                             : "off (no nvcc when it was built)";
  s.ucx = ucx_version();
  s.pmix = short_pmix(PMIx_Get_version());
  s.hwloc = HWLOC_VERSION;  // from its header: the library does not report its own
  s.ucx_error = text_of_error([&] { s.ucx_transports = ucx_transports(); });
  s.ucx_build_error = text_of_error([] { const ucx_context trial(1); });
  return s;
}

}  // namespace gravel::detail
