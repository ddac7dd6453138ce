#!/usr/bin/env python3
"""Each program of a build finds the libraries that it needs, from wherever it is started: programs for GPUs too, which
no machine without a GPU starts. Usage: loads_test.py BUILD_DIRECTORY"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
FOLDERS = ("transport", "host", "examples", "bench", "bench/perf", "test/jobs")


def programs():
    for folder in FOLDERS:
        for path in sorted((BUILD / folder).glob("*")):
            if path.is_file() and os.access(path, os.X_OK) and path.suffix == "":
                with path.open("rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


class LoadsTest(unittest.TestCase):
    def test_libraries(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        found = list(programs())
        self.assertGreater(len(found), 10)
        for path in found:
            with self.subTest(str(path.relative_to(BUILD))):
                listed = subprocess.run(["ldd", path], cwd="/", env=environment, capture_output=True, text=True,
                                        check=False)
                self.assertNotIn("not found", listed.stdout + listed.stderr)


if __name__ == "__main__":
    unittest.main()
