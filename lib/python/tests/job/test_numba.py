"""Operations in kernels of numba-cuda. On the CPU backend the kernels are skipped."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr
from gravel import _kernel_cache
from libraries import on_gpu


def test_wrong_calls():
    for error, text, call in (
        (ValueError, "'inc': it is one of put, add", lambda: gr.numba.operation("inc", "u8")),
        (TypeError, "numba.operation: dtype float16: Gravel has i4", lambda: gr.numba.operation("add", "f2")),
        (TypeError, "takes a gravel.Array, not int", lambda: gr.numba.address(7)),
    ):
        with pytest.raises(error, match=text):
            call()
    if not on_gpu():
        with pytest.raises(gr.Error, match="numba.handle: the job runs on the CPU backend"):
            gr.numba.handle()


def test_kernels():
    """A kernel adds and puts at all PEs, and another one reads what is there."""
    if not on_gpu():
        pytest.skip("kernels of numba-cuda run on GPUs")
    if why := _kernel_cache.why_no_compiler():
        pytest.skip(why)
    cuda = pytest.importorskip("numba.cuda")
    cuda.select_device(gr.info()["device"])
    add, put = gr.numba.operation("add", "u8"), gr.numba.operation("put", "f4")
    fetch, fetch_add = gr.numba.operation("fetch", "f4"), gr.numba.operation("fetch_add", np.uint64)
    assert gr.numba.operation("add", np.uint64) is add

    @cuda.jit
    def count(g, table, marks, block, ids):
        i = cuda.grid(1)
        if i < ids.size:
            add(g, table, ids[i] % block, 2, ids[i] // block)
            put(g, marks, ids[i] % block, 0.5 + ids[i], ids[i] // block)

    @cuda.jit
    def look(g, table, marks, block, counts, found):
        i = cuda.grid(1)
        if i < counts.size:
            counts[i] = fetch_add(g, table, i % block, 0, i // block)
            found[i] = fetch(g, marks, i % block, i // block)

    n = 1000
    table, marks = gr.zeros(n, "u8"), gr.zeros(n, "f4")
    addresses = gr.numba.handle(), gr.numba.address(table), gr.numba.address(marks), table.block
    ids = cuda.to_device(np.random.default_rng(gr.my_pe()).permutation(n))
    count[4, 256](*addresses, ids)
    cuda.synchronize()
    gr.barrier()
    counts, found = cuda.to_device(np.zeros(n, "u8")), cuda.to_device(np.zeros(n, "f4"))
    look[4, 256](*addresses, counts, found)
    assert (counts.copy_to_host() == 2 * gr.n_pes()).all()
    assert (found.copy_to_host() == np.arange(n) + 0.5).all()
    gr.barrier()
    table.free()
    marks.free()
