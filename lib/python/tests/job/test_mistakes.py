"""Mistakes of a program: each is an exception with a text that says what to do, before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr
from libraries import documented, local_part, on_gpu

N = 100
i8, f8 = np.int64, np.float64
PAGE = documented()


def index(*numbers):
    return np.array(numbers, i8)


class OnGpu:
    __cuda_array_interface__ = {"shape": (3,)}


# (what is wrong, call of a table of N f8 and one of N i4, exception, a part of its text)
MISTAKES = [
    ("index too large", lambda t, u: gr.scatter_add(t, index(0, N), 1.0),
     IndexError, r"index\[1\] is 100: the array has elements 0 to 99"),
    ("index negative", lambda t, u: gr.scatter_add(t, index(3, 4, -1), 1.0), IndexError, r"index\[2\] is -1"),
    ("index negative, 4 bytes", lambda t, u: gr.gather(t, np.array([-5], "i4")), IndexError, r"index\[0\] is -5"),
    ("index huge, unsigned", lambda t, u: gr.gather(t, np.array([2**64 - 1], "u8")),
     IndexError, "18446744073709551615"),
    ("index of two dimensions", lambda t, u: gr.gather(t, np.array([[0, 1], [2, 200]])),
     IndexError, r"index\[\(1, 1\)\] is 200"),
    ("index of floats", lambda t, u: gr.scatter_add(t, np.array([1.0]), 1.0),
     TypeError, r"index has dtype float64.*astype"),
    ("index of 2 bytes", lambda t, u: gr.scatter_add(t, np.array([1], "i2"), 1.0), TypeError, "index has dtype int16"),
    ("index of bools", lambda t, u: gr.gather(t, np.ones(N, bool)), TypeError, "index has dtype bool"),
    ("index in the other byte order", lambda t, u: gr.gather(t, np.array([1], ">i8")),
     TypeError, "index has dtype >i8"),
    ("index with gaps", lambda t, u: gr.scatter_add(t, np.arange(20)[::2], 1.0),
     ValueError, r"index is not contiguous.*ascontiguousarray\(index\)"),
    ("index transposed", lambda t, u: gr.gather(t, np.zeros((2, 3), i8).T), ValueError, "index is not contiguous"),
    ("index not aligned", lambda t, u: gr.gather(t, np.zeros(17, "u1")[1:].view(i8)),
     ValueError, "index is not aligned"),
    ("index on a GPU", lambda t, u: gr.gather(t, OnGpu()), TypeError, "array of a GPU|memory of a GPU"),
    ("index is None", lambda t, u: gr.gather(t, None), TypeError, "array of integers, not NoneType"),
    ("index is a slice", lambda t, u: gr.gather(t, slice(3)), TypeError, "array of integers, not slice"),
    ("values of another dtype", lambda t, u: gr.scatter_add(t, index(1), np.array([1])),
     TypeError, r"values have dtype int64, the array float64.*astype\('f8'\)"),
    ("values too narrow", lambda t, u: gr.scatter_add(t, index(1), np.array([1], "f4")),
     TypeError, "values have dtype float32"),
    ("too few values", lambda t, u: gr.scatter_add(t, index(1, 2), np.array([1.0])),
     ValueError, r"values have shape \(1,\), index \(2,\)"),
    ("values of another shape", lambda t, u: gr.scatter_put(t, index(1, 2), np.zeros((2, 1))),
     ValueError, "values have shape"),
    ("values with gaps", lambda t, u: gr.scatter_add(t, index(1, 2), np.zeros(4)[::2]),
     ValueError, "values is not contiguous"),
    ("value is text", lambda t, u: gr.scatter_add(t, index(1), "1"), TypeError, "'1'"),
    ("value is None", lambda t, u: gr.scatter_add(t, index(1), None), TypeError, "number or an array, not NoneType"),
    ("value is complex", lambda t, u: gr.scatter_add(t, index(1), 1j), TypeError, "1j"),
    ("a float for integers", lambda t, u: gr.scatter_add(u, index(1), 0.5), TypeError, "dtype int32: pass an int"),
    ("an int that does not fit", lambda t, u: gr.scatter_add(u, index(1), 1 << 31),
     OverflowError, "-2147483648 to 2147483647"),
    ("a list that does not fit", lambda t, u: gr.scatter_max(u, index(1), [1 << 40]),
     OverflowError, "do not fit dtype int32"),
    ("no distributed array", lambda t, u: gr.scatter_add(np.zeros(3), index(1), 1.0),
     TypeError, "is a gravel.Array, not ndarray"),
    ("out of another shape", lambda t, u: gr.gather(t, index(1), out=np.zeros(2)),
     ValueError, r"out is an array of shape \(1,\)"),
    ("out of another dtype", lambda t, u: gr.gather(t, index(1), out=np.zeros(1, "f4")),
     ValueError, "dtype float64, not shape"),
    ("out with gaps", lambda t, u: gr.gather(t, index(1, 2), out=np.zeros(4)[::2]),
     ValueError, "out is not contiguous"),
    ("out is read-only", lambda t, u: gr.gather(t, index(1), out=np.broadcast_to(0.0, 1)),
     ValueError, "out is read-only"),
    ("a row of an odd number of halves", lambda t, u: gr.zeros((3, 5), "f2"), ValueError, "even number of elements"),
    ("single elements of bf16", lambda t, u: gr.zeros(3, "bf16"), ValueError, r"as in shape \(n, 2\)"),
    ("sum of halves", lambda t, u: gr.sum_all(np.ones(3, "f2")), TypeError, "dtype float16: it takes i4, u4"),
    ("values that are not aligned to a pair",
     lambda t, u: gr.scatter_add(gr.zeros((3, 2), "f2"), [1], np.ones(3, "f2")[1:].reshape(1, 2)), ValueError,
     "values is not aligned"),
    ("dtype unknown to Gravel", lambda t, u: gr.zeros(3, "i2"), TypeError, "dtype int16: Gravel has i4, u4"),
    ("dtype in the other byte order", lambda t, u: gr.zeros(3, ">f8"), TypeError, "byte order of this machine"),
    ("no dtype", lambda t, u: gr.zeros(3, "nonsense"), TypeError, "'nonsense'"),
    ("a negative size", lambda t, u: gr.zeros(-1), ValueError, "-1 elements"),
    ("a size that is no int", lambda t, u: gr.zeros(2.5), TypeError, "an int, not float"),
    ("a size beyond all memory", lambda t, u: gr.zeros(1 << 60), ValueError, r"0 to 2\*\*45"),
    ("full: value does not fit", lambda t, u: gr.full(3, -1, "u4"), OverflowError, "0 to 4294967295"),
    ("from_local: a number", lambda t, u: gr.from_local(3.0), ValueError, "an array has a dimension"),
    ("from_local: empty rows", lambda t, u: gr.from_local(np.zeros((2, 0))), ValueError, "no empty rows"),
    ("a shape without dimensions", lambda t, u: gr.zeros(()), ValueError, "at least one dimension"),
    ("a shape with empty rows", lambda t, u: gr.zeros((3, 0)), ValueError, "only the first dimension may be 0"),
    ("a shape that is no int", lambda t, u: gr.zeros((3, "4")), TypeError, "an int, not str"),
    ("a shape beyond all memory", lambda t, u: gr.zeros((1 << 40, 1 << 40)), ValueError, r"0 to 2\*\*45"),
    ("from_local: floats to integers", lambda t, u: gr.from_local([0.5], dtype="i8"),
     TypeError, "does not become int64"),
    ("a PE that there is not", lambda t, u: gr.node_of(gr.n_pes()), IndexError, "the job has PEs 0 to"),
    ("a root that there is not", lambda t, u: gr.broadcast(1, root=-1), IndexError, "root is PE -1"),
    ("an element that there is not", lambda t, u: t.owner(N), IndexError, "element 100"),
    ("sum of bools", lambda t, u: gr.sum_all(np.ones(3, bool)), TypeError, "it takes i4, u4"),
    ("sum of text", lambda t, u: gr.sum_all("1"), TypeError, "a NumPy array or a number, not str"),
    ("sum of an int beyond 8 bytes", lambda t, u: gr.sum_all(1 << 64), OverflowError, "dtype int64"),
    ("sum of an array with gaps", lambda t, u: gr.sum_all(np.zeros(4)[::2]), ValueError, "not contiguous"),
    ("broadcast of objects", lambda t, u: gr.broadcast(np.array([{}])), TypeError, "objects are pointers"),
    ("distributed array as a NumPy array", lambda t, u: np.asarray(t), TypeError, "use .local"),
    ("NumPy's operators on it", lambda t, u: np.ones(3) + t, TypeError, "numpy.add takes no gravel.Array"),
    ("another backend", lambda t, u: gr.init(backend="cpu" if on_gpu() else "cuda"),
     gr.Error, "has already used the backend"),
    ("no backend at all", lambda t, u: gr.init(backend="gpu"), ValueError, "'gpu'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tables(_joined):
    both = gr.zeros(N, "f8"), gr.zeros(N, "i4")
    yield both
    gr.barrier()
    for table in both:
        assert not local_part(table).any()  # nothing was sent
        table.free()


@pytest.mark.parametrize(("name", "call", "exception", "text"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistake(tables, name, call, exception, text):
    with pytest.raises(exception, match=text) as raised:
        call(*tables)
    if name in PAGE and not on_gpu():
        assert f"{exception.__name__}: {raised.value}" == PAGE[name]


@pytest.mark.skipif(not PAGE, reason="docs/python.md is not here")
def test_page():
    """The page has no mistake that test_mistake does not make."""
    assert len(PAGE) >= 30 and PAGE.keys() <= {name for name, *_ in MISTAKES}


def test_freed():
    table = gr.zeros(N)
    table.free()
    for call in (table.free, lambda: table.local, lambda: gr.gather(table, [0]), lambda: gr.scatter_add(table, [0], 1)):
        with pytest.raises(ValueError, match="the array was freed"):
            call()


def test_free_with_views():
    """All PEs get the exception, also if only one of them has a view."""
    table = gr.zeros(N)
    view = table.local[:3] if gr.my_pe() == 0 else None
    with pytest.raises(BufferError, match="PE 0 has 1 view"):
        table.free()
    del view
    table.free()


@pytest.mark.skipif("__import__('gravel').n_pes() == 1")
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda me: gr.sum_all(np.zeros(3 + me % 2)),
            "sum_all with 3 elements.* at PE 0, sum_all with 4|sum_all with 4 .* at PE 1",
        ),
        (lambda me: gr.sum_all(np.zeros(3, "f8" if me else "f4")), "dtype f4 at PE 0|dtype f8"),
        (lambda me: gr.min_all(1) if me else gr.max_all(1), "calls of the PEs differ"),
        (lambda me: gr.broadcast(1, root=me), "calls of the PEs differ"),
        (lambda me: gr.allgather(np.zeros(me + 1)), "calls of the PEs differ"),
        (lambda me: gr.zeros(10 + me), "zeros with 10 elements"),
        (lambda me: gr.zeros(10, "f8" if me else "i8"), "calls of the PEs differ"),
        (lambda me: gr.from_local(np.zeros(me + 1)), "PE 1 passes 2 elements or rows, PE 0 1"),
    ],
)
def test_other_calls(call, text):
    """Calls that differ are an exception at all PEs, and the job goes on."""
    with pytest.raises(ValueError, match=text):
        call(gr.my_pe())
