"""Jobs without a PMIx launcher: how their processes find each other.

A group is this PE's number, the number of PEs, and an allgather of bytes. Each way to start makes one: an MPI
communicator, PyTorch's process groups and stores, and a unique id over TCP."""

from __future__ import annotations

import contextlib
import datetime
import operator
import os
import queue
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
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


# A unique id: PE 0 listens at an address, and all others connect to it. Both sides prove that they know the secret of
# the id. Then PE 0 receives the bytes of each PE, and sends those of all to each.

_listeners: dict[str, socket.socket] = {}  # of the ids that this process has made


def unique_id(address: str = "127.0.0.1", port: int = 0) -> str:
    """A text with which processes that no launcher has started become one job: ``gravel.init(unique_id=...)``.

    The process that calls this is PE 0 of the job, and passes the text to the other processes. The text contains a
    secret: who knows it can join the job, so pass it as you would pass a password.

    address: of this host, as the others reach it. By default only processes of this host do.
    port: the TCP port where PE 0 waits for the others until its :func:`init` returns; 0: any free one.

    Raises OSError if this host has no such address, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1024)
    text = f"gravel/{address}/{listener.getsockname()[1]}/{secrets.token_hex(16)}"
    _listeners[text] = listener
    return text


def of_unique_id(text: Any, pe: Any, n_pes: Any) -> contextlib.AbstractContextManager[Group]:
    number, count = _numbers(pe, n_pes, "unique_id=")
    parts = re.fullmatch(r"gravel/([^/]+)/([0-9]{1,5})/([0-9a-f]{32})", text) if isinstance(text, str) else None
    if parts is None:
        raise ValueError(f"gravel.init: unique_id {text!r}: it is a text that gravel.unique_id() returned")
    if (number == 0) != (text in _listeners):
        raise ValueError(
            "gravel.init: PE 0 is the process that called gravel.unique_id()"
            + (f", and this one is PE {number}" if number else "; this one did not")
        )
    address, port, secret = parts[1], int(parts[2]), bytes.fromhex(parts[3])
    if number == 0:
        return _as_first(_listeners.pop(text), secret, count)
    return _as_other(address, port, secret, number, count)


def _connection(of: socket.socket, seconds: int) -> Connection:
    of.settimeout(None)
    limit = struct.pack("ll", seconds, 0)
    of.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    of.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return Connection(of.detach())


@contextlib.contextmanager
def _as_other(address: str, port: int, secret: bytes, pe: int, n_pes: int) -> Iterator[Group]:
    limit = _limit_s()
    try:
        connection = _connection(socket.create_connection((address, port), limit), limit)
    except (OSError, OverflowError) as e:  # OverflowError: a port above 65535
        raise Error(f"gravel.init: PE 0 cannot be reached at {address}, port {port}: {e}") from e
    with connection:

        def allgather(mine: bytes) -> list[bytes]:
            try:
                connection.send_bytes(mine)
                everything = connection.recv_bytes()
            except (EOFError, OSError) as e:
                raise Error(f"PE 0 has closed its connection, or has not answered within {limit} s: {e}") from e
            return [everything[i * len(mine) : (i + 1) * len(mine)] for i in range(n_pes)]

        try:
            answer_challenge(connection, secret)
            deliver_challenge(connection, secret)
            connection.send_bytes(struct.pack("=QQ", pe, n_pes))
        except Exception as e:
            raise Error(f"gravel.init: the process at {address}, port {port} is not PE 0 of this job: {e!r}") from e
        yield Group(pe, n_pes, allgather)


@contextlib.contextmanager
def _as_first(listener: socket.socket, secret: bytes, n_pes: int) -> Iterator[Group]:
    limit = _limit_s()
    came: queue.Queue[tuple[int, int, Connection]] = queue.Queue()

    def admit(stranger: socket.socket) -> None:
        connection = _connection(stranger, limit)
        try:
            deliver_challenge(connection, secret)
            answer_challenge(connection, secret)
            came.put((*struct.unpack("=QQ", connection.recv_bytes(64)), connection))
        except Exception:  # it does not belong to the job
            connection.close()

    def listen() -> None:
        while True:
            try:
                stranger, _ = listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=admit, args=(stranger,), daemon=True).start()

    others: dict[int, Connection] = {}

    def wait_for_others() -> None:
        end = time.monotonic() + limit
        while len(others) < n_pes - 1:
            try:
                pe, count, connection = came.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                missing = [other for other in range(1, n_pes) if other not in others]
                raise Error(f"PEs {missing} have not come within {limit} s (GRAVEL_CONNECT_TIMEOUT_S)") from None
            if count != n_pes or not 0 < pe < n_pes or pe in others:
                why = f"a second PE {pe} came" if pe in others else f"PE {pe} of {count} came"
                raise Error(f"{why}, to a job of {n_pes} PEs")
            others[pe] = connection

    def allgather(mine: bytes) -> list[bytes]:
        if not others:
            wait_for_others()
        everything = [mine]
        for pe in range(1, n_pes):
            try:
                everything.append(others[pe].recv_bytes())
            except (EOFError, OSError) as e:
                raise Error(f"PE {pe} has closed its connection, or has sent nothing within {limit} s: {e}") from e
            if len(everything[-1]) != len(mine):
                raise Error(f"PE {pe} has sent {len(everything[-1])} bytes instead of {len(mine)}")
        for pe in range(1, n_pes):
            others[pe].send_bytes(b"".join(everything))
        return everything

    try:
        with listener:
            threading.Thread(target=listen, daemon=True).start()
            try:
                yield Group(0, n_pes, allgather)
            finally:
                listener.shutdown(socket.SHUT_RDWR)  # ends accept()
    finally:
        for connection in others.values():
            connection.close()
