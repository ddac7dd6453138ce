from __future__ import annotations

import numpy as np
import pytest

import gravel as gr

DTYPES = ("i4", "u4", "i8", "u8", "f4", "f8")


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    me, n = gr.my_pe(), gr.n_pes()
    mine = (np.arange(6).reshape(2, 3) + 10 * me).astype(dtype)
    of_all = np.stack([(np.arange(6).reshape(2, 3) + 10 * pe).astype(dtype) for pe in range(n)])
    for call, expected in ((gr.sum_all, of_all.sum(0)), (gr.min_all, of_all.min(0)), (gr.max_all, of_all.max(0))):
        got = call(mine)
        assert got.dtype == mine.dtype and np.array_equal(got, expected.astype(dtype))
    assert np.array_equal(mine, of_all[me])  # not written to


def test_numbers():
    me, n = gr.my_pe(), gr.n_pes()
    total = gr.sum_all(me + 1)
    assert total == n * (n + 1) // 2 and type(total) is int
    assert gr.max_all(me / 2) == (n - 1) / 2 and type(gr.max_all(me / 2)) is float
    assert gr.min_all(np.float32(me)) == 0 and gr.min_all(np.float32(me)).dtype == np.float32
    assert gr.sum_all([me, 1]).tolist() == [n * (n - 1) // 2, n]
    assert gr.broadcast(me, n - 1) == n - 1
    assert gr.broadcast(True) is True
    assert gr.allgather(2.5 * me).tolist() == [2.5 * pe for pe in range(n)]


def test_large():
    mine = np.full(300_000, gr.my_pe(), "i4")
    assert (gr.sum_all(mine) == gr.n_pes() * (gr.n_pes() - 1) // 2).all()
    assert (gr.allgather(mine)[-1] == gr.n_pes() - 1).all()


def test_other_dtypes():
    me, n = gr.my_pe(), gr.n_pes()
    assert gr.allgather(np.array([me % 2 == 0])).ravel().tolist() == [pe % 2 == 0 for pe in range(n)]
    assert gr.broadcast(np.array([1j * me, 2]), root=n - 1).tolist() == [1j * (n - 1), 2]
    dates = gr.allgather(np.array(["2026-01-01"], "M8[D]") + me)
    assert (dates[:, 0] - dates[0, 0]).astype(int).tolist() == list(range(n))
    rows = np.zeros(2, [("a", "i4"), ("b", "f8")])
    rows["a"] = me
    assert gr.broadcast(rows, n - 1)["a"].tolist() == [n - 1] * 2
    assert gr.broadcast(np.array(["x" * (me + 1)], "U8")).tolist() == ["x"]


def test_empty():
    assert gr.sum_all(np.zeros(0)).shape == (0,)
    assert gr.allgather(np.zeros((0, 2), "i4")).shape == (gr.n_pes(), 0, 2)
    assert gr.broadcast(np.zeros(0, "i4")).shape == (0,)


def test_views_of_distributed_arrays():
    array = gr.full(8 * gr.n_pes(), 2, "i8")
    assert gr.sum_all(array.local).tolist() == [2 * gr.n_pes()] * 8
    array.free()
