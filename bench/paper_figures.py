"""The measurements of bench/paper: a function for each figure and table. Each returns rows (for the file), a table (for
the reader), notes, and how bench/plot draws the rows."""

import json
import math
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Numbers in the text of the paper. It gives few numbers of its bars and curves; none here is read off a picture.
CLUSTER = "eight nodes, each an AMD A10-7850K (4 CPU threads, integrated GPU of 8 CUs), 56 Gb/s InfiniBand (table 3)"
REPORTED = {
    "figure6": ("Throughput of the producer/consumer queue by the width of the work-group, messages of 32 bytes",
                "figure 6, section 4.1", [
        "work-groups of 4 wavefronts (256 work-items) have about 3 times the throughput of those of 1 (64)",
        "synchronization by each work-item alone: 0.06 GB/s, two orders of magnitude slower"]),
    "figure8": ("Throughput of the producer/consumer queue by the size of messages", "figure 8, section 4.3", [
        "messages of 32 bytes: 7 GB/s, as much as the network",
        "queues that synchronize for each message (SPSC, MPMC on the CPU) are slower for small messages"]),
    "figure12": ("Scalability: speedup over one node", "figure 12, section 7.1; the mean: abstract", [
        "eight nodes: 5.3 on average",
        "GUPS, kmeans, mer and SSSP-2 approach the ideal 8; SSSP-1 does not scale as well as the others",
        "PR and color: local accesses are concurrent, remote ones are made by the CPU's network thread"]),
    "figure13": ("Gravel beside distributed systems for CPUs", "figure 13, section 7.1", [
        "Gravel on GPUs is significantly faster than Grappa (GUPS, PR) and UPC (mer), on one node and on eight "
        "(no numbers in the text)"]),
    "figure14": ("GUPS by the size of packets (the paper's per-node queues)", "figure 14, section 7.1", [
        "larger ones are better on several nodes; beyond 32 kB the benefit diminishes; the paper uses 64 kB"]),
    "figure15": ("Networking models (the paper: at eight nodes)", "figure 15, section 7.2", [
        "Gravel is equal to or better than each other model, for all inputs",
        "coprocessor: worse in all cases, most for PR and color",
        "coprocessor + extra buffering: as good for GUPS and SSSP-2; kmeans is slower than with small buffers",
        "message-per-lane: messages are too small; coalesced: not enough but for SSSP-1, SSSP-2, kmeans",
        "coalesced + GPU-wide aggregation: nearly as good as Gravel (no numbers in the text)"]),
    "scaling": ("Strong scaling on the GPUs of one node: speedup over one GPU",
                "sections 6 and 7.1; the mean: abstract", [
        "eight nodes, one GPU each: 5.3 on average, over one node's Gravel",
        "here: over the fastest program for one GPU, which sends nothing, on its fastest division of the graph"]),
    "table2": ("Lines of code of GUPS for each model", "table 2, section 3", [
        "host / GPU / total; message-per-lane and Gravel are the same program"]),
    "table5": ("Network statistics (the paper: at eight nodes)", "table 5, section 7.1", []),
}
TABLE2 = {"coprocessor": (296, 46, 342), "message-per-lane": (174, 19, 193), "gravel": (174, 19, 193),
          "coalesced": (187, 131, 318)}
# Remote access frequency in per cent; average message size in bytes.
TABLE5 = {"GUPS": (87.5, 65440), "PR-1": (37.7, 64611), "PR-2": (16.5, 15700), "SSSP-1": (30.0, 1563),
          "SSSP-2": (16.2, 57916), "color-1": (36.7, 27258), "color-2": (16.5, 9463), "kmeans": (87.5, 5656),
          "mer": (87.5, 64822)}
MODELS = ["coprocessor", "coprocessor-buffered", "message-per-lane", "coalesced", "coalesced-aggregated", "gravel"]

