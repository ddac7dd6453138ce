"""The operators torch.ops.gravel: operations on distributed arrays, for autograd and torch.compile.

Problem. PyTorch sees tensors alone. A distributed array is no tensor, and no PE has all of it.

Solution. An operator takes an array as two arguments. The *stand-in* is a tensor of shape ``(1, *array.row)``: it has
the array's dtype and the shape of a row, which is all that fake kernels need. The *number* names the array in a table
of this process, where the real kernel finds it. Numbers are not used twice, so the number of an array that was freed is
an error.

    gather(Tensor array, int number, Tensor index, Tensor? gradient) -> Tensor
    scatter_add, scatter_put, scatter_min, scatter_max(Tensor(a!) array, int number, Tensor index, Tensor values) -> ()
    add_gradient(int number, int call, Tensor index, Tensor values) -> Tensor

Order. The scatters say that they write the stand-in, though they do not. So a compiled graph keeps them, and keeps
their order with the gathers of the same array.

Gradients. An array may have a second one for its gradient, with the same number. Its stand-in is one element that
requires a gradient. So the backward pass of gather calls add_gradient, which adds to the rows where they lie. It
returns 0, the gradient of that stand-in: so a compiled backward graph keeps the call. A tensor without elements would
not do, because compilers leave out what computes it. Each call has a number of its own, because a compiler would merge
two equal calls into one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from .. import _checks, _job, _operations
from .._array import Array

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Whether this PyTorch can have the operators: 2.4 and later can. Older ones get functions that only autograd knows.
HAS_OPERATORS = hasattr(torch.library, "custom_op")


class Table(NamedTuple):
    """What a number names."""

    array: Array
    gradient: Array | None
    touched: Array | None  # 1 for each row to whose gradient something was added, one i4 each
    padding: int  # the row that gets no gradient; -1: none


_tables: dict[int, Table] = {}
_numbers = itertools.count()
_calls = itertools.count()


class Entry(NamedTuple):
    """How operators name an array: its number, its stand-in, and that of its gradient."""

    number: int
    array: torch.Tensor
    gradient: torch.Tensor | None


def add_table(table: Table) -> Entry:
    """Gives a number to a table."""
    for number in [number for number, old in _tables.items() if not old.array.is_open]:
        del _tables[number]
    number = next(_numbers)
    _tables[number] = table
    try:
        stand_in = table.array.tensor.new_zeros((1, *table.array.row))
    except TypeError as e:
        raise TypeError(
            f"gravel.torch: PyTorch {torch.__version__} has no tensors of dtype {table.array.dtype}: use gravel.gather "
            "and gravel.scatter_add, with NumPy arrays"
        ) from e
    return Entry(number, stand_in, None if table.gradient is None else stand_in.new_zeros(1).requires_grad_())


def _table(call: str, number: int) -> Table:
    _job.check_joined(call)
    table = _tables.get(number)
    if table is None:
        raise ValueError(f"gravel.torch.{call}: the array was freed")
    return table


def _gather(array: torch.Tensor, number: int, index: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    found: torch.Tensor = _operations.gather(_table("gather", number).array, index.contiguous())
    return found


def _add_gradient(number: int, call: int, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    table = _table("add_gradient", number)
    if table.gradient is None:
        raise ValueError("gravel.torch.add_gradient: the array has no gradient: pass one to gravel.torch.gather")
    row = table.array.row
    index, values = index.reshape(-1), values.reshape((-1, *row))
    if table.padding >= 0:
        counts = index != table.padding
        index, values = index[counts], values[counts]
    index = index.contiguous()
    _operations.scatter_add(table.gradient, index, values.contiguous())
    if table.touched is not None:
        _operations.scatter_put(table.touched, index, 1)
    return values.new_zeros(1)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, number, index, _ = inputs
    ctx.save_for_backward(index)
    ctx.number = number


def _gather_backward(context: Any, gradient: torch.Tensor) -> tuple[None, None, None, torch.Tensor | None]:
    if not context.needs_input_grad[3]:
        return None, None, None, None
    (index,) = context.saved_tensors
    return None, None, None, add_gradient(context.number, next(_calls), index, gradient)


def _scatter(call: str) -> Callable[[torch.Tensor, int, torch.Tensor, torch.Tensor], None]:
    def scatter(array: torch.Tensor, number: int, index: torch.Tensor, values: torch.Tensor) -> None:
        to = _table(call, number).array
        operands = values.item() if values.ndim == 0 else values.contiguous()
        getattr(_operations, call)(to, index.contiguous(), operands)

    return scatter


SCATTERS = _operations.OPERATIONS
gather_rows: Callable[..., torch.Tensor]
add_gradient: Callable[..., torch.Tensor]
_scatters: dict[str, Callable[..., None]] = {}

if HAS_OPERATORS:
    _gather_operator = torch.library.custom_op(
        "gravel::gather",
        _gather,
        mutates_args=(),
        schema="(Tensor array, int number, Tensor index, Tensor? gradient) -> Tensor",
    )
    _gather_operator.register_fake(
        lambda array, number, index, gradient: array.new_empty((*index.shape, *array.shape[1:]))
    )
    _gather_operator.register_autograd(_gather_backward, setup_context=_save_for_backward)
    torch.library.custom_op(
        "gravel::add_gradient",
        _add_gradient,
        mutates_args=(),
        schema="(int number, int call, Tensor index, Tensor values) -> Tensor",
    ).register_fake(lambda number, call, index, values: values.new_empty(1))
    for _call in SCATTERS:
        torch.library.custom_op(
            f"gravel::{_call}",
            _scatter(_call),
            mutates_args=("array",),
            schema="(Tensor(a!) array, int number, Tensor index, Tensor values) -> ()",
        ).register_fake(lambda array, number, index, values: None)
        _scatters[_call] = getattr(torch.ops.gravel, _call)
    gather_rows, add_gradient = torch.ops.gravel.gather, torch.ops.gravel.add_gradient
else:

    class _Gather(torch.autograd.Function):
        @staticmethod
        def forward(
            context: Any, array: torch.Tensor, number: int, index: torch.Tensor, gradient: torch.Tensor | None
        ) -> torch.Tensor:
            _save_for_backward(context, (array, number, index, gradient), None)
            return _gather(array, number, index, gradient)

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> tuple[None, None, None, torch.Tensor | None]:
            return _gather_backward(context, gradients[0])

    gather_rows, add_gradient = _Gather.apply, _add_gradient
    _scatters = {call: _scatter(call) for call in SCATTERS}


def _constant(function: _Function) -> _Function:
    """torch.compile calls the function once, and puts what it returns into the graph."""
    mark = getattr(getattr(torch, "compiler", None), "assume_constant_result", None)
    return function if mark is None else mark(function)


_of_arrays: dict[tuple[int, int], Entry] = {}


def _entry(call: str, array: Any, gradient: Any = None) -> Entry:
    """The entry of an array and its gradient; the same one each time."""
    _job.check_joined(f"torch.{call}")
    for what, given in (("array", array), ("gradient", gradient)):
        if not isinstance(given, Array) and (what == "array" or given is not None):
            raise TypeError(f"gravel.torch.{call}: {what} is a gravel.Array, not {type(given).__name__}")
    array.memory(call)  # refuses an array that was freed
    if gradient is not None:
        gradient.memory(call)
        if not _checks.is_floating(array.dtype) or (gradient.shape, gradient.dtype) != (array.shape, array.dtype):
            raise ValueError(
                f"gravel.torch.{call}: the array is {array!r}, and gradient {gradient!r}: both have the same shape, "
                "and the same type: f4, f8, f2 or bf16"
            )
    # The key stays right: _tables keeps the arrays, so nothing else gets their ids while the entry is there.
    for key, entry in list(_of_arrays.items()):
        if entry.number not in _tables or not _tables[entry.number].array.is_open:
            del _of_arrays[key]
    key = id(array), id(gradient)
    if key not in _of_arrays:
        _of_arrays[key] = add_table(Table(array, gradient, None, -1))
    return _of_arrays[key]


@_constant
def _number_of(call: str, array: Any, gradient: Any = None) -> int:
    return _entry(call, array, gradient).number


@_constant
def _stand_in_of(call: str, array: Any) -> torch.Tensor:
    return _entry(call, array).array


@_constant
def _gradient_of(call: str, array: Any, gradient: Any) -> torch.Tensor | None:
    return _entry(call, array, gradient).gradient


def check_index(call: str, stand_in: torch.Tensor, index: Any) -> None:
    if not isinstance(index, torch.Tensor):
        raise TypeError(f"gravel.torch.{call}: index is a tensor of integers, not {type(index).__name__}")
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"gravel.torch.{call}: index has dtype {index.dtype}: it is int32 or int64 (index.long())")
    _check_device(call, "index", stand_in, index)


def _check_values(call: str, stand_in: torch.Tensor, values: Any) -> None:
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"gravel.torch.{call}: values is a tensor, not {type(values).__name__}")
    if values.dtype != stand_in.dtype:
        raise TypeError(
            f"gravel.torch.{call}: values have dtype {values.dtype}, the array {stand_in.dtype}: pass "
            f"values.to({stand_in.dtype})"
        )
    _check_device(call, "values", stand_in, values)
    if torch.is_grad_enabled() and values.requires_grad:
        raise ValueError(f"gravel.torch.{call}: values require a gradient, which would be lost: pass values.detach()")


def _check_device(call: str, name: str, stand_in: torch.Tensor, tensor: torch.Tensor) -> None:
    if tensor.device != stand_in.device:
        raise TypeError(
            f"gravel.torch.{call}: {name} is on device {tensor.device}, the array on {stand_in.device}: pass "
            f"{name}.to('{stand_in.device}')"
        )


def gather(array: Array, index: torch.Tensor, gradient: Array | None = None) -> torch.Tensor:
    """``array[index[i]]`` for all `i`: :func:`gravel.gather` as an operator that autograd and torch.compile know.

    index: a tensor of integers (int32, int64) of any shape.
    gradient: an array like `array`. The backward pass adds the gradients of the rows to it. :func:`gravel.barrier`
        waits for those of all PEs. Without it the result has no gradient.
    """
    # The stand-in is that of the scatters, so a compiled graph keeps their order.
    stand_in = _stand_in_of("gather", array)
    check_index("gather", stand_in, index)
    if gradient is None:
        return gather_rows(stand_in, _number_of("gather", array), index, None)
    return gather_rows(stand_in, _number_of("gather", array, gradient), index, _gradient_of("gather", array, gradient))


def _scatter_by(call: str, array: Array, index: torch.Tensor, values: torch.Tensor) -> None:
    stand_in = _stand_in_of(call, array)
    check_index(call, stand_in, index)
    _check_values(call, stand_in, values)
    _scatters[call](stand_in, _number_of(call, array), index, values)


def scatter_add(array: Array, index: torch.Tensor, values: torch.Tensor) -> None:
    """``array[index[i]] += values[i]`` for all `i`: :func:`gravel.scatter_add` as an operator that torch.compile knows.

    index: a tensor of integers (int32, int64) of any shape.
    values: a tensor of the shape ``index.shape + array.row`` and of the array's dtype; or of shape (), for all `i`. It
        requires no gradient.
    """
    _scatter_by("scatter_add", array, index, values)


def scatter_put(array: Array, index: torch.Tensor, values: torch.Tensor) -> None:
    """``array[index[i]] = values[i]``. See :func:`scatter_add` and :func:`gravel.scatter_put`."""
    _scatter_by("scatter_put", array, index, values)


def scatter_min(array: Array, index: torch.Tensor, values: torch.Tensor) -> None:
    """``array[index[i]] = min(array[index[i]], values[i])``. See :func:`scatter_add` and :func:`gravel.scatter_min`."""
    _scatter_by("scatter_min", array, index, values)


def scatter_max(array: Array, index: torch.Tensor, values: torch.Tensor) -> None:
    """``array[index[i]] = max(array[index[i]], values[i])``. See :func:`scatter_add` and :func:`gravel.scatter_max`."""
    _scatter_by("scatter_max", array, index, values)
