"""test/gpu_check: every program of its checks has a source, and checks that pass, fail and run out of time are counted,
with a stand-in for ucx-run. Usage: gpu_check_test.py"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU_CHECK = ROOT / "test/gpu_check"
# Starts nothing: a job of operations_job passes, one of am_job fails, one of traffic_job does not end.
UCX_RUN = """#!/bin/sh
echo "$@"
case "$*" in *am_job*) seq 100; exit 3 ;; *traffic_job*) touch "${0%/*/*}/traffic"; sleep 60 ;; esac
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        (self.build / "transport").mkdir()
        (self.build / "transport/ucx-run").write_text(UCX_RUN)
        (self.build / "transport/ucx-run").chmod(0o755)
        self.only = self.build / "only"

    def gpu_check(self, *words, only=()):
        self.only.write_text("\n".join(only))
        words = [*words, *(["--only", self.only] if only else [])]
        environment = {name: value for name, value in os.environ.items() if name != "GRAVEL_LOG"}
        return subprocess.run([GPU_CHECK, *words], capture_output=True, text=True, env=environment, timeout=60)

    def listed(self, *words):
        done = self.gpu_check("--list", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]

    def test_programs_have_sources(self):
        programs = set()
        for _, _, command in self.listed("--gpus", "0,1,2,3", "B", *"jobs services channels tasks worklists".split(),
                                         *"repeat pairs eight".split()):
            programs.update(word[2:] for word in command.split() if word.startswith("B/"))
        self.assertGreater(len(programs), 40)
        for program in sorted(programs - {"transport/ucx-run"}):
            folder, name = program.split("/")[0], Path(program).name
            sources = [path for suffix in ("cu", "cpp") for path in (ROOT / folder).rglob(f"{name}.{suffix}")]
            self.assertTrue(sources, f"{program} has no source")

    def test_descriptions_are_unique(self):
        for words in (["--cpu", "B"], ["--gpus", "0,1", "B"], ["--gpus", "0,1", "B", "eight"]):
            descriptions = [line[0] for line in self.listed(*words)]
            self.assertGreater(len(descriptions), 200)
            self.assertEqual(len(descriptions), len(set(descriptions)))

    def test_counts(self):
        done = self.gpu_check("--cpu", "--rows", "2", "--limit", "6", self.build, "jobs", only=[
            "operations: 2 PEs, one GPU, 1 nodes", "quiescence: 2 PEs, one GPU, 2 nodes\t120 s\tas of --list",
            "active messages: 2 PEs, one GPU, 1 nodes", "malloc and synchronize in traffic: 2 PEs, one GPU, 2 nodes"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("ok    operations: 2 PEs, one GPU, 1 nodes (0 s)", done.stdout)
        self.assertIn("FAIL  active messages: 2 PEs, one GPU, 1 nodes (status 3, 0 s)\n76\n", done.stdout)
        self.assertIn("not run for lack of time: malloc and synchronize in traffic: 2 PEs, one GPU, 2 nodes (ended ",
                      done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "2 passed, 1 failed, 1 not run")

    def test_passes(self):
        done = self.gpu_check("--cpu", self.build, only=["operations: 1 PE", "the other job",
                                                         "index_gather and gups on one GPU, run 2 of 3"])
        self.assertEqual(done.stdout.splitlines()[-1], "3 passed, 0 failed, 0 not run", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_interrupt(self):
        self.only.write_text("malloc and synchronize in traffic: 2 PEs, one GPU, 1 nodes\noperations: 1 PE\n")
        with subprocess.Popen([GPU_CHECK, "--cpu", "--only", self.only, self.build], text=True,
                              stdout=subprocess.PIPE) as process:
            while not (self.build / "traffic").exists():
                time.sleep(0.01)
            process.terminate()
            lines = process.communicate()[0].splitlines()
        self.assertEqual(lines[-1], "0 passed, 0 failed, 2 not run")
        self.assertEqual(process.returncode, 1)

    def test_what_is_not_built(self):
        done = self.gpu_check("--cpu", self.build, "deaths")
        self.assertIn("is not built", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 0 failed, 1 not run")

    def test_options(self):
        for words, message in ((["--gpus", "0", "B", "pairs"], "pairs need two GPUs"),
                               (["B", "nothing"], "there is no part"),
                               (["--only", "/nonexistent"], "cannot read"),
                               (["--unknown"], "unrecognized")):
            done = self.gpu_check(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)
        self.assertIn("--rows", self.gpu_check("--help").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
