"""The files of this tree that its checks read: C++ and CUDA sources, scripts and build files."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files():
    """The names of all files: what git knows, or, without git or outside a checkout, all but those of builds."""
    listed = []
    if shutil.which("git"):
        asked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                               text=True, check=False)
        listed = asked.stdout.splitlines()
    if not listed:
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        listed = [str(path) for path in paths if not path.parts[0].startswith(("build", "."))]
    return [name for name in listed if (ROOT / name).is_file()]


def is_source(path):
    """Whether a file is a C++ or CUDA source."""
    return path.suffix in (".cpp", ".h", ".hpp", ".cu", ".cuh")


def is_script(path):
    """Whether a file is a script, in Python or for a shell, or a build file."""
    if path.suffix in (".py", ".sh") or path.name in ("meson.build", "meson_options.txt"):
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def sources():
    """The names of the C++ and CUDA sources."""
    return [name for name in files() if is_source(ROOT / name)]


def scripts():
    """The names of the scripts and build files."""
    return [name for name in files() if is_script(ROOT / name)]
