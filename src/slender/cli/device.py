"""--device: where a command computes; by default on a GPU if there is one and it gains."""

from typing import Annotated, Any

from .options import of_data

AUTO = "auto"
HELP = (
    "Where to compute: cpu, torch:cpu, cuda, cuda:1, or auto: on a GPU if torch sees one and the "
    "problem is large enough to gain."
)
Device = Annotated[str, of_data("--device", metavar="NAME", help=HELP)]


def check_asked(device: str, here: bool = True) -> str:
    """Raise before the work starts if there is no such device; `here`: on this machine."""
    from ..places import CPU, check_device, torch_device

    if device == AUTO:
        return device
    try:
        check_device(device)
    except ValueError as error:
        raise ValueError(f"{error}; or auto, to choose one by the size of the problem") from None
    if device != CPU and here:
        torch_device(device)
    return device


def fits_on(model: Any, asked: str, data: Any, spreads: bool) -> tuple[str, str | None]:
    """Set the device of an estimator to be fitted; what it is, in words.

    If the rows go to workers (`spreads`), the second is the device of each of them: the one that
    was asked for, since nobody here knows what they have.
    """
    if not spreads:
        classes = _number_of_classes(data[1]) if asked == AUTO else 1  # which asks how large it is
        return computes_on(model, asked, data[0], classes), None
    of_each = None if asked in (AUTO, "cpu") else asked
    return ("cpu" if of_each is None else f"{of_each} of every worker"), of_each


def computes_on(model: Any, asked: str, X: Any, classes: int, passes: int | None = None) -> str:
    """Set the device of an estimator; returns what it is, in words.

    `passes` are the products of all rows with the weights; None: those of a typical fit.
    """
    from ..estimators.placing import refusal
    from ..places import CPU, PASSES, chosen, described, torch_device

    if not model.on_device:
        if asked not in (AUTO, CPU):
            raise refusal(model, f"device={asked!r}")
        return CPU
    name = None if asked == CPU else asked
    if asked == AUTO:
        n, d = X.shape
        dense = not hasattr(X, "indptr")  # a GPU computes on dense rows
        name = chosen(n, d, classes, passes or 2 * PASSES) if dense else None
    model.set_params(device=name)
    return described(None if name is None else torch_device(name))


def _number_of_classes(y: Any) -> int:
    """Of labels, one per row, or of an indicator matrix."""
    import numpy as np

    return int(y.shape[1]) if y.ndim == 2 else len(np.unique(y))
