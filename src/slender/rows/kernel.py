"""Rows that a compiled kernel can read: dense, CSR or encoded, through four functions.

dot(X, i, w)        x_iᵀ w
scores(X, i, W, s)  s = W x_i
axpy(X, a, i, w)    w += a x_i
axpy_scaled(X, a, i, D, w)    w += a D x_i for a diagonal D
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from ..kernels import kernel
from ..overloads import method_of


class Dense(NamedTuple):
    """Dense rows."""

    data: NDArray[Any]  # (n, d)

    def dot(self, i: int, w: NDArray[Any]) -> Any:
        x = self.data[i]
        total = w.dtype.type(0)
        for j in range(len(w)):
            total += x[j] * w[j]
        return total

    def scores(self, i: int, W: NDArray[Any], s: NDArray[Any]) -> None:
        x = self.data[i]
        C, none = len(W), W.dtype.type(0)
        whole = C - C % 4
        for c in range(0, whole, 4):  # four at a time: a number of x is read once for four products
            w0, w1, w2, w3 = W[c], W[c + 1], W[c + 2], W[c + 3]
            s0, s1, s2, s3 = none, none, none, none
            for j in range(len(x)):
                s0 += x[j] * w0[j]
                s1 += x[j] * w1[j]
                s2 += x[j] * w2[j]
                s3 += x[j] * w3[j]
            s[c], s[c + 1], s[c + 2], s[c + 3] = s0, s1, s2, s3
        for c in range(whole, C):
            w0, s0 = W[c], none
            for j in range(len(x)):
                s0 += x[j] * w0[j]
            s[c] = s0

    def axpy(self, a: Any, i: int, w: NDArray[Any]) -> None:
        x = self.data[i]
        a = w.dtype.type(a)  # a float64 would turn the whole loop into float64
        for j in range(len(w)):
            w[j] += a * x[j]

    def axpy_scaled(self, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
        x = self.data[i]
        a = w.dtype.type(a)
        for j in range(len(w)):
            w[j] += a * D[j] * x[j]


class CSR(NamedTuple):
    """Compressed sparse rows."""

    data: NDArray[Any]  # (nnz,)
    indices: NDArray[Any]  # (nnz,) int32 or int64
    indptr: NDArray[Any]  # (n + 1,)

    def dot(self, i: int, w: NDArray[Any]) -> Any:
        total = w.dtype.type(0)
        for j in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[j] * w[self.indices[j]]
        return total

    def scores(self, i: int, W: NDArray[Any], s: NDArray[Any]) -> None:
        for c in range(len(W)):
            w, total = W[c], W.dtype.type(0)
            for j in range(self.indptr[i], self.indptr[i + 1]):
                total += self.data[j] * w[self.indices[j]]
            s[c] = total

    def axpy(self, a: Any, i: int, w: NDArray[Any]) -> None:
        a = w.dtype.type(a)
        for j in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[j]] += a * self.data[j]

    def axpy_scaled(self, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
        a = w.dtype.type(a)
        for p in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[p]
            w[j] += a * D[j] * self.data[p]


class Quantised(NamedTuple):
    """Product-quantised rows: part q of row i is centroid codes[i, q] of its codebook."""

    codes: NDArray[np.uint8]  # (n, n_sq)
    codebooks: NDArray[Any]  # (n_sq, 256, d_sq)

    def dot(self, i: int, w: NDArray[Any]) -> Any:
        code, size = self.codes[i], self.codebooks.shape[2]
        total = w.dtype.type(0)
        for q in range(len(code)):
            x, part = self.codebooks[q, code[q]], w[q * size : (q + 1) * size]
            for j in range(size):
                total += x[j] * part[j]
        return total

    def scores(self, i: int, W: NDArray[Any], s: NDArray[Any]) -> None:
        code, size = self.codes[i], self.codebooks.shape[2]
        for c in range(len(W)):
            w, total = W[c], W.dtype.type(0)
            for q in range(len(code)):
                x, part = self.codebooks[q, code[q]], w[q * size : (q + 1) * size]
                for j in range(size):
                    total += x[j] * part[j]
            s[c] = total

    def axpy(self, a: Any, i: int, w: NDArray[Any]) -> None:
        code, size = self.codes[i], self.codebooks.shape[2]
        a = w.dtype.type(a)
        for q in range(len(code)):
            x, part = self.codebooks[q, code[q]], w[q * size : (q + 1) * size]
            for j in range(size):
                part[j] += a * x[j]

    def axpy_scaled(self, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
        code, size = self.codes[i], self.codebooks.shape[2]
        a = w.dtype.type(a)
        for q in range(len(code)):
            x, first = self.codebooks[q, code[q]], q * size
            for j in range(size):
                w[first + j] += a * D[first + j] * x[j]


KernelRows = Dense | CSR | Quantised


def read_only(*arrays: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The same memory, to be read: kernels are compiled once for arrays and read-only maps."""
    for array in arrays:
        view = array.view()
        view.flags.writeable = False
        yield view


def dot(X: KernelRows, i: int, w: NDArray[Any]) -> Any:
    """x_iᵀ w."""
    return X.dot(i, w)


def scores(X: KernelRows, i: int, W: NDArray[Any], s: NDArray[Any]) -> None:
    """s = W x_i."""
    X.scores(i, W, s)


def axpy(X: KernelRows, a: Any, i: int, w: NDArray[Any]) -> None:
    """w += a x_i."""
    X.axpy(a, i, w)


def axpy_scaled(X: KernelRows, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
    """w += a D x_i."""
    X.axpy_scaled(a, i, D, w)


@overload(dot)
def _dot(X, i, w):  # type: ignore[no-untyped-def]
    method = method_of(X, "dot")
    return lambda X, i, w: method(X, i, w)


@overload(scores)
def _scores(X, i, W, s):  # type: ignore[no-untyped-def]
    method = method_of(X, "scores")
    return lambda X, i, W, s: method(X, i, W, s)


@overload(axpy)
def _axpy(X, a, i, w):  # type: ignore[no-untyped-def]
    method = method_of(X, "axpy")
    return lambda X, a, i, w: method(X, a, i, w)


@overload(axpy_scaled)
def _axpy_scaled(X, a, i, D, w):  # type: ignore[no-untyped-def]
    method = method_of(X, "axpy_scaled")
    return lambda X, a, i, D, w: method(X, a, i, D, w)


@kernel()
def add_rows(X, w, y, first, out):  # type: ignore[no-untyped-def]
    """out[y_i - first] += w_i x_i, where out has such a row."""
    for i in range(len(w)):
        c = y[i] - first
        if 0 <= c < len(out):
            axpy(X, w[i], i, out[c])
