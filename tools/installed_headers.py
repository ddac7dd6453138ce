#!/usr/bin/env python3
"""The headers that are installed: the public ones, lib/gravel/*, NVSHMEM's, CUDA's and MPI's, in folders below it,
and what they include.

    tools/installed_headers.py [--public]         prints them, one a line; with --public only those of lib/gravel
    tools/installed_headers.py --install FOLDER   writes them to FOLDER (PREFIX/include)

In FOLDER the public ones are gravel/NAME, the others gravel/detail/..., and their includes say so. A program therefore
needs one -I, and no folder called lib, host or device is on its path."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^(\s*#\s*include\s*)(?:"([^"]+)"|<(gravel/[^>]+)>)', re.M)
# Headers of other projects, which are no part of the interface.
FOREIGN = r"\s*#\s*include\s*[<\"](fmt|spdlog|CLI|nlohmann|hwloc|uc[mpst]|pmix|boost|zlib|metis)\b"


def includes_in(text):
    """Files of this tree that a file of it includes, as paths from the root."""
    return ["lib/" + public if public else other for _, other, public in INCLUDE.findall(text)]


def public_headers():
    return {str(path.relative_to(ROOT)) for path in (ROOT / "lib/gravel").iterdir() if path.suffix in (".hpp", ".cuh")}


def foreign_headers():
    """NVSHMEM's headers over Gravel, which a program finds with -I PREFIX/include/gravel/nvshmem, those of CUDA for the
    CPU backend, in PREFIX/include/gravel/cuda_on_cpu, and a subset of MPI, in PREFIX/include/gravel/mpi_subset."""
    return {str(path.relative_to(ROOT)) for folder in ("nvshmem", "cuda_on_cpu", "mpi_subset")
            for path in (ROOT / "lib/gravel" / folder).iterdir()}


def installed_headers():
    found, left = set(), list(public_headers() | foreign_headers())
    while left:
        name = left.pop()
        if name in found or not (ROOT / name).is_file():
            continue
        found.add(name)
        text = (ROOT / name).read_text()
        if foreign := re.search("^" + FOREIGN, text, re.M):
            sys.exit(f"{name} is installed, and includes {foreign[1]}, which is no part of the interface")
        left += includes_in(text)
    return found


def installed_as(name):
    """Where a header lies below PREFIX/include."""
    return name.removeprefix("lib/") if name.startswith("lib/gravel/") else "gravel/detail/" + name


def install(folder):
    headers = installed_headers()
    for name in sorted(headers):
        def installed_include(found):
            before, other, _ = found.groups()
            return f"{before}<{installed_as(other)}>" if other in headers else found[0]
        path = folder / installed_as(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(INCLUDE.sub(installed_include, (ROOT / name).read_text()))
        path.chmod(0o644)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--install"]:
        # Meson's install scripts get DESTDIR and the prefix together.
        install(Path(os.environ.get("MESON_INSTALL_DESTDIR_PREFIX", "")) / sys.argv[2])
    else:
        print(*sorted(public_headers() if sys.argv[1:] == ["--public"] else installed_headers()), sep="\n")
