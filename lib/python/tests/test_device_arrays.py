"""What the package reads of arrays of other libraries. Here they lie in memory of the host: the properties are the
same."""

from __future__ import annotations

import numpy as np
import pytest

from gravel._device import DeviceArray, empty_like, full_like


class Described:
    """An array of a library that only has ``__cuda_array_interface__``."""

    def __init__(self, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = dict(array.__array_interface__)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "f2", "u1", "?"])
@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a,
        lambda a: a[2:],
        lambda a: a[:, 0],
        lambda a: a[::2],
        lambda a: a.T,
        lambda a: a[0:0],
        lambda a: a[0, 1],
        lambda a: a[1:2, ::2][:, :1],
    ],
)
@pytest.mark.parametrize("library", ["torch", "other"])
def test_read(library, dtype, cut):
    whole = np.zeros((6, 4), dtype)
    array = cut(whole)
    if not isinstance(array, np.ndarray):  # one element
        array = whole[0, 1, ...]
    source = Described(array)
    if library == "torch":
        torch = pytest.importorskip("torch")
        source = cut(torch.from_numpy(whole))
    found = DeviceArray(source)
    assert (found.dtype, found.shape, found.size) == (array.dtype, array.shape, array.size)
    assert found.is_contiguous == array.flags.c_contiguous and found.gpu == -1
    if array.size:
        assert found.address == array.ctypes.data
        if not found.is_contiguous:
            assert found.strides == array.strides


def test_no_dtype_of_numpy():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="NumPy has no dtype for torch.bfloat16"):
        DeviceArray(torch.zeros(3, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "?"])
def test_new_tensors(dtype):
    torch = pytest.importorskip("torch")
    like, dtype = DeviceArray(torch.zeros((2, 3))), np.dtype(dtype)
    assert DeviceArray(empty_like("call", like, (4, 5), dtype)).shape == (4, 5)
    ones = full_like("call", like, dtype, 1)
    assert DeviceArray(ones).dtype == dtype and ones.numpy().tolist() == [[1] * 3] * 2
    with pytest.raises(TypeError, match="PyTorch has no dtype for"):
        empty_like("call", like, (1,), np.dtype("m8[s]"))


def test_gradient():
    """A tensor that requires a gradient is read as one that does not."""
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3, requires_grad=True)
    assert DeviceArray(tensor).address == tensor.data_ptr()
