"""Gravel's operations in kernels of numba-cuda, on GPUs.

    from numba import cuda
    add = gr.numba.operation("add", "u8")

    @cuda.jit
    def count(g, table, block, ids):
        i = cuda.grid(1)
        if i < ids.size:
            add(g, table, ids[i] % block, 1, ids[i] // block)

    table = gr.zeros(1 << 20, "u8")
    count[256, 256](gr.numba.handle(), gr.numba.address(table), table.block, ids)
    cuda.synchronize()
    gr.barrier()

An operation is a device function in CUDA C++, which `gravel-nvcc` compiles to PTX when it is first needed, and which
numba-cuda links into the kernels that call it."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from . import _backend, _checks, _kernel_cache
from ._array import Array
from ._backend import Error, native
from ._job import check_joined

_TYPES = {"i4": "int32_t", "u4": "uint32_t", "i8": "int64_t", "u8": "uint64_t", "f4": "float", "f8": "double"}
# Of each operation: the call, and whether it has a value and returns one.
_CALLS = {
    "put": ("gravel_put(g, to, value, pe)", True, False),
    "add": ("gravel_add(g, to, value, pe)", True, False),
    "min": ("gravel_min(g, to, value, pe)", True, False),
    "max": ("gravel_max(g, to, value, pe)", True, False),
    "fetch": ("gravel_fetch(g, to, pe)", False, True),
    "fetch_add": ("gravel_fetch_add(g, to, value, pe)", True, True),
}
_kept: list[Any] = []  # the handle in the memory of the GPU


def _cuda(call: str) -> Any:
    """The module numba.cuda, in a job on GPUs."""
    check_joined(f"numba.{call}")
    if native.backend() != "cuda":
        raise Error(f"gravel.numba.{call}: the job runs on the CPU backend: kernels of numba-cuda run on GPUs")
    try:
        return importlib.import_module("numba.cuda")
    except ImportError as e:
        raise Error(f"gravel.numba.{call}: it needs numba-cuda ({e}): pip install numba-cuda") from e


def operation(name: str, dtype: Any) -> Any:
    """A device function for kernels of numba-cuda: ``operation(g, array, index, value, pe)``.

    name: ``"put"``, ``"add"``, ``"min"``, ``"max"``, ``"fetch_add"``, or ``"fetch"``, which takes no value. The last
        two return what the element was, and wait for it. The others return 0.
    dtype: of the element and the value: i4, u4, i8, u8, f4 or f8.

    In the kernel `g` is :func:`handle`, `array` is :func:`address`, `index` is the number of the element in the part of
    PE `pe`. All lanes may call it, in divergent code, as in CUDA C++. The operation is complete as one of any other
    kernel: when the kernel has ended, behind :func:`gravel.quiet` or :func:`gravel.barrier`.

    Raises :class:`Error` where there is no numba-cuda or no nvcc, and if the job does not run on GPUs.
    """
    if name not in _CALLS:
        raise ValueError(f"gravel.numba.operation: {name!r}: it is one of {', '.join(_CALLS)}")
    element = _checks.element_type("numba.operation", dtype, _checks.NUMBERS)
    return _operation(name, _checks.name_of(element), _cuda("operation"))


@functools.cache
def _operation(name: str, element: str, cuda: Any) -> Any:
    """A kernel may call an operation several times, so there is one function for each: its text is linked once."""
    call, has_value, returns = _CALLS[name]
    function = f"gravel_numba_{name}_{element}"
    text = _text(function, call, _TYPES[element], has_value, returns)
    major, minor = cuda.get_current_device().compute_capability
    options = ["-ptx", "-rdc=true", f"-arch=compute_{major}{minor}"]
    ptx, _ = _kernel_cache.library_of(text, f"gravel.numba, {name}", options, None)
    value = np.dtype(element).name
    values = f"int64, int64, int64, {f'{value}, ' if has_value else ''}int64"
    signature = f"{value if returns else 'int32'}({values})"
    return cuda.declare_device(function, signature, link=cuda.PTXSource(ptx.read_bytes(), name=f"{function}.ptx"))


def _text(function: str, call: str, element: str, has_value: bool, returns: bool) -> str:
    """The source of a device function as numba calls them: the result is written to memory, and 0 is returned."""
    value = f"{element} value, " if has_value else ""
    body = f"*result = {call};" if returns else f"*result = 0;\n  {call};"
    return (
        f"#include <gravel/gravel.cuh>\n"
        f'extern "C" __device__ int {function}({element if returns else "int"}* result, int64_t handle,\n'
        f"    int64_t array, int64_t index, {value}int64_t at) {{\n"
        f"  const gravel_t& g = *reinterpret_cast<const gravel_t*>(handle);\n"
        f"  auto* const to = reinterpret_cast<{element}*>(array) + index;\n"
        f"  const int pe = static_cast<int>(at);\n"
        f"  {body}\n  return 0;\n}}\n"
    )


def handle() -> int:
    """What kernels pass to operations as `g`: the address of this PE's handle in the memory of its GPU."""
    cuda = _cuda("handle")
    if not _kept:
        _kept.append(cuda.to_device(np.frombuffer(native.handle(), np.uint8).copy()))
    return int(_kept[0].__cuda_array_interface__["data"][0])


def address(array: Array) -> int:
    """The symmetric address of this PE's part of a distributed array, for operations of kernels. The array must be in
    the heap, as all are but those with ``place="host"``: operations on others end the job with the address."""
    if not isinstance(array, Array):
        raise TypeError(f"gravel.numba.address: it takes a gravel.Array, not {type(array).__name__}")
    return array.memory("numba.address").address()
