"""Jobs without a PMIx launcher: by a unique id, an allgather, a communicator, and PyTorch's torchrun."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import environment, is_fine, run_alone

PRELUDE = """
import os, sys, time
import numpy as np
import gravel as gr

def check():
    me, n = gr.my_pe(), gr.n_pes()
    table = gr.zeros(1000, dtype="u8")
    gr.scatter_add(table, np.arange(1000), 1)
    gr.barrier()
    assert gr.gather(table, np.arange(1000)).tolist() == [n] * 1000
    os.write(1, b"PE %d of %d is right\\n" % (me, n))

class Files:
    "A communicator like that of mpi4py, by files."
    def __init__(self, folder, pe, n):
        self.folder, self.pe, self.n, self.calls = folder, pe, n, 0
    def Get_rank(self):
        return self.pe
    def Get_size(self):
        return self.n
    def allgather(self, mine):
        self.calls += 1
        name = f"{self.folder}/{self.calls}-%d"
        with open(name % self.pe + "-new", "wb") as file:
            file.write(mine)
        os.rename(name % self.pe + "-new", name % self.pe)
        got, end = [], time.monotonic() + 10
        for pe in range(self.n):
            while not os.path.exists(name % pe):
                if time.monotonic() > end:
                    raise RuntimeError(f"PE {pe} is missing")
                time.sleep(0.002)
            with open(name % pe, "rb") as file:
                got.append(file.read())
        return got
