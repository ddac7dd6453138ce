"""Each operation against NumPy, for all types of elements and index arrays. All PEs draw from known seeds, so that
every PE can compute the expected result."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, write

DTYPES = ("i4", "u4", "i8", "u8", "f4", "f8")
INDEX_TYPES = ("i4", "u4", "i8", "u8")
COUNT = 300 if os.environ.get("GRAVEL_TEST_SMALL") else 20_000
N = 1009


def drawn(pe, dtype, index_type="i8", count=COUNT):
    """Whole numbers, so that sums of floating-point numbers are exact."""
    random = np.random.default_rng(1000 + pe)
    index = random.integers(N, size=count).astype(index_type)
    low = 0 if dtype.startswith("u") else -50
    return index, random.integers(low, 50, size=count).astype(dtype)


def check(table, expected):
    assert np.array_equal(local_part(table), expected[table.begin : table.end])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_add(dtype, index_type):
    table = gr.zeros(N, dtype)
    gr.scatter_add(table, *drawn(gr.my_pe(), dtype, index_type))
    gr.barrier()
    expected = np.zeros(N, dtype)
    for pe in range(gr.n_pes()):
        np.add.at(expected, *drawn(pe, dtype))
    check(table, expected)
    table.free()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("call", "ufunc"), [(gr.scatter_min, np.minimum), (gr.scatter_max, np.maximum)])
def test_min_max(dtype, call, ufunc):
    table = gr.full(N, 7, dtype)
    call(table, *drawn(gr.my_pe(), dtype))
    gr.barrier()
    expected = np.full(N, 7, dtype)
    for pe in range(gr.n_pes()):
        ufunc.at(expected, *drawn(pe, dtype))
    check(table, expected)
    table.free()


@pytest.mark.parametrize("dtype", DTYPES)
def test_put(dtype):
    """Each PE puts into elements of its own."""
    n_pes, me = gr.n_pes(), gr.my_pe()
    table = gr.zeros(N * n_pes, dtype)
    index = np.random.default_rng(5).permutation(N) * n_pes + me
    gr.scatter_put(table, index, (index % 100).astype(dtype))
    gr.barrier()
    check(table, (np.arange(table.n) % 100).astype(dtype))
    table.free()


def test_put_bits():
    table = gr.zeros(4 * gr.n_pes(), "f8")
    values = np.array([-0.0, np.inf, np.nan, 5e-324])
    gr.scatter_put(table, np.arange(4) + 4 * gr.my_pe(), values)
    gr.barrier()
    got = gr.gather(table, np.arange(table.n))
    assert got.view("u8").tolist() == values.view("u8").tolist() * gr.n_pes()
    table.free()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_gather(dtype, index_type):
    table = gr.zeros(N, dtype)
    write(table, np.arange(table.begin, table.end) % 120)
    gr.barrier()
    index, _ = drawn(gr.my_pe(), dtype, index_type)
    got = gr.gather(table, index)
    assert got.dtype == table.dtype and np.array_equal(got, (index.astype("i8") % 120).astype(dtype))
    table.free()


def test_gather_more_than_the_staging_memory():
    count = 1000 if os.environ.get("GRAVEL_TEST_SMALL") else 200_000
    table = gr.zeros(N, "f8")
    write(table, np.arange(table.begin, table.end))
    gr.barrier()
    index = np.random.default_rng(gr.my_pe()).integers(N, size=count)
    assert np.array_equal(gr.gather(table, index), index.astype("f8"))
    table.free()


def test_shapes_and_out():
    table = gr.zeros(24, "i4")
    write(table, np.arange(table.begin, table.end))
    gr.barrier()
    index = np.arange(24).reshape(2, 3, 4)[::-1].copy()
    assert np.array_equal(gr.gather(table, index), index)
    out = np.empty((2, 3, 4), "i4")
    assert gr.gather(table, index, out=out) is out and np.array_equal(out, index)
    assert gr.gather(table, 5) == 5
    gr.barrier()
    gr.scatter_add(table, index, np.ones((2, 3, 4), "i4"))
    gr.scatter_add(table, [0, 1], [10, 20])
    gr.scatter_add(table, 23, -1)
    gr.scatter_add(table, [], 3)
    gr.scatter_add(table, [], [])
    gr.barrier()
    n = gr.n_pes()
    expected = np.arange(24) + n
    expected[[0, 1, 23]] += [10 * n, 20 * n, -n]
    assert gr.gather(table, np.arange(24)).tolist() == expected.tolist()
    table.free()


def test_arguments_may_change_after_the_call():
    table = gr.zeros(N, "i8")
    index, values = np.arange(N), np.ones(N, "i8")
    for _ in range(5):
        gr.scatter_add(table, index, values)
        index[:] = 0
        values[:] = 1000
        index[:], values[:] = np.arange(N), 1
    gr.barrier()
    assert (local_part(table) == 5 * gr.n_pes()).all()
    table.free()


def test_wraps_around():
    table = gr.full(gr.n_pes(), np.iinfo("i8").max, "i8")
    gr.scatter_add(table, [gr.my_pe()], 1)
    gr.barrier()
    assert local_part(table).tolist() == [np.iinfo("i8").min]
    table.free()


def test_nan_changes_nothing():
    table = gr.full(1, 5.0, "f8")
    gr.scatter_min(table, [0], np.nan)
    gr.scatter_max(table, [0], np.nan)
    gr.barrier()
    assert gr.gather(table, [0]).tolist() == [5.0]
    table.free()


def test_quiet_orders_own_operations():
    table = gr.zeros(10 * gr.n_pes(), "i8")
    mine = np.arange(10) * gr.n_pes() + gr.my_pe()
    for value in range(1, 6):
        gr.scatter_put(table, mine, value)
        gr.quiet()
        assert (gr.gather(table, mine) == value).all()
    gr.barrier()
    table.free()
