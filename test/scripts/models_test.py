"""The networking models (docs/measurements/applications.md): what goes over the network in each, by the statistics of
gups; what they refuse; and the count of their lines. And what gups says of a wrong result. Usage: models_test.py GUPS
UCX_RUN"""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUPS, UCX_RUN = (str(Path(path).resolve()) for path in sys.argv[1:3])
PES, UPDATES = 4, 4000


def run(*options, folder="."):
    environment = dict(os.environ, GRAVEL_STATS_JSON="stats.json")
    command = [UCX_RUN, "-n", str(PES), "--nodes", "2", "--timeout", "60", GUPS, "--table-log2", "8", *options]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
                          env=environment, check=False)


def statistics(model, *options):
    with tempfile.TemporaryDirectory() as folder:
        done = run("--model", model, "--mode", "inc", "--updates", str(UPDATES), "--remote-only", *options,
                   folder=folder)
        is_right = "0 wrong words, compared with a serial computation" in done.stdout
        assert done.returncode == 0 and is_right, done.stdout + done.stderr
        return json.loads((Path(folder) / "stats.json").read_text())


class ModelsTest(unittest.TestCase):
    def test_packets(self):
        each = statistics("message-per-lane")
        self.assertEqual(each["messages_taken"], PES * UPDATES)
        self.assertEqual(each["packets"], PES * UPDATES)
        # A block has at most 1024 messages, and a list for each other PE, which is a packet.
        blocks = PES * -(-UPDATES // 1024)
        lists = statistics("coalesced")
        self.assertEqual(lists["messages_taken"], PES * UPDATES)
        self.assertEqual(lists["packets"], blocks * (PES - 1))
        self.assertEqual(lists["packets_full"], lists["packets"])
        gathered = statistics("coalesced-aggregated")
        self.assertEqual(gathered["messages_taken"], PES * UPDATES)
        self.assertLess(gathered["packets"], lists["packets"])

    def test_queues(self):
        """A queue of 4096 bytes has room for (4096 - 64) / 4 increments. In each round of launches a message for each
        other PE."""
        rounds = -(-UPDATES // 1008)
        for model in ("coprocessor", "coprocessor-buffered"):
            report = statistics(model, "--model-queue", "4096")
            self.assertEqual(report["messages_taken"], rounds * PES * (PES - 1))
        # In queues of a megabyte one round is enough.
        self.assertEqual(statistics("coprocessor-buffered")["messages_taken"], PES * (PES - 1))

    def test_wrong_place(self):
        """An update that lands beside its word is found where there is no serial run to compare with."""
        for mode in ("inc", "xor"):
            for fault, hash_is in (((), "that of all updates"), (("--fault", "place"), "NOT that of all updates")):
                done = run("--mode", mode, "--serial-limit", "0", *fault)
                self.assertIn(f"the table's hash is {hash_is}", done.stdout, done.stderr)
                self.assertEqual(done.returncode, 1 if fault else 0, done.stdout + done.stderr)

    def test_refused(self):
        for options, said in (
            (["--model", "shared"], "shared not in"),
            (["--model", "coalesced", "--sender", "direct"], "--sender and --block are for --model gravel"),
            (["--model", "coprocessor", "--model-queue", "100"], "--model-queue"),
        ):
            with self.subTest(options=options):
                done = run(*options)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(said, done.stderr)

    def test_lines(self):
        """The script counts all applications, and docs/measurements/applications.md has what it says, but for small
        changes since."""
        done = subprocess.run([ROOT / "bench/rivals/model_lines"], capture_output=True, text=True, check=True)
        row_of_lines = re.compile(r"^\|[^|]*\| (?:host|device|all) \| (\d+) \| (\d+) \| (\d+) \|$", re.M)
        said = row_of_lines.findall(done.stdout)
        written = row_of_lines.findall((ROOT / "docs" / "measurements" / "applications.md").read_text())
        self.assertEqual(len(said), 3 * 6)
        self.assertEqual(len(written), len(said))
        for row, in_page in zip(said, written):
            coprocessor, by_lane, coalesced = (int(n) for n in row)
            self.assertTrue(coprocessor > coalesced > by_lane > 0)
            for now, then in zip(row, in_page):
                self.assertLess(abs(int(now) - int(then)), 20 + int(now) / 10,
                                "bench/rivals/model_lines says otherwise by now")


    def test_what_is_counted(self):
        sys.dont_write_bytecode = True
        loader = importlib.machinery.SourceFileLoader("model_lines", str(ROOT / "bench/rivals/model_lines"))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader("model_lines", loader))
        loader.exec_module(script)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "a.cu"
            file.write_text("// no\n/* no\nno */\n#include <a>\n\n"
                            "template <int N>\n__global__ void k(int a,\n  int b) {\n  if (a) {  // yes\n  }\n}\n"
                            "GRAVEL_DEVICE int one() { return 1; }\nGRAVEL_DEVICE int later();\n"
                            "struct s {\n  GRAVEL_BOTH int f() const {\n    return 1;\n  }\n};\n"
                            "int main() {\n}\n")
            self.assertEqual(script.count(file)[0], [5, 11])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
