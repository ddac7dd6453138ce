"""Kernels and handlers of the program, in CUDA C++, compiled when the program runs."""

from __future__ import annotations

import math
import operator
import os
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _backend, _checks, _collectives, _device, _kernel_cache
from ._array import Array
from ._backend import Error, native
from ._device import DeviceArray
from ._job import at_start, check_joined, check_may_join, is_joined, kernels_of_job

# The order is that of `enum class value_kind` in src/kernel_library.hpp.
KINDS = ("handle", "pointer", "signed", "unsigned", "real", "bool", "bytes")
_HANDLE, _POINTER, _SIGNED, _UNSIGNED, _REAL, _BOOL, _BYTES = range(7)
_INTEGERS = {(kind, 1 << i): code for kind, codes in ((_SIGNED, "bhiq"), (_UNSIGNED, "BHIQ"))
             for i, code in enumerate(codes)}  # of module struct; fmt: skip
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_KINDS_OF_DTYPES = {"i": _SIGNED, "u": _UNSIGNED, "f": _REAL, "b": _BOOL}
_NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S
)
_ATTRIBUTE = re.compile(r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)")
_KERNEL = re.compile(r"(?P<template>\btemplate\s*<[^;{}]*>[\w\s]*)?\b__global__\b[\s\w]*?(?P<name>\w+)\s*\(")


class _Parameter:
    """A parameter of a kernel, and the context of a handler. ``value(argument)`` is what module struct packs. Arrays of
    other libraries must have been through `_checks.as_array`."""

    def __init__(self, call: str, name: str, type: native.Type, is_on_host: bool = False) -> None:
        self.call, self.name, self._is_on_host = call, name, is_on_host
        self.kind, self._size, self._to, self._to_size, self._is_const = type
        self._known: set[np.dtype[Any]] = set()  # types of elements that fit
        self.value: Callable[[Any], Any]
        if self.kind == _POINTER:
            code, self.value = "Q", self._address
        elif self.kind in (_SIGNED, _UNSIGNED):
            code, self.value = _INTEGERS[self.kind, self._size], self._integer
            self._low = 0 if self.kind == _UNSIGNED else -(1 << 8 * self._size - 1)
            self._high = self._low + (1 << 8 * self._size) - 1
        elif self.kind == _REAL:
            code, self.value = "f" if self._size == 4 else "d", self._real
        elif self.kind == _BOOL:
            code, self.value = "?", self._bool
        else:
            code, self.value = f"{self._size}s", self._bytes_of
        self.format = f"{code}{-self._size % 8}x"  # each value takes a multiple of 8 bytes

    @property
    def text(self) -> str:
        """The type, for messages."""
        if self.kind == _POINTER:
            const = "const " if self._is_const else ""
            return f"{const}{_text_of(self._to, self._to_size)}*"
        return _text_of(self.kind, self._size)

    def _bytes_of(self, argument: Any) -> bytes:
        contents = argument.tobytes() if isinstance(argument, (np.ndarray, np.generic)) else argument
        if not isinstance(contents, bytes) or len(contents) != self._size:
            raise self._wrong(argument, f"pass bytes, or a value of a NumPy dtype, of {self._size} bytes")
        return contents

    def _bool(self, argument: Any) -> bool:
        if not isinstance(argument, (bool, np.bool_)):
            raise self._wrong(argument, "pass True or False")
        return bool(argument)

    def _real(self, argument: Any) -> float:
        if not isinstance(argument, (float, int, np.floating, np.integer)) or isinstance(argument, bool):
            raise self._wrong(argument, "pass a number")
        number = float(argument)
        if self._size == 4 and _LARGEST_FLOAT < abs(number) < math.inf:
            raise OverflowError(f"{self.call}: {self.name} is {number}, and its type is float")
        return number

    def _integer(self, argument: Any) -> int:
        try:
            number = operator.index(argument)
        except TypeError:
            raise self._wrong(argument, "pass an int") from None
        if not self._low <= number <= self._high:
            limits = f"{self._low} to {self._high}"
            raise OverflowError(f"{self.call}: {self.name} is {number}, and its type is {self.text}: {limits}")
        return number

    def _address(self, argument: Any) -> int:
        if argument is None:
            return 0
        if isinstance(argument, Array):
            self._check_elements(argument, argument.dtype)
            self._check_place(True)
            return argument.memory(self.call).address()
        if not isinstance(argument, (np.ndarray, DeviceArray)):
            raise self._wrong(argument, "pass an array or a tensor, or None for a null pointer")
        self._check_elements(argument, argument.dtype)
        _checks.contiguous(self.call, self.name, argument)
        is_on_gpu = isinstance(argument, DeviceArray)
        self._check_place(is_on_gpu)
        if not self._is_const and (argument.is_readonly if is_on_gpu else not argument.flags.writeable):
            raise ValueError(f"{self.call}: {self.name} is read-only, and its type is {self.text}")
        return int(argument.address if is_on_gpu else argument.ctypes.data)

    def _check_place(self, is_on_device: bool) -> None:
        if _backend.chosen() != "cuda" or is_on_device != self._is_on_host:
            return
        place, other = ("of the GPU", "in memory of the host") if is_on_device else ("of the host", "on the GPU")
        raise TypeError(f"{self.call}: {self.name} is in memory {place}: pass an array or tensor {other}")

    def _check_elements(self, argument: Any, dtype: np.dtype[Any]) -> None:
        if dtype in self._known:
            return
        if self._to == _BYTES:  # any elements, as many bytes as a number of the kernel's objects
            if self._to_size and int(np.prod(argument.shape)) * dtype.itemsize % self._to_size:
                raise self._wrong(argument, f"its size must be a multiple of {self._to_size} bytes")
            return
        is_same = _KINDS_OF_DTYPES.get(dtype.kind) == self._to
        if self._to == _POINTER:
            is_same = dtype.kind == "u"
        if self._to_size == 1 and dtype.kind in "iu":
            is_same = self._to in (_SIGNED, _UNSIGNED)  # char has a sign on some machines
        if not is_same or dtype.itemsize != self._to_size or not dtype.isnative:
            raise self._wrong(argument, "pass one whose elements have this type")
        self._known.add(dtype)

    def _wrong(self, argument: Any, advice: str) -> TypeError:
        got = f"{type(argument).__name__} of dtype {argument.dtype}" if hasattr(argument, "dtype") else repr(argument)
        return TypeError(f"{self.call}: {self.name} is {got:.80}, and its type is {self.text}: {advice}")


