"""The statistics of a job by PE, and tools/stats_picture on them. Usage: stats_picture_test.py UCX_RUN WATCHED_JOB"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "stats_picture"
UCX_RUN, PROGRAM = sys.argv[1:3]
SMALL = {"n_pes": 2, "n_nodes": 1, "messages_taken": 30, "messages_to_self": 1, "messages_off_node": 0,
         "messages_in_place": 5, "messages_to_peers": 7,
         "messages_by_pe": {"through_queue": [[1, 20], [9, 0]], "in_place": [5, 0], "to_peers": [0, 7]}}


class StatsPicture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def draw(self, text):
        (self.folder / "job.json").write_text(text)
        return subprocess.run([sys.executable, TOOL, self.folder / "job.json"], capture_output=True, text=True)

    def check_picture(self, stats):
        done = self.draw(json.dumps(stats))
        if "matplotlib is missing" in done.stderr:
            self.skipTest("matplotlib is missing")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual((self.folder / "job.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_small_file(self):
        self.check_picture(SMALL)

    def test_file_without_matrix(self):
        self.check_picture({name: value for name, value in SMALL.items() if name != "messages_by_pe"})

    def test_job(self):
        (self.folder / "go").touch()  # it sends nothing but what the start and the end of a job need
        done = subprocess.run([UCX_RUN, "-n", "3", "--nodes", "2", f"--stats={self.folder / 'stats.json'}", PROGRAM,
                               self.folder / "go", self.folder / "go"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        stats = json.loads((self.folder / "stats.json").read_text())
        by_pe = stats["messages_by_pe"]
        self.assertEqual([len(row) for row in by_pe["through_queue"]], [3, 3, 3])
        self.assertEqual(sum(map(sum, by_pe["through_queue"])), stats["messages_taken"])
        self.assertEqual(sum(by_pe["in_place"]), stats["messages_in_place"])
        self.assertEqual(sum(by_pe["to_peers"]), stats["messages_to_peers"])
        self.check_picture(stats)

    def test_wrong_files(self):
        broken = {**SMALL, "messages_by_pe": {**SMALL["messages_by_pe"], "through_queue": [[1, 20]]}}
        for text, why in (("{", "is not JSON"), ("[]", "has no number 'n_pes'"), ("{}", "has no number 'n_pes'"),
                          (json.dumps({**SMALL, "messages_taken": -1}), "has no number 'messages_taken'"),
                          (json.dumps(broken), "does not have a number for each of 2 PEs")):
            with self.subTest(text=text):
                done = self.draw(text)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(why, done.stderr)
                self.assertFalse((self.folder / "job.png").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
