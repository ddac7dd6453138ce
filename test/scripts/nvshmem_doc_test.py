"""docs/nvshmem.md names every call of NVSHMEM: those of test/data/nvshmem_calls.txt (families: T is a type, N a size,
OP an operation, SCOPE block, warp or warpgroup), each in one row, which says what stands for it or why nothing does;
and what stands for it exists. The header lib/gravel/nvshmem/nvshmem.h declares each call by each type, size, operation
and scope as NVSHMEM does, and test/jobs/nvshmem_job.cu calls it, unless the page says that it does not have it, and
why. tools/nvshmem_calls.py compares the families with NVSHMEM's headers.
Usage: nvshmem_doc_test.py [COMPILER...]"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import nvshmem_calls  # noqa: E402

CALLS = list(nvshmem_calls.FAMILIES)
COMPILER = sys.argv[1:] or ["c++"]
FLAGS = ["-std=c++20", f"-I{ROOT}", f"-I{ROOT / 'lib'}", f"-I{ROOT / 'lib/gravel/nvshmem'}"]
PAGE = (ROOT / "docs" / "nvshmem.md").read_text()


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()
            if line.startswith("| ")]


ROWS = rows_of(PAGE[PAGE.index("## Every call"):])
MISSING = {name: row[1] for row in rows_of(re.search(r"### What the header does not have\n(.*?)\n## ", PAGE, re.S)[1])
           for name in re.findall(r"`(\w+)`", row[0])}
# These are for modules of CUDA's driver, or for attributes of its launches: without CUDA the header lacks them.
ON_GPUS = ["nvshmemx_cumodule_init", "nvshmemx_cumodule_finalize", "nvshmemx_culibrary_init",
           "nvshmemx_culibrary_finalize", "nvshmemx_collective_launch_attr"]


def members(calls):
    return {name for call in calls for name, _ in nvshmem_calls.members_of(call)}


def calls_in(text):
    return set(re.findall(r"\bnvshmemx?_\w+(?=\s*\()", text))


def preprocessed_job():
    """The test's source with its macros expanded: without and with the headers."""
    job = ROOT / "test/jobs/nvshmem_job.cu"
    command = [*COMPILER, *FLAGS, "-E", "-x", "c++", str(job)]
    whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    is_own, own = False, []
    for line in whole.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        is_own = marker[1] == str(job) if marker else is_own
        own.append(line if is_own and not marker else "")
    return "\n".join(own), whole


class NvshmemDocTest(unittest.TestCase):
    def test_calls(self):
        self.assertGreater(len(CALLS), 200)
        for call in CALLS:
            rows = [row for row in ROWS if f"`{call}`" in row[0]]
            with self.subTest(call=call):
                self.assertEqual(len(rows), 1, "rows that name it")
                self.assertEqual(len(rows[0]), 3)
                self.assertTrue(rows[0][1] != "-" or rows[0][2], "there is no such call, and no reason")

    def test_header(self):
        for name, reason in MISSING.items():
            with self.subTest(name=name):
                self.assertTrue(reason, "no reason")
        # CUDA's types on the processor.
        types = ("#define half gravel::detail::nvshmem::half_type\n#define cudaStream_t gravel_stream_t\n"
                 "#define __nv_bfloat16 gravel::detail::nvshmem::bfloat16_type\n")
        left_out = members(MISSING) | set(MISSING) | set(ON_GPUS)
        with tempfile.TemporaryDirectory() as place:
            source = Path(place) / "calls.cpp"
            source.write_text(nvshmem_calls.INCLUDES + types + nvshmem_calls.assertions(left_out))
            said = subprocess.run([*COMPILER, *FLAGS, "-fsyntax-only", str(source)], capture_output=True, text=True)
        errors = [line for line in said.stderr.splitlines() if "error" in line]
        self.assertEqual(errors[:20], [], "calls that the header lacks, or has with another type")
        source = "".join((ROOT / "lib/gravel/nvshmem" / name).read_text() for name in ("setup.cuh", "launch.cuh"))
        for call in ON_GPUS:
            self.assertIn(f"inline int {call}(", source)

    def test_each_call_has_a_test(self):
        own, whole = preprocessed_job()
        called = calls_in(own)
        if "nvshmem_team_sync" in called:
            called.add("nvshmem_sync")  # a macro
        left_out = members(MISSING) | set(MISSING)
        self.assertEqual(sorted(members(CALLS) - left_out - set(ON_GPUS) - called), [])
        self.assertEqual(sorted(left_out & calls_in(whole)), [], "the header has them")

    def test_nothing_else_is_called_nvshmem(self):
        for row in ROWS:
            for name in re.findall(r"`((?:nvshmemx?|tile)_\w+)`", row[0]):
                with self.subTest(name=name):
                    self.assertIn(name, CALLS)

    def test_what_stands_for_it(self):
        headers = [path for folder in ("device", "host", "lib") for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".cuh", ".hpp")]
        known = set(re.findall(r"\bgravel_\w+", "\n".join(path.read_text() for path in headers)))
        for row in ROWS:
            for name in re.findall(r"\bgravel_\w+", " ".join(row[1:])):
                with self.subTest(name=name):
                    self.assertIn(name.replace("_SCOPE", "_block"), known)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
