"""Arrays in the memory of a GPU: those of CuPy, tensors of PyTorch, and others with ``__cuda_array_interface__``.

Each call looks at its arrays, so this must cost little: CuPy and PyTorch are asked for one property at a time, because
their ``__cuda_array_interface__`` takes several microseconds to make."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import numpy as np

from ._backend import Error, chosen, native

try:
    from ml_dtypes import bfloat16

    BF16 = np.dtype(bfloat16)
except ImportError:
    #: NumPy has no bfloat16. Without the package ml_dtypes its arrays have the bits, as ``array["bits"]``.
    BF16 = np.dtype([("bits", "u2")])

OWN_STREAM = 0  # the PE's own stream, for Gravel
_LEGACY_STREAM = 1  # CUDA's default stream, whose handle is also 0 or None


class DeviceArray:
    """An array of a GPU, as its library describes it. Has what checks ask of NumPy's arrays. `gpu`: the number of the
    GPU; -1 if the library does not say it."""

    __slots__ = ("source", "library", "gpu", "address", "dtype", "shape", "size", "is_contiguous", "is_readonly")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.is_readonly = False
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if isinstance(source, getattr(torch, "Tensor", ())):
            self.library = "torch"
            self.address = source.data_ptr()
            self.dtype = _numpy_types()[source.dtype]
            self.shape = tuple(source.shape)
            self.size = source.numel()
            self.is_contiguous = source.is_contiguous()
            number = source.device.index
            self.gpu = -1 if number is None else number
        elif isinstance(source, getattr(cupy, "ndarray", ())):
            self.library = "cupy"
            self.address = source.data.ptr
            self.dtype = source.dtype
            self.shape = source.shape
            self.size = source.size
            self.is_contiguous = source.flags.c_contiguous
            self.gpu = source.data.device_id
        else:
            self._read_interface(source.__cuda_array_interface__)

    def _read_interface(self, interface: dict[str, Any]) -> None:
        self.library = type(self.source).__module__.partition(".")[0]
        self.gpu = -1
        self.address, self.is_readonly = interface["data"]
        self.address = self.address or 0
        self.dtype = np.dtype(interface["typestr"])
        self.shape = tuple(interface["shape"])
        self.size = 1
        for length in self.shape:
            self.size *= length
        self.is_contiguous = self.size == 0 or self._has_no_gaps(interface.get("strides"))

    def _has_no_gaps(self, strides: tuple[int, ...] | None) -> bool:
        wanted = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(strides or ())):
            if size != 1 and stride != wanted:
                return False
            wanted *= size
        return True

    @property
    def strides(self) -> Any:
        """In bytes, for messages."""
        if self.library == "torch":
            return tuple(step * self.dtype.itemsize for step in self.source.stride())
        return self.source.__cuda_array_interface__.get("strides")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return int(self.shape[0])


class _Types(dict[Any, Any]):
    def __init__(self, of: str, types: dict[Any, Any]) -> None:
        super().__init__(types)
        self._of = of

    def __missing__(self, dtype: Any) -> Any:
        raise TypeError(f"{self._of} has no dtype for {dtype}")


@functools.cache
def _numpy_types() -> _Types:
    """NumPy's dtypes by those of PyTorch."""
    import torch

    names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
             "complex64", "complex128")  # fmt: skip
    found = {getattr(torch, name): np.dtype(name) for name in names if hasattr(torch, name)}
    return _Types("NumPy", found | {torch.bool: np.dtype(bool), torch.bfloat16: BF16})


@functools.cache
def _torch_types() -> _Types:
    """PyTorch's dtypes by those of NumPy."""
    return _Types("PyTorch", {ours: theirs for theirs, ours in _numpy_types().items()})


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
    try:
        found = DeviceArray(value)
    except (AttributeError, KeyError, TypeError, RuntimeError, ValueError) as e:
        raise TypeError(f"{call}: {name} cannot be read as an array of a GPU: {e}") from e
    if found.gpu >= 0 and found.gpu != native.device():
        raise ValueError(
            f"{call}: {name} is in the memory of GPU {found.gpu}, and this PE uses GPU {native.device()}: select it "
            "before (torch.cuda.set_device(gravel.info()['device']))"
        )
    return found