"""


class Pe:
    """A process of a job."""

    def __init__(self, program: str, *arguments: object, **values: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**values),
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def end(self, seconds: float = 60) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"a PE did not end within {seconds} s")
        return self.process.returncode, out, err


def all_are_right(pes: list[Pe]) -> None:
    ends = [pe.end() for pe in pes]
    for number, (status, out, err) in enumerate(ends):
        assert status == 0, f"PE {number}: status {status}\n" + "\n".join(out + err for _, out, err in ends)
        assert f"PE {number} of {len(pes)} is right" in out
        assert err == ""


FIRST = "u = gr.unique_id()\nprint(u, flush=True)\ngr.init(unique_id=u, pe=0, n_pes=int(sys.argv[1]))\n"
OTHER = "gr.init(unique_id=sys.argv[1], pe=int(sys.argv[2]), n_pes=int(sys.argv[3]))\n"


@pytest.mark.parametrize(("n", "nodes"), [(1, "1"), (2, "1"), (4, "2")])
def test_unique_id(n: int, nodes: str) -> None:
    pes = [Pe(FIRST + "check()", n, GRAVEL_NODES=nodes)]
    unique = pes[0].line()
    pes += [Pe(OTHER + "check()", unique, pe, n, GRAVEL_NODES=nodes) for pe in range(1, n)]
    all_are_right(pes)


def test_unique_id_refuses_strangers() -> None:
    pes = [Pe(FIRST + "check()", 2)]
    unique = pes[0].line()
    place, _, secret = unique.rpartition("/")
    status, _, err = Pe(OTHER, f"{place}/{'f' if secret[0] == '0' else '0'}{secret[1:]}", 1, 2).end()
    assert status == 1 and "is not PE 0 of this job" in err
    import socket

    silent = socket.create_connection(("127.0.0.1", int(unique.split("/")[2])))
    noisy = socket.create_connection(("127.0.0.1", int(unique.split("/")[2])))
    noisy.sendall(b"\x7f\xff\xff\xff" + b"x" * 1000)
    pes.append(Pe(OTHER + "check()", unique, 1, 2))
    all_are_right(pes)
    silent.close()
    noisy.close()


def test_unique_id_without_all() -> None:
    first = Pe(FIRST, 3, GRAVEL_CONNECT_TIMEOUT_S="2")
    other = Pe(OTHER, first.line(), 1, 3)
    status, _, err = first.end(20)
    assert status == 1 and "PEs [2] have not come within 2 s (GRAVEL_CONNECT_TIMEOUT_S)" in err
    status, _, err = other.end(20)
    assert status == 1 and "PE 0 has closed its connection" in err


def test_unique_id_of_pes_that_differ() -> None:
    first = Pe(FIRST, 3)
    other = Pe(OTHER, first.line(), 1, 2)
    assert "PE 1 of 2 came, to a job of 3 PEs" in first.end(20)[2]
    assert other.end(20)[0] == 1


@pytest.mark.parametrize("how", ["comm=c", "allgather=c.allgather, pe=c.pe, n_pes=c.n"])
def test_communicator(tmp_path: Path, how: str) -> None:
    program = f"c = Files(sys.argv[1], int(sys.argv[2]), 3)\ngr.init({how})\ncheck()"
    all_are_right([Pe(program, tmp_path, pe) for pe in range(3)])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("lambda b: [b]", "it returned 1 parts for 2 PEs"),
        ("lambda b: [b, b + b'x']", "part 1 is not bytes of length"),
        ("lambda b: [b, 'text']", "part 1 is not bytes of length"),
        ("lambda b: 7", "TypeError"),
        ("lambda b: [b, b]", "delivered the bytes of PE 0 at the place of PE 1"),
        ("lambda b: [b, bytes(len(b))]", "did not deliver what PE 1 passed"),
        ("lambda b: 1 // 0", "the process group's allgather failed: ZeroDivisionError"),
    ],
)
def test_wrong_allgather(function: str, text: str) -> None:
    done = run_alone(f"import gravel as gr\ngr.init(allgather={function}, pe=0, n_pes=2)")
    assert done.returncode == 1 and "gravel.Error" in done.stderr and text in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("pe=0, n_pes=1", "TypeError: gravel.init: pe and n_pes come with one of comm, unique_id, allgather"),
        ("allgather=3, pe=0, n_pes=1", "TypeError: gravel.init: allgather is a function"),
        ("allgather=list", "TypeError: gravel.init: allgather= needs pe= and n_pes="),
        ("allgather=list, pe=2, n_pes=2", "IndexError: gravel.init: pe is PE 2: the job has PEs 0 to 1"),
        ("allgather=list, pe=0, n_pes=0", "ValueError: gravel.init: n_pes=0: a job has at least one PE"),
        ("allgather=list, pe='0', n_pes=2", "TypeError: gravel.init: pe is the number of a PE, an int, not str"),
        ("allgather=list, pe=0, n_pes=1.5", "TypeError: gravel.init: n_pes is the number of PEs, an int, not float"),
        ("comm=7", "TypeError: gravel.init: comm is a communicator of mpi4py"),
        ("comm=7, unique_id='x'", "TypeError: gravel.init: comm and unique_id: pass one of them"),
        ("unique_id='x', pe=0, n_pes=2", "ValueError: gravel.init: unique_id 'x': it is a text"),
        ("unique_id=gr.unique_id(), pe=1, n_pes=2", "gravel_init: PE 0 is the process that called"),
        (f"unique_id='gravel/127.0.0.1/1/{'0' * 32}', pe=1, n_pes=2", "PE 0 cannot be reached at 127.0.0.1, port 1"),
        (f"unique_id='gravel/127.0.0.1/1/{'x' * 32}', pe=1, n_pes=2", "it is a text that gravel.unique_id() returned"),
        (f"unique_id='gravel/127.0.0.1/99999/{'0' * 32}', pe=1, n_pes=2", "cannot be reached at 127.0.0.1, port 99999"),
        (f"unique_id='gravel/127.0.0.1/1/{'0' * 32}', pe=0, n_pes=2", "this one did not"),
    ],
)
def test_mistakes(arguments: str, error: str) -> None:
    done = run_alone(f"import gravel as gr\ngr.init({arguments})")
    assert done.returncode == 1 and error in done.stderr, done.stderr


def test_init_again_after_a_mistake() -> None:
    is_fine(
        run_alone(
            "import gravel as gr\ntry:\n    gr.init(allgather=lambda b: [b, b], pe=0, n_pes=2)\n"
            "except gr.Error:\n    gr.init()\nassert gr.n_pes() == 1"
        )
    )


@pytest.mark.parametrize("nodes", ["1", "3"])
def test_killed(nodes: str) -> None:
    """Without a launcher, too, the death of a PE ends the others."""
    endless = "os.write(1, b'in\\n')\nwhile True:\n    gr.barrier()"
    pes = [Pe(FIRST + endless, 3, GRAVEL_NODES=nodes)]
    unique = pes[0].line()
    pes += [Pe(OTHER + endless, unique, pe, 3, GRAVEL_NODES=nodes) for pe in (1, 2)]
    for pe in pes:
        assert pe.line() == "in"
    begin = time.monotonic()
    pes[1].process.send_signal(signal.SIGKILL)
    for pe in (pes[0], pes[2]):
        status, _, err = pe.end(10)
        assert status not in (0, None)
        assert "PE 1" in err, err
    assert time.monotonic() - begin < 10


MPIRUN = shutil.which("mpirun")
has_mpi4py = importlib.util.find_spec("mpi4py") is not None


@pytest.mark.skipif(not has_mpi4py or not MPIRUN, reason="mpi4py or mpirun is not installed")
@pytest.mark.parametrize("comm", ["MPI.COMM_WORLD", "MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)"])
def test_mpi4py(comm: str) -> None:
    """Also two jobs of one mpirun."""
    program = PRELUDE + f"from mpi4py import MPI\nc = {comm}\ngr.init(comm=c)\nassert gr.n_pes() == c.size\ncheck()"
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [MPIRUN, "--oversubscribe", "-n", "4", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, env=environment(**allowed), check=False,
    )  # fmt: skip
    is_fine(done)
    assert done.stdout.count("is right") == 4


has_torch = importlib.util.find_spec("torch") is not None


def torchrun(program: str, n: int, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(PRELUDE + program)
    # PyTorch 1.13 with Python 3.11 fails unless it redirects exactly one stream.
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--redirects=1",
        "--tee=1",
        "--standalone",
        "--nproc_per_node",
        str(n),
        str(file),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment(OMP_NUM_THREADS="1"), check=False
    )


@pytest.mark.skipif(not has_torch, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "program",
    [
        "gr.init()\ncheck()",
        "import torch.distributed as d\nd.init_process_group('gloo')\ngr.init()\ncheck()",
        "import torch.distributed as d\nd.init_process_group('gloo')\ngr.init(comm=d.group.WORLD)\ncheck()",
        "import torch.distributed as d\ngr.init()\nd.init_process_group('gloo')\nd.barrier()\ncheck()",
        "import torch.distributed as d\nstore, pe, n = next(iter(d.rendezvous('env://')))\n"
        "gr.init(comm=store, pe=pe, n_pes=n)\ncheck()",
    ],
)
def test_torchrun(tmp_path: Path, program: str) -> None:
    done = torchrun(program, 3, tmp_path)
    is_fine(done)
    for pe in range(3):
        assert f"PE {pe} of 3 is right" in done.stdout


@pytest.mark.skipif(not has_torch, reason="PyTorch is not installed")
def test_torchrun_with_a_pe_that_fails(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = torchrun("gr.init()\nif gr.my_pe() == 1:\n    os._exit(7)\ngr.barrier()", 3, tmp_path)
    assert done.returncode != 0 and time.monotonic() - begin < 30
    assert "PE 1" in done.stderr
