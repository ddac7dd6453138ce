"""Rows of a distributed table read and added to from Python, beside the same by PyTorch with NCCL, in one process.

Run with one PE on each GPU: ucx-run -n 2 python3 bench/tables_from_python.py --json FILE

What is timed: gathers of rows of 264 bytes by random ids, from a stream and in a CUDA graph; additions to random words;
training steps of embedding tables, beside those of torch.nn.Embedding with sparse gradients on one GPU; the host's part
of calls with one id, and of launches of a kernel of gr.Kernels.
NCCL's side: an all-gather of ids and a reduce-scatter of rows for few ids, else ids sorted by owner, two exchanges, and
the rows put back into order; for additions ids and values sorted by owner, two exchanges, index_add. Every result is
compared. Times are medians of rounds, by the clock of the host around work that ends with a synchronization; PE 0
prints them, and a time is that of the slowest PE."""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist

import gravel as gr

ROW = 66  # words of 4 bytes: 264 bytes


def timed(work, rounds, calls=1):
    """Microseconds of a call: median, least, most over rounds."""
    found = []
    for _ in range(rounds):
        gr.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
        found.append(gr.max_all((time.perf_counter() - begin) / calls * 1e6))
    return statistics.median(found), min(found), max(found)


def by_owner(block, ids):
    """The order of ids by their owners, and how many go to each PE and come from each."""
    owners = ids // block
    order = torch.argsort(owners)
    counts = torch.bincount(owners, minlength=gr.n_pes())
    others = torch.empty_like(counts)
    dist.all_to_all_single(others, counts)
    return order, counts.tolist(), others.tolist()


def by_exchange(table, block, ids):
    """Rows of a table in blocks, by NCCL: ids to their owners, rows back."""
    order, send, receive = by_owner(block, ids)
    wanted = torch.empty(sum(receive), dtype=ids.dtype, device="cuda")
    dist.all_to_all_single(wanted, ids[order], receive, send)
    rows = table[wanted - gr.my_pe() * block]
    back = torch.empty((len(ids), table.shape[1]), dtype=table.dtype, device="cuda")
    dist.all_to_all_single(back, rows, send, receive)
    out = torch.empty_like(back)
    out[order] = back
    return out


def by_reduction(table, block, ids):
    """The same for few ids: all PEs get all ids, and each gives the rows that it has."""
    everyone = torch.empty(gr.n_pes() * len(ids), dtype=ids.dtype, device="cuda")
    dist.all_gather_into_tensor(everyone, ids)
    local = everyone - gr.my_pe() * block
    is_here = (local >= 0) & (local < block)
    rows = table[local.clamp(0, block - 1)] * is_here[:, None]
    out = torch.empty((len(ids), table.shape[1]), dtype=table.dtype, device="cuda")
    dist.reduce_scatter_tensor(out, rows)
    return out


def add_by_exchange(table, block, ids, values):
    """Additions by NCCL: ids and values to their owners."""
    order, send, receive = by_owner(block, ids)
    places = torch.empty(sum(receive), dtype=ids.dtype, device="cuda")
    terms = torch.empty(sum(receive), dtype=values.dtype, device="cuda")
    dist.all_to_all_single(places, ids[order], receive, send)
    dist.all_to_all_single(terms, values[order], receive, send)
    table.index_add_(0, places - gr.my_pe() * block, terms)


