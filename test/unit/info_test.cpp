// gravel-info: the checks on made-up machines, and the program itself with and without a (fake) CUDA driver.
#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "host/info/check.hpp"
#include "host/info/variables.hpp"
#include "lib/base/settings.hpp"
#include "test/support/catch.hpp"
#include "test/support/ucx_run_test_command.hpp"

using namespace gravel::detail;
using nlohmann::json;

namespace {

/// A machine without faults: two GPUs over NVLink, a NIC, enough of everything.
findings good_machine() {
  findings f;
  for (int i = 0; i < 2; ++i) {
    gpu g{};
    g.ordinal = i;
    g.name = "GPU";
    g.major = 9;
    g.host_register = true;
    g.nvlinks = 18;
    f.gpus.gpus.push_back(g);
  }
  gpu_pair linked;
  linked.access = linked.atomics = true;
  linked.nvlink = true;
  f.gpus.pairs = {{{}, linked}, {linked, {}}};
  f.machine.usable_threads = 16;
  f.machine.memfd = f.machine.cma = {true, ""};
  f.machine.dev_shm_free = 1ull << 30;
  f.software.ucx_transports = {"tcp/lo", "tcp/eth0", "rc_mlx5/mlx5_0:1", "sysv/memory"};
  f.aggregator = "/usr/bin/gravel-aggregator";
  f.software.built_with_cuda = true;
  return f;
}

route find(const findings& f, const std::string& from, const std::string& to) {
  for (const route& r : find_routes(f))
    if (r.from == from && r.to == to) return r;
  return {from, to, "missing", ""};
}

std::string all_problems(const findings& f, bool fatal) {
  std::string text;
  for (const problem& p : find_problems(f))
    if (p.fatal == fatal) text += p.text + "\n";
  return text;
}

bool has_cuda_driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr; }

command_result info(std::vector<std::string> words, std::map<std::string, std::string> environment = {}) {
  words.insert(words.begin(), built("host/gravel-info"));
  return run_command(words, {environment, "", false});
}
command_result info_on_fake_gpus(std::vector<std::string> words, const std::string& kind = "") {
  return info(std::move(words), {{"LD_LIBRARY_PATH", built("test/support/fake_gpu")}, {"FAKE_GPU", kind}});
}

}  // namespace

TEST_CASE("every pair of devices has a route and a reason") {
  const findings f = good_machine();
  CHECK(find(f, "GPU 0", "GPU 0").route == "self");
  CHECK(find(f, "CPU", "CPU").route == "self");
  CHECK(find(f, "GPU 0", "CPU").route == "none");
  CHECK(find(f, "CPU", "CPU, another PE").route == "net");
  CHECK(find(f, "GPU 1", "GPU 1, another PE").route == "peer");
  const route linked = find(f, "GPU 0", "GPU 1");
  CHECK(linked.route == "peer");
  CHECK_THAT(linked.why, contains_text("NVLink (18 links)"));
  for (const route& r : find_routes(f)) CHECK(!r.why.empty());
}

TEST_CASE("a pair without peer access says why") {
  findings f = good_machine();
  f.gpus.pairs[0][1] = {};
  f.gpus.pairs[0][1].status = "chipset not supported";
  CHECK_THAT(find(f, "GPU 0", "GPU 1").why,
             contains_text("GPU 0 and GPU 1 have no peer access (chipset not supported)"));
  CHECK(find(f, "GPU 1", "GPU 0").route == "peer");
}

TEST_CASE("without atomic operations peers are reached through rings") {
  findings f = good_machine();
  f.gpus.pairs[0][1].atomics = false;
  CHECK(find(f, "GPU 0", "GPU 1").route == "peer");
  CHECK_THAT(find(f, "GPU 0", "GPU 1").why, contains_text("without native atomics: block senders through rings"));
  f.routes = "peer";
  CHECK(find(f, "GPU 0", "GPU 1").route == "net");
  CHECK_THAT(find(f, "GPU 0", "GPU 1").why, contains_text("with GRAVEL_ROUTES=peer the job ends"));
}

