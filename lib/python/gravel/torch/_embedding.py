"""Embedding tables that are distributed over the PEs."""

from __future__ import annotations

import gc
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .. import _array, _collectives, _job, _operations
from .._backend import native
from ._operators import Table, add_table, check_index, gather_rows
from ._optimizers import OPTIMIZERS, Settings

_DTYPES = {torch.float32: "f4", torch.float64: "f8"}


def _local(array: _array.Array) -> torch.Tensor:
    """This PE's part of an array as a tensor, without a copy."""
    return array.tensor


def _is_int(number: Any) -> bool:
    return hasattr(number, "__index__") and not isinstance(number, bool)


class Embedding(torch.nn.Module):
    """A table of `n` rows that is distributed over the PEs: ``torch.nn.Embedding`` for tables that no PE has alone.

    The forward pass gathers rows from anywhere, and the backward pass adds the gradients to :attr:`gradient` where the
    rows are. Both are one-sided: the PEs may look up different numbers of rows. :meth:`step` updates the rows by the
    gradients of all PEs. The program averages the gradients of other modules, as always. The table has no parameters:
    optimizers of PyTorch do not see it.

    n: the number of rows.
    width: the number of elements of a row.
    padding_idx: the row that gets no gradient, and begins as zeros. A negative number counts from the end.
    optimizer: a step updates the rows that were looked up since the last one; others stay as they are, and so does
        their state.

        - ``"sgd"``: stochastic gradient descent, without state.
        - ``"adagrad"``: ``torch.optim.Adagrad``, with a sum of squares for each element.
        - ``"rowwise_adagrad"``: as in TorchRec and FBGEMM, with one sum for each row, of the mean squares of its
          gradients.
        - ``"adam"``: as in FBGEMM, with two moments for each element. It is ``torch.optim.Adam`` for rows that are
          looked up in each step; the correction of the moments counts all steps.
        - ``"rowwise_adam"``: as FBGEMM's partial row-wise Adam, with a first moment for each element, and one second
          moment for each row, of the mean squares of its gradients.
    lr: the learning rate, also later as the attribute ``lr``.
    eps: what is added to the divisor. None: 1e-10 for Adagrad, 1e-8 for Adam.
    betas: how much of the moments a step of Adam keeps.
    std: rows begin as normal random numbers with this standard deviation, the same for the same `seed` and any number
        of PEs.
    dtype: ``torch.float32`` or ``torch.float64``.
    place: where rows, gradients and state lie, as for :func:`gravel.zeros`: ``"device"``, or ``"host"`` for tables that
        are larger than the memory of the GPUs.

    Collective, as :meth:`step`, :meth:`free` and ``load_state_dict`` are. Raises :class:`gravel.Error` if the memory
    does not suffice.
    """

    weight: _array.Array  #: the rows
    gradient: _array.Array | None  #: the sum of the gradients of all PEs since the last step; None: the table is frozen

    def __init__(
        self,
        n: int,
        width: int,
        *,
        padding_idx: int | None = None,
        optimizer: str = "sgd",
        lr: float = 0.01,
        eps: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        std: float = 1.0,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        place: str = "device",
    ) -> None:
        super().__init__()
        self._make(n, width, padding_idx, optimizer, lr, eps, betas, dtype, place, freeze=False)
        self._draw(std, seed)
        _job.barrier()  # no PE reads before all rows are drawn

    def _make(
        self,
        n: int,
        width: int,
        padding_idx: int | None,
        optimizer: str,
        lr: float,
        eps: float | None,
        betas: tuple[float, float],
        dtype: torch.dtype,
        place: str,
        freeze: bool,
    ) -> None:
        """Everything but the rows."""
        name = f"gravel.torch.{type(self).__name__}"
        _job.check_joined(f"torch.{type(self).__name__}")
        for what, number, least in (("n", n, 0), ("width", width, 1)):
            if not _is_int(number) or number < least:
                raise ValueError(f"{name}: {what} is {number!r}: it is an int, {least} or more")
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"{name}: optimizer {optimizer!r}: it is one of {', '.join(OPTIMIZERS)}")
        if dtype not in _DTYPES:
            raise TypeError(f"{name}: dtype {dtype}: it is torch.float32 or torch.float64")
        if padding_idx is not None and not (_is_int(padding_idx) and -n <= padding_idx < n):
            raise IndexError(f"{name}: padding_idx is {padding_idx}: the table has rows 0 to {n - 1}")
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ValueError(f"{name}: betas {betas}: each is 0 or more, and less than 1")
        self.padding_idx = None if padding_idx is None else operator.index(padding_idx) % n
        self.lr = lr
        self._optimizer = OPTIMIZERS[optimizer]
        self._settings = Settings(self._optimizer.eps if eps is None else eps, betas)
        self._steps = 0
        self._dtype = dtype
        self.weight = _array.empty((n, width), _DTYPES[dtype], place=place)
        self.gradient = None
        self._touched: _array.Array | None = None
        self._state: dict[str, _array.Array] = {}
        if not freeze:
            self.gradient = _array.zeros((n, width), _DTYPES[dtype], place=place)
            self._touched = _array.zeros(n, "i4")
            if self._optimizer.moments:
                self._state[self._optimizer.moments] = _array.zeros((n, width), _DTYPES[dtype], place=place)
            if self._optimizer.squares:
                of_row = 1 if self._optimizer.by_row else width
                self._state[self._optimizer.squares] = _array.zeros((n, of_row), _DTYPES[dtype], place=place)
        padding = -1 if self.padding_idx is None else self.padding_idx
        self._entry = add_table(Table(self.weight, self.gradient, self._touched, padding))

    def _draw(self, std: float, seed: int) -> None:
        """Each block of rows has a generator of its own, so that rows do not depend on the number of PEs."""
        rows_of_block = 1024
        local, begin, end = _local(self.weight), self.weight.begin, self.weight.end
        if std == 0:
            local.zero_()
            return
        for block in range(begin // rows_of_block, -(-end // rows_of_block)):
            first = block * rows_of_block
            drawn = np.random.default_rng((seed, block)).normal(0, std, (rows_of_block, *self.weight.row))
            low, high = max(begin, first), min(end, first + rows_of_block)
            local[low - begin : high - begin] = torch.from_numpy(drawn[low - first : high - first])
        if self.padding_idx is not None and begin <= self.padding_idx < end:
            local[self.padding_idx - begin] = 0

    @classmethod
    def from_pretrained(
        cls,
        rows: torch.Tensor,
        *,
        freeze: bool = True,
        padding_idx: int | None = None,
        optimizer: str = "sgd",
        lr: float = 0.01,
        eps: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        place: str = "device",
        **others: Any,
    ) -> Any:
        """A table of given rows. Collective.

        rows: this PE's part of them, of shape (k, width), float32 or float64. The table has the rows of all PEs in the
            order of the PEs. Each PE passes any number of rows; one PE may pass all of them.
        freeze: the table gets no gradients, and has no memory for them.
        others: as for the class: ``mode`` and ``include_last_offset`` of :class:`EmbeddingBag`.
        """
        _job.check_joined(f"torch.{cls.__name__}.from_pretrained")
        is_matrix = isinstance(rows, torch.Tensor) and rows.ndim == 2 and rows.dtype in _DTYPES
        shape = [rows.shape[0], rows.shape[1], list(_DTYPES).index(rows.dtype)] if is_matrix else [-1, -1, -1]
        shapes = _collectives.allgather(np.array(shape, np.int64))
        if (shapes[:, 1:] != shapes[0, 1:]).any() or (shapes < 0).any():
            mine = f"{tuple(rows.shape)}, {rows.dtype}" if isinstance(rows, torch.Tensor) else type(rows).__name__
            raise ValueError(
                f"gravel.torch.{cls.__name__}.from_pretrained: each PE passes a tensor of float32 or float64 of shape "
                f"(k, width), all of the same width and dtype. PE {_job.my_pe()} passes {mine}; by PE (k, width, "
                f"float64): {shapes.tolist()}"
            )
        table = cls.__new__(cls)
        torch.nn.Module.__init__(table)
        n = int(shapes[:, 0].sum())
        table._make(n, rows.shape[1], padding_idx, optimizer, lr, eps, betas, rows.dtype, place, freeze)
        table._set_up(**others)
        first = int(shapes[: _job.my_pe(), 0].sum())
        _operations.scatter_put(table.weight, np.arange(first, first + len(rows)), rows.detach().contiguous())
        _job.barrier()  # all rows are there
        return table

    def _set_up(self) -> None:
        """What a class has beside the table."""

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Rows of the table, in the shape ``index.shape + (width,)``.

        index: int32 or int64, 0 to n - 1.
        """
        return self._rows(index)

    def _rows(self, index: Any) -> torch.Tensor:
        entry = self._entry
        check_index(type(self).__name__, entry.array, index)
        return gather_rows(entry.array, entry.number, index, entry.gradient)

    def step(self) -> None:
        """Updates this PE's rows by the gradients that all PEs have added since the last step. Collective."""
        _job.barrier()  # all gradients are there, and all lookups have their rows
        if self.gradient is not None and self._touched is not None:
            self._steps += 1
            optimizer, arrays = self._optimizer, (self.weight, self.gradient, self._touched)
            state = (self._state[name] if name else None for name in (optimizer.moments, optimizer.squares))
            native.step(
                optimizer.number,
                *(array.memory("step") for array in arrays),
                *(None if array is None else array.memory("step") for array in state),
                self.lr, self._settings.eps, *self._settings.betas, self._steps,
            )  # fmt: skip
        _job.barrier()  # all rows are updated

    def free(self) -> None:
        """Frees the table. Collective. It cannot be used afterwards.

        Raises :class:`BufferError` at all PEs if one of them still uses a part of it, such as its ``state_dict()``: end
        that, and call again.
        """
        gc.collect()  # torch.save leaves cycles that refer to tensors
        for array in (self.weight, *self._state.values(), self.gradient, self._touched):
            if array is not None and array.is_open:
                array.free()

    def _arrays(self) -> dict[str, _array.Array]:
        return {"weight": self.weight, **self._state}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """This PE's part: its rows and their state, without a copy. ``part``: the number of rows of the table, which
        of them this part has, as begin and end, and how many steps were made."""
        super()._save_to_state_dict(destination, prefix, keep_vars)  # what a derived class has
        for name, array in self._arrays().items():
            destination[prefix + name] = _local(array)
        destination[prefix + "part"] = torch.tensor([self.weight.n, self.weight.begin, self.weight.end, self._steps])

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        keys = [prefix + name for name in (*self._arrays(), "part")]
        part = {key: state_dict[key] for key in keys if key in state_dict}
        missing_keys += [key for key in keys if key not in part]
        others = {key: value for key, value in state_dict.items() if key not in part}
        super()._load_from_state_dict(  # what a derived class has
            others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        try:
            self.load_parts([part] if part else [], prefix)
        except (TypeError, ValueError) as e:
            error_msgs.append(str(e))

    def load_parts(self, parts: Sequence[Mapping[str, Any]], prefix: str = "") -> None:
        """Loads what ``state_dict()`` returned at the PEs of a job, also of one with another number of PEs. Collective.

        parts: those that this PE has read, also none. Each part is read by one PE. All of them together have each row
            once.
        prefix: of the keys of this table, such as ``"user."`` in the state of a module that has it as ``user``.

        Raises :class:`ValueError` at all PEs if a part is not right, or if they do not have each row once. Then the
        table stays as it was.
        """
        name = f"gravel.torch.{type(self).__name__}"
        _job.check_joined(f"torch.{type(self).__name__}.load_parts")
        fault, ranges = "", []
        for part in parts:
            fault = fault or self._fault_of(part, prefix)
            if not fault:
                ranges.append(part[prefix + "part"].tolist()[1:])
        wrong = _collectives.allgather(int(bool(fault)))
        if wrong.any():
            raise ValueError(f"{name}: {fault or f'PE {int(wrong.argmax())} has a part that is not right'}")
        most = _collectives.max_all(len(ranges))
        if most == 0:
            return
        padded = np.full((most, 3), -1, np.int64)
        padded[: len(ranges)] = np.array(ranges, np.int64).reshape(-1, 3)
        found = sorted(r for r in _collectives.allgather(padded).reshape(-1, 3).tolist() if 0 <= r[0] < r[1])
        ends = [0, *(end for _, end, _ in found)]
        if [begin for begin, _, _ in found] != ends[:-1] or ends[-1] != self.weight.n:
            several = ", ".join(f"[{begin}, {end})" for begin, end, _ in found[:8])
            raise ValueError(
                f"{name}: the parts have rows {several}{', ...' if len(found) > 8 else ''}: together they must "
                f"have each of the {self.weight.n} rows once. Parts of another number of PEs: pass each of them to "
                "load_parts at one PE"
            )
        for part in parts:
            _, begin, end, _ = part[prefix + "part"].tolist()
            for key, array in self._arrays().items():
                _operations.scatter_put(array, np.arange(begin, end), part[prefix + key].detach().contiguous())
        self._steps = max([0, *(steps for _, _, steps in found)])
        _job.barrier()  # all rows are there

    def _fault_of(self, part: Mapping[str, Any], prefix: str) -> str:
        """What is wrong with a part; nothing: ''."""
        known = prefix + "part" in part
        header = part[prefix + "part"].tolist() if known and isinstance(part[prefix + "part"], torch.Tensor) else []
        if len(header) != 4:
            return f"there is no {prefix}part: it is what state_dict() of such a table returned"
        n, begin, end, _ = header
        if n != self.weight.n:
            return f"the part is of a table of {n} rows, and this one has {self.weight.n}"
        for name, array in self._arrays().items():
            tensor, wanted = part.get(prefix + name), (end - begin, *array.row)
            if not isinstance(tensor, torch.Tensor):
                return f"the part has no {prefix}{name}: the table that was saved has another optimizer"
            if tuple(tensor.shape) != wanted or tensor.dtype != self._dtype:
                return f"{prefix}{name} has shape {tuple(tensor.shape)}, {tensor.dtype}: {wanted}, {self._dtype}"
        return ""

    def extra_repr(self) -> str:
        weight = self.weight
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{weight.n}, {weight.row[0]}, here [{weight.begin}, {weight.end}), lr={self.lr}{padding}"


class EmbeddingBag(Embedding):
    """Sums, means or maxima of bags of rows: ``torch.nn.EmbeddingBag`` on a distributed table. See :class:`Embedding`.

    mode: ``"sum"``, ``"mean"`` or ``"max"``. Rows number `padding_idx` do not count.
    include_last_offset: `offsets` have one more number at the end, the number of indices.
    others: as for :class:`Embedding`.
    """

    def __init__(
        self, n: int, width: int, *, mode: str = "mean", include_last_offset: bool = False, **others: Any
    ) -> None:
        _check_mode(mode)
        super().__init__(n, width, **others)
        self._set_up(mode, include_last_offset)

    def _set_up(self, mode: str = "mean", include_last_offset: bool = False) -> None:
        _check_mode(mode)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self, index: torch.Tensor, offsets: torch.Tensor | None = None, per_sample_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """One row for each bag, of shape (bags, width).

        index: int32 or int64, 0 to n - 1: of shape (bags, k), or (all,) with `offsets`.
        offsets: where each bag begins in `index`, of its dtype.
        per_sample_weights: a factor for each index, of its shape and the table's dtype; for the mode ``"sum"``.
        """
        rows = self._rows(index)
        flat, rows = index.reshape(-1), rows.reshape(-1, rows.shape[-1])
        # The bags are of these rows, by their places. What is left out is a row of zeros behind them.
        places = torch.arange(flat.shape[0], dtype=index.dtype, device=index.device)
        left_out = None
        if self.padding_idx is not None:
            left_out = flat.shape[0]
            places = torch.where(flat == self.padding_idx, torch.full_like(flat, left_out), places)
            rows = torch.cat([rows, rows.new_zeros((1, rows.shape[1]))])
        return torch.nn.functional.embedding_bag(
            places.reshape(index.shape),
            rows,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=left_out,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode}"


def _check_mode(mode: str) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"gravel.torch.EmbeddingBag: mode {mode!r}: it is 'sum', 'mean' or 'max'")
