"""Joining and leaving the job, and who is in it."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from . import _backend, _checks, _device, _groups
from ._backend import Error, native

_before, _joined, _left, _forked = (
    "before gravel.init()",
    "",
    "after gravel.finalize()",
    "in a process that was forked from a PE",
)
_state = _before
_uncaught = ""  # the exception that ends the program
_hook_before: Any = None
_kernels: Any = None  # the gravel.Kernels whose handlers the job knows
_at_start: list[Callable[[], None]] = []  # what libraries of kernels do when the job has started


def init(
    backend: str | None = None,
    *,
    comm: Any = None,
    unique_id: str | None = None,
    allgather: Callable[[bytes], Sequence[bytes]] | None = None,
    pe: int | None = None,
    n_pes: int | None = None,
    kernels: Any = None,
) -> None:
    """Joins the job. Collective. A second call does nothing.

    A program that was started by ``ucx-run``, ``mpirun`` or ``srun --mpi=pmix`` is a PE of that job, and one that
    was started by ``torchrun`` is a PE of its job. Started alone it is a job of one PE. Other processes become PEs by
    one of ``comm``, ``unique_id`` and ``allgather``. The program leaves the job when it ends, or by :func:`finalize`.

    backend: ``"cuda"``, ``"cpu"``, or ``None`` for what there is: GPUs, if the package has CUDA and the process sees a
        GPU. The first call that needs a backend decides for the process.
    comm: a communicator of mpi4py or a process group of ``torch.distributed``: its ranks are the PEs; or a store of
        ``torch.distributed``, with ``pe`` and ``n_pes``.
    unique_id: what :func:`unique_id` returned in the process that is PE 0; with ``pe`` and ``n_pes``.
    allgather: any other way to exchange bytes: it gets this PE's bytes, and returns those of all PEs, in the order of
        their numbers; with ``pe`` and ``n_pes``. :func:`init` calls it a few times, and nothing calls it afterwards.
    pe: the number of this PE, 0 to ``n_pes - 1``.
    n_pes: the number of PEs.
    kernels: a :class:`Kernels` with handlers, which the job registers. All PEs pass one, of the same source.

    Raises :class:`Error` if the job cannot be joined: the text says why.
    """
    global _state, _hook_before, _kernels
    if kernels is not None and not hasattr(kernels, "for_init"):
        raise TypeError(f"gravel.init: kernels is a gravel.Kernels, not {type(kernels).__name__}")
    handlers = None if kernels is None else kernels.for_init()
    _backend.choose(backend)
    if _state == _joined:
        if kernels is not None and kernels is not _kernels:
            raise Error("gravel.init: the job has started without these kernels: pass them to the first call")
        return
    if _state == _left:
        raise Error("gravel.init was called after gravel.finalize(): a process can join one job")
    if _state == _forked:
        raise Error(
            f"gravel.init was called {_forked}: it cannot join a job. Start processes before init, or by 'spawn'"
        )
    group = _group(comm, unique_id, allgather, pe, n_pes)
    if group is None:
        native.start(handlers)
    elif isinstance(group, _groups.UniqueId):
        native.start_by_id(*group, handlers)
    else:
        _start(group, handlers)
    _state, _kernels = _joined, kernels
    for function in _at_start:
        function()
    _hook_before, sys.excepthook = sys.excepthook, _note_exception
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_in_child)


def _group(
    comm: Any, unique_id: Any, allgather: Any, pe: Any, n_pes: Any
) -> _groups.Group | _groups.UniqueId | None:
    """The processes of the job; `None` if a PMIx launcher knows them, or there is only this one."""
    ways = [
        name for name, way in (("comm", comm), ("unique_id", unique_id), ("allgather", allgather)) if way is not None
    ]
    if len(ways) > 1:
        raise TypeError(f"gravel.init: {' and '.join(ways)}: pass one of them")
    if not ways and (pe is not None or n_pes is not None):
        raise TypeError("gravel.init: pe and n_pes come with one of comm, unique_id, allgather")
    if unique_id is not None:
        return _groups.of_unique_id(unique_id, pe, n_pes)
    if comm is not None:
        return _groups.of_comm(comm, pe, n_pes)
    if allgather is not None:
        return _groups.of_allgather(allgather, pe, n_pes)
    return _groups.of_environment()


def _start(group: _groups.Group, handlers: Any) -> None:
    raised: list[BaseException] = []

    def allgather(mine: bytes) -> list[bytes]:
        try:
            everything = list(group.allgather(mine))
            for number, part in enumerate(everything):
                if not isinstance(part, bytes) or len(part) != len(mine):
                    raise TypeError(f"part {number} is not bytes of length {len(mine)}: {part!r:.60}")
            if len(everything) != group.n_pes:
                raise ValueError(f"it returned {len(everything)} parts for {group.n_pes} PEs")
            return everything
        except BaseException as e:
            raised.append(e)
            raise

    try:
        native.start_group(group.pe, group.n_pes, allgather, handlers)
    except Error as e:
        if not raised:
            raise
        if not isinstance(raised[0], Exception):  # such as KeyboardInterrupt
            raise raised[0] from None
        raise e from raised[0]


def finalize() -> None:
    """Leaves the job. Collective. Without this call the program leaves it at its end.

    Distributed arrays are gone afterwards. NumPy views of them that are still used keep their last contents. Views on
    GPUs must not be used afterwards; if there are any, this warns.
    """
    check_joined("finalize")
    left = native.views()
    if left and _backend.chosen() == "cuda":
        warnings.warn(
            f"gravel.finalize: {left} view(s) of distributed arrays are left. Their memory is gone: do not use them",
            RuntimeWarning,
            stacklevel=2,
        )
    _leave()


def _leave() -> None:
    global _state
    native.finish(native.views() != 0)
    _state = _left
    if sys.excepthook is _note_exception:
        sys.excepthook = _hook_before


def _note_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """The program ends by an exception. In a shell it goes on."""
    global _uncaught
    if not hasattr(sys, "ps1") and not sys.flags.interactive:
        _uncaught = kind.__name__ + (f": {value}" if str(value) else "")
    _hook_before(kind, value, trace)


def _at_exit() -> None:
    if _state != _joined:
        return
    if _uncaught and native.n_pes() > 1:
        abort(f"the program ended by {_uncaught}")
    _leave()


def _in_child() -> None:
    global _state
    if _state == _joined:
        _state = _forked


def check_joined(call: str) -> None:
    if _state != _joined:
        raise Error(f"gravel.{call} was called {_state}")


def check_may_join(call: str) -> None:
    if _state not in (_before, _joined):
        raise Error(f"gravel.{call} was called {_state}")


def is_joined() -> bool:
    return _state == _joined


def at_start(function: Callable[[], None]) -> None:
    """Calls a function when the job has started, in which no kernel runs yet."""
    _at_start.append(function)


def kernels_of_job() -> Any:
    """The kernels that :func:`init` got; `None` if it got none."""
    return _kernels


def abort(text: str, status: int = 1) -> None:
    """Ends the whole job at once, with this text as the reason and this exit status. Does not return."""
    check_joined("abort")
    sys.stdout.flush()
    sys.stderr.flush()
    native.abort(str(text), int(status))


def my_pe() -> int:
    """The number of this PE: 0 to ``n_pes() - 1``."""
    check_joined("my_pe")
    return native.my_pe()


def n_pes() -> int:
    """The number of PEs of the job."""
    check_joined("n_pes")
    return native.n_pes()


def n_nodes() -> int:
    """The number of nodes of the job. ``ucx-run --nodes`` emulates several on one machine."""
    check_joined("n_nodes")
    return native.n_nodes()


def node_of(pe: int) -> int:
    """The node of a PE: 0 to ``n_nodes() - 1``."""
    check_joined("node_of")
    return native.node_of(_checks.pe_number("node_of", "pe", pe, native.n_pes()))


def barrier() -> None:
    """Waits until all PEs have called, and all operations of all PEs are applied. Collective. On GPUs it first waits
    for the current streams of PyTorch and CuPy: what they wrote to a distributed array is there."""
    check_joined("barrier")
    _device.synchronize()
    native.barrier()


def quiet() -> None:
    """Waits until all operations that this PE has sent are applied. On GPUs it first waits for the current streams of
    PyTorch and CuPy."""
    check_joined("quiet")
    _device.synchronize()
    native.quiet()


def wait_quiescent() -> None:
    """Waits until nothing is in flight in the job: also the messages that handlers sent, and those that these caused,
    and so on, are applied. Collective. No kernel that sends may run. On GPUs it first waits for the current streams of
    PyTorch and CuPy."""
    check_joined("wait_quiescent")
    _device.synchronize()
    native.wait_quiescent()


def stats(local: bool = False) -> dict[str, Any]:
    """Statistics of the network path since :func:`init`. Collective: the sums over all PEs.

    local: only this PE's counters (the aggregator's are with the first PE of each node). Then it is not collective.
    """
    check_joined("stats")
    pairs = native.counters()
    counts = np.array([value for _, value in pairs], np.uint64)
    if not local:
        native.reduce(0, _checks.DTYPES.index(counts.dtype), counts, counts.copy())
    by_name = {name: int(value) for (name, _), value in zip(pairs, counts)}
    accesses = by_name["messages_taken"] + by_name["messages_in_place"] + by_name["messages_to_peers"]
    remote = by_name["messages_taken"] - by_name["messages_to_self"] + by_name["messages_to_peers"]
    return {
        "n_pes": native.n_pes(),
        "n_nodes": native.n_nodes(),
        "remote_access_frequency": remote / accesses if accesses else 0.0,
        "average_packet_bytes": by_name["packet_bytes"] / by_name["packets"] if by_name["packets"] else 0.0,
        **by_name,
    }


def info() -> dict[str, Any]:
    """What this process runs: versions, backend, place of the package; after :func:`init` also its place in the job."""
    found: dict[str, Any] = {
        "gravel": importlib.import_module(__package__).__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "package": os.path.dirname(__file__),
        "backends": _backend.available(),
        "dtypes": tuple(map(_checks.name_of, _checks.DTYPES)),
        "joined": _state == _joined,
    }
    if _state == _joined:
        me = native.my_pe()
        found |= {
            "backend": native.backend(),
            "my_pe": me,
            "n_pes": native.n_pes(),
            "node": native.node_of(me),
            "n_nodes": native.n_nodes(),
            "symmetric_bytes": native.heap_bytes(),
            "device": native.device() if _backend.chosen() == "cuda" else None,
        }
    return found
