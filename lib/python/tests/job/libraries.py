"""The libraries whose arrays tests pass: CuPy and PyTorch on GPUs, NumPy and PyTorch elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gravel as gr

PAGE = Path(__file__).resolve().parents[4] / "docs" / "python.md"


def documented():
    """The mistakes of docs/python.md, each with what is raised; none where the page is not."""
    section = PAGE.read_text().partition("### Mistakes\n")[2].partition("\n## ")[0] if PAGE.is_file() else ""
    return dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|$", section, re.M))


def on_gpu():
    return gr.info()["backend"] == "cuda"


def tensor_of(array):
    """A tensor with the elements of a NumPy array, on the GPU if the backend uses one."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.to(gr.info()["device"]) if on_gpu() else tensor


def local_part(array):
    """This PE's part of a distributed array, as a NumPy array."""
    return array.copy_local() if on_gpu() else array.local


def write(array, values):
    """Writes this PE's part of a distributed array."""
    if on_gpu():
        import cupy

        array.local[...] = cupy.asarray(values)
    else:
        array.local[...] = values


class Library:
    """Makes and reads arrays of a library."""

    def __init__(self, name):
        self.name = name
        if name != "numpy":
            self.module = pytest.importorskip(name)

    def new(self, values):
        if self.name == "cupy":
            return self.module.asarray(values)
        if self.name == "torch":
            tensor = self.module.from_numpy(np.ascontiguousarray(values))
            return tensor.cuda() if on_gpu() else tensor
        return np.ascontiguousarray(values)

    def host(self, array):
        if self.name == "cupy":
            assert type(array).__module__.startswith("cupy")
            return self.module.asnumpy(array)
        if self.name == "torch":
            assert isinstance(array, self.module.Tensor) and array.is_cuda == on_gpu()
            return array.cpu().numpy()
        assert isinstance(array, np.ndarray)
        return array


@pytest.fixture(params=["numpy", "cupy", "torch"])
def library(request):
    if request.param == "cupy" and not on_gpu():
        pytest.skip("CuPy is for GPUs")
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        if not hasattr(torch, "uint32"):
            pytest.skip(f"PyTorch {torch.__version__} has no unsigned integers")
    return Library(request.param)
