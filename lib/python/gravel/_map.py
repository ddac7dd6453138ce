"""Hash maps whose items are distributed over all PEs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _checks, _collectives, _device
from ._backend import chosen, native
from ._device import DeviceArray
from ._job import check_joined, is_joined

# The order is that of `enum class map_call` in src/map.hpp.
UPDATES = ("insert", "add", "erase")

_numbers = itertools.count()


class Map:
    """A hash map that is distributed over the PEs. An item is a key and its value, and a key occurs once. Collective:
    all PEs pass the same.

    key: the type of the keys: i4, u4, i8 or u8; or several integers with 4, 8 or 16 bytes together, such as ``"u8x2"``.
        Each number is a legal key.
    value: the type of the values: i4, u4, i8, u8, f4 or f8; or several numbers with 4, 8 or 16 bytes together, such as
        ``"f4x4"``. Nothing can be added to these.
    capacity: the number of items, of all PEs together, for which there is room.
    grow: whether collective insertions that would not fit make more room first. Of other insertions, and of maps that
        do not grow, a key that finds no room ends the job; see :meth:`reserve`.

    :meth:`insert`, :meth:`add` and :meth:`erase` are one-sided, and may run at the same time, from all PEs. In which
    order they reach a key is open. With ``collective=True`` all PEs call :meth:`insert`, :meth:`add` or :meth:`find`
    together, with any numbers of keys, also none; nothing else uses the map meanwhile, and a :func:`barrier` lies
    between one-sided calls and these. They are much faster if keys are many. While a PE calls :meth:`find`,
    :meth:`local_items` or :meth:`local_size`, no PE changes the map: a :func:`barrier` comes before, and another one
    behind.
    """

    __slots__ = ("_memory", "_number", "_key", "_key_row", "_value", "_value_row")

    def __init__(
        self, key: DTypeLike = "u8", value: DTypeLike = "u8", capacity: int = 0, *, grow: bool = True
    ) -> None:
        check_joined("Map")
        self._memory: native.MapMemory | None = None
        self._key, self._key_row = _checks.vector_type("Map", key)
        self._value, self._value_row = _checks.vector_type("Map", value)
        if self._key.kind == "f":
            raise TypeError(f"Map: keys of dtype {self._key}: they are i4, u4, i8 or u8")
        items = _capacity("Map", capacity)
        widths = [row[0] if row else 1 for row in (self._key_row, self._value_row)]
        types = _checks.code_of(self._key) << 16 | widths[0] << 8 | widths[1]
        _collectives.check_same("Map", _collectives.agree("Map", self._value, (items,), types))
        key_bytes = widths[0] * self._key.itemsize
        self._memory = native.MapMemory(key_bytes, _checks.code_of(self._value), widths[1], items, bool(grow))
        self._number = next(_numbers)

    @property
    def key(self) -> np.dtype[Any]:
        """The type of the keys."""
        return np.dtype((self._key, self._key_row))

    @property
    def value(self) -> np.dtype[Any]:
        """The type of the values."""
        return np.dtype((self._value, self._value_row))

    @property
    def capacity(self) -> int:
        """The number of items, of all PEs together, for which there is room."""
        return self._open("capacity").capacity()

    @property
    def is_open(self) -> bool:
        """False after :meth:`free`, and after :func:`finalize`."""
        return self._memory is not None and is_joined()

    def insert(self, keys: ArrayLike, values: Any, *, collective: bool = False) -> None:
        """Inserts items. A key that is there keeps its value. Of several values for one new key the map keeps one.

        keys: an array or tensor of the map's type of keys, of any shape; or a list. Keys of several numbers have one
            more dimension, the last one: two columns for ``"u8x2"``.
        values: an array or tensor of the map's type of values, one for each key; or one number for all. Values of
            several numbers have one more dimension, too.
        collective: all PEs insert together, and the map may grow. If it cannot, :class:`Error` is raised at all PEs,
            and nothing is inserted.

        Arrays are read as by :func:`scatter_add`; :func:`quiet` and :func:`barrier` wait until the map is changed.
        """
        self._update("insert", keys, values, collective)

    def add(self, keys: ArrayLike, values: Any, *, collective: bool = False) -> None:
        """Inserts items, or adds the values to those of keys that are there: afterwards each key has the sum of all its
        values. Integers wrap around. The map's values are single numbers. See :meth:`insert`."""
        if self._value_row:
            raise TypeError(f"Map.add: values of {_name(self._value, self._value_row)}: only single numbers are added")
        self._update("add", keys, values, collective)

    def erase(self, keys: ArrayLike) -> None:
        """Erases keys, if they are there. The room of an erased key serves this key alone, until :meth:`reserve` or
        :meth:`clear`. See :meth:`insert`."""
        self._update("erase", keys, None, False)

    def find(self, keys: ArrayLike, *, collective: bool = False) -> tuple[Any, Any]:
        """The values of keys, 0 where a key is not there; and for each key whether it is there. Both have one entry for
        each key, and are arrays of the library of `keys`. On a GPU they are there in the current stream of the library.

        collective: all PEs find keys together. If they are many for the size of the map, each PE copies the map first,
            and looks up its keys there.

        Nothing may change the map meanwhile.
        """
        memory = self._open("find")
        wanted = self._prepared("find", lambda: self._keys("find", keys), collective)
        shape = self._shape_of(wanted)
        on_gpu = isinstance(wanted, DeviceArray)
        if on_gpu:
            values = _device.full_like("Map.find", wanted, shape + self._value_row, self._value, 0)
            found = _device.full_like("Map.find", wanted, shape, np.dtype(bool), False)
            to = DeviceArray(values), DeviceArray(found)
        else:
            to = values, found = np.zeros(shape + self._value_row, self._value), np.zeros(shape, bool)
        stream = _device.stream_of(wanted, to[0])
        memory.find(*(_device.place_of(array) for array in (*to, wanted)), math.prod(shape), collective, stream)
        if on_gpu:
            return values, found
        return _checks.like("Map.find", keys, values), _checks.like("Map.find", keys, found)

    def local_items(self) -> tuple[Any, Any]:
        """Copies of the keys and values that this PE has, in any order: two NumPy arrays; on GPUs arrays of CuPy, or
        tensors if CuPy is not there. Nothing may change the map meanwhile."""
        memory = self._open("local_items")
        _device.synchronize()
        items = memory.local_size()
        parts = (self._key, self._key_row), (self._value, self._value_row)
        if chosen() == "cuda":
            keys, values = (_device.new("Map.local_items", (items, *row), dtype) for dtype, row in parts)
            _device.synchronize()  # what used this memory before has ended
            memory.copy_local(DeviceArray(keys).address, DeviceArray(values).address, items)
        else:
            keys, values = (np.empty((items, *row), dtype) for dtype, row in parts)
            memory.copy_local(keys, values, items)
        return keys, values

    def local_size(self) -> int:
        """The number of items that this PE has. Nothing may change the map meanwhile."""
        memory = self._open("local_size")
        _device.synchronize()
        return memory.local_size()

    def size(self) -> int:
        """The number of items of all PEs. Collective. All operations are applied before. ``len`` is the same."""
        return self._collective("size").size()

    __len__ = size

    def __bool__(self) -> bool:
        raise TypeError("a gravel.Map is neither true nor false: compare its size(), which is collective")

    def clear(self) -> None:
        """Erases all items. Collective. All operations are applied before, and all PEs may use the map afterwards."""
        self._collective("clear").clear()

    def reserve(self, capacity: int) -> None:
        """Makes room for `capacity` items, more or fewer than before, and frees that of erased keys. All items stay.
        Collective. While it runs, a PE needs memory for both.

        Raises :class:`Error` at all PEs, and the map is as before, if the map has more items or memory does not
        suffice.
        """
        self._open("reserve")
        items = _capacity("Map.reserve", capacity)
        self._collective("reserve", items).reserve(items)

    def free(self) -> None:
        """Frees the map. Collective. All operations on it are applied first. A map that is never freed stays until the
        end of the job."""
        memory = self._collective("free")
        self._memory = None
        memory.close()

    def _open(self, call: str) -> native.MapMemory:
        check_joined(f"Map.{call}")
        if self._memory is None:
            raise ValueError(f"gravel.Map.{call}: the map was freed")
        return self._memory

    def _collective(self, call: str, items: int = 1) -> native.MapMemory:
        memory = self._open(call)
        _device.synchronize()
        name = f"Map.{call}"
        _collectives.check_same(name, _collectives.agree(name, None, (items,), self._number))
        return memory

    def _keys(self, call: str, keys: Any) -> Any:
        """The keys as a contiguous array of the map's type, of the host or of a GPU."""
        name = f"Map.{call}"
        found = _checks.as_array(name, "keys", keys)
        if isinstance(found, (list, tuple)):
            found = _checks.converted(name, np.asarray(found), self._key, "keys")
        if not isinstance(found, (np.ndarray, DeviceArray)):
            raise TypeError(f"{name}: keys are an array or a list of integers, not {type(keys).__name__}")
        if found.dtype != self._key:
            raise TypeError(
                f"{name}: keys have dtype {found.dtype}, those of the map {self._key}: pass "
                f"keys.astype('{self._key.str[1:]}')"
            )
        row = tuple(found.shape[found.ndim - len(self._key_row) :])
        if row != self._key_row:
            raise ValueError(
                f"{name}: keys have shape {found.shape}: a key of {_name(self._key, self._key_row)} has "
                f"{self._key_row[0]} numbers, so this is the last dimension"
            )
        return _checks.contiguous(name, "keys", found)

    def _shape_of(self, keys: Any) -> tuple[int, ...]:
        """The shape without the numbers of a key."""
        return tuple(keys.shape[: keys.ndim - len(self._key_row)])

    def _prepared(self, call: str, prepare: Callable[[], Any], collective: bool) -> Any:
        """What `prepare` returns. If the call is collective, all PEs make it, and none of them has made a mistake."""
        if not collective:
            return prepare()
        name = f"Map.{call}"
        _collectives.check_same(name, _collectives.agree(name, None, (1,), self._number))
        return _collectives.together(name, prepare, "has made a mistake")

    def _update(self, call: str, keys: Any, values: Any, collective: bool) -> None:
        memory = self._open(call)
        changed, operands, shape = self._prepared(call, lambda: self._operands(call, keys, values), collective)
        memory.update(
            UPDATES.index(call), _device.place_of(changed), _device.place_of(operands), math.prod(shape), collective,
            _device.stream_of(changed, operands),
        )  # fmt: skip

    def _operands(self, call: str, keys: Any, values: Any) -> tuple[Any, Any, tuple[int, ...]]:
        """The keys, the values, and the shape of both without the numbers of one."""
        changed = self._keys(call, keys)
        operands, shape = changed, self._shape_of(changed)
        if call != "erase":
            name, names = f"Map.{call}", ("map", "keys")
            operands, one_value = _checks.values_array(name, values, self._value, shape, self._value_row, names)
            if one_value and isinstance(changed, DeviceArray):
                every = _device.full_like(name, changed, shape + self._value_row, self._value, operands[0].item())
                operands = DeviceArray(every)
            elif one_value:
                operands = np.full(shape + self._value_row, operands[0])
        return changed, operands, shape

    def __repr__(self) -> str:
        types = f"{_name(self._key, self._key_row)} to {_name(self._value, self._value_row)}"
        if self._memory is None or not self.is_open:
            return f"<gravel.Map of {types}, closed>"
        return f"<gravel.Map of {types}, room for {self._memory.capacity()} items>"


def _name(dtype: np.dtype[Any], row: tuple[int, ...]) -> str:
    """The name by which programs ask for a type of keys or values."""
    return dtype.str[1:] + (f"x{row[0]}" if row else "")


def _capacity(call: str, capacity: Any) -> int:
    items = _checks.element_count(call, capacity, "items")
    if items == 0:
        raise ValueError(f"{call}: a capacity of 0 items: it is at least 1")
    return items