TEST_CASE("without CUDA IPC, or when they are not wanted, peers are reached on the route net") {
  findings f = good_machine();
  SECTION("CUDA IPC") {
    f.ipc_error = "CUDA_ERROR_INVALID_VALUE";
    CHECK(find(f, "GPU 0", "GPU 1").route == "peer");  // by descriptors
    f.handles.descriptor_error = "GPU 0 has none";
    CHECK_THAT(find(f, "GPU 0", "GPU 1").why,
               contains_text("neither descriptors (GPU 0 has none) nor CUDA IPC (CUDA_ERROR_INVALID_VALUE) work"));
    CHECK(find(f, "GPU 0", "GPU 0, another PE").route == "net");
  }
  SECTION("GRAVEL_ROUTES") {
    f.routes = "no-peer";
    CHECK_THAT(find(f, "GPU 0", "GPU 1").why, contains_text("GRAVEL_ROUTES=no-peer; the hardware would allow it"));
    CHECK(find(f, "GPU 0", "GPU 0").route == "self");
  }
  CHECK(find(f, "GPU 0", "GPU 1").route == "net");
}

TEST_CASE("GRAVEL_ROUTES=net leaves nothing in place") {
  findings f = good_machine();
  f.routes = "net";
  CHECK(find(f, "GPU 0", "GPU 0").route == "net");
  CHECK_THAT(find(f, "CPU", "CPU").why, contains_text("GRAVEL_ROUTES=net"));
}

TEST_CASE("GRAVEL_ROUTES=peer makes peers of PEs on the CPU backend") {
  findings f = good_machine();
  for (const char* routes : {"peer", "rings", "direct"}) {
    f.routes = routes;
    CHECK(find(f, "CPU", "CPU, another PE").route == "peer");
    CHECK(find(f, "GPU 0", "GPU 1").route == "peer");
  }
}

TEST_CASE("what leads to other nodes is named, best first") {
  findings f = good_machine();
  CHECK_THAT(find(f, "CPU", "another node").why, contains_text("rc_mlx5/mlx5_0:1"));
  f.software.ucx_transports = {"tcp/lo", "tcp/eth0"};
  CHECK_THAT(find(f, "CPU", "another node").why, contains_text("tcp/eth0; not RDMA"));
  f.software.ucx_transports = {"tcp/lo", "self/memory"};
  CHECK_THAT(find(f, "CPU", "another node").why, contains_text("no network"));
}

TEST_CASE("a good machine has no problems") { CHECK(find_problems(good_machine()).empty()); }

TEST_CASE("each problem is found, and says what to do") {
  findings f = good_machine();
  SECTION("one core") {
    f.machine.usable_threads = 1;
    CHECK_THAT(all_problems(f, false), contains_text("one core"));
  }
  SECTION("a small limit of locked memory") {
    f.machine.locked_memory = 65536;
    f.registered = 384 << 10;
    CHECK_THAT(all_problems(f, false), contains_text("64 KiB: Gravel registers 384 KiB"));
    CHECK_THAT(all_problems(f, false), contains_text("ulimit -l unlimited"));
    f.machine.may_lock_any = true;
    CHECK(find_problems(f).empty());
  }
  SECTION("no CMA") {
    f.machine.cma = {false, "process_vm_readv: Operation not permitted"};
    f.machine.ptrace_scope = "1";
    CHECK_THAT(all_problems(f, false), contains_text("Operation not permitted"));
  }
  SECTION("a container's /dev/shm") {
    f.machine.dev_shm_free = 1 << 20;
    CHECK_THAT(all_problems(f, false), contains_text("--shm-size"));
    f.machine.dev_shm_free.reset();
    CHECK_THAT(all_problems(f, false), contains_text("no /dev/shm"));
  }
  SECTION("GPUs that cannot be used") {
    f.gpus.gpus[0].major = 7;
    f.gpus.gpus[1].compute_mode = 2;
    CHECK_THAT(all_problems(f, false), contains_text("need 8.0"));
    CHECK_THAT(all_problems(f, false), contains_text("prohibited"));
  }
  SECTION("GPUs for one process, unless MPS runs") {
    f.gpus.gpus[1].compute_mode = 3;
    CHECK_THAT(all_problems(f, false), contains_text("GPU 1 is in compute mode 'exclusive process'"));
    f.mps.running = true;
    CHECK(find_problems(f).empty());
  }
  SECTION("a typing error") {
    f.unknown_variables = {"GRAVEL_PAKET_SIZE"};
    CHECK_THAT(all_problems(f, false), contains_text("GRAVEL_PAKET_SIZE"));
  }
  SECTION("what no job survives") {
    f.machine.memfd = {false, "memfd_create: Function not implemented"};
    f.settings_error = "GRAVEL_SLOTS: 3 is not a power of two";
    f.aggregator_error = "gravel-aggregator was not found";
    f.software.ucx_build_error = "UCX cannot start";
    const std::string text = all_problems(f, true);
    for (const char* part : {"memfd_create", "GRAVEL_SLOTS", "gravel-aggregator", "UCX cannot start"})
      CHECK_THAT(text, contains_text(part));
  }
}

