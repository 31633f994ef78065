"""Blocks of rows as tensors of torch, and the tensor that they are taken from.

A tensor stays where and as it is: float16, bfloat16, float32 or float64.  How its rows are
multiplied is in arithmetic.py; rows on the host, for a device, are in streamed.py.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..arrays import astype, like
from .arithmetic import Arithmetic, Halves, Plain, Split, ieee
from .base import Rows
from .block import Bad, Block
from .kernel import KernelRows

HALVES = ("float16", "bfloat16")


class TensorBlock(Block):
    """Rows of a tensor."""

    __slots__ = ("X", "_ready", "arithmetic")

    def __init__(self, X: Tensor, arithmetic: Arithmetic, dtype: np.dtype[Any]) -> None:
        self.X, self.arithmetic, self.dtype = X, arithmetic, dtype  # (rows, d), as stored
        self.shape = (X.shape[0], X.shape[1])
        self._ready: Split | None = None

    @property
    def ready(self) -> Split:
        """The rows as a pass multiplies them."""
        if self._ready is None:
            self._ready = self.arithmetic.ready(self.X)
        return self._ready

    @property
    def wide(self) -> Tensor:
        """The rows in the dtype of the computation."""
        return astype(self.X, self.dtype)

    def __matmul__(self, B: Any) -> Any:
        B = like(B, self.X, self.dtype)
        with ieee():
            if B.ndim == 1 or self.arithmetic.row_unit:
                return self.wide @ B
            return self.arithmetic.product(self.ready, B)

    def scores(self, B: Any) -> Any:
        """X B as a pass computes it, which may round the rows."""
        with ieee():
            return self.arithmetic.product(self.ready, like(B, self.X, self.dtype))

    def __rmatmul__(self, G: Any) -> Any:
        with ieee():
            return like(G, self.X, self.dtype) @ self.wide

    def __getitem__(self, rows: slice) -> "TensorBlock":
        return TensorBlock(self.X[rows], self.arithmetic, self.dtype)

    def product(self, B: Any, out: Any) -> None:
        out[:] = self @ B

    def add_product(self, G: Any, out: Any, scratch: Any = None) -> None:
        """out += Gᵀ X; halves are multiplied as such."""
        with ieee():
            self.arithmetic.add_product(self.ready, *self.arithmetic.residuals(G), out)

    def row_squares(self) -> Any:
        return self.wide.square().sum(dim=1)

    def column_squares(self) -> Any:
        return self.wide.square().sum(dim=0)

    def times_rows(self, factor: Any) -> "TensorBlock":
        return self._changed(self.wide * like(factor, self.X, self.dtype)[:, None])

    def scaled(self, scale: Any) -> "TensorBlock":
        return self._changed(self.wide * like(scale, self.X, self.dtype))

    def _changed(self, X: Tensor) -> "TensorBlock":
        return TensorBlock(X, Plain(self.dtype), self.dtype)

    def astype(self, dtype: Any) -> "TensorBlock":
        return TensorBlock(self.X, Plain(np.dtype(dtype)), np.dtype(dtype))

    def first_bad(self) -> Bad | None:
        good = torch.isfinite(self.X)
        if bool(good.all()):
            return None
        i, j = (~good).nonzero()[0].tolist()
        return i, j, float(self.X[i, j])

    def toarray(self) -> Any:
        return self.wide

    def kernel_rows(self) -> KernelRows:
        raise ValueError("this method computes on the CPU's cores, but the rows are a tensor")


class Store(Protocol):
    """Where rows come from: a tensor on the device, or rows on the host (streamed.py)."""

    shape: tuple[int, int]
    device: torch.device
    stored: torch.dtype
    resident: bool  # are the rows on the device?

    def block(self, lo: int, hi: int) -> Tensor:
        """Rows lo..hi on the device."""

    def gather(self, index: Any) -> Tensor:
        """The rows `index` on the device; a tensor if the rows are `resident`."""

    def chunks(self, index: Any, step: int) -> Iterator[tuple[int, int, Tensor]]:
        """All rows, or the rows `index`, so many at a time; a tensor if the rows are `resident`."""

    def where(self, i: int) -> str:
        """Where row i comes from, for messages."""


class Resident:
    """A tensor on its device; `source` are the rows of files that were sent there."""

    resident = True

    def __init__(self, X: Tensor, source: Rows | None = None) -> None:
        self.X, self.shape, self.source = X, (X.shape[0], X.shape[1]), source
        self.device, self.stored = X.device, X.dtype

    def block(self, lo: int, hi: int) -> Tensor:
        return self.X[lo:hi]

    def gather(self, index: Any) -> Tensor:
        return self.X[torch.as_tensor(index, device=self.device)]

    def chunks(self, index: Any, step: int) -> Iterator[tuple[int, int, Tensor]]:
        n = self.shape[0] if index is None else len(index)
        for lo in range(0, n, step):
            hi = min(lo + step, n)
            yield lo, hi, self.X[lo:hi] if index is None else self.X[index[lo:hi]]

    def where(self, i: int) -> str:
        return f"row {i}" if self.source is None else self.source.where(i)


def fastest(store: Store, dtype: np.dtype[Any]) -> Arithmetic:
    """Halves in one piece where a GPU has units for them, else the dtype of the computation."""
    name = str(store.stored).removeprefix("torch.")
    if store.device.type == "cuda" and name in HALVES:
        return Halves(name)
    if store.device.type == "cuda" and dtype == np.float32:
        return Halves("float16", wide=True)
    return Plain(dtype)
