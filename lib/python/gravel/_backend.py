"""The native module of the backend. There is one for each backend; the CPU backend is the only one so far."""

from . import _cpu as native
from ._cpu import Error

__all__ = ["Error", "native"]
