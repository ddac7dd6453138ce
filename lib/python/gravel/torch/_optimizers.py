"""The optimizers of embedding tables. Each updates rows by their gradients, and has state beside each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Settings(NamedTuple):
    """eps: what is added to the divisor. betas: how much of the two moments a step keeps."""

    eps: float
    betas: tuple[float, float]


class Optimizer(NamedTuple):
    """update: called with the settings, the number of this step, from 1, the gradients of some rows, and each state of
    these rows. It changes the states in place, and returns what the rows lose per unit of the learning rate.

    state: name -> whether each element has one of its own; otherwise each row has one number.
    """

    update: Callable[..., torch.Tensor]
    state: dict[str, bool]
    eps: float = 0.0


def _sgd(settings: Settings, step: int, gradient: torch.Tensor) -> torch.Tensor:
    return gradient


def _adagrad(settings: Settings, step: int, gradient: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    squares += gradient * gradient
    return gradient / (squares.sqrt() + settings.eps)


def _rowwise_adagrad(settings: Settings, step: int, gradient: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    squares += (gradient * gradient).mean(1, keepdim=True)
    return gradient / (squares.sqrt() + settings.eps)


def _adam(
    settings: Settings, step: int, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> torch.Tensor:
    beta1, beta2 = settings.betas
    first.mul_(beta1).add_(gradient, alpha=1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    return (first / (1 - beta1**step)) / ((second / (1 - beta2**step)).sqrt() + settings.eps)


OPTIMIZERS = {
    "sgd": Optimizer(_sgd, {}),
    "adagrad": Optimizer(_adagrad, {"squares": True}, 1e-10),
    "rowwise_adagrad": Optimizer(_rowwise_adagrad, {"squares": False}, 1e-10),
    "adam": Optimizer(_adam, {"first_moment": True, "second_moment": True}, 1e-8),
}
