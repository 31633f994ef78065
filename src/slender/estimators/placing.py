"""Where a call computes, and where its answers and fitted arrays go.

Rows are computed on where X is, or on the device that the estimator names (places.py).  Answers
are NumPy arrays; with scikit-learn's array API dispatch they are tensors where X is, and so are the
arrays of a model fitted to X.  `classes_` stays a NumPy array, because labels may be strings.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from ..arrays import is_tensor
from ..data.dask import computed
from ..data.sending import SMALL
from ..extras import need
from ..places import CPU, as_cupy, as_tensor, check_device, is_cupy, on_gpu, to_host, torch_device
from ..registry import ESTIMATORS
from ..rows import Rows

FLOATS = ("float16", "bfloat16", "float32", "float64")
MIDDLE = ("int16", "uint16")  # integers that float32 represents exactly
LABELS = ("classes_", "feature_names_in_")  # arrays that stay here


def host(values: Any) -> Any:
    """Labels or weights, of which n numbers are held here, from wherever they are."""
    return to_host(computed(values))


# -- rows ------------------------------------------------------------------------------------------


def place_of(estimator: Any, X: Any) -> Any:
    """The `torch.device` to compute on; None: here, by NumPy and compiled kernels."""
    if not getattr(estimator, "on_device", False):
        if on_gpu(X):
            raise refusal(estimator, f"X is on {where(X)}", "; or give X.cpu()")
        return None
    name = check_device(estimator.device)
    if name == CPU:
        return None
    if name is not None:
        return torch_device(name)
    if is_tensor(X) and X.device.type not in ("cpu", "cuda"):
        raise ValueError(f"X is on {X.device}, but slender computes on CUDA and CPU: give X.cpu()")
    return X.device if is_tensor(X) else None


def refusal(estimator: Any, why: str, instead: str = "") -> ValueError:
    """For estimators that have no form for a GPU."""
    able = [each.name for each in ESTIMATORS.values() if each.load().on_device]
    return ValueError(
        f"{why}, but {type(estimator).__name__} does not compute on a GPU; these do: "
        f"{', '.join(able)}{instead}"
    )


def where(X: Any) -> str:
    """The device of an array, for messages."""
    X = as_tensor(X)
    return str(X.device) if is_tensor(X) else CPU


def check_gradients(X: Any) -> None:
    """Raise an error for a tensor that is part of a graph, to which nothing would flow back."""
    if is_tensor(X) and X.requires_grad:
        raise ValueError("X requires gradients, which a fit does not pass on: give X.detach()")


def read_tensor(X: Any) -> Any:
    """X (n, d) as a tensor of floats that can be computed with; its memory is shared."""
    kind = str(X.dtype).removeprefix("torch.")
    if str(X.layout) != "torch.strided":
        raise ValueError("X is a sparse tensor; give X.to_dense(), or a SciPy CSR matrix")
    if X.is_complex():
        raise ValueError("Complex data not supported: X is a tensor of complex numbers")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D tensor of shape {tuple(X.shape)}")
    for axis, what in enumerate(("sample", "feature")):
        if X.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
                "required."
            )
    if kind in FLOATS:
        return X
    if kind in SMALL and X.is_cuda:
        return X.half()
    return X.float() if kind in (*SMALL, *MIDDLE) else X.double()


def check_workers(estimator: Any, X: Any) -> Any:
    """Rows on workers; an error if they are not on the device that the estimator names."""
    name = check_device(getattr(estimator, "device", None))
    if name is not None and name != (X.place or CPU):
        raise ValueError(
            f"device={name!r}, but X is on workers already: name the device when you send it "
            f"there, on_workers(X, device={name!r})"
        )
    return X


def check_one_place(estimator: Any, X: Any, X_val: Any) -> None:
    """Raise an error if held-out rows are elsewhere, and no device says where to bring both."""
    if check_device(getattr(estimator, "device", None)) is None and where(X) != where(X_val):
        raise ValueError(
            f"X is on {where(X)} but the rows of validation are on {where(X_val)}: give both on "
            f"one device, or name it (device='cuda')"
        )


# -- answers ---------------------------------------------------------------------------------------


def dispatched(X: Any) -> bool:
    """Shall the answers be where X is, because it is a tensor and scikit-learn says so?"""
    return get_config()["array_api_dispatch"] and (is_tensor(X) or is_cupy(X))


class Collected:
    """One answer per row, or several, kept as blocks of them come."""

    def __init__(self, X: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.cupy = is_cupy(X)
        self.there = as_tensor(X).device if dispatched(X) else None
        if self.there is None:
            self.array: Any = np.empty(shape, dtype)
        else:
            torch = need("torch", "A tensor")
            kind = getattr(torch, np.dtype(dtype).name)
            self.array = torch.empty(shape, dtype=kind, device=self.there)

    def keep(self, lo: int, hi: int, block: Any) -> None:
        """The answers of rows lo..hi."""
        self.array[lo:hi] = to_host(block) if self.there is None else tensor_on(self.there, block)

    def result(self) -> Any:
        """All of them, in the library of X."""
        return as_cupy(self.array) if self.cupy and self.there else self.array

    def named(self, classes: NDArray[Any]) -> Any:
        """The classes with these indices; strings, which no tensor holds, as a NumPy array."""
        if self.there is None or classes.dtype.kind not in "biuf":
            return classes[to_host(self.array)]
        self.array = tensor_on(self.there, classes)[self.array]
        return self.result()


# -- fitted arrays ---------------------------------------------------------------------------------


def arrays_of(model: Any) -> dict[str, Any]:
    """The fitted arrays of a model but its labels."""
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and name not in LABELS and hasattr(value, "__dlpack__")
    }


def moved(model: Any, convert: Callable[[Any], Any]) -> Any:
    """A copy of the model with its fitted arrays converted."""
    other = copy(model)
    for name, value in arrays_of(model).items():
        vars(other)[name] = convert(value)
    return other


def on_host(model: Any) -> Any:
    """The model, or a copy of it with NumPy arrays if it has tensors."""
    elsewhere = any(to_host(value) is not value for value in arrays_of(model).values())
    return moved(model, to_host) if elsewhere else model


def sender(there: Any) -> Callable[[Any], Any]:
    """A function that brings arrays to a `torch.device`, or to where X is, in X's library."""
    if is_cupy(there):
        return lambda array: as_cupy(to_host(array))
    device = getattr(there, "device", there)
    return lambda array: tensor_on(device, array)


