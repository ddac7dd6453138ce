"""Graphs, compared with plain Python, and with SciPy where it is installed."""

from __future__ import annotations

import heapq
import tempfile

import numpy as np
import pytest

import gravel as gr
from libraries import on_gpu


def csr_of(n, sources, targets, weights=None):
    """(indptr, indices, weights) of some edges."""
    order = np.argsort(sources, kind="stable")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(np.asarray(sources, np.int64), minlength=n), out=indptr[1:])
    indices = np.asarray(targets, np.int64)[order]
    return indptr, indices, np.ones(len(indices)) if weights is None else np.asarray(weights)[order]


def rmat(scale, edges):
    """The edges of a graph with hubs, and repetitions and loops."""
    random = np.random.default_rng(5)
    ends = np.zeros((2, edges), np.int64)
    for _ in range(scale):
        quarter = random.choice(4, size=edges, p=(0.57, 0.19, 0.19, 0.05))
        ends = 2 * ends + np.stack((quarter // 2, quarter % 2))
    return ends


def grid(side):
    at = np.arange(side * side).reshape(side, side)
    return np.concatenate(
        (np.stack((at[:, :-1].ravel(), at[:, 1:].ravel())), np.stack((at[:-1].ravel(), at[1:].ravel()))), axis=1
    )


def whole(random, n, ends, integers):
    weights = random.integers(0, 9, ends.shape[1]) if integers else random.random(ends.shape[1], np.float32)
    return csr_of(n, *ends, weights)


def graphs():
    random = np.random.default_rng(3)
    none = np.zeros((2, 0), np.int64)
    return {
        "one vertex": whole(random, 1, none, True),
        "no edges": whole(random, 5, none, False),
        "loops, duplicates, two parts": csr_of(
            7, [0, 0, 0, 1, 1, 2, 4, 4, 5], [1, 1, 0, 2, 2, 2, 5, 4, 4], [3, 2, 9, 1, 4, 0, 7, 7, 7]
        ),
        "grid": whole(random, 100, grid(10), True),
        "rmat": whole(random, 1 << 10, rmat(10, 6000), False),
    }


ALL = graphs()


def neighbours(csr, directed):
    """For each vertex its neighbours, with the least weights."""
    indptr, indices, weights = (np.asarray(part).tolist() for part in csr)
    found = [{} for _ in indptr[1:]]
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            for a, b in ((v, indices[e]),) if directed else ((v, indices[e]), (indices[e], v)):
                found[a][b] = min(found[a].get(b, np.inf), weights[e])
    return found


def distances_of(rows, source, hops=False):
    far = np.full(len(rows), np.inf, np.float32)
    far[source] = 0
    heap = [(0.0, source)]
    while heap:
        here, v = heapq.heappop(heap)
        if here > far[v]:
            continue
        for u, weight in rows[v].items():
            there = np.float32(here) + np.float32(1 if hops else weight)
            if there < far[u]:
                far[u] = there
                heapq.heappush(heap, (float(there), u))
    return far


def ranks_of(rows, damping):
    n = len(rows)
    rank = np.full(n, 1 / n)
    ends = [np.fromiter(row, np.int64, len(row)) for row in rows]
    sources = np.repeat(np.arange(n), [len(row) for row in rows])
    targets = np.concatenate(ends) if ends else np.zeros(0, np.int64)
    degree = np.array([len(row) for row in rows])
    for _ in range(100):
        share = np.where(degree > 0, rank / np.maximum(degree, 1), 0)
        rank = (1 - damping) / n + damping * (
            np.bincount(targets, share[sources], n) + rank[degree == 0].sum() / n
        )
    return rank


def labels_of(rows):
    label = np.arange(len(rows))
    for v, row in enumerate(rows):
        for u in row:
            a, b = label[v], label[u]
            if a != b:
                label[label == max(a, b)] = min(a, b)
    return label


def check_search(found, rows, source):
    levels, parents = (np.asarray(part) for part in found)
    far = distances_of(rows, source, hops=True)
    assert levels.dtype == np.int32 and parents.dtype == np.int64
    assert np.array_equal(levels, np.where(np.isinf(far), -1, far).astype(np.int32))
    for v, parent in enumerate(parents.tolist()):
        if levels[v] <= 0:
            assert parent == (v if v == source else -1)
        else:
            assert v in rows[parent] and levels[parent] == levels[v] - 1


@pytest.mark.parametrize("name", ALL)
def test_undirected(name):
    csr = ALL[name]
    rows = neighbours(csr, False)
    with gr.graph.Graph(csr) as graph:
        assert graph.n == len(rows) and graph.edges == sum(map(len, rows)) and not graph.directed
        for source in {0, len(rows) // 2}:
            check_search(gr.graph.bfs(graph, source), rows, source)
            assert np.array_equal(gr.graph.sssp(graph, source), distances_of(rows, source))
        label = labels_of(rows)
        count, labels = gr.graph.components(graph)
        assert count == len(set(label)) and labels.dtype == np.int64 and np.array_equal(labels, label)
        part = gr.graph.components(graph, gather=False).labels
        assert np.array_equal(part, label[graph.begin : graph.end])
        if name not in ("grid", "rmat"):  # many rounds
            assert np.allclose(gr.graph.pagerank(graph, tolerance=1e-4), ranks_of(rows, 0.85), rtol=1e-3)


@pytest.mark.parametrize("name", ["one vertex", "loops, duplicates, two parts", "rmat"])
def test_directed(name):
    csr = ALL[name]
    rows = neighbours(csr, True)
    with gr.graph.Graph(csr, directed=True) as graph:
        assert graph.edges == sum(map(len, rows))
        assert np.array_equal(gr.graph.sssp(graph, 0), distances_of(rows, 0))
        ranks = gr.graph.pagerank(graph, damping=0.5, tolerance=1e-5, gather=False)
        assert np.allclose(ranks, ranks_of(rows, 0.5)[graph.begin : graph.end], rtol=1e-4)
        for call in (gr.graph.components, lambda graph: gr.graph.bfs(graph, 0)):
            with pytest.raises(ValueError, match="the graph is directed: make it with Graph"):
                call(graph)


def test_empty():
    csr = csr_of(0, [], [])
    assert gr.graph.components(csr).count == 0 and gr.graph.pagerank(csr).shape == (0,)
    with pytest.raises(IndexError, match="source is 0: the graph has vertices 0 to -1"):
        gr.graph.bfs(csr, 0)


def test_blocks_of_rows(monkeypatch):
    """Each PE passes its rows alone; edges are turned around in several exchanges. Two graphs are used in turn."""
    monkeypatch.setattr(gr.graph, "BATCH", 500)
    indptr, indices, weights = ALL["rmat"]
    n = len(indptr) - 1
    block = -(-n // gr.n_pes())
    begin, end = (min(n, (gr.my_pe() + k) * block) for k in (0, 1))
    part = slice(indptr[begin], indptr[end])
    texts = []
    mine = (indptr[begin : end + 1] - indptr[begin], indices[part], weights[part])
    graph = gr.graph.Graph(mine, n=n, progress=texts.append)
    assert gr.my_pe() != 0 or any("turns edges around" in text for text in texts)
    other = gr.graph.Graph(ALL["grid"])
    rows, rows_of_other = neighbours(ALL["rmat"], False), neighbours(ALL["grid"], False)
    check_search(gr.graph.bfs(graph, 1), rows, 1)
    check_search(gr.graph.bfs(other, 2), rows_of_other, 2)
    graph.free()
    check_search(gr.graph.bfs(other, 3), rows_of_other, 3)
    with pytest.raises(ValueError, match="the graph has been freed"):
        gr.graph.bfs(graph, 0)
    other.free()


def test_libraries(library):
    """Arrays of a GPU give results there."""
    csr = ALL["grid"]
    rows = neighbours(csr, False)
    given = tuple(library.new(part) for part in csr)
    with gr.graph.Graph(given) as graph:
        distances = gr.graph.sssp(graph, 7)
        levels = gr.graph.bfs(graph, 7, gather=False).levels
        part = slice(graph.begin, graph.end)
    assert np.array_equal(library.host(distances), distances_of(rows, 7))
    assert np.array_equal(library.host(levels), distances_of(rows, 7, hops=True)[part])


def test_files():
    with tempfile.TemporaryDirectory() as folder:
        folder = str(gr.broadcast(np.array([folder], "U300"))[0])
        if gr.my_pe() == 0:
            with open(f"{folder}/a.txt", "w") as file:
                file.write("# two parts\n7 9 2.5\n9 1000 1\n20 30 4\n")
            with open(f"{folder}/b.mtx", "w") as file:
                file.write("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n")
        gr.barrier()
        with gr.graph.Graph(f"{folder}/a.txt", weighted=True) as graph:
            assert graph.ids.tolist() == [7, 9, 20, 30, 1000] and graph.vertex(1000) == 4
            with pytest.raises(KeyError, match="no vertex has the id 8"):
                graph.vertex(8)
            assert gr.graph.sssp(graph, graph.vertex(7)).tolist() == [0, 2.5, np.inf, np.inf, 3.5]
            assert gr.graph.components(graph).labels.tolist() == [0, 0, 2, 2, 0]
        with gr.graph.Graph(f"{folder}/b.mtx", directed=True) as graph:
            assert graph.ids.tolist() == [1, 2, 3] and graph.vertex(3) == 2 and graph.edges == 2
            with pytest.raises(ValueError, match="pass weighted=True"):
                gr.graph.sssp(graph, 0)
        with pytest.raises(gr.Error, match="no_such_file"):
            gr.graph.Graph(f"{folder}/no_such_file")
        gr.barrier()


def test_mistakes():
    indptr, indices, weights = ALL["grid"]
    for given, kind, text in (
        (7, TypeError, "int is no graph: pass a sparse matrix"),
        ((indptr, indices[:-1]), ValueError, "indptr does not begin with 0, rise, and end with 179"),
        ((indptr, indices + 1), IndexError, r"indices\[\d+\] is 100: the graph has vertices 0 to 99"),
        ((indptr, indices * 0.5), TypeError, "indices is an array of integers"),
        ((indptr, indices, weights[:5]), TypeError, "weights are one number for each of the 180 edges"),
    ):
        with pytest.raises(kind, match=text):
            gr.graph.Graph(given)
    with pytest.raises(ValueError, match="square|each passes the whole graph"):
        gr.graph.Graph((indptr, indices), n=1000)
    for wrong, text in ((-1, "the weight of edge 3 is -1"), (np.nan, "edge 3 is nan"), (2**24 + 1, "no number of f4")):
        given = weights.astype("f8" if wrong != wrong else "i8")
        given[3] = wrong
        with gr.graph.Graph((indptr, indices, given)) as graph:
            with pytest.raises(ValueError, match=text):
                gr.graph.sssp(graph, 0)
            assert gr.graph.components(graph).count == 1
    with gr.graph.Graph((indptr, indices)) as graph:
        with pytest.raises(ValueError, match="has no weights"):
            gr.graph.sssp(graph, 0)
        for source, kind in ((-1, IndexError), (100, IndexError), (1.5, TypeError)):
            with pytest.raises(kind, match="source is"):
                gr.graph.bfs(graph, source)
        with pytest.raises(ValueError, match="damping is 1"):
            gr.graph.pagerank(graph, damping=1)
        with pytest.raises(ValueError, match="tolerance is 0"):
            gr.graph.pagerank(graph, tolerance=0)
    if gr.n_pes() > 1:
        mine = ALL["grid" if gr.my_pe() else "rmat"]
        with pytest.raises(ValueError, match="the PEs pass matrices of the shapes 1024 x 1024, 100 x 100"):
            gr.graph.Graph(mine)
        moved = np.where(np.arange(180) == 17 * gr.my_pe(), 0, indices)
        with pytest.raises(ValueError, match="the PEs pass different graphs of 100 vertices"):
            gr.graph.Graph((indptr, moved))
        with pytest.raises((TypeError, gr.Error), match="is no graph|PE 0 has failed"):
            gr.graph.Graph((indptr, indices) if gr.my_pe() else ())
        with gr.graph.Graph((indptr, indices)) as graph:
            with pytest.raises(ValueError, match="different sources"):
                gr.graph.bfs(graph, gr.my_pe())


@pytest.mark.parametrize("form", ["csr", "coo", "csc"])
def test_scipy(form):
    sparse = pytest.importorskip("scipy.sparse")
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    indptr, indices, weights = ALL["rmat"]
    matrix = sparse.csr_matrix((weights.astype("f4"), indices.copy(), indptr.copy()), (len(indptr) - 1,) * 2)
    matrix.sum_duplicates()
    given = matrix.asformat(form)
    far = csgraph.dijkstra(matrix, indices=3)
    assert np.allclose(gr.graph.sssp(given, 3), far, rtol=1e-5)
    count, label = csgraph.connected_components(matrix, directed=False)
    found = gr.graph.components(given)
    assert found.count == count and len(set(zip(label.tolist(), found.labels.tolist()))) == count
    levels = csgraph.dijkstra(matrix, directed=False, indices=3, unweighted=True)
    assert np.array_equal(gr.graph.bfs(given, 3).levels, np.where(np.isinf(levels), -1, levels))
    with pytest.raises(ValueError, match="square|each passes the whole graph"):
        gr.graph.Graph(matrix[:, :5])


def test_cupy_matrix():
    if not on_gpu():
        pytest.skip("CuPy is for GPUs")
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    indptr, indices, weights = (cupy.asarray(part) for part in ALL["grid"])
    matrix = sparse.csr_matrix((weights.astype("f8"), indices.astype("i4"), indptr.astype("i4")), (100, 100))
    distances = gr.graph.sssp(matrix, 7, directed=False)
    assert np.array_equal(cupy.asnumpy(distances), distances_of(neighbours(ALL["grid"], False), 7))
