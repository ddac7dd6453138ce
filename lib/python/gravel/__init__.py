"""Gravel: distributed arrays, and many small operations on them from anywhere to anywhere.

    import gravel as gr, numpy as np

    gr.init()                                   # started by ucx-run, mpirun, srun; alone: a job of one PE
    table = gr.zeros(1 << 20, dtype="f8")       # distributed over all PEs
    index = np.random.default_rng(gr.my_pe()).integers(table.n, size=10**6)
    gr.scatter_add(table, index, 1.0)           # to any PE
    gr.barrier()                                # all operations of all PEs are applied
    print(gr.sum_all(table.local.sum()))

With a GPU, arrays lie in its memory, and arguments may be tensors of PyTorch or arrays of CuPy there. Without one, the
same program runs on the CPU backend. Errors of Gravel are :class:`Error`; wrong arguments are TypeError, ValueError,
IndexError, OverflowError, and are raised before anything is sent."""

from typing import Any

from ._array import Array, empty, from_local, full, zeros
from ._error import Error
from ._collectives import allgather, broadcast, max_all, min_all, sum_all
from ._exchange import all_to_all
from ._groups import unique_id
from ._job import abort, barrier, finalize, info, init, my_pe, n_nodes, n_pes, node_of, quiet, stats, wait_quiescent
from ._kernels import Kernels
from ._map import Map
from ._operations import gather, scatter_add, scatter_max, scatter_min, scatter_put
from ._pool import mem_pool

__version__ = "0.3.0"
__all__ = [
    "Array", "Error", "Kernels", "Map", "abort", "all_to_all", "allgather", "barrier", "broadcast", "empty", "finalize",
    "from_local", "full", "gather", "info", "init", "max_all", "mem_pool", "min_all", "my_pe", "n_nodes", "n_pes",
    "node_of", "quiet", "scatter_add", "scatter_max", "scatter_min", "scatter_put", "stats", "sum_all", "unique_id",
    "wait_quiescent", "zeros",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Modules that are imported when they are used: not everybody has PyTorch, which is large."""
    if name in ("graph", "numba", "reads", "torch"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'gravel' has no attribute {name!r}")
