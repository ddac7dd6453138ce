#include "transport/ucx_context.hpp"

#include <fmt/format.h>
#include <uct/api/uct.h>

#include <cstdlib>
#include <memory>

#include "transport/ucx_quirks.hpp"

namespace gravel::detail {
namespace {

bool in_environment(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::getenv(name)) return true;
  return false;
}

ucp_context_h make_context(const ucp_params_t& params, bool one_host, bool shared_memory_reports_death) {
  ucp_config_t* raw = nullptr;
  ucx_check(ucp_config_read(nullptr, nullptr, &raw), "UCX: cannot read its configuration (UCX_* variables)");
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> config(raw, ucp_config_release);
  if (!in_environment({"UCX_KEEPALIVE_INTERVAL"}))
    ucx_check(ucp_config_modify(raw, "KEEPALIVE_INTERVAL", "2s"), "UCX: cannot set KEEPALIVE_INTERVAL");
  // A process that is killed while it makes a System V segment leaves it behind. POSIX segments are as fast, and in the
  // aggregator they have no name that could be left behind (transport/ucx_quirks.hpp).
  //
  // With TCP UCX listens on every network, and any process that connects can write into this process. So TCP is off
  // where it is not needed.
  if (!in_environment({"UCX_TLS"}))
    ucx_check(ucp_config_modify(raw, "TLS", one_host ? "^sysv,tcp" : "^sysv"), "UCX: cannot set TLS");
  if (shared_memory_reports_death)
    ucx_check(ucp_config_modify(raw, "MM_ERROR_HANDLING", "y"), "UCX: cannot set MM_ERROR_HANDLING");
  ucp_context_h context = nullptr;
  const char* transports = std::getenv("UCX_TLS");
  ucx_check(ucp_init(&params, raw, &context),
            "UCX {} cannot start (UCX_TLS={}; `gravel-info` lists the transports of this machine)", ucx_version(),
            transports ? transports : "not set");
  return context;
}

}  // namespace

ucx_context::ucx_context(unsigned workers, size_t peers, const std::string& name, bool one_host) {
  const no_end_meanwhile guard;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM;
  params.mt_workers_shared = workers > 1;
  params.estimated_num_eps = peers;
  params.name = name.c_str();
  const bool may_set =
      !in_environment({"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"});
  handle_ = make_context(params, one_host, may_set);
  // Each worker would warn about a setting that no transport in use knows. So it is not set without shared memory.
  if (may_set && !seen_in(printed(handle_), uses_shared_memory, true)) {
    ucp_cleanup(handle_);
    handle_ = make_context(params, one_host, false);
  }
}

ucx_context::~ucx_context() { ucp_cleanup(handle_); }

std::string ucx_version() { return ucp_get_version_string(); }

std::vector<std::string> ucx_transports() {
  std::vector<std::string> found;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  ucx_check(uct_query_components(&components, &count), "UCX: cannot list its components");
  const std::unique_ptr<uct_component_h, void (*)(uct_component_h*)> list(components, uct_release_component_list);
  for (unsigned c = 0; c < count; ++c) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (uct_component_query(components[c], &attributes) != UCS_OK) continue;
    std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = domains.data();
    if (domains.empty() || uct_component_query(components[c], &attributes) != UCS_OK) continue;
    for (const auto& domain : domains) {
      // UCX would not use a domain that cannot be opened (for example a NIC without permission), either.
      uct_md_config_t* config = nullptr;
      if (uct_md_config_read(components[c], nullptr, nullptr, &config) != UCS_OK) continue;
      uct_md_h opened = nullptr;
      const ucs_status_t status = uct_md_open(components[c], domain.md_name, config, &opened);
      uct_config_release(config);
      if (status != UCS_OK) continue;
      uct_tl_resource_desc_t* resources = nullptr;
      unsigned resource_count = 0;
      if (uct_md_query_tl_resources(opened, &resources, &resource_count) == UCS_OK) {
        for (unsigned r = 0; r < resource_count; ++r)
          found.push_back(fmt::format("{}/{}", resources[r].tl_name, resources[r].dev_name));
        uct_release_tl_resource_list(resources);
      }
      uct_md_close(opened);
    }
  }
  return found;
}

}  // namespace gravel::detail
