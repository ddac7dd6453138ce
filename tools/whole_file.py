"""A file that a script writes is whole, or it is as it was before."""

import contextlib
import os
import sys
from pathlib import Path


@contextlib.contextmanager
def whole_file(path):
    """The name of a temporary file beside `path`, for the caller to write: it gets the name `path` when the caller is
    done, and is removed if that fails. What is no regular file (a device, a pipe) is written in place. Errors are
    OSError."""
    target = Path(os.path.realpath(path))
    if (target.exists() and not target.is_file()) or str(path).startswith(("/dev/", "/proc/")):
        yield Path(path)
        return
    made = target.with_name(f"{target.stem}.new-{os.getpid()}{target.suffix}")  # its ending says of what kind it is
    try:
        yield made
        if target.exists():
            made.chmod(target.stat().st_mode & 0o7777)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def write_file(path, text, make_folder=False):
    """Ends the script with the file and the reason if it cannot be written."""
    try:
        if make_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as made:
            made.write_text(text)
    except OSError as problem:
        sys.exit(f"{Path(sys.argv[0]).name}: {path}: {problem.strerror}")
