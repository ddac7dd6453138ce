"""A part of a GPU that has too few multiprocessors for a PE is refused when the job starts, with a sentence that says
what there is and what is needed. Run it under MPS. Usage: small_part_test.py UCX_RUN JOB"""

import os
import subprocess
import sys
import unittest

UCX_RUN, JOB = sys.argv[1:3]


def run(percentage):
    """Runs one PE with so much of a GPU, and returns its exit status and what it prints."""
    environment = os.environ | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
    done = subprocess.run([UCX_RUN, "-n", "1", "--timeout", "60", JOB, "short"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


class SmallPart(unittest.TestCase):
    def test_too_small(self):
        status, text = run(1)
        self.assertNotEqual(status, 0, text)
        self.assertRegex(text, r"GPU 0 has [1-3] multiprocessors for this PE \(1 PEs use it at once; "
                               r"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is 1\); Gravel needs 4")

    def test_small(self):
        status, text = run(10)
        self.assertEqual(status, 0, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
