"""Arrays in the memory of a GPU: those of CuPy, tensors of PyTorch, and others with ``__cuda_array_interface__``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from ._backend import Error, chosen, native

OWN_STREAM = 0  # the PE's own stream, for Gravel
_LEGACY_STREAM = 1  # CUDA's default stream, whose handle is also 0 or None


class DeviceArray:
    """An array of a GPU, as its library describes it. Has what checks ask of NumPy's arrays."""

    __slots__ = ("source", "address", "dtype", "shape", "is_contiguous", "strides", "is_readonly")

    def __init__(self, source: Any) -> None:
        interface = source.__cuda_array_interface__
        self.source = source
        self.address, self.is_readonly = interface["data"]
        self.address = self.address or 0
        self.dtype = np.dtype(interface["typestr"])
        self.shape = tuple(interface["shape"])
        self.strides = interface.get("strides")
        self.is_contiguous = self.strides is None or self.size == 0 or self._has_no_gaps()

    def _has_no_gaps(self) -> bool:
        wanted = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != wanted:
                return False
            wanted *= size
        return True

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    def __len__(self) -> int:
        return self.shape[0]


def is_on_gpu(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic, int, float, list, tuple)):
        return False
    if hasattr(value, "is_cuda"):  # PyTorch
        return bool(value.is_cuda)
    if hasattr(value, "__cuda_array_interface__"):
        return True
    # Memory of the host, pinned or not.
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] not in (1, 3)


def of(call: str, name: str, value: Any) -> DeviceArray:
    """The array of a GPU. It must be the GPU of this PE."""
    if chosen() != "cuda":
        raise TypeError(
            f"{call}: {name} is in the memory of a GPU; the CPU backend takes arrays and tensors of the host"
        )
    if hasattr(value, "detach"):
        value = value.detach()
    try:
        found = DeviceArray(value)
    except (AttributeError, TypeError, RuntimeError, ValueError) as e:
        raise TypeError(f"{call}: {name} cannot be read as an array of a GPU: {e}") from e
    number = getattr(getattr(value, "device", None), "index", getattr(getattr(value, "device", None), "id", None))
    if isinstance(number, int) and number != native.device():
        raise ValueError(
            f"{call}: {name} is in the memory of GPU {number}, and this PE uses GPU {native.device()}: select it "
            "before (torch.cuda.set_device(gravel.info()['device']))"
        )
    return found


def place_of(array: Any) -> tuple[int, bool]:
    """Where a contiguous array lies, for the native module."""
    if isinstance(array, DeviceArray):
        return array.address, True
    return array.__array_interface__["data"][0], False


def _library_of(array: DeviceArray) -> str:
    return type(array.source).__module__.partition(".")[0]


def stream_of(*arrays: Any) -> int:
    """The stream in which the library of these arrays works now; the PE's own one if none is on a GPU. If they are of
    several libraries, it is that of the first, and the host waits for the others."""
    on_gpu = [array for array in arrays if isinstance(array, DeviceArray)]
    if not on_gpu:
        return OWN_STREAM
    library = _library_of(on_gpu[0])
    if any(_library_of(array) != library for array in on_gpu):
        synchronize()
    if library == "torch":
        import torch

        handle = torch.cuda.current_stream(on_gpu[0].source.device).cuda_stream
    elif library == "cupy":
        import cupy

        handle = cupy.cuda.get_current_stream().ptr
    else:
        handle = on_gpu[0].source.__cuda_array_interface__.get("stream") or 0
    return handle or _LEGACY_STREAM


def synchronize() -> None:
    """Waits for the current streams of PyTorch and CuPy, so that what they wrote is there."""
    if chosen() != "cuda":
        return
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.current_stream().synchronize()
    if cupy is not None:
        cupy.cuda.get_current_stream().synchronize()


def empty_like(call: str, array: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A new array of the library of another one."""
    if type(array.source).__module__.startswith("torch"):
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=array.source.device)
    return _cupy(call).empty(shape, dtype)


def to_host(array: DeviceArray) -> np.ndarray[Any, Any]:
    """A copy in memory of the host. Waits for the stream."""
    if hasattr(array.source, "cpu"):
        return array.source.cpu().numpy()
    if hasattr(array.source, "get"):
        return np.asarray(array.source.get())
    result = np.empty(array.shape, array.dtype)
    native.copy(result.ctypes.data, array.address, result.nbytes)
    return result


def from_host(call: str, value: np.ndarray[Any, Any], like: DeviceArray) -> Any:
    """A copy in memory of the GPU, as an array of the library of another one."""
    if type(like.source).__module__.startswith("torch"):
        import torch

        return torch.from_numpy(value).to(like.source.device)
    return _cupy(call).asarray(value)


class _View:
    """Memory of the symmetric heap. It lives as long as an array that was made of it."""

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._lease = memory.lease()
        self.__cuda_array_interface__ = {
            "data": (memory.address(), False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
            "stream": None,
        }


def view(call: str, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], library: str | None) -> Any:
    """The memory of a distributed array, as an array of a library: "cupy", "torch", or `None` for what there is."""
    if library is None:
        try:
            importlib.import_module("cupy")
            library = "cupy"
        except ImportError:
            library = "torch"
    if library == "cupy":
        return _cupy(call).asarray(_View(memory, shape, dtype))
    try:
        import torch
    except ImportError as e:
        raise Error(f"gravel.{call}: arrays of a GPU need CuPy or PyTorch, and neither is installed") from e
    return torch.as_tensor(_View(memory, shape, dtype), device=f"cuda:{native.device()}")


def _cupy(call: str) -> Any:
    try:
        return sys.modules.get("cupy") or importlib.import_module("cupy")
    except ImportError as e:
        raise Error(f"gravel.{call}: this needs CuPy, which is not installed ({e}): pass tensors of PyTorch") from e
