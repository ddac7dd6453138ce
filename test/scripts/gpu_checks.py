"""The checks of test/gpu_check, as tables.

A part of gpu_check is a list of sections (PARTS). A section is a list of rows, which run with the same number of PEs
and nodes. A row is one check, or one check for each set of values in its column `each`. Descriptions, commands and
environments may contain the names of these values in braces, and those of values_of().

In a command the word ucx-run, words like test/NAME, examples/NAME and bench/NAME, and words that end in .py stand for
the files of these names (Build.path)."""

import ast
import importlib.util
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """One line of a table. A command of several lines is several commands; the first that fails ends the check."""

    description: str
    command: str
    environment: dict = field(default_factory=dict)  # a value of None: the variable is not set
    each: tuple = ({},)
    figure: str = ""  # a regular expression: lines of the output to show when the check passes
    limit: int = 120  # seconds
    one_node: bool = False  # only where the section has one node
    gpu: bool = False  # not on the CPU backend
    # About memory that grows: cudaIpc cannot share it, so GRAVEL_HANDLE_TYPE=ipc of the caller does not count.
    grows: bool = False


@dataclass(frozen=True)
class Section:
    """Rows that run alike."""

    rows: list
    pes: int = 1
    nodes: int = 0  # 0: ucx-run's default, a node for each host
    note: str = ""  # added to the descriptions
    environment: dict = field(default_factory=dict)
    needs: str = ""  # what has to be there (Build.lacks)
    together: bool = False  # one after the other by the same process, with nothing else on its GPUs
    beside: Row = None  # runs at the same time as all others of a section that runs together
    lines: int = 25  # so many lines of the output are shown when a check fails


@dataclass(frozen=True)
class Check:
    """A check as it runs."""

    description: str
    commands: list
    environment: dict
    figure: str
    limit: int
    lines: int


@dataclass(frozen=True)
class Unit:
    """Checks that run one after the other on the same GPUs: nearly always a single one."""

    checks: list
    mps: bool = False
    beside: Check = None


def each(name, *values):
    return tuple({name: value} for value in values)


# GRAVEL_ROUTES beside the default. Where each PE has a node of its own, no PE has a peer (see is_wanted).
ROUTES = each("routes", "net", "no-peer", "direct", "rings")
BY_ROUTES = {"GRAVEL_ROUTES": "{routes}"}
QUIESCENCE = "gravel_wait_quiescent takes"

