"""The tests of job/ as jobs of 1, 2 and 4 PEs, and on 2 emulated nodes."""

from __future__ import annotations

import pytest
from conftest import HERE, IN_JOB, is_fine, run_job


@pytest.mark.parametrize(
    ("n_pes", "nodes", "routes"),
    [(1, 1, "auto"), (2, 1, "auto"), (4, 1, "auto"), (4, 2, "auto"), (2, 1, "peer"), (3, 1, "net")],
)
def test_job(n_pes: int, nodes: int, routes: str) -> None:
    done = run_job(
        n_pes, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(HERE / "job"), nodes=nodes, timeout=300,
        **{IN_JOB: "1", "GRAVEL_ROUTES": routes, "GRAVEL_SYMMETRIC_SIZE": "64M"},
    )  # fmt: skip
    is_fine(done)
    assert " passed" in done.stdout


@pytest.mark.parametrize("seed", ["1", "2"])
def test_other_schedules(seed: str) -> None:
    """The CPU backend permutes lanes and blocks by a seed: kernels do not depend on their order."""
    done = run_job(
        2, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(HERE / "job" / "test_operations.py"),
        **{IN_JOB: "1", "GRAVEL_CPU_SEED": seed, "GRAVEL_TEST_SMALL": "1"},
    )  # fmt: skip
    is_fine(done)


@pytest.mark.parametrize(("n_pes", "nodes"), [(1, 1), (4, 2)])
def test_demo(n_pes: int, nodes: int) -> None:
    done = run_job(n_pes, "-m", "gravel.demo", "--points", "50000", "--side", "64", nodes=nodes)
    is_fine(done)
    assert f"{50000 * n_pes} of {50000 * n_pes} points are in the image: right" in done.stdout
    assert "WRONG" not in done.stdout
