"""Arrays of rows: the same operations, element by element."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, write

N = 301


def drawn(pe, row, dtype, count=400):
    random = np.random.default_rng(70 + pe)
    index = random.integers(N, size=count)
    return index, random.integers(0, 50, size=(count, *row)).astype(dtype)


@pytest.mark.parametrize("row", [(1,), (3,), (64,), (5, 7)])
@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_scatter_and_gather(row, dtype):
    table = gr.zeros((N, *row), dtype, place="host" if dtype == "i4" else "device")
    assert table.shape == (N, *row) and table.row == row and len(table) == table.n == N
    assert local_part(table).shape == (table.end - table.begin, *row)
    gr.scatter_add(table, *drawn(gr.my_pe(), row, dtype))
    gr.barrier()
    expected = np.zeros((N, *row), dtype)
    for pe in range(gr.n_pes()):
        np.add.at(expected, *drawn(pe, row, dtype))
    assert np.array_equal(local_part(table), expected[table.begin : table.end])
    index = np.random.default_rng(gr.my_pe()).integers(N, size=(20, 30))
    got = gr.gather(table, index)
    assert got.shape == (20, 30, *row) and np.array_equal(got, expected[index])
    out = np.empty((20, 30, *row), dtype)
    assert gr.gather(table, index, out=out) is out and np.array_equal(out, expected[index])
    gr.barrier()
    gr.scatter_max(table, index, 1 << 20)
    gr.barrier()
    reached = np.zeros(N, bool)
    for pe in range(gr.n_pes()):
        reached[np.random.default_rng(pe).integers(N, size=(20, 30))] = True
    expected[reached] = 1 << 20
    assert np.array_equal(local_part(table), expected[table.begin : table.end])
    table.free()


def test_rows_that_do_not_fit_the_staging_memory_at_once():
    table = gr.zeros((50, 1000), "f4")
    write(table, np.arange(table.begin, table.end)[:, None] * 1000 + np.arange(1000))
    gr.barrier()
    index = np.arange(300) * 7 % 50
    assert np.array_equal(gr.gather(table, index), (index[:, None] * 1000 + np.arange(1000)).astype("f4"))
    gr.barrier()
    table.free()


def test_put_and_full():
    n_pes, me = gr.n_pes(), gr.my_pe()
    table = gr.full((4 * n_pes, 2, 2), 7, "i8")
    assert (local_part(table) == 7).all()
    gr.barrier()  # before others put
    gr.scatter_put(table, np.arange(3) * n_pes + me, np.arange(12).reshape(3, 2, 2) + 100 * me)
    gr.barrier()
    got = gr.gather(table, np.arange(4 * n_pes))
    for pe in range(n_pes):
        assert np.array_equal(got[pe::n_pes][:3], np.arange(12).reshape(3, 2, 2) + 100 * pe)
        assert (got[pe::n_pes][3] == 7).all()
    gr.barrier()
    table.free()


def test_from_local():
    me, n = gr.my_pe(), gr.n_pes()
    mine = np.arange(15, dtype="f8").reshape(5, 3) + 100 * me
    table = gr.from_local(mine)
    assert table.shape == (5 * n, 3) and np.array_equal(local_part(table), mine)
    table.free()


def test_mistakes():
    table = gr.zeros((N, 3))
    with pytest.raises(IndexError, match="the array has rows 0 to 300"):
        gr.gather(table, [N])
    with pytest.raises(ValueError, match=r"values have shape \(2,\), index \(2,\): there is a row of shape \(3,\)"):
        gr.scatter_add(table, [0, 1], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"out is an array of shape \(2, 3\)"):
        gr.gather(table, [0, 1], out=np.zeros(2))
    assert repr(table).startswith("<gravel.Array of (301, 3) f8")
    gr.barrier()
    assert not local_part(table).any()
    table.free()


def test_pes_that_differ():
    if gr.n_pes() > 1:
        with pytest.raises(ValueError, match="12 elements of dtype f8 in 3 rows"):
            gr.zeros((3, 4) if gr.my_pe() == 0 else (4, 3))


@pytest.mark.skipif("__import__('libraries').on_gpu()", reason="its arrays lie in memory of the host")
def test_a_library_with_dlpack():
    """Neither NumPy nor PyTorch."""

    class Tensor:
        def __init__(self, array, device=(1, 0)):
            self.array, self.device = array, device

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.device

    table = gr.zeros(10, "i8")
    gr.scatter_add(table, Tensor(np.arange(10)), Tensor(np.arange(10)))
    gr.barrier()
    assert gr.gather(table, Tensor(np.arange(10))).tolist() == [i * gr.n_pes() for i in range(10)]
    assert gr.sum_all(Tensor(np.ones(3))).tolist() == [gr.n_pes()] * 3
    with pytest.raises(TypeError, match="index is in the memory of a GPU"):
        gr.gather(table, Tensor(np.arange(3), device=(2, 0)))
    gr.barrier()
    table.free()
