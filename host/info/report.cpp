#include "host/info/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace gravel::detail {
namespace {

using nlohmann::json;

std::string trial_text(const trial& t) { return t.works ? "works" : fmt::format("does not work: {}", t.why_not); }
std::string gib(uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

void row(std::string& text, const char* name, const std::string& value) {
  text += fmt::format("  {:<20}{}\n", name, value);
}

std::string locked_memory_text(const machine_report& m) {
  if (!m.locked_memory) return "unlimited";
  return fmt::format("{} KiB{}", *m.locked_memory / 1024,
                     m.may_lock_any ? " (does not bind this user: CAP_IPC_LOCK)" : "");
}

void add_gpus(std::string& text, const findings& f) {
  const gpu_report& r = f.gpus;
  text += "GPUs\n";
  if (r.gpus.empty()) {
    row(text, "none", r.why_none);
    return;
  }
  row(text, "driver", r.driver);
  if (!r.nvml.empty()) row(text, "NVML", fmt::format("no NVLink state: {}", r.nvml));
  for (const gpu& g : r.gpus) {
    const auto near = f.machine.locality.find(g.bus_id);
    row(text, fmt::format("GPU {}", g.ordinal).c_str(),
        fmt::format("{}, {}, sm_{}{}, {} multiprocessors, {}{}{}", g.name, gib(g.memory), g.major, g.minor,
                    g.multiprocessors, g.bus_id, near == f.machine.locality.end() ? "" : ", " + near->second,
                    g.nvlinks && *g.nvlinks ? fmt::format(", {} NVLinks", *g.nvlinks) : ""));
  }
  std::set<std::string> atomics;
  for (const gpu& g : r.gpus) atomics.insert(g.host_native_atomics ? "yes" : "no");
  row(text, "host atomics",
      fmt::format("{} (hostNativeAtomicSupported; Gravel does not need it)", fmt::join(atomics, ", ")));
  const auto works = [](const std::string& error) { return trial_text({error.empty(), error}); };
  row(text, "descriptors", works(f.handles.descriptor_error));
  row(text, "fabric handles", works(f.handles.fabric_error));
  row(text, "CUDA IPC", works(f.ipc_error));
  row(text, "node", "this host: its PEs share an aggregator for messages");
  std::vector<std::pair<std::string, std::vector<int>>> domains;  // and their GPUs
  for (const gpu& g : r.gpus) {
    if (domains.empty() || domains.back().first != domain_of(f, g)) domains.push_back({domain_of(f, g), {}});
    domains.back().second.push_back(g.ordinal);
  }
  for (const auto& [domain, gpus] : domains)
    row(text, "mapped memory", fmt::format("GPU {}: {}", fmt::join(gpus, ", "), domain));
  row(text, "MPS", f.mps.text);
  row(text, "residency", residency_of(f));
  if (r.gpus.size() > 1) {
    text += "  peer access (N: over NVLink, P: over PCIe, .: none; row reads column)\n         ";
    for (const gpu& g : r.gpus) text += fmt::format("{:>4}", g.ordinal);
    text += '\n';
    for (size_t i = 0; i < r.gpus.size(); ++i) {
      text += fmt::format("    GPU {:<2}", r.gpus[i].ordinal);
      // One character for each pair, so that the matrix of eight GPUs fits a terminal.
      for (size_t j = 0; j < r.gpus.size(); ++j) {
        char link = 'P';
        if (i == j) link = '-';
        else if (!r.pairs[i][j].access) link = '.';
        else if (r.pairs[i][j].nvlink.value_or(false)) link = 'N';
        text += fmt::format("{:>4}", link);
      }
      text += '\n';
    }
  }
}

void add_machine(std::string& text, const machine_report& m) {
  text += "machine\n";
  if (m.hwloc_error.empty())
    row(text, "cores",
        fmt::format("{} package(s), {} cores, {} hardware threads of which {} may be used, {} NUMA node(s)", m.packages,
                    m.cores, m.hardware_threads, m.usable_threads, m.numa_nodes));
  else row(text, "cores", m.hwloc_error);
  if (m.numa.size() > 1)
    for (const auto& node : m.numa) row(text, "NUMA node", node);
  row(text, "memory", gib(m.memory));
  row(text, "locked memory", locked_memory_text(m));
  row(text, "memfd", trial_text(m.memfd));
  row(text, "CMA", fmt::format("{} (process_vm_readv)", trial_text(m.cma)));
  row(text, "ptrace_scope", m.ptrace_scope);
  row(text, "/dev/shm", m.dev_shm_free ? fmt::format("{} free", gib(*m.dev_shm_free)) : "does not exist");
}

}  // namespace

std::string report_text(const findings& f) {
  const software_report& s = f.software;
  std::string text = fmt::format("Gravel {}\n", s.version);
  row(text, "built with", fmt::format("{}, {}", s.compiler, s.build_type));
  row(text, "CUDA backend", s.cuda);
  row(text, "aggregator", f.aggregator.empty() ? f.aggregator_error : f.aggregator);
  row(text, "PMIx", s.pmix);
  row(text, "hwloc", s.hwloc);
  row(text, "UCX", s.ucx);
  row(text, "UCX transports", s.ucx_error.empty() ? fmt::format("{}", fmt::join(s.ucx_transports, " ")) : s.ucx_error);
  add_gpus(text, f);
  add_machine(text, f.machine);
  text +=
      "\ngravel-info -c lists the variables; gravel-info --check says which routes will be used, and what is wrong.\n";
  return text;
}

std::string check_text(const findings& f) {
  std::string text = "routes\n";
  for (const route& r : find_routes(f)) text += fmt::format("  {} -> {}: {}. {}\n", r.from, r.to, r.route, r.why);
  if (f.gpus.gpus.empty()) text += fmt::format("  (no GPU: {})\n", f.gpus.why_none);
  const auto problems = find_problems(f);
  text += "problems\n";
  for (const problem& p : problems) text += fmt::format("  {}: {}\n", p.fatal ? "ERROR" : "warning", p.text);
  if (problems.empty()) text += "  none\n";
  text += can_run(problems) ? "Gravel can run here.\n" : "Gravel cannot run here.\n";
  return text;
}

// Members that JSON contains under their own names.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(gpu, ordinal, name, bus_id, memory, multiprocessors, host_native_atomics)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(gpu_pair, access, atomics, rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(machine_report, packages, cores, hardware_threads, usable_threads, numa_nodes,
                                   memory, may_lock_any, ptrace_scope)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(route, from, to, route, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(problem, fatal, text)

nlohmann::json report_json(const findings& f) {
  const software_report& s = f.software;
  const auto trial_json = [](const trial& t) {
    return t.works ? json{{"works", true}} : json{{"works", false}, {"why_not", t.why_not}};
  };
  json j;
  j["version"] = s.version;
  j["build"] = {{"compiler", s.compiler}, {"type", s.build_type}, {"cuda", s.built_with_cuda}};
  j["aggregator"] = f.aggregator.empty() ? json{{"why_not", f.aggregator_error}} : json{{"path", f.aggregator}};
  j["pmix"] = s.pmix;
  j["hwloc"] = s.hwloc;
  j["ucx"] = {{"version", s.ucx}, {"transports", s.ucx_transports}};
  if (!s.ucx_error.empty()) j["ucx"]["why_not"] = s.ucx_error;

  json gpus = json::array();
  for (const gpu& g : f.gpus.gpus) {
    json one = g;
    one["compute_capability"] = {g.major, g.minor};
    if (g.nvlinks) one["nvlinks"] = *g.nvlinks;
    one["domain"] = g.fabric.domain;
    if (const auto near = f.machine.locality.find(g.bus_id); near != f.machine.locality.end())
      one["locality"] = near->second;
    gpus.push_back(std::move(one));
  }
  json pairs = json::array();
  for (size_t from = 0; from < f.gpus.pairs.size(); ++from)
    for (size_t to = 0; to < f.gpus.pairs.size(); ++to) {
      if (from == to) continue;
      const gpu_pair& p = f.gpus.pairs[from][to];
      json one = p;
      one["from"] = from;
      one["to"] = to;
      if (p.nvlink) one["nvlink"] = *p.nvlink;
      if (!p.status.empty()) one["why_not"] = p.status;
      if (!p.path.empty()) one["path"] = p.path;
      pairs.push_back(std::move(one));
    }
  j["gpus"] = std::move(gpus);
  j["gpu_pairs"] = std::move(pairs);
  if (f.gpus.gpus.empty()) {
    j["why_no_gpu"] = f.gpus.why_none;
  } else {
    j["cuda_driver"] = f.gpus.driver;
    const auto works = [&](const std::string& error) { return trial_json({error.empty(), error}); };
    j["descriptors"] = works(f.handles.descriptor_error);
    j["fabric_handles"] = works(f.handles.fabric_error);
    j["cuda_ipc"] = works(f.ipc_error);
    j["mps"] = f.mps.running;
    j["green_contexts"] = f.gpus.green_contexts;
    j["residency"] = residency_of(f);
  }
  const machine_report& m = f.machine;
  j["machine"] = m;
  j["machine"]["locked_memory"] = m.locked_memory ? json(*m.locked_memory) : json("unlimited");
  j["machine"]["memfd"] = trial_json(m.memfd);
  j["machine"]["cma"] = trial_json(m.cma);
  j["machine"]["dev_shm_free"] = m.dev_shm_free ? json(*m.dev_shm_free) : json(nullptr);
  return j;
}

nlohmann::json check_json(const findings& f) {
  const auto problems = find_problems(f);
  return {{"routes", find_routes(f)}, {"problems", problems}, {"runs", can_run(problems)}};
}

}  // namespace gravel::detail