TEST_CASE("the table of variables shows which are set and which are wrong") {
  const auto lookup = [](const char* name) -> const char* {
    return std::string(name) == "GRAVEL_PACKET_SIZE" ? "128K" : nullptr;
  };
  std::string text = variables_text(lookup);
  CHECK_THAT(text, contains_text("* GRAVEL_PACKET_SIZE=128K\n"));
  CHECK_THAT(text, contains_text("default 64K; 4K to 1M bytes"));
  CHECK_THAT(text, contains_text("  GRAVEL_TIMEOUT_US=125\n"));
  text = variables_text([](const char* name) { return std::string(name) == "GRAVEL_SLOTS" ? "3" : nullptr; });
  CHECK_THAT(text, contains_text("CANNOT BE USED: GRAVEL_SLOTS"));
  const json rows = variables_json(lookup);
  CHECK(rows.size() == setting_table().size());
}

TEST_CASE("gravel-info describes this machine") {
  const command_result plain = info({});
  CHECK(plain.status == 0);
  for (const char* part : {"Gravel ", "UCX ", "tcp/lo", "PMIx ", "locked memory", "memfd", "CMA", "cores"})
    CHECK_THAT(plain.out, contains_text(part));
  const json j = json::parse(info({"--json"}).out);
  CHECK(j["machine"]["cores"] > 0);
  CHECK(j["ucx"]["transports"].size() > 0);
  CHECK(!j["gpus"].empty() == has_cuda_driver());
}

TEST_CASE("gravel-info --check answers with its exit status") {
  const command_result good = info({"--check"});
  CHECK_THAT(good.out, contains_text("CPU -> CPU: self"));
  CHECK_THAT(good.out, contains_text("Gravel can run here."));
  CHECK(good.status == 0);
  const command_result bad = info({"--check"}, {{"GRAVEL_SLOTS", "3"}, {"GRAVEL_SLOTZ", "4"}});
  CHECK(bad.status == 1);
  CHECK_THAT(bad.out, contains_text("ERROR: GRAVEL_SLOTS"));
  CHECK_THAT(bad.out, contains_text("GRAVEL_SLOTZ is not a variable"));
  CHECK_THAT(bad.out, contains_text("Gravel cannot run here."));
  const json j = json::parse(info({"--check", "--json"}, {{"UCX_TLS", "rubbish"}}).out);
  CHECK(j["runs"] == false);
}

TEST_CASE("gravel-info -c answers with its exit status") {
  CHECK(info({"-c"}).status == 0);
  CHECK(info({"-c"}, {{"GRAVEL_TIMEOUT_US", "soon"}}).status == 1);
  const json j = json::parse(info({"-c", "--json"}, {{"GRAVEL_TIMEOUT_US", "\xff"}}).out);
  CHECK(j["variables"].size() == setting_table().size());
}

TEST_CASE("gravel-info refuses wrong options with status 2") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--bogus"}, {"--markdown"}, {"-c", "--markdown", "--json"}, {"extra"}})
    CHECK(info(words).status == 2);
  CHECK(info({"--help"}).status == 0);
  CHECK_THAT(info({"--version"}).out, contains_text("gravel-info "));
}

TEST_CASE("the NVLink domain of a GPU") {
  nvml_fabric_info info{};
  CHECK_THAT(fabric_of(info).why, contains_text("not registered with an NVLink fabric (state 0)"));
  info.state = nvml_fabric_info::completed;
  CHECK_THAT(fabric_of(info).why, contains_text("does not reach beyond this host"));
  info.cluster[15] = 0x1f;
  info.clique = 4;
  CHECK(fabric_of(info).domain == "0000000000000000000000000000001f/4");
  info.status = 9;
  CHECK(fabric_of(info).domain.empty());
  CHECK_THAT(fabric_of(info).why, contains_text("(error 9)"));
}

