"""Arguments and results in the memory in which distributed arrays lie: that of a GPU, or of the host on the CPU
backend. The libraries are CuPy and PyTorch on GPUs, NumPy and PyTorch elsewhere."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest

import gravel as gr
from libraries import on_gpu, write

DTYPES = ("i4", "u4", "i8", "u8", "f4", "f8")
N = 1009
COUNT = 3000


def drawn(pe, dtype, index_type, count=COUNT, width=()):
    random = np.random.default_rng(77 + pe)
    index = random.integers(N, size=count).astype(index_type)
    low = 0 if dtype.startswith("u") else -50
    return index, random.integers(low, 50, size=(count, *width)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", ["i4", "u4", "i8", "u8"])
def test_add_and_gather(library, dtype, index_type):
    table = gr.zeros(N, dtype)
    index, values = (library.new(part) for part in drawn(gr.my_pe(), dtype, index_type))
    gr.scatter_add(table, index, values)
    gr.barrier()
    expected = np.zeros(N, dtype)
    for pe in range(gr.n_pes()):
        np.add.at(expected, *drawn(pe, dtype, index_type))
    assert np.array_equal(table.copy_local(), expected[table.begin : table.end])
    where = drawn(50 + gr.my_pe(), dtype, index_type)[0]
    got = library.host(gr.gather(table, library.new(where)))
    assert got.dtype == table.dtype and np.array_equal(got, expected[where])
    out = library.new(np.zeros(COUNT, dtype))
    assert gr.gather(table, library.new(where), out=out) is out
    assert np.array_equal(library.host(out), expected[where])
    table.free()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("call", "ufunc"), [(gr.scatter_min, np.minimum), (gr.scatter_max, np.maximum), (gr.scatter_add, np.add)]
)
@pytest.mark.parametrize("width", [(1,), (3,), (2, 4)])
def test_rows(library, dtype, call, ufunc, width):
    table = gr.full((N, *width), 7, dtype)
    index, values = (library.new(part) for part in drawn(gr.my_pe(), dtype, "i8", 500, width))
    call(table, index, values)
    gr.barrier()
    expected = np.full((N, *width), 7, dtype)
    for pe in range(gr.n_pes()):
        ufunc.at(expected, *drawn(pe, dtype, "i8", 500, width))
    assert np.array_equal(table.copy_local(), expected[table.begin : table.end])
    got = library.host(gr.gather(table, index))
    assert np.array_equal(got, expected[library.host(index)])
    table.free()


def narrow(library, values, dtype):
    """Numbers as an array of a type of 16 bits."""
    if library.name == "torch":
        return library.new(values).to(getattr(library.module, "float16" if dtype == "f2" else "bfloat16"))
    if dtype.names:  # NumPy has no bfloat16
        return (values.view("u4") >> 16).astype("u2").view(dtype)
    return library.new(values.astype(dtype))


def wide(library, array):
    """The same backwards, on the host."""
    array = library.host(array.float() if library.name == "torch" else array)
    return (array["bits"].astype("u4") << 16).view("f4") if array.dtype.names else array.astype("f4")


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
@pytest.mark.parametrize(
    ("call", "ufunc"), [(gr.scatter_min, np.minimum), (gr.scatter_max, np.maximum), (gr.scatter_add, np.add)]
)
@pytest.mark.parametrize("width", [(2,), (3, 4)])
def test_elements_of_16_bits(library, dtype, call, ufunc, width):
    """Small integers, whose sums are exact."""
    if library.name == "cupy" and dtype == "bf16":
        pytest.skip("CuPy has no bfloat16")
    torch = pytest.importorskip("torch") if library.name == "torch" or on_gpu() else None
    asked = torch.bfloat16 if torch and dtype == "bf16" else dtype
    table = gr.full((N, *width), 7, asked)
    assert repr(table).split(", here")[0].endswith(f" {dtype}") and table.dtype.itemsize == 2
    index, values = drawn(gr.my_pe(), "f4", "i8", 200, width)
    call(table, library.new(index), narrow(library, values % 4, table.dtype))
    gr.barrier()
    expected = np.full((N, *width), 7, "f4")
    for pe in range(gr.n_pes()):
        numbers, given = drawn(pe, "f4", "i8", 200, width)
        ufunc.at(expected, numbers, given % 4)
    got = gr.gather(table, library.new(index))
    assert np.array_equal(wide(library, got), expected[index])
    if torch:
        assert table.tensor.dtype == (torch.bfloat16 if dtype == "bf16" else torch.float16)
        mine = table.tensor.float().cpu().numpy()
        assert np.array_equal(mine, expected[table.begin : table.end])
    gr.barrier()
    if call is gr.scatter_add:
        gr.scatter_put(table, library.new(index), 1.5)
        gr.barrier()
        assert (wide(library, gr.gather(table, library.new(index))) == 1.5).all()
        gr.barrier()
        rows = np.arange(gr.my_pe(), N, gr.n_pes())
        gr.scatter_put(table, library.new(rows), narrow(library, expected[rows], table.dtype))
        gr.barrier()
        assert np.array_equal(wide(library, gr.gather(table, library.new(index))), expected[index])
        gr.barrier()
    table.free()


def test_put_and_one_value(library):
    n_pes, me = gr.n_pes(), gr.my_pe()
    table = gr.zeros(N * n_pes, "f8")
    index = np.random.default_rng(5).permutation(N) * n_pes + me
    gr.scatter_put(table, library.new(index), library.new(index / 4))
    gr.quiet()
    gr.scatter_add(table, library.new(index), 0.5)
    gr.barrier()
    assert np.array_equal(table.copy_local(), np.arange(table.begin, table.end) / 4 + 0.5)
    table.free()


def test_index_and_values_of_different_memory(library):
    table = gr.zeros(100, "i4")
    gr.scatter_add(table, library.new(np.arange(100)), np.ones(100, "i4"))
    gr.scatter_add(table, np.arange(100), library.new(np.ones(100, "i4")))
    gr.scatter_add(table, list(range(100)), library.new(np.ones(100, "i4")))
    gr.barrier()
    out = library.new(np.zeros(100, "i4"))
    gr.gather(table, np.arange(100), out=out)
    assert (library.host(out) == 3 * gr.n_pes()).all()
    table.free()


def test_empty(library):
    table = gr.zeros((10, 2), "f4")
    none = library.new(np.zeros(0, "i8"))
    gr.scatter_add(table, none, library.new(np.zeros((0, 2), "f4")))
    assert gr.gather(table, none).shape == (0, 2)
    gr.barrier()
    table.free()


def test_local_is_the_memory():
    table = gr.zeros((40, 3), "f4")
    write(table, gr.my_pe() + 1)
    gr.barrier()
    owners = np.arange(40) // table.block + 1
    assert np.array_equal(gr.gather(table, np.arange(40))[:, 0], owners)
    gr.barrier()
    with pytest.raises(ValueError, match="freed"):
        table.free()
        _ = table.local


def test_tensor_is_the_memory():
    torch = pytest.importorskip("torch")
    table = gr.zeros((40, 3), "f4")
    table.tensor.fill_(2.5)
    gr.barrier()
    assert (gr.gather(table, np.arange(40)) == 2.5).all()
    gr.barrier()
    view = table.tensor
    with pytest.raises(BufferError, match="view"):
        table.free()
    del view
    table.free()


def test_from_local(library):
    part = np.arange(30, dtype="f8").reshape(10, 3) + 100 * gr.my_pe()
    table = gr.from_local(library.new(part))
    wanted = np.concatenate([np.arange(30).reshape(10, 3) + 100 * pe for pe in range(gr.n_pes())])
    assert np.array_equal(gr.gather(table, np.arange(table.n)), wanted)
    gr.barrier()
    table.free()


def test_collectives(library):
    got = gr.sum_all(library.new(np.arange(5, dtype="f8") * (gr.my_pe() + 1)))
    assert np.array_equal(library.host(got), np.arange(5) * sum(range(1, gr.n_pes() + 1)))
    everything = library.host(gr.allgather(library.new(np.full(3, gr.my_pe(), "i8"))))
    assert everything.tolist() == [[pe] * 3 for pe in range(gr.n_pes())]
    assert library.host(gr.broadcast(library.new(np.full(2, gr.my_pe(), "i4")), root=0)).tolist() == [0, 0]


def test_all_to_all(library):
    n, me = gr.n_pes(), gr.my_pe()
    rows = np.arange(20, dtype="i8").reshape(10, 2) + 1000 * me
    got, counts = gr.all_to_all(library.new(rows), library.new(np.arange(10) % n))
    mine = np.arange(10)[np.arange(10) % n == me]
    wanted = np.concatenate([(np.arange(20).reshape(10, 2) + 1000 * pe)[mine] for pe in range(n)])
    assert np.array_equal(library.host(got), wanted) and counts.tolist() == [len(mine)] * n


@pytest.mark.parametrize(
    ("dtype", "index_type"), [("i4", "i8"), ("f8", "u4"), ("f2", "i4"), ("u1", "i8"), ("?", "u8")]
)
def test_ragged_all_to_all(library, dtype, index_type):
    """Numbers of rows that differ, and some PEs without any."""
    n, me = gr.n_pes(), gr.my_pe()

    def drawn_rows(pe):
        random = np.random.default_rng(600 + pe)
        count = 0 if pe == 1 else int(random.integers(5000))
        return random.integers(0, 2, size=(count, 8)).astype(dtype), random.integers(n, size=count).astype(index_type)

    rows, to = drawn_rows(me)
    got, counts = gr.all_to_all(library.new(rows), library.new(to))
    parts = [drawn_rows(pe)[0][drawn_rows(pe)[1] == me] for pe in range(n)]
    assert counts.tolist() == [len(part) for part in parts]
    got = library.host(got)
    assert got.dtype == rows.dtype and np.array_equal(got, np.concatenate(parts))
    got, _ = gr.all_to_all(library.new(rows), to)  # arrays of different memory
    assert np.array_equal(library.host(got), np.concatenate(parts))
    with pytest.raises(IndexError, match=rf"to\[1\] is PE {n}: the job has PEs 0 to {n - 1}"):
        gr.all_to_all(library.new(np.zeros((2, 8), dtype)), library.new(np.array([0, n], index_type)))


def test_wrong_arguments(library):
    table = gr.zeros((10, 2), "f4")
    good = library.new(np.arange(4))
    with pytest.raises(IndexError, match=r"index\[2\] is 10: the array has rows 0 to 9"):
        gr.gather(table, library.new(np.array([1, 2, 10, 11])), check=True)
    with pytest.raises(IndexError, match=r"index\[0\] is -1"):
        gr.scatter_add(table, library.new(np.array([-1, 2])), 1.0, check=True)
    with pytest.raises(TypeError, match="index has dtype float64"):
        gr.gather(table, library.new(np.ones(4)))
    with pytest.raises(TypeError, match="values have dtype float64, the array float32"):
        gr.scatter_add(table, good, library.new(np.ones((4, 2))))
    with pytest.raises(ValueError, match=r"values have shape \(4,\), index \(4,\)"):
        gr.scatter_add(table, good, library.new(np.ones(4, "f4")))
    with pytest.raises(ValueError, match="index is not contiguous"):
        gr.gather(table, library.new(np.arange(8))[::2])
    with pytest.raises(ValueError, match="out is an array of shape"):
        gr.gather(table, good, out=library.new(np.zeros((4, 3), "f4")))
    gr.barrier()
    table.free()


def test_streams_of_the_library(library):
    """Arrays are read in the current stream, in which they have just been written. Here `stream` is another one."""
    if not on_gpu() or library.name == "numpy":
        pytest.skip("streams are of GPUs")
    table = gr.zeros(1 << 16, "i4")
    size = 1 << 20

    index = library.new(np.arange(size, dtype="i8") % (1 << 16))
    ones = library.new(np.zeros(size, "i4"))
    gr.quiet()  # the arrays are there
    stream = library.module.cuda.Stream()
    with library.module.cuda.stream(stream) if library.name == "torch" else stream:
        for _ in range(20):
            ones += 1  # 1, 2, ... 20
            gr.scatter_add(table, index, ones)
        gr.quiet()
    gr.barrier()
    assert (table.copy_local() == 210 * 16 * gr.n_pes()).all()
    table.free()


def test_gather_in_a_graph():
    if not on_gpu() or os.environ.get("GRAVEL_ROUTES") == "net" or gr.n_nodes() > 1:
        pytest.skip("CUDA graphs contain gathers from mapped memory")
    torch = importlib.import_module("torch")
    table = gr.from_local(np.arange(300, dtype="f4").reshape(100, 3) + 1000 * gr.my_pe())
    index = torch.zeros(50, dtype=torch.int64, device="cuda")
    out = torch.zeros((50, 3), device="cuda")
    gr.gather(table, index, out=out)  # loads the kernel
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gr.gather(table, index, out=out)
    for seed in range(3):
        numbers = np.random.default_rng(seed).integers(table.n, size=50)
        index.copy_(torch.from_numpy(numbers))
        graph.replay()
        torch.cuda.synchronize()
        wanted = (numbers % 100 * 3)[:, None] + np.arange(3) + (numbers // 100 * 1000)[:, None]
        assert np.array_equal(out.cpu().numpy(), wanted)
    gr.barrier()
    del graph
    table.free()


@pytest.mark.parametrize(
    ("optimizer", "rate"),
    [("sgd", 10), ("adagrad", 0.1), ("rowwise_adagrad", 0.1), ("adam", 0.1), ("rowwise_adam", 0.1)],
)
def test_embedding(optimizer, rate):
    """A table learns, in the memory in which it lies."""
    torch = pytest.importorskip("torch")
    device = torch.device("cuda" if on_gpu() else "cpu")
    torch.manual_seed(gr.my_pe())
    table = gr.torch.EmbeddingBag(300, 8, mode="sum", optimizer=optimizer, lr=rate, std=0.1)
    losses = []
    for _ in range(15):
        index = torch.randint(300, (64, 4), device=device)
        loss = (table(index) - 1).square().mean()
        loss.backward()
        table.step()
        losses.append(gr.sum_all(loss.item()) / gr.n_pes())
    assert losses[-1] < losses[0] / 1.5
    table.free()


def test_one_row_at_each_pe(library):
    n, me = gr.n_pes(), gr.my_pe()
    table = gr.from_local(library.new(np.array([[me, 7]], "i8")))
    gr.scatter_add(table, library.new(np.arange(n)), library.new(np.full((n, 2), 100, "i8")))
    gr.barrier()
    got = library.host(gr.gather(table, library.new(np.arange(n))))
    assert got.tolist() == [[pe + 100 * n, 7 + 100 * n] for pe in range(n)]
    gr.barrier()
    table.free()
