"""Calls before, after and beside a job; how a program ends."""

from __future__ import annotations

import re

import pytest
from conftest import HERE, is_fine, needs_compiler, run_alone, run_job

from gravel._backend import available

CALLS = (
    "gr.my_pe()", "gr.n_pes()", "gr.n_nodes()", "gr.node_of(0)", "gr.barrier()", "gr.quiet()", "gr.zeros(3)",
    "gr.empty(3)", "gr.full(3, 0)", "gr.from_local([1])", "gr.sum_all(1)", "gr.min_all(1)", "gr.max_all(1)",
    "gr.wait_quiescent()", "gr.broadcast(1)", "gr.allgather(1)", "gr.stats()", "gr.abort('')", "gr.finalize()",
    "gr.scatter_add(None, [0], 1)",
    "gr.scatter_put(None, [0], 1)", "gr.scatter_min(None, [0], 1)", "gr.scatter_max(None, [0], 1)",
    "gr.gather(None, [0])", "gr.Map('u8', 'u8', 10)", "gr.all_to_all([1], [0])",
    "gr.reads.count_kmers('no file', 5)",
)  # fmt: skip
TRY_ALL = f"""
import gravel as gr
def refused(calls, text, names={{}}):
    for call in calls:
        try:
            eval(call, {{"gr": gr}} | names)
        except gr.Error as error:
            assert text in str(error), (call, str(error))
        else:
            raise AssertionError(call + " did not raise")
calls = {CALLS!r}
"""


def test_before_init() -> None:
    is_fine(run_alone(TRY_ALL + "refused(calls, 'was called before gravel.init()')"))


def test_after_finalize() -> None:
    is_fine(run_alone(TRY_ALL + """
gr.init()
table, map = gr.zeros(3), gr.Map("u8", "u8", 10)
gr.finalize()
refused((*calls, "gr.init()", "gr.Kernels('')"), "was called after gravel.finalize()")
refused(("table.local", "table.free()", "gr.gather(table, [0])"), "after gravel.finalize()", {"table": table})
calls = ("map.add([1], 1)", "map.find([1])", "map.size()", "len(map)", "map.local_items()", "map.free()")
refused(calls, "after gravel.finalize()", {"map": map})
assert not table.is_open and not map.is_open and not gr.info()["joined"]
"""))


def test_views_after_finalize() -> None:
    """They keep their contents, also where the parts of two arrays share a page."""
    is_fine(run_alone("""
import gravel as gr, numpy as np
gr.init()
small, large = gr.full(3, 7, "i4"), gr.from_local(np.arange(1000000.0))
views = small.local, large.local[10:]
gr.finalize()
assert views[0].tolist() == [7] * 3 and np.array_equal(views[1], np.arange(10.0, 1000000.0))
views[0][:] = 1
assert views[0].sum() == 3
"""))


def test_views_after_finalize_of_a_shared_heap() -> None:
    """Other PEs map the heap, which consists of many extents."""
    done = run_job(
        2,
        "-c",
        """
import gravel as gr, numpy as np
gr.init()
arrays = [gr.from_local(np.arange(float(n)) + gr.my_pe()) for n in (3, 1000000, 7, 500000)]
arrays.pop(1).free()
views = [array.local for array in arrays]
me = gr.my_pe()
gr.finalize()
for view, n in zip(views, (3, 7, 500000)):
    assert np.array_equal(view, np.arange(float(n)) + me)
    view[:] = 1
    assert view.sum() == n
""",
        GRAVEL_ROUTES="peer",
    )
    is_fine(done)


@pytest.mark.parametrize("n_pes", [1, 3])
def test_without_finalize(n_pes: int) -> None:
    """The program leaves the job when it ends, with a view as a global variable."""
    done = run_job(n_pes, "-c", "import gravel as gr; gr.init(); table = gr.zeros(9); view = table.local; print('end')")
    is_fine(done)
    assert done.stdout.count("end") == n_pes and not done.stderr


@pytest.mark.parametrize("n_pes", [1, 2])
def test_maps_that_are_open_at_the_end(n_pes: int) -> None:
    """Also one that no variable refers to, and one of which a forked process has a copy."""
    done = run_job(n_pes, "-c", """
import os, sys
import gravel as gr
gr.init()
gr.Map("u8", "u8", 10)
closed, kept = gr.Map("i4", "f8", 1000), gr.Map("u8", "u4", 1000)
kept.add([1, 2, 3], 1)
closed.free()
child = os.fork()
if child == 0:
    try:
        kept.find([1])
    except gr.Error as error:
        print(error, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert kept.size() == 3
""")
    is_fine(done)
    assert done.stdout.count("in a process that was forked from a PE") == n_pes and not done.stderr


def test_imported_alone() -> None:
    is_fine(run_alone("import gravel as gr; assert gr.info()['backends'] == ('cpu',)"))


