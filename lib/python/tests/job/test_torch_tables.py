"""Distributed tables beside those of PyTorch: the same steps, by the batches of all PEs together."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gravel as gr
from libraries import local_part, tensor_of

torch = pytest.importorskip("torch")
F8 = torch.float64
N, WIDTH = 40, 3


def whole(array):
    return tensor_of(gr.gather(array, np.arange(array.n)))


def numbers(pe, step, *shape, n=N):
    return tensor_of(np.random.default_rng((pe, step)).integers(n, size=shape))


def same_rows(table, expected):
    mine = tensor_of(local_part(table.weight))
    assert torch.allclose(mine, expected.detach()[table.weight.begin : table.weight.end], rtol=0, atol=1e-12)


class RowWiseAdam(torch.optim.Optimizer):
    """FBGEMM's partial row-wise Adam, for one process, of rows that have gradients. eps is as good as 0."""

    def __init__(self, parameters, lr, betas):
        super().__init__(parameters, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for rows in group["params"]:
                state = self.state[rows]
                state["steps"] = state.get("steps", 0) + 1
                (beta1, beta2), gradient = group["betas"], rows.grad.coalesce()
                touched, given = gradient.indices()[0], gradient.values()
                first = state.setdefault("first", torch.zeros_like(rows))
                second = state.setdefault("second", torch.zeros(len(rows), 1, dtype=rows.dtype))
                first[touched] = beta1 * first[touched] + (1 - beta1) * given
                second[touched] = beta2 * second[touched] + (1 - beta2) * given.pow(2).mean(1, keepdim=True)
                under_root = second[touched] / (1 - beta2 ** state["steps"]) + 1e-300
                rows[touched] -= group["lr"] * first[touched] / (1 - beta1 ** state["steps"]) / under_root.sqrt()


class RowWise(torch.optim.Optimizer):
    """TorchRec's RowWiseAdagrad, for one process: one sum for each row, of the mean squares of its gradients."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for rows in group["params"]:
                sums = self.state[rows].setdefault("sums", torch.zeros(len(rows), 1, dtype=rows.dtype))
                gradient = rows.grad.to_dense()
                sums += gradient.pow(2).mean(1, keepdim=True)
                rows -= group["lr"] * gradient / (sums.sqrt() + 1e-10)


RIVALS = {
    "sgd": lambda rows: torch.optim.SGD(rows, lr=0.1),
    "adagrad": lambda rows: torch.optim.Adagrad(rows, lr=0.1),
    "rowwise_adagrad": lambda rows: RowWise(rows, lr=0.1),
    "adam": lambda rows: torch.optim.SparseAdam(list(rows), lr=0.1, betas=(0.8, 0.95), eps=1e-15),
    "rowwise_adam": lambda rows: RowWiseAdam(rows, lr=0.1, betas=(0.8, 0.95)),
}


@pytest.mark.parametrize("optimizer", list(RIVALS))
def test_optimizer(optimizer):
    """Rows without gradients stay as they are, and rows whose gradient is zero are updated: as by SparseAdam. Its eps
    is added elsewhere, so it is as good as 0 here."""
    options = {"eps": 1e-15, "betas": (0.8, 0.95)} if optimizer.endswith("adam") else {}
    table = gr.torch.Embedding(N, WIDTH, optimizer=optimizer, lr=0.1, dtype=F8, padding_idx=-2, **options)
    assert table.padding_idx == N - 2 and not whole(table.weight)[N - 2].any()
    rival = torch.nn.Embedding.from_pretrained(
        whole(table.weight), freeze=False, sparse=optimizer != "rowwise_adagrad", padding_idx=N - 2
    )
    gr.barrier()
    steps = RIVALS[optimizer](rival.parameters())
    for step in range(4):
        factor = (numbers(9, step, WIDTH, n=5) - 1).to(F8)  # zeros too
        for pe in range(gr.n_pes()):
            index = numbers(pe, step, 2, 3)
            index[0, 0] = N - 2
            (rival(index).sin() * factor * (pe + 1)).sum().backward()
            if pe == gr.my_pe():
                rows = table(index)
                assert torch.allclose(rows, rival(index))
                (rows.sin() * factor * (pe + 1)).sum().backward()
        steps.step()
        steps.zero_grad()
        table.step()
        same_rows(table, rival.weight)
        gr.barrier()
    assert not local_part(table.gradient).any()
    table.free()


def test_adam_is_that_of_pytorch():
    """torch.optim.Adam with its usual eps, for rows that all get gradients in each step."""
    table = gr.torch.Embedding(N, WIDTH, optimizer="adam", lr=0.1, dtype=F8, place="host")
    rival = torch.nn.Parameter(whole(table.weight))
    gr.barrier()
    steps = torch.optim.Adam([rival], lr=0.1)
    everything = torch.arange(N)
    for step in range(4):
        steps.zero_grad()
        (rival.sin().square() * 1e-4).sum().backward()
        if gr.my_pe() == 0:
            (table(everything).sin().square() * 1e-4).sum().backward()
        steps.step()
        table.step()
        same_rows(table, rival)
        gr.barrier()
    table.free()


def test_steps_without_lookups():
    """Nothing changes, though Adam has moments."""
    table = gr.torch.Embedding(N, WIDTH, optimizer="adam", lr=0.1)
    if gr.my_pe() == gr.n_pes() - 1:
        table(torch.tensor([1, N - 1])).sum().backward()
    table.step()
    before = whole(table.weight)
    table.step()
    assert torch.equal(whole(table.weight), before)
    gr.barrier()
    table.free()


@pytest.mark.parametrize("padding", [None, 7])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bag(mode, padding):
    """Bags by rows of a matrix and by offsets, also empty ones and ones of nothing but padding."""
    table = gr.torch.EmbeddingBag(N, WIDTH, mode=mode, lr=0.1, dtype=F8, padding_idx=padding, optimizer="adagrad")
    last = gr.torch.EmbeddingBag.from_pretrained(
        whole(table.weight) if gr.my_pe() == 0 else torch.empty(0, WIDTH, dtype=F8),
        mode=mode, include_last_offset=True, padding_idx=padding,
    )  # fmt: skip
    rival = torch.nn.EmbeddingBag.from_pretrained(whole(table.weight), freeze=False, mode=mode, padding_idx=padding)
    gr.barrier()
    steps = torch.optim.Adagrad(rival.parameters(), lr=0.1)
    first = rival.weight.detach().clone()
    for step in range(3):
        for pe in range(gr.n_pes()):
            index = numbers(pe, step, 4, 3, n=12)
            index[1] = 7
            offsets = torch.tensor([0, 3, 3, 6, 11])
            weights = torch.linspace(-1, 1, 12, dtype=F8) if mode == "sum" else None
            mine, theirs = (None if weights is None else weights.clone().requires_grad_() for _ in range(2))
            expected = rival(index).sin().sum() + (rival(index.reshape(-1), offsets, theirs) ** 2).sum()
            expected.backward()
            if pe == gr.my_pe():
                bags = table(index.reshape(-1), offsets, mine)
                assert bags.shape == (5, WIDTH)
                got = table(index.to(torch.int32)).sin().sum() + (bags**2).sum()
                assert torch.allclose(got, expected)
                got.backward()
                if weights is not None:
                    assert torch.allclose(mine.grad, theirs.grad)
                ends = torch.cat([offsets, torch.tensor([12])])
                fixed = torch.nn.functional.embedding_bag(
                    index.reshape(-1), first, ends, mode=mode, include_last_offset=True, padding_idx=padding
                )
                assert torch.allclose(last(index.reshape(-1), ends), fixed)
        steps.step()
        steps.zero_grad()
        table.step()
        same_rows(table, rival.weight)
        gr.barrier()
    assert table(torch.empty((0, 3), dtype=torch.int64)).shape == (0, WIDTH)
    table.free()
    last.free()


def test_from_pretrained():
    """The rows of all PEs in their order; frozen unless one says otherwise."""
    me, n_pes = gr.my_pe(), gr.n_pes()
    mine = torch.full((me + 1, WIDTH), float(me), requires_grad=True)
    table = gr.torch.Embedding.from_pretrained(mine)
    assert table.weight.n == n_pes * (n_pes + 1) // 2 and table.weight.dtype == "f4"
    assert whole(table.weight)[:, 0].tolist() == [pe for pe in range(n_pes) for _ in range(pe + 1)]
    assert table.gradient is None and not table(torch.tensor([0])).requires_grad
    table.step()
    table.free()
    table = gr.torch.Embedding.from_pretrained(torch.ones(2, WIDTH, dtype=F8), freeze=False, padding_idx=0, lr=1)
    table(torch.tensor([0, 1])).sum().backward()
    table.step()
    assert whole(table.weight)[:2, 0].tolist() == [1, 1 - n_pes]
    gr.barrier()
    table.free()


def trained(seed, optimizer="adam"):
    table = gr.torch.Embedding(N, WIDTH, optimizer=optimizer, lr=0.1, seed=seed, dtype=F8)
    train(table, 0)
    return table


def train(table, step):
    table(numbers(gr.my_pe(), step, 8)).square().sum().backward()
    table.step()


def parts_of(table, count):
    """What state_dict() would return at the PEs of a job of `count` PEs."""
    every, block = {name: whole(array) for name, array in table._arrays().items()}, -(-N // count)
    for pe in range(count):
        begin, end = min(N, pe * block), min(N, (pe + 1) * block)
        yield {name: tensor[begin:end] for name, tensor in every.items()} | {
            "part": torch.tensor([N, begin, end, table._steps])
        }


def test_state_of_a_module():
    """A module with a table goes through a file at each PE, and trains on as if nothing had happened."""
    models = [torch.nn.ModuleDict({"user": trained(s), "dense": torch.nn.Linear(2, 2)}) for s in (1, 2)]
    state = models[0].state_dict()
    part = state["user.part"].tolist()
    assert part == [N, models[0]["user"].weight.begin, models[0]["user"].weight.end, 1]
    assert state["user.weight"].shape == (part[2] - part[1], WIDTH) and "user.second_moment" in state
    file = io.BytesIO()
    torch.save(state, file)
    del state
    file.seek(0)
    models[1].load_state_dict(torch.load(file))
    for step in range(2):
        for model in models:
            train(model["user"], step)
    assert torch.equal(models[0]["dense"].weight, models[1]["dense"].weight)
    assert np.allclose(local_part(models[0]["user"].weight), local_part(models[1]["user"].weight), rtol=0, atol=1e-12)
    for model in models:
        model["user"].free()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_parts_of_another_number_of_pes(count):
    table, other = trained(1), trained(2)
    parts = list(parts_of(table, count))
    gr.barrier()
    mine = [{f"user.{key}": tensor for key, tensor in part.items()} for part in parts[gr.my_pe() :: gr.n_pes()]]
    other.load_parts(mine, prefix="user.")
    for name, array in table._arrays().items():
        assert np.array_equal(local_part(array), local_part(other._arrays()[name]))
    assert other._steps == 1
    table.free()
    other.free()


def test_wrong_state():
    """An error at all PEs, and the table stays as it was."""
    table, other = trained(1), trained(2, "sgd")
    before = whole(table.weight)
    gr.barrier()
    parts, few = list(parts_of(table, 3)), list(parts_of(other, 1))
    wrong = [
        (parts if gr.my_pe() == 0 and gr.n_pes() > 1 else parts[:1], "must have each of the 40 rows once"),
        (parts[:1] + parts[:2] if gr.my_pe() == 0 else [], "must have each of the 40 rows once"),
        (few if gr.my_pe() == 0 else [], "no first_moment|PE 0 has a part that is not right"),
        ([{}], "there is no part"),
        ([parts[0] | {"part": torch.tensor([N + 1, 0, 14, 0])}], "of a table of 41 rows, and this one has 40"),
        ([parts[0] | {"part": torch.tensor([N, 0, 13, 0])}], r"weight has shape \(14, 3\)"),
        ([parts[0] | {"weight": parts[0]["weight"].float()}], "torch.float32: .* torch.float64"),
    ]
    for given, text in wrong:
        with pytest.raises(ValueError, match=text):
            table.load_parts(given)
    with pytest.raises(RuntimeError, match="load_parts at one PE"):
        table.load_state_dict(parts[0])
    with pytest.raises(RuntimeError, match="Missing key.*second_moment"):
        table.load_state_dict(other.state_dict())
    with pytest.raises(RuntimeError, match="Unexpected key.*first_moment"):
        other.load_state_dict(table.state_dict())
    table.load_state_dict({}, strict=False)
    assert torch.equal(whole(table.weight), before)
    gr.barrier()
    table.free()
    other.free()