JOBS = [
    Row("operations: {gpus_nodes}", "{run} test/jobs/operations_job"),
    Row("operations, GRAVEL_ROUTES={routes}: {gpus_nodes}", "{run} test/jobs/operations_job", BY_ROUTES, ROUTES),
    Row("heaps that grow: {gpus_nodes}", "{run} --timeout 100 test/jobs/heap_job", grows=True),
    Row("heaps that grow, GRAVEL_ROUTES={routes}: {gpus_nodes}", "{run} --timeout 100 test/jobs/heap_job", BY_ROUTES,
        ROUTES, grows=True),
    Row("registered memory: {gpus_nodes}", "{run} --timeout 100 test/jobs/register_job", grows=True),
    Row("registered memory, GRAVEL_ROUTES={routes}: {gpus_nodes}", "{run} --timeout 100 test/jobs/register_job",
        BY_ROUTES, ROUTES, grows=True),
    Row("tensors of a pool of PyTorch: {gpus_nodes}", "{run} python3 pool_test.py test/jobs/pool_job", gpu=True,
        grows=True),
    Row("heaps of fixed size, {job}: {gpus_nodes}", "{run} --timeout 100 test/jobs/{job}",
        {"GRAVEL_HANDLE_TYPE": "ipc", "GRAVEL_SYMMETRIC_SIZE": "8G"},
        each("job", "heap_job", "operations_job", "block_sender_job", "service_job"), gpu=True),
    Row("host threads: {gpus_nodes}", "{run} --timeout 60 test/jobs/host_threads_job"),
    Row("orders of memory, {gpus}", "test/jobs/litmus", one_node=True),
    Row("collectives: {gpus_nodes}", "{run} --timeout 60 test/jobs/collectives_job"),
    # On one node quiescence is decided on the GPUs if each PE has one, else by the hosts.
    Row("quiescence: {gpus_nodes}", "{run} --timeout 100 test/jobs/quiescence_job", figure=QUIESCENCE),
    Row("quiescence, small rings: {gpus_nodes}", "{run} --timeout 100 test/jobs/quiescence_job",
        {"GRAVEL_PEER_CHUNKS": "4", "GRAVEL_OWN_RING_SIZE": "64K"}, figure=QUIESCENCE),
    Row("launches: {gpus_nodes}", "{run} --timeout 60 test/jobs/launch_job"),
    Row("services: {gpus_nodes}", "{run} --timeout 100 test/jobs/service_job"),
    Row("critical sections by service blocks: {gpus_nodes}", "{run} --timeout 110 test/jobs/critical_job {sections}"),
    Row("counters by service blocks: {gpus_nodes}", "{run} --timeout 100 examples/critical_sections counters --zipf 1"),
    Row("bank by service blocks: {gpus_nodes}",
        "{run} --timeout 100 examples/critical_sections bank --keys 100000 --calls 100000"),
    Row("services, GRAVEL_ROUTES={routes}: {gpus_nodes}", "{run} --timeout 100 test/jobs/service_job", BY_ROUTES,
        ROUTES[:2]),
    Row("launches, CUDA in use before: {gpus_nodes}", "{run} --timeout 60 test/jobs/launch_job cuda-first", gpu=True),
    Row("kernels loaded when first used, {job}: {gpus_nodes}", "{run} --timeout 60 test/jobs/{job}",
        {"CUDA_MODULE_LOADING": "LAZY"}, each("job", "launch_job cuda-first", "operations_job", "am_job",
                                              "block_sender_job", "collectives_job", "service_job"),
        one_node=True, gpu=True),
    Row("active messages: {gpus_nodes}", "{run} test/jobs/am_job"),
    Row("active messages, GRAVEL_ROUTES={routes}: {gpus_nodes}", "{run} test/jobs/am_job", BY_ROUTES, ROUTES),
    Row("block senders of all sizes, GRAVEL_ROUTES={routes}: {gpus_nodes}",
        "{run} --timeout 100 test/jobs/block_sender_job", BY_ROUTES, each("routes", "auto") + ROUTES),
    Row("malloc and synchronize in traffic: {gpus_nodes}", "{run} test/jobs/traffic_job"),
    Row("a storm of gets: {gpus_nodes}", "{run} --timeout 60 test/jobs/get_storm_job",
        {"GRAVEL_ROUTES": "net", "GRAVEL_SPILL_SIZE": "64K", "GRAVEL_PACKETS_PER_DESTINATION": "2",
         "GRAVEL_PACKET_SIZE": "4K"}),
    Row("gups {mode}: {gpus_nodes}", "{run} --stats examples/gups --mode {mode} --table-log2 {table_log2}",
        each=each("mode", "xor", "inc")),
    Row("gups direct: {gpus_nodes}", "{run} examples/gups --table-log2 14 --sender direct"),
    Row("indegree: {gpus_nodes}", "{run} examples/indegree --rmat {scale}"),
    Row("pagerank: {gpus_nodes}", "{run} bench/applications/pagerank --rmat {scale}"),
    Row("color: {gpus_nodes}", "{run} examples/color --rmat {scale-2}"),
    Row("kmeans: {gpus_nodes}", "{run} examples/kmeans --points {points}"),
    Row("sssp: {gpus_nodes}", "{run} bench/applications/sssp --rmat {scale}"),
    Row("sssp on a grid: {gpus_nodes}", "{run} bench/applications/sssp --grid {side} {side}"),
    Row("index_gather: {gpus_nodes}", "{run} examples/index_gather"),
    Row("ring_of_messages: {gpus_nodes}", "{run} examples/ring_of_messages"),
    Row("shortest paths by handlers ({handler}): {gpus_nodes}",
        "{run} bench/handler_paths --scale {scale-4} --repeat 3 --handler {handler}",
        each=each("handler", "lane", "warp")),
    Row("shortest paths by handlers, small rings: {gpus_nodes}",
        "{run} bench/handler_paths --scale {scale-8} --repeat 2",
        {"GRAVEL_OWN_RING_SIZE": "1M", "GRAVEL_PEER_CHUNKS": "4"}),
    Row("ring_of_messages, GRAVEL_ROUTES=net: {gpus_nodes}", "{run} examples/ring_of_messages",
        {"GRAVEL_ROUTES": "net"}),
]

