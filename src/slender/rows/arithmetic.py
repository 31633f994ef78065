"""How rows on a device are multiplied: in the dtype of the computation, or in half precision.

Rows of float16 or bfloat16 are multiplied fastest as they are, by units that multiply two halves
and add up in float32.  The other factor, float32, is then written as a sum of halves,

    B = scale ( B_0 + B_1 / 2^s + B_2 / 2^2s ... )            s = bits of a half's significand

B_0 is B in half precision, B_1 what it misses, and so on; `scale`, a power of two, moves the
largest number of B to where halves have all their digits.  So there are no rounding errors except

* that of writing B as so many pieces: weights are rounded to what the pieces represent *before*
  the pass (`rounded`), and the pass is made there, so that it is exact for the weights it is for;
* that of residuals, `unit` relative to each entry, and `underflow` relative to the largest weight;
* those of the sums in float32, which a pass measures (device/summing.py).

problem/rounding.py counts the last two.  More pieces (`finer`) take as many more products.

Rows of float32 are written so as well, block by block, X = scale' ( X_0 + X_1 / 2^s ), if they
are `wide`: units for halves are so much faster.  What the pieces of X miss, `row_unit` relative to
each number, is in the errors that are measured: those of scores (problem/rounding.py) and of sums
(device/summing.py), both against the rows as they are.  Numbers that are tiny beside the largest of
their block lose more, `row_underflow` of that, which is counted: the block may not be measured.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..arrays import astype

# Bits of a significand, the hidden one included, and the smallest number as a power of two.
SIGNIFICAND = {"float16": 11, "bfloat16": 8}
SMALLEST = {"float16": -24, "bfloat16": -133}
FARTHEST = 100  # power of two by which a matrix is scaled, at most
EXACT = ("ieee", "none")  # settings of torch with which float32 keeps its digits
FP32_PRECISION = hasattr(torch.backends.cuda.matmul, "fp32_precision")  # torch 2.9 or newer
ROOM = 14  # the largest number becomes 2^ROOM or up to twice that: float16 ends at 2^16


Split = tuple[list[Tensor], Tensor | None]  # the pieces of a matrix, and its scale


@contextmanager
def ieee() -> Iterator[None]:
    """Products of float32 have all digits inside, also where torch is told to use TF32 or bfloat16.

    A proof counts on them.  What was set is set again afterwards.
    """
    kept: list[tuple[Any, str]] = []
    on_cpu: Any = getattr(torch.backends.mkldnn, "matmul", None)  # not in torch 2.8
    for backend in (torch.backends.cuda.matmul, on_cpu):
        precision = getattr(backend, "fp32_precision", "none")
        if precision not in EXACT:
            kept.append((backend, precision))
            backend.fp32_precision = "ieee"
    before = None if FP32_PRECISION else torch.get_float32_matmul_precision()
    if before not in (None, "highest"):
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        for backend, precision in kept:
            backend.fp32_precision = precision
        if before not in (None, "highest"):
            torch.set_float32_matmul_precision(before)


class Arithmetic(Protocol):
    """Products with a block of rows X (m, d) as it is stored."""

    @property
    def pieces(self) -> int:
        """Halves that the other factor is written as; 0: it stays as it is."""

    @property
    def shift(self) -> int:
        """Bits from one piece to the next."""

    @property
    def unit(self) -> float:
        """The relative rounding error of an entry of the other factor,"""

    @property
    def underflow(self) -> float:
        """and its absolute one, relative to the largest entry."""

    @property
    def row_unit(self) -> float:
        """The relative rounding error of a number of X,"""

    @property
    def row_underflow(self) -> float:
        """and its absolute one, relative to the largest number of a block."""

    def ready(self, X: Tensor) -> "Split":
        """X as it is multiplied: its pieces, and their scale, if it is not 1."""

    def product(self, X: "Split", B: Tensor) -> Tensor:
        """X B for B (d, m)."""

    def split(self, B: Tensor) -> "Split":
        """B (d, m) as it is multiplied: its pieces, and their scale, if it is not 1."""

    def unscaled(self, X: "Split", B: "Split") -> tuple[Tensor, Tensor | None]:
        """S and f with X B = f S; f is None if it is 1."""

    def rounded(self, B: Tensor) -> Tensor:
        """B as a product uses it."""

    def room(self, X: "Split", columns: int) -> list[Tensor] | None:
        """Room for the pieces of residuals (m, columns); None: they stay as they are."""

    def residuals(self, R: Tensor) -> Split:
        """Residuals as they are multiplied: their pieces, and their scale, if it is not 1."""

    def add_product(
        self, X: "Split", pieces: list[Tensor], scale: Tensor | None, out: Tensor
    ) -> None:
        """out += Rᵀ X for the R of these pieces."""

    def finer(self) -> "Arithmetic | None":
        """The next one with more digits in the same dtype; None if there is none."""


class Plain(NamedTuple):
    """Rows widened to the dtype of the computation, block by block."""

    dtype: np.dtype[Any]
    pieces: int = 0
    shift: int = 0
    unit: float = 0.0
    underflow: float = 0.0
    row_unit: float = 0.0
    row_underflow: float = 0.0

    def ready(self, X: Tensor) -> Split:
        return [astype(X, self.dtype)], None

    def product(self, X: Split, B: Tensor) -> Tensor:
        return X[0][0] @ B

    def split(self, B: Tensor) -> Split:
        return [B], None

    def unscaled(self, X: Split, B: Split) -> tuple[Tensor, Tensor | None]:
        return self.product(X, B[0][0]), None

    def rounded(self, B: Tensor) -> Tensor:
        return B

    def room(self, X: Split, columns: int) -> None:
        return None

    def residuals(self, R: Tensor) -> Split:
        return [R], None

    def add_product(
        self, X: Split, pieces: list[Tensor], scale: Tensor | None, out: Tensor
    ) -> None:
        out += pieces[0].T @ X[0][0]

    def finer(self) -> None:
        return None


class Halves(NamedTuple):
    """Rows in half precision, multiplied by a matrix in so many pieces.

    Or rows of float32 (`wide`) in as many pieces as the matrix.
    """

    half: str  # float16 or bfloat16
    pieces: int = 1
    wide: bool = False

    @property
    def shift(self) -> int:
        return SIGNIFICAND[self.half]

    @property
    def unit(self) -> float:
        return float(2.0 ** -(self.shift * self.pieces))

    @property
    def underflow(self) -> float:
        return float(2.0 ** (SMALLEST[self.half] - 1 - self.shift * (self.pieces - 1) - ROOM))

    @property
    def row_unit(self) -> float:
        return self.unit if self.wide else 0.0

    @property
    def row_underflow(self) -> float:
        return self.underflow if self.wide else 0.0

    def finer(self) -> "Halves | Plain | None":
        """With the digits of float32, nearly; for rows of float32, then with all of them."""
        pieces = -(-22 // self.shift)
        if self.pieces < pieces:
            return self._replace(pieces=pieces)
        return Plain(np.dtype(np.float32)) if self.wide else None

    def ready(self, X: Tensor) -> Split:
        half = getattr(torch, self.half)
        if not self.wide or X.dtype == half:
            return [X], None
        inverse = power_of_two(X) * 2.0**ROOM
        found = [torch.mul(X, inverse, out=torch.empty_like(X, dtype=half))]
        left = X * inverse if self.pieces > 1 else X
        for k in range(1, self.pieces):
            left = (left - found[-1]).mul_(2.0**self.shift)
            found.append(left.to(half))
        return found, inverse.reciprocal()

    def split(self, B: Tensor) -> tuple[list[Tensor], Tensor]:
        """Each piece is as large as the first."""
        inverse = power_of_two(B) * 2.0**ROOM
        return self._pieces(B * inverse), inverse.reciprocal()

    def product(self, X: Split, B: Tensor) -> Tensor:
        S, factor = self.unscaled(X, self.split(B))
        return S.mul_(factor)

    def unscaled(self, X: Split, B: Split) -> tuple[Tensor, Tensor]:
        scale = _times(X[1], B[1])
        assert scale is not None
        S = multiply(X[0][0], B[0][0])
        for j, k in self._others(X):
            S.add_(multiply(X[0][j], B[0][k]), alpha=2.0 ** (-self.shift * (j + k)))
        return S, scale

    def _others(self, X: Split) -> Iterator[tuple[int, int]]:
        """Which pieces of X and of the other factor are multiplied, beside the first ones."""
        for j in range(len(X[0])):
            yield from ((j, k) for k in range(self.pieces - j) if j + k)

    def rounded(self, B: Tensor) -> Tensor:
        pieces, scale = self.split(B)
        total = sum(piece.to(B.dtype) * 2.0 ** (-self.shift * k) for k, piece in enumerate(pieces))
        return total * scale

    def room(self, X: Split, columns: int) -> list[Tensor]:
        first = X[0][0]
        return [first.new_empty((first.shape[0], columns)) for _ in range(self.pieces)]

    def residuals(self, R: Tensor) -> Split:
        inverse = power_of_two(R) * 2.0**ROOM
        return self._pieces(R * inverse), inverse.reciprocal()

    def _pieces(self, B: Tensor) -> list[Tensor]:
        return pieces_of(B, self.pieces, getattr(torch, self.half), self.shift)

    def add_product(
        self, X: Split, pieces: list[Tensor], scale: Tensor | None, out: Tensor
    ) -> None:
        scale = _times(X[1], scale)
        for j, k in ((0, 0), *self._others(X)):
            G, power = multiply(pieces[k].T, X[0][j]), 2.0 ** (-self.shift * (j + k))
            out.add_(G if scale is None else G * scale, alpha=power)


def _times(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The product of two scales, either of which may be 1."""
    return b if a is None else a if b is None else a * b


def pieces_of(B: Tensor, count: int, half: Any, shift: int) -> list[Tensor]:
    """B (float32) as count tensors of `half`: B = B_0 + B_1 / 2^shift + ..."""
    found, left = [], B
    for _ in range(count):
        piece = left.to(half)
        found.append(piece)
        if len(found) < count:
            left = (left - piece.to(left.dtype)) * 2.0**shift
    return found


def power_of_two(B: Tensor) -> Tensor:
    """2^-k for the largest |B| in [2^k, 2^(k+1)), as a tensor: nobody waits for its value."""
    if not B.numel():
        return B.new_ones((), dtype=torch.float32)
    least, most = torch.aminmax(B)
    largest = torch.maximum(-least, most)
    exponent = torch.frexp(largest).exponent.clamp(-FARTHEST, FARTHEST)
    return torch.ldexp(torch.ones_like(largest), 1 - exponent)


def multiply(X: Tensor, B: Tensor) -> Tensor:
    """X B for halves, added up in float32."""
    if X.is_cuda:
        return torch.mm(X, B, out_dtype=torch.float32)
    return X.float() @ B.float()  # products of two halves are exact in float32
