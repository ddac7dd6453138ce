"""Gravel for PyTorch: an embedding table that is distributed over the PEs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import _array, _job, _operations

_DTYPES = {torch.float32: "f4", torch.float64: "f8"}


class _Lookup(torch.autograd.Function):
    """Rows of a distributed array; backwards their gradients are added to the same rows of another one."""

    @staticmethod
    def forward(context: Any, anchor: torch.Tensor, index: torch.Tensor, table: Embedding) -> torch.Tensor:
        context.save_for_backward(index)
        context.table = table
        return _operations.gather(table.weight, index)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[None, None, None]:
        (index,) = context.saved_tensors
        _operations.scatter_add(context.table.gradient, index, gradients[0].contiguous())
        return None, None, None


class Embedding(torch.nn.Module):
    """A table of `n` rows that is distributed over the PEs: ``torch.nn.Embedding`` for tables that no PE has alone.

    The forward pass gathers rows from anywhere, and the backward pass adds the gradients to :attr:`gradient` where the
    rows are. Both are one-sided: the PEs may look up different numbers of rows. :meth:`step` updates the rows by the
    gradients of all PEs. The program averages the gradients of other modules, as always.

    n: the number of rows.
    width: the number of elements of a row.
    optimizer: ``"sgd"``, or ``"adagrad"``, which keeps a sum of squares for each element.
    lr: the learning rate.
    std: rows begin as normal random numbers with this standard deviation, the same for the same `seed` and any number
        of PEs.
    dtype: ``torch.float32`` or ``torch.float64``.

    Collective, as :meth:`step` and :meth:`free` are. Raises :class:`gravel.Error` if the memory does not suffice.
    """

    def __init__(
        self,
        n: int,
        width: int,
        *,
        optimizer: str = "sgd",
        lr: float = 0.01,
        std: float = 1.0,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        _job.check_joined("torch.Embedding")
        if optimizer not in ("sgd", "adagrad"):
            raise ValueError(f"gravel.torch.Embedding: optimizer {optimizer!r}: it is 'sgd' or 'adagrad'")
        if dtype not in _DTYPES:
            raise TypeError(f"gravel.torch.Embedding: dtype {dtype}: it is torch.float32 or torch.float64")
        self.lr, self.eps = lr, 1e-10
        self.weight = _array.empty((n, width), _DTYPES[dtype])
        self.gradient = _array.zeros((n, width), _DTYPES[dtype])
        self._squares = np.zeros_like(self.gradient.local) if optimizer == "adagrad" else None
        self._draw(std, seed)
        # Autograd calls backward() only if an argument wants a gradient.
        self._anchor = torch.zeros((), dtype=dtype, requires_grad=True)
        _job.barrier()  # no PE reads before all rows are drawn

    def _draw(self, std: float, seed: int) -> None:
        """Each block of rows has a generator of its own, so that rows do not depend on the number of PEs."""
        rows_of_block = 1024
        local, begin, end = self.weight.local, self.weight.begin, self.weight.end
        for block in range(begin // rows_of_block, -(-end // rows_of_block)):
            first = block * rows_of_block
            drawn = np.random.default_rng((seed, block)).normal(0, std, (rows_of_block, *self.weight.row))
            low, high = max(begin, first), min(end, first + rows_of_block)
            local[low - begin : high - begin] = drawn[low - first : high - first]

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Rows of the table, in the shape ``index.shape + (width,)``."""
        if torch.is_grad_enabled():
            return _Lookup.apply(self._anchor, index, self)
        return _operations.gather(self.weight, index)

    def step(self) -> None:
        """Updates this PE's rows by the gradients that all PEs have added since the last step. Collective."""
        _job.barrier()  # all gradients are there, and all lookups have their rows
        weight, gradient = self.weight.local, self.gradient.local
        if self._squares is None:
            weight -= self.lr * gradient
        else:
            self._squares += gradient * gradient
            weight -= self.lr * gradient / (np.sqrt(self._squares) + self.eps)
        gradient[:] = 0
        _job.barrier()  # all rows are updated

    def free(self) -> None:
        """Frees the table. Collective. It cannot be used afterwards."""
        self.weight.free()
        self.gradient.free()

    def extra_repr(self) -> str:
        return f"{self.weight.n}, {self.weight.row[0]}, here [{self.weight.begin}, {self.weight.end}), lr={self.lr}"
