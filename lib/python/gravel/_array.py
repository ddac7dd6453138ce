"""Distributed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _checks, _collectives, _device
from ._backend import chosen, native
from ._job import check_joined, is_joined


class Array:
    """An array that is distributed over the PEs along its first dimension, in blocks of equal size: the last ones may
    be smaller, or empty. What it has at a place of the first dimension is an element, or a row of elements.
    :func:`zeros`, :func:`empty`, :func:`full` and :func:`from_local` make arrays."""

    __slots__ = ("_memory", "_n", "_row", "_dtype", "_block", "_begin", "_end")

    def __init__(
        self, n: int, row: tuple[int, ...], dtype: np.dtype[Any], block: int, on_host: bool = False
    ) -> None:
        self._n, self._row, self._dtype, self._block = n, row, dtype, max(1, block)
        self._begin = min(n, native.my_pe() * self._block)
        self._end = min(n, self._begin + self._block)
        self._memory: native.ArrayMemory | None = native.ArrayMemory(
            _checks.code_of(dtype), n, self._block, _elements_of(row), on_host
        )

    @property
    def n(self) -> int:
        """The number of elements, or of rows, of all PEs together."""
        return self._n

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row: () if the array has one dimension."""
        return self._row

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array: ``(n,) + row``."""
        return (self._n, *self._row)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._dtype

    @property
    def begin(self) -> int:
        """The number of the first element, or row, of this PE."""
        return self._begin

    @property
    def end(self) -> int:
        """The number behind the last element, or row, of this PE."""
        return self._end

    @property
    def block(self) -> int:
        """The number of elements, or rows, of each PE but the last ones. Number `i` is at PE ``i // block``."""
        return self._block

    @property
    def is_open(self) -> bool:
        """False after :meth:`free`, and after :func:`finalize`."""
        return self._memory is not None and is_joined()

    @property
    def local(self) -> Any:
        """This PE's part, ``[begin, end)``, as a NumPy array; on GPUs as an array of CuPy, or a tensor if CuPy is not
        there. It is the memory itself, not a copy: what other PEs send appears in it, and is complete after
        :func:`barrier`."""
        if chosen() == "cuda":
            return _device.view("Array.local", self.memory("local"), self._local_shape, self._dtype, None)
        return self._view("local")

    @property
    def tensor(self) -> Any:
        """The same as a tensor of PyTorch. It is the memory itself, too."""
        if chosen() == "cuda":
            return _device.view("Array.tensor", self.memory("tensor"), self._local_shape, self._dtype, "torch")
        return _device.tensor_of(self._view("tensor"))

    @property
    def _local_shape(self) -> tuple[int, ...]:
        return (self._end - self._begin, *self._row)

    def _view(self, call: str) -> NDArray[Any]:
        shape = self._local_shape
        return self.memory(call).view(_elements_of(shape)).view(self._dtype).reshape(shape)

    def copy_local(self) -> NDArray[Any]:
        """A copy of this PE's part as a NumPy array, on all backends. On GPUs it first waits for the current streams of
        PyTorch and CuPy."""
        _device.synchronize()
        memory, result = self.memory("copy_local"), np.empty(self._local_shape, self._dtype)
        native.copy(result.ctypes.data, memory.address(), result.nbytes)
        return result

    def _write(self, part: NDArray[Any]) -> None:
        """Fills this PE's part from its beginning."""
        part = np.ascontiguousarray(part)
        self.memory("local").write(part.ctypes.data, part.nbytes)

    def owner(self, index: int) -> int:
        """The PE that has this element, or row."""
        number = _checks.element_count("Array.owner", index)
        if number >= self._n:
            raise IndexError(f"Array.owner: element {number}: the array has {self._n}")
        return number // self._block

    def free(self) -> None:
        """Frees the array. Collective. All operations on it are applied first. On GPUs it waits for the current streams
        of PyTorch and CuPy.

        Raises :class:`BufferError` at all PEs if one of them still uses ``local`` or ``tensor``.
        """
        memory = self.memory("free")
        _device.synchronize()
        all_pes = _collectives.agree("free", self._dtype, self.shape, memory.views())
        views_of = all_pes[:, 5].copy()
        all_pes[:, 5] = 0
        _collectives.check_same("free", all_pes)
        if views_of.any():
            pe = int(np.flatnonzero(views_of)[0])
            raise BufferError(
                f"Array.free: PE {pe} has {views_of[pe]} view(s) of the array: end them first (del)"
            )
        self._memory = None
        memory.release()

    def memory(self, call: str) -> native.ArrayMemory:
        """The native object. For the package."""
        check_joined(f"Array.{call}")
        if self._memory is None:
            raise ValueError(f"gravel.Array.{call}: the array was freed")
        return self._memory

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        shape = self._n if not self._row else self.shape
        return f"<gravel.Array of {shape} {_checks.name_of(self._dtype)}, here [{self._begin}, {self._end}){state}>"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a gravel.Array is no NumPy array: use .local for this PE's part, or gravel.gather")

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"numpy.{ufunc.__name__} takes no gravel.Array: use .local for this PE's part, or gravel.gather"
        )


