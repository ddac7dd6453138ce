"""Hash maps whose items are distributed over all PEs."""

from __future__ import annotations

import itertools
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

    key: the type of the keys: i4, u4, i8 or u8. Each number is a legal key.
    value: the type of the values: i4, u4, i8, u8, f4 or f8.
    capacity: the number of items, of all PEs together, for which there is room. A key that finds no room ends the job;
        see :meth:`reserve`.

    :meth:`insert`, :meth:`add` and :meth:`erase` are one-sided, and may run at the same time, from all PEs. In which
    order they reach a key is open. While a PE calls :meth:`find`, :meth:`local_items` or :meth:`local_size`, no PE
    changes the map: a :func:`barrier` comes before, and another one behind.
    """

    __slots__ = ("_memory", "_number", "_key", "_value")

    def __init__(self, key: DTypeLike = "u8", value: DTypeLike = "u8", capacity: int = 0) -> None:
        check_joined("Map")
        self._memory: native.MapMemory | None = None
        self._key, self._value = _checks.element_type("Map", key), _checks.element_type("Map", value)
        if self._key.kind == "f":
            raise TypeError(f"Map: keys of dtype {self._key}: they are i4, u4, i8 or u8")
        items = _capacity("Map", capacity)
        code = _checks.code_of(self._key)
        _collectives.check_same("Map", _collectives.agree("Map", self._value, (items,), code))
        self._memory = native.MapMemory(code, _checks.code_of(self._value), items)
        self._number = next(_numbers)

    @property
    def key(self) -> np.dtype[Any]:
        """The type of the keys."""
        return self._key

    @property
    def value(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._value

    @property
    def capacity(self) -> int:
        """The number of items, of all PEs together, for which there is room."""
        return self._open("capacity").capacity()

    @property
    def is_open(self) -> bool:
        """False after :meth:`free`, and after :func:`finalize`."""
        return self._memory is not None and is_joined()

    def insert(self, keys: ArrayLike, values: Any) -> None:
        """Inserts items. A key that is there keeps its value. Of several values for one new key the map keeps one.

        keys: an array or tensor of the map's type of keys, of any shape; or a list.
        values: an array or tensor of the map's type of values, with the shape of `keys`; or one number for all.

        Arrays are read as by :func:`scatter_add`; :func:`quiet` and :func:`barrier` wait until the map is changed.
        """
        self._update("insert", keys, values)

    def add(self, keys: ArrayLike, values: Any) -> None:
        """Inserts items, or adds the values to those of keys that are there: afterwards each key has the sum of all its
        values. Integers wrap around. See :meth:`insert`."""
        self._update("add", keys, values)

    def erase(self, keys: ArrayLike) -> None:
        """Erases keys, if they are there. The room of an erased key serves this key alone, until :meth:`reserve` or
        :meth:`clear`. See :meth:`insert`."""
        self._update("erase", keys, None)

    def find(self, keys: ArrayLike) -> tuple[Any, Any]:
        """The values of keys, 0 where a key is not there; and for each key whether it is there. Both have the shape of
        `keys`, and are arrays of its library. On a GPU they are there in the current stream of the library.

        Nothing may change the map meanwhile.
        """
        memory, wanted = self._open("find"), self._keys("find", keys)
        on_gpu = isinstance(wanted, DeviceArray)
        if on_gpu:
            values = _device.full_like("Map.find", wanted, self._value, 0)
            found = _device.full_like("Map.find", wanted, np.dtype(bool), False)
            to = DeviceArray(values), DeviceArray(found)
        else:
            to = values, found = np.zeros(wanted.shape, self._value), np.zeros(wanted.shape, bool)
        stream = _device.stream_of(wanted, to[0])
        memory.find(*(_device.place_of(array) for array in (*to, wanted)), wanted.size, stream)
        if on_gpu:
            return values, found
        return _checks.like("Map.find", keys, values), _checks.like("Map.find", keys, found)

    def local_items(self) -> tuple[Any, Any]:
        """Copies of the keys and values that this PE has, in any order: two NumPy arrays; on GPUs arrays of CuPy, or
        tensors if CuPy is not there. Nothing may change the map meanwhile."""
        memory = self._open("local_items")
        _device.synchronize()
        items = memory.local_size()
        if chosen() == "cuda":
            keys, values = (_device.new("Map.local_items", items, dtype) for dtype in (self._key, self._value))
            _device.synchronize()  # what used this memory before has ended
            memory.copy_local(DeviceArray(keys).address, DeviceArray(values).address, items)
        else:
            keys, values = np.empty(items, self._key), np.empty(items, self._value)
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
        Collective: this is how a map grows, between other calls. While it runs, a PE needs memory for both.

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
        return _checks.contiguous(name, "keys", found)

    def _update(self, call: str, keys: Any, values: Any) -> None:
        memory, changed = self._open(call), self._keys(call, keys)
        operands = changed
        if call != "erase":
            names = "map", "keys"
            operands, one_value = _checks.values_array(f"Map.{call}", values, self._value, changed.shape, (), names)
            if one_value and isinstance(changed, DeviceArray):
                operands = DeviceArray(_device.full_like(f"Map.{call}", changed, self._value, operands[0].item()))
            elif one_value:
                operands = np.full(changed.shape, operands[0])
        memory.update(
            UPDATES.index(call), _device.place_of(changed), _device.place_of(operands), changed.size,
            _device.stream_of(changed, operands),
        )  # fmt: skip

    def __repr__(self) -> str:
        types = f"{self._key.str[1:]} to {self._value.str[1:]}"
        if self._memory is None or not self.is_open:
            return f"<gravel.Map of {types}, closed>"
        return f"<gravel.Map of {types}, room for {self._memory.capacity()} items>"


def _capacity(call: str, capacity: Any) -> int:
    items = _checks.element_count(call, capacity, "items")
    if items == 0:
        raise ValueError(f"{call}: a capacity of 0 items: it is at least 1")
    return items
