"""Distributed arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _checks, _collectives
from ._backend import native
from ._job import check_joined, is_joined


class Array:
    """An array of one dimension that is distributed over the PEs in blocks of equal size: the last ones may be smaller,
    or empty. :func:`zeros`, :func:`empty`, :func:`full` and :func:`from_local` make arrays."""

    __slots__ = ("_memory", "_n", "_dtype", "_block", "_begin", "_end")

    def __init__(self, n: int, dtype: np.dtype[Any], block: int) -> None:
        self._n, self._dtype, self._block = n, dtype, max(1, block)
        self._begin = min(n, native.my_pe() * self._block)
        self._end = min(n, self._begin + self._block)
        self._memory: native.ArrayMemory | None = native.ArrayMemory(_checks.code_of(dtype), n, self._block)

    @property
    def n(self) -> int:
        """The number of elements, of all PEs together."""
        return self._n

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._dtype

    @property
    def begin(self) -> int:
        """The number of the first element of this PE."""
        return self._begin

    @property
    def end(self) -> int:
        """The number behind the last element of this PE."""
        return self._end

    @property
    def block(self) -> int:
        """The number of elements of each PE but the last ones. Element `i` is at PE ``i // block``."""
        return self._block

    @property
    def is_open(self) -> bool:
        """False after :meth:`free`, and after :func:`finalize`."""
        return self._memory is not None and is_joined()

    @property
    def local(self) -> NDArray[Any]:
        """This PE's part, ``[begin, end)``, as a NumPy array. It is the memory itself, not a copy: what other PEs send
        appears in it, and is complete after :func:`barrier`."""
        return self.memory("local").view(self._end - self._begin)

    def owner(self, index: int) -> int:
        """The PE that has this element."""
        number = _checks.element_count("Array.owner", index)
        if number >= self._n:
            raise IndexError(f"Array.owner: element {number}: the array has {self._n}")
        return number // self._block

    def free(self) -> None:
        """Frees the array. Collective. All operations on it are applied first.

        Raises :class:`BufferError` at all PEs if one of them still uses ``local``.
        """
        memory = self.memory("free")
        all_pes = _collectives.agree("free", self._dtype, (self._n,), memory.views())
        views_of = all_pes[:, 5].copy()
        all_pes[:, 5] = 0
        _collectives.check_same("free", all_pes)
        if views_of.any():
            pe = int(np.flatnonzero(views_of)[0])
            raise BufferError(
                f"Array.free: PE {pe} has {views_of[pe]} NumPy view(s) of the array: end them first (del)"
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
        return f"<gravel.Array of {self._n} {self._dtype.str[1:]}, here [{self._begin}, {self._end}){state}>"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a gravel.Array is no NumPy array: use .local for this PE's part, or gravel.gather")

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"numpy.{ufunc.__name__} takes no gravel.Array: use .local for this PE's part, or gravel.gather"
        )


def _new(call: str, n: Any, dtype: DTypeLike) -> Array:
    check_joined(call)
    count, element = _checks.element_count(call, n), _checks.element_type(call, dtype)
    _collectives.check_same(call, _collectives.agree(call, element, (count,)))
    return Array(count, element, -(-count // native.n_pes()))


def zeros(n: int, dtype: DTypeLike = "f8") -> Array:
    """A distributed array of `n` zeros. Collective: all PEs pass the same `n` and `dtype`.

    dtype: i4, u4, i8, u8, f4 or f8.
    """
    return _new("zeros", n, dtype)


def empty(n: int, dtype: DTypeLike = "f8") -> Array:
    """A distributed array of `n` elements whose values are not defined. Collective."""
    return _new("empty", n, dtype)


def full(n: int, value: Any, dtype: DTypeLike = "f8") -> Array:
    """A distributed array of `n` elements that are all `value`. Collective."""
    check_joined("full")
    element = _checks.element_type("full", dtype)
    filler = _checks.scalar("full", "value", value, element)
    array = _new("full", n, element)
    array.local[:] = filler[0]
    native.barrier()  # no PE sends before all parts are filled
    return array


def from_local(values: NDArray[Any], dtype: DTypeLike | None = None) -> Array:
    """A distributed array that begins as a copy of what the PEs have, in the order of the PEs. Collective.

    values: this PE's part, an array of one dimension. All PEs pass as many elements as PE 0; only the last PE that
    passes any may pass fewer.
    """
    check_joined("from_local")
    part = np.asarray(values)
    if part.ndim != 1:
        raise ValueError(f"from_local: values have shape {part.shape}: an array of one dimension")
    element = _checks.element_type("from_local", part.dtype if dtype is None else dtype)
    part = _checks.converted("from_local", part, element)
    all_pes = _collectives.agree("from_local", element, part.shape)
    lengths = all_pes[:, 4].copy()
    all_pes[:, 4] = 0
    _collectives.check_same("from_local", all_pes)
    n, block = int(lengths.sum()), int(lengths[0])
    wanted = [max(0, min(block, n - pe * block)) for pe in range(len(lengths))]
    for pe, (length, expected) in enumerate(zip(lengths, wanted)):
        if length != expected:
            raise ValueError(
                f"from_local: PE {pe} passes {length} elements, and PE 0 {block}. All PEs pass as many as PE 0; only "
                "the last "
                f"one that passes any may pass fewer. Lengths by PE: {lengths.tolist()}"
            )
    array = Array(n, element, block)
    array.local[:] = part
    native.barrier()  # no PE sends before all parts are filled
    return array
