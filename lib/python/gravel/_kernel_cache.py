"""Compiled libraries of gr.Kernels, in a folder of the user.

A library is found by a hash of all that it depends on: the text to compile, options, and the versions of Gravel and of
the compiler. It consists of two files: HASH.so, and HASH.json, which has the hash of the former and those of all files
of the user that the text includes. HASH.json is written last, and both by renaming. An entry that does not fit its
hashes, or that another user might have written, is compiled again.

PEs compile before they have joined a job. So a lock on a file decides which process compiles; the others wait for it,
and read its entry, or the message of its compiler."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _backend
from ._backend import Error, native
from ._programs import PREFIX

INCLUDE = Path(__file__).resolve().parent / "include"
_WRAPPERS = {"cpu": "gravel-c++", "cuda": "gravel-nvcc"}
_OPTIONS = {
    "cpu": ("-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
    # The library has a CUDA runtime of its own, which it must not share with others.
    "cuda": ("-O3", "-shared", "-Xcompiler=-fPIC,-fvisibility=hidden", "-Xlinker=--exclude-libs=ALL"),
}
_INSTALL = {
    "cpu": "install g++ (apt install g++), or name another compiler in GRAVEL_CXX",
    "cuda": "install the CUDA toolkit and put its bin into PATH, or name nvcc in GRAVEL_NVCC",
}


def library_of(text: str, name: str, options: Sequence[str], folder: str | None) -> tuple[Path, str]:
    """The file of the compiled text, and its hash. Compiles it unless the cache has it.

    name: of the source, for messages.
    folder: where headers of the source are looked for, besides the usual places.
    """
    backend = _backend.chosen()
    wrapper = _wrapper(backend)
    program, environment = _compiler(backend)
    command = [str(wrapper), *_OPTIONS[backend], f"-I{INCLUDE}", *([f"-I{folder}"] if folder else []), *options]
    ingredients = (text, command, _version(str(wrapper), program, environment["PATH"]), _state(Path(native.library())),
                   *((INCLUDE / header).read_text() for header in sorted(os.listdir(INCLUDE))))  # fmt: skip
    key = hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()
    entry = _folder() / key
    if not _is_good(entry):
        with _lock(entry) as has_waited:
            if not _is_good(entry):
                if has_waited and (message := _read(entry.with_suffix(".error"))):
                    raise Error(message.decode())
                _compile(entry, text, name, command, environment)
    return entry.with_suffix(".so"), key


def _wrapper(backend: str) -> Path:
    """gravel-c++ or gravel-nvcc of the Gravel that this process runs, so that the headers are those of its library."""
    name = _WRAPPERS[backend]
    folders = [PREFIX, *Path(native.library()).resolve().parents]
    for folder in folders:
        if (folder / "bin" / name).is_file():
            return folder / "bin" / name
    raise Error(
        f"gravel.Kernels: this Gravel has no {name} ({native.library()}): install the package libgravel-dev, or "
        f"{'build Gravel with nvcc' if backend == 'cuda' else 'the wheel'}"
    )


def _compiler(backend: str) -> tuple[str, dict[str, str]]:
    """The program that the wrapper starts, and its environment: nvcc is often not in PATH."""
    environment = dict(os.environ)
    environment.setdefault("PATH", os.defpath)
    if backend == "cuda":
        environment["PATH"] += ":/usr/local/cuda/bin"
    program = environment.get("GRAVEL_NVCC", "nvcc") if backend == "cuda" else environment.get("GRAVEL_CXX", "c++")
    first = (program.split() or [""])[0]  # it may be several words, such as "ccache g++"
    if not shutil.which(first, path=environment["PATH"]):
        raise Error(f"gravel.Kernels: there is no compiler {first!r} in PATH: {_INSTALL[backend]}")
    return program, environment


def why_no_compiler() -> str:
    """Empty if there is a compiler for the backend of this process, or for the one that it would choose."""
    try:
        _compiler(_backend.chosen() or _backend.available()[-1])
    except Error as e:
        return str(e)
    return ""


@functools.cache
def _version(wrapper: str, program: str, path: str) -> str:
    """What the compiler says of itself, and Gravel's version."""
    done = subprocess.run(
        [wrapper, "--version"], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    if done.returncode != 0:
        raise Error(f"gravel.Kernels: {program} does not run: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _state(file: Path) -> tuple[str, int, int]:
    """Changes with the file: two builds of Gravel may have the same version."""
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns


def _folder() -> Path:
    """The user's folder of compiled libraries. What others can write to is not used: libraries are run."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "gravel" / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid == os.getuid():
            folder.chmod(0o700)
            return folder
        why = f"it belongs to user {found.st_uid}"
    except OSError as e:
        why = str(e)
    raise Error(
        f"gravel.Kernels: {folder} cannot have compiled libraries: {why}. Set XDG_CACHE_HOME to a folder of your own"
    )


def _read(file: Path) -> bytes:
    """The contents of a file that only this user can have written; empty if it is none."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
            found = os.fstat(opened.fileno())
            is_private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            return opened.read() if stat.S_ISREG(found.st_mode) and is_private else b""
    except OSError:
        return b""


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _is_good(entry: Path) -> bool:
    library = _read(entry.with_suffix(".so"))
    try:
        facts: dict[str, Any] = json.loads(_read(entry.with_suffix(".json")))
        return (
            bool(library)
            and facts["library"] == _digest(library)
            and all(_digest(Path(file).read_bytes()) == digest for file, digest in facts["headers"].items())
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return False


@contextlib.contextmanager
def _lock(entry: Path) -> Iterator[bool]:
    """Holds the lock of an entry. Says whether another process had it."""
    with open(entry.with_suffix(".lock"), "w") as file:
        has_waited = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            has_waited = True
            fcntl.flock(file, fcntl.LOCK_EX)
        yield has_waited


def _compile(entry: Path, text: str, name: str, command: list[str], environment: dict[str, str]) -> None:
    """Makes an entry. Call it with the lock."""
    entry.with_suffix(".error").unlink(missing_ok=True)
    work = entry.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
    work.mkdir(mode=0o700)
    try:
        source, library, rules = work / "kernels.cu", work / "kernels.so", work / "headers.d"
        source.write_text(text)
        done = subprocess.run(
            [*command, "-MD", "-MF", str(rules), str(source), "-o", str(library)],
            capture_output=True, text=True, errors="replace", check=False, env=environment,
        )  # fmt: skip
        if done.returncode != 0:
            message = f"gravel.Kernels: {name} does not compile:\n{(done.stderr or done.stdout).strip()}"
            _write(work / "message", message.encode(), entry.with_suffix(".error"))
            raise Error(message)
        contents = library.read_bytes()
        facts = {"library": _digest(contents), "headers": _headers(rules, work)}
        library.chmod(0o700)
        library.rename(entry.with_suffix(".so"))
        _write(work / "facts", json.dumps(facts).encode(), entry.with_suffix(".json"))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(first: Path, contents: bytes, file: Path) -> None:
    first.write_bytes(contents)
    first.chmod(0o600)
    first.rename(file)


def _headers(rules: Path, work: Path) -> dict[str, str]:
    """The headers of the user, by the compiler's rule for make, with their hashes. Versions stand for all others."""
    names = re.split(r"(?<!\\)\s+", rules.read_text().replace("\\\n", " "))
    files = {Path(name.replace("\\ ", " ")).resolve() for name in names if name and not name.endswith(":")}
    here = Path(native.library()).resolve().parents[1]
    others = (work, INCLUDE, PREFIX, here, Path("/usr/include"), Path("/usr/lib"))
    return {
        str(file): _digest(file.read_bytes())
        for file in sorted(files)
        if file.is_file()
        and not any(file.is_relative_to(folder) for folder in others)
        and not str(file).startswith("/usr/local/cuda")
    }
