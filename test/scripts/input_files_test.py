"""Files that programs read, for every program that reads such files: what is refused, with which words, and how a
file's vertices are named in options, messages and tables. Usage: input_files_test.py UCX_RUN PROGRAM..."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

UCX_RUN = str(Path(sys.argv[1]).resolve())
PROGRAMS = {Path(program).name.removesuffix("-cpu"): str(Path(program).resolve()) for program in sys.argv[2:]}
WEIGHTED = {"paths", "sssp"}
# Programs with --source, and the table that --dump writes.
FROM_SOURCE = {"bfs": "levels", "paths": "distances", "sssp": "distances"}
TABLES = dict(FROM_SOURCE, color="colors", components="components", pagerank="ranks", ranks="ranks")
TOP = ["indegree", "pagerank"]  # with --top
GRAPH = sorted({*TABLES, *TOP})


def banner(rows, *entries, kind="real general"):
    return "\n".join([f"%%MatrixMarket matrix coordinate {kind}", f"{rows} {rows} {len(entries)}", *entries, ""])


ring = "".join(f"{v} {(v + 1) % 60}\n" for v in range(60)).encode()
member = gzip.compress(ring)
damaged = bytearray(member)
damaged[1] ^= 1  # the second word of its magic number
# Name, content, what programs without weights say, what those with weights say (nothing: the file is right).
NO_WEIGHT = "expected a weight after two vertex ids"
BANNER = ":1: a Matrix Market file begins with the banner"
GRAPHS = [
    ("ring.txt.gz", member + member, "", NO_WEIGHT),
    ("second_member.txt.gz", member + bytes(damaged), ": the gzip data are damaged at byte",
     ": the gzip data are damaged at byte"),
    ("text_behind.txt.gz", member + b"0 1\n",
     f": expected the end of the file or another gzip member at byte {len(member)}", "text_behind.txt.gz:"),
    ("cut.txt.gz", member[:-5], ": the gzip data are cut off", ": the gzip data are cut off"),
    ("first_blank.mtx", "\n" + banner(3, "2 1 1.0"), BANNER, BANNER),
    ("no_banner.mtx", "100 100 1\n1 2 1\n", BANNER, BANNER),
    ("huge.mtx", banner(4, "1 2 1e39", "2 3 1e300"), "", ":3: the weight 1e39 is above"),
    ("rounded.mtx", banner(4, "1 2 16777217"), "", ":3: the weight 16777217"),
    ("both_triangles.mtx", banner(3, "2 1 1", "1 2 1", kind="real symmetric"), ":4: ", ":4: "),
    ("one_sided.graph", "2 1\n2\n\n", "one_sided.graph", "one_sided.graph"),
    ("empty.txt", "", "empty.txt is empty", "empty.txt is empty"),
    ("comments.txt", "# nothing\n", "comments.txt", "comments.txt"),
]
READS = [
    ("bad_member.fq.gz", gzip.compress(b"@a\nACGTACGTACGT\n+\n############\n") + bytes(damaged),
     "the gzip data are damaged at byte"),
    ("no_letters.fq", "@a\n\n+\n\n@b\n" + "ACGGTCATTGCAAGGCTTAC" * 2 + "\n+\n" + "#" * 40 + "\n", ""),
    ("cut.fq", "@a\nACGT\n+\n", "cut.fq:1: the record is cut off"),
]


class InputFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def write(self, name, content):
        (self.path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def run_program(self, name, options, pes=1):
        command = [PROGRAMS[name], *options.split()]
        if pes > 1:
            command = [UCX_RUN, "-n", str(pes), "--timeout", "60", *command]
        environment = dict(os.environ, GRAVEL_SYMMETRIC_SIZE="64M")
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.path,
                              env=environment, check=False)

    def says(self, program, options, said, pes=1):
        """The program refuses this with these words, once; nothing: it runs well."""
        with self.subTest(program=program, options=options):
            done = self.run_program(program, options, pes)
            self.assertEqual(done.returncode, 1 if said else 0, done.stdout + done.stderr)
            if said:
                self.assertEqual(done.stderr.count(said), 1, done.stderr)
            return done

    def test_graphs(self):
        for name, content, plain, weighted in GRAPHS:
            self.write(name, content)
            for program in GRAPH:
                self.says(program, name, weighted if program in WEIGHTED else plain)

    def test_reads(self):
        for name, content, said in READS:
            self.write(name, content)
            self.says("mer", name, said)

    def ids_in(self, name):
        with open(self.path / name, newline="") as file:
            return sorted({int(row["vertex"]) for row in csv.DictReader(file)})

    def test_ids(self):
        """Tables have the ids of the file, options take them, and what is no id is refused with what the ids are."""
        large = 2**64 - 1
        files = {
            "few.txt": ("10 20 1\n20 30 1\n30 40 1\n2 1 1\n", [1, 2, 10, 20, 30, 40], 3,
                        "its 6 vertices have the ids that its edges name, from 1 to 40"),
            "large.txt": (f"{large} {2**53 + 1} 1\n{2**53 + 1} 5 1\n", [5, 2**53 + 1, large], 0, f"from 5 to {large}"),
            "from_1.mtx": (banner(3, "1 2 1", "3 2 1"), [1, 2, 3], 0,
                           "its 3 vertices are counted from 1 to 3, as Matrix Market and METIS do"),
            "from_1.graph": ("3 2 001\n2 1\n1 1 3 1\n2 1\n", [1, 2, 3], 4,
                             "its 3 vertices are counted from 1 to 3, as Matrix Market and METIS do"),
        }
        def write_for(program, name, content):
            """Files of SNAP with a third column are for programs with weights alone."""
            if program not in WEIGHTED and name.endswith(".txt"):
                content = re.sub(r" 1$", "", content, flags=re.M)
            self.write(name, content)

        for name, (content, ids, absent, called) in files.items():
            for program, table in TABLES.items():
                write_for(program, name, content)
                for pes, division in ((1, "blocks"), (3, "degrees")):
                    self.says(program, f"{name} --dump d --division {division}", "", pes)
                    self.assertEqual(self.ids_in(f"d-{table}.csv"), ids, f"{program} {name}")
            for program in FROM_SOURCE:
                write_for(program, name, content)
                self.says(program, f"{name} --source {absent}", f"there is no vertex {absent} in {name}: ")
                self.says(program, f"{name} --source {absent}", called)
                self.says(program, f"{name} --source {ids[-1]} --dump d --json d.json", "", 2)
                with open(self.path / f"d-{FROM_SOURCE[program]}.csv", newline="") as file:
                    found = {int(row["vertex"]): float(list(row.values())[-1]) for row in csv.DictReader(file)}
                self.assertEqual(found[ids[-1]], 0)
                if program != "bfs":
                    self.assertEqual(json.loads((self.path / "d.json").read_text())["source"], ids[-1])
        for program in FROM_SOURCE:
            self.says(program, "--rmat 5 --source 32",
                      "there is no vertex 32 in R-MAT of scale 5: its 32 vertices are counted from 0 to 31")
            self.assertEqual(self.run_program(program, "--rmat 5 --source -1").returncode, 2)

    def test_ids_of_other_outputs(self):
        self.write("few.txt", "10 20\n20 30\n30 40\n2 1\n")
        self.write("star.mtx", banner(3, "1 3 1", "2 3 1"))
        for program in TOP:
            self.assertRegex(self.says(program, "star.mtx --top 1", "").stdout, r" vertex 3\n")
            self.assertIn(" vertex 40\n", self.says(program, "few.txt --top 6", "").stdout)
        self.says("color", "few.txt --dump d", "", 2)
        with open(self.path / "d-edges.csv", newline="") as file:
            edges = {(int(row["vertex"]), int(row["neighbour"])) for row in csv.DictReader(file)}
        pairs = ((10, 20), (20, 30), (30, 40), (1, 2))
        self.assertEqual(edges, {(a, b) for pair in pairs for a, b in (pair, pair[::-1])})
        for pes in (1, 3):
            self.says("components", "few.txt --dump d --division degrees", "", pes)
            with open(self.path / "d-components.csv", newline="") as file:
                names = {int(row["vertex"]): int(row["component"]) for row in csv.DictReader(file)}
            self.assertIn(names[10], (10, 20, 30, 40))
            self.assertEqual({names[v] for v in (10, 20, 30, 40)}, {names[10]})
            self.assertIn(names[1], (1, 2))
            self.assertEqual(names[1], names[2])

    def test_sums_of_weights(self):
        """Distances above the largest float are refused, and rounded ones are reported."""
        self.write("far.mtx", banner(4, "1 2 2e38", "2 3 2e38", "3 4 1"))
        self.write("whole.mtx", banner(3, "1 2 16777216", "2 3 3"))
        for program in sorted(WEIGHTED):
            too_far = "the paths to 2 vertices are longer than 3.4e38, the largest float"
            self.says(program, "far.mtx --source 1", too_far)
            self.says(program, "far.mtx --source 1 --no-verify", too_far, 2)
            rounded = "whole ones above 16777216 are rounded"
            self.assertIn(rounded, self.says(program, "whole.mtx --source 1", "").stdout)
            if program == "sssp":
                printed = self.says(program, "whole.mtx --source 3", "").stdout
                self.assertNotIn("rounded", printed.replace("whole.mtx", ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
