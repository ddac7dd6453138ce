"""Gravel for PyTorch: embedding tables that are distributed over the PEs, and operators on distributed arrays that
autograd and ``torch.compile`` see."""

from ._embedding import Embedding, EmbeddingBag
from ._operators import HAS_OPERATORS, gather, scatter_add, scatter_max, scatter_min, scatter_put

__all__ = [
    "HAS_OPERATORS", "Embedding", "EmbeddingBag", "gather", "scatter_add", "scatter_max", "scatter_min", "scatter_put",
]  # fmt: skip
