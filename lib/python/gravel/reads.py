"""Reads of genomes: k-mers of FASTA and FASTQ files, counted by all PEs."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _collectives
from ._backend import native
from ._job import check_joined
from ._map import Map


def count_kmers(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], k: int) -> Map:
    """How often each k-mer occurs in the reads of files: a :class:`gravel.Map` from k-mers to counts (u8 to u4).
    Collective: all PEs pass the same. Each PE reads all files, and counts the k-mers of its share of the records.

    files: a path or several: FASTA or FASTQ, plain or gzip.
    k: the length, odd, 1 to 31.

    A k-mer is a number: two bits for each base, A, C, G, T from 0 to 3, the first base in the highest bits
    (:func:`text_of`). It stands for its reverse complement too: the smaller number of the two counts both. What is
    none of ACGTU divides a read.

    Raises :class:`gravel.Error` at all PEs if a PE cannot read a file: the text has the file and the line.
    """
    check_joined("reads.count_kmers")
    length = _length("count_kmers", k)
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    described = "\0".join([str(length), *(os.fspath(path) for path in paths)]).encode()
    _check_same(described)
    codes = np.concatenate([np.full(1, 4, np.uint8), *(_codes_of(os.fspath(path)) for path in paths)])
    counts = Map("u8", "u4", capacity=1024)
    counts._open("count_kmers").count_kmers(codes, len(codes), length)
    return counts


def text_of(kmers: ArrayLike, k: int) -> list[str]:
    """The bases of k-mers, as texts of ACGT.

    kmers: numbers, as :func:`count_kmers` has them.
    k: their length.
    """
    length = _length("text_of", k)
    numbers = np.asarray(kmers, np.uint64).reshape(-1)
    shifts = np.arange(2 * (length - 1), -1, -2, dtype=np.uint64)
    bases = np.frombuffer(b"ACGT", np.uint8)[((numbers[:, None] >> shifts) & np.uint64(3)).astype(np.intp)]
    return [row.tobytes().decode() for row in bases]


def _length(call: str, k: Any) -> int:
    try:
        length = operator.index(k)
    except TypeError:
        raise TypeError(f"reads.{call}: k is an int, not {type(k).__name__}") from None
    if not 1 <= length <= 31 or length % 2 == 0:
        raise ValueError(f"reads.{call}: k is {length}: it is odd, and 1 to 31")
    return length


def _check_same(described: bytes) -> None:
    """All PEs pass the same files and the same k."""
    theirs = _collectives.broadcast(len(described))
    same = theirs == len(described)
    if _collectives.min_all(int(same)):
        same = _collectives.broadcast(np.frombuffer(described, np.uint8)).tobytes() == described
    if not _collectives.min_all(int(same)):
        raise ValueError("reads.count_kmers: the PEs pass different files or another k: all PEs pass the same")


def _codes_of(path: str) -> np.ndarray[Any, Any]:
    """The bases of this PE's records. If it cannot read them, no PE goes on."""
    from . import _host

    return _collectives.together(
        "reads.count_kmers",
        lambda: _host.read_codes(path, native.my_pe(), native.n_pes()),
        f"cannot read {path}",
    )
