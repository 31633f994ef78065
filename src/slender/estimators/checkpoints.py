"""The checkpoint of an estimator's fit: what the result depends on, and where it is saved."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..places import kind_of
from ..rows import Rows
from ..rows.fingerprint import digest, fingerprint
from ..solvers.checkpoint import Checkpoint
from .placing import host
from .validation import check_positive, shown

EVERY = 60.0  # seconds
# They do not change what is fitted.  Held-out rows that are given count as data.
NOT_SETTINGS = ("callbacks", "checkpoint", "checkpoint_every", "device")
LONG = 16  # longer lists are compared by their digest


def checkpointed(
    estimator: Any,
    rng: np.random.Generator,
    rows: Rows,
    labels: Any,
    sample_weight: Any,
    **more: Any,
) -> AbstractContextManager[Checkpoint | None]:
    """The checkpoint that the settings of an estimator ask for; `more` are other arrays to compare.

    It must be entered before a random number is drawn.
    """
    folder, every = estimator.checkpoint, estimator.checkpoint_every
    check_positive("checkpoint_every", every, zero=True)
    if folder is None:
        if every != EVERY:
            raise ValueError(
                f"checkpoint_every={every} is not used without a checkpoint: "
                "give checkpoint='folder'"
            )
        return nullcontext()
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(f"checkpoint={shown(folder)} must be the name of a folder, or None")

    def data() -> dict[str, Any]:
        return {
            "shape": list(rows.shape),
            "rows": f"{rows.dtype} {fingerprint(rows)}",
            "labels": digest(labels, estimator.classes_),
            "weights": None if sample_weight is None else digest(host(sample_weight)),
            **{name.replace("_", " "): value for name, value in more.items()},
        }

    about = {
        "fit": {"estimator": type(estimator).__name__},
        "settings": {**settings(estimator), **place(estimator, rows)},
    }
    return Checkpoint(folder, float(every), about, data, rng)


def place(estimator: Any, rows: Rows) -> dict[str, str]:
    """Where it is computed, which a state belongs to; any of several GPUs can continue it.

    The parameter says less: device=None is where X is.
    """
    if not getattr(estimator, "on_device", False):
        return {}
    return {"device": kind_of(rows.device)}


def settings(estimator: Any) -> dict[str, Any]:
    """The parameters that change what is fitted, as JSON holds them."""
    params = estimator.get_params(deep=False)
    if isinstance(params.get("validation"), tuple):
        params["validation"] = "given rows"
    left_out = {*NOT_SETTINGS, *getattr(estimator, "may_be_raised", ())}
    return {name: described(value) for name, value in params.items() if name not in left_out}


def described(value: Any) -> Any:
    """A number or a word as it is; what is long, by its digest; an object by what it shows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): described(part) for key, part in value.items()}
    if hasattr(value, "__len__"):
        return [described(part) for part in value] if len(value) <= LONG else digest(value)
    shows = repr(value)
    return type(value).__name__ if " at 0x" in shows else shows