@pytest.mark.parametrize("text", ["1 / 0", "table.local[:] = gr.gather(table, [9])"])
def test_exception_on_one_pe(text: str) -> None:
    """The traceback, then the job ends; the others do not wait for ever."""
    done = run_job(
        3, "-c", f"import gravel as gr\ngr.init()\ntable = gr.zeros(9)\nif gr.my_pe() == 1:\n    {text}\ngr.barrier()"
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "PE 1: error: the program ended by " in done.stderr


def test_exception_alone() -> None:
    done = run_alone("import gravel as gr; gr.init(); 1 / 0")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ZeroDivisionError: division by zero")


def test_exit_status() -> None:
    assert run_alone("import gravel as gr, sys; gr.init(); sys.exit(7)").returncode == 7
    done = run_job(2, "-c", "import gravel as gr, sys; gr.init(); sys.exit(7) if gr.my_pe() else gr.barrier()")
    assert done.returncode != 0


def test_abort() -> None:
    done = run_job(
        2, "-c", "import gravel as gr; gr.init(); gr.abort('no more data', 5) if gr.my_pe() else gr.barrier()"
    )
    assert done.returncode == 5 and "no more data" in done.stderr


def test_other_collectives_end_the_job() -> None:
    """A PE that does not call."""
    done = run_job(2, "-c", "import gravel as gr; gr.init(); gr.barrier() if gr.my_pe() else None")
    assert done.returncode != 0 and "barrier" in done.stderr


def test_launcher_without_a_way_to_join() -> None:
    done = run_alone("import gravel as gr; gr.init()", RANK="0", WORLD_SIZE="2")
    assert done.returncode == 1
    assert "RANK" in done.stderr and "cannot find each other" in done.stderr and "ucx-run -n 2" in done.stderr
    is_fine(run_alone("import gravel as gr; gr.init(); assert gr.n_pes() == 1", RANK="0", WORLD_SIZE="1"))


@pytest.mark.skipif("cuda" in available(), reason="there are GPUs")
def test_no_gpu() -> None:
    """Who asks for GPUs where there are none learns why; who does not gets the CPU backend."""
    done = run_alone("import gravel as gr\ntry:\n    gr.init('cuda')\nexcept gr.Error as error:\n    print(error)\n"
                     "gr.init()\nprint(gr.info()['backend'])")  # fmt: skip
    is_fine(done)
    error, backend = done.stdout.splitlines()
    reasons = "gravel-pgas-cu13 is not installed|no CUDA driver|sees no GPU"
    assert re.search(f"gravel.init: backend 'cuda': .*({reasons})", error) and backend == "cpu"


def test_another_ucx_in_the_process() -> None:
    """A PE has no UCX in its process, as the aggregator sends. So one that another package has loaded is in no way."""
    done = run_job(2, "-c", """
import ctypes, ctypes.util
import gravel as gr
has_ucx = lambda: "libucp" in open("/proc/self/maps").read()
gr.init()
assert not has_ucx()
if name := ctypes.util.find_library("ucp"):
    ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
    assert has_ucx()
table = gr.full(10, 1)
gr.scatter_add(table, list(range(10)), 1)
gr.barrier()
assert gr.gather(table, list(range(10))).sum() == 30
""", nodes=2)
    is_fine(done)


def test_settings_that_are_impossible() -> None:
    done = run_alone(
        "import gravel as gr\ntry:\n    gr.init()\nexcept gr.Error as error:\n    print(error)",
        GRAVEL_PACKET_SIZE="banana",
    )
    is_fine(done)
    assert "GRAVEL_PACKET_SIZE" in done.stdout


def test_small_heap() -> None:
    is_fine(
        run_alone(
            "import gravel as gr, numpy as np; gr.init(); t = gr.full(1000, 2.0); "
            "assert gr.gather(t, np.arange(1000)).sum() == 2000",
            GRAVEL_SYMMETRIC_SIZE="64K",
        )
    )


@needs_compiler
def test_kernels_that_do_not_compile() -> None:
    """An exception at all PEs, with the lines of the source."""
    done = run_job(2, "-c", r"""
import gravel as gr
gr.init()
try:
    gr.Kernels("\n\n__global__ void wrong(gravel_t g, uint64_t* to) { gravel_inc(g, to); }\n", options=["-O0"])
except gr.Error as error:
    print(error)
gr.barrier()
""")
    is_fine(done)
    assert done.stdout.count("<source> does not compile:\n<source>: In function") == 2
    assert done.stdout.count("<source>:3:") >= 2 and "gravel_inc" in done.stdout


@needs_compiler
def test_kernels_and_jobs() -> None:
    """Kernels with handlers work in a job that knows them, and their mistakes end it."""
    start = f"import sys; sys.path.insert(0, {str(HERE / 'job')!r}); import sources, gravel as gr\n"
    is_fine(run_alone(start + """
walk = sources.compiled()
for call, text in ((lambda: walk.notify[1, 1](1, 0), "before gravel.init()"), (gr.init, ""),
                   (lambda: gr.init(kernels=walk), "started without these kernels"),
                   (lambda: walk.notify[1, 1](1, 0), "does not know the handlers visit, note: pass these kernels to")):
    try:
        call()
    except gr.Error as error:
        assert text and text in str(error), error
    else:
        assert not text
"""))
    for call, text in (
        ("walk.notify[1, 1](1, 99)", "to PE 99: the job has PEs 0 to 1"),
        ("walk.count[1, 32](np.zeros(9, 'u8'), np.zeros(3, 'i8'), 3, 9)", "an address outside the symmetric heap"),
    ):
        program = f"import numpy as np; walk = sources.compiled(); gr.init(kernels=walk); {call}; gr.barrier()"
        done = run_job(2, "-c", start + program)
        assert done.returncode != 0 and text in done.stderr
