"""Mistakes of programs that use PyTorch: each is an exception with a text that says what to do."""

from __future__ import annotations

import pytest

import gravel as gr
from libraries import local_part, on_gpu

torch = pytest.importorskip("torch")
N = 10
index = torch.tensor
Table, Bag = gr.torch.Embedding, gr.torch.EmbeddingBag


class Tables:
    """One for all mistakes: none of them changes anything."""

    def __init__(self):
        self.array, self.other, self.few = gr.zeros((N, 2), "f4"), gr.zeros((N, 2), "f8"), gr.zeros((N - 1, 2), "f4")
        self.numbers = gr.zeros(N, "i8")
        self.table, self.bag = Table(N, 2), Bag(N, 2, mode="mean")
        self.arrays = [self.array, self.other, self.few, self.numbers, self.table, self.bag]


@pytest.fixture(scope="module")
def tables(_joined):
    made = Tables()
    yield made
    gr.barrier()
    assert not any(local_part(array).any() for array in made.arrays[:4]) and not local_part(made.table.gradient).any()
    for array in made.arrays:
        array.free()


# (what is wrong, call, exception, a part of its text)
MISTAKES = [
    ("index too large", lambda t: t.table(index([1, N])), IndexError,
     r"index\[1\] is 10: the array has rows 0 to 9"),
    ("index negative", lambda t: t.table(index([[1, 2], [3, -1]])), IndexError, r"index\[\(1, 1\)\] is -1"),
    ("index negative, a bag", lambda t: t.bag(index([[-3]])), IndexError, "is -3: the array has rows 0 to 9"),
    ("index negative, an operator", lambda t: gr.torch.gather(t.array, index([-1])), IndexError, r"index\[0\] is -1"),
    ("index of floats", lambda t: t.table(torch.ones(2)), TypeError, r"float32: it is int32 or int64 \(index.long"),
    ("index of bools", lambda t: t.table(torch.ones(2, dtype=torch.bool)), TypeError, "index has dtype torch.bool"),
    ("index of 2 bytes", lambda t: gr.torch.gather(t.array, index([1], dtype=torch.int16)), TypeError, "int16"),
    ("index is a list", lambda t: t.table([1, 2]), TypeError, "Embedding: index is a tensor of integers, not list"),
    ("index is a list, a bag", lambda t: t.bag([1, 2]), TypeError, "EmbeddingBag: index is a tensor of integers"),
    ("index on another device", lambda t: t.table(index([1], device="meta")), TypeError,
     r"index is on device meta, the array on (cpu|cuda:\d): pass index.to\('(cpu|cuda:\d)'\)"),
    ("values on another device", lambda t: gr.torch.scatter_add(t.array, index([1]), torch.ones(1, 2, device="meta")),
     TypeError, "values is on device meta"),
    ("values of another dtype", lambda t: gr.torch.scatter_add(t.array, index([1]), torch.ones(1, 2).double()),
     TypeError, r"pass values.to\(torch.float32\)"),
    ("values of another shape", lambda t: gr.torch.scatter_add(t.array, index([1]), torch.ones(2)),
     ValueError, r"values have shape \(2,\), index \(1,\)"),
    ("values are a number", lambda t: gr.torch.scatter_put(t.array, index([1]), 1.0), TypeError, "not float"),
    ("values with a gradient",
     lambda t: gr.torch.scatter_add(t.array, index([1]), torch.ones(1, 2, requires_grad=True)),
     ValueError, r"which would be lost: pass values.detach\(\)"),
    ("a tensor as the array", lambda t: gr.torch.gather(torch.ones(3), index([1])),
     TypeError, "array is a gravel.Array, not Tensor"),
    ("a tensor for the gradients", lambda t: gr.torch.gather(t.array, index([1]), torch.ones(3)),
     TypeError, "gradient is a gravel.Array, not Tensor"),
    ("gradients of another dtype", lambda t: gr.torch.gather(t.array, index([1]), t.other),
     ValueError, "both have the same shape, and the same type: f4, f8"),
    ("gradients of another shape", lambda t: gr.torch.gather(t.array, index([1]), t.few), ValueError, "the same shape"),
    ("gradients of integers", lambda t: gr.torch.gather(t.numbers, index([1]), t.numbers), ValueError,
     "the same type: f4, f8"),
    ("a number that names nothing",
     lambda t: gr.torch._operators.gather_rows(torch.empty(0, 2), 1 << 60, index([1]), None),
     ValueError, "the array was freed"),
    ("one dimension without offsets", lambda t: t.bag(index([1, 2])), ValueError, "offsets"),
    ("offsets of bags of one size", lambda t: t.bag(index([[1, 2]]), index([0])), ValueError, "offsets"),
    ("weights of a mean", lambda t: t.bag(index([[1]]), None, torch.ones(1, 1)), NotImplementedError, "mode='sum'"),
    ("an optimizer that there is not", lambda t: Table(N, 2, optimizer="lamb"), ValueError,
     "'lamb': it is one of sgd, adagrad, rowwise_adagrad, adam"),
    ("an optimizer of PyTorch", lambda t: Table(N, 2, optimizer=torch.optim.SGD), ValueError, "it is one of sgd"),
    ("a mode that there is not", lambda t: Bag(N, 2, mode="min"), ValueError, "it is 'sum', 'mean' or 'max'"),
    ("a dtype that there is not", lambda t: Table(N, 2, dtype=torch.float16), TypeError, "torch.float32 or"),
    ("a padding that there is not", lambda t: Table(N, 2, padding_idx=N), IndexError, "the table has rows 0 to 9"),
    ("a padding that is no int", lambda t: Table(N, 2, padding_idx=1.5), IndexError, "padding_idx is 1.5"),
    ("gradients of an array without them",
     lambda t: gr.torch._operators.add_gradient(
         gr.torch._operators._number_of("gather", t.array), 0, index([1]), torch.ones(1, 2)),
     ValueError, "the array has no gradient"),
    ("a negative number of rows", lambda t: Table(-1, 2), ValueError, "n is -1: it is an int, 0 or more"),
    ("rows of no elements", lambda t: Table(N, 0), ValueError, "width is 0: it is an int, 1 or more"),
    ("a size that is no int", lambda t: Table(N, 2.5), ValueError, "width is 2.5"),
    ("betas of 1", lambda t: Table(N, 2, optimizer="adam", betas=(0.9, 1.0)), ValueError, "less than 1"),
    ("pretrained rows of one dimension", lambda t: Table.from_pretrained(torch.ones(3)), ValueError, r"\(k, width\)"),
    ("pretrained rows of integers", lambda t: Table.from_pretrained(index([[1]])), ValueError, "float32 or float64"),
    ("pretrained rows that are a list", lambda t: Bag.from_pretrained([[1.0]]), ValueError, "passes list"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "text"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(tables, call, exception, text):
    if exception is IndexError and on_gpu():
        pytest.skip("the kernel finds wrong numbers on a GPU, and ends the job")
    with pytest.raises(exception, match=text):
        call(tables)


@pytest.mark.skipif("__import__('gravel').n_pes() == 1")
def test_other_rows():
    """PEs that pass rows of other widths get an exception, all of them."""
    with pytest.raises(ValueError, match="all of the same width"):
        Table.from_pretrained(torch.ones(1, 2 + gr.my_pe()))


def test_freed():
    table, bag, array = Table(N, 2), Bag(N, 2), gr.zeros(N)
    gr.torch.gather(array, index([1]))  # it has an entry
    rows = table(index([1]))
    gr.barrier()
    for made in (table, bag, array):
        made.free()
    calls = [
        lambda: table(index([1])), lambda: bag(index([[1]])), rows.sum().backward, table.step, table.state_dict,
        lambda: gr.torch.gather(array, index([1])), lambda: gr.torch.gather(array, index([1]), array),
        lambda: gr.torch.scatter_add(array, index([1]), torch.ones(1, dtype=torch.float64)),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="the array was freed"):
            call()


def test_freed_in_use():
    """A state_dict is no copy. All PEs get the exception, and the table is whole."""
    table = Table(N, 2)
    state = table.state_dict() if gr.my_pe() == 0 else {}
    with pytest.raises(BufferError, match="PE 0 has 1 view"):
        table.free()
    state.clear()
    table(index([1, 2])).sum().backward()
    table.step()
    table.free()


@pytest.mark.skipif(not gr.torch.HAS_OPERATORS, reason="PyTorch has no custom operators: 2.4 has them")
def test_freed_and_compiled():
    table = Table(N, 2)
    compiled = torch.compile(table, backend="aot_eager", fullgraph=True)
    assert compiled(index([1])).shape == (1, 2)
    gr.barrier()
    table.free()
    with pytest.raises(ValueError, match="the array was freed"):
        compiled(index([1]))
