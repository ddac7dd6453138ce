"""Operations on elements anywhere in a distributed array. They are one-sided: the other PEs take no part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _checks
from ._array import Array
from ._backend import native
from ._job import check_joined

# The order is that of `enum class operation` in src/job.hpp.
OPERATIONS = ("scatter_add", "scatter_put", "scatter_min", "scatter_max")


def _checked(call: str, array: Any, index: ArrayLike) -> tuple[Any, NDArray[Any], int]:
    check_joined(call)
    if not isinstance(array, Array):
        raise TypeError(f"{call}: the first argument is a gravel.Array, not {type(array).__name__}")
    memory = array.memory(call)
    numbers = _checks.index_array(call, index)
    code = _checks.code_of(numbers.dtype)
    wrong = native.check(numbers, code, array.n)
    if wrong != numbers.size:
        place = wrong if numbers.ndim <= 1 else tuple(int(i) for i in np.unravel_index(wrong, numbers.shape))
        parts = "rows" if array.row else "elements"
        raise IndexError(f"{call}: index[{place}] is {numbers.flat[wrong]}: the array has {parts} 0 to {array.n - 1}")
    return memory, numbers, code


def _scatter(call: str, array: Array, index: ArrayLike, values: Any) -> None:
    memory, numbers, code = _checked(call, array, index)
    operands, one_value = _checks.values_array(call, values, array.dtype, numbers.shape, array.row)
    native.scatter(OPERATIONS.index(call), memory, numbers, code, operands, one_value)


def scatter_add(array: Array, index: ArrayLike, values: Any) -> None:
    """``array[index[i]] += values[i]`` for all `i`, each element atomically. Numbers may occur several times.

    index: integers (i4, u4, i8, u8) from 0 to ``array.n - 1``, an array or tensor of any shape.
    values: an array or tensor of the shape ``index.shape + array.row`` and of the array's dtype, or one number for all.

    Returns when `index` and `values` may be changed. :func:`quiet` waits until the operations of this PE are applied,
    :func:`barrier` for those of all PEs. Operations have no order among each other before that.
    """
    _scatter("scatter_add", array, index, values)


def scatter_put(array: Array, index: ArrayLike, values: Any) -> None:
    """``array[index[i]] = values[i]`` for all `i`. If a number occurs several times, one of its values is stored, in
    each element of a row for itself. See :func:`scatter_add`."""
    _scatter("scatter_put", array, index, values)


def scatter_min(array: Array, index: ArrayLike, values: Any) -> None:
    """``array[index[i]] = min(array[index[i]], values[i])`` for all `i`, atomically. NaN changes nothing. See
    :func:`scatter_add`."""
    _scatter("scatter_min", array, index, values)


def scatter_max(array: Array, index: ArrayLike, values: Any) -> None:
    """``array[index[i]] = max(array[index[i]], values[i])`` for all `i`, atomically. NaN changes nothing. See
    :func:`scatter_add`."""
    _scatter("scatter_max", array, index, values)


def gather(array: Array, index: ArrayLike, out: Any = None) -> Any:
    """``array[index[i]]`` for all `i`, in the shape ``index.shape + array.row``. Waits for the values. Returns a tensor
    of PyTorch if `index` is one, else a NumPy array.

    Operations that are not applied yet may be seen or not: call :func:`quiet` (own ones) or :func:`barrier` before.

    out: the array or tensor to write to, contiguous, of this shape and of the array's dtype. It is returned.
    """
    memory, numbers, code = _checked("gather", array, index)
    shape = numbers.shape + array.row
    if out is None:
        got = np.empty(shape, array.dtype)
        native.gather(memory, numbers, code, got)
        return _checks.like("gather", index, got)
    to = _checks.as_numpy("gather", "out", out)
    if not isinstance(to, np.ndarray) or to.dtype != array.dtype or to.shape != shape:
        what = f"shape {to.shape}, dtype {to.dtype}" if isinstance(to, np.ndarray) else type(out).__name__
        raise ValueError(f"gather: out is an array of shape {shape}, dtype {array.dtype}, not {what}")
    if not to.flags.writeable:
        raise ValueError("gather: out is read-only")
    native.gather(memory, numbers, code, _checks.contiguous("gather", "out", to))
    return out
