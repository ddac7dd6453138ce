"""Checks of arguments. A wrong number or type that reached a kernel would end the whole job, so every call checks
first, and raises an exception before anything is sent."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _device
from ._device import BF16, DeviceArray

# Numbers that maps and reductions take, too; then those of arrays alone. The order is that of `enum class element` in
# src/job.hpp.
NUMBERS = tuple(np.dtype(name) for name in ("i4", "u4", "i8", "u8", "f4", "f8"))
DTYPES = (*NUMBERS, np.dtype("f2"), BF16)
NAMES_OF_NUMBERS = "i4, u4, i8, u8, f4, f8"
NAMES = NAMES_OF_NUMBERS + ", f2, bf16"
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MOST_ELEMENTS = 1 << 45


def code_of(dtype: np.dtype[Any]) -> int:
    """The number of an element type; -1 if Gravel's operations do not know it."""
    return _CODES.get(dtype, -1)


def name_of(dtype: np.dtype[Any]) -> str:
    """The name by which programs ask for an element type."""
    return "bf16" if dtype == BF16 else dtype.str[1:]


def shown(dtype: np.dtype[Any]) -> str:
    """The name of any type in messages."""
    return "bf16" if dtype == BF16 else str(dtype)


def is_floating(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == BF16


def element_type(call: str, dtype: Any, among: tuple[np.dtype[Any], ...] = DTYPES) -> np.dtype[Any]:
    # PyTorch's types are called torch.float32 and so on.
    asked = str(dtype)[6:] if type(dtype).__module__ == "torch" else dtype
    try:
        found = BF16 if isinstance(asked, str) and asked in ("bf16", "bfloat16") else np.dtype(asked)
    except TypeError:
        found = None
    if found is None or found not in among:
        raise TypeError(
            f"{call}: dtype {repr(dtype) if found is None else found}: Gravel has "
            f"{NAMES if among is DTYPES else NAMES_OF_NUMBERS} here, in the byte order of this machine"
        )
    return found


def vector_type(call: str, dtype: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type of an item's key or value: numbers, and the shape of each item: () for one number. ``"u8x2"`` and
    NumPy's ``"(2,)u8"`` are two numbers of u8."""
    asked = dtype
    if isinstance(asked, str) and "x" in asked:
        number, _, width = asked.partition("x")
        asked = f"({width},){number}" if width.isdigit() else asked
    try:
        base, shape = getattr(np.dtype(asked), "subdtype", None) or (asked, ())
    except TypeError:
        base, shape = dtype, ()
    found = element_type(call, base, NUMBERS)
    if shape and (len(shape) != 1 or found.itemsize * shape[0] not in (4, 8, 16)):
        raise TypeError(f"{call}: dtype {dtype}: several numbers, such as 'u8x2', have 4, 8 or 16 bytes together")
    return found, () if shape == (1,) else tuple(shape)


def row_of_words(call: str, row: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Elements of 16 bits are updated in pairs."""
    if dtype.itemsize == 2 and int(np.prod(row, dtype=np.int64)) % 2:
        raise ValueError(
            f"{call}: rows of shape {row} of {name_of(dtype)}: a row has an even number of elements of 16 bits, as in "
            f"shape (n, 2)"
        )


def element_count(call: str, n: Any, what: str = "elements") -> int:
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"{call}: the number of {what} is an int, not {type(n).__name__}") from None
    if isinstance(n, (bool, np.bool_)):
        raise TypeError(f"{call}: the number of {what} is an int, not {type(n).__name__}")
    if not 0 <= count <= MOST_ELEMENTS:
        raise ValueError(f"{call}: {count} {what}: there are 0 to 2**45")
    return count


def array_shape(call: str, shape: Any) -> tuple[int, tuple[int, ...]]:
    """The number of rows, and the shape of a row: () if the rows are single elements."""
    if not isinstance(shape, (tuple, list)):
        return element_count(call, shape), ()
    if not shape:
        raise ValueError(f"{call}: shape (): an array has at least one dimension")
    sizes = tuple(element_count(call, size) for size in shape)
    if 0 in sizes[1:]:
        raise ValueError(f"{call}: shape {sizes}: only the first dimension may be 0")
    element_count(call, int(np.prod(sizes, dtype=object)))
    return sizes[0], sizes[1:]


def pe_number(call: str, what: str, pe: Any, n_pes: int) -> int:
    try:
        number = operator.index(pe)
    except TypeError:
        raise TypeError(f"{call}: {what} is the number of a PE, an int, not {type(pe).__name__}") from None
    if not 0 <= number < n_pes:
        raise IndexError(f"{call}: {what} is PE {number}: the job has PEs 0 to {n_pes - 1}")
    return number


def contiguous(call: str, name: str, array: Any, at_least: int = 1) -> Any:
    """Refuses an array with gaps instead of copying it: the copy would cost more than the call. `at_least`: bytes to
    which it is aligned."""
    if isinstance(array, DeviceArray):
        if not array.is_contiguous:
            raise ValueError(
                f"{call}: {name} is not contiguous (shape {array.shape}, strides {array.strides}): "
                f"pass {name}.contiguous() or cupy.ascontiguousarray({name})"
            )
        if array.address % max(array.dtype.itemsize, at_least):
            raise ValueError(f"{call}: {name} is not aligned: pass a copy")
        return array
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{call}: {name} is not contiguous (shape {array.shape}, strides {array.strides}): "
            f"pass numpy.ascontiguousarray({name})"
        )
    if not array.flags.aligned or (array.size and array.ctypes.data % at_least):
        raise ValueError(f"{call}: {name} is not aligned: pass a copy, {name}.copy()")
    return array


def as_array(call: str, name: str, value: Any) -> Any:
    """The memory of a tensor of PyTorch, or of another library with DLPack, as a NumPy array; that of a GPU as a
    DeviceArray. Other values as they are."""
    if isinstance(value, np.ndarray):
        return value
    if _device.is_on_gpu(value):
        return _device.of(call, name, value)
    if not hasattr(value, "__dlpack__"):
        return value
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach()
    try:
        if type(value).__module__.startswith("torch"):
            return _device.array_of(value)
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except (TypeError, RuntimeError, BufferError) as e:
        raise TypeError(f"{call}: {name} cannot be read as a NumPy array: {e}") from e


def as_numpy(call: str, name: str, value: Any) -> Any:
    """The same in memory of the host: what is on a GPU is copied."""
    found = as_array(call, name, value)
    return _device.to_host(contiguous(call, name, found)) if isinstance(found, DeviceArray) else found


def like(call: str, value: Any, result: NDArray[Any]) -> Any:
    """The result as an array of the library of `value`: of a GPU as a copy, of PyTorch without one."""
    if _device.is_on_gpu(value):
        return _device.from_host(call, result, _device.of(call, "value", value))
    if not type(value).__module__.startswith("torch"):
        return result
    import torch

    try:
        return _device.tensor_of(result)
    except TypeError as e:
        raise TypeError(f"{call}: PyTorch has no tensors of dtype {result.dtype}: pass NumPy arrays") from e


def index_array(call: str, index: ArrayLike, name: str = "index") -> Any:
    """A contiguous array of integers of 4 or 8 bytes, of the host or of a GPU. `name`: of the argument."""
    index = as_array(call, name, index)
    if isinstance(index, DeviceArray):
        return contiguous(call, name, _with_index_type(call, name, index))
    if not isinstance(index, np.ndarray) and not hasattr(index, "__len__"):
        try:
            operator.index(index)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(f"{call}: {name} is an array of integers, not {type(index).__name__}") from None
    found = np.asarray(index)
    if found.size == 0 and not isinstance(index, np.ndarray):
        found = found.astype(np.int64)  # an empty list
    return contiguous(call, name, _with_index_type(call, name, found))


def _with_index_type(call: str, name: str, found: Any) -> Any:
    if not 0 <= code_of(found.dtype) < 4:
        raise TypeError(f"{call}: {name} has dtype {found.dtype}: it is i4, u4, i8 or u8 ({name}.astype('i8'))")
    return found


def scalar(call: str, name: str, value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """One value as an array of one element. It must fit the type."""
    if is_floating(dtype):
        if isinstance(value, (complex, np.complexfloating, str, bytes)):
            raise TypeError(f"{call}: {name} is {value!r}, and the array has dtype {dtype}")
        try:
            return _of_float(np.array([float(value)]), dtype)
        except (TypeError, ValueError):
            raise TypeError(f"{call}: {name} is a number or an array, not {type(value).__name__}") from None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{call}: {name} is {value!r}, and the array has dtype {dtype}: pass an int") from None
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise OverflowError(
            f"{call}: {name} is {number}, and the array has dtype {dtype}: {limits.min} to {limits.max}"
        )
    return np.array([number], dtype)


def _of_float(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in a floating-point type. Those that become bfloat16 are rounded to f4 first."""
    if dtype != BF16 or dtype.names is None:
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # to the nearest, ties to even
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16).view(dtype)


def converted(call: str, values: NDArray[Any], dtype: np.dtype[Any], name: str = "values") -> NDArray[Any]:
    """The values in this type. Integers must fit; floating-point numbers become no integers. `name`: that of the
    argument."""
    if values.dtype == dtype or values.size == 0:
        return values.astype(dtype, copy=False)
    if values.dtype.kind not in ("iuf" if is_floating(dtype) else "iu"):
        raise TypeError(f"{call}: {name} have dtype {values.dtype}, which does not become {dtype}")
    if is_floating(dtype):
        return _of_float(values, dtype)
    else:
        limits = np.iinfo(dtype)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise OverflowError(f"{call}: {name} do not fit dtype {dtype}: {limits.min} to {limits.max}")
    return values.astype(dtype)


def values_array(
    call: str,
    values: Any,
    dtype: np.dtype[Any],
    index_shape: tuple[int, ...],
    row: tuple[int, ...],
    names: tuple[str, str] = ("array", "index"),
) -> tuple[Any, bool]:
    """The values, and whether they are one for all. `names`: what they are for, and the argument that has a number for
    each."""
    values = as_array(call, "values", values)
    if isinstance(values, DeviceArray) and values.ndim == 0:
        values = _device.to_host(values)
    if isinstance(values, (list, tuple)):
        values = converted(call, np.asarray(values), dtype)
    if not isinstance(values, (np.ndarray, DeviceArray)) or values.ndim == 0:
        return scalar(call, "values", values[()] if isinstance(values, np.ndarray) else values, dtype), True
    if values.dtype != dtype:
        raise TypeError(
            f"{call}: values have dtype {shown(values.dtype)}, the {names[0]} {shown(dtype)}: pass "
            + ("a tensor of torch.bfloat16" if dtype == BF16 else f"values.astype('{name_of(dtype)}')")
        )
    if values.shape != index_shape + row:
        each = f"a row of shape {row}" if row else "one value"
        raise ValueError(
            f"{call}: values have shape {values.shape}, {names[1]} {index_shape}: there is {each} for each number, or "
            "one value for all"
        )
    return contiguous(call, "values", values, at_least=min(4, 2 * dtype.itemsize)), False
