"""How the probes choose a penalty by validation."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Examples, examples_of
from ..metrics import measure
from ..notices import warn
from ..rows import Rows, some_of
from ..rows.fingerprint import digest, fingerprint
from ..solvers.loop import Record
from ..solvers.path import Judge
from . import splits
from .placing import check_one_place, host
from .scorers import candidate, read_scorer, score
from .validation import check_finite, check_length, check_positive, read_rows, shown

REACH, VALUES = 1e3, 7  # how far past the edge of a grid to look, and with how many values
HALF = 0.5  # a standard error: figures of held-out rows that are nearer than this look the same
# What `select` may be beside scikit-learn's scorers: a figure of path_, and whether more is better.
SELECTORS = {
    "auto": ("log_loss", -1.0),  # among those of nearly the best top1
    "accuracy": ("top1", 1.0),
    "balanced_accuracy": ("mean_per_class", 1.0),
    "log_loss": ("log_loss", -1.0),
    "neg_log_loss": ("log_loss", -1.0),
}


class Labelled(NamedTuple):
    """Rows as they are fitted (scaled), with their classes."""

    rows: Rows
    class_index: NDArray[np.int32]  # (n,)
    classes: NDArray[Any]


Scaled = Callable[[Rows], Rows]  # other rows, scaled as those that are fitted


@dataclass(frozen=True)
class Choice:
    """Which rows are held out, and by which figure the penalty is chosen on them."""

    validation: Any
    shots: int | None
    refit: bool
    select: str

    def check(self) -> None:
        """Raise an error for an invalid setting."""
        if self.select not in (ours := tuple(SELECTORS)):
            read_scorer(self.select, ours)
        if self.shots is not None:
            check_positive("shots", self.shots, kind=Integral)
        if isinstance(self.validation, tuple):
            if len(self.validation) != 2:
                raise ValueError(
                    "validation must be a share, a number of folds, a pair (X_val, y_val) or a "
                    "splitter"
                )
        elif isinstance(self.validation, Integral):
            if isinstance(self.validation, bool) or self.validation < 2:
                raise ValueError(
                    f"validation={self.validation!r} must be a share between 0 and 1, or a number "
                    "of folds, at least 2"
                )
        elif isinstance(self.validation, Real) and not 0.0 < float(self.validation) < 1.0:
            raise ValueError(f"validation={self.validation!r} must lie between 0 and 1")
        if not self.refit and not self.one_part:
            raise several("refit=False")

    def check_place(self, estimator: Any, X: Any) -> None:
        """Raise an error if rows to validate on are given and are on another device than X."""
        if isinstance(self.validation, tuple):
            check_one_place(estimator, X, self.validation[0])

    @property
    def one_part(self) -> bool:
        """Is there one set of held-out rows, and not one per fold?"""
        share = isinstance(self.validation, Real) and not isinstance(self.validation, Integral)
        return share or isinstance(self.validation, tuple)

    def parts(
        self, X: Any, y: Any, groups: Any, examples: Labelled, rng: np.random.Generator
    ) -> list[splits.Cut]:
        """Which rows to fit on and which to validate on; one part, or one per fold."""
        class_index = examples.class_index
        everything = np.arange(len(class_index))
        if groups is not None and isinstance(self.validation, Real | tuple):
            raise ValueError(
                "groups are only used by a splitter: give validation=GroupKFold(5) or "
                "StratifiedGroupKFold(5)"
            )
        if isinstance(self.validation, tuple):
            parts = [splits.Cut(everything, everything[:0])]
        elif self.one_part:
            parts = [splits.stratified(class_index, float(self.validation), rng)]
        else:
            y, groups = host(y), host(groups)
            splitter = splits.splitter(self.validation, y, rng)
            X = X if hasattr(X, "__getitem__") else class_index  # a splitter needs their number
            parts = list(splits.folds(splitter.split(X, y, groups), class_index, examples.classes))
        if self.shots is None:
            return parts
        return [
            part._replace(train=splits.few(class_index, part.train, self.shots, rng))
            for part in parts
        ]

    def final_index(
        self, parts: list[splits.Cut], examples: Labelled, rng: np.random.Generator
    ) -> NDArray[np.intp]:
        """The rows that the chosen penalty is fitted to."""
        everything = np.arange(len(examples.class_index))
        one = len(parts) == 1
        if one and (self.shots is not None or not self.refit or isinstance(self.validation, tuple)):
            return parts[0].train
        if self.shots is None:
            return everything
        return splits.few(examples.class_index, everything, self.shots, rng)

    def held_out(
        self, estimator: Any, examples: Labelled, part: splits.Cut, scaled: Scaled
    ) -> Examples:
        """The held-out rows of this part, and their classes."""
        if isinstance(self.validation, tuple):
            held_out = self._given(estimator, examples, scaled)
        else:
            rows = some_of(examples.rows, part.held_out)
            held_out = _alike(rows, examples.class_index[part.held_out])
        C, d = len(examples.classes), examples.rows.shape[1]
        nothing = np.zeros((C, d), examples.rows.dtype), np.zeros(C)
        self._score(examples, held_out, *nothing)  # so that it raises before the work
        return held_out

    def fingerprints(self, estimator: Any, groups: Any) -> dict[str, str]:
        """What tells held-out rows and groups that are given from others."""
        if estimator.checkpoint is None:
            return {}  # nobody asks
        found = {} if groups is None else {"groups": digest(host(groups))}
        if isinstance(self.validation, tuple):
            X_val, y_val = self.validation
            found["held_out_rows"] = fingerprint(read_rows(estimator, X_val, once=True))
            found["held_out_labels"] = digest(host(y_val))
        return found

    def _given(self, estimator: Any, examples: Labelled, scaled: Scaled) -> Examples:
        X_val, y_val = self.validation
        rows = read_rows(estimator, X_val, beside=examples.rows, y=examples.classes)
        check_finite(rows)
        y_val, classes = np.asarray(host(y_val)), examples.classes
        check_length(len(y_val), rows.shape[0])
        place = np.minimum(np.searchsorted(classes, y_val), len(classes) - 1)
        unknown = np.flatnonzero(classes[place] != y_val)
        if len(unknown):
            raise ValueError(
                f"validation holds class {shown(y_val[unknown[0]])}, which no training row has; "
                "remove its rows"
            )
        return _alike(scaled(rows), place.astype(np.int32))

    def judge(self, examples: Labelled) -> Judge:
        """The function that computes all figures of a record from held-out rows, W and b."""

        def judged(held_out: Examples, W: NDArray[Any], b: NDArray[Any]) -> Record:
            return {**measure(held_out, W, b), **self._score(examples, held_out, W, b)}

        return judged

    def _score(
        self, examples: Labelled, held_out: Examples, W: NDArray[Any], b: NDArray[Any]
    ) -> Record:
        """The score of scikit-learn that `select` names; empty if it names one of SELECTORS."""
        if self.select in SELECTORS:
            return {}
        model = candidate(examples.classes, W, b)
        y = examples.classes[held_out.y]
        return {self.select: score(self.select, model, held_out.rows, y)}

    def best_of(self, path: list[Record]) -> int:
        """The index of the record to choose."""
        return best_of(path, self.select)


def _alike(rows: Rows, class_index: NDArray[np.int32]) -> Examples:
    """Examples that all count the same."""
    return examples_of(rows, class_index, np.ones(len(class_index)))


def several(what: str) -> ValueError:
    return ValueError(
        f"{what} needs one set of held-out rows, but every fold has its own: "
        "use validation=0.1 or (X_val, y_val)"
    )


def spread(first: float, last: float, number: int) -> NDArray[np.float64]:
    """`number` values, evenly spaced in their logarithm; a single value is the middle."""
    if number == 1:
        return np.array([np.sqrt(first * last)])
    return np.geomspace(first, last, number)


def read_values(name: str, given: Any) -> NDArray[np.float64]:
    """The values of a grid that the user gave, sorted, without duplicates."""
    values = np.atleast_1d(np.asarray(given, dtype=float))
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name}={given!r} must be a list of numbers")
    if not ((values > 0) & np.isfinite(values)).all():
        raise ValueError(f"{name}={given!r} must hold numbers > 0")
    return np.unique(values)


def warn_at_edge(name: str, row: list[Record], best: Record, given: bool) -> None:
    """Warn if the chosen record is the first or the last of `row`, whose records differ in `name`.

    For a grid that the user gave, always.  For our own grid, which is wide, only if the log loss
    still changes at that edge.
    """
    row = sorted(row, key=lambda record: record[name])
    if len(row) == 1 or (best is not row[0] and best is not row[-1]):
        return
    smaller, chosen = best is row[0], best[name]
    change = abs(best["log_loss"] - row[1 if smaller else -2]["log_loss"])
    if not given and change <= HALF * best["log_loss_error"]:
        return
    first, last = (chosen / REACH, chosen) if smaller else (chosen, chosen * REACH)
    which, other = ("smallest", "a smaller") if smaller else ("largest", "a larger")
    warn(
        f"{name}={chosen:.3g} is the {which} value tried, and {other} one may do better; "
        f"give {name}s=np.geomspace({first:.3g}, {last:.3g}, {VALUES})"
    )


def best_of(path: list[Record], select: str = "auto") -> int:
    """The index of the record to choose; the first one if several are equal.

    "auto": the lowest log loss among the records within HALF a standard error of the best top-1.
    Top-1 alone is noisy, and nearly constant over decades of C.  The log loss is more precise, and
    decides among values that top-1 cannot tell apart.
    """
    name, sign = SELECTORS.get(select, (select, 1.0))
    figures = np.array([sign * record[name] for record in path])
    if select == "auto":
        top1 = np.array([record["top1"] for record in path])
        best = path[int(np.argmax(top1))]
        figures[top1 < best["top1"] - HALF * best["top1_error"]] = -np.inf
    return int(np.argmax(figures))