ACROSS = each("what", "fib --n 32", "queens --n 14 --serial-rows 7", "trees --n 14 --trees 500 --from all")

# Work that moves from PE to PE.
TASKS_OF_ALL = [
    Row("tasks, GRAVEL_ROUTES={routes}: {nodes_gpus}", "{run} --timeout 250 test/jobs/task_job", BY_ROUTES,
        each("routes", "auto", "net"), limit=260),
    Row("reductions, GRAVEL_ROUTES={routes}: {nodes_gpus}", "{run} --timeout 100 test/jobs/allreduce_job", BY_ROUTES,
        each("routes", "auto", "net")),
    Row("tables, GRAVEL_ROUTES={routes}: {nodes_gpus}", "{run} --timeout 100 test/jobs/table_job", BY_ROUTES,
        each("routes", "auto", "net")),
    Row("maps, GRAVEL_ROUTES={routes}: {nodes_gpus}", "{run} --timeout 100 test/jobs/map_job", BY_ROUTES,
        each("routes", "auto", "net")),
    Row("searches in one kernel: {nodes_gpus}", "{run} --timeout 100 test/jobs/search_job"),
    Row("lookups beside a product: {nodes_gpus}", "{run} --timeout 60 examples/engram", figure="rows a step"),
    Row("axpy by tasks: {nodes_gpus}", "{run} --timeout 60 examples/axpy", figure="elements in"),
    Row("training: {nodes_gpus}", "{run} --timeout 60 examples/train --exact", figure="^weights"),
    Row("task graphs of all PEs, channels of all PEs: {nodes_gpus}", "{run} --timeout 60 test/jobs/shared_graph_job"),
    Row("{what}: {nodes_gpus}", "{run} --timeout 60 examples/across {what}", each=ACROSS, figure="^by "),
    Row("hash table by service blocks: {nodes_gpus}",
        "{run} --timeout 60 examples/critical_sections hash_table --keys 1000000 --calls {table}"),
]

EXECUTIONS = each("how", "automatic", "rounds", "fused", "asynchronous")
GRID = "--grid {side} {side} --source {middle}"
WORKLISTS = [
    Row("bfs on R-MAT, {how}: {nodes_gpus}",
        "{run} --timeout 60 examples/bfs --rmat {scale-2} --roots 4 --execution {how}", each=EXECUTIONS),
    Row("bfs on a grid, {how}: {nodes_gpus}",
        "{run} --timeout 60 examples/bfs " + GRID + " --no-pull --execution {how}", each=EXECUTIONS),
    Row("paths on R-MAT, {how}: {nodes_gpus}",
        "{run} --timeout 60 examples/paths --rmat {scale-2} --execution {how}", each=EXECUTIONS),
    Row("paths on a grid, {how}: {nodes_gpus}",
        "{run} --timeout 60 examples/paths " + GRID + " --execution {how}", each=EXECUTIONS),
    Row("ranks, {how}: {nodes_gpus}",
        "{run} --timeout 60 examples/ranks --rmat {scale-4} --tolerance 1e-4 --execution {how}", each=EXECUTIONS),
    # The PEs report their ranks to each other, and one word of a report may overtake another.
    Row("paths on a grid, many ranks, 5 times, GRAVEL_ROUTES=net: {nodes_gpus}",
        "\n".join(5 * ["{run} --timeout 20 examples/paths " + GRID + " --delta 50 --execution asynchronous"]),
        {"GRAVEL_ROUTES": "net", "GRAVEL_AGGREGATOR_THREADS": "4"}),
    Row("paths, channels too small: {nodes_gpus}",
        "{run} --timeout 60 examples/paths " + GRID + " --execution asynchronous --capacity 64"),
    Row("components {options}: {nodes_gpus}", "{run} --timeout 60 examples/components {options}",
        each=each("options", "--rmat {scale}", "--rmat {scale} --all-edges", "--grid {side} {side}")),
    Row("filter over routers: {nodes_gpus}", "{run} --timeout 60 examples/pbf"),
    Row("links: {nodes_gpus}", "{run} --timeout 100 test/jobs/link_job"),
]

