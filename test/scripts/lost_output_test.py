"""Programs whose output cannot be written: a message with the file and the reason, a status other than 0, and the old
file as it was. Usage: lost_output_test.py UCX_RUN GRAVEL_INFO PROGRAM..."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

UCX_RUN, GRAVEL_INFO, *PROGRAMS = (str(Path(path).resolve()) for path in sys.argv[1:])
EXAMPLES = {Path(program).name.removesuffix("-cpu"): program for program in PROGRAMS}
FULL = "No space left on device"
# For each kind of program that writes: options of a short run, and the tables that it writes with --dump.
RUNS = {
    "gups": ("--table-log2 8 --mode inc", ["hits"]),
    "bfs": ("--grid 4 4", ["levels"]),
    "color": ("--mesh 4 4", ["edges", "colors"]),
    "kmeans": ("--points 20", ["points", "centers"]),
    "mer": ("--genome 500 --coverage 5", ["kmers", "contigs"]),
    "sssp": ("--grid 4 4", ["distances"]),
    "pagerank": ("--grid 4 4", ["ranks", "steps"]),
    "contract": ("--rows 16 --tile 4", []),
}
# Programs that need a subcommand before their options.
SUBCOMMANDS = {"critical_sections-cpu": ["bank"]}


def run(command, stdout=subprocess.PIPE, **variables):
    environment = dict(os.environ, GRAVEL_SYMMETRIC_SIZE="128M", **variables)
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          env=environment, check=False)


class LostOutputTest(unittest.TestCase):
    def fails(self, command, said, stdout=subprocess.PIPE, **variables):
        with self.subTest(command=" ".join(command[-6:])):
            done = run(command, stdout, **variables)
            self.assertEqual(done.stderr.count(said), 1, done.stderr)
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_standard_output(self):
        with open("/dev/full", "w") as full:
            for name, (options, _) in RUNS.items():
                self.fails([EXAMPLES[name], *options.split()], f"{name}: standard output: {FULL}", full)
            self.fails([UCX_RUN, "-n", "2", EXAMPLES["gups"], *RUNS["gups"][0].split()],
                       f"gups: standard output: {FULL}", full)

    def test_help(self):
        with open("/dev/full", "w") as full:
            for program in [*PROGRAMS, UCX_RUN, GRAVEL_INFO]:
                self.fails([program, "--help"], f"standard output: {FULL}", full)
            self.fails([GRAVEL_INFO], FULL, full)
            self.fails([GRAVEL_INFO, "-c", "--json"], FULL, full)

    def test_files(self):
        for name, (options, tables) in RUNS.items():
            self.fails([EXAMPLES[name], *options.split(), "--json", "/dev/full"], f"/dev/full: {FULL}")
            for table in tables:
                with tempfile.TemporaryDirectory() as folder:
                    Path(folder, f"d-{table}.csv").symlink_to("/dev/full")
                    self.fails([EXAMPLES[name], *options.split(), "--dump", f"{folder}/d"],
                               f"{folder}/d-{table}.csv: {FULL}")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "c.0").symlink_to("/dev/full")
            self.fails([EXAMPLES["mer"], "--genome", "2000", "--contigs", f"{folder}/c"], f"{folder}/c.0: {FULL}")

    def test_statistics(self):
        gups = [EXAMPLES["gups"], *RUNS["gups"][0].split()]
        self.fails([UCX_RUN, "-n", "2", "--stats=/dev/full", *gups], f"GRAVEL_STATS_JSON: /dev/full: {FULL}")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stats.json"
            file.write_text("old")
            done = run([UCX_RUN, "-n", "2", f"--stats={file}", *gups])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('"n_pes": 2', file.read_text())
            self.assertEqual(os.listdir(folder), ["stats.json"])

    def test_mistyped_options(self):
        for program in PROGRAMS:
            done = run([program, *SUBCOMMANDS.get(Path(program).name, []), "--hepl"])
            self.assertEqual((done.returncode, done.stderr.count("--hepl (did you mean --help?)")), (2, 1),
                             f"{program}: {done.stderr}")
        done = run([GRAVEL_INFO, "--markdwon"])
        self.assertEqual((done.returncode, done.stderr.count("--markdwon (did you mean --markdown?)")), (2, 1),
                         done.stderr)
        done = run([EXAMPLES["bfs"], "--suorce=3", "--rmat", "5"])
        self.assertEqual((done.returncode, done.stderr.count("(did you mean --source?)")), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
