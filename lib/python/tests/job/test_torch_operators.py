"""The operators torch.ops.gravel: they are right, PyTorch's own checks of operators pass, autograd and torch.compile
know them. Each PE has arrays of its own here, whose rows lie at all PEs, so that the PEs need not go together."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, tensor_of

torch = pytest.importorskip("torch")
needs_operators = pytest.mark.skipif(
    not gr.torch.HAS_OPERATORS, reason=f"PyTorch {torch.__version__} has no custom operators: 2.4 has them"
)
# torch.compile of PyTorch 2.6 takes modules with distributed tables, but no distributed arrays as arguments. Versions
# between it and 2.15 are not tested.
needs_compiled_arrays = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15),
    reason=f"torch.compile of calls with distributed arrays is tested with PyTorch 2.15, not {torch.__version__}",
)
N, WIDTH = 9, 3


def own_arrays(count, dtype="f8", shape=(N, WIDTH)):
    """`count` arrays for each PE; those of this PE, and all of them."""
    every = [gr.zeros(shape, dtype) for _ in range(count * gr.n_pes())]
    return every[gr.my_pe() * count : (gr.my_pe() + 1) * count], every


def free(arrays):
    gr.barrier()
    for array in arrays:
        array.free()


def read(array):
    gr.quiet()
    return tensor_of(gr.gather(array, np.arange(array.n)))


class Filled(torch.autograd.Function):
    """Fills an array with these rows, and returns a stand-in of its gradient. Backwards it returns that gradient."""

    @staticmethod
    def forward(context, rows, array, gradient):
        context.gradient = gradient
        gr.scatter_put(array, np.arange(array.n), rows.detach().contiguous())
        gr.quiet()
        return rows.new_zeros(1)

    @staticmethod
    def backward(context, _):
        found = read(context.gradient)
        gr.scatter_put(context.gradient, np.arange(N), 0.0)
        gr.quiet()
        return found, None, None


def test_gather_and_scatters():
    (sums, puts, small, large), every = own_arrays(4, "f4", N)
    index = torch.tensor([[0, 8], [8, 4]], dtype=torch.int32)
    values = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    gr.torch.scatter_add(sums, index, values)
    gr.torch.scatter_add(sums, index.long().t(), values.t())  # a view
    gr.torch.scatter_put(puts, index[:, 0], torch.tensor(7.0))  # one value for all
    gr.torch.scatter_min(small, index, values)
    gr.torch.scatter_max(large, index, values)
    assert read(sums).tolist() == [2, 0, 0, 0, -8, 0, 0, 0, 10]
    assert read(puts).tolist() == [7, 0, 0, 0, 0, 0, 0, 0, 7]
    assert read(small).tolist() == [0, 0, 0, 0, -4, 0, 0, 0, 0]
    assert read(large).tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 3]
    got = gr.torch.gather(sums, index)
    assert got.tolist() == [[2, 10], [10, -8]] and got.dtype == torch.float32 and not got.requires_grad
    assert gr.torch.gather(sums, index[:0]).shape == (0, 2)
    free(every)


def test_gradient():
    (array, gradient), every = own_arrays(2)
    rows = gr.torch.gather(array, torch.tensor([[1, 2], [1, 8]]), gradient=gradient)
    assert rows.requires_grad
    (rows * torch.arange(1.0, 5).reshape(2, 2, 1)).sum().backward()
    expected = torch.zeros(N, WIDTH, dtype=torch.float64)
    expected[1], expected[2], expected[8] = 4, 2, 4
    assert torch.equal(read(gradient), expected)
    with torch.no_grad():
        assert not gr.torch.gather(array, torch.tensor([1]), gradient=gradient).requires_grad
    free(every)


def test_gradcheck():
    """The gradient of gather is that of finite differences. Rows occur several times, and not at all."""
    (array, gradient), every = own_arrays(2)
    entry = gr.torch._operators._entry("gather", array, gradient)
    index = torch.tensor([[0, 8], [8, 3]])
    rows = torch.randn(N, WIDTH, dtype=torch.float64, requires_grad=True)

    def function(rows):
        filled = Filled.apply(rows, array, gradient)
        return gr.torch._operators.gather_rows(entry.array, entry.number, index, filled).sin()

    assert torch.allclose(function(rows), rows[index].sin())
    assert torch.autograd.gradcheck(function, (rows,))
    free(every)


def test_gradcheck_bag():
    """Through a bag, also to its weights."""
    (array, gradient), every = own_arrays(2)
    entry = gr.torch._operators._entry("gather", array, gradient)
    index, offsets = torch.tensor([0, 8, 8, 3, 2]), torch.tensor([0, 2, 2])
    rows = torch.randn(N, WIDTH, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def function(rows, weights):
        filled = Filled.apply(rows, array, gradient)
        found = gr.torch._operators.gather_rows(entry.array, entry.number, index, filled)
        return torch.nn.functional.embedding_bag(
            torch.arange(5), found, offsets, mode="sum", per_sample_weights=weights
        )

    expected = torch.nn.functional.embedding_bag(index, rows, offsets, mode="sum", per_sample_weights=weights)
    assert torch.allclose(function(rows, weights), expected)
    assert torch.autograd.gradcheck(function, (rows, weights))
    free(every)


@needs_operators
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_opcheck(dtype):
    """Schemas, autograd registration, fake kernels, and AOT dispatch with static and dynamic shapes."""
    shape = (N, WIDTH) if dtype != "i8" else N
    (array, gradient), every = own_arrays(2, dtype, shape)
    with_gradient = gradient if dtype != "i8" else None
    number, stand_in, gradient_stand_in = gr.torch._operators._entry("gather", array, with_gradient)
    index = torch.tensor([[0, 8], [8, 3]])
    for numbers in (index, index[0].int(), torch.tensor(4)):
        torch.library.opcheck(torch.ops.gravel.gather, (stand_in, number, numbers, gradient_stand_in))
    values = torch.ones((*index.shape, *array.row), dtype=stand_in.dtype)
    for name in ("scatter_add", "scatter_put", "scatter_min", "scatter_max"):
        torch.library.opcheck(getattr(torch.ops.gravel, name), (stand_in, number, index, values))
    if with_gradient is not None:
        torch.library.opcheck(torch.ops.gravel.add_gradient, (number, 1, index, values))
    free(every)


@needs_compiled_arrays
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile(backend):
    """The graph does not break, and no call is merged, left out or put elsewhere."""
    if backend == "inductor" and (gr.n_pes() > 1 or not shutil.which("g++")):
        pytest.skip("inductor: one PE compiles, with g++")
    (array, gradient), every = own_arrays(2)

    def function(index, values):
        before = gr.torch.gather(array, index)
        gr.torch.scatter_add(array, index, values)
        gr.torch.scatter_add(array, index, values)
        twice = gr.torch.gather(array, index, gradient=gradient), gr.torch.gather(array, index, gradient=gradient)
        return before.clone(), twice[0] + twice[1]

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for length in (4, 6):  # the second one has dynamic shapes
        index = torch.arange(length)
        values = torch.rand(length, WIDTH, dtype=torch.float64)
        old = read(array)[:length]
        before, after = compiled(index, values)
        assert torch.equal(before, old)
        assert after.requires_grad
        after.sum().backward()
        assert torch.allclose(read(array)[:length], old + 2 * values)
        assert torch.equal(read(gradient)[:length], torch.full((length, WIDTH), 2.0, dtype=torch.float64))
        gr.scatter_put(gradient, np.arange(N), 0.0)
        gr.quiet()
    free(every)


@needs_compiled_arrays
def test_compile_orders_by_waiting():
    """A gather sees the scatters before it only after a quiet, compiled or not."""
    (array,), every = own_arrays(1)
    add = torch.compile(lambda i, v: gr.torch.scatter_add(array, i, v), backend="aot_eager", fullgraph=True)
    look = torch.compile(lambda i: gr.torch.gather(array, i) * 2, backend="aot_eager", fullgraph=True)
    index, values = torch.tensor([0, 0, 8]), torch.ones(3, WIDTH, dtype=torch.float64)
    add(index, values)
    gr.quiet()
    assert look(index)[:, 0].tolist() == [4, 4, 2]
    free(every)


@needs_operators
def test_compile_modules():
    """Compiled modules with distributed tables do the same steps as others."""
    made = [
        (gr.torch.Embedding(50, 4, seed=1, padding_idx=2), gr.torch.EmbeddingBag(50, 4, seed=2, mode="sum"))
        for _ in range(2)
    ]

    def loss_of(table, bag, index):
        twice = table(index) + table(index)  # two equal calls backwards
        return (twice * bag(index).unsqueeze(1)).square().sum()

    compiled = torch.compile(loss_of, backend="aot_eager", fullgraph=True)
    for step in range(2):
        index = tensor_of(np.random.default_rng((step, gr.my_pe())).integers(50, size=(5, 3)))
        losses = [function(*tables, index) for function, tables in zip((loss_of, compiled), made)]
        assert torch.allclose(*losses)
        for loss, tables in zip(losses, made):
            loss.backward()
            for table in tables:
                table.step()
    for eager, other in zip(*made):
        assert np.allclose(local_part(eager.weight), local_part(other.weight))
    for tables in made:
        for table in tables:
            table.free()


@needs_operators
def test_fake_tensors():
    """Fake kernels need neither the array nor its memory: the number may be wrong."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        stand_in, index = torch.empty((1, 3, 2)), torch.zeros((4, 5), dtype=torch.int64)
        found = torch.ops.gravel.gather(stand_in, 123456789, index, None)
        assert found.shape == (4, 5, 3, 2) and found.dtype == torch.float32
        assert torch.ops.gravel.add_gradient(123456789, 1, index, found).shape == (1,)


def test_many_arrays():
    """Arrays that are freed leave no entries."""
    for _ in range(5):
        array = gr.zeros(3)
        gr.torch.gather(array, torch.tensor([1]))
        gr.barrier()
        array.free()
    assert sum(not table.array.is_open for table in gr.torch._operators._tables.values()) <= 1
    assert len(gr.torch._operators._of_arrays) <= len(gr.torch._operators._tables)