# Each of these programs compares its result with the known one; by a task graph and by a version written by hand.
CHANNELS = [
    Row("fib {options}: 1 PE", "{run} --timeout 110 examples/fib {options}", figure="^by ",
        each=each("options", "", "--local-levels 0", "--n 32 --capacity 64 --frames 32", "--n 30 --dispatch host",
                  "--dispatch schedulers", "--n 28 --local-levels 0 --capacity 64 --frames 32")),
    Row("queens {options}: 1 PE", "{run} --timeout 110 examples/queens {options}", figure="^by ",
        each=each("options", "", "--n 13 --serial-rows 4", "--n 12 --serial-rows 4 --capacity 20 --frames 1",
                  "--n 15 --dispatch host", "--dispatch schedulers")),
    Row("task graphs: 10000 random trees, 1 PE", "{run} --timeout 100 test/jobs/task_graph_job"),
    Row("channels of host threads and kernels: 1 PE", "{run} --timeout 60 test/jobs/task_graph_job channels"),
    Row("task graphs: 2 PEs take turns on one GPU", "ucx-run -n 2 --timeout 100 test/jobs/task_graph_job 1000"),
    Row("sort {options}: 1 PE", "{run} --timeout 60 examples/sort {options}", figure="^by ",
        each=each("options", "", "--n 3000000 --piece 300 --distinct 1000", "--n 100000 --capacity 2048 --frames 1")),
    Row("strassen {options}: 1 PE", "{run} --timeout 60 examples/strassen {options}", figure="^by ",
        each=each("options", "", "--leaf 32 --piece 300", "--n 500 --leaf 16", "--n 2048 --leaf 128 --piece 8192",
                  "--capacity 1024 --frames 32")),
]
CHANNELS_OF_ALL = [
    Row("task graphs of all PEs, channels of all PEs: {pes} PEs", "{run} --timeout 60 test/jobs/shared_graph_job"),
    Row("{what} across {pes} PEs", "{run} --timeout 60 examples/across {what}", each=ACROSS, figure="^by "),
]

# Locks on few keys take a hundred times as long.
METHODS = tuple({"method": method, "count": count} for method, count in {
    "servers": 100000, "owners": 100000, "locks": 100000, "in-place": 100000, "combine": 100000,
    "combine-block": 100000, "try-lock": 1000, "backoff": 1000, "sort": 100000, "atomics": 100000}.items())
SECTIONS = "{run} --timeout 100 examples/critical_sections "
PARTITIONS = each("partition", "lease", "green", "auto")
BY_PARTITION = {"GRAVEL_PARTITION": "{partition}"}
# A service of 32 blocks, the resolver, and kernels that fill the GPU and wait for both, 100 times; beside them
# cudaMalloc and cudaDeviceSynchronize.
RESIDENCY = "{run} --timeout 110 test/jobs/residency_job 100 32"
SERVICES = [
    Row("quiescence: 1 PE", "{run} --timeout 100 test/jobs/quiescence_job", figure=QUIESCENCE),
    Row("services: 1 PE", "{run} --timeout 100 test/jobs/service_job"),
    Row("critical sections by service blocks: 1 PE", "{run} --timeout 110 test/jobs/critical_job"),
    Row("counters ({method}): 1 PE", SECTIONS + "counters --zipf 1 --calls {count} --method {method}", each=METHODS),
    Row("Gaussians ({method}): 1 PE", SECTIONS + "gmm --keys 16 --calls {count} --method {method}", each=METHODS),
    Row("minimum spanning forest ({method}): 1 PE",
        SECTIONS + "boruvka --keys {count} --calls {count} --method {method}", each=METHODS),
    Row("hash table ({method}): 1 PE", SECTIONS + "hash_table --keys 1000000 --method {method}", each=METHODS),
    Row("bank ({method}): 1 PE", SECTIONS + "bank --calls {count} --method {method}", each=METHODS),
    Row("residency, GRAVEL_PARTITION={partition}: 1 PE", RESIDENCY, BY_PARTITION, PARTITIONS),
    Row("services, GRAVEL_PARTITION={partition}: 1 PE", "{run} --timeout 100 test/jobs/service_job", BY_PARTITION,
        PARTITIONS),
    Row("residency: 2 PEs take turns on one GPU", "ucx-run -n 2 --timeout 110 test/jobs/residency_job 20 32"),
]
# PEs that share a GPU under MPS: their resolvers take few blocks each.
FEW_BLOCKS = {"GRAVEL_RESOLVER_RING_BLOCKS": "8"}
SERVICES_MPS = [
    Row("residency under MPS, GRAVEL_PARTITION={partition}: 1 PE", RESIDENCY, BY_PARTITION,
        each("partition", "lease", "auto")),
    Row("residency under MPS, GRAVEL_PARTITION={partition}: 2 PEs on one GPU",
        "ucx-run -n 2 --timeout 110 test/jobs/residency_job 100 16", BY_PARTITION | FEW_BLOCKS,
        each("partition", "lease", "auto")),
    Row("services under MPS: 2 PEs on one GPU", "ucx-run -n 2 --timeout 100 test/jobs/service_job", FEW_BLOCKS),
]

