"""The native module of what runs on the host (src/host.cpp)."""

from typing import Any

from numpy.typing import NDArray

longest_kmer: int

def unique_id(address: str, port: int) -> str: ...
def read_codes(path: str, number: int, of: int) -> NDArray[Any]: ...
def read_edges(
    path: str, part: int, parts: int, undirected: bool, weighted: bool
) -> tuple[int, NDArray[Any], NDArray[Any], NDArray[Any], int, NDArray[Any]]: ...
def divide(
    vertices: int,
    me: int,
    parts: int,
    places: NDArray[Any],
    sources: NDArray[Any],
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], int]: ...
