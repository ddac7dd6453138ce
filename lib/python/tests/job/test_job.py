from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import gravel as gr
from libraries import local_part


def test_place_in_the_job():
    me, n = gr.my_pe(), gr.n_pes()
    assert 0 <= me < n
    assert gr.allgather(me).tolist() == list(range(n))
    nodes = [gr.node_of(pe) for pe in range(n)]
    assert sorted(set(nodes)) == list(range(gr.n_nodes()))


def test_init_again():
    gr.init()
    gr.init(backend=gr.info()["backend"])


def test_info():
    info = gr.info()
    assert info["joined"] and info["backend"] in ("cpu", "cuda")
    assert info["my_pe"] == gr.my_pe() and info["n_pes"] == gr.n_pes()
    assert info["symmetric_bytes"] >= 1 << 16
    assert info["dtypes"] == ("i4", "u4", "i8", "u8", "f4", "f8", "f2", "bf16")


def test_stats():
    table = gr.zeros(1000 * gr.n_pes(), "u8")
    before = gr.stats()
    gr.scatter_add(table, np.arange(table.n), 1)
    gr.barrier()
    after = gr.stats()
    sent = sum(after[name] - before[name] for name in ("messages_taken", "messages_in_place", "messages_to_peers"))
    assert sent == table.n * gr.n_pes()
    assert after["n_pes"] == gr.n_pes() and after["n_nodes"] == gr.n_nodes()
    mine = gr.stats(local=True)
    assert gr.sum_all(mine["messages_in_place"]) == gr.stats()["messages_in_place"]
    table.free()


def test_other_threads_run_meanwhile():
    """Calls that wait release the GIL: a thread of PE 0 counts while PE 0 waits for the others in a barrier."""
    counted, ends = [0], threading.Event()

    def count():
        while not ends.is_set():
            counted[0] += 1
            time.sleep(0.001)

    gr.barrier()
    if gr.my_pe() == 0:
        thread = threading.Thread(target=count)
        thread.start()
        begin = counted[0]
        gr.barrier()
        waited = counted[0] - begin
        ends.set()
        thread.join()
        if gr.n_pes() > 1:
            assert waited >= 10
    else:
        time.sleep(0.5)
        gr.barrier()


def test_threads_send():
    """Several threads of a PE may send and gather at once."""
    n = 5000
    table = gr.zeros(n, "i8")
    failed = []

    def work(seed):
        try:
            index = np.random.default_rng(seed).permutation(n)
            for _ in range(3):
                gr.scatter_add(table, index, 1)
                gr.gather(table, index[:100].copy())
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    gr.barrier()
    assert (local_part(table) == 12 * gr.n_pes()).all()
    table.free()


@pytest.mark.skipif("not hasattr(__import__('os'), 'fork')")
def test_forked_child_is_no_pe():
    import os

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        for call in (gr.init, gr.my_pe, gr.barrier, lambda: gr.zeros(3)):
            try:
                call()
            except gr.Error as error:
                text += "forked" if "forked" in str(error) else str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000) == b"forked" * 4
    os.close(reader)
    os.close(writer)
