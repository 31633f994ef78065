"""What the probes share: a penalty chosen on rows kept aside, and which rows those are."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..notices import warn
from ..problem import Multinomial
from ..rows import Rows, SubsetRows
from ..solvers.loop import Record, note
from ..solvers.path import mean_record
from ..solvers.tracepath import HeldOut
from . import splits
from .multinomial import MultinomialClassifier
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

Judged = tuple[HeldOut, NDArray[Any], NDArray[Any]]  # rows, and weights and intercepts for them


class ChosenClassifier(MultinomialClassifier):
    """Base of the estimators that choose their penalty by validation."""

    validation: Any
    shots: int | None
    refit: bool
    select: str

    path_: list[Record]
    folds_: list[list[Record]]

    def _check(self) -> None:
        super()._check()
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
                    f"validation={self.validation!r} must be a share between 0 and 1, or two folds "
                    "at least"
                )
        elif isinstance(self.validation, Real) and not 0.0 < float(self.validation) < 1.0:
            raise ValueError(f"validation={self.validation!r} must lie between 0 and 1")
        if not self.refit and not self._one_part:
            raise several("refit=False")

    @property
    def _one_part(self) -> bool:
        """Is there one set of held-out rows, not the several of folds?"""
        share = isinstance(self.validation, Real) and not isinstance(self.validation, Integral)
        return share or isinstance(self.validation, tuple)

    def _parts(
        self, X: Any, y: Any, groups: Any, codes: NDArray[np.int32], rng: np.random.Generator
    ) -> list[splits.Part]:
        everything = np.arange(len(codes))
        if groups is not None and isinstance(self.validation, Real | tuple):
            raise ValueError(
                "groups are of use to a splitter: give validation=GroupKFold(5), or "
                "StratifiedGroupKFold(5)"
            )
        if isinstance(self.validation, tuple):
            parts = [splits.Part(everything, everything[:0])]
        elif self._one_part:
            parts = [splits.stratified(codes, float(self.validation), rng)]
        else:
            splitter = splits.splitter(self.validation, y, rng)
            parts = list(splits.folds(splitter.split(X, y, groups), codes, self.classes_))
        if self.shots is None:
            return parts
        return [
            part._replace(train=splits.few(codes, part.train, self.shots, rng)) for part in parts
        ]

    def _final_index(
        self, parts: list[splits.Part], codes: NDArray[np.int32], rng: np.random.Generator
    ) -> NDArray[np.intp]:
        everything = np.arange(len(codes))
        one = len(parts) == 1
        if one and (self.shots is not None or not self.refit or isinstance(self.validation, tuple)):
            return parts[0].train
        return everything if self.shots is None else splits.few(codes, everything, self.shots, rng)

    def _part_problem(
        self,
        rows: Rows,
        codes: NDArray[np.int32],
        weight: NDArray[Any] | None,
        index: NDArray[np.intp],
    ) -> Multinomial:
        if len(index) == len(codes):
            return self._problem(rows, codes, weight)
        part = None if weight is None else weight[index]
        return self._problem(SubsetRows(rows, index), codes[index], part)

    def _held_out(
        self, rows: Rows, codes: NDArray[np.int32], columns: Any, part: splits.Part
    ) -> HeldOut:
        """The rows that judge this part, and their classes."""
        if isinstance(self.validation, tuple):
            held_out = self._read_held_out(columns)
        else:
            held_out = SubsetRows(rows, part.held_out), codes[part.held_out]
        C, d = len(self.classes_), rows.shape[1]
        nothing = np.zeros((C, d), rows.dtype), np.zeros(C)
        self._score(lambda: (held_out, *nothing))  # so that it raises before the work
        return held_out

    def _read_held_out(self, columns: Any) -> HeldOut:
        X_val, y_val = self.validation
        val = read_rows(self, X_val)
        check_finite(val)
        y_val = np.asarray(y_val)
        check_length(len(y_val), val.shape[0])
        place = np.minimum(np.searchsorted(self.classes_, y_val), len(self.classes_) - 1)
        unknown = np.flatnonzero(self.classes_[place] != y_val)
        if len(unknown):
            raise ValueError(
                f"validation holds class {shown(y_val[unknown[0]])}, which no training row has; "
                "leave its rows out"
            )
        return self._scaled_as(val, columns), place.astype(np.int32)

    def _start_path(self, folds: int) -> None:
        self.path_, self.folds_ = [], [[] for _ in range(folds)]

    def _keep_record(self, penalties: Record, records: list[Record]) -> Record:
        """A value of the path: of each fold, and their mean, which is given back."""
        for path, record in zip(self.folds_, records, strict=True):
            path.append({**penalties, **record})
        self.path_.append({**penalties, **mean_record(records)})
        note(self.path_[-1])
        return self.path_[-1]

    def _score(self, judged: Callable[[], Judged]) -> Record:
        """The figure of scikit-learn that `select` names, if it does, of a model on its rows."""
        if self.select in SELECTORS:
            return {}
        (rows, codes), W, b = judged()
        model = candidate(self.classes_, W, b)
        return {self.select: score(self.select, model, rows, self.classes_[codes])}

    def _scaled_as(self, rows: Rows, columns: NDArray[Any] | None) -> Rows:
        """Other rows, scaled as those that are fitted."""
        return rows


def several(what: str) -> ValueError:
    return ValueError(
        f"{what} needs one set of held-out rows, and folds are several: "
        "use validation=0.1 or (X_val, y_val)"
    )


def spread(first: float, last: float, number: int) -> NDArray[np.float64]:
    """So many values evenly in their logarithm; one alone stands in the middle."""
    if number == 1:
        return np.array([np.sqrt(first * last)])
    return np.geomspace(first, last, number)


def read_values(name: str, given: Any) -> NDArray[np.float64]:
    """A grid that was given: its values, each once, increasing."""
    values = np.atleast_1d(np.asarray(given, dtype=float))
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name}={given!r} must be a list of numbers")
    if not ((values > 0) & np.isfinite(values)).all():
        raise ValueError(f"{name}={given!r} must hold numbers > 0")
    return np.unique(values)


def warn_at_edge(name: str, row: list[Record], best: Record, given: bool) -> None:
    """Say so where the choice is the first or the last of `row`, which differs in this penalty.

    Of a grid that was given always; of our own, which is wide, where validation sees the figures
    still change there.
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
    """The place of the record to choose, the first of equals.

    "auto": among those within HALF a standard error of the best top-1, the least log loss.  Top-1
    alone is a noisy judge, flat over decades of C; log loss is a sharp one, and decides among
    values that top-1 cannot tell apart.
    """
    name, sign = SELECTORS.get(select, (select, 1.0))
    figures = np.array([sign * record[name] for record in path])
    if select == "auto":
        top1 = np.array([record["top1"] for record in path])
        best = path[int(np.argmax(top1))]
        figures[top1 < best["top1"] - HALF * best["top1_error"]] = -np.inf
    return int(np.argmax(figures))
