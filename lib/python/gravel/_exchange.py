"""Rows that go to any PEs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _array, _checks, _collectives, _device, _operations
from ._backend import native
from ._job import check_joined


def all_to_all(rows: Any, to: ArrayLike) -> tuple[Any, Any]:
    """Sends each row to a PE. Collective. The PEs may pass different numbers of rows, also none.

    rows: an array or tensor of one or more dimensions, contiguous; a row is what it has at a place of the first one.
        Its bytes are a multiple of 4. The dtype and the shape of a row are the same at all PEs.
    to: integers (i4, u4, i8, u8), for each row the PE to which it goes.

    Returns the rows that this PE has got, in the order of their PEs, and in the order of `rows` for each; and the
    number of rows from each PE, as a NumPy array. The rows are a tensor of PyTorch if `rows` is one.

    While it runs, the symmetric heap has room for the rows of the PE that gets the most: :class:`Error` at all PEs if
    there is too little.
    """
    check_joined("all_to_all")
    n_pes, me = native.n_pes(), native.my_pe()
    # If the call of one PE is wrong, the others must not wait: all compare first.
    try:
        mine, owners, row_bytes = _checked(rows, to, n_pes)
    except (TypeError, ValueError, IndexError):
        _collectives.agree("all_to_all", None, (0,), 1)
        raise
    all_pes = _collectives.agree("all_to_all", mine.dtype, (row_bytes,))
    wrong = np.flatnonzero(all_pes[:, 5])
    if len(wrong):
        raise ValueError(f"all_to_all: the call of PE {wrong[0]} is wrong: see its exception")
    _collectives.check_same("all_to_all", all_pes)

    counts = np.bincount(owners.astype(np.int64), minlength=n_pes)
    from_to = np.empty((n_pes, n_pes), np.int64)
    native.allgather(from_to, counts)
    received = from_to.sum(axis=0)
    block = int(received.max())
    word = np.dtype("u8" if row_bytes % 8 == 0 else "u4")
    buffer = _array.empty((block * n_pes, row_bytes // word.itemsize), word)

    order = np.argsort(owners, kind="stable")
    first = np.arange(n_pes) * block + from_to[:me].sum(axis=0)  # the place of this PE's first row at each PE
    before = np.cumsum(counts) - counts
    places = np.repeat(first - before, counts) + np.arange(len(order))
    words = np.ascontiguousarray(mine[order]).reshape(-1).view(word).reshape(len(order), row_bytes // word.itemsize)
    _operations.scatter_put(buffer, places, words)
    native.barrier()
    part = buffer.copy_local()[: received[me]]
    buffer.free()
    got = part.reshape(-1).view(mine.dtype)
    return _checks.like("all_to_all", rows, got.reshape((received[me], *mine.shape[1:]))), from_to[:, me].copy()


def _checked(rows: Any, to: Any, n_pes: int) -> tuple[NDArray[Any], NDArray[Any], int]:
    """The rows, the PE of each, and the bytes of a row."""
    mine = _checks.as_numpy("all_to_all", "rows", rows)
    if not isinstance(mine, np.ndarray) or mine.ndim == 0:
        raise TypeError(f"all_to_all: rows is an array of at least one dimension, not {type(rows).__name__}")
    if mine.dtype.hasobject:
        raise TypeError(f"all_to_all: dtype {mine.dtype}: it copies bytes, and objects are pointers")
    _checks.contiguous("all_to_all", "rows", mine)
    row_bytes = mine.dtype.itemsize * int(np.prod(mine.shape[1:], dtype=np.int64))
    if row_bytes == 0 or row_bytes % 4:
        raise ValueError(f"all_to_all: a row has {row_bytes} bytes: pad it to a multiple of 4")
    owners = _checks.index_array("all_to_all", _checks.as_numpy("all_to_all", "to", to), "to")
    if owners.shape != mine.shape[:1]:
        raise ValueError(f"all_to_all: to has shape {owners.shape}, and there are {len(mine)} rows")
    wrong = native.check(_device.place_of(owners), owners.size, _checks.code_of(owners.dtype), n_pes, 0)
    if wrong != owners.size:
        raise IndexError(f"all_to_all: to[{wrong}] is PE {owners[wrong]}: the job has PEs 0 to {n_pes - 1}")
    return mine, owners, row_bytes
