"""gravel.torch before init and after finalize. Skipped where PyTorch is not installed."""

from __future__ import annotations

import pytest
from conftest import is_fine, run_job

torch = pytest.importorskip("torch")

PROGRAM = """
import gravel as gr, torch

def fails(call, text):
    try:
        call()
    except gr.Error as e:
        assert text in str(e), e
        return
    raise SystemExit(f"no error: {text}")

index = torch.tensor([1])
calls = [
    lambda: gr.torch.Embedding(3, 2),
    lambda: gr.torch.EmbeddingBag(3, 2),
    lambda: gr.torch.Embedding.from_pretrained(torch.ones(3, 2)),
    lambda: gr.torch.gather(None, index),
    lambda: gr.torch.scatter_add(None, index, index),
]
for call in calls:
    fails(call, "was called before gravel.init()")
gr.init()
table, array = gr.torch.Embedding(3, 2), gr.zeros(3)
rows = table(index)
gr.torch.gather(array, index)
gr.finalize()
calls += [
    lambda: table(index),
    lambda: rows.sum().backward(),
    table.step,
    lambda: gr.torch.gather(array, index),
    lambda: gr.torch.scatter_add(array, index, torch.ones(1, dtype=torch.float64)),
]
for call in calls:
    fails(call, "was called after gravel.finalize()")
"""


def test_states():
    is_fine(run_job(1, "-c", PROGRAM))
