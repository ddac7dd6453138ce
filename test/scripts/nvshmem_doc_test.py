"""docs/nvshmem.md names every call of NVSHMEM: those of test/data/nvshmem_calls.txt (families: T is a type, N a size,
OP an operation, SCOPE block, warp or warpgroup), each in one row, which says what stands for it or why nothing does;
and what stands for it exists. The header lib/gravel/nvshmem/nvshmem.h declares each call by each type, size, operation
and scope, unless the page says that it does not have it, and why. Usage: nvshmem_doc_test.py [COMPILER...]"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = (ROOT / "test" / "data" / "nvshmem_calls.txt").read_text().split()
COMPILER = sys.argv[1:] or ["c++"]
PAGE = (ROOT / "docs" / "nvshmem.md").read_text()


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()
            if line.startswith("| ")]


ROWS = rows_of(PAGE[PAGE.index("## Every call"):])
MISSING = {name: row[1] for row in rows_of(re.search(r"### What the header does not have\n(.*?)\n## ", PAGE, re.S)[1])
           for name in re.findall(r"`(\w+)`", row[0])}

# NVSHMEM's types, by the calls that have them.
BITS = ["uint", "ulong", "ulonglong", "int32", "uint32", "int64", "uint64"]
ATOMIC = [*BITS, "int", "long", "longlong", "size", "ptrdiff"]
FLOATS = ["half", "float", "double"]
WAIT = [*ATOMIC, "short", "ushort"]
MOVED = [*WAIT, *FLOATS, "bfloat16", "char", "schar", "uchar", "int8", "int16", "uint8", "uint16"]
BITWISE = [*BITS, "uchar", "ushort", "int8", "int16", "uint8", "uint16", "size"]
REDUCED = [*BITWISE, *FLOATS, "bfloat16", "char", "schar", "short", "int", "long", "longlong"]


def types_of(call):
    """The types for which NVSHMEM has a call."""
    if re.search(r"atomic_(fetch_)?(and|or|xor)$", call):
        return BITS
    if call.startswith("nvshmemx_T_atomic"):
        return FLOATS
    if call.endswith(("atomic_set", "atomic_fetch")):
        return [*ATOMIC, *FLOATS]
    if call.endswith("atomic_swap"):
        return [*ATOMIC, "float", "double"]
    if "atomic" in call:
        return ATOMIC
    return WAIT if re.search(r"_T_(wait|test)", call) else MOVED


def members_of(call):
    """The names of a family."""
    if "_T_OP_" in call:
        for op in ("and", "or", "xor", "min", "max", "sum", "prod"):
            for of_type in BITWISE if op in ("and", "or", "xor") else REDUCED:
                yield from members_of(call.replace("_T_OP_", f"_{of_type}_{op}_"))
    elif "_T_" in call:
        for of_type in types_of(call):
            yield from members_of(call.replace("_T_", f"_{of_type}_"))
    elif re.search(r"(put|get)N", call):
        for size in (8, 16, 32, 64, 128):
            yield from members_of(re.sub("(put|get)N", rf"\g<1>{size}", call))
    elif call.endswith("_SCOPE"):
        yield from (call.replace("SCOPE", scope) for scope in ("warp", "block"))
    else:
        yield call


def declared():
    """The names of NVSHMEM that the header declares or defines as macros, as a compiler for the processor sees it."""
    header = ROOT / "lib/gravel/nvshmem/nvshmem.h"
    command = [*COMPILER, "-std=c++20", "-E", "-dD", "-x", "c++", f"-I{ROOT}", f"-I{ROOT / 'lib'}", str(header)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?:[\w*>&]\s+|\*)(nvshmemx?_\w+)\s*\(", text)) | set(
        re.findall(r"#define (nvshmemx?_\w+)", text))


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
        # These are for modules of CUDA, or for attributes of its launches.
        on_gpus = {"nvshmemx_cumodule_init", "nvshmemx_cumodule_finalize", "nvshmemx_culibrary_init",
                   "nvshmemx_culibrary_finalize", "nvshmemx_collective_launch_attr"}
        has = declared() | on_gpus
        for call in CALLS:
            with self.subTest(call=call):
                if call in MISSING:
                    self.assertTrue(MISSING[call], "no reason")
                    self.assertFalse([name for name in members_of(call) if name in has], "the header has it")
                else:
                    self.assertEqual([name for name in members_of(call) if name not in has], [], "not in the header")
        source = "".join((ROOT / "lib/gravel/nvshmem" / name).read_text() for name in ("setup.cuh", "launch.cuh"))
        for call in on_gpus:
            self.assertIn(f"inline int {call}(", source)

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
