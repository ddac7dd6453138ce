"""Jobs without a PMIx launcher: how their processes find each other.

A group is this PE's number, the number of PEs, and an allgather of bytes. Each way to start makes one: an MPI
communicator, PyTorch's process groups and stores, and a unique id over TCP."""

from __future__ import annotations

import datetime
import operator
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _checks
from ._backend import Error


class Group(NamedTuple):
    pe: int
    n_pes: int
    allgather: Callable[[bytes], Sequence[bytes]]


def _limit_s() -> int:
    """GRAVEL_CONNECT_TIMEOUT_S, where it is a number: the library reports a wrong one."""
    text = os.environ.get("GRAVEL_CONNECT_TIMEOUT_S", "")
    return max(1, int(text)) if text.isdigit() else 60


def _numbers(pe: Any, n_pes: Any, what: str) -> tuple[int, int]:
    if pe is None or n_pes is None:
        raise TypeError(f"gravel.init: {what} needs pe= and n_pes=, the number of this PE and of all")
    try:
        count = operator.index(n_pes)
    except TypeError:
        raise TypeError(f"gravel.init: n_pes is the number of PEs, an int, not {type(n_pes).__name__}") from None
    if count < 1:
        raise ValueError(f"gravel.init: n_pes={count}: a job has at least one PE")
    return _checks.pe_number("gravel.init", "pe", pe, count), count


def _agree(what: str, given: Any, real: int) -> None:
    if given is not None and given != real:
        raise ValueError(f"gravel.init: {what}={given}, and the communicator says {real}: leave {what} out")


def of_allgather(allgather: Any, pe: Any, n_pes: Any) -> Group:
    if not callable(allgather):
        raise TypeError(f"gravel.init: allgather is a function from bytes to a list of bytes, not {allgather!r}")
    return Group(*_numbers(pe, n_pes, "allgather="), allgather)


def of_comm(comm: Any, pe: Any, n_pes: Any) -> Group:
    """mpi4py's communicators, and PyTorch's process groups and stores."""
    if hasattr(comm, "Get_rank") and hasattr(comm, "allgather"):  # mpi4py
        group = Group(comm.Get_rank(), comm.Get_size(), comm.allgather)
    elif hasattr(comm, "rank") and hasattr(comm, "size") and type(comm).__module__.startswith("torch"):
        group = _of_process_group(comm)
    elif hasattr(comm, "set") and hasattr(comm, "get") and hasattr(comm, "wait"):
        return _of_store(comm, *_numbers(pe, n_pes, "a store"))
    else:
        raise TypeError(
            f"gravel.init: comm is a communicator of mpi4py, or a process group or a store of torch.distributed, not "
            f"{type(comm).__name__}"
        )
    _agree("pe", pe, group.pe)
    _agree("n_pes", n_pes, group.n_pes)
    return group


def _of_process_group(group: Any) -> Group:
    import torch.distributed as dist

    def allgather(mine: bytes) -> list[bytes]:
        everything: list[Any] = [None] * group.size()
        dist.all_gather_object(everything, mine, group=group)
        return everything

    return Group(group.rank(), group.size(), allgather)


def _of_store(store: Any, pe: int, n_pes: int) -> Group:
    calls = iter(range(1 << 30))

    def allgather(mine: bytes) -> list[bytes]:
        call = next(calls)
        keys = [f"gravel/{call}/{other}" for other in range(n_pes)]
        store.set(keys[pe], mine)
        store.wait(keys, datetime.timedelta(seconds=_limit_s()))
        return [bytes(store.get(key)) for key in keys]

    return Group(pe, n_pes, allgather)


# torchrun's store. PyTorch 1.13 breaks a later connection of the process to it once an earlier one is closed.
_store_of_torchrun: Any = None


def of_environment() -> Group | None:
    """The group of torchrun, or of a launcher like it, if PyTorch is there to reach it. `None`: look for PMIx."""
    global _store_of_torchrun
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if os.environ.get("PMIX_NAMESPACE") or not all(os.environ.get(name) for name in names):
        return None
    if os.environ["WORLD_SIZE"] == "1":
        return None
    try:
        import torch.distributed as dist
    except ImportError:
        return None  # the library refuses with a sentence
    if not dist.is_available():
        return None
    if dist.is_initialized():
        return _of_process_group(dist.group.WORLD)
    try:
        store, pe, n_pes = next(iter(dist.rendezvous("env://", timeout=datetime.timedelta(seconds=_limit_s()))))
    except (RuntimeError, ValueError) as e:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise Error(f"gravel.init: torchrun's store at {where} cannot be reached: {e}") from e
    _store_of_torchrun = store
    return _of_store(store, pe, n_pes)


class UniqueId(NamedTuple):
    """A job whose processes find each other by a text: the library has all connections (transport/unique_id.hpp)."""

    text: str
    pe: int
    n_pes: int


def unique_id(address: str = "127.0.0.1", port: int = 0) -> str:
    """A text with which processes that no launcher has started become one job: ``gravel.init(unique_id=...)``.

    The process that calls this is PE 0 of the job, and passes the text to the other processes. The text contains a
    secret: who knows it can join the job, so pass it as you would pass a password.

    address: of this host, as the others reach it. By default only processes of this host do.
    port: the TCP port where PE 0 waits for the others until its :func:`init` returns; 0: any free one.

    Raises :class:`Error` if this host has no such address, or the port is in use.
    """
    from . import _host

    return _host.unique_id(address, port)


def of_unique_id(text: Any, pe: Any, n_pes: Any) -> UniqueId:
    number, count = _numbers(pe, n_pes, "unique_id=")
    if not isinstance(text, str) or not re.fullmatch(r"gravel/[^/]+/[0-9]{1,5}/[0-9a-f]{32}", text):
        raise ValueError(f"gravel.init: unique_id {text!r}: it is a text that gravel.unique_id() returned")
    return UniqueId(text, number, count)