TASKS = [
    Row("tasks: 1 PE", "{run} --timeout 100 test/jobs/task_job"),
    Row("reductions: 1 PE", "{run} --timeout 100 test/jobs/allreduce_job"),
    Row("tables: 1 PE", "{run} --timeout 100 test/jobs/table_job"),
    Row("maps: 1 PE", "{run} --timeout 100 test/jobs/map_job"),
    Row("searches in one kernel: 1 PE", "{run} --timeout 100 test/jobs/search_job"),
    Row("axpy by tasks: 1 PE", "{run} --timeout 60 examples/axpy", figure="elements in"),
    Row("training: 1 PE", "{run} --timeout 60 examples/train --exact", figure="^weights"),
]

CALLERS = [
    Row("calls from where they may not be made", "python3 callers_test.py ucx-run test/jobs/callers_job", limit=600),
]
HANDLES = [Row("kinds of handles for memory", "python3 handles_test.py ucx-run test/jobs/operations_job", limit=300)]
SCOPE = [Row("calls that lack threads", "python3 scope_test.py ucx-run test/jobs/scope_job", limit=1200)]
REPEAT = [
    Row("block senders of all sizes: 1 PE", "ucx-run -n 1 --timeout 100 test/jobs/block_sender_job"),
    Row("operations: 1 PE", "ucx-run -n 1 test/jobs/operations_job"),
    Row("operations: 4 PEs on one GPU, 2 nodes", "ucx-run -n 4 --nodes 2 test/jobs/operations_job"),
    Row("active messages: 1 PE", "ucx-run -n 1 test/jobs/am_job"),
    Row("a job without a launcher: 2 PEs", "examples/process_group"),
    Row("active messages: 4 PEs on one GPU, 2 nodes", "ucx-run -n 4 --nodes 2 test/jobs/am_job"),
    Row("operations: 4 PEs on one GPU, 1 node", "ucx-run -n 4 test/jobs/operations_job"),
]
GUPS = "examples/gups --mode inc --table-log2 22"
# Two jobs on one GPU: each finds the GPU occupied by the other's kernels again and again.
OTHER_JOB = Row("the other job", "ucx-run -n 2 --nodes 2 --timeout 100 " + GUPS + " --updates 200000000")
OCCUPIED = [
    Row("gups while another job occupies the GPU", "ucx-run -n 2 " + GUPS),
    Row("index_gather while another job occupies the GPU", "ucx-run -n 2 --nodes 2 examples/index_gather"),
]
GATHER_AND_GUPS = "ucx-run -n 2 --nodes 2 examples/index_gather\nucx-run -n 2 " + GUPS
REPEATED = [
    Row("index_gather and gups on one GPU, run {i} of 3", GATHER_AND_GUPS, each=each("i", *range(1, 4))),
]
REPEAT_MPS = [
    Row("operations under MPS: {pes} PEs on one GPU", "{run} test/jobs/operations_job"),
    Row("quiescence under MPS: {pes} PEs on one GPU", "{run} --timeout 100 test/jobs/quiescence_job", FEW_BLOCKS,
        figure=QUIESCENCE),
    Row("operations under MPS: {pes} PEs on one GPU, 2 nodes", "{run} --nodes 2 test/jobs/operations_job"),
    # Microseconds decide whether a resolver finds room beside the kernels that wait for it.
    Row("heaps that grow under MPS: {pes} PEs on one GPU", "{run} --timeout 100 test/jobs/heap_job", FEW_BLOCKS,
        grows=True),
    Row("heaps of fixed size under MPS: {pes} PEs on one GPU", "{run} test/jobs/operations_job",
        FEW_BLOCKS | {"GRAVEL_HANDLE_TYPE": "ipc", "GRAVEL_SYMMETRIC_SIZE": "1G"}),
    Row("gups under MPS, 5 times: {pes} PEs on one GPU", "\n".join(5 * ["{run} " + GUPS, "{run} --nodes 2 " + GUPS])),
]

