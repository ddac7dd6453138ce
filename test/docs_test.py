"""README.md and docs/ tell the truth: their programs compile and run, their excerpts are what the files say, their links and file names exist, and the labels
and settings they name are in the sources. Usage: docs_test.py BUILD_FOLDER COMPILER..."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(sys.argv[1]).resolve()
COMPILER = sys.argv[2:]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = ("lib", "device", "host", "transport")


def programs():
    """(page, name, text) of each ```cpp block whose first line is `// file: NAME.cu`."""
    for page in PAGES:
        for text in re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.M | re.S):
            name = re.match(r"// file: (\w+\.cu)\n", text)
            if name:
                yield page.name, name[1], text


def excerpts():
    """(page, source file, text) of each ```cpp block whose first line is `// from: PATH`."""
    for page in PAGES:
        for name, text in re.findall(r"^```cpp\n// from: (\S+)\n(.*?)^```", page.read_text(), re.M | re.S):
            yield page.name, name, text


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(page):
    """As GitHub makes them from headings."""
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class DocsTest(unittest.TestCase):
    def build_and_run(self, folder, name, text):
        """What went wrong, or an empty string. As C++: the CPU backend."""
        source, program = folder / name, folder / Path(name).stem
        source.write_text(text)
        library = BUILD / "host"
        # Gravel's own headers as system headers: no warnings but the program's own.
        headers = ["-isystem", str(ROOT), "-isystem", str(ROOT / "host")]
        compile_it = [*COMPILER, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", *headers]
        compile_it += ["-x", "c++", str(source), "-x", "none", f"-L{library}", "-lgravel", "-lfmt"]
        run_it = [BUILD / "transport" / "ucx-run", "-n", "3", "--nodes", "2", "--timeout", "60", program]
        # What a program computes does not depend on the route that its messages take.
        by_queue = dict(os.environ, GRAVEL_ROUTES="net")
        for command, environment in (([*compile_it, f"-Wl,-rpath,{library}", "-o", str(program)], None), (run_it, by_queue), (run_it, None)):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                return f"{command[0]} ended with status {done.returncode}\n{done.stdout}{done.stderr}"
        # The one of README.md does not check itself.
        if name == "hello.cu" and done.stdout.count("of 3: 1024 increments\n") != 3:
            return f"unexpected output: {done.stdout}"
        return ""

    def test_programs(self):
        found = list(programs())
        names = [name for _, name, _ in found]
        self.assertIn("hello.cu", names)
        self.assertEqual(len(set(names)), len(names), "two programs have the same name")
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            wrong = pool.map(lambda program: self.build_and_run(Path(folder), *program[1:]), found)
            for (page, name, _), why in zip(found, wrong):
                with self.subTest(page=page, program=name):
                    if why:
                        self.fail(why)

    def test_excerpts(self):
        self.assertTrue(list(excerpts()))
        for page, name, text in excerpts():
            with self.subTest(page=page, file=name):
                self.assertIn(text, (ROOT / name).read_text(), "no longer what the file says")

    def test_links(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)]+)\)", without_code(page.read_text())):
                if link.startswith(("http:", "https:")):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                with self.subTest(page=page.name, link=link):
                    self.assertTrue(target.exists(), "no such file")
                    if anchor and target.suffix == ".md":  # keys of result files: numbers_test.py
                        self.assertIn(anchor, list(anchors(target)))

    def test_file_names(self):
        top = "|".join((*SOURCES, "examples", "test", "tools"))
        for page in PAGES:
            for name in re.findall(rf"`((?:{top})/[\w./*-]+)`", without_code(page.read_text())):
                with self.subTest(page=page.name, name=name):
                    self.assertTrue(list(ROOT.glob(name)), "no such file")

    def test_names_in_sources(self):
        sources = "\n".join(
            path.read_text() for part in SOURCES for path in (ROOT / part).rglob("*") if path.suffix in (".cpp", ".hpp", ".cuh")
        )
        for page in PAGES:
            text = page.read_text()
            used = set(re.findall(r"\[[A-Z]\d\]", text)) | set(re.findall(r"\b(?:GRAVEL|gravel)_[A-Za-z_]*[A-Za-z]\b", text))
            for name in sorted(used):
                with self.subTest(page=page.name, name=name):
                    self.assertIn(name, sources)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