# Table 4's inputs, or what stands for them: sizes of a smoke test, of a first look, and the paper's (mer: a tenth of
# its bases). Updates and words of the table in all (log2), sides of the mesh (hugebubbles), monomers (cage), points in
# all, bases of the genome.
SIZES = {
    "short": {"updates": 1 << 13, "words": 12, "mesh": "12 8", "cage": 5, "points": 960, "genome": 1200, "rmat": 6},
    "small": {"updates": 1 << 22, "words": 20, "mesh": "300 200", "cage": 9, "points": 1 << 17, "genome": 50000,
              "rmat": 12},
    "paper": {"updates": 180_000_000, "words": 28, "mesh": "3240 3240", "cage": 15, "points": 16_000_000,
              "genome": 10_000_000, "rmat": 24},
}
INPUTS = {
    "GUPS": ("gups", lambda s, n: f"--mode inc --table-log2 {s['words'] - n.bit_length() + 1} "
                                  f"--updates {s['updates'] // n}"),
    "PR-1": ("pagerank", lambda s, n: f"--mesh {s['mesh']}"),
    "PR-2": ("pagerank", lambda s, n: f"--cage {s['cage']}"),
    "SSSP-1": ("sssp", lambda s, n: f"--mesh {s['mesh']}"),
    "SSSP-2": ("sssp", lambda s, n: f"--cage {s['cage']}"),
    "color-1": ("color", lambda s, n: f"--mesh {s['mesh']}"),
    "color-2": ("color", lambda s, n: f"--cage {s['cage']}"),
    "kmeans": ("kmeans", lambda s, n: f"--clusters 8 --points {s['points'] // n}"),
    # Reads without errors: there are no more different k-mers than bases.
    "mer": ("mer", lambda s, n: f"--genome {s['genome']} --coverage 30 --slots {2 * s['genome'] // n + 4096}"),
}
OF_BENCH = ("pagerank", "sssp")  # in bench/applications; the others are examples
# For `scaling`: further inputs, larger than the paper's, and programs and options that may be faster than those of
# INPUTS.
LARGER = {
    "PR-R": ("pagerank", lambda s, n: f"--rmat {s['rmat']} --undirected --simple --division degrees"),
    "SSSP-R": ("sssp", lambda s, n: f"--rmat {s['rmat']} --undirected --simple"),
    "color-R": ("color", lambda s, n: f"--rmat {s['rmat']}"),
}
WAYS = {
    "PR-2": [("pagerank", "--division edges"), ("pagerank", "--division degrees")],
    "SSSP-1": [("sssp", ""), ("paths", "")],
    "SSSP-R": [("sssp", ""), ("sssp", "--division degrees")],
}


class Failure(Exception):
    """Its text is the message for the user."""