def place_of(array: Any) -> Any:
    """Where a contiguous array lies, for the native module: an address of a GPU, or an object with a buffer."""
    if isinstance(array, DeviceArray):
        return array.address
    return array if array.dtype != BF16 else array.reshape(-1).view(np.uint16)


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The memory of a tensor of the host as a NumPy array."""
    import torch

    if tensor.dtype == torch.bfloat16:
        bits: np.ndarray[Any, Any] = tensor.view(torch.int16).numpy()
        return bits.view(BF16)
    return np.asarray(tensor)


def tensor_of(array: np.ndarray[Any, Any]) -> Any:
    """The memory of a NumPy array as a tensor."""
    import torch

    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def stream_of(first: Any, second: Any = None) -> int:
    """The stream in which the library of these arrays works now; the PE's own one if none is on a GPU. If they are of
    two libraries, it is that of the first, and the host waits for the other."""
    if not isinstance(first, DeviceArray):
        first, second = second, None
    if not isinstance(first, DeviceArray):
        return OWN_STREAM
    if isinstance(second, DeviceArray) and second.library != first.library:
        synchronize()
    if first.library == "torch":
        handle = _torch_stream()(first.gpu)
    elif first.library == "cupy":
        handle = sys.modules["cupy"].cuda.get_current_stream(first.gpu).ptr
    else:
        handle = first.source.__cuda_array_interface__.get("stream") or 0
    return handle_or_legacy(handle)


def current_stream() -> int:
    """The current stream of PyTorch or CuPy, where one of them is in use on GPUs; otherwise the PE's own one."""
    if chosen() != "cuda":
        return OWN_STREAM
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        return handle_or_legacy(_torch_stream()(native.device()))
    if cupy is not None:
        return handle_or_legacy(cupy.cuda.get_current_stream(native.device()).ptr)
    return OWN_STREAM


def handle_or_legacy(handle: int) -> int:
    """The stream of a library's handle, for Gravel."""
    return handle or _LEGACY_STREAM


@functools.cache
def _torch_stream() -> Any:
    """A function from the number of a GPU to PyTorch's current stream there. Where there is one, it is that which
    compiled code of PyTorch calls: it makes no object of a stream."""
    import torch

    function = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return function or (lambda gpu: torch.cuda.current_stream(gpu).cuda_stream)


def synchronize() -> None:
    """Waits for the current streams of PyTorch and CuPy on the PE's GPU, so that what they wrote is there."""
    if chosen() != "cuda":
        return
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.current_stream(native.device()).synchronize()
    if cupy is not None:
        with cupy.cuda.Device(native.device()):
            cupy.cuda.get_current_stream().synchronize()


def empty_like(call: str, array: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A new array of the library of another one."""
    if array.library == "torch":
        import torch

        return torch.empty(shape, dtype=_torch_types()[dtype], device=array.source.device)
    return _by_cupy(call, "empty", shape, dtype)


def full_like(call: str, array: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any], value: Any) -> Any:
    """A new array of the library of another one, whose elements are all `value`."""
    if array.library == "torch":
        import torch

        return torch.full(shape, value, dtype=_torch_types()[dtype], device=array.source.device)
    return _by_cupy(call, "full", shape, value, dtype)


def new(call: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A new array of CuPy, or a tensor if CuPy is not there."""
    if _preferred() == "cupy":
        return _by_cupy(call, "empty", shape, dtype)
    torch = _torch(call)
    return torch.empty(shape, dtype=_torch_types()[dtype], device=f"cuda:{native.device()}")


def to_host(array: DeviceArray) -> np.ndarray[Any, Any]:
    """A copy in memory of the host. Waits for the stream."""
    if array.library == "torch":
        return array_of(array.source.detach().cpu())
    if hasattr(array.source, "get"):
        return np.asarray(array.source.get())
    result = np.empty(array.shape, array.dtype)
    native.copy(result.ctypes.data, array.address, result.nbytes)
    return result


def from_host(call: str, value: np.ndarray[Any, Any], like: DeviceArray) -> Any:
    """A copy in memory of the GPU, as an array of the library of another one."""
    if like.library == "torch":
        return tensor_of(value).to(like.source.device)
    return _by_cupy(call, "asarray", value)


class _View:
    """Memory of the symmetric heap. It lives as long as an array that was made of it."""

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._lease = memory.lease()
        self.__cuda_array_interface__ = {
            "data": (memory.address(), False),
            "shape": shape,
            "typestr": "<i2" if dtype == BF16 else dtype.str,
            "version": 3,
            "stream": None,
        }


def view(call: str, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], library: str | None) -> Any:
    """The memory of a distributed array, as an array of a library: "cupy", "torch", or `None` for what there is.
    Elements of bfloat16 are a tensor."""
    if dtype != BF16 and (library or _preferred()) == "cupy":
        return _by_cupy(call, "asarray", _View(memory, shape, dtype))
    torch = _torch(call)
    found = torch.as_tensor(_View(memory, shape, dtype), device=f"cuda:{native.device()}")
    return found.view(torch.bfloat16) if dtype == BF16 else found


@functools.cache
def _preferred() -> str:
    """The library of new arrays of a GPU."""
    try:
        importlib.import_module("cupy")
    except ImportError:
        return "torch"
    return "cupy"


def _torch(call: str) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as e:
        raise Error(f"gravel.{call}: arrays of a GPU need CuPy or PyTorch, and neither is installed") from e


def _by_cupy(call: str, function: str, *arguments: Any) -> Any:
    """An array that a function of CuPy makes in the memory of the PE's GPU, whichever is current."""
    try:
        cupy: Any = sys.modules.get("cupy") or importlib.import_module("cupy")
    except ImportError as e:
        raise Error(f"gravel.{call}: this needs CuPy, which is not installed ({e}): pass tensors of PyTorch") from e
    with cupy.cuda.Device(native.device()):
        return getattr(cupy, function)(*arguments)
