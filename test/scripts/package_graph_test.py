"""Tests of tools/package_graph on a hand-written package index. Usage: package_graph_test.py"""

import gzip
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "package_graph"
DATA = ROOT / "test" / "data"


class PackageGraphTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.prefix = self.directory / "out"

    def run_tool(self, *arguments, stdin="", environment=None):
        return subprocess.run(
            [sys.executable, TOOL, *arguments],
            input=stdin,
            text=True,
            capture_output=True,
            cwd=self.directory,
            env=environment,
            timeout=60,
        )

    def graph(self, index, *arguments):
        """Names and named edges of an index given as text, and what the tool said."""
        run = self.run_tool("--input", "-", "--output", str(self.prefix), *arguments, stdin=index)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, "")
        names = (self.directory / "out.names").read_text().splitlines()
        lines = (self.directory / "out.txt").read_text().splitlines()
        pairs = [line.split("\t") for line in lines if not line.startswith("#")]
        self.assertIn(f"# Nodes: {len(names)} Edges: {len(pairs)}", lines)
        return names, [(names[int(source)], names[int(target)]) for source, target in pairs], run.stderr

    def failure(self, *arguments, **options):
        run = self.run_tool(*arguments, **options)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertTrue(run.stderr.startswith("package_graph: "), run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        return run.stderr

    def fake_apt(self, script):
        """An environment in which apt-cache is this shell script."""
        tool = self.directory / "apt-cache"
        tool.write_text("#!/bin/sh\n" + script)
        tool.chmod(0o755)
        return {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}"}

    def test_sample(self):
        run = self.run_tool("--input", str(DATA / "packages.index"), "--output", str(self.prefix))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(
            run.stderr,
            "package_graph: 6 vertices, 7 edges; dropped: 1 unresolvable, 1 to itself, 4 repeated\n",
        )
        for ending in (".txt", ".names"):
            expected = (DATA / ("packages" + ending)).read_bytes()
            self.assertEqual(Path(str(self.prefix) + ending).read_bytes(), expected)
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["out.names", "out.txt"])

    def test_alternatives(self):
        index = (
            "Package: a\nDepends: no | c | b\n\nPackage: b\nDepends: v | a\n\n"
            "Package: c\nProvides: v\nDepends: no | v | w\n\nPackage: d\nProvides: w, v\nDepends: no | w | v\n"
        )
        _, edges, said = self.graph(index)
        # b: a exists, v is only provided. c: only v and w are provided; v's first provider is c itself.
        self.assertEqual(edges, [("a", "c"), ("b", "a")])
        self.assertIn("0 unresolvable, 2 to itself", said)

    def test_virtual_packages(self):
        index = (
            "Package: z\nProvides: control (= 1), real\n\nPackage: m:x\n\nPackage: k\nProvides: control\n\n"
            "Package: real\n\nPackage: user\nDepends: control (>= 1), real, nowhere\n"
        )
        _, edges, said = self.graph(index)
        self.assertEqual(edges, [("user", "k"), ("user", "real")])
        self.assertIn("1 unresolvable", said)

    def test_qualifiers(self):
        index = (
            "Package: a\nDepends: b:any(>= 1)|c, c:amd64 (<< 2~) [amd64 !i386] <!nocheck>,d  ,\n , e\nPRE-DEPENDS:f\n\n"
            + "".join(f"Package: {name}\n\n" for name in "bcdef")
        )
        _, edges, said = self.graph(index)
        self.assertEqual(edges, [("a", name) for name in "bcdef"])
        self.assertIn("0 unresolvable", said)

    def test_repetitions_and_loops(self):
        index = "Package: a\nDepends: b, b (>= 2), a\nPre-Depends: b\n\nPackage: b\nDepends: a\n"
        _, edges, said = self.graph(index)
        self.assertEqual(edges, [("a", "b"), ("b", "a")])
        self.assertIn("1 to itself, 2 repeated", said)

    def test_first_stanza_of_a_name_counts(self):
        names, edges, _ = self.graph(
            "Package: a\nDepends: b\n\nPackage: b\n\nPackage: a\nDepends: c\n\nPackage: c\n"
        )
        self.assertEqual(names, ["a", "b", "c"])
        self.assertEqual(edges, [("a", "b")])

    def test_recommends(self):
        index = "Package: a\nDepends: b\nRecommends: c | b\nSuggests: d\n\n" + "".join(
            f"Package: {n}\n\n" for n in "bcd"
        )
        self.assertEqual(self.graph(index)[1], [("a", "b")])
        self.assertEqual(self.graph(index, "--recommends")[1], [("a", "b"), ("a", "c")])

    def test_order_of_the_index_does_not_matter(self):
        text = "".join(
            part + "\n\n" for part in (DATA / "packages.index").read_text().strip().split("\n\n")[:6]
        )
        self.graph(text)
        first = (self.directory / "out.txt").read_bytes()
        self.graph("\n\n".join(reversed(text.strip().split("\n\n"))))
        self.assertEqual((self.directory / "out.txt").read_bytes(), first)

    def test_gzip(self):
        packed = self.directory / "index.gz"
        packed.write_bytes(gzip.compress((DATA / "packages.index").read_bytes()))
        bytes_of = []
        for _ in range(2):
            run = self.run_tool("--input", str(packed), "--output", str(self.prefix), "--gzip")
            self.assertEqual(run.returncode, 0, run.stderr)
            bytes_of.append((self.directory / "out.txt.gz").read_bytes())
        self.assertEqual(gzip.decompress(bytes_of[0]), (DATA / "packages.txt").read_bytes())
        self.assertEqual(bytes_of[0], bytes_of[1])
        self.assertFalse((self.directory / "out.txt").exists())
        packed.write_bytes(packed.read_bytes()[:-20])
        self.assertIn("index.gz", self.failure("--input", str(packed)))

    def test_apt(self):
        environment = self.fake_apt(f'[ "$*" = dumpavail ] && cat "{DATA}/packages.index"\n')
        run = self.run_tool(environment=environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((self.directory / "packages.txt").read_bytes(), (DATA / "packages.txt").read_bytes())

    def test_apt_errors(self):
        empty = {**os.environ, "PATH": str(self.directory)}
        said = self.failure(environment=empty)
        self.assertIn("only on Debian, Ubuntu", said)
        self.assertIn("--input FILE", said)
        self.assertIn("apt-get update", self.failure(environment=self.fake_apt("exit 0\n")))
        self.assertIn(
            "ended with status 100", self.failure(environment=self.fake_apt("cat /dev/null; exit 100\n"))
        )
        run = self.run_tool(environment=self.fake_apt("echo 'Package: a'; kill -9 $$\n"))
        self.assertEqual(run.returncode, 1)
        self.assertEqual([p.name for p in self.directory.iterdir()], ["apt-cache"])

    def test_bad_input(self):
        for index, expected in (
            ("", "standard input is empty"),
            ("\n\n", "apt-get update"),
            ("hello\n", "line 1: expected 'Field: value', found 'hello'"),
            ("Package: a\n\nVersion: 1\n", "line 3: expected a stanza with a Package field"),
            ("Package: a\n\n more\n", "line 3: expected 'Field: value', found a continuation"),
            ("Package:\n", "not a package name"),
            ("Package: a b\n", "not a package name"),
            ("\x00\x01\x02\n", "line 1: expected 'Field: value'"),
        ):
            with self.subTest(index=index):
                self.assertIn(
                    expected, self.failure("--input", "-", "--output", str(self.prefix), stdin=index)
                )
        self.assertIn("absent", self.failure("--input", "absent"))
        self.assertIn("cannot read", self.failure("--input", str(self.directory)))
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_bad_output(self):
        said = self.failure(
            "--input", str(DATA / "packages.index"), "--output", str(self.directory / "absent" / "out")
        )
        self.assertIn("cannot write", said)
        self.assertIn("absent/out.names", said)
        (self.directory / "out.txt").mkdir()
        self.assertIn(
            "cannot write",
            self.failure("--input", str(DATA / "packages.index"), "--output", str(self.prefix)),
        )
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["out.names", "out.txt"])

    def test_help_and_version(self):
        self.assertIn("--recommends", self.run_tool("--help").stdout)
        version = re.search(r"^project\(.*[ ,]version: '([^']*)'", (ROOT / "meson.build").read_text(), re.M)[
            1
        ]
        self.assertEqual(self.run_tool("--version").stdout, f"package_graph {version}\n")
        self.assertEqual(self.run_tool("--frobnicate").returncode, 2)


if __name__ == "__main__":
    unittest.main()