TEST_CASE("how kernels stay resident") {
  findings f = good_machine();
  CHECK_THAT(residency_of(f), contains_text("by residency leases (GRAVEL_PARTITION=lease)"));
  f.partition = "auto";
  f.gpus.green_contexts = false;
  CHECK_THAT(residency_of(f),
             contains_text("by residency leases (GRAVEL_PARTITION=auto: the driver has no green contexts)"));
  f.gpus.green_contexts = true;
  CHECK_THAT(residency_of(f), contains_text("in green contexts"));
  f.mps.running = true;
  CHECK_THAT(residency_of(f), contains_text("by residency leases (GRAVEL_PARTITION=auto: MPS runs)"));
  f.partition = "green";
  CHECK_THAT(residency_of(f), contains_text("none: GRAVEL_PARTITION=green, but MPS runs"));
}

TEST_CASE("gravel-info on four GPUs of a fake driver") {
  if (has_cuda_driver()) {
    WARN("skipped: this machine has a CUDA driver, which UCX's modules may load as well");
    return;
  }
  const command_result plain = info_on_fake_gpus({});
  CHECK(plain.status == 0);
  REQUIRE_THAT(plain.out, contains_text("Fake GPU"));  // else the loader has not found the stand-ins
  CHECK_THAT(plain.out, contains_text("CUDA 13.0, driver 999.1"));
  CHECK_THAT(plain.out, contains_text("Fake GPU, 8.0 GiB, sm_90, 132 multiprocessors"));
  CHECK_THAT(plain.out, contains_text("CUDA IPC            works"));
  CHECK_THAT(plain.out, contains_text("descriptors         works"));
  CHECK_THAT(plain.out,
             contains_text("fabric handles      does not work: cuMemCreate: CUDA_ERROR_NOT_PERMITTED: operation "
                           "not permitted; there is no IMEX channel"));
  CHECK_THAT(plain.out, contains_text("GPU 0, 1: this host alone: no fabric handles; the NVLink domain is ab000000"));
  CHECK_THAT(plain.out, contains_text("GPU 2, 3: this host alone: NVML does not report an NVLink fabric (error 3)"));
  CHECK_THAT(plain.out, contains_text("node                this host"));
  const command_result fabric = info_on_fake_gpus({}, "fabric");
  CHECK_THAT(fabric.out, contains_text("fabric handles      works"));
  CHECK_THAT(fabric.out,
             contains_text("GPU 0, 1: NVLink domain ab000000000000000000000000000000/5; PEs of other hosts"));
  CHECK_THAT(plain.out, contains_text("    GPU 0    -   N   P   .\n"));
  CHECK_THAT(plain.out, contains_text("    GPU 3    .   .   .   -\n"));

  const command_result check = info_on_fake_gpus({"--check"});
  CHECK(check.status == 0);
  CHECK_THAT(check.out, contains_text("GPU 0 -> GPU 1: peer. peer access over NVLink (18 links)"));
  CHECK_THAT(check.out, contains_text("peer access over NVLink (18 links)"));
  CHECK_THAT(check.out, contains_text("peer access over PCIe (same PCIe host bridge), without native atomics"));
  CHECK_THAT(check.out, contains_text("GPU 0 and GPU 3 have no peer access (the GPUs are behind different I/O hubs)"));

  const json j = json::parse(info_on_fake_gpus({"--json"}).out);
  CHECK(j.value("gpus", json::array()).size() == 4);
  CHECK(j.value("gpu_pairs", json::array()).size() == 12);
  CHECK(j.value("cuda_ipc", json::object()).value("works", false));

  CHECK_THAT(info_on_fake_gpus({}, "ipc").out,
             contains_text("does not work: cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE"));
  CHECK_THAT(info_on_fake_gpus({}, "none").out, contains_text("finds no GPU"));
  CHECK_THAT(info_on_fake_gpus({}, "broken").out, contains_text("CUDA_ERROR_NO_DEVICE: no CUDA-capable device"));
}
