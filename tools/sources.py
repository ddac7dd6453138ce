"""The C++ and CUDA sources of this tree."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sources():
    """Their names: what git knows, or, without git or outside a checkout, all files but those of builds."""
    listed = []
    if shutil.which("git"):
        asked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                               text=True, check=False)
        listed = asked.stdout.splitlines()
    if not listed:
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        listed = [str(path) for path in paths if not path.parts[0].startswith(("build", "."))]
    return [name for name in listed if re.search(r"\.(cpp|hpp|cu|cuh)$", name) and (ROOT / name).is_file()]
