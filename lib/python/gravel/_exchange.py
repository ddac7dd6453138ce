"""Rows that go to any PEs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _checks, _collectives, _device
from ._backend import native
from ._device import DeviceArray
from ._job import check_joined

MOST_BYTES = 65536  # of a row of gravel::row_exchange


def all_to_all(rows: Any, to: ArrayLike) -> tuple[Any, Any]:
    """Sends each row to a PE. Collective. The PEs may pass different numbers of rows, also none.

    rows: an array or tensor of one or more dimensions, contiguous; a row is what it has at a place of the first one.
        Its bytes are a multiple of 4. The dtype and the shape of a row are the same at all PEs.
    to: integers (i4, u4, i8, u8), for each row the PE to which it goes.

    Returns the rows that this PE has got, in the order of their PEs, and in the order of `rows` for each; and the
    number of rows from each PE, as a NumPy array. The rows are an array of the library of `rows`; those of GPUs do not
    go through the host.

    While it runs, the symmetric heap has room for the rows of the PE that gets the most: :class:`Error` at all PEs if
    there is too little.
    """
    check_joined("all_to_all")
    n_pes, me = native.n_pes(), native.my_pe()
    # If the call of one PE is wrong, the others must not wait: all compare first.
    try:
        mine, owners, row_bytes, counts = _checked(rows, to, n_pes)
    except (TypeError, ValueError, IndexError):
        _collectives.agree("all_to_all", None, (0,), 1)
        raise
    all_pes = _collectives.agree("all_to_all", mine.dtype, (row_bytes,))
    wrong = np.flatnonzero(all_pes[:, 5])
    if len(wrong):
        raise ValueError(f"all_to_all: the call of PE {wrong[0]} is wrong: see its exception")
    _collectives.check_same("all_to_all", all_pes)

    from_to = np.empty((n_pes, n_pes), np.int64)
    native.allgather(from_to, counts)
    received = from_to.sum(axis=0)
    shape = (int(received[me]), *mine.shape[1:])
    on_gpu = isinstance(mine, DeviceArray)
    result = _device.empty_like("all_to_all", mine, shape, mine.dtype) if on_gpu else np.empty(shape, mine.dtype)
    parts = -(-row_bytes // MOST_BYTES)
    while row_bytes % parts or row_bytes // parts % 4:
        parts += 1
    if parts > 1:  # a large row goes as several
        pes = _device.to_host(owners) if isinstance(owners, DeviceArray) else owners
        owners = np.repeat(pes, parts)
    native.exchange(
        _place(mine), _device.place_of(owners), owners.size, _checks.code_of(owners.dtype), row_bytes // parts,
        int(received.max()) * parts, _place(DeviceArray(result) if on_gpu else result), shape[0] * parts,
        _device.stream_of(mine, owners),
    )  # fmt: skip
    return result if on_gpu else _checks.like("all_to_all", rows, result), from_to[:, me].copy()


def _place(rows: Any) -> Any:
    """As :func:`_device.place_of`, for dtypes of which NumPy makes no buffers, too."""
    return rows.address if isinstance(rows, DeviceArray) else rows.reshape(-1).view(np.uint8)


def _checked(rows: Any, to: Any, n_pes: int) -> tuple[Any, Any, int, NDArray[Any]]:
    """The rows, the PE of each, the bytes of a row, and the number of rows for each PE."""
    mine = _checks.as_array("all_to_all", "rows", rows)
    if not isinstance(mine, (np.ndarray, DeviceArray)) or mine.ndim == 0:
        raise TypeError(f"all_to_all: rows is an array of at least one dimension, not {type(rows).__name__}")
    if mine.dtype.hasobject:
        raise TypeError(f"all_to_all: dtype {mine.dtype}: it copies bytes, and objects are pointers")
    _checks.contiguous("all_to_all", "rows", mine)
    row_bytes = mine.dtype.itemsize * int(np.prod(mine.shape[1:], dtype=np.int64))
    if row_bytes == 0 or row_bytes % 4:
        raise ValueError(f"all_to_all: a row has {row_bytes} bytes: pad it to a multiple of 4")
    if isinstance(mine, np.ndarray):
        mine = mine if mine.ctypes.data % 4 == 0 else mine.copy()
    elif mine.address % 4:
        raise ValueError("all_to_all: rows are not aligned to 4 bytes: pass a copy")
    owners = _checks.index_array("all_to_all", to, "to")
    if owners.shape != mine.shape[:1]:
        raise ValueError(f"all_to_all: to has shape {owners.shape}, and there are {len(mine)} rows")
    code, stream = _checks.code_of(owners.dtype), _device.stream_of(owners)
    counts = np.array(native.count_by_pe(_device.place_of(owners), owners.size, code, stream), np.int64)
    if counts[n_pes]:
        wrong = native.check(_device.place_of(owners), owners.size, code, n_pes, stream)
        number = (_device.to_host(owners) if isinstance(owners, DeviceArray) else owners)[wrong]
        raise IndexError(f"all_to_all: to[{wrong}] is PE {number}: the job has PEs 0 to {n_pes - 1}")
    return mine, owners, row_bytes, counts[:n_pes]
