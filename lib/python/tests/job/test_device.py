"""GPUs: arrays and current devices that are not the PE's. On the CPU backend these tests are skipped."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gravel as gr
from libraries import on_gpu


@pytest.fixture
def on_another(library):
    """Runs a function with another GPU than the PE's as the library's current device."""
    if not on_gpu() or library.name == "numpy":
        pytest.skip("devices are of GPUs")
    cuda, mine = library.module.cuda, gr.info()["device"]
    count = cuda.runtime.getDeviceCount() if library.name == "cupy" else cuda.device_count()
    if count == 1:
        pytest.skip("needs two GPUs")

    def run(function):
        other = (mine + 1) % count
        with cuda.Device(other) if library.name == "cupy" else cuda.device(other):
            return function()

    return run


def test_arrays_of_another_gpu(library, on_another):
    table, counts = gr.zeros((10, 2), "f4"), gr.Map("i8", "i8", capacity=100)
    here, there = library.new(np.arange(4)), on_another(lambda: library.new(np.arange(4)))
    ones = library.new(np.ones((4, 2), "f4")), on_another(lambda: library.new(np.ones((4, 2), "f4")))
    text = rf"is in the memory of GPU \d, and this PE uses GPU {gr.info()['device']}"
    for name, call in (
        ("gather: index", lambda: gr.gather(table, there)),
        ("gather: out", lambda: gr.gather(table, here, out=ones[1])),
        ("scatter_add: index", lambda: gr.scatter_add(table, there, ones[0])),
        ("scatter_add: values", lambda: gr.scatter_add(table, here, ones[1])),
        ("Map.add: keys", lambda: counts.add(there, 1)),
        ("Map.add: values", lambda: counts.add(here, there)),
        ("Map.find: keys", lambda: counts.find(there)),
    ):
        with pytest.raises(ValueError, match=f"{name} {text}"):
            call()
    gr.barrier()
    assert (table.copy_local() == 0).all() and counts.size() == 0  # nothing was sent
    counts.free()
    table.free()


def test_another_current_device(library, on_another):
    """Arrays of the PE's GPU are used in its streams, whatever device is current."""
    table = gr.zeros(100, "i8")
    index = library.new(np.arange(100))
    mine = gr.info()["device"]

    def work():
        assert gr.info()["device"] == mine
        gr.scatter_add(table, index, 2)
        gr.barrier()
        return gr.gather(table, index)

    got = on_another(work)
    assert (library.host(got) == 2 * gr.n_pes()).all()
    gr.barrier()
    table.free()


def test_another_thread(library):
    """A new thread has device 0 as its current one."""
    if not on_gpu() or library.name == "numpy":
        pytest.skip("devices are of GPUs")
    table, counts = gr.zeros(100, "i8"), gr.Map("i8", "i8", capacity=1000)
    index = library.new(np.arange(100))
    gr.quiet()
    failed = []

    def work():
        try:
            gr.scatter_add(table, index, 3)
            counts.add(index, index)
            gr.quiet()
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
    gr.barrier()
    assert (library.host(gr.gather(table, index)) == 3 * gr.n_pes()).all()
    values, found = counts.find(index)
    assert library.host(found).all() and (library.host(values) == np.arange(100) * gr.n_pes()).all()
    gr.barrier()
    counts.free()
    table.free()
