#!/usr/bin/env python3
"""Makes what is published of a wheel that tools/wheel has built: prints the paths of the files that it has written.

A wheel with the module for GPUs becomes two: gravel-pgas, and gravel-pgas-cu13, which adds that module, libgravel_cuda
and gravel-nvcc to it. Both are unpacked into the same folders.

--portable: PMIx, hwloc, libfmt, spdlog, Boost.Context and what these need become part of gravel-pgas, by auditwheel.
UCX becomes a requirement, the package libucx-cu13: UCX looks for its transports beside its libraries, so they cannot be
copied one by one. LD_LIBRARY_PATH goes before the run path: that is how the system's UCX is chosen."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

UCX = "libucx-cu13"
ADDED = "gravel_pgas_cu13"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--portable", action="store_true")
    return parser.parse_args()


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel_parts: this failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def unpacked(wheel: Path, folder: Path) -> Path:
    """Returns the folder with the wheel's files."""
    run(sys.executable, "-m", "wheel", "unpack", wheel, "--dest", folder)
    return folder / "-".join(wheel.name.split("-")[:2])


def packed(tree: Path, folder: Path) -> Path:
    """Returns the path of the new wheel, which is alone in this folder."""
    folder.mkdir()
    run(sys.executable, "-m", "wheel", "pack", tree, "--dest-dir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def information(tree: Path) -> Path:
    """The folder with the wheel's METADATA."""
    (folder,) = tree.glob("*.dist-info")
    return folder


def add_requirement(tree: Path, requirement: str) -> None:
    metadata = information(tree) / "METADATA"
    head, empty, text = metadata.read_text().partition("\n\n")
    metadata.write_text(f"{head}\nRequires-Dist: {requirement}{empty}{text}")


def is_for_gpus(path: Path) -> bool:
    """Whether this file of the package needs nvcc, or serves those who use it."""
    return path.name.startswith(("_cuda.", "libgravel_cuda.")) or "gravel-nvcc" in path.name


def split(tree: Path) -> Path | None:
    """Moves what is for GPUs into a tree of its own; None if there is nothing."""
    files = [path for path in tree.rglob("*") if path.is_file() and is_for_gpus(path)]
    if not any(path.name.startswith("_cuda.") for path in files):
        return None
    name, version = tree.name.split("-")
    other = tree.parent / f"{ADDED}-{version}"
    for path in files:
        target = other / path.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    about = other / f"{ADDED}-{version}.dist-info"
    about.mkdir()
    shutil.copy(information(tree) / "WHEEL", about)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {ADDED.replace('_', '-')}\nVersion: {version}\n"
        "Summary: The part of gravel-pgas for NVIDIA GPUs\nRequires-Python: >=3.10\n"
        f"Requires-Dist: {name.replace('_', '-')}=={version}\n"
    )
    (about / "entry_points.txt").write_text("[console_scripts]\ngravel-nvcc = gravel._programs:gravel_nvcc\n")
    return other


def programs(tree: Path) -> list[Path]:
    """Programs and shared libraries."""
    return [
        path
        for path in tree.rglob("*")
        if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"
    ]


def add_licenses(tree: Path) -> None:
    """Adds the copyright notices of the libraries in the wheel, as Debian has them."""
    folder = information(tree) / "licenses"
    for library in sorted(tree.glob("*.libs/*")):
        name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library.name)  # auditwheel puts a hash behind the name
        found = subprocess.run(["dpkg", "-S", f"*/{name}"], capture_output=True, text=True, check=False).stdout
        notice = Path("/usr/share/doc") / found.partition(":")[0] / "copyright"
        if not found or not notice.is_file():
            sys.exit(f"wheel_parts: {name}: no package of Debian has it, so its copyright notice is not known")
        folder.mkdir(exist_ok=True)
        shutil.copy(notice, folder / f"{name}.txt")


def forget_builder(tree: Path) -> None:
    """Takes folders of the machine that built the wheel out of the paths on which libraries are looked for."""
    for path in programs(tree):
        printed = subprocess.run(["patchelf", "--print-rpath", path], capture_output=True, text=True, check=True).stdout
        folders = printed.strip().split(":")
        kept = [folder for folder in folders if folder.startswith("$ORIGIN")]
        if kept != folders and folders != [""]:
            run("patchelf", "--set-rpath", ":".join(kept), path)


def use_packaged_ucx(tree: Path) -> None:
    """Lets all programs and libraries look for UCX in the package that has it, beside this one."""
    for path in programs(tree):
        needed = subprocess.run(["patchelf", "--print-needed", path], capture_output=True, text=True, check=True).stdout
        if "libuc" in needed:
            up = "/".join([".."] * (len(path.relative_to(tree).parts) - 1))
            run("patchelf", "--add-rpath", f"$ORIGIN/{up}/libucx/lib", path)


def main() -> None:
    given = options()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        tree = unpacked(given.wheel.resolve(), work)
        trees = [tree, split(tree)]
        for number, part in enumerate(filter(None, trees)):
            forget_builder(part)
            if given.portable and part is tree:
                add_requirement(part, f"{UCX} >= 1.17")
            wheel = packed(part, work / f"packed{number}")
            if given.portable:
                repaired = work / f"repaired{number}"
                others = ["--exclude", "libuc*.so*", "--exclude", "libgravel.so*"]
                run(sys.executable, "-m", "auditwheel", "repair", *others, "--wheel-dir", repaired, wheel)
                (wheel,) = repaired.glob("*.whl")
                again = unpacked(wheel, work / f"again{number}")
                add_licenses(again)
                use_packaged_ucx(again)
                wheel = packed(again, work / f"final{number}")
            given.output.mkdir(parents=True, exist_ok=True)
            print(shutil.copy(wheel, given.output))


if __name__ == "__main__":
    main()
