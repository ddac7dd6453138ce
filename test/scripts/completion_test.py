"""Shell completion: what bash completes for command lines of each program, and that it knows all options of --help.
Usage: completion_test.py FOLDER [NAME PROGRAM]...
FOLDER has the files of tools/completion; NAME is the name of a program where it is installed."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(sys.argv[1])
PROGRAMS = dict(zip(sys.argv[2::2], sys.argv[3::2]))

# Sources $1, and calls the function that it registers for $2, with the words of a command line: $3 and so on.
CALL = """
source "$1"
function=$(complete -p "$2" | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
"$function"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(name, *words, folder="/"):
    """What bash offers for the last of the words."""
    done = subprocess.run(["bash", "--norc", "-uc", CALL, "bash", FOLDER / name, name, *words], cwd=folder,
                          capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return done.stdout.split("\n")[:-1]


def long_options(program, *arguments):
    """The long options that stand in front of the descriptions of --help."""
    text = subprocess.run([program, *arguments, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    heads = re.findall(r"^  (-.*?)(?:  |$)", text, re.M)
    return {option for head in heads for option in re.findall(r"(?:^|,\s*)(--[\w-]+)", head)}


class Completion(unittest.TestCase):
    def check(self, expected, *words, folder="/"):
        with self.subTest(words=words):
            self.assertEqual(completed(*words, folder=folder), expected)

    def test_all_options(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                known = long_options(program)
                self.assertIn("--help", known)
                self.assertLessEqual(known, set(completed(name, "--")))
                zsh = (FOLDER / f"_{name}").read_text()
                self.assertEqual({option for option in known if not re.search(f"{option}[[=]", zsh)}, set())

    def test_ucx_run(self):
        self.check(["--nodes"], "ucx-run", "--no")
        self.check(["--timeout"], "ucx-run", "-n", "4", "--tag-output", "--host", "a", ":", "8,b", ":", "8", "--ti")
        self.check(["--quiet"], "ucx-run", "-np", "4", "--stats", "=", "file", "--q")
        self.check(["--quiet"], "ucx-run", "-x", "A", "=", "b", "--stats", "-n4", "--q")
        for words in (["-n", ""], ["--np", "="], ["--np", "=", "4"], ["-H", "a", ":", ""], ["-x", "A", "=", "b"]):
            self.check([], "ucx-run", *words)
        self.assertIn("PATH", completed("ucx-run", "-x", "PA"))

    def test_ucx_run_program(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("program", "--dry-file"):
                Path(folder, name).touch()
            Path(folder, "directory").mkdir()
            self.check(["./program"], "ucx-run", "-n", "4", "./p", folder=folder)
            self.check(["./program"], "ucx-run", "--", "./p", folder=folder)
            self.check(["--dry-file"], "ucx-run", "--", "--dry", folder=folder)
            # Behind the program there are files alone.
            self.check(["--dry-file"], "ucx-run", "-n", "4", "./program", "--dry", folder=folder)
            self.check(["--dry-file"], "ucx-run", "--", "./program", "--dry", folder=folder)
            self.check(["program"], "ucx-run", "-n", "4", "./program", "--nodes", "p", folder=folder)
            self.check([], "ucx-run", "-n", "4", "./program", "--nod", folder=folder)
            self.check(["program"], "ucx-run", "--stats", "=", "p", folder=folder)
            self.check(["directory"], "ucx-run", "--wdir", "", folder=folder)
        self.assertIn("bash", completed("ucx-run", "-n", "4", "bas"))

    def test_gravel_info(self):
        self.check(["--json"], "gravel-info", "-c", "--j")
        self.check([], "gravel-info", "")

    def test_gravel_top(self):
        self.check(["--json", "--job"], "gravel-top", "--once", "--j")
        self.check([], "gravel-top", "--interval", "")

    def test_gravel_gups(self):
        self.check(["xor", "inc"], "gravel-gups", "--mode", "")
        self.check(["xor", "inc"], "gravel-gups", "--mode", "=")
        self.check(["inc"], "gravel-gups", "--mode", "=", "i")
        self.check(["--no-verify"], "gravel-gups", "--mode", "inc", "--no")
        self.check([], "gravel-gups", "--table-log2", "")

    def test_compilers(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "hello.cu").touch()
            for name in PROGRAMS.keys() & {"gravel-c++", "gravel-nvcc"}:
                self.check(["--show"], name, "--s")
                self.check(["hello.cu"], name, "-O2", "h", folder=folder)

    def test_gravel_perf(self):
        for name in PROGRAMS.keys() & {"gravel-perf", "gravel-perf-cpu"}:
            self.check(["quiet_latency", "quiescence_latency", "queue"], name, "--json", "queue", "qu")
            self.check(["--scope"], name, "queue", "--sc")
            self.check(["--repeat"], name, "queue", "--repe")
            self.check([], name, "p_latency", "--sc")
            self.check(["thread", "warp", "block"], name, "queue", "--slots", "8", "--scope", "")
            self.check(["warp"], name, "--grid", "=", "4", "queue", "--scope", "=", "w")
            for command in completed(name, ""):
                self.assertLessEqual(long_options(PROGRAMS[name], command), set(completed(name, command, "--")))

    def test_syntax(self):
        for shell, prefix in (("bash", ""), ("zsh", "_")):
            for name in PROGRAMS if shutil.which(shell) else ():
                subprocess.run([shell, "-n", FOLDER / f"{prefix}{name}"], check=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
