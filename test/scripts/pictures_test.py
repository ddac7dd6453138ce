"""The tables of --dump against what can be computed from them here, and tools/pictures on them. Usage: pictures_test.py
BUILD_FOLDER"""

import csv
import heapq
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "pictures"
BUILD = Path(sys.argv[1]).resolve()
FOLDERS = {"pagerank": "bench/applications", "sssp": "bench/applications"}  # the others are examples
RUNS = {
    "gups": "--mode inc --table-log2 8",
    "pagerank": "--rmat 7",
    "sssp": "--grid 12 9 --kept 0.7 --max-weight 1",
    "bfs": "--grid 12 9 --kept 0.7 --source 50",
    "color": "--mesh 7 5 --division edges",
    "kmeans": "--points 60 --dimensions 2 --clusters 3",
    "mer": "--genome 1500 --coverage 20 --k 21",
}


def read(path):
    with open(path, newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


class PicturesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = Path(cls.folder.name)
        cls.reports = {}
        for name, options in RUNS.items():
            prefix = cls.path / name
            command = [BUILD / "transport" / "ucx-run", "-n", "3", "--nodes", "2", "--timeout", "60",
                       BUILD / FOLDERS.get(name, "examples") / f"{name}-cpu", *options.split(),
                       "--json", f"{prefix}.json", "--dump", prefix]
            done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            cls.reports[name] = json.loads(Path(f"{prefix}.json").read_text())

    def table(self, name, what):
        rows = read(self.path / f"{name}-{what}.csv")
        self.assertTrue(all(0 <= row["pe"] < 3 for row in rows))
        return rows

    def test_gups(self):
        rows, report = self.table("gups", "hits"), self.reports["gups"]
        self.assertEqual(sum(row["words"] for row in rows), 3 * 256)
        self.assertEqual(sum(row["words"] * row["hits"] for row in rows), report["updates"])

    def test_pagerank(self):
        ranks, changes = self.table("pagerank", "ranks"), self.table("pagerank", "steps")
        report = self.reports["pagerank"]
        self.assertEqual(sorted(row["vertex"] for row in ranks), list(range(128)))
        self.assertAlmostEqual(sum(row["rank"] for row in ranks), 1, places=4)
        self.assertEqual(len(changes), report["steps"])
        self.assertEqual(changes[-1]["change"], report["change"])

    def test_sssp(self):
        """All weights are 1: what is reached are rings of equal distance, without gaps between them."""
        rows, report = self.table("sssp", "distances"), self.reports["sssp"]
        self.assertEqual(sorted(row["vertex"] for row in rows), list(range(108)))
        distance = {row["vertex"]: row["distance"] for row in rows}
        self.assertEqual(distance[report["source"]], 0)
        reached = sorted(d for d in distance.values() if d >= 0)
        self.assertEqual((len(reached), reached[-1]), (report["reached"], report["farthest"]))
        self.assertEqual(sorted(set(reached)), list(range(int(reached[-1]) + 1)))

    def test_bfs(self):
        rows, report = self.table("bfs", "levels"), self.reports["bfs"]
        self.assertEqual(sorted(row["vertex"] for row in rows), list(range(108)))
        self.assertEqual([row["vertex"] for row in rows if row["level"] == 0], [50])
        reached = [row["level"] for row in rows if row["level"] >= 0]
        self.assertEqual((len(reached), len(set(reached)), max(reached) + 1),
                         (report["reached"], report["levels"], report["levels"]))

    def test_color(self):
        rows, edges = self.table("color", "colors"), self.table("color", "edges")
        color = {row["vertex"]: row["color"] for row in rows}
        self.assertEqual(sorted(color), list(range(70)))
        self.assertEqual(len(edges), self.reports["color"]["neighbours"])
        pe = {row["vertex"]: row["pe"] for row in rows}
        remote = sum(pe[row["vertex"]] != pe[row["neighbour"]] for row in edges)
        self.assertEqual(remote, self.reports["color"]["remote_edges"])
        self.assertTrue(all(pe[row["vertex"]] == row["pe"] for row in edges))
        self.assertTrue(all(color[row["vertex"]] != color[row["neighbour"]] for row in edges))
        self.assertEqual({(row["vertex"], row["neighbour"]) for row in edges},
                         {(row["neighbour"], row["vertex"]) for row in edges})

    def test_kmeans(self):
        points, centers = self.table("kmeans", "points"), self.table("kmeans", "centers")
        self.assertEqual((len(points), len(centers)), (180, 3))
        for c, center in enumerate(centers):
            mine = [row for row in points if row["cluster"] == c]
            for d in ("x0", "x1"):
                self.assertAlmostEqual(sum(row[d] for row in mine) / len(mine), center[d], delta=1 / 256)
        apart = lambda row, c: sum((row[d] - centers[c][d]) ** 2 for d in ("x0", "x1"))
        nearest = lambda row: heapq.nsmallest(1, range(3), key=lambda c: apart(row, c))[0]
        self.assertTrue(all(row["cluster"] == nearest(row) for row in points))

    def test_mer(self):
        kmers, contigs, report = self.table("mer", "kmers"), self.table("mer", "contigs"), self.reports["mer"]
        self.assertEqual(sum(row["kmers"] for row in kmers), report["distinct"])
        self.assertEqual(sum(row["kmers"] * row["count"] for row in kmers), report["kmers"])
        self.assertEqual((len(contigs), sum(row["bases"] for row in contigs)),
                         (report["contigs"], report["contig_bases"]))
        self.assertEqual(max(row["bases"] for row in contigs), report["longest"])

    def tool(self, *words):
        done = subprocess.run([TOOL, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.path, check=False)
        if "matplotlib is missing" in done.stderr:
            self.skipTest(done.stderr.strip())
        return done

    def test_pictures(self):
        done = self.tool(*RUNS)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in RUNS:
            self.assertEqual((self.path / f"{name}.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertLess((self.path / f"{name}.png").stat().st_size, 60000)

    def test_mistakes(self):
        (self.path / "other.json").write_text('{"program": "indegree"}')
        (self.path / "alone.json").write_text((self.path / "sssp.json").read_text())
        (self.path / "text.json").write_text("text")
        for words, said in (
            (["absent"], "absent.json: No such file or directory; a program writes it with --json"),
            (["other"], "is of indegree; there are pictures of gups"),
            (["alone"], "alone-distances.csv: No such file or directory; a program writes it with --dump alone"),
            (["text"], "is not what an application wrote"),
            (["sssp", "--output", "absent/x.png"], "absent/x.png: No such file"),
            (["--run", "absent", "sssp"], "build it first"),
            (["--run", "absent", "nothing"], "there is no program 'nothing'"),
            ([], "name one PREFIX"),
        ):
            with self.subTest(words=words):
                done = self.tool(*words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_programs_refuse(self):
        for program, options, said in (("gups", "--dump x", "it needs --mode inc"),
                                       ("kmeans", "--dump absent/x", "absent/x.csv: No such file")):
            done = subprocess.run([BUILD / "examples" / f"{program}-cpu", *options.split()], capture_output=True,
                                  text=True, cwd=self.path, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
