"""Mistakes that the compiler finds are told in one readable line: each program here is refused, by exactly one error. And right
programs bring no warnings of Gravel's headers.

Usage: compile_errors_test.py SOURCE_DIRECTORY COMPILER...
"""
import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCE, COMPILER = sys.argv[1], sys.argv[2:]
KERNEL = '#include "gravel.cuh"\n__global__ void kernel(gravel_t, uint64_t*, int) {}\n__global__ void refers(const int&) {}\n'


def compile_errors(program, compiler=COMPILER, *options):
    command = [*compiler, "-std=c++20", "-fsyntax-only", '-DGRAVEL_VERSION="0"', f"-I{SOURCE}", f"-I{SOURCE}/device", *options, "-x", "c++", "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=200)
    return [line for line in done.stderr.splitlines() if "error:" in line]


class CompileErrors(unittest.TestCase):
    def assert_refused(self, program, reason):
        errors = compile_errors(program)
        self.assertEqual(len(errors), 1, "\n".join(errors))
        self.assertIn(reason, errors[0])

    def launch(self, call):
        return KERNEL + "void f(uint64_t* words) { " + call + " }\n"

    def test_launch(self):
        self.assertEqual(compile_errors(self.launch("gravel_launch(kernel, 1, 32, gravel_handle(), words, 1);")), [])
        self.assert_refused(self.launch("gravel_launch(kernel, 1, 32, gravel_handle(), words);"),
                            "gravel_launch: the kernel takes another number of arguments")
        self.assert_refused(self.launch("gravel_launch(kernel, gravel_launch_config{}, gravel_handle(), 7.0, 1);"),
                            "gravel_launch: an argument cannot be converted to the kernel's parameter")
        self.assert_refused(self.launch("gravel_launch(refers, 1, 32, 1);"),
                            "gravel_launch: a kernel's parameters are values, not references")

    def test_no_warnings(self):
        """The program that uses the whole interface, and the block sender's: as strict users compile."""
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
        for compiler in [COMPILER] + [[path] for path in [shutil.which("clang++")] if path]:
            for name in ["operations_job.cu", "am_job.cu", "block_sender_job.cu"]:
                with self.subTest(compiler=compiler, program=name):
                    self.assertEqual(compile_errors((pathlib.Path(SOURCE) / "test" / name).read_text(), compiler, *strict), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
