"""The site of the documents: docs/README.md, from which its navigation is made, names each page once; docs/roadmap.md
leads to each section that says what is missing; and tools/site makes the site, without warnings and dead links. The
last part is skipped where the package index is not reached. Usage: site_test.py BUILD_FOLDER"""

import re
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
from documents import PAGES  # noqa: E402
from site_pages import ALL_PAGES, FIRST_PAGE, faults_of_navigation, pages, sections  # noqa: E402

BUILD = Path(sys.argv[1]).resolve()
MISSING = r"^## (What is not there yet|What is not supported|What has not been measured\?)$"


def tool():
    """tools/site as a module."""
    loader = SourceFileLoader("site_tool", str(ROOT / "tools" / "site"))
    module = module_from_spec(spec_from_loader("site_tool", loader))
    loader.exec_module(module)
    return module


def make(*options):
    """tools/site without the reference, which has a test of its own."""
    return subprocess.run([ROOT / "tools" / "site", "--no-reference", "--environment", BUILD / "site-environment",
                           *options], capture_output=True, text=True, check=False)


class NavigationTest(unittest.TestCase):
    def test_navigation(self):
        self.assertGreater(len(pages()), 40)
        self.assertEqual(list(faults_of_navigation()), [])

    def test_order(self):
        captions = [caption for caption, _ in sections()]
        written = re.findall(r"^## (.*)$", (ROOT / ALL_PAGES).read_text(), re.M)
        self.assertEqual(captions, ["", *written])
        self.assertEqual(dict(sections())[""], ["docs/tour.md", "docs/glossary.md"])

    def test_planted(self):
        """A page that is missing, named twice, or gone is found."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "docs" / "more").mkdir(parents=True)
            for name in (FIRST_PAGE, "docs/twice.md", "docs/more/forgotten.md"):
                (root / name).write_text("# Page\n")
            (root / ALL_PAGES).write_text("# All\n\n[README](../README.md)\n\n## A\n\n- [a](twice.md#a), [b](gone.md)\n"
                                          "\n## B\n\n- [c](twice.md)\n")
            self.assertEqual(list(faults_of_navigation(root)), [
                "docs/README.md names docs/gone.md, and there is no such page",
                "docs/more/forgotten.md is missing in docs/README.md: add a line for it",
                "docs/README.md names docs/twice.md 2 times: keep one"])

    def test_roadmap(self):
        roadmap = (ROOT / "docs" / "roadmap.md").read_text()
        found = [(page, heading) for page in PAGES for heading in re.findall(MISSING, page.read_text(), re.M)]
        self.assertGreater(len(found), 5)
        for page, heading in found:
            with self.subTest(page=page.name, section=heading):
                anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                self.assertIn(f"({page.relative_to(ROOT / 'docs')}#{anchor})", roadmap)


class SiteTest(unittest.TestCase):
    def test_dead_links(self):
        """A link to a file, or to a place in a page, that is not there is found."""
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve()
            (site / "a.html").write_text('<a href="b.html#there">1</a><a href="b.html#gone">2</a><img src="no.png">'
                                         '<a href="https://example.org/#x">3</a><a href="#self" id="self">4</a>')
            (site / "b.html").write_text('<h1 id="there">B</h1>')
            self.assertEqual(list(tool().dead_links(site)), [
                "a.html: b.html#gone: no such place in that page", "a.html: no.png: no such file"])

    def test_foreign_folder(self):
        """A folder with files of somebody else stays as it is."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine.txt").write_text("keep")
            done = make("--out", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has files that tools/site has not made", done.stderr)
            self.assertEqual([path.name for path in Path(folder).iterdir()], ["mine.txt"])

    def test_site(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve() / "site"
            done = make("--out", site)
            if done.returncode == 77:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for name in pages():
                self.assertTrue((site / name).with_suffix(".html").is_file(), name)
            page = (site / "docs" / "performance.html").read_text()
            result = re.search(r'href="(\.\./bench/results/[\w.-]+\.json)"', page)[1]
            self.assertTrue((site / "docs" / result).is_file())
            self.assertIn('<span class="kt">int</span>', (site / "index.html").read_text(), "code has no colours")
            self.assertIn("gravel_wait_until", (site / "docs" / "programming.html").read_text())
            self.assertIn("quiescenc", (site / "searchindex.js").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
