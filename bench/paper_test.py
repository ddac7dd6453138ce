"""bench/paper with tiny inputs: every figure and table is printed, says what it was measured on, is written and drawn.
Usage: paper_test.py BUILD_FOLDER"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "paper"
BUILD = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True
import paper_figures as figures  # noqa: E402


def run(*words):
    command = [str(word) for word in (TOOL, "--build", BUILD, *words)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


class PaperTest(unittest.TestCase):
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("all", "--short", "--backend", "cpu", "--inputs", "GUPS,SSSP-2,color-1,mer", "--output", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("here: CPU backend, NO GPU: "), len(figures.FIGURES))
            self.assertEqual(done.stdout.count("a smoke test: these numbers mean nothing"), len(figures.FIGURES))
            self.assertIn("THE HALF OF THIS FIGURE THAT NEEDS GPUS HAS NOT RUN", done.stdout)
            for name in figures.FIGURES:
                files = list(Path(folder).glob(f"*-cpu-{name}.json"))
                self.assertEqual(len(files), 1, name)
                report = json.loads(files[0].read_text())
                self.assertEqual((report["name"], report["backend"], report["inputs"]),
                                 (f"paper_{name}", "cpu", "short"))
                self.assertIn("NO GPU", report["machine"])
                self.assertTrue(report["rows"])
                for row in report["rows"]:
                    numbers = [value for value in row.values() if isinstance(value, (int, float))]
                    self.assertTrue(all(math.isfinite(value) and value > 0 for value in numbers), row)
                if "matplotlib is missing" not in done.stderr:
                    self.assertEqual(files[0].with_suffix(".png").read_bytes()[:4], b"\x89PNG")
            self.check_scaling(json.loads(next(Path(folder).glob("*-scaling.json")).read_text()))
            self.check_figure15(json.loads(next(Path(folder).glob("*-figure15.json")).read_text()))

    def check_scaling(self, report):
        """Each input has all numbers of PEs, each by the fastest program, and speedups over one PE."""
        for name in ("GUPS", "SSSP-2", "color-1", "mer"):
            rows = [row for row in report["rows"] if row["input"] == name]
            self.assertEqual([row["pes"] for row in rows], [1, 2])
            for row in rows:
                self.assertIn(row["way"].split()[0], {program for program, _ in figures.ways_of(name)})
                self.assertAlmostEqual(row["speedup"], rows[0]["seconds"] / row["seconds"])
        self.assertIn("geometric mean of 4 of the paper's nine pairs on 2", " ".join(report["notes"]))

    def check_figure15(self, report):
        """All models, or a plain word that a program has none."""
        text = " ".join(report["notes"])
        inputs = {row["input"] for row in report["rows"]}
        self.assertEqual(len(inputs), 4)
        for name, program in ((name, figures.INPUTS[name][0]) for name in inputs):
            models = {row["model"] for row in report["rows"] if row["input"] == name}
            if models == {"gravel"}:
                self.assertIn("THESE PROGRAMS HAVE NO --model", text)
                self.assertIn(program, text)
            else:
                self.assertEqual(models, set(figures.MODELS))

    def test_backend_is_what_programs_say(self):
        """Programs of the CPU backend under the names of those for GPUs, and a GPU that is none."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            for name in ("transport/ucx-run", "examples/gups", "bench/perf/gravel-perf"):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).symlink_to(BUILD / (name if "ucx-run" in name else f"{name}-cpu"))
            smi = path / "nvidia-smi"
            smi.write_text('#!/bin/sh\necho "GPU 0: None (UUID: GPU-0)"\n')
            smi.chmod(0o755)
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
            for name in ("figure6", "figure12", "figure14"):
                done = subprocess.run([TOOL, name, "--short", "--backend", "gpu", "--build", folder],
                                      capture_output=True, text=True, env=environment, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("was to be on the backend cuda, but says that it was on cpu", done.stderr)

    def test_inputs(self):
        """The work is the same for every number of nodes."""
        for level, sizes in figures.SIZES.items():
            for nodes in (1, 2, 4, 8):
                words = figures.INPUTS["GUPS"][1](sizes, nodes).split()
                self.assertEqual(nodes << int(words[words.index("--table-log2") + 1]), 1 << sizes["words"], level)
                self.assertEqual(sizes["updates"] % nodes, 0)
                self.assertEqual(sizes["points"] % nodes, 0)

    def test_scaling_of_larger_inputs_alone(self):
        """None of the paper's pairs is among them, so there is no mean."""
        with tempfile.TemporaryDirectory() as folder:
            done = run("scaling", "--short", "--backend", "cpu", "--inputs", "PR-R", "--nodes", "1,2",
                       "--output", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("none of these inputs is one of the paper's nine pairs", done.stdout)
            self.assertNotIn("geometric mean", done.stdout)

    def test_mistakes(self):
        for words, said in (
            (["figure3"], "there is no 'figure3': choose from figure6"),
            (["table5", "--nodes", "1,3"], "powers of two"),
            (["table5", "--nodes", "2,x"], "numbers with commas"),
            (["table5", "--inputs", "PR-R"], "there is no input 'PR-R': choose from GUPS"),
            (["table5", "--inputs", "PR-3"], "there is no input 'PR-3': choose from GUPS"),
            (["figure13", "--inputs", "kmeans"], "figure13 is of GUPS, PR-1 and mer"),
            (["table5", "--repeat", "-1"], "positive"),
            (["table5", "--build", "/absent"], "no build folder"),
            ([], "NAME"),
        ):
            done = run(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)
        self.assertIn("figure12", run("--help").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
