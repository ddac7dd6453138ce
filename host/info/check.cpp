#include "host/info/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace gravel::detail {
namespace {

std::string name_of(const gpu& g) { return fmt::format("GPU {}", g.ordinal); }

std::string path_words(const gpu& from, const gpu_pair& pair) {
  if (pair.nvlink.value_or(false))
    return from.nvlinks.value_or(0) ? fmt::format("NVLink ({} links)", *from.nvlinks) : std::string("NVLink");
  return pair.path.empty() ? std::string("PCIe") : fmt::format("PCIe ({})", pair.path);
}

route self_route(const findings& f, const std::string& device) {
  if (f.routes == "net")
    return {device, device, "net",
            "not self: GRAVEL_ROUTES=net sends even what stays in a PE through the network path"};
  return {device, device, "self", "done in place; nothing is faster"};
}

/// The reason why no two PEs of this machine can use the route `peer`, whatever their GPUs; empty: there is none.
std::string no_peers(const findings& f) {
  if (f.routes == "net" || f.routes == "no-peer") return fmt::format("GRAVEL_ROUTES={}", f.routes);
  if (f.ipc_error.empty() || f.handles.descriptor_error.empty()) return {};
  return fmt::format("neither descriptors ({}) nor CUDA IPC ({}) work", f.handles.descriptor_error, f.ipc_error);
}

std::string peer_words(const findings& f) {
  if (f.routes == "direct") return "block senders, too, send one by one (GRAVEL_ROUTES=direct)";
  if (f.routes == "rings")
    return "block senders through rings in GPU memory, single operations by net (GRAVEL_ROUTES=rings)";
  return "single operations directly, block senders through rings in GPU memory";
}

route gpu_route(const findings& f, size_t i, size_t j) {
  const gpu &from = f.gpus.gpus[i], &to = f.gpus.gpus[j];
  const gpu_pair& pair = f.gpus.pairs[i][j];
  route r{name_of(from), name_of(to), "net", ""};
  const std::string reason = no_peers(f);
  if (!pair.access)
    r.why = fmt::format("not peer: {} and {} have no peer access{}", name_of(from), name_of(to),
                        pair.status.empty() ? "" : fmt::format(" ({})", pair.status));
  else if (!reason.empty())
    r.why =
        fmt::format("not peer: {}; the hardware would allow it: peer access over {}", reason, path_words(from, pair));
  else if (!pair.atomics && f.routes == "peer")
    r.why = fmt::format("peer access over {}, without native atomics: with GRAVEL_ROUTES=peer the job ends",
                        path_words(from, pair));
  else if (!pair.atomics)
    r = {r.from, r.to, "peer",
         fmt::format("peer access over {}, without native atomics: block senders through rings in GPU memory, which "
                     "need stores alone; single operations by net",
                     path_words(from, pair))};
  else r = {r.from, r.to, "peer", fmt::format("peer access over {}; {}", path_words(from, pair), peer_words(f))};
  return r;
}

/// The route between two PEs that share a GPU.
route shared_gpu_route(const findings& f, const std::string& me) {
  const char* turns =
      f.mps.running ? "MPS lets the PEs of one GPU run at once" : "the PEs of one GPU take turns: MPS is not running";
  const std::string reason = no_peers(f);
  if (!reason.empty()) return {me, me + ", another PE", "net", fmt::format("not peer: {}; {}", reason, turns)};
  return {me, me + ", another PE", "peer", fmt::format("the same memory; {}; {}", peer_words(f), turns)};
}

/// The route between two PEs of the CPU backend. It can use `peer`, but that is not faster.
route cpu_route(const findings& f) {
  const bool wanted = f.routes == "peer" || f.routes == "direct" || f.routes == "rings";
  return {"CPU", "CPU, another PE", wanted ? "peer" : "net",
          wanted ? fmt::format("GRAVEL_ROUTES={}; slower than net, and meant for tests", f.routes)
                 : "no faster one exists; on one node packets are built in the receiver's shared memory"};
}

/// Transports that reach other nodes, over NICs or over TCP.
struct network {
  std::vector<std::string> rdma, tcp;
};
network network_of(const std::vector<std::string>& transports) {
  network n;
  for (const auto& t : transports) {
    const std::string_view family = std::string_view(t).substr(0, t.find('/'));
    if (family.starts_with("rc") || family.starts_with("dc") || family.starts_with("ud")) n.rdma.push_back(t);
    else if (family == "tcp" && t.substr(t.find('/') + 1) != "lo") n.tcp.push_back(t);
  }
  return n;
}

std::string to_other_nodes(const findings& f) {
  const network n = network_of(f.software.ucx_transports);
  std::string text;
  if (!n.rdma.empty()) text = fmt::format("UCX over {}", fmt::join(n.rdma, ", "));
  else if (!n.tcp.empty())
    text = fmt::format("UCX over {}; not RDMA: UCX finds no NIC that can do it", fmt::join(n.tcp, ", "));
  else text = "UCX finds no network: jobs stay on this machine";
  if (!f.ucx_tls.empty()) text += fmt::format("; UCX_TLS={} limits the choice", f.ucx_tls);
  return text;
}

}  // namespace

