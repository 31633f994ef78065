"""Arrays of NumPy and tensors of torch: what the algebra of a fit needs of both.

A fit computes where its rows are.  On this machine's cores its arrays are NumPy's; on a GPU they
are tensors of torch, and between two passes only scalars and a few vectors of length C leave it.
Code that serves both uses operators, the functions of `namespace(a)` (the array API) and those
below.  Dtypes are NumPy's everywhere; `astype` and `like` translate them.

torch is imported only where there is a tensor already.
"""

from typing import Any, TypeGuard

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

Array = Any  # an array of NumPy or a tensor of torch


def is_numpy(a: Any) -> TypeGuard[NDArray[Any]]:
    """Is it an array (or a number) of NumPy, not a tensor?"""
    return isinstance(a, np.ndarray | np.generic)


def is_tensor(a: Any) -> bool:
    """Is it a tensor of torch?  Does not import torch."""
    return any(each.__module__ == "torch" and each.__name__ == "Tensor" for each in type(a).__mro__)


def namespace(a: Array) -> Any:
    """The array API of a: NumPy's or torch's."""
    return array_api_compat.array_namespace(a)


def dtype_of(a: Array) -> np.dtype[Any]:
    """The dtype as NumPy names it."""
    return a.dtype if is_numpy(a) else np.dtype(str(a.dtype).removeprefix("torch."))


def to_numpy(a: Array) -> NDArray[Any]:
    """a in the memory of this machine; a itself if it is there."""
    return a if is_numpy(a) else np.asarray(a.detach().cpu().numpy())


def like(values: Any, a: Array, dtype: Any = None) -> Array:
    """`values` where a is: an array, or a tensor on the device of a."""
    if is_numpy(a):
        return np.asarray(to_numpy(values) if is_tensor(values) else values, dtype)
    if is_tensor(values):
        values = values.to(a.device)
    return namespace(a).asarray(values, dtype=_native(a, dtype), device=a.device)


def astype(a: Array, dtype: Any) -> Array:
    """a in another dtype; a itself if it has it."""
    return a.astype(dtype, copy=False) if is_numpy(a) else a.to(_native(a, dtype))


def zeros(shape: tuple[int, ...], a: Array, dtype: Any) -> Array:
    """Zeros where a is."""
    if is_numpy(a):
        return np.zeros(shape, dtype)
    return namespace(a).zeros(shape, dtype=_native(a, dtype), device=a.device)


def numbers(count: int, a: Array) -> Array:
    """0, 1, ..., count - 1, where a is."""
    return np.arange(count) if is_numpy(a) else namespace(a).arange(count, device=a.device)


def copy(a: Array) -> Array:
    return a.copy() if is_numpy(a) else a.clone()


def contiguous(a: Array) -> Array:
    """a with its numbers in C order; a itself if they are."""
    return np.ascontiguousarray(a) if is_numpy(a) else a.contiguous()


def received(value: Any) -> Any:
    """An array of a message, or a tuple with some, as kernels are compiled for it.

    It may begin anywhere in the message, and the message may be read-only.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(received, value))
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=("C", "A", "W"))
    return value


def set_diagonal(A: Array, a: Array) -> None:
    """Replace the diagonal of A."""
    if is_numpy(A):
        np.fill_diagonal(A, a)
    else:
        A.diagonal().copy_(a)


def largest(a: Array, count: int) -> Array:
    """Where the largest numbers of a are, in any order: so many, or all if there are fewer."""
    count = min(count, len(a))
    if is_numpy(a):
        return np.argpartition(a, len(a) - count)[len(a) - count :] if count else np.arange(0)
    return a.topk(count, sorted=False).indices


def bincount(place: Array, weights: Array, length: int) -> Array:
    """(length,) the sums of the weights at each place, in float64."""
    if is_numpy(place):
        return np.bincount(place, weights, length)
    return zeros((length,), weights, np.float64).index_add_(0, place, weights.double())


def inner(A: Array, B: Array) -> Any:
    """<A, B>; of tensors a tensor of no dimension, for which nobody waits."""
    return float(np.vdot(A, B)) if is_numpy(A) else (A * B).sum(dtype=_native(A, np.float64))


def dot(A: Array, B: Array) -> float:
    """<A, B> as a number."""
    return float(inner(A, B))


def sq_norm(A: Array) -> float:
    """‖A‖², summed in float64."""
    if is_numpy(A):
        return float(np.einsum("cd,cd->", A, A, dtype=np.float64))
    return dot(A, A)


def row_dots(A: Array, B: Array) -> Array:
    """(C,) <a_c, b_c> for rows of A and B (C, d)."""
    return np.einsum("cd,cd->c", A, B) if is_numpy(A) else (A * B).sum(axis=1)


def add_scaled(a: Any, X: Array, Y: Array) -> None:
    """Y += a X, in place, for a result of `inner`."""
    if is_numpy(X):
        get_blas_funcs("axpy", dtype=X.dtype)(X.reshape(-1), Y.reshape(-1), a=a)
    else:
        Y.addcmul_(X, a.to(X.dtype))


def column_stack(A: Array, b: Array) -> Array:
    """[A, b] (C, d + 1)."""
    return namespace(A).concat([A, b[:, None]], axis=1)


def _native(a: Array, dtype: Any) -> Any:
    """A dtype of NumPy as that of a's namespace."""
    return None if dtype is None else getattr(namespace(a), np.dtype(dtype).name)