def tensor_on(device: Any, array: Any, dtype: Any = None) -> Any:
    """A tensor there: a copy of an array of NumPy, of which some may not be written to."""
    array = as_tensor(array)
    if is_tensor(array):
        return array.to(device=device, dtype=dtype)
    return need("torch", "A tensor").tensor(np.asarray(array), dtype=dtype, device=device)


def check_same_home(model: Any, X: Any, method: str) -> None:
    """With dispatch, raise an error if X is not where the fitted arrays are, as scikit-learn does.

    Without dispatch the weights are brought to X.
    """
    if not get_config()["array_api_dispatch"] or not model.on_device:
        return
    check_is_fitted(model)
    home, there = (f"{_library(each)} on {where(each)}" for each in (next_array(model), X))
    if home != there:
        raise ValueError(
            f"Inputs passed to {type(model).__name__}.{method}() must use the same namespace and "
            f"the same device as those passed to fit(): X is of {there}, the model of {home}; "
            "move the model (model.to('cuda'), model.to('cpu')) or X"
        )


def next_array(model: Any) -> Any:
    """One of the fitted arrays."""
    return next(iter(arrays_of(model).values()))


def _library(array: Any) -> str:
    return "torch" if is_tensor(array) else "cupy" if is_cupy(array) else "numpy"


# -- weights, for rows to be multiplied by ---------------------------------------------------------


def to_rows(rows: Rows) -> Callable[[Any], Any]:
    """A function that brings weights to where these rows are computed on."""
    if rows.device is None:
        return to_host
    kind = getattr(need("torch", "A tensor"), rows.dtype.name)
    return lambda array: tensor_on(rows.device, array, kind)
