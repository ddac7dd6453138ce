"""The native module of the backend: `gravel._cpu`, or `gravel._cuda` where GPUs are. :func:`choose` decides, or the first
use."""

from __future__ import annotations

import importlib
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
            return getattr(self, name)

    native = _Native()

__all__ = ["Error", "available", "choose", "chosen", "native", "version"]

_chosen = ""


def _load(name: str) -> Any:
    return importlib.import_module(f"._{name}", __package__)


def _cuda_module() -> tuple[Any, str]:
    """The module for GPUs, and why there is none."""
    try:
        module = _load("cuda")
    except ImportError as e:
        if e.name and e.name.endswith("._cuda"):
            return None, "this package was built without CUDA (tools/wheel --cuda)"
        return None, str(e)
    if module.devices() == 0:
        return None, "this process sees no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    return module, ""


def version() -> str:
    """The version of libgravel. Decides nothing."""
    return str((native if _chosen else _load("cpu")).version())


def available() -> tuple[str, ...]:
    """The backends that can be used here."""
    return ("cpu",) if _cuda_module()[0] is None else ("cpu", "cuda")


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
    module, why = (None, "") if name == "cpu" else _cuda_module()
    if name == "cuda" and module is None:
        raise Error(f"gravel.init: backend 'cuda': {why}")
    _chosen = "cpu" if module is None else "cuda"
    # From now on lookups of the module's names cost nothing.
    vars(native).update(vars(_load("cpu") if module is None else module))
