"""Kinds of handles by which PEs share memory (GRAVEL_HANDLE_TYPE): what the driver permits works, and what it does not
is refused with a sentence, while `auto` goes on without it. A program for GPUs is compared with what gravel-info says.
Usage: handles_test.py UCX_RUN JOB"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

UCX_RUN, JOB = sys.argv[1:3]
INFO = Path(UCX_RUN).resolve().parents[1] / "host/gravel-info"
ON_CPU = JOB.endswith("-cpu")


def run(kind, nodes=1, **variables):
    """Runs two PEs, and returns their exit status and what they print."""
    environment = os.environ | {"GRAVEL_HANDLE_TYPE": kind, "GRAVEL_LOG": "info", "GRAVEL_ROUTES": "auto"} | variables
    done = subprocess.run([UCX_RUN, "-n", "2", "--nodes", str(nodes), "--timeout", "60", JOB], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


class Handles(unittest.TestCase):
    def setUp(self):
        self.found = json.loads(subprocess.run([INFO, "--json"], stdout=subprocess.PIPE, check=True).stdout)

    def works(self, kind):
        return ON_CPU or self.found[kind]["works"]

    def test_auto_goes_on(self):
        status, text = run("auto")
        self.assertEqual(status, 0, text)
        if not ON_CPU:
            self.assertRegex(text, "memory of the GPU is shared by")

    def test_fabric(self):
        status, text = run("fabric")
        if self.works("fabric_handles"):
            self.assertEqual(status, 0, text)
            if not ON_CPU:
                self.assertIn("memory of the GPU is shared by fabric handles", text)
            return
        self.assertNotEqual(status, 0, text)
        why = "no IMEX channel|no fabric handles|no virtual memory"
        self.assertTrue(re.search(f"GRAVEL_HANDLE_TYPE=fabric: .*({why})", text), text)

    def test_domain(self):
        """Emulated nodes are domains of their own, unless GRAVEL_DOMAIN says that all that handles reach is one."""
        routes = "peer" if ON_CPU else "auto"
        for domain, is_one in {"auto": False, "node": False, "handles": True}.items():
            with self.subTest(domain=domain):
                status, text = run("auto", nodes=2, GRAVEL_DOMAIN=domain, GRAVEL_ROUTES=routes)
                self.assertEqual(status, 0, text)
                self.assertEqual("2 PEs of 2 nodes can map each other's memory: " in text, is_one, text)
                self.assertEqual("rings for the route peer: " in text, is_one, text)

    def test_others(self):
        for kind in ["ipc"] + ["descriptor"] * self.works("descriptors"):
            with self.subTest(kind=kind):
                status, text = run(kind)
                self.assertEqual(status, 0, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
