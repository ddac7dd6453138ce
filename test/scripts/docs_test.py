"""README.md and docs/ are true: their programs compile and run, their excerpts are what the files say, their links and
file names exist, and the labels and settings they name are in the sources. Usage: docs_test.py BUILD_FOLDER
COMPILER..."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
from documents import BEFORE, FROM, PAGES, ROOT, STRICT, programs  # noqa: E402

BUILD = Path(sys.argv[1]).resolve()
COMPILER = sys.argv[2:]
CLANG = shutil.which("clang++")
SOURCES = ("lib", "device", "host", "transport", "cmake")
LIBRARY = BUILD / "host"


def compile_command(compiler, source, *options):
    """As C++: the CPU backend."""
    headers = [f"-I{ROOT}", f"-I{ROOT / 'lib'}"]
    return [*compiler, "-std=c++20", *STRICT, *headers, *options, "-x", "c++", str(source), "-x", "none"]


def link_options(program):
    return [f"-L{LIBRARY}", "-lgravel", f"-Wl,-rpath,{LIBRARY}", "-o", str(program)]


def run_command(*command):
    """As a job of 3 PEs on 2 nodes."""
    return [BUILD / "transport" / "ucx-run", "-n", "3", "--nodes", "2", "--timeout", "200", *command]


def fault_of(*commands, environment=None):
    """Runs one after the other. What went wrong, or an empty string; and what the last one wrote."""
    for command in commands:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                              check=False)
        if done.returncode != 0:
            words = " ".join(map(str, command))
            return f"{words} ended with status {done.returncode}\n{done.stdout}{done.stderr}", done.stdout
    return "", done.stdout


def excerpts():
    """(page, file, text) of each block that begins with `// from: PATH` (C++) or `<!-- from: PATH -->` (Markdown)."""
    for page in PAGES:
        for name, text in re.findall(rf"^```(?:cpp|markdown)\n{FROM}(.*?)^```$", page.read_text(), re.M | re.S):
            yield page.name, name, text


def old_excerpts():
    """(page, commit, file, text) of each block that is marked `before`. Commit, file and text are empty if its first
    line does not name them."""
    for page in PAGES:
        for block in BEFORE.findall(page.read_text()):
            found = re.fullmatch(rf"```\w+ before\n{FROM}(.*)```", block, re.S)
            commit, _, name = found[1].partition(":") if found else ("", "", "")
            yield page.name, commit, name, found[2] if found else ""


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def what_is_said(page):
    """Without names that are gone: the last column of the glossary, and quotations of old states."""
    text = BEFORE.sub("", page.read_text())
    return re.sub(r"\|[^|\n]*\|$", "|", text, flags=re.M) if page.name == "glossary.md" else text


def anchors(page):
    """As GitHub makes them from headings."""
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class DocsTest(unittest.TestCase):
    def build_and_run(self, folder, name, text):
        """The error, or an empty string."""
        source, program = folder / name, folder / Path(name).stem
        source.write_text(text)
        run_it = run_command(program)
        # The result of a program does not depend on the route of its messages.
        by_queue = dict(os.environ, GRAVEL_ROUTES="net")
        fault, said = fault_of([*compile_command(COMPILER, source, "-O0"), *link_options(program)], run_it)
        # The one of README.md does not check itself.
        if not fault and name == "hello.cu" and said.count("of 3: 1024 increments\n") != 3:
            fault = f"unexpected output: {said}"
        fault = fault or fault_of(run_it, environment=by_queue)[0]
        if CLANG and not fault:
            fault, _ = fault_of(compile_command([CLANG], source, "-fsyntax-only"))
        return fault

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

    def test_kernels_of_other_libraries(self):
        """Kernels see libgravel's threadIdx also in a library that is loaded for itself alone, as Python does with
        extensions."""
        text = {name: text for _, name, text in programs()}["neighbour.cu"]
        load = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).run())"
        for compiler in [COMPILER, *([[CLANG]] if CLANG else [])]:
            for linking in ([], ["-Wl,-Bsymbolic"]):
                with self.subTest(compiler=compiler, linking=linking), tempfile.TemporaryDirectory() as folder:
                    source, library = Path(folder) / "neighbour.cu", Path(folder) / "neighbour.so"
                    source.write_text(text.replace("int main()", 'extern "C" [[gnu::visibility("default")]] int run()'))
                    compile_it = [*compile_command(compiler, source, "-O0", "-fPIC", "-shared"), *linking,
                                  *link_options(library)]
                    fault, _ = fault_of(compile_it, run_command(sys.executable, "-c", load, library))
                    self.assertFalse(fault)

    def test_excerpts(self):
        self.assertTrue(list(excerpts()))
        for page, name, text in excerpts():
            with self.subTest(page=page, file=name):
                self.assertIn(text, (ROOT / name).read_text(), "no longer what the file says")

    def test_old_excerpts(self):
        """Skipped where the commit is not: in a copy without history."""
        self.assertTrue(list(old_excerpts()))
        for page, commit, name, text in old_excerpts():
            with self.subTest(page=page, commit=commit, file=name):
                self.assertTrue(name and text, "the block does not say which commit and which file it quotes")
                if not shutil.which("git") or fault_of(["git", "-C", ROOT, "cat-file", "-e", commit])[0]:
                    self.skipTest(f"no commit {commit} here")
                fault, old = fault_of(["git", "-C", ROOT, "show", f"{commit}:{name}"])
                self.assertFalse(fault)
                self.assertIn(text, old, "not what the file said")

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
        """`FOLDER/NAME`: there is such a file, or a folder. `bench/NAME` may also be the program of `bench/NAME.cu`."""
        top = "|".join((*SOURCES, "bench", "examples", "test", "tools"))
        for page in PAGES:
            for name in re.findall(rf"`((?:{top})/[\w./*-]+)`", without_code(what_is_said(page))):
                with self.subTest(page=page.name, name=name):
                    found = list(ROOT.glob(name))
                    if name.startswith("bench/"):
                        found += ROOT.glob(name + ".*")
                    self.assertTrue(found, "no such file")

    def test_names_in_files(self):
        """`FILE` (`NAME`): the name is in that file."""
        names = r"`([\w./-]+)`\s\(`([\w.-]+)`\)"
        found = [(page, *pair) for page in PAGES for pair in re.findall(names, without_code(page.read_text()))]
        self.assertTrue(found)
        for page, path, name in found:
            if (ROOT / path).is_file():
                with self.subTest(page=page.name, file=path, name=name):
                    text = (ROOT / path).read_text()
                    self.assertTrue(re.search(rf"\b{re.escape(name)}\b", text), "no such name in the file")

    def test_tour(self):
        """The files of each answer of docs/tour.md stand on a page of its Path: with or without their folder, header or
        source."""
        tour = (ROOT / "docs" / "tour.md").read_text()
        questions = re.split(r"^### ", tour, flags=re.M)[1:]
        self.assertGreater(len(questions), 30)
        for question in questions:
            answer, _, path = question.partition("\nPath:")
            links = re.findall(r"\]\(([^)#]+)", path.split("\n## ")[0])
            pages = "\n".join((ROOT / "docs" / link).read_text() for link in links)
            for name in re.findall(rf"`((?:{'|'.join(SOURCES)}|test|tools)/[\w./-]+)`", answer):
                with self.subTest(question=question.splitlines()[0], file=name):
                    stem = re.escape(Path(name).stem)
                    self.assertTrue(name in pages or re.search(rf"\b{stem}\.\w+`", pages), f"not on {links}")

    def test_names_in_sources(self):
        sources = "\n".join(
            path.read_text() for part in SOURCES for path in (ROOT / part).rglob("*")
            if path.suffix in (".cpp", ".hpp", ".cuh", ".in", ".build")
        )
        for page in PAGES:
            # Without links: numbers_test.py looks at keys of result files.
            text = re.sub(r"\]\([^)]*\)", "]", what_is_said(page))
            used = set(re.findall(r"\[[A-Z]\d\]", text))
            used |= set(re.findall(r"\b(?:GRAVEL|gravel)_[A-Za-z_]*[A-Za-z]\b", text))
            for name in sorted(used):
                with self.subTest(page=page.name, name=name):
                    self.assertIn(name, sources)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