def _elements_of(row: tuple[int, ...]) -> int:
    return int(np.prod(row, dtype=np.int64))


def _new(call: str, shape: Any, dtype: DTypeLike, place: str) -> Array:
    check_joined(call)
    n, row = _checks.array_shape(call, shape)
    element = _checks.element_type(call, dtype)
    _checks.row_of_words(call, row, element)
    if place not in ("device", "host"):
        raise ValueError(f"{call}: place {place!r}: it is 'device' or 'host'")
    on_host = place == "host"
    _collectives.check_same(call, _collectives.agree(call, element, (n, *row), 2 * n + on_host))
    return Array(n, row, element, -(-n // native.n_pes()), on_host)


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = "f8", *, place: str = "device") -> Array:
    """A distributed array of zeros. Collective: all PEs pass the same.

    shape: the number of elements; or of rows, followed by the shape of a row: ``(n, 64)`` for n rows of 64 elements.
    dtype: i4, u4, i8, u8, f4, f8, f2 or bf16, or a dtype of NumPy or PyTorch that is one of these. A row of f2 or bf16
        has an even number of elements. NumPy has no bfloat16: arrays have that of the package ml_dtypes if it is
        installed. Otherwise they have the bits, as ``array["bits"]``; :attr:`Array.tensor` is a tensor of
        ``torch.bfloat16`` in any case.
    place: "device", the memory of the GPUs; or "host", pinned memory of the host near each GPU, which is larger and
        slower: GPUs read it over PCIe. All operations are the same. The heap must have addresses for the array
        (``GRAVEL_SYMMETRIC_SIZE``). On the CPU backend both are the same.
    """
    return _new("zeros", shape, dtype, place)


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = "f8", *, place: str = "device") -> Array:
    """A distributed array whose values are not defined. Collective. See :func:`zeros`."""
    return _new("empty", shape, dtype, place)


def full(shape: int | tuple[int, ...], value: Any, dtype: DTypeLike = "f8", *, place: str = "device") -> Array:
    """A distributed array of elements that are all `value`. Collective. See :func:`zeros`."""
    check_joined("full")
    element = _checks.element_type("full", dtype)
    filler = _checks.scalar("full", "value", value, element)
    array = _new("full", shape, element, place)
    array._write(np.full(array._local_shape, filler[0], element))
    native.barrier()  # no PE sends before all parts are filled
    return array


def from_local(values: Any, dtype: DTypeLike | None = None) -> Array:
    """A distributed array that begins as a copy of what the PEs have, in the order of the PEs. Collective.

    values: this PE's part, an array or tensor of one or more dimensions. All PEs pass as many elements, or rows, as PE
    0; only the last PE that passes any may pass fewer.
    """
    check_joined("from_local")
    part = np.asarray(_checks.as_numpy("from_local", "values", values))
    if part.ndim == 0 or 0 in part.shape[1:]:
        raise ValueError(f"from_local: values have shape {part.shape}: an array has a dimension, and no empty rows")
    element = _checks.element_type("from_local", part.dtype if dtype is None else dtype)
    part = _checks.converted("from_local", part, element)
    row = part.shape[1:]
    _checks.row_of_words("from_local", row, element)
    all_pes = _collectives.agree("from_local", element, (len(part),), _elements_of(row))
    lengths = all_pes[:, 4].copy()
    all_pes[:, 4] = 0
    _collectives.check_same("from_local", all_pes)
    n, block = int(lengths.sum()), int(lengths[0])
    wanted = [max(0, min(block, n - pe * block)) for pe in range(len(lengths))]
    for pe, (length, expected) in enumerate(zip(lengths, wanted)):
        if length != expected:
            raise ValueError(
                f"from_local: PE {pe} passes {length} elements or rows, PE 0 {block}. All PEs pass as many as PE 0; "
                f"only the last one that passes any may pass fewer. Lengths by PE: {lengths.tolist()}"
            )
    array = Array(n, row, element, block)
    array._write(part)
    native.barrier()  # no PE sends before all parts are filled
    return array
