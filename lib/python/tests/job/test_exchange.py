"""all_to_all: rows of any dtype, any numbers of them."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr


def sent(pe, shape, dtype, n_pes):
    """What a PE sends: its rows are different from all others."""
    random = np.random.default_rng(31 + pe)
    count = int(random.integers(0, 300)) if pe % 3 != 1 else 0
    size = int(np.prod(shape))
    rows = (np.arange(count * size) % 97 + 100 * pe).astype(dtype).reshape(count, *shape)
    return rows, random.integers(n_pes, size=count)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((), "i4"), ((), "f8"), ((3,), "f4"), ((2, 2), "i8"), ((4,), "i2"), ((8,), "u1"), ((), "c16"), ((5,), "u4")],
)
def test_all_rows_arrive(shape, dtype):
    me, n = gr.my_pe(), gr.n_pes()
    got, sizes = gr.all_to_all(*sent(me, shape, dtype, n))
    parts = []
    for pe in range(n):
        rows, to = sent(pe, shape, dtype, n)
        parts.append(rows[to == me])
    assert sizes.tolist() == [len(part) for part in parts]
    expected = np.concatenate(parts)
    assert got.dtype == expected.dtype and got.shape == expected.shape and np.array_equal(got, expected)


@pytest.mark.parametrize("words", [16384 + 2, 2 * 16384, 40000])
def test_large_rows(words):
    """Rows beyond 64 KiB."""
    me, n = gr.my_pe(), gr.n_pes()
    rows = np.arange(3 * words, dtype="i4").reshape(3, words) + 1000 * me
    got, sizes = gr.all_to_all(rows, np.array([(me + 1) % n] * 2 + [me]))
    before = (me - 1) % n
    wanted = {before: np.arange(2 * words).reshape(2, words) + 1000 * before, me: rows[2:]}
    if n == 1:
        wanted = {0: rows}
    assert np.array_equal(got, np.concatenate([wanted[pe] for pe in sorted(wanted)]))
    assert sizes.tolist() == [len(wanted.get(pe, ())) for pe in range(n)]


def test_rows_that_are_not_aligned():
    rows = np.arange(41, dtype="u1")[1:].reshape(5, 8)
    got, _ = gr.all_to_all(rows, np.full(5, gr.my_pe()))
    assert np.array_equal(got, rows)


def test_nothing_at_all():
    got, sizes = gr.all_to_all(np.empty((0, 4)), np.empty(0, "i4"))
    assert got.shape == (0, 4) and got.dtype == np.float64 and sizes.tolist() == [0] * gr.n_pes()


def test_structured_rows():
    kind = np.dtype([("key", "u8"), ("count", "u4"), ("pe", "i4")])
    mine = np.array([(7, 1, gr.my_pe())] * 3, kind)
    got, sizes = gr.all_to_all(mine, [0] * 3)
    if gr.my_pe() == 0:
        assert got.dtype == kind and got["pe"].tolist() == [pe for pe in range(gr.n_pes()) for _ in range(3)]
    assert sizes.sum() == (3 * gr.n_pes() if gr.my_pe() == 0 else 0)


@pytest.mark.parametrize(
    ("rows", "to", "exception", "text"),
    [
        (np.zeros(3), [0, 0], ValueError, "to has shape .* and there are 3 rows"),
        (np.zeros(3), [0, 0, -1], IndexError, r"to\[2\] is PE -1"),
        (np.zeros(3, "i2"), [0, 0, 0], ValueError, "a row has 2 bytes: pad it"),
        (np.zeros((3, 0)), [0, 0, 0], ValueError, "a row has 0 bytes"),
        (np.zeros(6)[::2], [0, 0, 0], ValueError, "rows is not contiguous"),
        (np.array([None]), [0], TypeError, "objects are pointers"),
        (5, [0], TypeError, "rows is an array of at least one dimension, not int"),
        (np.zeros(1), [0.5], TypeError, "to has dtype float64"),
    ],
)
def test_mistakes(rows, to, exception, text):
    with pytest.raises(exception, match=text):
        gr.all_to_all(rows, to)


@pytest.mark.skipif("__import__('gravel').n_pes() == 1")
def test_mistakes_of_one_pe():
    last = gr.my_pe() == gr.n_pes() - 1
    with pytest.raises(IndexError if last else ValueError, match="the call of PE|is PE 9999"):
        gr.all_to_all(np.zeros(1), [9999 if last else 0])
    with pytest.raises(ValueError, match="calls of the PEs differ: .*rows of 8 bytes, dtype f8 at PE 0"):
        gr.all_to_all(np.zeros(1, "f4" if gr.my_pe() else "f8"), [0])
    got, _ = gr.all_to_all(np.zeros(1), [gr.my_pe()])  # the job goes on
    assert got.tolist() == [0.0]


@pytest.mark.skipif("__import__('os').environ.get('GRAVEL_SYMMETRIC_SIZE') != '64M'", reason="needs a heap of 64 MiB")
def test_too_little_memory():
    with pytest.raises(gr.Error, match="do not fit"):
        gr.all_to_all(np.zeros((1 << 20, 16)), np.zeros(1 << 20, "i4"))
    gr.all_to_all(np.zeros(1), [0])
