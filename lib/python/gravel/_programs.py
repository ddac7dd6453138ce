"""Entry points: the programs that are installed with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PREFIX = Path(__file__).resolve().parent / "prefix"


def _become(name: str) -> None:
    program = PREFIX / "bin" / name
    if not program.is_file():
        sys.exit(f"{name}: {program} is not there: this package was built against a Gravel that is installed elsewhere")
    os.execv(program, [str(program), *sys.argv[1:]])


def ucx_run() -> None:
    _become("ucx-run")


def gravel_info() -> None:
    _become("gravel-info")


def gravel_top() -> None:
    _become("gravel-top")


def gravel_compiler() -> None:
    _become("gravel-c++")


def gravel_nvcc() -> None:
    """A command of gravel-pgas-cu13 (tools/wheel_parts.py)."""
    _become("gravel-nvcc")
