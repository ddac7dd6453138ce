"""tools/machine_code: what it says of functions that are the same, that changed, and of files that are no cubins."""

import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "tools" / "machine_code"


def elf(functions):
    """An ELF file with a section .text.NAME of 16-byte instructions for each function; an instruction is its kind."""
    names, body, sections = b"\0", b"", [(0, 0, 0)]
    begin = 64
    for name, kinds in functions.items():
        code = b"".join(struct.pack("<H14x", kind) for kind in kinds)
        sections.append((len(names), begin + len(body), len(code)))
        names += b".text." + name.encode() + b"\0"
        body += code
    sections.append((0, begin + len(body), len(names)))
    body += names
    header = b"\x7fELF\x02" + bytes(0x28 - 5) + struct.pack("<Q", begin + len(body)) + bytes(0x3A - 0x30)
    header += struct.pack("<HHH", 64, len(sections), len(sections) - 1)
    table = b"".join(struct.pack("<IIQQQQ", name, 1, 0, 0, at, size) + bytes(24) for name, at, size in sections)
    return header + body + table


class MachineCode(unittest.TestCase):
    def run_on(self, before, after):
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("before.cubin", "after.cubin")]
            for file, content in zip(files, (before, after)):
                file.write_bytes(content)
            done = subprocess.run([sys.executable, PROGRAM, *files], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_other_names(self):
        status, text = self.run_on(elf({"a": [1, 2], "b": [3]}), elf({"x": [3], "y": [1, 2]}))
        self.assertEqual(status, 0)
        self.assertIn("2 of 2 functions are the same; 3 instructions before, 3 after, 0 of other kinds", text)

    def test_other_order(self):
        status, text = self.run_on(elf({"a": [1, 2]}), elf({"a": [2, 1]}))
        self.assertEqual(status, 1)
        self.assertIn("0 of 1 functions are the same; 2 instructions before, 2 after, 0 of other kinds", text)

    def test_other_code(self):
        status, text = self.run_on(elf({"a": [1, 2], "b": [3]}), elf({"a": [1, 4, 5], "b": [3]}))
        self.assertEqual(status, 1)
        self.assertIn("1 of 2 functions are the same; 3 instructions before, 4 after, 2 of other kinds", text)
        self.assertIn("after: 3 instructions, a", text)

    def test_two_functions_alike(self):
        status, text = self.run_on(elf({"a": [1], "b": [1]}), elf({"a": [1]}))
        self.assertEqual(status, 1)
        self.assertIn("before: 1 instructions, ", text)

    def test_no_cubin(self):
        for content in (b"", b"text", elf({})):
            status, text = self.run_on(content, content)
            self.assertEqual(status, 2)
            self.assertIn("machine_code: ", text)


if __name__ == "__main__":
    unittest.main()
