"""Graphs that are distributed over all PEs: breadth-first search, shortest paths, PageRank, connected components.

Vertices have the numbers 0 to n - 1, those of the rows of the matrix. An entry of the matrix, of any value, is an edge
from its row to its column. PE p has the block of vertices with the numbers p * b to (p + 1) * b - 1 where b = n / PEs,
rounded up. All calls are collective."""

from __future__ import annotations

import operator
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _checks, _collectives, _device
from ._backend import native
from ._device import DeviceArray
from ._exchange import all_to_all
from ._job import check_joined, is_joined

BATCH = 1 << 20  # edges of each PE that are turned around between two exchanges


class Search(NamedTuple):
    """The result of :func:`bfs`."""

    levels: Any  #: edges from the source, i4; -1: not found
    parents: Any  #: from which vertex each was found, i8; -1: not found; the source is its own parent


class Components(NamedTuple):
    """The result of :func:`components`."""

    count: int  #: the number of components
    labels: Any  #: of each vertex, the least vertex of its component, i8


class _Rows(NamedTuple):
    """What a PE passes: rows of a matrix."""

    n: int  # rows
    columns: int
    offsets: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any] | None
    why_no_weights: str


class Graph:
    """A graph that is distributed over the PEs: made once, used by any number of calls. Collective.

    graph: one of

        - a sparse matrix of SciPy or CuPy, in any format, square: row i has the edges that leave vertex i, and a value
          is the weight of its edge;
        - ``(indptr, indices)`` or ``(indptr, indices, weights)``, as the arrays of a CSR matrix: NumPy arrays, tensors
          of PyTorch, arrays of a GPU;
        - the path of a file, plain or gzip, which all PEs can read: Matrix Market, METIS, Galois, SNAP edge lists.

        Every PE passes the whole graph, the same, and its own block of rows is taken; or every PE passes its block of
        rows alone: with all n columns, or with the number ``n``. Of entries that repeat the one with the least weight
        counts.
    directed: ``False``: each entry is an edge in both directions. :func:`bfs` and :func:`components` need that.
    n: the number of vertices, if the PEs pass blocks of rows as arrays.
    weighted: of a file: its edges have weights. Otherwise weights in it are ignored.
    progress: ``True``: PE 0 writes on stderr how far it is. Or a function, which gets a text.

    Results of calls are arrays of the library of `graph`, on the same device, and NumPy arrays for SciPy and files.
    Raises TypeError and ValueError, at all PEs, if a PE passes what is no graph, or another one than the others.
    """

    def __init__(
        self,
        graph: Any,
        *,
        directed: bool = False,
        n: int | None = None,
        weighted: bool = False,
        progress: bool | Callable[[str], None] | None = None,
    ) -> None:
        call = "graph.Graph"
        check_joined(call)
        self._memory: Any = None
        self.directed = bool(directed)
        report = _reporter(progress)
        begin = time.perf_counter()
        self._ids: NDArray[Any] | None = None
        self._first_id = 0
        self._like: DeviceArray | Any = None
        if isinstance(graph, (str, os.PathLike)):
            report(f"reads {os.fspath(graph)}")
            sources, targets, weights = self._read(call, os.fspath(graph), bool(weighted))
        else:
            sources, targets, weights = self._take(call, graph, n, report)
        report("divides its edges")
        self._divide(call, sources, targets, weights)
        report(f"{self.n} vertices, {self.edges} edges, after {time.perf_counter() - begin:.1f} s")

    @property
    def n(self) -> int:
        """The number of vertices."""
        return self._n

    @property
    def begin(self) -> int:
        """The first vertex of this PE."""
        return min(self._n, native.my_pe() * self._block)

    @property
    def end(self) -> int:
        """The vertex behind the last one of this PE."""
        return min(self._n, (native.my_pe() + 1) * self._block)

    @property
    def edges(self) -> int:
        """The number of edges of all PEs. In a graph without directions an edge counts once for each direction."""
        return self._edges

    @property
    def ids(self) -> NDArray[Any]:
        """The id that each vertex has in the file (u8): a number in an edge list, the index of a row from 1 in Matrix
        Market and METIS files. Without a file it is the vertex's number."""
        return np.arange(self._first_id, self._first_id + self._n, dtype=np.uint64) if self._ids is None else self._ids

    def vertex(self, id: int) -> int:
        """The vertex that has this id in the file. KeyError: none has."""
        number = operator.index(id)
        at = number - self._first_id if self._ids is None else int(np.searchsorted(self._ids, np.uint64(number)))
        if 0 <= at < self._n and (self._ids is None or self._ids[at] == number):
            return at
        raise KeyError(f"graph.Graph: no vertex has the id {number}")

    def free(self) -> None:
        """Frees the memory. Collective. Without this call the graph is freed when the job is left."""
        check_joined("graph.Graph.free")
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and is_joined():
            self.free()

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"<gravel.graph.Graph of {self._n} vertices, {self._edges} edges, {kind}>"

    # Making it.

    def _read(self, call: str, path: str, weighted: bool) -> tuple[Any, Any, Any]:
        from . import _host

        _check_kind(call, "file", zlib.crc32(repr((path, self.directed, weighted)).encode()))
        me, n_pes = native.my_pe(), native.n_pes()
        read = _collectives.together(call, lambda: _host.read_edges(path, me, n_pes, not self.directed, weighted))
        self._set_size(read[0])
        self._first_id = read[4]
        self._ids = read[5] if len(read[5]) else None
        self._why_no_weights = "" if weighted else "the file was read without weights: pass weighted=True"
        return read[1], read[2], read[3] if weighted else None

    def _take(self, call: str, graph: Any, n: int | None, report: Callable[[str], None]) -> tuple[Any, Any, Any]:
        _check_kind(call, "matrix", zlib.crc32(repr((self.directed, n)).encode()))
        rows, like = _collectives.together(call, lambda: _rows_of(call, graph, n))
        self._like = like
        rows = _own_block(call, rows)
        self._set_size(rows.columns)
        self._why_no_weights = rows.why_no_weights
        sources = np.repeat(np.arange(self.begin, self.begin + rows.n, dtype=np.uint64), np.diff(rows.offsets))
        edges = [sources, rows.targets.astype(np.uint64), rows.weights]
        if not self.directed:
            edges = self._in_both_directions(*edges, report)
        return edges[0], edges[1], edges[2]

    def _set_size(self, n: int) -> None:
        self._n = n
        self._block = max(1, -(-n // native.n_pes()))

    def _in_both_directions(self, sources: Any, targets: Any, weights: Any, report: Callable[[str], None]) -> list[Any]:
        """With what other PEs have turned around, and this one."""
        found = [[sources], [targets], [weights]]
        all_edges = int(_collectives.max_all(len(sources)))
        for first in range(0, all_edges, BATCH):
            report(f"turns edges around: {100 * first // all_edges} %")
            part = slice(first, first + BATCH)
            columns = [targets[part], sources[part]]
            if weights is not None:
                columns.append(weights[part].view(np.uint32).astype(np.uint64))
            records = np.stack(columns, axis=1)
            came, _ = all_to_all(records, (records[:, 0] // np.uint64(self._block)).astype(np.int64))
            found[0].append(np.ascontiguousarray(came[:, 0]))
            found[1].append(np.ascontiguousarray(came[:, 1]))
            if weights is not None:
                found[2].append(came[:, 2].astype(np.uint32).view(np.float32))
        return [None if column[0] is None else np.concatenate(column) for column in found]

    def _divide(self, call: str, sources: Any, targets: Any, weights: Any) -> None:
        from . import _host

        own, n_pes = self.end - self.begin, native.n_pes()
        # Each PE numbers its vertices by their edges, the most first: then those that are read most lie together.
        degrees = np.bincount((sources - np.uint64(self.begin)).astype(np.int64), minlength=own)
        order = np.argsort(-degrees, kind="stable").astype(np.uint32)
        self._place = np.zeros(self._block, np.uint32)
        self._place[order] = np.arange(own, dtype=np.uint32)
        places = np.empty(n_pes * self._block, np.uint32)
        native.allgather(places, self._place)
        offsets, ends, weights_of, ghosts, numbers, shift = _collectives.together(
            call, lambda: _host.divide(self._n, native.my_pe(), n_pes, places, sources, targets, weights)
        )
        self._edges = int(_collectives.sum_all(len(ends)))
        self._is_weighted = weights is not None
        self._memory = native.GraphMemory(
            self._n, self._block, offsets, ends, weights_of, self._is_weighted, ghosts, numbers, order, shift
        )

    # Using it.

    def _ready(self, call: str) -> Any:
        check_joined(call)
        if self._memory is None:
            raise ValueError(f"{call}: the graph has been freed")
        return self._memory

    def _source(self, call: str, source: Any) -> tuple[int, int]:
        """The PE of the source, and the source's number there."""
        error: Exception | None = None
        number = -1
        try:
            number = operator.index(source)
            if not 0 <= number < self._n:
                error = IndexError(f"{call}: source is {number}: the graph has vertices 0 to {self._n - 1}")
        except TypeError:
            error = TypeError(f"{call}: source is the number of a vertex, an int, not {type(source).__name__}")
        owner = number // self._block
        is_here = error is None and owner == native.my_pe()
        mine = [int(error is not None), number if error is None else -1]
        all_pes = _collectives.allgather(np.array([*mine, self._place[number - self.begin] if is_here else 0], "i8"))
        if error is not None:
            raise error
        if all_pes[:, 0].any() or (all_pes[:, 1] != number).any():
            raise ValueError(f"{call}: the PEs pass different sources: {all_pes[:, 1].tolist()} (-1: none)")
        return owner, int(all_pes[owner, 2])

    def _result(self, call: str, dtype: str, gather: bool) -> Any:
        """Memory for this PE's part of a result. What is gathered goes through the host."""
        _device.synchronize()
        if not isinstance(self._like, DeviceArray) or (gather and native.n_pes() > 1):
            return np.empty(self.end - self.begin, dtype)
        return _device.empty_like(call, self._like, (self.end - self.begin,), np.dtype(dtype))

    def _deliver(self, call: str, part: Any, gather: bool) -> Any:
        if gather and native.n_pes() > 1:
            mine = np.zeros(self._block, part.dtype)
            mine[: len(part)] = part
            whole = np.empty(native.n_pes() * self._block, part.dtype)
            native.allgather(whole.view(np.uint8), mine.view(np.uint8))
            part = whole[: self._n]
        if not isinstance(part, np.ndarray) or self._like is None:
            return part
        if isinstance(self._like, DeviceArray):
            return _device.from_host(call, part, self._like)
        return _checks.like(call, self._like, part)


def bfs(graph: Any, source: int, *, gather: bool = True) -> Search:
    """Breadth-first search from one vertex, of a graph without directions. Collective.

    graph: a :class:`Graph` that was made with ``directed=False``; or anything that its constructor takes, whose entries
        are then edges in both directions.
    source: the number of a vertex, the same at all PEs.
    gather: ``True``: results for all vertices, at each PE. ``False``: for ``graph.begin`` to ``graph.end``.

    Returns levels and parents. Which parent a vertex has, of several that are one level above, may differ from run to
    run.
    """
    with _graph_of("graph.bfs", graph, False) as made:
        memory = made._ready("graph.bfs")
        owner, place = made._source("graph.bfs", source)
        levels, parents = made._result("graph.bfs", "i4", gather), made._result("graph.bfs", "i8", gather)
        memory.search(owner, place, _place_of(levels), _place_of(parents))
        return Search(made._deliver("graph.bfs", levels, gather), made._deliver("graph.bfs", parents, gather))


def sssp(graph: Any, source: int, *, directed: bool = True, gather: bool = True) -> Any:
    """The distances from one vertex to all: of the shortest paths, by the weights of their edges. Collective.

    graph: a :class:`Graph` with weights, directed or not; or anything that its constructor takes.
    source: the number of a vertex, the same at all PEs.
    directed: of what is no :class:`Graph` yet: ``False``: entries are edges in both directions.
    gather: as for :func:`bfs`.

    Returns f4; infinite: not reached. Weights are finite numbers from 0 on, and are computed with as f4: integers must
    be numbers that f4 holds (all up to 2**24).
    """
    with _graph_of("graph.sssp", graph, directed, weighted=True) as made:
        memory = made._ready("graph.sssp")
        if not made._is_weighted:
            raise ValueError(f"graph.sssp: the graph has no weights: {made._why_no_weights}")
        owner, place = made._source("graph.sssp", source)
        distances = made._result("graph.sssp", "f4", gather)
        memory.find_paths(owner, place, _place_of(distances))
        return made._deliver("graph.sssp", distances, gather)


def pagerank(
    graph: Any,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-6,
    directed: bool = True,
    gather: bool = True,
) -> Any:
    """PageRank of all vertices. Weights do not count. Collective.

    graph: a :class:`Graph`, directed or not; or anything that its constructor takes.
    damping: the share of a rank that a vertex passes on along its edges, 0 to 1 (exclusive).
    tolerance: relative, of a rank: how far it may be from the limit, as a share of the least rank; above 0.
    directed: as for :func:`sssp`.
    gather: as for :func:`bfs`.

    Returns f8, whose sum is 1. A vertex that no edge leaves passes its rank on to all vertices alike.
    """
    with _graph_of("graph.pagerank", graph, directed) as made:
        memory = made._ready("graph.pagerank")
        share, error = float(damping), float(tolerance)
        if not 0 <= share < 1:
            raise ValueError(f"graph.pagerank: damping is {damping}: it is from 0 to 1, and less than 1")
        if not error > 0:
            raise ValueError(f"graph.pagerank: tolerance is {tolerance}: it is above 0")
        ranks = made._result("graph.pagerank", "f8", gather)
        if made.n:
            memory.rank(share, error, _place_of(ranks))
        return made._deliver("graph.pagerank", ranks, gather)


def components(graph: Any, *, gather: bool = True) -> Components:
    """Connected components of a graph without directions. Collective.

    graph: as for :func:`bfs`.
    gather: as for :func:`bfs`.
    """
    with _graph_of("graph.components", graph, False) as made:
        memory = made._ready("graph.components")
        labels = made._result("graph.components", "i8", gather)
        count = memory.find_components(_place_of(labels)) if made.n else 0
        return Components(count, made._deliver("graph.components", labels, gather))


class _Kept:
    """A graph of the program: the call does not free it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __enter__(self) -> Graph:
        return self._graph

    def __exit__(self, *_: Any) -> None:
        pass


def _graph_of(call: str, graph: Any, directed: bool, weighted: bool = False) -> Any:
    """The graph of a call. Calls that say directed=False for graphs of the program need one without directions."""
    check_joined(call)
    if not isinstance(graph, Graph):
        return Graph(graph, directed=directed, weighted=weighted)
    if graph.directed and not directed:
        raise ValueError(f"{call}: the graph is directed: make it with Graph(..., directed=False)")
    return _Kept(graph)


def _place_of(result: Any) -> Any:
    return result if isinstance(result, np.ndarray) else DeviceArray(result).address


def _reporter(progress: Any) -> Callable[[str], None]:
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"graph.Graph: progress is True or a function, not {type(progress).__name__}")
    if not progress or native.my_pe() != 0:
        return lambda text: None
    return progress if callable(progress) else lambda text: print(f"graph: {text}", file=sys.stderr, flush=True)


def _check_kind(call: str, kind: str, hashed: int) -> None:
    """All PEs pass a file, or all a matrix; with the same options."""
    all_pes = _collectives.allgather(np.array([int(kind == "file"), hashed], "i8"))
    if (all_pes != all_pes[0]).any():
        raise ValueError(f"{call}: the PEs pass different files, or different options: all PEs pass the same")


def _rows_of(call: str, graph: Any, n: int | None) -> tuple[_Rows, Any]:
    """The rows that this PE passes, and an array of the library of the results."""
    if hasattr(graph, "tocsr") and hasattr(graph, "shape"):
        matrix = graph.tocsr()
        parts, columns = (matrix.indptr, matrix.indices, matrix.data), int(matrix.shape[1])
        if n is not None and n != columns:
            raise ValueError(f"{call}: n is {n}, and the matrix has {columns} columns")
    elif isinstance(graph, (tuple, list)) and len(graph) in (2, 3):
        parts, columns = tuple(graph), -1 if n is None else _checks.element_count(call, n, "vertices")
    else:
        raise TypeError(
            f"{call}: {type(graph).__name__} is no graph: pass a sparse matrix, (indptr, indices), "
            "(indptr, indices, weights), or the path of a file"
        )
    like = _empty_like(call, parts[1])
    offsets, targets = (
        _integers(call, name, part) for name, part in zip(("indptr", "indices"), parts)
    )
    rows = len(offsets) - 1
    columns = rows if columns < 0 else columns
    if rows < 0 or offsets[0] != 0 or offsets[-1] != len(targets) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{call}: indptr does not begin with 0, rise, and end with {len(targets)}")
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < columns:
        wrong = int(np.flatnonzero((targets < 0) | (targets >= columns))[0])
        raise IndexError(f"{call}: indices[{wrong}] is {targets[wrong]}: the graph has vertices 0 to {columns - 1}")
    weights, why = None, "pass (indptr, indices, weights)"
    if len(parts) == 3 and parts[2] is not None:
        weights, why = _weights(call, np.asarray(_checks.as_numpy(call, "weights", parts[2])), len(targets))
    return _Rows(rows, columns, offsets, targets, weights, why), like


def _empty_like(call: str, value: Any) -> Any:
    """An empty array of the library of another one, for results; `None`: NumPy."""
    if _device.is_on_gpu(value):
        found = _device.of(call, "indices", value)
        return DeviceArray(_device.empty_like(call, found, (0,), np.dtype("f4")))
    return value[:0] if type(value).__module__.startswith("torch") else None


def _integers(call: str, name: str, value: Any) -> NDArray[Any]:
    found = np.asarray(_checks.as_numpy(call, name, value))
    if found.size == 0 and found.ndim == 1 and not isinstance(value, np.ndarray):
        found = found.astype(np.int64)  # an empty list
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(f"{call}: {name} is an array of integers of one dimension, not {found.dtype} {found.shape}")
    return np.ascontiguousarray(found.astype(np.int64, copy=False))


def _weights(call: str, found: NDArray[Any], edges: int) -> tuple[NDArray[Any] | None, str]:
    """The weights as f4; or none, and why: calls that need no weights take the graph all the same."""
    if found.shape != (edges,) or found.dtype.kind not in "biuf":
        raise TypeError(f"{call}: weights are one number for each of the {edges} edges, not {found.dtype}{found.shape}")
    with np.errstate(over="ignore"):
        as_floats = np.ascontiguousarray(found.astype(np.float32))
    wrong = ~(np.isfinite(as_floats) & (found >= 0))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        return None, f"the weight of edge {at} is {found[at]}: weights are finite numbers from 0 on, up to 3.4e38"
    if found.dtype.kind in "iu" and (as_floats.astype(np.float64) != found.astype(np.float64)).any():
        at = int(np.flatnonzero(as_floats.astype(np.float64) != found.astype(np.float64))[0])
        return None, f"the weight of edge {at} is {found[at]}, which is no number of f4: pass floats, to round them"
    return as_floats, ""


def _own_block(call: str, rows: _Rows) -> _Rows:
    """This PE's block of rows, of the whole graph or of what it passes; when all PEs pass rows of one graph."""
    me, n_pes = native.my_pe(), native.n_pes()
    mine = np.array([rows.n, rows.columns, len(rows.targets), rows.weights is not None], "i8")
    all_pes = _collectives.allgather(mine)
    shapes = ", ".join(f"{n} x {columns}" for n, columns in all_pes[:, :2].tolist())
    if n_pes == 1 and rows.n != rows.columns:
        raise ValueError(f"{call}: the matrix of a graph is square, and this one has the shape {shapes}")
    n = rows.columns
    block = max(1, -(-n // n_pes))
    begins = [min(n, pe * block) for pe in range(n_pes + 1)]
    is_whole = bool((all_pes[:, 0] == all_pes[:, 1]).all())
    are_blocks = all_pes[:, 0].tolist() == [end - begin for begin, end in zip(begins, begins[1:])]
    if (all_pes[:, 1] != n).any() or not (is_whole or are_blocks):
        raise ValueError(
            f"{call}: the PEs pass matrices of the shapes {shapes}: each passes the whole graph, which is square, or "
            f"its block of rows, here {begins[me]} to {begins[me + 1]} of {n} (pass n= with arrays)"
        )
    if all_pes[:, 3].any() != all_pes[:, 3].all():  # one PE's weights cannot be used: none are
        pe = int(np.flatnonzero(all_pes[:, 3] == 0)[0])
        why = rows.why_no_weights or f"those of PE {pe} cannot be used"
        rows = rows._replace(weights=None, why_no_weights=why)
    if not is_whole or n_pes == 1:
        return rows
    hashed = zlib.crc32(rows.targets, zlib.crc32(rows.offsets, 0 if rows.weights is None else zlib.crc32(rows.weights)))
    if len(set(_collectives.allgather(hashed).tolist())) > 1:
        raise ValueError(f"{call}: the PEs pass different graphs of {n} vertices: all pass the same, or blocks of rows")
    begin, end = begins[me], begins[me + 1]
    part = slice(int(rows.offsets[begin]), int(rows.offsets[end]))
    return rows._replace(
        n=end - begin,
        offsets=rows.offsets[begin : end + 1] - rows.offsets[begin],
        targets=rows.targets[part],
        weights=None if rows.weights is None else rows.weights[part],
    )
