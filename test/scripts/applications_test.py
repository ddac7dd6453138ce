"""An application of examples/ on small inputs: several shapes of job, seeds, both routes; its JSON; what it says about
bad input. Usage: applications_test.py NAME PROGRAM UCX_RUN"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from random import Random

NAME = sys.argv[1]
PROGRAM, UCX_RUN = (str(Path(path).resolve()) for path in sys.argv[2:4])
DATA = Path(__file__).resolve().parents[1] / "data"
TOOLS = DATA.parent.parent / "tools"
SHAPES = [(1, 1), (2, 2), (3, 1), (4, 2)]  # PEs, nodes
RIVALS = ["coprocessor", "coprocessor-buffered", "message-per-lane", "coalesced", "coalesced-aggregated"]
HAS_METIS = b"METIS_PartGraphKway" in Path(PROGRAM).read_bytes()

# For each application: options of runs that must end well, all compared with a serial oracle; the shapes take turns.
GRAPHS = [
    "--rmat 9",
    "--rmat 8 --edges-per-vertex 128 --division edges",
    "--rmat 9 --simple --division degrees",
    "--mesh 30 20",
    "--grid 1 1",
    "--grid 1 1",
    "--grid 3 1 --kept 0",
    "--grid 1 2 --kept 1 --division edges",
    "--grid 40 30",
    "--cage 6",
]
RUNS = {
    "color": GRAPHS + ["graph.mtx", "--rmat 12 --edges-per-vertex 64", "--rmat 12 --edges-per-vertex 64"],
    "kmeans": [
        "--points 2000",
        "--points 1",
        "--points 3 --clusters 20 --dimensions 2",
        "--points 300 --clusters 13 --dimensions 32",
        "--points 999 --clusters 1 --dimensions 1",
        "--points 700 --clusters 40 --dimensions 8",
        "--points 2000 --max-steps 3",
    ],
    "mer": [
        "--genome 1000 --coverage 20 --k 21",
        "--genome 1000 --coverage 30 --errors 0.01",
        "--genome 400 --coverage 30 --k 5",
        "--genome 1000 --coverage 15 --errors 0.02 --min-count 1 --k 15",
        "--genome 1000 --coverage 4 --read-length 40",
    ],
    "pagerank": GRAPHS + ["graph.txt", "graph.mtx --undirected"],
    "sssp": GRAPHS + ["weighted.mtx --source 1", "weighted.mtx --undirected --delta 0.1",
                      "--rmat 9 --max-weight 1 --delta 1e9"],
}
METIS_RUNS = ["--rmat 8 --division metis", "--mesh 20 10 --division metis"]
# Bad input of programs that take a graph: name and text of a file, options, what must be said.
BAD_GRAPHS = [
    ("", "", "", "give one graph"),
    ("", "", "--rmat 5 --mesh 2 2", "give one graph"),
    ("", "", "absent.txt", "absent.txt: No such file"),
    ("", "", "--grid 0 5", "each side is from 1"),
    ("", "", "--division halves --rmat 5", "halves not in"),
    ("empty", "", "empty", "empty is empty"),
    ("none.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n", "none.mtx",
     "none.mtx:2: the matrix has no rows"),
    ("cut.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 2 1\n", "cut.mtx",
     "cut.mtx ends after 1 entries, but its size line promises 5"),
    ("range.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 1\n", "range.mtx",
     "range.mtx:3: entry (1, 4) is outside the matrix"),
    ("x.txt", "1 2\n1 two\n", "x.txt", "x.txt:2: expected two vertex ids"),
]
# Graphs that are right, though odd: entries of a matrix of so many rows.
ODD_GRAPHS = {
    "without edges": (3, []),
    "one vertex and its loop": (1, ["1 1 2"]),
    "loops": (3, ["1 1 2", "2 2 1", "1 2 1", "3 1 4", "3 1 4"]),
}
NO_WEIGHTS = ("plain.txt", "1 2\n", "plain.txt", "plain.txt:1: expected a weight")
NEGATIVE = ("minus.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 1 -3\n", "minus.mtx",
            "minus.mtx:4: the weight -3 is not")
FAR_SOURCE = ("", "", "--rmat 5 --source 32",
              "there is no vertex 32 in R-MAT of scale 5: its 32 vertices are counted from 0")
BAD = {
    "color": BAD_GRAPHS,
    "kmeans": [
        ("", "", "--clusters 100 --dimensions 32", "clusters * (dimensions + 1) is at most 448"),
        ("", "", "--points 0", "--points"),
        ("", "", "--clusters 255", "--clusters"),
        ("", "", "--json /absent/x.json", "/absent/x.json: No such file"),
    ],
    "mer": [
        ("", "", "", "give files of reads, or --genome"),
        ("", "", "--genome 1000 --k 22", "k is odd, from 3 to 31"),
        ("", "", "--genome 1000 --k 33", "k is odd, from 3 to 31"),
        ("", "", "--genome 1000 --count-by letters", "letters not in"),
        ("", "", "--genome 50", "reads of 100 bases cannot be taken from a genome of 50"),
        ("", "", "--genome 1000 --slots 100", "the table is too small: of "),
        ("", "", "absent.fa", "absent.fa: No such file"),
        ("short.fa", ">a\nACGT\n", "short.fa", "no read has 31 bases in a row"),
        ("", "", "--genome 1000 --reference x.fa", "--reference is for reads of files"),
        ("a.fa", ">a\nACGT\n", "a.fa --reference absent.fa", "absent.fa: No such file"),
        ("cut.fq", "@a\nACGT\n+\n", "cut.fq", "cut.fq:1: the record is cut off"),
        ("bad.fa", ">a\nACET\n", "bad.fa", "bad.fa:2: 'E' is no letter"),
    ],
    "pagerank": BAD_GRAPHS + [("", "", "--rmat 5 --damping 1", "damping"),
                              ("", "", "--rmat 5 --tolerance 0", "tolerance"),
                              ("", "", "--rmat 5 --tolerance nan", "'nan' is not a number from 1e-07 to 1")],
    "sssp": [b for b in BAD_GRAPHS if b[0] != "x.txt"] + [NO_WEIGHTS, NEGATIVE, FAR_SOURCE],
}


def run(pes, nodes, options, folder, **variables):
    command = [UCX_RUN, "-n", str(pes), "--nodes", str(nodes), "--timeout", "60", PROGRAM, *options.split()]
    environment = dict(os.environ, GRAVEL_SYMMETRIC_SIZE="64M", **variables)
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
                          env=environment, check=False)


class ApplicationsTest(unittest.TestCase):
    def good(self, pes, nodes, options, folder=DATA, **variables):
        with self.subTest(pes=pes, nodes=nodes, options=options, **variables):
            done = run(pes, nodes, options, folder, **variables)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("serial", done.stdout)

    def test_inputs(self):
        runs = RUNS[NAME]
        if HAS_METIS and NAME not in ("kmeans", "mer"):
            runs = runs + METIS_RUNS
        for number, options in enumerate(runs):
            self.good(*SHAPES[number % len(SHAPES)], options)

    def test_shapes(self):
        for pes, nodes in SHAPES:
            self.good(pes, nodes, RUNS[NAME][0])

    def test_routes_and_seeds(self):
        self.good(2, 1, RUNS[NAME][0], GRAVEL_ROUTES="net")
        self.good(3, 1, RUNS[NAME][0], GRAVEL_ROUTES="peer")
        self.good(2, 1, RUNS[NAME][0], GRAVEL_CPU_SEED="4")
        self.good(3, 1, RUNS[NAME][0], GRAVEL_CPU_SEED="5", GRAVEL_ROUTES="peer")

    def test_models(self):
        for model in RIVALS:
            for pes, nodes in SHAPES:
                self.good(pes, nodes, f"{RUNS[NAME][0]} --model {model}")

    def test_models_in_many_launches(self):
        """Queues so small that launches follow each other; other inputs, seeds and routes."""
        for number, options in enumerate(RUNS[NAME][1:6]):
            shape, model = SHAPES[(number + 1) % len(SHAPES)], RIVALS[(number + 3) % len(RIVALS)]
            self.good(*shape, f"{options} --model {model} --model-queue 4096", GRAVEL_CPU_SEED=str(number))
            self.good(3, 1, f"{options} --model {RIVALS[number % 2]} --model-queue 4096",
                      GRAVEL_ROUTES=("peer", "net")[number % 2])

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            self.good(2, 1, RUNS[NAME][0] + " --json out.json", folder)
            report = json.loads((Path(folder) / "out.json").read_text())
            self.assertEqual(report["program"], NAME)
            self.assertEqual(report["pes"], 2)
            self.assertEqual(report["model"], "gravel")
            self.assertIs(report["right"], True)
            self.assertIs(report["compared_with_serial"], True)
            self.assertGreater(report["seconds"], 0)

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, options, said in BAD[NAME]:
                if name:
                    (Path(folder) / name).write_text(text)
                with self.subTest(options=options):
                    done = run(2, 1, options, folder)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(said, done.stderr)
                    self.assertEqual(done.stderr.count(said), 1, done.stderr)

    @unittest.skipIf(NAME in ("kmeans", "mer"), "of graphs")
    def test_odd_graphs(self):
        """No edges, one vertex, self-loops and repetitions, more PEs than vertices."""
        with tempfile.TemporaryDirectory() as folder:
            for name, (rows, entries) in ODD_GRAPHS.items():
                lines = ["%%MatrixMarket matrix coordinate real general", f"{rows} {rows} {len(entries)}", *entries]
                (Path(folder) / "odd.mtx").write_text("\n".join(lines) + "\n")
                with self.subTest(name):
                    for pes, nodes in ((1, 1), (4, 1), (4, 2)):
                        self.good(pes, nodes, "odd.mtx", folder)

    @unittest.skipIf(NAME not in ("kmeans", "mer"), "of kmeans and mer")
    def test_checks_without_a_serial_run(self):
        """They hold where there is no serial run to compare with, and find each kind of mistake that is made on
        purpose."""
        for number, options in enumerate(RUNS[NAME]):
            with self.subTest(options=options):
                done = run(*SHAPES[number % len(SHAPES)], f"{options} --serial-limit 0", DATA)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"(?m)^0 differences ")
                self.assertIn("not checked: that", done.stdout)
        for fault in {"kmeans": ("point", "center"), "mer": ("count", "letter")}[NAME]:
            for options in (RUNS[NAME][0], RUNS[NAME][1]):
                with self.subTest(fault=fault, options=options):
                    done = run(2, 1, f"{options} --serial-limit 0 --fault {fault}", DATA)
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    self.assertRegex(done.stdout, r"(?m)^[1-9]\d* differences ")
                    self.assertIn("the result is WRONG", done.stderr)

    @unittest.skipIf(NAME != "color", "of color")
    def test_complete_graph(self):
        """More colours than are looked at together, and all rows long ones."""
        n = 1100
        with tempfile.TemporaryDirectory() as folder:
            rows = (" ".join(str(other) for other in range(1, n + 1) if other != v) for v in range(1, n + 1))
            (Path(folder) / "k.graph").write_text(f"{n} {n * (n - 1) // 2}\n" + "\n".join(rows) + "\n")
            done = run(2, 1, "k.graph", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{n} colours, 0 mistakes", done.stdout)

    @unittest.skipIf(NAME != "mer", "of mer")
    def test_contigs_are_in_the_genome(self):
        done = run(4, 2, "--genome 2000 --coverage 30 --read-length 60 --k 11", DATA)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found, contigs = re.search(r"^(\d+) of (\d+) contigs are in the reference", done.stdout, re.M).groups()
        self.assertEqual(found, contigs)
        self.assertGreater(int(contigs), 0)

    @unittest.skipIf(NAME != "mer", "of mer")
    def test_reference(self):
        """mer reports the contigs, k-mers and covered bases of a reference that a search of its text finds."""
        random = Random(7)
        text = lambda size: "".join(random.choices("ACGT", k=size))
        turned = lambda letters: letters[::-1].translate(str.maketrans("ACGT", "TGCA"))
        repeat = text(40)
        genome = text(500) + repeat + text(400) + turned(repeat) + text(300)
        # The published genome has two sequences, unknown letters, a base that differs, and a part that was never read.
        other = genome[:250] + ("A" if genome[250] != "A" else "C") + genome[251:]
        sequences = [other[:700] + "N" + other[701:1000], text(80) + genome[1000:]]
        reads = [genome[at : at + 60] for at in range(0, len(genome) - 60, 3)]
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder)
            (made / "reads.fa").write_text("".join(f">r\n{random.choice([read, turned(read)])}\n" for read in reads))
            with gzip.open(made / "known.fa.gz", "wt") as file:
                file.write("".join(f">s\n{sequence[:200].lower()}\n{sequence[200:]}\n" for sequence in sequences))
            for k, (pes, nodes) in ((21, (3, 2)), (31, (1, 1)), (15, (4, 1))):
                options = f"reads.fa --reference known.fa.gz --k {k} --contigs out --json out.json"
                done = run(pes, nodes, options, folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                report = json.loads((made / "out.json").read_text())
                words = [word for pe in range(pes) for word in (made / f"out.{pe}").read_text().split()]
                contigs = [word for word in words if word[0] in "ACGT"]
                covered = [[False] * len(sequence) for sequence in sequences]
                whole = 0
                for contig in contigs:
                    places = [(s, at) for s, sequence in enumerate(sequences) for at in range(len(sequence))
                              if sequence.startswith(contig, at) or sequence.startswith(turned(contig), at)]
                    whole += bool(places)
                    for s, at in places:
                        covered[s][at : at + len(contig)] = [True] * len(contig)
                of_k = [s[i : i + k] for s in sequences for i in range(len(s) - k + 1)]
                known = {min(kmer, turned(kmer)) for kmer in of_k if "N" not in kmer}
                counts = {}
                for read in reads:
                    for at in range(len(read) - k + 1):
                        kmer = min(read[at : at + k], turned(read[at : at + k]))
                        counts[kmer] = counts.get(kmer, 0) + 1
                expected = (whole, sum(map(sum, covered)), sum(len(s) - s.count("N") for s in sequences), len(known),
                            sum(counts.get(kmer, 0) >= 2 for kmer in known))
                names = ("in_reference", "reference_covered", "reference_bases", "reference_kmers",
                         "reference_kmers_seen")
                self.assertEqual(tuple(report[name] for name in names), expected)
                self.assertTrue(0 < whole < len(contigs), "contigs of both kinds")
                self.assertIn(f"{whole} of {len(contigs)} contigs are in the reference as a whole", done.stdout)

    @unittest.skipIf(NAME != "mer", "of mer")
    def test_skew(self):
        """Reads of one letter, equal and periodic reads, short ones and unknown letters among random ones: bins that a
        sample finds too small, lists that are read several times, several rounds. Both ways to count agree."""
        random = Random(5)
        text = lambda size: "".join(random.choices("ACGT", k=size))
        equal = text(60)
        reads = [text(50) for _ in range(60)] + ["A" * 200] * 15 + [equal] * 40 + ["ACACACACAT" * 5] * 10
        reads += ["", "N", text(30), text(31), text(29) + "N" + text(33), "NN".join(text(size) for size in range(40))]
        checksums = {}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "skew.fa").write_text("".join(f">r\n{read}\n" for read in reads))
            for number, (k, by) in enumerate(((31, "minimizers"), (3, "minimizers"), (31, "messages"), (3, "messages"),
                                              (31, "minimizers"), (13, "minimizers"))):
                options = f"skew.fa --k {k} --count-by {by} --min-count 3 --json out.json"
                self.good(*SHAPES[number % 4], options, folder, GRAVEL_CPU_SEED=str(number + 1))
                report = json.loads((Path(folder) / "out.json").read_text())
                self.assertEqual(report["count_by"], by)
                self.assertEqual(checksums.setdefault(k, report["checksum"]), report["checksum"])

    @unittest.skipIf(NAME != "mer", "of mer")
    def test_real_reads(self):
        """Real reads of E. coli, where the package that has them is installed."""
        found = subprocess.run([TOOLS / "real_reads", "ecoli"], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            self.skipTest(found.stderr.strip())
        done = run(4, 2, found.stdout.strip(), DATA)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 of 4 contigs are in the reference as a whole, on either strand: they cover 992 of its 1000 "
                      "bases", done.stdout)
        self.assertIn("0 wrong k-mers and contigs, compared with a serial", done.stdout)

    @unittest.skipIf(NAME != "mer", "of mer")
    def test_reads_of_files(self):
        """Counters that are full, circles, a contig that is its own reverse complement, unknown letters, FASTQ in gzip;
        contigs as FASTA."""
        plain = "ACGGTCATTGCAAGGCTTAC"
        hairpin = plain + plain[::-1].translate(str.maketrans("ACGT", "TGCA"))
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder)
            (made / "many_a.fa").write_text(">a\n" + "A" * 70000 + "\n")
            (made / "circle.fa").write_text(f">a\n{plain * 3}\n")
            (made / "hairpin.fa").write_text(f">a\n{hairpin}\n>b\n{hairpin}\n")
            (made / "n.fa").write_text(f">a\n{plain}N{plain}\nACCGT\n")
            with gzip.open(made / "q.fq.gz", "wt") as file:
                file.write(f"@a\n{plain}\n+\n{'@' * len(plain)}\n" * 2)
            for options, said in (
                ("many_a.fa --k 31", "0 contigs, 0 bases, the longest 0, N50 0; 1 k-mers on circles"),
                ("circle.fa --k 7", "20 k-mers on circles"),
                ("hairpin.fa --k 7", "1 contigs, 40 bases"),
                ("n.fa --k 7 --min-count 1", "1 contigs, 25 bases"),
                ("q.fq.gz --k 7 --contigs out", "1 contigs, 20 bases"),
            ):
                for pes, nodes in ((1, 1), (3, 2)):
                    with self.subTest(options=options, pes=pes):
                        done = run(pes, nodes, options, folder)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        self.assertIn(said, done.stdout)
            written = "".join(path.read_text() for path in made.glob("out.*"))
            self.assertIn(plain, written + "\n" + written.translate(str.maketrans("ACGT", "TGCA"))[::-1])

    def test_help(self):
        done = run(2, 1, "--help", DATA)
        self.assertEqual((done.returncode, done.stdout.count("Usage:")), (0, 1), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
