#!/usr/bin/env python3
"""The headers that are installed, one a line: those of host/ itself and of the libraries in lib/ that need no library of others, and what these
include. With --umbrella only those that no other one includes, and gravel.cuh: programs include them first.
Usage: installed_headers.py [--umbrella]"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of other projects, and no part of the interface: headers that include these are not installed.
FOREIGN = r"\s*#\s*include\s*[<\"](fmt|spdlog|CLI|nlohmann|hwloc|uc[mpst]|pmix|boost|zlib|metis)\b"


def includes(name):
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', (ROOT / name).read_text(), re.M)


def reached_from(name):
    """The header itself, and all of this tree that it includes."""
    found, left = set(), [name]
    while left:
        if (header := left.pop()) not in found and (ROOT / header).is_file():
            found.add(header)
            left += includes(header)
    return found


def is_free(headers):
    """Whether none of them needs a library of others."""
    return not any(re.search("^" + FOREIGN, (ROOT / name).read_text(), re.M) for name in headers)


def installed_headers():
    folders = [ROOT / "host", *(path for path in (ROOT / "lib").iterdir() if path.is_dir() and path.name != "base")]
    roots = [str(path.relative_to(ROOT)) for folder in folders for path in folder.iterdir() if path.suffix in (".hpp", ".cuh")]
    reached = [reached_from(root) for root in roots]
    return set().union(*filter(is_free, reached))


def umbrella_headers():
    headers = installed_headers()
    included = {header for name in headers for header in includes(name)}
    return headers - included | {"host/gravel.cuh"}


if __name__ == "__main__":
    print(*sorted(umbrella_headers() if sys.argv[1:] == ["--umbrella"] else installed_headers()), sep="\n")