std::vector<route> find_routes(const findings& f) {
  std::vector<route> routes;
  for (size_t i = 0; i < f.gpus.gpus.size(); ++i) {
    const std::string me = name_of(f.gpus.gpus[i]);
    for (size_t j = 0; j < f.gpus.gpus.size(); ++j) {
      if (i != j) {
        routes.push_back(gpu_route(f, i, j));
        continue;
      }
      routes.push_back(self_route(f, me));
      routes.push_back(shared_gpu_route(f, me));
    }
    routes.push_back({me, "another node", "net", "no faster one exists; " + to_other_nodes(f)});
    routes.push_back({me, "CPU", "none", "all PEs of a job use one backend"});
  }
  routes.push_back(self_route(f, "CPU"));
  routes.push_back(cpu_route(f));
  routes.push_back({"CPU", "another node", "net", "no faster one exists; " + to_other_nodes(f)});
  return routes;
}

std::vector<problem> find_problems(const findings& f) {
  std::vector<problem> found;
  const auto fatal = [&](std::string text) { found.push_back({true, std::move(text)}); };
  const auto warn = [&](std::string text) { found.push_back({false, std::move(text)}); };
  const machine_report& m = f.machine;

  if (!f.settings_error.empty()) fatal(f.settings_error);
  if (!m.memfd.works) fatal(fmt::format("no shared memory: {}; Gravel shares its segments as memfds", m.memfd.why_not));
  if (!f.software.ucx_error.empty()) fatal(f.software.ucx_error);
  if (!f.software.ucx_build_error.empty()) fatal(f.software.ucx_build_error);
  if (!f.aggregator_error.empty()) fatal(f.aggregator_error);

  for (const auto& name : f.unknown_variables)
    warn(fmt::format("{} is not a variable of Gravel (a typing error?); gravel-info -c lists them", name));
  if (m.usable_threads == 1)
    warn("one core only: PEs and the aggregator take turns on it; results are right, rates mean nothing");
  const bool rdma = !network_of(f.software.ucx_transports).rdma.empty();
  if (constexpr uint64_t enough = 64 << 20; m.locked_memory && *m.locked_memory < enough && !m.may_lock_any)
    warn(fmt::format(
        "the limit of locked memory is {} KiB{}; raise it with `ulimit -l unlimited`, or for all logins with '* - "
        "memlock "
        "unlimited' in /etc/security/limits.conf",
        *m.locked_memory / 1024,
        rdma ? fmt::format(": Gravel registers {} KiB with the NIC for each PE of another node", f.registered / 1024)
             : std::string(" (it matters once there is a NIC that does RDMA: UCX registers memory with it)")));
  if (!m.cma.works)
    warn(
        fmt::format("UCX cannot use CMA ({}; yama ptrace_scope: {}): between nodes emulated on one machine every "
                    "packet is copied once "
                    "more; jobs on one node and over a network do not care",
                    m.cma.why_not, m.ptrace_scope));
  if (!m.dev_shm_free) warn("there is no /dev/shm: UCX has no shared memory between emulated nodes, and takes TCP");
  else if (*m.dev_shm_free < (32 << 20))
    warn(
        fmt::format("only {} KiB are free in /dev/shm, which UCX uses between emulated nodes; in a container start it "
                    "with --shm-size=1g",
                    *m.dev_shm_free / 1024));
  for (const gpu& g : f.gpus.gpus) {
    if (g.major < 8)
      warn(fmt::format("{} ({}) is of compute capability {}.{}: Gravel's kernels need 8.0", name_of(g), g.name, g.major,
                       g.minor));
    if (g.compute_mode == 2)
      warn(fmt::format("{} is in compute mode 'prohibited': no program can use it; `nvidia-smi -c DEFAULT` allows it",
                       name_of(g)));
    if (g.compute_mode == 3 && !f.mps.running)
      warn(fmt::format(
          "{} is in compute mode 'exclusive process': one PE only; `nvidia-smi -c DEFAULT` or MPS allow more",
          name_of(g)));
    if (!g.host_register)
      warn(
          fmt::format("{} cannot use pinned host memory of other libraries (no cudaHostRegister): Gravel cannot use it",
                      name_of(g)));
  }
  if (!f.gpus.gpus.empty() && !f.software.built_with_cuda)
    warn(
        "this Gravel was built without nvcc: its examples use the CPU backend; programs compiled by nvcc against it "
        "can use the GPUs");
  return found;
}

std::string domain_of(const findings& f, const gpu& g) {
  if (g.fabric.domain.empty()) return fmt::format("this host alone: {}", g.fabric.why);
  if (!f.handles.fabric_error.empty())
    return fmt::format("this host alone: no fabric handles; the NVLink domain is {}", g.fabric.domain);
  return fmt::format("NVLink domain {}; PEs of other hosts in it are peers (GRAVEL_HANDLE_TYPE, GRAVEL_DOMAIN)",
                     g.fabric.domain);
}

std::string residency_of(const findings& f) {
  if (f.partition == "lease")
    return fmt::format("by residency leases (GRAVEL_PARTITION=lease); the driver has {}green contexts",
                       f.gpus.green_contexts ? "" : "no ");
  const char* why = nullptr;
  if (!f.gpus.green_contexts) why = "the driver has no green contexts";
  else if (f.mps.running) why = "MPS runs";
  if (!why) return fmt::format("in green contexts (GRAVEL_PARTITION={})", f.partition);
  return f.partition == "green" ? fmt::format("none: GRAVEL_PARTITION=green, but {}", why)
                                : fmt::format("by residency leases (GRAVEL_PARTITION=auto: {})", why);
}

}  // namespace gravel::detail