def _text_of(kind: int, size: int) -> str:
    if kind == _BYTES:
        return f"struct of {size} bytes" if size else "void"
    if kind in (_SIGNED, _UNSIGNED):
        return f"{'u' if kind == _UNSIGNED else ''}int{8 * size}_t"
    return {_POINTER: "pointer", _REAL: "float" if size == 4 else "double", _BOOL: "bool"}.get(kind, "gravel_t")


class Kernel:
    """A kernel of :class:`Kernels`. ``kernel[grid, block](arguments)`` starts it."""

    __slots__ = ("_of", "_number", "_name", "_parameters", "_values")

    def __init__(self, of: Kernels, number: int, name: str, names: Sequence[str], types: Any) -> None:
        self._of, self._number, self._name = of, number, name
        known = names if len(names) == len(types) else [f"parameter {i}" for i in range(len(types))]
        every = [_Parameter(name, known[i], type) for i, type in enumerate(types)]
        self._parameters = [parameter for parameter in every if parameter.kind != _HANDLE]
        self._values = struct.Struct("=" + "".join(parameter.format for parameter in self._parameters))

    def __getitem__(self, shape: Any) -> Launch:
        """``[grid, block]``, ``[grid, block, shared]`` or ``[grid, block, shared, stream]``.

        grid: blocks: an int, or up to three.
        block: threads of a block: an int, or up to three.
        shared: bytes of dynamic shared memory of each block.
        stream: a stream of PyTorch or CuPy, or CUDA's handle as an int. Without it, it is the current stream of the
            library of the first argument on a GPU; otherwise that of PyTorch or CuPy, if they are in use.
        """
        if not isinstance(shape, tuple) or not 2 <= len(shape) <= 4:
            raise TypeError(f"{self._name}[grid, block, shared, stream]: pass two to four of them, not {shape!r}")
        grid, block = (_extents(self._name, what, shape[i]) for i, what in enumerate(("grid", "block")))
        shared = _size(self._name, "shared", shape[2]) if len(shape) > 2 else 0
        stream = _handle_of(self._name, shape[3]) if len(shape) > 3 and shape[3] is not None else None
        return Launch(self, grid, block, shared, stream, False)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{parameter.text} {parameter.name}" for parameter in self._parameters)
        return f"<gravel kernel {self._name}({parameters})>"

    def _launch(self, launch: Launch, arguments: tuple[Any, ...]) -> None:
        loaded = self._of._loaded_in_job(self._name)
        if len(arguments) != len(self._parameters):
            names = ", ".join(parameter.name for parameter in self._parameters)
            raise TypeError(f"{self._name} takes {len(self._parameters)} arguments ({names}), not {len(arguments)}")
        first: Any = None  # arrays of GPUs, and one of another library
        other: Any = None
        values = []
        for parameter, argument in zip(self._parameters, arguments):
            if parameter.kind == _POINTER and not isinstance(argument, Array):
                argument = _checks.as_array(self._name, parameter.name, argument)
                if isinstance(argument, DeviceArray):
                    first = argument if first is None else first
                    other = argument if argument.library != first.library else other
            values.append(parameter.value(argument))
        stream = launch.stream
        if stream is None:
            stream = _device.stream_of(first, other) if first is not None else _device.current_stream()
        packed = self._values.pack(*values)
        loaded.launch(self._number, launch.grid, launch.block, launch.shared, stream, launch.is_cooperative, packed)


