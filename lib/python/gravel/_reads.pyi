"""The native module of :mod:`gravel.reads` (src/reads.cpp)."""

from typing import Any

from numpy.typing import NDArray

longest_kmer: int

def read_kmers(path: str, k: int, number: int, of: int) -> NDArray[Any]: ...
