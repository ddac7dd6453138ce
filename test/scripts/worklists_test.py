"""A program of examples/worklists on small inputs: shapes of jobs, executions, seeds, routes; what it counts; what it
says about bad input. Usage: worklists_test.py NAME PROGRAM UCX_RUN"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from watched_job import Job, wait_for  # noqa: E402

NAME = sys.argv[1]
PROGRAM, UCX_RUN = (str(Path(path).resolve()) for path in sys.argv[2:4])
DATA = Path(__file__).resolve().parents[1] / "data"
SHAPES = [(1, 1), (2, 2), (3, 1), (4, 2)]  # PEs, nodes
HAS_METIS = b"METIS_PartGraphKway" in Path(PROGRAM).read_bytes()

# Runs that must end well, all compared with a serial run; the shapes go round. More PEs than vertices, one vertex, no
# edges, loops, edges of length 0, vertices that nothing reaches, hubs are among them.
GRAPHS = [
    "--rmat 8",
    "--rmat 9 --simple --division degrees",
    "--mesh 12 10",
    "--cage 4",
    "--rmat 6 --edges-per-vertex 128 --division edges",
    "--grid 1 1",
    "--grid 1 1",
    "--grid 3 1 --kept 0",
    "--grid 1 2 --kept 1 --division edges",
    "--grid 20 15",
    "weighted.mtx --undirected",
] + (["--mesh 10 8 --division metis"] if HAS_METIS else [])
RUNS = {
    "bfs": GRAPHS
    + [
        "graph.txt",
        "--rmat 8 --roots 2",
        "--rmat 8 --no-pull",
        "--grid 20 15 --no-pull --width 3",
        "--rmat 8 --source 3",
        "--rmat 8 --method worklist",
        "--rmat 7 --method worklist --pull-from 0 --push-below 0",
        "--rmat 7 --method worklist --pull-from 0 --push-below 1",
    ],
    "paths": GRAPHS
    + [
        "--rmat 8 --method worklist --roots 2",
        "--grid 20 15 --no-priority",
        "--rmat 7 --delta 1e-9",
        "--rmat 7 --delta 1e9",
        "--rmat 8 --source 3 --max-weight 1",
        "weighted.mtx --no-priority --execution fused",
    ],
    # The default tolerance takes twice as many rounds: on one graph that is enough.
    "ranks": [f"{graph} --tolerance 0.001" for graph in GRAPHS]
    + ["graph.mtx", "--rmat 6 --damping 0", "--rmat 6 --tolerance 0.1"],
    "components": GRAPHS + ["graph.mtx", "graph.txt", "--rmat 8 --all-edges", "--grid 20 15 --kept 0.5",
                            "--grid 20 15 --kept 0.5 --all-edges", "--rmat 8 --method routers --repeat 2",
                            "--grid 20 15 --kept 0.5 --method routers"],
}
EXECUTIONS = {  # what each is checked with, and on how many PEs
    "bfs": "--grid 12 10 --no-pull",
    "paths": "--rmat 6 --edges-per-vertex 32",
    "ranks": "--mesh 6 5 --tolerance 0.001",
}
BAD = [
    ("", "", "", "give one graph"),
    ("", "", "absent.txt", "absent.txt: No such file"),
    ("", "", "--division halves --rmat 5", "halves not in"),
    ("empty", "", "empty", "empty is empty"),
    ("cut.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 2 1\n", "cut.mtx",
     "cut.mtx ends after 1 entries, but its size line promises 5"),
    ("", "", "--rmat 4 --json /absent/x.json", "/absent/x.json: No such file"),
]
BAD += {
    "bfs": [
        ("", "", "--rmat 5 --source 32",
         "there is no vertex 32 in R-MAT of scale 5: its 32 vertices are counted from 0"),
        ("", "", "--rmat 5 --source 3 --roots 2", "--source excludes --roots"),
        ("", "", "--grid 3 1 --kept 0 --roots 2", "--roots: no vertex has an edge"),
        ("", "", "--rmat 5 --width 2", "--width above 1 goes with --no-pull"),
        ("", "", "--rmat 5 --execution sideways", "sideways not in"),
        ("", "", "--rmat 5 --method kernel", "--method kernel: not all PEs have each other's memory mapped"),
    ],
    "paths": [
        ("", "", "--rmat 5 --source 32",
         "there is no vertex 32 in R-MAT of scale 5: its 32 vertices are counted from 0"),
        ("", "", "--rmat 5 --method kernel", "by one kernel: not all PEs have each other's memory mapped"),
        ("", "", "--rmat 5 --delta 0", "--delta"),
        ("", "", "--rmat 5 --delta 2 --no-priority", "--delta excludes --no-priority"),
        ("plain.txt", "1 2\n", "plain.txt", "plain.txt:1: expected a weight"),
        ("minus.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 1 -3\n", "minus.mtx",
         "minus.mtx:4: the weight -3 is not"),
    ],
    "ranks": [("", "", "--rmat 5 --damping 1", "damping"), ("", "", "--rmat 5 --tolerance 0", "tolerance")],
    "components": [("", "", "--rmat 5 --repeat 0", "repeat"),
                   ("", "", "--rmat 5 --method routers --compare", "--method routers excludes")],
}[NAME]


def run(pes, nodes, options, folder, **variables):
    command = [UCX_RUN, "-n", str(pes), "--nodes", str(nodes), "--timeout", "60", PROGRAM, *options.split()]
    environment = dict(os.environ, GRAVEL_SYMMETRIC_SIZE="64M", **variables)
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
                          env=environment, check=False)


class WorklistsTest(unittest.TestCase):
    def good(self, pes, nodes, options, folder=DATA, **variables):
        with self.subTest(pes=pes, nodes=nodes, options=options, **variables):
            done = run(pes, nodes, options, folder, **variables)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("serial", done.stdout)

    def report_of(self, pes, nodes, options, **variables):
        """The report that a run writes with --json."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "out.json"
            self.good(pes, nodes, f"{options} --json {file}", **variables)
            return json.loads(file.read_text())

    def test_inputs(self):
        for number, options in enumerate(RUNS[NAME]):
            self.good(*SHAPES[number % len(SHAPES)], options)

    def test_routes_and_seeds(self):
        self.good(2, 1, RUNS[NAME][1], GRAVEL_ROUTES="net")
        self.good(3, 1, RUNS[NAME][2], GRAVEL_ROUTES="peer")
        self.good(1, 1, RUNS[NAME][9], GRAVEL_CPU_SEED="3")
        self.good(3, 2, RUNS[NAME][3], GRAVEL_CPU_SEED="4")

    @unittest.skipIf(NAME == "components", "has none")
    def test_executions(self):
        options = EXECUTIONS[NAME]
        for pes, nodes in SHAPES[:3]:
            for execution in ("rounds", "fused", "asynchronous"):
                self.good(pes, nodes, f"{options} --execution {execution}")
        # Several threads of an aggregator: messages overtake each other.
        narrow = " --delta 30" if NAME == "paths" else ""
        self.good(2, 2, f"{options}{narrow} --execution asynchronous --repeat 3", GRAVEL_AGGREGATOR_THREADS="4")
        self.good(1, 1, f"{options} --execution fused --fused-blocks 1")
        self.good(1, 1, f"{options} --execution fused --fused-blocks 5", GRAVEL_CPU_SEED="5")
        self.good(1, 1, f"{options} --fused-most 3 --repeat 2")
        self.good(3, 2, f"{options} --execution fused --repeat 2", GRAVEL_CPU_SEED="6")
        self.good(2, 1, f"{options} --execution asynchronous --blocks 1")
        self.good(2, 1, f"{options} --execution asynchronous --capacity 1 --slack 0")
        # Channels that overflow.
        self.good(2, 1, f"{options} --execution asynchronous --capacity 32 --slack 0 --repeat 2")

    @unittest.skipIf(NAME != "paths", "of paths")
    def test_delays(self):
        """The end is found neither too early nor never while processes stand still for some time, again and again: PEs
        and the aggregators, which carry what is under way."""
        chance = random.Random(7)
        for execution, repeat, variables in (("asynchronous", 4, {}), ("asynchronous", 4, {"GRAVEL_ROUTES": "peer"}),
                                             ("automatic", 60, {}), ("fused", 15, {})):
            with self.subTest(execution=execution, **variables):
                command = [UCX_RUN, "-n", "3", "--nodes", "2", "--timeout", "60", PROGRAM, *EXECUTIONS[NAME].split(),
                           "--execution", execution, "--repeat", str(repeat)]
                job = Job(command, PROGRAM, GRAVEL_SYMMETRIC_SIZE="64M", **variables)
                delays = 0
                try:
                    while job.process.poll() is None:
                        processes = [*job.pes().values(), *job.aggregators().values()]
                        for pid in chance.sample(processes, min(1, len(processes)) if delays < 40 else 0):
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(pid, signal.SIGSTOP)
                                time.sleep(chance.uniform(0, 0.05))
                                os.kill(pid, signal.SIGCONT)
                                delays += 1
                        time.sleep(chance.uniform(0, 0.02))
                    self.assertEqual(job.end(30), (0, {}), job.text)
                    self.assertIn(b"serial", job.out)
                    self.assertGreater(delays, 3)
                finally:
                    job.clean_up()

    @unittest.skipIf(NAME != "paths", "of paths")
    def test_killed(self):
        """A PE dies while kernels of all PEs wait for each other: the job ends, names that PE, and leaves nothing."""
        for number, (execution, routes) in enumerate((("asynchronous", "net"), ("fused", "peer"), ("fused", "net"))):
            with self.subTest(execution=execution, routes=routes):
                command = [UCX_RUN, "-n", "3", "--timeout", "60", PROGRAM, *EXECUTIONS[NAME].split(),
                           "--execution", execution, "--repeat", "1000"]
                job = Job(command, PROGRAM, GRAVEL_SYMMETRIC_SIZE="64M", GRAVEL_ROUTES=routes)
                try:
                    # It describes its graph before the first run.
                    self.assertTrue(wait_for(lambda: b"graph:" in job.out, 30), job.text)
                    time.sleep(0.1)
                    os.kill(job.pes()[number % 3], signal.SIGKILL)
                    status, left = job.end()
                    self.assertEqual((status in (None, 0), left), (False, {}), job.text)
                    self.assertIn(f"PE {number % 3}", job.text)
                    self.assertEqual(job.leftovers(), set())
                finally:
                    job.clean_up()

    @unittest.skipIf(NAME == "components", "has none")
    def test_one_kernel_for_the_rounds_of_all(self):
        """Also with several PEs the number of kernels does not grow with the rounds, and the work is the same as by the
        hosts."""
        rounds, fused = (self.report_of(3, 2, f"{EXECUTIONS[NAME]} --execution {how}") for how in ("rounds", "fused"))
        self.assertGreater(rounds["kernels"], 3 * rounds["rounds"])
        self.assertGreater(fused["rounds"], 5)
        self.assertLess(fused["kernels"], rounds["kernels"] / 4)
        # The order of sums differs.
        self.assertAlmostEqual(fused["exchanges"], rounds["exchanges"], delta=3 if NAME == "ranks" else 0)
        self.assertGreater(fused["sent"], 0)

    @unittest.skipIf(NAME not in ("bfs", "paths"), "of bfs and paths")
    def test_hubs_are_divided_in_all_executions(self):
        for pes in (1, 2):
            for execution in ("rounds", "fused", "asynchronous"):
                no_pull = "--no-pull" if NAME == "bfs" else ""
                options = f"--rmat 6 --edges-per-vertex 128 {no_pull} --execution {execution}"
                self.assertGreater(self.report_of(pes, 1, options)["pieces"], 0)

    @unittest.skipIf(NAME != "bfs", "of bfs")
    def test_one_kernel_where_memory_is_mapped(self):
        """The kernel searches where it can, by itself; parents of both kinds are checked; a deep graph goes to the
        worklist."""
        for pes, routes, method in ((1, "net", "kernel"), (2, "peer", "kernel"), (2, "net", "worklist")):
            for parents in ("names", "codes"):
                options = f"--rmat 9 --division degrees --parents {parents}"
                self.assertEqual(self.report_of(pes, 1, options, GRAVEL_ROUTES=routes)["method"], method)
        self.assertEqual(self.report_of(1, 1, "--rmat 6 --no-pull")["method"], "worklist")
        self.assertEqual(self.report_of(1, 1, "--mesh 60 20")["method"], "worklist")

    @unittest.skipIf(NAME != "components", "of components")
    def test_one_kernel_with_components_across_pes(self):
        """The vertex that names a component is the first one in the kernel's order, which may not have the lowest
        code."""
        for pes, options in ((2, "--rmat 11 --edges-per-vertex 1"), (3, "--rmat 12 --edges-per-vertex 1")):
            report = self.report_of(pes, 1, f"{options} --division degrees", GRAVEL_ROUTES="peer")
            self.assertEqual((report["method"], report["compared_with_serial"]), ("kernel", True))

    def test_json(self):
        report = self.report_of(2, 1, RUNS[NAME][0])
        self.assertEqual((report["program"], report["pes"], report["backend"]), (NAME, 2, "cpu"))
        self.assertIs(report["right"], True)
        self.assertIs(report["compared_with_serial"], True)
        self.assertGreater(report["seconds"], 0)

    @unittest.skipIf(NAME != "paths", "of paths")
    def test_priorities_save_work(self):
        for pes, execution in ((1, "rounds"), (1, "fused"), (2, "rounds"), (2, "fused")):
            options = f"--grid 40 30 --kept 0.9 --execution {execution}"
            with_them, without = (self.report_of(pes, 1, f"{options} {how}") for how in ("", "--no-priority"))
            self.assertGreater(without["expanded"], 1.5 * with_them["expanded"])
            self.assertEqual(without["farthest"], with_them["farthest"])

    @unittest.skipIf(NAME not in ("bfs", "paths"), "of bfs and paths")
    def test_values_sent_are_fewer_than_edges_cut(self):
        """Only the best offer along the edges to one ghost goes to its owner."""
        report = self.report_of(3, 1, "--rmat 9 " + ("--no-pull" if NAME == "bfs" else ""))
        self.assertGreater(report["sent"], 0)
        self.assertLess(report["sent"], report["remote_edges"] / 3)

    @unittest.skipIf(NAME not in ("bfs", "paths", "components"), "of ranks the sums differ in their last bits")
    def test_same_on_any_number_of_pes(self):
        name = {"bfs": "levels", "paths": "farthest", "components": "components"}[NAME]
        options = "--grid 24 20 --kept 0.7" + ("" if NAME == "components" else " --source 11")
        self.assertEqual(len({self.report_of(pes, nodes, options)[name] for pes, nodes in SHAPES}), 1)

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, options, said in BAD:
                if name:
                    (Path(folder) / name).write_text(text)
                with self.subTest(options=options):
                    done = run(2, 1, options, folder)
                    self.assertNotEqual(done.returncode, 0, done.stdout)
                    self.assertEqual(done.stderr.count(said), 1, done.stderr)

    def test_help(self):
        done = run(2, 1, "--help", DATA)
        self.assertEqual((done.returncode, done.stdout.count("Usage:")), (0, 1), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