# The multiprocessors of one GPU among many PEs.
MANY_MPS = [
    Row("operations under MPS: 16 PEs on one GPU", "ucx-run -n 16 --timeout 100 test/jobs/operations_job"),
    Row("operations under MPS: 16 PEs on one GPU, one block for rings",
        "ucx-run -n 16 --timeout 100 test/jobs/operations_job", {"GRAVEL_RESOLVER_RING_BLOCKS": "1"}),
]

SMALL_PART = [
    Row("parts of a GPU, of which one is too small", "python3 small_part_test.py ucx-run test/jobs/operations_job"),
]

# PyTorch's memory and a heap that grows, in one process.
BESIDE_TORCH = [
    Row("a heap that grows beside PyTorch: {pes} PEs",
        "{run} --timeout 200 python3 beside_torch.py test/jobs/heap_library", figure="^heap", limit=220, grows=True),
]

PAIRS = [
    Row("residency, GRAVEL_PARTITION={partition}: 2 PEs, {gpus}", RESIDENCY, BY_PARTITION, PARTITIONS),
    Row("index_gather and gups on {gpus}, run {i} of 10", GATHER_AND_GUPS, each=each("i", *range(1, 11))),
]

# PEs of two emulated nodes map each other's memory.
ONE_DOMAIN = [
    Row("one domain, {job}: 2 PEs, 2 nodes, {gpus}", "ucx-run -n 2 --nodes 2 --timeout 100 test/jobs/{job}",
        {"GRAVEL_DOMAIN": "handles"},
        each("job", "operations_job", "am_job", "traffic_job", "collectives_job", "quiescence_job", "service_job",
             "critical_job", "table_job", "map_job", "residency_job 20")),
    Row("one domain, memory that grows, {job}: 2 PEs, 2 nodes, {gpus}",
        "ucx-run -n 2 --nodes 2 --timeout 100 test/jobs/{job}", {"GRAVEL_DOMAIN": "handles"},
        each("job", "heap_job", "register_job"), grows=True),
    Row("one domain, heaps of fixed size: 2 PEs, 2 nodes, {gpus}", "ucx-run -n 2 --nodes 2 test/jobs/operations_job",
        {"GRAVEL_DOMAIN": "handles", "GRAVEL_HANDLE_TYPE": "ipc", "GRAVEL_SYMMETRIC_SIZE": "1G"}),
]

# The sanitizer runs one kernel at a time, so the resolver must not stay resident beside the others.
UNDER_MEMCHECK = {"GRAVEL_RESOLVER_RESIDENT": "no", "GRAVEL_WATCHDOG_S": "100"}
TOOL = "compute-sanitizer --tool memcheck --error-exitcode 9 "
MEMCHECK = [
    Row("memcheck: block senders of all sizes, 1 PE", "ucx-run -n 1 " + TOOL + "test/jobs/block_sender_job", limit=200),
    Row("memcheck: operations, 1 PE", "ucx-run -n 1 " + TOOL + "test/jobs/operations_job", limit=200),
    Row("memcheck: active messages, 1 PE", "ucx-run -n 1 " + TOOL + "test/jobs/am_job", limit=200),
    Row("memcheck: task graphs, 1 PE", "ucx-run -n 1 " + TOOL + "test/jobs/task_graph_job 320 one-kernel", limit=200),
    Row("memcheck: gups, 2 PEs on 2 nodes", "ucx-run -n 2 --nodes 2 " + TOOL + "examples/gups --table-log2 12",
        limit=200),
    Row("memcheck: indegree, 2 PEs", "ucx-run -n 2 " + TOOL + "examples/indegree --rmat 10", limit=200),
]


