"""The man pages: groff has no warning, and all options of --help are in them. Skipped (77) without help2man.
Usage: man_pages_test.py FOLDER [NAME PROGRAM]...
FOLDER has the pages; NAME is the name of a program where it is installed."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER = Path(sys.argv[1])
PROGRAMS = dict(zip(sys.argv[2::2], sys.argv[3::2]))


class ManPages(unittest.TestCase):
    def test_warnings(self):
        if shutil.which("man"):
            command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8"]
        elif shutil.which("groff"):
            command = ["groff", "-man", "-ww", "-Tutf8"]
        else:
            self.skipTest("neither man nor groff is there")
        for name in PROGRAMS:
            with self.subTest(name):
                done = subprocess.run([*command, FOLDER / f"{name}.1"], capture_output=True, text=True, check=True,
                                      env=os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
                self.assertEqual(done.stderr, "")

    def test_options(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
                options = re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)
                self.assertIn("--help", options)
                # Without fonts and escaped hyphens.
                page = re.sub(r"\\f.|\\[,/]", "", (FOLDER / f"{name}.1").read_text()).replace("\\-", "-")
                self.assertEqual([option for option in options if option not in page], [])

    def test_sections(self):
        for name in PROGRAMS:
            titles = re.findall(r'^\.SH "?([^"\n]*)', (FOLDER / f"{name}.1").read_text(), re.M)
            with self.subTest(name):
                self.assertLessEqual({"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS",
                                      "EXAMPLES", "SEE ALSO"}, set(titles))


if __name__ == "__main__":
    if not (FOLDER / "ucx-run.1").exists():
        print("skipped: the man pages were not built, as help2man was not found")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
