"""The native module of the backend: `gravel._cpu`, or `gravel._cuda` where GPUs are. :func:`choose` decides, or the
first use."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from ._error import Error

if TYPE_CHECKING:
    from . import _cpu as native
else:

    class _Native:
        """Stands for the chosen module."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            choose(None)
            try:
                return vars(self)[name]
            except KeyError:
                raise AttributeError(f"the native module has no {name}") from None

    native = _Native()

__all__ = ["Error", "available", "choose", "chosen", "native"]

_chosen = ""


def _load(name: str) -> Any:
    return importlib.import_module(f"._{name}", __package__)


def _why_no_cuda() -> str:
    """Empty if there is a module for GPUs, and a GPU. Asks the driver, because a process loads the module of one
    backend alone: both have inline variables of the same names."""
    if importlib.util.find_spec("._cuda", __package__) is None:
        return "the package gravel-pgas-cu13 is not installed (pip install it; tools/wheel --cuda builds it)"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        return f"there is no CUDA driver ({e})"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "this process sees no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    return ""


def available() -> tuple[str, ...]:
    """The backends that can be used here."""
    return ("cpu",) if _why_no_cuda() else ("cpu", "cuda")


def chosen() -> str:
    """The backend of this process: "cpu" or "cuda"; empty if nothing has decided."""
    return _chosen


def choose(name: str | None) -> None:
    """Decides for a backend; `None`: GPUs if there are any. The decision stands."""
    global _chosen
    if name not in (None, "cpu", "cuda"):
        raise ValueError(f"gravel.init: backend {name!r}: it is 'cpu' or 'cuda', or None for what there is")
    if _chosen:
        if name is not None and name != _chosen:
            raise Error(f"gravel.init: backend {name!r}: this process has already used the backend {_chosen!r}")
        return
    why = "" if name == "cpu" else _why_no_cuda()
    if name == "cuda" and why:
        raise Error(f"gravel.init: backend 'cuda': {why}")
    chosen_name = "cpu" if name == "cpu" or why else "cuda"
    module = _load(chosen_name)
    _chosen = chosen_name
    vars(native).update(vars(module))  # from now on lookups of the module's names cost nothing