class Launch:
    """A kernel with its grid and block: call it with the kernel's arguments."""

    __slots__ = ("_kernel", "grid", "block", "shared", "stream", "is_cooperative")

    def __init__(self, kernel: Kernel, grid: Any, block: Any, shared: int, stream: Any, is_cooperative: bool) -> None:
        self._kernel, self.grid, self.block, self.shared, self.stream = kernel, grid, block, shared, stream
        self.is_cooperative = is_cooperative

    def cooperative(self) -> Launch:
        """The same, but all blocks run at the same time, and may wait for each other."""
        return Launch(self._kernel, self.grid, self.block, self.shared, self.stream, True)

    def __call__(self, *arguments: Any) -> None:
        """Starts the kernel with these arguments: all parameters but ``gravel_t``, which Gravel passes.

        On GPUs it returns at once, and the kernel runs in its stream. On the CPU backend it returns when the kernel has
        ended. :func:`quiet` and :func:`barrier` wait for the kernel, and until its messages are applied.

        Raises TypeError, ValueError or OverflowError, and starts nothing, if the arguments do not fit the parameters;
        :class:`Error` if the launch is not possible.
        """
        self._kernel._launch(self, arguments)


def _size(call: str, what: str, value: Any, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{call}: {what} is {value!r}: pass an int") from None
    if not least <= number < 1 << 32:
        raise ValueError(f"{call}: {what} is {number}: it is {least} to 2**32 - 1")
    return number


def _extents(call: str, what: str, value: Any) -> tuple[int, int, int]:
    sizes = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{call}: {what} has one to three extents, not {len(sizes)}")
    x, y, z = [_size(call, what, size, 1) for size in sizes] + [1] * (3 - len(sizes))
    return x, y, z


def _handle_of(call: str, stream: Any) -> int:
    if _backend.chosen() != "cuda":
        raise ValueError(f"{call}: the CPU backend has no streams of Python: pass None")
    for attribute in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        if hasattr(stream, attribute):
            return _device.handle_or_legacy(getattr(stream, attribute))
    return _device.handle_or_legacy(_size(call, "stream", stream) if not isinstance(stream, int) else stream)


class Kernels:
    """Kernels and handlers of the program, compiled from CUDA C++.

        walk = gr.Kernels(source, handlers=["visit"])
        gr.init(kernels=walk)
        walk.step[64, 256](table, ids, len(ids))

    source: the text of a C++ file, or the :class:`pathlib.Path` of one. It need not include ``<gravel/gravel.cuh>``.
        Its kernels (``__global__``) become attributes.
    handlers: the names of its types that active messages run. Handlers are registered when the job starts: such an
        object is made before :func:`init`, which gets it as ``kernels``; there is one in a job. Kernels without
        handlers can be made at any time.
    kernels: the kernels, if they are not just all ``__global__`` functions outside of namespaces that are no
        templates: ``["ns::step", "scale<float>"]``. ``walk["ns::step"]`` is a kernel of any name.
    options: of the compiler, such as ``["-O3", "-DDEPTH=4"]``.
    backend: as for :func:`init`, which it decides for.

    Compiles the source with the compiler that is there, g++ for the CPU backend and nvcc for GPUs, unless this user's
    cache has it: ``gravel/kernels`` in ``XDG_CACHE_HOME`` or ``~/.cache``. Of the PEs of a node one compiles. Before
    :func:`init` the call is not collective; afterwards it is, and an exception at one PE is one at all PEs.

    Raises :class:`Error` with the messages of the compiler, in which lines have the numbers of the source.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        handlers: Sequence[str] = (),
        *,
        kernels: Sequence[str] | None = None,
        options: Sequence[str] = (),
        backend: str | None = None,
    ) -> None:
        self._handlers = _names("handlers", handlers)
        if self._handlers and is_joined():
            raise Error(
                "gravel.Kernels: handlers are registered when the job starts: make this object before gravel.init, and "
                "pass it: gravel.init(kernels=...)"
            )
        check_may_join("Kernels")
        _backend.choose(backend)
        if is_joined():
            self._loaded = _together(lambda: self._compile(source, kernels, options))
        else:
            self._loaded, _ = self._compile(source, kernels, options)
            at_start(self._loaded.load)
        self._contexts: dict[str, Any] = {}
        names = {name: parameters for name, parameters, _ in _kernels_of(self._text)}
        self._kernels = {
            name: Kernel(self, number, name, names.get(_last(name), ()), types)
            for number, (name, types) in enumerate(self._loaded.kernels())
        }

    def _compile(self, source: Any, kernels: Any, options: Any) -> tuple[native.LoadedKernels, str]:
        folder = None
        if isinstance(source, os.PathLike):
            path = Path(source)
            self._text, name, folder = path.read_text(), str(path), str(path.resolve().parent)
        elif isinstance(source, str):
            self._text, name = source, "<source>"
        else:
            raise TypeError(f"gravel.Kernels: source is a text or a pathlib.Path, not {type(source).__name__}")
        found = [name for name, _, is_template in _kernels_of(self._text) if not is_template]
        names = list(dict.fromkeys(found)) if kernels is None else _names("kernels", kernels)
        if not names:
            raise ValueError("gravel.Kernels: the source has no kernel: __global__ void NAME(gravel_t g, ...)")
        text = _file_of(self._text, name, names, self._handlers)
        library, key = _kernel_cache.library_of(text, name, _texts("options", options), folder)
        self._library = library
        return native.LoadedKernels(str(library)), key

    def __getattr__(self, name: str) -> Kernel:
        try:
            return self.__dict__["_kernels"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_kernels", ()))
            raise AttributeError(f"there is no kernel {name!r}: {known}") from None

    def __getitem__(self, name: str) -> Kernel:
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    @property
    def library(self) -> Path:
        """The file of the compiled library. It may have functions for ``ctypes``: ``extern "C" GRAVEL_API``."""
        return self._library

    def set_context(self, handler: str, array: Any) -> None:
        """Sets the context of a handler that has ``using context = T;``, at this PE: the handler gets a pointer to the
        array with each message. Not collective. Call it at all PEs, then :func:`barrier`, and send only afterwards.

        handler: its name in ``handlers``.
        array: a distributed array, whose part at this PE is meant; or an array or tensor in memory of the device (of
            the host for a handler on the host). This object keeps it.
        """
        loaded = self._loaded_in_job("set_context")
        for number, (name, is_on_host, context) in enumerate(loaded.handlers()):
            if name != handler:
                continue
            if context is None:
                raise TypeError(f"set_context: handler {handler} has no context: using context = T;")
            parameter = _Parameter("set_context", f"context of {handler}", context, is_on_host)
            given = array if isinstance(array, Array) else _checks.as_array("set_context", "array", array)
            loaded.set_context(number, parameter.value(given))
            self._contexts[handler] = (array, given)
            return
        raise ValueError(f"set_context: there is no handler {handler!r}: {', '.join(self._handlers) or 'none at all'}")

    def for_init(self) -> native.LoadedKernels:
        """What :func:`init` needs. For the package."""
        if not self._handlers:
            raise ValueError("gravel.init: these kernels have no handlers: they work without being passed")
        return self._loaded

    def _loaded_in_job(self, call: str) -> native.LoadedKernels:
        """The native object, if the job knows the handlers."""
        check_joined(call)
        if self._handlers and kernels_of_job() is not self:
            raise Error(
                f"gravel: {call}: the job does not know the handlers {', '.join(self._handlers)}: pass these kernels "
                "to gravel.init(kernels=...)"
            )
        return self._loaded


def _names(what: str, names: Any) -> list[str]:
    found = _texts(what, names)
    for name in found:
        if not re.fullmatch(r"[A-Za-z_:][\w:<>, ]*", name):
            raise ValueError(f"gravel.Kernels: {what}: {name!r} is no name of C++")
    if len(set(found)) != len(found):
        raise ValueError(f"gravel.Kernels: {what}: a name occurs twice: {found}")
    return found


def _texts(what: str, texts: Any) -> list[str]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"gravel.Kernels: {what} is a list of texts, not {texts!r}")
    return list(texts)


def _last(name: str) -> str:
    """The name of a function without its namespaces and template arguments."""
    return name.partition("<")[0].rpartition(":")[2]


def _kernels_of(text: str) -> list[tuple[str, list[str], bool]]:
    """The kernels of a source: their names, those of their parameters, and whether they are templates."""
    code = _ATTRIBUTE.sub(" ", _NO_CODE.sub(" ", text))
    found = []
    for match in _KERNEL.finditer(code):
        depth, parameters, current = 0, [], ""
        for character in code[match.end() :]:
            depth += (character in "(<[{") - (character in ")>]}")
            if depth < 0 or (depth == 0 and character == ","):
                parameters.append(current)
                current = ""
                if depth < 0:
                    break
            else:
                current += character
        names = [re.findall(r"[A-Za-z_]\w*", parameter.partition("=")[0]) for parameter in parameters]
        found.append((match["name"], [words[-1] for words in names if words], bool(match["template"])))
    return found


def _file_of(source: str, name: str, kernels: Sequence[str], handlers: Sequence[str]) -> str:
    """What is compiled: the source, and behind it the tables of src/kernel_library.hpp."""
    of = "gravel::python"
    rows = ",\n".join(
        f'    {of}::entry_of("{kernel}", &{kernel},\n'
        f"        [](const {of}::launch_shape& gravel_shape, const char* gravel_values) {{\n"
        f"          {of}::launch(&{kernel}, gravel_shape, gravel_values);\n        }})"
        for kernel in kernels
    )
    load = f"[] {{ {of}::load({', '.join('&' + kernel for kernel in kernels)}); }}"
    table = join = "nullptr"
    handler_rows = ""
    if handlers:
        entries = ", ".join(f'{of}::handler_of<{handler}>("{handler}")' for handler in handlers)
        handler_rows = f"const {of}::handler_entry gravel_handlers[] = {{{entries}}};\n"
        table = "gravel_handlers"
        join = f"&{of}::join<{', '.join(handlers)}>"
    include = "handlers.cuh" if handlers else "kernels.cuh"
    file = name.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'#include "kernels.cuh"\n#include "{include}"\n#line 1 "{file}"\n{source}\n'
        f'#line 1 "<kernels and handlers of {_inside(file)}>"\n'
        f"namespace {{\nconst {of}::kernel_entry gravel_entries[] = {{\n{rows}}};\n{handler_rows}}}\n"
        f"extern \"C\" GRAVEL_API const {of}::kernel_library gravel_kernels{{GRAVEL_VERSION, gravel_entries, "
        f"{len(kernels)}, {table}, {len(handlers)},\n    {load}, {join}}};\n"
    )


def _inside(file: str) -> str:
    return file.strip("<>")


def _together(compile: Any) -> native.LoadedKernels:
    """Compiles and loads at all PEs. An exception at one of them is one at all."""
    loaded, key, error = None, "0", None
    try:
        loaded, key = compile()
        native.quiet()  # no kernel runs that waits for another one while these are loaded
        loaded.load()
    except Exception as e:  # noqa: BLE001 (raised below)
        error = e
    text = str(error).encode() if error else b""
    all_pes = _collectives.agree("Kernels", None, (len(text),), int(key[:15], 16))
    lengths, keys = all_pes[:, 4], all_pes[:, 5]
    if not lengths.any() and (keys != keys[0]).any():
        pe = int(np.flatnonzero(keys != keys[0])[0])
        raise ValueError(f"gravel.Kernels: the sources, options or compilers of PE 0 and PE {pe} differ")
    if lengths.any():
        pe = int(np.flatnonzero(lengths)[0])
        message = np.zeros(lengths[pe], np.uint8)
        if native.my_pe() == pe:
            message[:] = np.frombuffer(text, np.uint8)
        native.broadcast(message, pe)
        raise error or Error(f"gravel.Kernels: PE {pe}: {message.tobytes().decode(errors='replace')}")
    return loaded
