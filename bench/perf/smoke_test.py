"""Each benchmark of gravel-perf, tiny: everything it checks is right, and its JSON has what docs/benchmarks.md
promises. No times are looked at. Usage: smoke_test.py UCX_RUN GRAVEL_PERF_CPU RUN_PERF COMPARE_NVSHMEM"""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

UCX_RUN, PERF, RUN_PERF, COMPARE = (str(Path(word).resolve()) for word in sys.argv[1:5])
del sys.argv[1:5]

# Benchmark, arguments, number of rows (0: any) and one key that its rows have.
BENCHMARKS = [
    ("p_bw", "--messages 2048", 3, "million_messages_per_s"),
    ("p_bw", "--messages 2048 --to self --scope warp", 1, "million_messages_per_s"),
    ("p_latency", "--iterations 5", 1, "median_us"),
    ("put_bw", "--size 1,100,4096 --bytes 20000", 3, "gb_per_s"),
    ("put_latency", "--size 1,5000 --iterations 5", 2, "median_us"),
    ("atomic_bw", "--messages 2048", 3, "million_messages_per_s"),
    ("atomic_latency", "--iterations 5", 3, "median_us"),
    ("am_rate", "--messages 1024 --scope block,warp --offset-mib 1", 8, "million_messages_per_s"),
    ("ping_pong_latency", "--iterations 5", 2, "median_us"),
    ("quiet_latency", "--iterations 3", 4, "median_us"),
    ("launch_latency", "--iterations 5", 6, "median_us"),
    ("barrier_latency", "--iterations 5", 3, "median_us"),
    ("quiescence_latency", "--iterations 5", 1, "median_us"),
    ("malloc_time", "--size 1,4096,100000", 3, "gb_per_s"),
    ("gups", "--table-log2 10 --updates 3000", 4, "million_updates_per_s"),
    ("gups", "--table-log2 10 --updates 3000 --offset-mib 1", 4, "million_updates_per_s"),
    ("gups", "--table-log2 10 --updates 3000 --operation add32", 4, "million_updates_per_s"),
    ("gups", "--table-log2 10 --updates 3000 --operation min32", 4, "million_updates_per_s"),
    ("gups", "--table-log2 10 --updates 3000 --operation put32", 4, "million_updates_per_s"),
    ("queue", "--messages 4096 --block 32,1024 --message 4,8,16,24,48 --threads 2", 30, "gb_per_s"),
    ("queue", "--messages 4096 --block 64 --consume skip --slot-size 1K --slots 4 --scope block", 3, "gb_per_s"),
    ("packet_size", "--table-log2 10 --updates 3000 --scope block", 2, "packet_bytes"),
    ("destinations", "--messages 4096 --destinations 1,3,1024", 3, "destinations"),
    ("divergence", "--table-log2 10 --messages 512 --most 8", 3, "to_predication"),
]


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)


class SmokeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "perf.json"
        self.rows = []

    def check(self, report, benchmark, n_rows, key):
        self.assertEqual(report["name"], "perf")
        self.assertEqual(len(report["rows"]), n_rows)
        for row in report["rows"]:
            self.assertEqual(row["benchmark"], benchmark)
            self.assertIn(key, row)
            self.assertGreater(row["checked"], 0)
            self.assertEqual(row["wrong"], 0)
            for name, value in row.items():
                if isinstance(value, (int, float)):
                    self.assertTrue(math.isfinite(value), f"{name}: {value}")
            if "message_gb_per_s" in row and "million_messages_per_s" in row and "message_bytes" in row:
                bytes_per_us = row["million_messages_per_s"] * row["message_bytes"]
                self.assertAlmostEqual(row["message_gb_per_s"] * 1e3 / bytes_per_us, 1)

    def run_all(self, *launcher):
        for benchmark, arguments, n_rows, key in BENCHMARKS:
            with self.subTest(benchmark=benchmark, arguments=arguments):
                done = run(*launcher, PERF, benchmark, *arguments.split(), "--repeat", 1, "--json", self.file)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.check(json.loads(self.file.read_text()), benchmark, n_rows, key)
                self.rows += json.loads(self.file.read_text())["rows"]

    def test_two_pes(self):
        self.run_all(UCX_RUN, "-n", 2, "--timeout", 120)
        # All of them in one file: a picture each.
        self.file.write_text(json.dumps(dict(json.loads(self.file.read_text()), rows=self.rows)))
        drawn = run(Path(COMPARE).parent / "plot", self.file)
        if "matplotlib is missing" not in drawn.stderr:
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            for name in {benchmark for benchmark, *_ in BENCHMARKS}:
                self.assertTrue(self.file.with_name(f"perf-{name}.svg").exists(), name)

    def test_four_pes_on_two_nodes(self):
        self.run_all(UCX_RUN, "-n", 4, "--nodes", 2, "--timeout", 120)

    def test_a_pe_alone(self):
        for benchmark, arguments, n_rows, key in [
            ("queue", "--messages 4096 --block 64 --message 4", 3, "gb_per_s"),
            ("gups", "--table-log2 10 --updates 3000", 2, "million_updates_per_s"),
            ("divergence", "--table-log2 10 --messages 512", 3, "to_predication"),
            ("p_bw", "--route net --messages 2048 --scope block", 1, "million_messages_per_s"),
        ]:
            with self.subTest(benchmark=benchmark):
                done = run(PERF, benchmark, *arguments.split(), "--repeat", 1, "--json", self.file)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.check(json.loads(self.file.read_text()), benchmark, n_rows, key)

    def test_help_names_all(self):
        said = run(PERF, "--help").stdout
        for name in {benchmark for benchmark, *_ in BENCHMARKS} | {"all"}:
            self.assertIn(name, said)
            self.assertEqual(run(PERF, name, "--help").returncode, 0)

    def test_bad_usage(self):
        for arguments in (["nonsense"], [], ["queue", "--block", "33"], ["queue", "--slots", "3"],
                          ["gups", "--json", "/nonexistent/file"]):
            done = run(PERF, *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotEqual(done.stderr, "")

    def test_packet_sizes(self):
        build = Path(PERF).parents[2]
        done = run(RUN_PERF, "--build", build, "--cpu", "--pes", 2, "--nodes", 2, "--sizes", "4K,64K",
                   "--output", self.file, "--table-log2", 10, "--updates", 3000, "--repeat", 1)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = json.loads(self.file.read_text())["rows"]
        self.assertEqual([row["packet_bytes"] for row in rows], [4096, 4096, 65536, 65536])

    def test_compare_without_gpus(self):
        done = run(COMPARE, "--build", "/nonexistent", "--pes", 2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not built", done.stderr)


if __name__ == "__main__":
    unittest.main()