class Runs:
    """Starts programs of the build folder, on one of the two backends."""

    def __init__(self, build, n_gpus, level, inputs, nodes, repeat, timeout, folder):
        """`n_gpus` 0: the CPU backend."""
        self.build, self.gpu, self.n_gpus, self.level, self.inputs = build, n_gpus > 0, n_gpus, level, inputs
        self.nodes, self.repeat, self.timeout = nodes, repeat, timeout
        self.folder = Path(folder)

    def sharing(self):
        """The note for emulated nodes."""
        if not self.gpu:
            return f"THE NODES ARE EMULATED AND SHARE THIS MACHINE'S {os.cpu_count()} CORES: no speedup can be expected"
        return f"the nodes are emulated, {self.nodes[-1]} PEs on {self.n_gpus} GPUs" + (
            " THAT THEY SHARE: no speedup can be expected beyond" if self.nodes[-1] > self.n_gpus else "")

    def program(self, name, gpu=None):
        return self.build / (name if (self.gpu if gpu is None else gpu) else f"{name}-cpu")

    def start(self, command, variables=None):
        command = [str(word) for word in command]
        environment = dict(os.environ, **(variables or {}))
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                                  timeout=self.timeout + 30, check=False)
        except OSError as problem:
            raise Failure(f"{command[0]}: {problem.strerror}; build it first: ninja -C {self.build}") from None
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(command)} did not end in {self.timeout} s; --timeout gives it longer") from None
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_backend(self, report, gpu=None):
        """The backend is the one that the report names; the program's name does not count."""
        expected = "cuda" if (self.gpu if gpu is None else gpu) else "cpu"
        if report.get("backend") != expected:
            raise Failure(f"a run was to be on the backend {expected}, but says that it was on {report.get('backend')}")
        return report

    def json_of(self, command, variables=None):
        file = self.folder / "run.json"
        file.unlink(missing_ok=True)
        self.start([*command, "--json", file], variables)
        return json.loads(file.read_text())

    def application_program(self, name, gpu=None):
        folder = "bench/applications" if name in OF_BENCH else "examples"
        return self.program(f"{folder}/{name}", gpu)

    def application(self, name, pes, options="", gpu=None, one_node=False, program=None):
        """One PE on each of so many nodes, or all on one. Returns the JSON report, with the median of the times, and
        the network statistics."""
        usual, options_of = INPUTS.get(name) or LARGER[name]
        path = self.application_program(program or usual, gpu)
        if not path.is_file():
            raise Failure(f"{path} is not there; build it first: ninja -C {self.build}")
        stats = self.folder / "stats.json"
        command = [self.build / "transport/ucx-run", "-n", pes, "--nodes", 1 if one_node else pes,
                   "--timeout", self.timeout, f"--stats={stats}", path,
                   *options_of(SIZES[self.level], pes).split(), *options.split()]
        reports = [self.check_backend(self.json_of(command), gpu) for _ in range(self.repeat)]
        seconds = sorted(one["runs"][0]["seconds"] if "runs" in one else one["seconds"] for one in reports)
        return dict(reports[-1], seconds=seconds[len(seconds) // 2]), json.loads(stats.read_text())

    def perf(self, *options):
        command = [self.build / "transport/ucx-run", "-n", 1, "--timeout", self.timeout,
                   self.program("bench/perf/gravel-perf"), "--repeat", self.repeat, *options]
        return self.check_backend(self.json_of(command))["rows"]


def axis(x, y, by, xlabel, ylabel, kind="lines", log=""):
    return {"x": x, "y": y, "by": by, "xlabel": xlabel, "ylabel": ylabel, "kind": kind, "log": log}


def figure6(runs):
    widths = {"short": "64,256", "small": "32,64,128,256,512", "paper": "32,64,128,256,512,1024"}[runs.level]
    short = ["--messages", 4096] if runs.level == "short" else []
    rows = runs.perf("queue", "--scope", "block", "--block", widths, "--message", 24, "--threads", 1, *short)
    alone = runs.perf("queue", "--scope", "thread", "--block", 256, "--message", 24, "--threads", 1, *short)[0]
    base = next(row for row in rows if row["block"] == 64)["gb_per_s"]
    table = [["work-items", "GB/s", "times 64"]]
    for row in rows:
        table.append([row["block"], f"{row['gb_per_s']:.3g}", f"{row['gb_per_s'] / base:.2f}"])
    table.append(["each alone", f"{alone['gb_per_s']:.3g}", f"{alone['gb_per_s'] / base:.2f}"])
    kept = [{"system": "by blocks", "width": row["block"], "gb_per_s": row["gb_per_s"]} for row in rows]
    kept.append({"system": "each work-item alone", "width": 256, "gb_per_s": alone["gb_per_s"]})
    notes = [f"messages of {rows[0]['message_bytes']} bytes here, the nearest size that there is to the paper's 32"]
    return kept, table, notes, [axis("width", "gb_per_s", "system", "threads of a block", "GB/s", log="x")]


def figure8(runs):
    def kept_row(system, row):
        return {"system": system, "message_bytes": row["message_bytes"], "gb_per_s": row["gb_per_s"]}

    short = ["--messages", 4096] if runs.level == "short" else []
    rows = runs.perf("queue", "--scope", "block", "--block", 256, "--message", "4,8,16,24,48", "--threads", 1, *short)
    kept = [kept_row(f"Gravel, {'GPU' if runs.gpu else 'CPU backend'} to CPU", row) for row in rows]
    messages = 4096 if runs.level == "short" else 2_000_000
    rivals = runs.json_of([runs.build / "bench/queue_bench", "--repeat", runs.repeat, "--threads", "1x1",
                           "--slots", "16", "--messages", messages])["rows"]
    kept += [kept_row(f"{row['queue'].upper()}, CPU to CPU", row) for row in rivals if not row["slot_kib"]]
    kept.append({"system": "the paper's Gravel, GPU to CPU", "message_bytes": 32, "gb_per_s": 7})
    table = [["queue", "message, bytes", "GB/s"]]
    table += [[row["system"], row["message_bytes"], f"{row['gb_per_s']:.3g}"] for row in kept]
    return kept, table, [], [axis("message_bytes", "gb_per_s", "system", "message, bytes", "GB/s", log="xy")]


def figure12(runs):
    rows, table = [], [["input", *[f"{n} node{'s' * (n > 1)}" for n in runs.nodes], f"seconds on {runs.nodes[0]}"]]
    for name in runs.inputs:
        seconds = [runs.application(name, n)[0]["seconds"] for n in runs.nodes]
        for n, s in zip(runs.nodes, seconds):
            rows.append({"input": name, "nodes": n, "seconds": s, "speedup": seconds[0] / s})
        table.append([name, *[f"{seconds[0] / s:.2f}" for s in seconds], f"{seconds[0]:.4g}"])
    product = 1
    for row in (last := [row for row in rows if row["nodes"] == runs.nodes[-1]]):
        product *= row["speedup"]
    mean = product ** (1 / len(last))
    notes = [f"geometric mean on {runs.nodes[-1]}: {mean:.2f}; paper: 5.3 on average at 8", runs.sharing()]
    ylabel = f"speedup over {runs.nodes[0]}"
    return rows, table, notes, [axis("nodes", "speedup", "input", "nodes, one PE each", ylabel, log="x")]


def ways_of(name):
    """Programs, and options beside those of the input, that may be the fastest."""
    return WAYS.get(name, [((INPUTS.get(name) or LARGER[name])[0], "")])


def fastest_way(runs, name, pes):
    """The JSON report of the fastest program, and its name."""
    found = []
    for program, options in ways_of(name):
        repeated = " --repeat 3" if program in ("sssp", "color", "paths") and runs.level != "short" else ""
        report, _ = runs.application(name, pes, options + repeated, one_node=True, program=program)
        found.append((report, f"{program} {options}".strip()))
    return min(found, key=lambda one: one[0]["seconds"])


def scaling(runs):
    rows, table = [], [["input", "way", *[f"{n} PE{'s' * (n > 1)}, ms" for n in runs.nodes], "times as fast",
                        "rounds", "us a round"]]
    for name in [*runs.inputs, *(LARGER if runs.inputs == list(INPUTS) else [])]:
        reports = [fastest_way(runs, name, n) for n in runs.nodes]
        # The rounds of mer are those of its phase 2.
        rounds = [one.get("steps") or one.get("rounds") if name != "mer" else None for one, _ in reports]
        for n, (one, way), r in zip(runs.nodes, reports, rounds):
            rows.append({"input": name, "pes": n, "way": way, "seconds": one["seconds"],
                         "speedup": reports[0][0]["seconds"] / one["seconds"], **({"rounds": r} if r else {})})
        us_a_round = [f"{one['seconds'] / r * 1e6:.3g}" if r else "-" for (one, _), r in zip(reports, rounds)]
        table.append([name, " / ".join(dict.fromkeys(way for _, way in reports)),
                      *[f"{one['seconds'] * 1e3:.4g}" for one, _ in reports], f"{rows[-1]['speedup']:.2f}",
                      " / ".join(str(r or "-") for r in dict.fromkeys(rounds)), " / ".join(us_a_round)])
    of_paper = [row["speedup"] for row in rows if row["pes"] == runs.nodes[-1] and row["input"] in INPUTS]
    mean = "none of these inputs is one of the paper's nine pairs"
    if of_paper:
        mean = (f"geometric mean of {len(of_paper)} of the paper's nine pairs on {runs.nodes[-1]}: "
                f"{math.prod(of_paper) ** (1 / len(of_paper)):.2f}")
    hardware = "a share of the same hardware: no speedup can be expected"
    if runs.gpu and runs.nodes[-1] <= runs.n_gpus:
        hardware = "a GPU"
    notes = [mean, f"all PEs on one node; each has {hardware}",
             "where rounds are short, what each costs beside its work limits: compare microseconds a round"]
    ylabel = f"speedup over {runs.nodes[0]}"
    return rows, table, notes, [axis("pes", "speedup", "input", "PEs of one node", ylabel, log="x")]


def figure13(runs):
    rows = []
    for gpu in (False, True) if runs.gpu else (False,):
        for name in [name for name in ("GUPS", "PR-1", "mer") if name in runs.inputs]:
            for n in (runs.nodes[0], runs.nodes[-1]):
                seconds = runs.application(name, n, gpu=gpu)[0]["seconds"]
                system = f"Gravel, {'GPU' if gpu else 'CPU'} backend, {n} PEs"
                rows.append({"input": name, "system": system, "seconds": seconds})
    table = [["input", "system", "seconds"]] + [[row["input"], row["system"], f"{row['seconds']:.4g}"] for row in rows]
    notes = ["Grappa and UPC are not run here. "
             "What stands for a distributed system for CPUs is Gravel's own CPU backend"]
    if not runs.gpu:
        notes.append("THE HALF OF THIS FIGURE THAT NEEDS GPUS HAS NOT RUN: without it nothing is compared")
    return rows, table, notes, [axis("input", "seconds", "system", "", "seconds", "bars")]


def figure14(runs):
    sizes = "4K,64K" if runs.level == "short" else "4K,8K,16K,32K,64K,128K,256K"
    more = {"short": ["--table-log2", 10, "--updates", 3000],
            "small": ["--table-log2", 18, "--updates", 1 << 20],
            "paper": []}[runs.level]
    rows = []
    for n in dict.fromkeys((2, runs.nodes[-1])):
        file = runs.folder / "packets.json"
        runs.start([ROOT / "bench/run_perf", "--build", runs.build, *([] if runs.gpu else ["--cpu"]),
                    "--pes", n, "--nodes", n, "--timeout", runs.timeout, "--sizes", sizes, "--output", file,
                    "--targets", "uniform", *more])
        for row in runs.check_backend(json.loads(file.read_text()))["rows"]:
            rows.append({"nodes": f"{n} nodes", "packet_bytes": row["packet_bytes"], "gups": row["gups_of_job"]})
    table = [["nodes", "packet, bytes", "GUPS (10^9 updates/s of the job)"]]
    table += [[row["nodes"], row["packet_bytes"], f"{row['gups']:.4g}"] for row in rows]
    ylabel = "10^9 updates/s of the job"
    return rows, table, [], [axis("packet_bytes", "gups", "nodes", "packet, bytes", ylabel, log="x")]


def figure15(runs):
    n = runs.nodes[-1]
    rows, missing = [], []
    table = [["input", *MODELS, "seconds of gravel"]]
    for name in runs.inputs:
        program = INPUTS[name][0]
        has_models = "--model " in runs.start([runs.application_program(program), "--help"])
        if not has_models and program not in missing:
            missing.append(program)
        if has_models:
            seconds = {m: runs.application(name, n, f"--model {m}")[0]["seconds"] for m in MODELS}
        else:
            seconds = {"gravel": runs.application(name, n)[0]["seconds"]}
        rows += [{"input": name, "model": m, "seconds": s, "speed": seconds["gravel"] / s} for m, s in seconds.items()]
        speeds = [f"{seconds['gravel'] / seconds[m]:.2f}" if m in seconds else "-" for m in MODELS]
        table.append([name, *speeds, f"{seconds['gravel']:.4g}"])
    notes = [f"speed of each model at {n} nodes, that of Gravel being 1"]
    if missing:
        notes.append(f"THESE PROGRAMS HAVE NO --model, SO ONLY GRAVEL WAS RUN: {', '.join(missing)}")
    return rows, table, notes, [axis("input", "speed", "model", "", "speed, Gravel = 1", "bars")]


def table2(_):
    done = subprocess.run([ROOT / "bench/rivals/model_lines", "--json"], capture_output=True, text=True, check=True)
    counted = json.loads(done.stdout)["gups"]
    rows, table = [], [["model", "host", "GPU", "total", "paper: host", "GPU", "total"]]
    for models, (host, gpu) in counted.items():
        names = [name for name in TABLE2 if name in models]
        reported = TABLE2[names[0]]
        rows += [{"model": models, "system": "here", "host": host, "gpu": gpu, "total": host + gpu},
                 {"model": models, "system": "paper", "host": reported[0], "gpu": reported[1], "total": reported[2]}]
        table.append([models, host, gpu, host + gpu, *reported])
    notes = ["bench/rivals/model_lines says what is counted; comments and empty lines are not",
             "gups.cu also has options, repetitions and three verifications, in each model the same"]
    return rows, table, notes, [axis("model", "total", "system", "", "lines", "bars")]


def table5(runs):
    n = runs.nodes[-1]
    rows, table = [], [["input", "remote, %", "of messages, %", "message, bytes", f"messages at {n} nodes",
                        "paper: remote, %", "message, bytes"]]
    for name in runs.inputs:
        report, stats = runs.application(name, n)
        of_messages = 100 * stats["remote_access_frequency"]
        remote, message_bytes = of_messages, stats["average_packet_bytes"]
        if "remote_edges" in report:
            remote = 100 * report["remote_edges"] / (report.get("edges") or report["neighbours"])
        rows.append({"input": name, "system": f"here, {n} nodes", "remote_percent": remote,
                     "remote_percent_of_messages": of_messages, "message_bytes": message_bytes,
                     "messages": stats["packets"]})
        rows.append({"input": name, "system": "paper, 8 nodes", "remote_percent": TABLE5[name][0],
                     "message_bytes": TABLE5[name][1]})
        table.append([name, f"{remote:.1f}", f"{of_messages:.1f}", f"{message_bytes:.0f}",
                      stats["packets"], *TABLE5[name]])
    notes = [f"increments and active messages to everywhere are remote in {100 * (n - 1) / n:.1f} % of the cases "
             f"at {n} nodes (87.5 % at 8)",
             "remote, of graphs: edges that lead to another node, as the paper's programs send along edges. "
             "Those here send a value once to each PE that needs",
             "it, and read or write what stays in the PE without a message: so of messages nearly all are remote",
             "the mesh here is numbered row by row, so that few edges leave a block of rows; "
             "hugebubbles-00020 is numbered otherwise",
             "message: what goes to the network, a packet; "
             "counted over the whole job, with what is agreed before the first step"]
    return rows, table, notes, [axis("input", "remote_percent", "system", "", "remote accesses, %", "bars"),
                                axis("input", "message_bytes", "system", "", "average message, bytes", "bars", log="y")]


FIGURES = {"figure6": figure6, "figure8": figure8, "figure12": figure12, "figure13": figure13, "figure14": figure14,
           "figure15": figure15, "scaling": scaling, "table2": table2, "table5": table5}