def gathers(options):
    rows = []
    n = options.rows * gr.n_pes()
    table = gr.empty((n, ROW), "i4")
    mine = table.tensor
    mine.copy_(torch.arange(table.begin, table.end, device="cuda", dtype=torch.int32)[:, None] * 7
               + torch.arange(ROW, device="cuda", dtype=torch.int32))
    torch.cuda.synchronize()
    gr.barrier()
    for count in options.ids:
        torch.manual_seed(count + gr.my_pe())
        ids = torch.randint(n, (count,), device="cuda")
        out = torch.empty((count, ROW), dtype=torch.int32, device="cuda")
        wanted = ids[:, None].int() * 7 + torch.arange(ROW, device="cuda", dtype=torch.int32)

        def check(what, result, wanted=wanted):
            if not torch.equal(result, wanted):
                gr.abort(f"{what}: wrong rows")

        calls = max(1, min(100, 10_000_000 // (count * ROW)))
        out.fill_(-1)
        from_stream = timed(lambda: gr.gather(table, ids, out=out), options.rounds, calls)
        check("gather", out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gr.gather(table, ids, out=out)
        out.fill_(-1)
        in_graph = timed(graph.replay, options.rounds, calls)
        check("gather in a graph", out)
        del graph
        exchanged = timed(lambda: by_exchange(mine, table.block, ids), options.rounds, max(1, calls // 10))
        check("exchange", by_exchange(mine, table.block, ids))
        reduced = None
        if count <= 100_000:
            reduced = timed(lambda: by_reduction(mine, table.block, ids), options.rounds, max(1, calls // 10))
            check("reduction", by_reduction(mine, table.block, ids))
        rival = min(exchanged[0], reduced[0]) if reduced else exchanged[0]
        rows.append([count, *(round(x, 1) for x in from_stream), *(round(x, 1) for x in in_graph),
                     round(exchanged[0], 1), round(reduced[0], 1) if reduced else None, round(rival / in_graph[0], 1)])
    del mine
    gr.barrier()
    table.free()
    return {"columns": ["ids of each PE", "from a stream, us", "least", "most", "in a graph, us", "least", "most",
                        "NCCL, exchanges, us", "NCCL, reduction, us", "NCCL's better one / in a graph"],
            "rows": rows}


def additions(options):
    rows = []
    for log2 in options.words:
        n = gr.n_pes() << log2
        table = gr.zeros(n, "f4")
        torch.manual_seed(log2 * 100 + gr.my_pe())
        ids = torch.randint(n, (1 << options.additions,), device="cuda")
        ones = torch.ones(len(ids), device="cuda")

        def add():
            gr.scatter_add(table, ids, ones)
            gr.quiet()

        ours = timed(add, options.rounds)
        rival_table = torch.zeros(table.block, device="cuda")
        rival = timed(lambda: add_by_exchange(rival_table, table.block, ids, ones), options.rounds)
        gr.barrier()
        if not torch.equal(table.tensor, rival_table[: table.end - table.begin]):
            gr.abort("additions: the sums differ")
        rows.append([log2, *(round(x / 1000, 2) for x in ours), *(round(x / 1000, 2) for x in rival),
                     round(rival[0] / ours[0], 1)])
        gr.barrier()
        table.free()
    return {"columns": ["words of each PE, log2", "ms", "least", "most", "NCCL, ms", "least", "most", "NCCL / Gravel"],
            "rows": rows}


OPTIMIZERS = {
    "sgd": lambda rows: torch.optim.SGD(rows, lr=0.01),
    "adagrad": lambda rows: torch.optim.Adagrad(rows, lr=0.01),
    "adam": lambda rows: torch.optim.SparseAdam(list(rows), lr=0.01, eps=1e-15),
    "rowwise_adagrad": None,
    "rowwise_adam": None,
}


def embeddings(options):
    """A training step: lookup, backward pass, and the optimizer's step. Rows of 64 floats. PyTorch's table is on each
    GPU alone, and as large as Gravel's of all GPUs; it gets the ids of its own PE."""
    rows, width = [], 64
    n = gr.n_pes() << options.table
    for optimizer, rival_of in OPTIMIZERS.items():
        for count in options.lookups:
            torch.manual_seed(count + gr.my_pe())
            ids = torch.randint(n, (count,), device="cuda")
            factors = torch.randn((count, width), device="cuda")
            eps = 1e-15 if optimizer.endswith("adam") else None  # SparseAdam adds it elsewhere: so it is as good as 0
            table = gr.torch.Embedding(n, width, optimizer=optimizer, lr=0.01, eps=eps, std=0.0)
            rival = torch.nn.Embedding(n, width, sparse=True, device="cuda")
            torch.nn.init.zeros_(rival.weight)

            def train(lookup, step, ids=ids, factors=factors):
                lookup(ids).backward(factors)
                step()

            ours = timed(lambda table=table, train=train: train(table, table.step), options.rounds)
            theirs = None
            if rival_of:
                stepper = rival_of(rival.parameters())

                def step(stepper=stepper):
                    stepper.step()
                    stepper.zero_grad()

                theirs = timed(lambda rival=rival, step=step, train=train: train(rival, step), options.rounds)
                if gr.n_pes() == 1 and not torch.allclose(table.weight.tensor, rival.weight, rtol=1e-3, atol=1e-4):
                    gr.abort(f"embeddings: {optimizer} has other rows than PyTorch")
            rows.append([optimizer, gr.n_pes(), count, *(round(x, 1) for x in ours),
                         *((round(x, 1) for x in theirs) if theirs else (None,) * 3),
                         round(theirs[0] / ours[0], 1) if theirs else None])
            gr.barrier()
            table.free()
            del rival
    return {"columns": ["optimizer", "GPUs", "lookups of each PE", "us", "least", "most", "PyTorch, one GPU, us",
                        "least", "most", "PyTorch / Gravel"],
            "rows": rows}


def calls(options):
    """Time of the host for calls with one id: what a call costs before its kernel runs."""
    on_gpu = gr.info()["backend"] == "cuda"
    table, count = gr.zeros(1000 * gr.n_pes(), "f4"), 200
    rows = []
    libraries = {"NumPy": np.asarray, "PyTorch": functools.partial(torch.tensor, device="cuda" if on_gpu else "cpu")}
    for library, new in libraries.items():
        ids, one = new([gr.my_pe() * 1000 + 7]), new([np.float32(1)])
        out = new([np.float32(0)])
        for name, call in (
            ("gather", lambda ids=ids, out=out: gr.gather(table, ids, out=out)),
            ("gather, new result", lambda ids=ids: gr.gather(table, ids)),
            ("scatter_add", lambda ids=ids, one=one: gr.scatter_add(table, ids, one)),
            ("scatter_add of one value", lambda ids=ids: gr.scatter_add(table, ids, 1.0)),
        ):
            found = []
            for _ in range(options.rounds):
                gr.barrier()
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                found.append(gr.max_all((time.perf_counter() - begin) / count * 1e6))
            rows.append([library, name, *(round(x, 1) for x in (statistics.median(found), min(found), max(found)))])
    gr.barrier()
    added = 2 * options.rounds * count * 2
    if gr.gather(table, [gr.my_pe() * 1000 + 7])[0] != added:
        gr.abort("calls: a wrong sum")
    table.free()
    return {"columns": ["ids and values of", "call", "us", "least", "most"], "rows": rows}


KERNEL = """
__global__ void add(gravel_t g, float* to, int n) {
  if (threadIdx.x == 0) gravel_add(g, to, static_cast<float>(n), gravel_my_pe(g));
}
// Starts the kernel so often from C++.
extern "C" GRAVEL_API void add_often(float* to, void* stream, int count) {
  gravel_launch_config how{1, 32};
  how.stream = static_cast<gravel_stream_t>(stream);
  for (int i = 0; i < count; ++i) gravel_launch(add, how, gravel_handle(), to, 1);
}
"""


def launches(options):
    """Time of the host for starting a kernel of the program: from Python, and from C++ in the same process. The CPU
    backend's kernels have ended then."""
    kernels = gr.Kernels(KERNEL)
    often = ctypes.CDLL(str(kernels.library)).add_often
    table, count = gr.zeros(gr.n_pes(), "f4"), 200
    address = table.memory("launches").address()
    on_gpu = gr.info()["backend"] == "cuda"
    launch, default = kernels.add[1, 32], 1 if on_gpu else 0  # CUDA's default stream
    ways = {
        "C++, the PE's stream": lambda: often(ctypes.c_void_p(address), None, count),
        "C++, CUDA's default stream": lambda: often(ctypes.c_void_p(address), ctypes.c_void_p(default), count),
        "Python, a distributed array": lambda: [launch(table, 1) for _ in range(count)],
        "Python, a tensor": lambda tensor=table.tensor: [launch(tensor, 1) for _ in range(count)],
        "PyTorch's add_": lambda tensor=torch.zeros_like(table.tensor): [tensor.add_(1) for _ in range(count)],
    }
    rows = []
    for name, way in ways.items():
        found = []
        for _ in range(options.rounds + 1):  # the first one loads the kernel
            gr.barrier()
            begin = time.perf_counter()
            way()
            found.append(gr.max_all((time.perf_counter() - begin) / count * 1e6))
        rows.append([name, *(round(x, 2) for x in (statistics.median(found[1:]), min(found[1:]), max(found[1:])))])
    gr.barrier()
    if table.copy_local()[0] != 4 * count * (options.rounds + 1):
        gr.abort("launches: a wrong sum")
    return {"columns": ["from", "us", "least", "most"], "rows": rows}


def report(options, tables):
    if gr.my_pe() == 0:
        print(json.dumps(tables, indent=1))
        if options.json:
            gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
            with open(options.json, "w") as to:
                json.dump({"gpu": gpu, "PEs": gr.n_pes(), "torch": torch.__version__, "tables": tables}, to)
    gr.barrier()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1 << 20, metavar="N", help="rows of each PE (default: 2^20)")
    options.add_argument("--ids", type=int, nargs="+", default=[48, 1536, 12_288, 98_304, 393_216], metavar="N")
    options.add_argument("--words", type=int, nargs="+", default=[22, 26, 29], metavar="LOG2",
                         help="words of each PE to which is added, log2 (default: 22 26 29)")
    options.add_argument("--additions", type=int, default=26, metavar="LOG2", help="of each PE, log2 (default: 26)")
    options.add_argument("--rounds", type=int, default=10, metavar="N")
    options.add_argument("--table", type=int, default=21, metavar="LOG2",
                         help="rows of an embedding table of each PE, log2 (default: 21)")
    options.add_argument("--lookups", type=int, nargs="+", default=[4096, 65_536, 524_288], metavar="N")
    options.add_argument("--embeddings-only", action="store_true", help="only the training steps of embedding tables")
    options.add_argument("--calls-only", action="store_true",
                         help="only the host's time for calls with one id and for launches; also without a GPU")
    options.add_argument("--json", metavar="FILE")
    given = options.parse_args()
    if given.calls_only:
        gr.init()
        if gr.info()["device"] is not None:
            torch.cuda.set_device(gr.info()["device"])
        report(given, {"calls": calls(given), "launches": launches(given)})
        return
    gr.init("cuda")
    device = gr.info()["device"]
    torch.cuda.set_device(device)
    if given.embeddings_only:
        report(given, {"embeddings": embeddings(given)})
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    dist.init_process_group("nccl", rank=gr.my_pe(), world_size=gr.n_pes(), device_id=torch.device("cuda", device))
    tables = {"gather": gathers(given), "scatter_add": additions(given), "embeddings": embeddings(given),
              "calls": calls(given), "launches": launches(given)}
    report(given, tables)
    dist.destroy_process_group()
    gr.finalize()


if __name__ == "__main__":
    main()
