"""The Debian packages of tools/debian, without building them: each file that Meson installs belongs to exactly one
package, no entry is left without a file, and the names of packages and of what they are built with are right.
Usage: packages_test.py MESON BUILD_FOLDER"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict
from pathlib import Path

MESON, BUILD = sys.argv[1:3]
ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "tools" / "debian"
# debian/rules makes these, not Meson.
MADE_BY_RULES = {"usr/lib/python3/dist-packages/gravel", "usr/share/doc/gravel/reference"}
# Names in Build-Depends of what tools/setup installs by the package itself.
OTHER_NAMES = {"debhelper-compat": "debhelper", "dh-sequence-python3": "dh-python"}
# Debian takes the first two for granted where packages are built; tools/deb uses the others, and debian/rules does not.
NOT_IN_BUILD_DEPENDS = {"build-essential", "g++", "git", "lintian", "python3-venv"}


def entries(path):
    """(pattern, folder of the package or empty) of each line."""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, folder = line.partition(" ")
            yield pattern, folder


def files_of(pattern, staged):
    """As dh_install: a folder with all that is in it."""
    for found in staged.glob(pattern):
        yield from (path for path in found.rglob("*") if not path.is_dir()) if found.is_dir() else [found]


def fields(text):
    """Those of a paragraph of debian/control."""
    return dict(re.findall(r"^(\S+): *((?:.*\n)(?: .*\n)*)", text + "\n", re.M))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        work = Path(cls.work.name)
        install = [MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", work / "whole"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        prefix = next((work / "whole").rglob("bin/ucx-run")).parents[1]
        cls.staged = work / "staged"
        cls.staged.mkdir()
        usr = prefix.rename(cls.staged / "usr")
        # Meson takes lib64 or lib where it does not find dpkg-architecture; debian/rules names the folder.
        libraries = next(usr.rglob("libgravel.so")).parent
        if libraries.parent != usr / "lib":
            libraries = libraries.rename(work / "libraries")
            (usr / "lib").mkdir(exist_ok=True)
            libraries.rename(usr / "lib" / "x86_64-linux-gnu")
        text = (PACKAGING / "control").read_text()
        cls.source, *cls.packages = [fields(paragraph) for paragraph in text.split("\n\n")]
        cls.names = {package["Package"].strip() for package in cls.packages}

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def test_each_file_in_one_package(self):
        owners = defaultdict(list)
        for path in [*PACKAGING.glob("*.install"), PACKAGING / "not-installed"]:
            for pattern, _ in entries(path):
                for file in files_of(pattern, self.staged):
                    owners[file.relative_to(self.staged)].append(path.name)
        installed = [path for path in self.staged.rglob("*") if not path.is_dir()]
        self.assertGreater(len(installed), 100)
        for file in installed:
            name = file.relative_to(self.staged)
            with self.subTest(file=str(name)):
                self.assertEqual(len(owners[name]), 1, f"in {owners[name]}; tools/debian/*.install say what is where")

    def test_each_entry_has_files(self):
        for path in PACKAGING.glob("*.install"):
            for pattern, _ in entries(path):
                if pattern in MADE_BY_RULES or ("/man/" in pattern and not shutil.which("help2man")):
                    continue
                with self.subTest(package=path.stem, entry=pattern):
                    self.assertTrue(list(files_of(pattern, self.staged)), "Meson installs no such file")

    def test_names(self):
        """The library's package has its soname, and each package has a list of files."""
        soname = next(path for path in self.staged.rglob("libgravel.so.*") if path.name.count(".") == 3)
        self.assertIn(soname.name.replace(".so.", ""), self.names, "tools/debian/control has no package of this name")
        self.assertEqual({path.stem for path in PACKAGING.glob("*.install")}, self.names)

    def test_build_depends(self):
        """tools/setup --with packages installs what debian/control wants, and nothing else is wanted."""
        table = re.search(r"cat <<'TEXT'\n(command g\+\+.*?)^TEXT", (ROOT / "tools/setup").read_text(), re.M | re.S)[1]
        rows = [line.split() for line in table.splitlines()]
        from_setup = {row[-2] for row in rows if {"base", "packages"} & set(row[-1].split(","))}
        wanted = {re.match(r"[\w+.-]+", word.strip())[0] for word in self.source["Build-Depends"].split(",")}
        wanted = {OTHER_NAMES.get(name, name) for name in wanted}
        self.assertEqual(from_setup - NOT_IN_BUILD_DEPENDS, wanted)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
