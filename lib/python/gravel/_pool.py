"""Memory of the symmetric heap for tensors of PyTorch on GPUs."""

from __future__ import annotations

import importlib
from typing import Any

from ._backend import Error, native

_allocator: Any = None  # pools refer to it, also when the program has forgotten them


def mem_pool() -> Any:
    """A ``torch.cuda.MemPool`` whose memory is of the symmetric heap: messages of all PEs can reach its tensors.

        pool = gr.mem_pool()
        with torch.cuda.use_mem_pool(pool):
            gradients = torch.zeros(n, device="cuda")

    Collective, as the pool's allocations are: all PEs make the same ones in the same order, and give memory back in the
    same order, also by ``del pool``. Tensors of the pool must not be used after the job is over.

    Raises :class:`Error` if PyTorch is not there, is too old, or has no CUDA here, and if the job does not run on GPUs.
    """
    global _allocator
    try:
        torch = importlib.import_module("torch")
    except ImportError as e:
        raise Error(f"gravel.mem_pool: it needs PyTorch ({e})") from e
    if not torch.cuda.is_available():
        raise Error("gravel.mem_pool: PyTorch has no CUDA here: a pool is memory of a GPU")
    if not hasattr(torch.cuda, "MemPool"):
        raise Error(f"gravel.mem_pool: PyTorch {torch.__version__} has no torch.cuda.MemPool: 2.5 and later have it")
    if native.backend() != "cuda":
        raise Error("gravel.mem_pool: the job runs on the CPU backend, whose symmetric heap is no memory of a GPU")
    if _allocator is None:
        _allocator = torch.cuda.memory.CUDAPluggableAllocator(
            native.library(), "gravel_pool_malloc", "gravel_pool_free"
        )
    return torch.cuda.MemPool(_allocator.allocator())
