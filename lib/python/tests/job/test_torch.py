"""Tensors of PyTorch as arguments, and gravel.torch. Skipped where PyTorch is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, tensor_of

torch = pytest.importorskip("torch")


def test_tensors_in_tensors_out():
    table = gr.zeros((20, 2), "f4")
    index = torch.arange(20)
    gr.scatter_add(table, index, torch.ones(20, 2))
    gr.scatter_add(table, [3], torch.tensor([[1.0, 2.0]], requires_grad=True))
    gr.barrier()
    n = gr.n_pes()
    got = gr.gather(table, index.reshape(4, 5))
    assert isinstance(got, torch.Tensor) and got.shape == (4, 5, 2) and got.dtype == torch.float32
    assert got[0, 3].tolist() == [2 * n, 3 * n] and got[1, 0].tolist() == [n, n]
    assert isinstance(gr.gather(table, [1, 2]), np.ndarray)
    out = torch.empty(2, 2)
    assert gr.gather(table, torch.tensor([3, 4]), out=out) is out and out.tolist() == [[2 * n, 3 * n], [n, n]]
    gr.barrier()  # all have read
    view = table.tensor
    view.zero_()
    assert not local_part(table).any()
    del view
    table.free()


def test_collectives():
    me, n = gr.my_pe(), gr.n_pes()
    total = gr.sum_all(torch.full((2, 3), me + 1.0))
    assert isinstance(total, torch.Tensor) and (total == n * (n + 1) / 2).all()
    loss = gr.max_all(torch.tensor(float(me), dtype=torch.float64))
    assert isinstance(loss, torch.Tensor) and loss.shape == () and loss == n - 1
    assert (gr.broadcast(torch.full((3,), me)) == 0).all()
    every = gr.allgather(torch.tensor([me, me]))
    assert isinstance(every, torch.Tensor) and every.tolist() == [[pe, pe] for pe in range(n)]


def test_mistakes():
    table = gr.zeros(8, "u8")
    with pytest.raises(TypeError, match="values have dtype int64, the array uint64"):
        gr.scatter_add(table, torch.tensor([1]), torch.tensor([1]))
    with pytest.raises(TypeError, match="index has dtype float32"):
        gr.scatter_add(table, torch.ones(3), 1)
    with pytest.raises(ValueError, match="index is not contiguous"):
        gr.gather(table, torch.arange(6)[::2])
    with pytest.raises(TypeError, match="sum_all: dtype bf16: it takes"):
        gr.sum_all(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="optimizer 'lamb'"):
        gr.torch.Embedding(3, 2, optimizer="lamb")
    with pytest.raises(TypeError, match="torch.float16"):
        gr.torch.Embedding(3, 2, dtype=torch.float16)
    table.free()


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_embedding_is_that_of_pytorch(optimizer):
    """The same steps by torch.nn.Embedding with the batches of all PEs together."""
    n, width, n_pes = 2500, 5, gr.n_pes()
    table = gr.torch.Embedding(n, width, optimizer=optimizer, lr=0.1, seed=3, dtype=torch.float64)
    whole = tensor_of(gr.gather(table.weight, np.arange(n))).clone()
    gr.barrier()
    rival = torch.nn.Embedding.from_pretrained(whole, freeze=False)
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adagrad
    steps = kind(rival.parameters(), lr=0.1)
    factor = torch.arange(1.0, width + 1, dtype=torch.float64)

    def batch(pe, step):
        return tensor_of(np.random.default_rng((pe, step)).integers(n, size=(7, 11)))

    for step in range(3):
        for pe in range(n_pes):
            loss = (rival(batch(pe, step)).sin() * factor).sum()
            loss.backward()
            if pe == gr.my_pe():
                rows = table(batch(pe, step))
                assert rows.shape == (7, 11, width) and torch.allclose(rows, rival(batch(pe, step)))
                (rows.sin() * factor).sum().backward()
        steps.step()
        steps.zero_grad()
        table.step()
        mine = tensor_of(local_part(table.weight))
        assert torch.allclose(mine, rival.weight.detach()[table.weight.begin : table.weight.end], atol=1e-12)
        del mine
        gr.barrier()
    with torch.no_grad():
        assert not table(torch.tensor([1, 2])).requires_grad
    gr.barrier()
    table.free()


def test_gradients():
    table = gr.torch.Embedding(6, 2, dtype=torch.float64)
    index = torch.tensor([[0, 5], [5, 1]])
    rows = table(index)
    assert rows.requires_grad
    rows.backward(torch.ones_like(rows))
    gr.barrier()
    n = gr.n_pes()
    gradient = gr.gather(table.gradient, np.arange(6))
    assert gradient.tolist() == [[n, n], [n, n], [0, 0], [0, 0], [0, 0], [2 * n, 2 * n]]
    gr.barrier()
    table.free()


def test_rows_do_not_depend_on_the_number_of_pes():
    table = gr.torch.Embedding(3000, 4, seed=9)
    expected = np.concatenate([np.random.default_rng((9, b)).normal(0, 1, (1024, 4)) for b in range(3)])[:3000]
    assert np.array_equal(local_part(table.weight), expected.astype("f4")[table.weight.begin : table.weight.end])
    table.free()
