"""The optimizers of embedding tables. The formulas, and the kernel that makes a step, are those of
gravel::row_optimizer (lib/table/optimizer_kernels.cuh)."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """eps: what is added to the divisor. betas: how much of the two moments a step keeps."""

    eps: float
    betas: tuple[float, float]


class Optimizer(NamedTuple):
    """number: of gravel::optimizer. moments, squares: the names of the state, or None. by_row: each row has one number
    as squares; otherwise each element has one."""

    number: int
    moments: str | None = None
    squares: str | None = None
    by_row: bool = False
    eps: float = 0.0


OPTIMIZERS = {
    "sgd": Optimizer(0),
    "adagrad": Optimizer(1, squares="squares", eps=1e-10),
    "rowwise_adagrad": Optimizer(2, squares="squares", by_row=True, eps=1e-10),
    "adam": Optimizer(3, "first_moment", "second_moment", eps=1e-8),
    "rowwise_adam": Optimizer(4, "first_moment", "second_moment", by_row=True, eps=1e-8),
}
