"""docs/nvshmem.md names every call of NVSHMEM: those of test/data/nvshmem_calls.txt (families: T is a type, N a size,
OP an operation, SCOPE block, warp or warpgroup), each in one row, which says what stands for it or why nothing does;
and what stands for it exists."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = (ROOT / "test" / "data" / "nvshmem_calls.txt").read_text().split()
ROWS = [[cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (ROOT / "docs" / "nvshmem.md").read_text().splitlines() if line.startswith("| ")]


class NvshmemDocTest(unittest.TestCase):
    def test_calls(self):
        self.assertGreater(len(CALLS), 200)
        for call in CALLS:
            rows = [row for row in ROWS if f"`{call}`" in row[0]]
            with self.subTest(call=call):
                self.assertEqual(len(rows), 1, "rows that name it")
                self.assertEqual(len(rows[0]), 3)
                self.assertTrue(rows[0][1] != "-" or rows[0][2], "there is no such call, and no reason")

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
                    self.assertIn(name, known)


if __name__ == "__main__":
    unittest.main()
