"""All PEs run the same tests in the same order. A failure on one of them ends the job."""

from __future__ import annotations

import os

import pytest

import gravel as gr
import sources
from gravel import _backend, _kernel_cache
from libraries import library, on_gpu  # noqa: F401 (a fixture)

_failed = False


@pytest.fixture(scope="session", autouse=True)
def _joined(request):
    """With the handlers of test_kernels.py, if it is among the tests: handlers are registered when the job starts."""
    backend = os.environ.get("GRAVEL_TEST_BACKEND")
    _backend.choose(backend)
    has_kernels = any(item.path.name == "test_kernels.py" for item in request.session.items)
    has_kernels = has_kernels and not _kernel_cache.why_no_compiler()
    gr.init(backend, kernels=sources.compiled() if has_kernels else None)
    if on_gpu() and any("torch" in item.path.name for item in request.session.items):
        torch = pytest.importorskip("torch")
        torch.set_default_device(f"cuda:{gr.info()['device']}")
    yield


@pytest.fixture(autouse=True)
def _together(_joined):
    yield
    gr.barrier()


def pytest_sessionfinish(session, exitstatus):
    global _failed
    _failed = exitstatus != 0


def pytest_unconfigure(config):
    if _failed and gr.info()["joined"] and gr.n_pes() > 1:
        gr.abort(f"tests failed at PE {gr.my_pe()}")
