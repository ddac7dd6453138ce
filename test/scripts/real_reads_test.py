"""tools/real_reads with packages made here. Usage: real_reads_test.py"""

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "real_reads"
FOLDER = "usr/share/spades/test_dataset"


class RealReadsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def run_tool(self, *words, **variables):
        command = [sys.executable, str(TOOL), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.path,
                              env=dict(os.environ, **variables), timeout=60)

    def failure(self, said, *words, **variables):
        done = self.run_tool(*words, **variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("real_reads: "), done.stderr)
        self.assertIn(said, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def files(self, root):
        (root / FOLDER).mkdir(parents=True)
        for name, text in (("ecoli_1K_1.fq", "@a\nACGTA\n+\n@@@@@\n@b\nAC\n+\n@@\n"),
                           ("ecoli_1K_2.fq", "@c\nACG\n+\n!!!\n"), ("reference_1K.fa", ">g\nACGT\nACG\n")):
            with gzip.open(root / FOLDER / f"{name}.gz", "wt") as file:
                file.write(text)

    def fake_dpkg(self, listed, status=0):
        """A dpkg that lists these files."""
        (self.path / "bin").mkdir(exist_ok=True)
        (self.path / "list").write_text("".join(f"{line}\n" for line in listed))
        program = self.path / "bin" / "dpkg"
        program.write_text(f'#!/bin/sh\n[ "$*" = "-L spades" ] || exit 9\ncat {self.path}/list\nexit {status}\n')
        program.chmod(0o755)
        return {"PATH": f"{self.path}/bin:{os.environ['PATH']}"}

    def check_found(self, done, folder):
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [f"{folder}/ecoli_1K_1.fq.gz", f"{folder}/ecoli_1K_2.fq.gz",
                 "--reference", f"{folder}/reference_1K.fa.gz"]
        self.assertEqual(done.stdout.split(), [*names, "--min-count", "15"])
        self.assertIn("3 reads, 10 bases; reference: 7 bases in 1 sequences", done.stderr)

    def test_installed(self):
        self.files(self.path)
        listed = ["/.", *sorted(str(path) for path in (self.path / FOLDER).iterdir())]
        self.check_found(self.run_tool("ecoli", **self.fake_dpkg(listed)), self.path / FOLDER)
        other = self.run_tool("ecoli", "--min-count", 3, **self.fake_dpkg(listed))
        self.assertTrue(other.stdout.endswith("--min-count 3\n"), other.stdout)
        self.failure("has no test_dataset/reference_1K.fa.gz", "ecoli", **self.fake_dpkg(listed[:-1]))
        (self.path / FOLDER / "ecoli_1K_2.fq.gz").write_bytes(b"\x1f\x8b\x08cut")
        self.failure("cannot read", "ecoli", **self.fake_dpkg(listed))
        (self.path / FOLDER / "ecoli_1K_2.fq.gz").unlink()
        self.failure("is not there", "ecoli", **self.fake_dpkg(listed))

    def test_not_installed(self):
        self.failure("the package spades is not installed: install it (as root: apt-get install spades)",
                     "ecoli", **self.fake_dpkg([], 1))
        self.failure("there is no dpkg here", "ecoli", PATH=str(self.path))

    @unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb to make a package with")
    def test_deb(self):
        root = self.path / "root"
        self.files(root)
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN" / "control").write_text(
            "Package: spades\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n")
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Znone", root, self.path / "x.deb"],
                       check=True, capture_output=True)
        self.check_found(self.run_tool("ecoli", "--deb", "x.deb", "--output", "a/b"), "a/b")
        self.failure("x.deb has no test_run_data/reads_1.fq.gz", "hiv", "--deb", "x.deb")
        (self.path / "text").write_text("no package")
        self.failure("text cannot be unpacked", "ecoli", "--deb", "text")
        self.failure("absent: no such file", "ecoli", "--deb", "absent")
        self.failure("text: ", "ecoli", "--deb", "x.deb", "--output", "text")

    def test_usage(self):
        self.assertIn("--deb", self.run_tool("--help").stdout)
        self.assertEqual(self.run_tool("ecoli", "--output", "x").returncode, 2)
        self.assertEqual(self.run_tool("human").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
