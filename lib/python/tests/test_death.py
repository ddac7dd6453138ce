"""A PE that is killed ends the whole job: within 10 s, with a message, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import environment, launcher

from gravel._backend import available

PROGRAM = """
import os, sys, time
import gravel as gr, numpy as np
gr.init()
os.write(1, b"%d\\n" % os.getpid())  # in one piece
table = gr.zeros(1000)
while True:
    gr.scatter_add(table, np.arange(1000), 1.0)
    WAIT
"""


def processes_of(mark: str) -> list[int]:
    """Processes whose environment has this mark: of the job, and its aggregators."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark.encode() in file.read() and int(entry) != os.getpid():
                        found.append(int(entry))
            except OSError:
                pass
    return found


ON_GPUS = """
import os, sys, time
import gravel as gr, numpy as np
gr.init("cuda")
os.write(1, b"%d\\n" % os.getpid())
table, counts = gr.zeros((1000, 16), "f4"), gr.Map("i8", "i8", capacity=5000)
index = gr.zeros(1000, "i8").local  # an array of CuPy or PyTorch
index += gr.my_pe()
while True:
    gr.gather(table, index)
    gr.scatter_add(table, index, 1.0)
    counts.add(index, 1)
    WAIT
"""


def kill_one(program: str, n_pes: int, nodes: int, number: signal.Signals) -> None:
    """Kills the last PE but one. All processes end within 10 s, with a message."""
    mark = f"GRAVEL_PYTHON_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, value = mark.split("=")
    job = subprocess.Popen(
        [launcher(), "-n", str(n_pes), "--nodes", str(nodes), "--timeout", "60", sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**{name: value}),
    )  # fmt: skip
    lines = [job.stdout.readline() for _ in range(n_pes)]
    if not all(line.strip().isdigit() for line in lines):
        job.kill()
        pytest.fail(f"the PEs did not start: {lines}\n{job.communicate()[1]}")
    time.sleep(0.5)
    os.kill(int(lines[-2]), number)
    begin = time.monotonic()
    try:
        _, errors = job.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        job.kill()
        pytest.fail("the job did not end within 10 s")
    assert job.returncode == 128 + number
    assert "signal" in errors.lower() or number.name in errors, errors
    while processes_of(mark) and time.monotonic() - begin < 10:
        time.sleep(0.1)
    assert not processes_of(mark)


@pytest.mark.parametrize(
    ("wait", "number", "nodes"),
    [("gr.barrier()", signal.SIGKILL, 1), ("gr.barrier()", signal.SIGSEGV, 2), ("gr.quiet()", signal.SIGKILL, 2)],
)
def test_killed(wait: str, number: signal.Signals, nodes: int) -> None:
    kill_one(PROGRAM.replace("WAIT", wait), 4, nodes, number)


@pytest.mark.skipif("cuda" not in available(), reason="needs GPUs")
@pytest.mark.parametrize("wait", ["gr.barrier()", "gr.quiet()", "pass"])
def test_killed_on_gpus(wait: str) -> None:
    kill_one(ON_GPUS.replace("WAIT", wait), 2, 1, signal.SIGKILL)


def test_notebook_that_restarts() -> None:
    """A notebook's kernel that restarts is killed while it is a PE. Nothing is left of its job, and the next kernel
    begins another one."""
    name, value = mark = "GRAVEL_PYTHON_TEST_MARK", f"{os.getpid()}-{time.monotonic_ns()}"
    cells = "import gravel as gr\ngr.init()\ntable = gr.full(1000, 7)\nprint(gr.gather(table, [999]))\ngr.init()\n"
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-q", "-i"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment(**{name: value}),
        ) as kernel:  # fmt: skip
            kernel.stdin.write(cells)
            kernel.stdin.flush()
            assert kernel.stdout.readline() == "[7.]\n"
            kernel.kill()
        end = time.monotonic() + 10
        while processes_of("=".join(mark)) and time.monotonic() < end:
            time.sleep(0.1)
        assert not processes_of("=".join(mark))


def test_interrupted() -> None:
    """^C of a job whose PEs wait."""
    program = (
        "import gravel as gr\ngr.init()\nimport os\nos.write(1, b'in\\n')\n"
        "if gr.my_pe() == 0:\n    import time\n    time.sleep(60)\ngr.barrier()"
    )
    job = subprocess.Popen(
        [launcher(), "-n", "2", "--timeout", "60", sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        # A shell lets its background jobs ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    for _ in range(2):
        job.stdout.readline()
    job.send_signal(signal.SIGINT)
    try:
        _, errors = job.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        job.kill()
        pytest.fail("the job did not end within 10 s")
    assert job.returncode != 0 and "KeyboardInterrupt" in errors
