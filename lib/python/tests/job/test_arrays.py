from __future__ import annotations

import gc

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, on_gpu, write

DTYPES = ("i4", "u4", "i8", "u8", "f4", "f8")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 7, 64, 1001])
def test_blocks(dtype, n):
    array = gr.zeros(n, dtype)
    assert array.n == len(array) == n and array.dtype == np.dtype(dtype)
    parts = gr.allgather(np.array([array.begin, array.end]))
    assert parts[0, 0] == 0 and parts[-1, 1] == n
    assert (parts[1:, 0] == parts[:-1, 1]).all()
    assert local_part(array).shape == (array.end - array.begin,) and local_part(array).dtype == array.dtype
    assert (local_part(array) == 0).all()
    for i in {0, n // 2, n - 1} - {-1} if n else ():
        assert parts[array.owner(i), 0] <= i < parts[array.owner(i), 1]
    array.free()


def test_local_is_the_memory():
    if on_gpu():
        pytest.skip("a view of CuPy or PyTorch: test_memory.py")
    array = gr.zeros(40, "i8")
    write(array, np.arange(array.begin, array.end))
    again = array.local
    assert again.base is not None and not again.flags.owndata and again.flags.writeable
    assert again.tolist() == list(range(array.begin, array.end))
    gr.barrier()
    assert gr.gather(array, np.arange(40)).tolist() == list(range(40))
    address = array.local.__array_interface__["data"][0]
    gr.barrier()  # before others add
    gr.scatter_add(array, np.arange(40), 100)
    gr.barrier()
    assert array.local.__array_interface__["data"][0] == address
    assert again.tolist() == [i + 100 * gr.n_pes() for i in range(array.begin, array.end)]
    del again
    array.free()


def test_full():
    array = gr.full(33, -4, "i4")
    assert (local_part(array) == -4).all()
    array.free()
    array = gr.full(33, 0.5, "f4")
    assert (local_part(array) == np.float32(0.5)).all()
    array.free()


def test_empty():
    array = gr.empty(33, np.uint32)
    write(array, 1)
    assert gr.sum_all(int(local_part(array).sum())) == 33
    array.free()


def test_from_local():
    me, n = gr.my_pe(), gr.n_pes()
    mine = np.arange(5, dtype="f4") + 10 * me
    if me == n - 1:
        mine = mine[:3] if n > 1 else mine
    array = gr.from_local(mine)
    assert array.dtype == np.float32 and array.n == (5 * n - 2 if n > 1 else 5)
    assert np.array_equal(local_part(array), mine)
    array.free()
    array = gr.from_local([1, 2, 3], dtype="u8")
    assert array.n == 3 * n and local_part(array).tolist() == [1, 2, 3]
    array.free()


def test_views_outlive_the_python_object():
    array = gr.full(16, 3, "i8")
    part = array.local[:]
    memory = array._memory  # keeps the array from being freed by nobody
    del array
    gc.collect()
    assert (part == 3).all()
    del part, memory


def test_memory_comes_back():
    """Arrays of all kinds use the same memory again after free()."""
    for _ in range(50):
        array = gr.zeros(100_000 * gr.n_pes(), "f8")  # 800 kB of a heap of 64 MiB
        write(array, 1)
        array.free()
    array = gr.zeros(100_000 * gr.n_pes(), "f8")
    assert not local_part(array).any()
    array.free()


def test_too_large():
    with pytest.raises(gr.Error, match="do not fit"):
        gr.zeros(1 << 40, "f8")
    array = gr.zeros(10)  # the job goes on
    array.free()


def test_repr():
    array = gr.zeros(10, "i4")
    assert repr(array).startswith("<gravel.Array of 10 i4, here [")
    assert array.is_open
    array.free()
    assert not array.is_open and "closed" in repr(array)


def test_scattered_local_memory_as_index():
    """index and values may be views of distributed arrays."""
    n = 100 * gr.n_pes()
    index, values, table = gr.zeros(n, "i8"), gr.full(n, 2.5, "f8"), gr.zeros(n, "f8")
    write(index, (np.arange(index.begin, index.end) * 7) % n)
    gr.scatter_add(table, index.local, values.local)
    gr.barrier()
    assert gr.sum_all(local_part(table).sum()) == 2.5 * n
    for array in (index, values, table):
        array.free()
