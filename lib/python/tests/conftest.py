"""Tests of the package. Those in job/ run as PEs of a job: test_jobs.py starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gravel._kernel_cache import why_no_compiler

HERE = Path(__file__).resolve().parent
IN_JOB = "GRAVEL_TEST_IN_JOB"
CACHE = tempfile.TemporaryDirectory()  # of gr.Kernels, for all jobs
needs_compiler = pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler() or "there is a compiler")
collect_ignore = [] if os.environ.get(IN_JOB) else ["job"]


def launcher() -> str:
    """ucx-run of this package, or of the environment variable UCX_RUN."""
    found = os.environ.get("UCX_RUN") or shutil.which(
        "ucx-run", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    )
    assert found, "no ucx-run: install the wheel, or set UCX_RUN"
    return found


def environment(**values: str) -> dict[str, str]:
    """That of a process that no launcher has started."""
    without = ("PMIX_", "SLURM_", "OMPI_COMM_", "RANK", "WORLD_SIZE", IN_JOB)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    # As torchrun does: the PEs of a job share the processors.
    ours = {"PYTHONUNBUFFERED": "1", "XDG_CACHE_HOME": CACHE.name}
    return {"OMP_NUM_THREADS": "1"} | kept | ours | values


def run_alone(text: str, **values: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=environment(**values), check=False
    )


def run_job(
    n_pes: int, *arguments: str, nodes: int = 1, timeout: int = 120, **values: str
) -> subprocess.CompletedProcess[str]:
    """Runs python with these arguments as a job."""
    command = [
        launcher(),
        "-n",
        str(n_pes),
        "--nodes",
        str(nodes),
        "--timeout",
        str(timeout),
        sys.executable,
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout + 20, env=environment(**values), check=False
    )


def is_fine(done: subprocess.CompletedProcess[str]) -> None:
    """Fails with all that the process wrote unless it succeeded."""
    if done.returncode != 0:
        pytest.fail(f"status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
