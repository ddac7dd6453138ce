"""Operations on elements anywhere in a distributed array. They are one-sided: the other PEs take no part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _checks, _device
from ._array import Array
from ._backend import native
from ._device import DeviceArray
from ._job import check_joined

# The order is that of `enum class operation` in src/job.hpp.
OPERATIONS = ("scatter_add", "scatter_put", "scatter_min", "scatter_max")


def _checked(call: str, array: Any, index: ArrayLike, check: bool) -> tuple[Any, Any, int]:
    """The native object of the array, the numbers, and the number of their type."""
    check_joined(call)
    if not isinstance(array, Array):
        raise TypeError(f"{call}: the first argument is a gravel.Array, not {type(array).__name__}")
    memory = array.memory(call)
    numbers = _checks.index_array(call, index)
    code = _checks.code_of(numbers.dtype)
    if isinstance(numbers, DeviceArray) and not check:
        return memory, numbers, code  # kernels check
    wrong = native.check(_device.place_of(numbers), numbers.size, code, array.n, _device.stream_of(numbers))
    if wrong != numbers.size:
        place = wrong if numbers.ndim <= 1 else tuple(int(i) for i in np.unravel_index(wrong, numbers.shape))
        parts = "rows" if array.row else "elements"
        number = (_device.to_host(numbers) if isinstance(numbers, DeviceArray) else numbers).flat[wrong]
        raise IndexError(f"{call}: index[{place}] is {number}: the array has {parts} 0 to {array.n - 1}")
    return memory, numbers, code


def _scatter(call: str, array: Array, index: ArrayLike, values: Any, check: bool) -> None:
    memory, numbers, code = _checked(call, array, index, check)
    operands, one_value = _checks.values_array(call, values, array.dtype, numbers.shape, array.row)
    native.scatter(
        OPERATIONS.index(call), memory, _device.place_of(numbers), numbers.size, code, _device.place_of(operands),
        one_value, _device.stream_of(numbers, operands),
    )  # fmt: skip


def scatter_add(array: Array, index: ArrayLike, values: Any, *, check: bool = False) -> None:
    """``array[index[i]] += values[i]`` for all `i`, each element atomically. Numbers may occur several times.

    index: integers (i4, u4, i8, u8) from 0 to ``array.n - 1``, an array or tensor of any shape.
    values: an array or tensor of the shape ``index.shape + array.row`` and of the array's dtype, or one number for all.
    check: numbers on a GPU are checked before anything is sent, and a wrong one is an :class:`IndexError`; this waits
        for the stream. Otherwise a wrong number on a GPU ends the job. Numbers of the host are always checked.

    Arrays of the host may be changed on return. Arrays of a GPU are read in the current stream of their library:
    changes behind the call in that stream come after it. :func:`quiet` waits until the operations of this PE are
    applied, :func:`barrier` for those of all PEs. Operations have no order among each other before that.
    """
    _scatter("scatter_add", array, index, values, check)


def scatter_put(array: Array, index: ArrayLike, values: Any, *, check: bool = False) -> None:
    """``array[index[i]] = values[i]`` for all `i`. If a number occurs several times, one of its values is stored, in
    each element of a row for itself. See :func:`scatter_add`."""
    _scatter("scatter_put", array, index, values, check)


def scatter_min(array: Array, index: ArrayLike, values: Any, *, check: bool = False) -> None:
    """``array[index[i]] = min(array[index[i]], values[i])`` for all `i`, atomically. NaN changes nothing. See
    :func:`scatter_add`."""
    _scatter("scatter_min", array, index, values, check)


def scatter_max(array: Array, index: ArrayLike, values: Any, *, check: bool = False) -> None:
    """``array[index[i]] = max(array[index[i]], values[i])`` for all `i`, atomically. NaN changes nothing. See
    :func:`scatter_add`."""
    _scatter("scatter_max", array, index, values, check)


def gather(array: Array, index: ArrayLike, out: Any = None, *, check: bool = False) -> Any:
    """``array[index[i]]`` for all `i`, in the shape ``index.shape + array.row``. Returns an array of the library of
    `index`: a tensor of PyTorch, an array of CuPy, else of NumPy.

    Waits for the values. If `index` and the result are on a GPU, the values are there in the current stream of the
    library, and the host does not wait where all PEs have each other's memory mapped; such a call may be captured into
    a CUDA graph.

    Operations that are not applied yet may be seen or not: call :func:`quiet` (own ones) or :func:`barrier` before.

    out: the array or tensor to write to, contiguous, of this shape and of the array's dtype. It is returned.
    check: as for :func:`scatter_add`.
    """
    memory, numbers, code = _checked("gather", array, index, check)
    shape = numbers.shape + array.row
    result = out
    if out is None:
        on_gpu = isinstance(numbers, DeviceArray)
        result = _device.empty_like("gather", numbers, shape, array.dtype) if on_gpu else np.empty(shape, array.dtype)
    to = _checks.as_array("gather", "out", result)
    if not isinstance(to, (np.ndarray, DeviceArray)) or to.dtype != array.dtype or to.shape != shape:
        what = f"shape {to.shape}, dtype {to.dtype}" if hasattr(to, "shape") else type(out).__name__
        raise ValueError(f"gather: out is an array of shape {shape}, dtype {array.dtype}, not {what}")
    if to.is_readonly if isinstance(to, DeviceArray) else not to.flags.writeable:
        raise ValueError("gather: out is read-only")
    _checks.contiguous("gather", "out", to, at_least=min(4, 2 * array.dtype.itemsize))
    native.gather(
        memory, _device.place_of(numbers), numbers.size, code, _device.place_of(to), _device.stream_of(numbers, to)
    )
    return _checks.like("gather", index, result) if out is None and isinstance(to, np.ndarray) else result