def failures(*classes):
    """A section with each test of these classes of failure_test.py."""
    tests = [{"test": f"{item.name}.{test.name}"} for item in ast.parse((HERE / "failure_test.py").read_text()).body
             if isinstance(item, ast.ClassDef) and item.name in classes
             for test in item.body if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")]
    growing = ("grow", "registered")
    rows = [Row("failures: {test}, 4 PEs on one GPU", "python3 failure_test.py {test}", limit=400, grows=grows,
                each=tuple(of for of in tests if grows == any(word in of["test"] for word in growing)))
            for grows in (False, True)]
    # Checks run at the same time, and processes that use a GPU end one after the other in the driver: hence the
    # patience. The tests choose watchdog and log themselves.
    environment = {"UCX_RUN": "ucx-run", "FAILURE_JOB": "test/jobs/failure_job", "MPIRUN": shutil.which("mpirun") or "",
                   "FAILURE_PATIENCE": os.environ.get("FAILURE_PATIENCE") or "3",
                   "GRAVEL_WATCHDOG_S": None, "GRAVEL_LOG": None}
    return Section(rows, environment=environment, needs="test/jobs/failure_job", lines=60)


def on_nodes(pes, nodes, *tables):
    return [Section(table, pes, n) for n in nodes for table in tables]


PARTS = {
    "memcheck": [Section(MEMCHECK, environment=UNDER_MEMCHECK, needs="compute-sanitizer")],
    "deaths": [failures("Killed", "Stopped", "OverPeers", "InADomain")],
    "failures": [failures("Handlers", "WrongArguments", "Corruption", "Loads", "Surroundings", "OtherUsers")],
    "jobs": on_nodes(2, (1, 2), JOBS),
    "services": [Section(SERVICES), Section(SERVICES_MPS, needs="MPS", together=True)],
    "channels": [Section(CHANNELS)] + [Section(CHANNELS_OF_ALL, pes) for pes in (1, 2, 4)],
    "tasks": [Section(TASKS)],
    "worklists": on_nodes(1, (1,), WORKLISTS) + on_nodes(2, (1, 2), WORKLISTS),
    "repeat": [Section(CALLERS), Section(HANDLES), Section(SCOPE, needs="test/jobs/scope_job"), Section(REPEAT),
               Section(OCCUPIED, together=True, beside=OTHER_JOB), Section(REPEATED),
               Section(BESIDE_TORCH, 1, needs="PyTorch", together=True)]
              + [Section(REPEAT_MPS, pes, needs="MPS", together=True) for pes in (2, 4)]
              + [Section(MANY_MPS, 16, needs="MPS", together=True),
                 Section(SMALL_PART, needs="MPS", together=True)],
    "pairs": on_nodes(2, (1, 2), JOBS) + [Section(PAIRS, 2), Section(ONE_DOMAIN, 2)]
             + on_nodes(2, (1, 2), TASKS_OF_ALL, WORKLISTS),
    "eight": on_nodes(8, (1, 2, 4, 8), JOBS, TASKS_OF_ALL, WORKLISTS)
             + [Section(JOBS, 8, n, ", two hops", {"GRAVEL_TWO_HOP_NODES": "4"}) for n in (4, 8)]
             + [Section(JOBS, 8, n, ", MPS", FEW_BLOCKS, needs="MPS with shared GPUs", together=True) for n in (1, 2)],
}
# The parts that run with several GPUs at once; those of the others run with one.
ON_SEVERAL = ("pairs", "eight")


@dataclass(frozen=True)
class Build:
    """Where the programs of the checks are, and what this machine has."""

    folder: str
    cpu: bool

    def path(self, word):
        if word == "ucx-run":
            return f"{self.folder}/transport/ucx-run"
        if word.startswith(("test/", "examples/", "bench/")):
            return f"{self.folder}/{word}{'-cpu' if self.cpu else ''}"
        if word.endswith(".py"):
            return str(HERE / word)
        return word

    def lacks(self, need, n_gpus):
        """None if what a section needs is there, else the line that reports it; an empty line: nothing to report."""
        if need == "":
            return None
        if need == "compute-sanitizer":
            return None if shutil.which(need) else "memcheck: there is no compute-sanitizer"
        if need == "PyTorch":
            return None if not self.cpu and importlib.util.find_spec("torch") else ""
        if need.startswith("MPS"):
            # Eight GPUs are not shared by eight PEs.
            return None if mps_control() and not self.cpu and (need == "MPS" or n_gpus < 8) else ""
        if os.access(self.path(need), os.X_OK):
            return None
        if need == "test/jobs/failure_job":
            return f"what happens when jobs fail: {self.path(need)} is not built (ninja -C {self.folder} {need})"
        return ""  # test/jobs/scope_job takes minutes to build, and is built on demand


def mps_control():
    """The program that starts MPS, or None."""
    return shutil.which("nvidia-cuda-mps-control", path=os.environ.get("PATH", "") + ":/usr/local/nvidia/bin")


def sizes_of(pes, n_gpus):
    """Sizes of inputs. PEs that take turns on one GPU wait for each other for milliseconds: they get smaller inputs.
    1 PE gets those of 2."""
    if n_gpus >= max(pes, 2):
        return {"sections": 10, "points": 1000000, "side": 500, "scale": 18, "table_log2": 22}
    if pes <= 2:
        return {"sections": 2, "points": 200000, "side": 150, "scale": 18, "table_log2": 22}
    return {"sections": 2, "points": 20000, "side": 60, "scale": 12, "table_log2": 16}


def values_of(section, gpus):
    """The values of the names in braces."""
    sizes = sizes_of(section.pes, len(gpus))
    side, scale = sizes["side"], sizes["scale"]
    # Checks on one or two GPUs have the same descriptions, whichever these are, for --only.
    on_gpus = {1: "one GPU", 2: "two GPUs"}.get(len(gpus), "GPUs " + ",".join(gpus))
    pes = f"{section.pes} PEs"
    nodes = f"{section.nodes} nodes"
    return sizes | {f"scale-{less}": scale - less for less in (2, 4, 8)} | {
        "middle": side * side // 2, "table": 1 << sizes["table_log2"], "pes": section.pes, "gpus": on_gpus,
        "run": f"ucx-run -n {section.pes}" + ("" if section.nodes == 0 else f" --nodes {section.nodes}"),
        "gpus_nodes": f"{pes}, {on_gpus}, {nodes}{section.note}", "nodes_gpus": f"{pes}, {nodes}, {on_gpus}"}


def is_wanted(row, values, section, build):
    several = section.nodes > 1
    if row.gpu and build.cpu or row.one_node and several:
        return False
    return not (several and values.get("routes") in ("no-peer", "direct", "rings"))


def checks_of(row, section, gpus, build):
    general = values_of(section, gpus)
    for own in row.each:
        if not is_wanted(row, own, section, build):
            continue
        values = general | {name: str(value).format_map(general) for name, value in own.items()}
        commands = [[build.path(word) for word in line.format_map(values).split()] for line in row.command.splitlines()]
        environment = {name: value if value is None else build.path(value.format_map(values))
                       for name, value in (section.environment | row.environment).items()}
        if row.grows and os.environ.get("GRAVEL_HANDLE_TYPE") == "ipc":
            environment.setdefault("GRAVEL_HANDLE_TYPE", None)
        yield Check(row.description.format_map(values), commands, environment, row.figure, row.limit, section.lines)


def units_of(part, gpus, build, only=None):
    """The units of a part on these GPUs, and lines about what cannot run. only: the descriptions that are wanted."""
    units, missing = [], []
    for section in PARTS[part]:
        checks = [check for row in section.rows for check in checks_of(row, section, gpus, build)]
        beside = next(checks_of(section.beside, section, gpus, build)) if section.beside else None
        wanted = [check for check in checks if only is None or check.description in only]
        if not wanted and not (beside and beside.description in only):
            continue
        lack = build.lacks(section.needs, len(gpus))
        if lack is not None:
            missing += [lack] if lack else []
        elif section.together:
            units.append(Unit(wanted, section.needs.startswith("MPS"), beside))
        else:
            units += [Unit([check]) for check in wanted]
    return units, missing
