"""Each bench, with tiny sizes, finds that all it moved has arrived, and writes JSON of the common form; bench/run and
bench/plot understand each other. No times are looked at. Usage: smoke_test.py BUILD_FOLDER"""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parent
BUILD = Path(sys.argv.pop(1)).resolve()


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)


class SmokeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def succeed(self, *command):
        done = run(*command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def check_report(self, file, name, n_rows):
        report = json.loads(file.read_text())
        self.assertEqual(list(report), ["name", "date", "hardware", "command", "rows"])
        self.assertEqual(report["name"], name)
        self.assertEqual(len(report["rows"]), n_rows)
        for row in report["rows"]:
            self.assertEqual(list(row), list(report["rows"][0]))
            for key, value in row.items():
                if isinstance(value, (int, float)):
                    self.assertTrue(math.isfinite(value) and value > 0, f"{key}: {value}")
                else:
                    self.assertTrue(value is None or isinstance(value, str), f"{key}: {value}")

    def check_program(self, program, name, n_rows, *options):
        file = self.path / f"{name}.json"
        done = self.succeed(BUILD / "bench" / program, "--repeat", 2, *options, "--json", file)
        self.assertEqual(len(done.stdout.splitlines()), 2 + n_rows)
        self.check_report(file, name, n_rows)
        # The table and the file have the same numbers; neither says on which host they were measured.
        self.assertNotIn(str(self.path), file.read_text())
        if name not in ("plain_loop", "zero_copy"):
            self.check_plot(file)

    def check_plot(self, file):
        done = run(BENCH / "plot", file)
        if "matplotlib is missing" in done.stderr:
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<svg", file.with_suffix(".svg").read_text()[:500])

    def test_plain_loop(self):
        self.check_program("plain_loop", "plain_loop", 1, "--words-log2", 8, "--updates", 1000)

    def test_queue(self):
        # Sizes of messages: 3. Kinds: Gravel's with two sizes of slots, MPMC; with 1x1 also SPSC.
        self.check_program("queue_bench", "queue", 3 * 4 + 3 * 3, "--messages", 5000, "--slots", "1,16",
                           "--threads", "1x1,2x3")

    def test_repack(self):
        self.check_program("repack_bench", "repack", 2 * 2 * 3, "--messages", 5000, "--slots", "4,64",
                           "--destinations", "1,3,70")

    def test_packet(self):
        self.check_program("packet_bench", "packet", 2 * 2, "--packets", 20, "--sizes", "1,64", "--tls", "tcp")

    def test_zero_copy(self):
        self.check_program("zero_copy_bench", "zero_copy", 2, "--packets", 20, "--pieces", "512,16384")

    def test_gups(self):
        self.succeed(BENCH / "run", "gups", "--build", BUILD, "--pes", 2, "--table-log2", 10, "--updates", 1000,
                     "--repeat", 1, "--output", self.path / "new" / "gups.json", "--no-plots")
        self.check_report(self.path / "new" / "gups.json", "gups", 2)
        self.check_plot(self.path / "new" / "gups.json")

    def test_mistakes(self):
        (self.path / "other.json").write_text("{}")
        for words, text in (
            (["run", "nothing"], "there is no bench 'nothing'"),
            (["run", "--build", self.path], "is no build folder with benches"),
            (["run", "--build", BUILD, "--output", "one.json"], "for one bench"),
            (["run", "--build", BUILD, "--pes", "0"], "positive"),
            (["plot", self.path / "missing.json"], "No such file"),
            (["plot", self.path / "other.json"], "is no result of bench/run"),
        ):
            done = run(BENCH / words[0], *words[1:])
            self.assertNotEqual(done.returncode, 0, words)
            if "matplotlib is missing" not in done.stderr:
                self.assertIn(text, done.stderr)
        for words in (["queue_bench", "--threads", "2"], ["queue_bench", "--slots", "3"],
                      ["packet_bench", "--sizes", "65"], ["plain_loop", "--updates", "x"],
                      ["repack_bench", "--destinations", "0"]):
            self.assertNotEqual(run(BUILD / "bench" / words[0], *words[1:]).returncode, 0, words)
        for program in ("queue_bench", "repack_bench", "packet_bench", "zero_copy_bench", "plain_loop"):
            self.assertIn("--json", self.succeed(BUILD / "bench" / program, "--help").stdout)


unittest.main()
