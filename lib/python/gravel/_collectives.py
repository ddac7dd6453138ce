"""Collectives on NumPy arrays, tensors and numbers. All PEs make the same calls in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _checks
from ._backend import Error, native
from ._job import check_joined

# The order is that of `enum class reduction` in src/job.hpp.
REDUCTIONS = ("sum_all", "min_all", "max_all")
OF_MAPS = ("Map.size", "Map.clear", "Map.reserve", "Map.free", "Map.insert", "Map.add", "Map.find")
CALLS = (*REDUCTIONS, "broadcast", "allgather", "zeros", "empty", "full", "from_local", "free", "all_to_all", "Map",
         "Kernels", *OF_MAPS)  # fmt: skip


def together(call: str, work: Callable[[], Any], failure: str = "has failed") -> Any:
    """Runs what is not collective, and returns its result. If it fails at a PE, no PE goes on. Collective."""
    result, error = None, None
    try:
        result = work()
    except Exception as e:
        error = e
    failed = np.flatnonzero(allgather(int(error is not None)))
    if error is not None:
        raise error
    if len(failed):
        raise Error(f"{call}: PE {failed[0]} {failure}: see its exception")
    return result


def agree(call: str, dtype: np.dtype[Any] | None, shape: tuple[int, ...], extra: int = 0) -> Any:
    """Compares the calls of all PEs, and raises the same kind of exception at all of them if they differ. Otherwise the
    native call would end the job. Returns the descriptions, one row for each PE."""
    kind, code, width = (dtype.kind, _checks.code_of(dtype), dtype.itemsize) if dtype is not None else ("-", -1, 0)
    mine = np.array([CALLS.index(call), code, ord(kind), width, int(np.prod(shape, dtype=np.int64)), extra], np.int64)
    all_pes = np.empty((native.n_pes(), len(mine)), np.int64)
    native.allgather(all_pes, mine)
    return all_pes


def _describe(row: Any) -> str:
    dtype = f"{chr(row[2])}{row[3]}" if row[3] else "no dtype"
    text = f"{CALLS[row[0]]} with {row[4]} elements of dtype {dtype}"
    if CALLS[row[0]] in ("zeros", "empty", "full"):
        rows, on_host = divmod(int(row[5]), 2)
        return text + (f" in {rows} rows" if rows != row[4] else "") + (" in memory of the host" if on_host else "")
    if CALLS[row[0]] == "from_local":
        return text + (f" in rows of {row[5]}" if row[5] != 1 else "")
    if CALLS[row[0]] == "Map":
        key, widths = _checks.DTYPES[row[5] >> 16], (row[5] >> 8 & 255, row[5] & 255)
        several = [f" x {width}" if width > 1 else "" for width in widths]
        return f"Map for {row[4]} items with keys {key}{several[0]}, values {dtype}{several[1]}"
    if CALLS[row[0]] in OF_MAPS:
        return f"{CALLS[row[0]]} of map {row[5]}" + (f" for {row[4]} items" if CALLS[row[0]] == "Map.reserve" else "")
    if CALLS[row[0]] == "all_to_all":
        return f"all_to_all with rows of {row[4]} bytes, dtype {dtype}"
    return text + (f", {row[5]}" if row[5] else "")


def check_same(call: str, all_pes: Any) -> None:
    me = native.my_pe()
    for pe, row in enumerate(all_pes):
        if (row != all_pes[me]).any():
            raise ValueError(
                f"{call}: the calls of the PEs differ: {_describe(row)} at PE {pe}, {_describe(all_pes[me])} at PE "
                f"{me}. "
                "All PEs make the same calls, with arrays of the same size and dtype"
            )


def _as_array(call: str, value: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """The value as a contiguous array, and whether it was a number."""
    value = _checks.as_numpy(call, "value", value)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return _checks.contiguous(call, "value", value), False
    if isinstance(value, (bool, np.bool_)) and call in REDUCTIONS:
        raise TypeError(f"{call}: bool: pass int(value), or an array of {_checks.NAMES_OF_NUMBERS}")
    if isinstance(value, int) and not isinstance(value, bool):
        return _checks.scalar(call, "value", value, np.dtype("i8")), True
    if isinstance(value, (float, bool, np.generic)) or isinstance(value, np.ndarray):
        return np.array(value).reshape(1), True
    if isinstance(value, (list, tuple)):
        found = np.array(value)
        if found.dtype.kind in "biuf" and found.ndim > 0:
            return found, False
    raise TypeError(f"{call}: a NumPy array or a number, not {type(value).__name__}")


def _number(call: str, array: Any, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return array[0].item()
    return array[0] if isinstance(value, (np.generic, np.ndarray)) else _checks.like(call, value, array.reshape(()))


def _reduce(call: str, value: Any) -> Any:
    check_joined(call)
    mine, is_number = _as_array(call, value)
    code = _checks.code_of(mine.dtype)
    if mine.dtype not in _checks.NUMBERS:
        raise TypeError(f"{call}: dtype {_checks.shown(mine.dtype)}: it takes {_checks.NAMES_OF_NUMBERS}")
    check_same(call, agree(call, mine.dtype, mine.shape))
    result = np.empty_like(mine)
    native.reduce(REDUCTIONS.index(call), code, result, mine)
    return _number(call, result, value) if is_number else _checks.like(call, value, result)


def sum_all(value: Any) -> Any:
    """The sum over all PEs, element by element: the same at all PEs, bit for bit. Collective.

    value: a number, or an array or tensor of i4, u4, i8, u8, f4 or f8; of the same size at all PEs. Integers wrap
        around.
    """
    return _reduce("sum_all", value)


def min_all(value: Any) -> Any:
    """The minimum over all PEs, element by element. NaN is ignored. Collective."""
    return _reduce("min_all", value)


def max_all(value: Any) -> Any:
    """The maximum over all PEs, element by element. NaN is ignored. Collective."""
    return _reduce("max_all", value)


def _plain(call: str, value: Any) -> tuple[np.ndarray[Any, Any], bool]:
    found, is_number = _as_array(call, value)
    if found.dtype.hasobject:
        raise TypeError(f"{call}: dtype {found.dtype}: it copies bytes, and objects are pointers")
    return found, is_number


def broadcast(value: Any, root: int = 0) -> Any:
    """What PE `root` passes, at all PEs. Collective.

    value: a number, or an array or tensor of any dtype but objects; of the same size and dtype at all PEs.
    """
    check_joined("broadcast")
    sender = _checks.pe_number("broadcast", "root", root, native.n_pes())
    mine, is_number = _plain("broadcast", value)
    check_same("broadcast", agree("broadcast", mine.dtype, mine.shape, sender))
    result = mine.copy()
    native.broadcast(result.view(np.uint8) if result.ndim else result, sender)
    return _number("broadcast", result, value) if is_number else _checks.like("broadcast", value, result)


def allgather(value: Any) -> Any:
    """What each PE passes, in the order of the PEs: an array with one more dimension, in front. Collective.

    value: a number, or an array or tensor of any dtype but objects; of the same size and dtype at all PEs.
    """
    check_joined("allgather")
    mine, is_number = _plain("allgather", value)
    check_same("allgather", agree("allgather", mine.dtype, mine.shape))
    result = np.empty((native.n_pes(), *(() if is_number else mine.shape)), mine.dtype)
    native.allgather(result.view(np.uint8), mine.view(np.uint8))
    return _checks.like("allgather", value, result)
