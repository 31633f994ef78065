"""LinearProbe: C chosen along a path on held-out rows, and the certified model at that C."""

from math import ceil
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Classwise
from ..data import examples_of
from ..notices import warn
from ..passes import SpreadPass
from ..problem import Multinomial
from ..rows import Rows
from ..solvers.checkpoint import Checkpoint
from ..solvers.loop import Record, listed, run
from ..solvers.newton import Newton
from ..solvers.path import NewtonFold, Path, PathState
from ..solvers.quasinewton import NewtonState
from ..solvers.secant_pairs import SecantPairs
from ..storage import PathLike
from .checkpoints import checkpointed
from .choice import (
    SELECTORS,
    Choice,
    Labelled,
    best_of,
    read_values,
    several,
    spread,
    warn_at_edge,
)
from .multinomial import MultinomialClassifier, warn_unproved
from .temperature import temperature
from .validation import (
    check_choice,
    check_finite,
    check_positive,
    generator,
    read_class_index,
    read_rows,
    read_sample_weight,
)

LOWEST, HIGHEST = 1e-6, 1e5  # the range of Cs=45
SCALES = ("none", "l2", "standard")
# The path has turned when so many values after the chosen one the log loss has clearly risen, or
# nothing moved; a choice by accuracy waits longer, for it to fall by a standard error, or at all.
AFTER, CLEARLY, AT_ALL = 3, 4, 8
FAR = 4.0  # times the C of the chosen one, too, however fine the grid
RISEN = 0.5  # standard errors of the log loss above its lowest
RISEN_AT_ALL = 1e-3  # of the lowest log loss: more than rounding
KEPT = 4  # models of the path, those that may yet be chosen


class LinearProbe(MultinomialClassifier):
    """Multinomial logistic regression with C chosen by validation.

    Goes from strong to weak penalty, each C warm-started from the previous one, until the figures
    on held-out rows have clearly become worse; then fits the chosen C to a proved accuracy.

    Parameters
    ----------
    Cs : int or sequence of float, default 45
        Values of C: this many, evenly in log C from 1e-6 to 1e5 (a single one: 0.316, their
        middle); or these.
    validation : float, int, (X_val, y_val), or a splitter, default 0.1
        Rows to choose C on: a share of each class, held out; a number of folds; separate rows; or
        a splitter of scikit-learn.
    shots : int or None, default None
        Fit on this many rows of each class, drawn at random (the few-shot protocol); held-out rows
        are never among them, and the refit does not add any.
    scale : {"none", "l2", "standard"}, default "none"
        Scale rows to norm 1 ("l2") or columns to variance 1 ("standard").  The model takes raw
        features in either case.
    select : str, default "auto"
        What chooses the penalty on the held-out rows: "accuracy", "balanced_accuracy", "log_loss",
        or a scorer of scikit-learn by its name ("f1_macro"; those that take probabilities hold them
        for all held-out rows).  "auto": among the values within half a standard error of the best
        top-1 accuracy, the one with the lowest log loss.
    refit : bool, default True
        Fit the chosen penalty to all rows; otherwise keep the model of the training part.
    full : bool, default False
        Try all values of C instead of stopping once the validation figures have become worse.
    calibrate : bool, default False
        Fit a temperature of the probabilities on the held-out rows, if they are enough to tell one.
    max_iter : int, default 1000
        Largest number of passes over the data, for each C.
    tol, fit_intercept, class_weight
        As in LogisticClassifier.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: held-out rows, shots, and the rows that curvature and line
        search sample.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record of path_, model)` after each C; a true answer ends the
        path.
    device, checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    C_ : float
        The C that `select` chose; the smallest one if several are equally good.
    path_ : list of dict
        One record per C: objective, gap, passes, seconds; and on the held-out rows top1, top5,
        mean_per_class, log_loss, the standard errors top1_error and log_loss_error, and the score
        that `select` names, if any.  Each C is solved only as accurately as the held-out rows can
        distinguish, the final model to `tol`.  With folds the figures are means over the folds
        (passes and seconds are sums, standard errors are those of the means).
    folds_ : list of list of dict
        The same records for each fold; a single list if there is one set of held-out rows.
    coef_, intercept_, classes_, n_features_in_, gap_, objective_, n_iter_, trace_
        Of the final fit, as in LogisticClassifier.
    temperature_ : float
        Scores are divided by it in predict_proba; 1 without `calibrate`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import LinearProbe
    >>> X, y = load_digits(return_X_y=True)
    >>> probe = LinearProbe(9, random_state=0).fit(X[:1300], y[:1300])
    >>> probe.gap_ <= 1e-3 * probe.objective_
    True
    >>> probe.score(X[1300:], y[1300:]) > 0.9
    True
    """

    may_be_raised = ()  # the limit of passes holds for every C
    on_device: ClassVar[bool] = True

    def __init__(
        self,
        Cs: Any = 45,
        *,
        validation: Any = 0.1,
        shots: int | None = None,
        scale: str = "none",
        select: str = "auto",
        refit: bool = True,
        full: bool = False,
        calibrate: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        class_weight: Any = None,
        device: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.Cs = Cs
        self.validation = validation
        self.shots = shots
        self.scale = scale
        self.select = select
        self.refit = refit
        self.full = full
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.device = device
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "LinearProbe":
        """Fit the path, choose C, fit the final model; `groups` are passed to the splitter."""
        self._check()
        Cs, choice = self._read_cs(), self._choice()
        rng = generator(self.random_state)
        choice.check_place(self, X)
        raw = read_rows(self, X, reset=True, y=y)
        check_finite(raw)  # before any split, so that an error names the user's row
        class_index = read_class_index(self, y, raw.shape[0])
        weight = read_sample_weight(sample_weight, raw)
        rows, columns = self._scaled(raw)
        examples = Labelled(rows, class_index, self.classes_)
        more = choice.fingerprints(self, groups)
        with checkpointed(self, rng, raw, class_index, sample_weight, **more) as checkpoint:
            parts, judge = choice.parts(X, y, groups, examples, rng), choice.judge(examples)
            folds = []
            for part in parts:
                problem = self._problem(rows, class_index, weight, part.train)
                held_out = choice.held_out(
                    self, examples, part, lambda x: self._scaled_as(x, columns)
                )
                judged = held_out, judge, self.max_iter, rng
                folds.append(NewtonFold(problem, self.tol, columns, *judged))
            start, learned, hurry = self._walk(folds, Cs, rng, checkpoint)
            self.temperature_ = 1.0
            if self.calibrate:
                first = folds[0].problem, start, learned
                solver, state, hurry = self._descend(*first, hurry, rng, checkpoint)
                start = solver.model(state)
                self.temperature_ = temperature(folds[0].held_out, *start)
            index = choice.final_index(parts, examples, rng)
            problem = folds[0].problem
            if index is not parts[0].train:
                problem = self._problem(rows, class_index, weight, index)
            last = problem, start, learned
            solver, state, hurry = self._descend(*last, hurry, rng, checkpoint)
        self._keep(solver.solution(state))
        if columns is not None:
            self.coef_ *= columns  # so that the model takes raw features
        self.gap_, self.objective_ = state.gap, state.objective
        self.n_iter_ = ceil(problem.passes - state.first)
        self._say(state, hurry, problem.rows.dtype)
        self._settle(X)
        return self

    def _choice(self) -> Choice:
        return Choice(self.validation, self.shots, self.refit, self.select)

    def _walk(
        self,
        folds: list[NewtonFold],
        Cs: NDArray[np.float64],
        rng: np.random.Generator,
        checkpoint: Checkpoint | None,
    ) -> tuple[Any, tuple[Classwise, SecantPairs], bool]:
        """Of the first fold: the model at the chosen C, and the curvature and pairs to go on with.

        Also whether Ctrl-C ended the path.
        """

        def following(state: PathState) -> Record | None:
            place = len(state.path)
            if place == len(Cs) or (place > 0 and self._turned(state.path)):
                return None
            return {"C": float(Cs[place])}

        path = Path(folds, following)
        state = path.init(rng)
        self.path_, self.folds_, kept = state.path, state.folds, state.kept

        def keep(record: Record, model: Any) -> None:
            place, walk = len(self.path_) - 1, state.walks[0]
            if best_of(self.path_, self.select) == place:
                # pairs are twenty times as large as a model, and serve any value: one set will do
                kept.update({before: (start, None) for before, (start, _) in kept.items()})
                kept[place] = folds[0].model(walk), walk.state.pairs.copy()
                kept.pop(min(kept) if len(kept) > KEPT else -1, None)

        callbacks = [keep, *listed(self.callbacks)]
        ending = run(path, state, self.path_, callbacks, checkpoint=checkpoint)
        best = best_of(self.path_, self.select)
        self.C_ = self.path_[best]["C"]
        if self.C_ in (Cs[0], Cs[-1]):
            given = not isinstance(self.Cs, Integral)
            warn_at_edge("C", self.path_, self.path_[best], given)
        # a value that was not the best when it was met may be it now: its neighbour stands for it
        nearest = min(kept, key=lambda place: abs(place - best))
        (start, _), (_, pairs) = kept[nearest], kept[max(kept)]
        return start, (state.walks[0].state.curvature, pairs), ending == "interrupted"

    def _turned(self, path: list[Record]) -> bool:
        return not self.full and turned(path, self.select)

    def _descend(
        self,
        problem: Multinomial,
        start: Any,
        learned: Any,
        hurry: bool,
        rng: np.random.Generator,
        checkpoint: Checkpoint | None,
    ) -> tuple[Newton, NewtonState, bool]:
        """A fit at C_ to `tol`, from the path's model; whether Ctrl-C ended it or the path."""
        theta = problem.theta(*start)
        solver = Newton(problem, problem.lam_of(self.C_), self.tol, theta, *learned)
        state, self.trace_ = solver.init(rng), []
        most = 1 if hurry else self.max_iter
        ending = run(solver, state, self.trace_, most=most, checkpoint=checkpoint)
        return solver, state, hurry or ending == "interrupted"

    def _say(self, state: NewtonState, interrupted: bool, dtype: Any) -> None:
        what = f"the objective at C={self.C_:.3g} {self._proved()}"
        if interrupted:
            warn_unproved(f"interrupted: {what}")
        elif self.gap_ > self.tol * self.objective_:
            warn_unproved(f"{what}: {self._advice(state.stalled, dtype)}")

    # -- scaling ---------------------------------------------------------------------------------

    def _scaled(self, rows: Rows) -> tuple[Rows, NDArray[Any] | None]:
        """The scaled rows, and the factor of each column (None if columns are not scaled)."""
        columns = None
        if self.scale == "standard":
            nothing = np.zeros(rows.shape[0])
            spread = examples_of(rows, nothing, nothing).reduce(SpreadPass())
            columns = (1.0 / spread.deviation).astype(rows.dtype)  # the intercept takes up any mean
        return self._scaled_as(rows, columns), columns

    def _scaled_as(self, rows: Rows, columns: NDArray[Any] | None) -> Rows:
        if columns is not None:
            return rows.scaled(columns)
        return rows.normalised() if self.scale == "l2" else rows

    def _read(self, X: Any) -> Rows:
        rows = super()._read(X)
        return rows.normalised() if self.scale == "l2" else rows

    # -- choosing --------------------------------------------------------------------------------

    def _read_cs(self) -> NDArray[np.float64]:
        if isinstance(self.Cs, Integral):
            check_positive("Cs", self.Cs, kind=Integral)
            return spread(LOWEST, HIGHEST, int(self.Cs))
        Cs = read_values("Cs", self.Cs)
        if not np.array_equal(Cs, self.Cs):
            warn("Cs were sorted and made unique: the path goes from the smallest to the largest")
        return Cs

    def _check_use(self) -> None:
        super()._check_use()
        check_choice("scale", self.scale, SCALES)

    def _check(self) -> None:
        super()._check()
        self._choice().check()
        check_choice("scale", self.scale, SCALES)
        if self.calibrate and not self._choice().one_part:
            raise several("calibrate=True")


def turned(path: list[Record], select: str = "auto") -> bool:
    """Has the path clearly passed the best value?"""
    last = path[-1]
    after = len(path) - 1 - best_of(path, select)
    top = path[best_of(path, "accuracy")]
    lowest = min(record["log_loss"] for record in path)
    if SELECTORS.get(select, ("",))[0] == "log_loss":
        # the chosen value, the lowest log loss and the best top-1 must all lie well behind
        judges = ("auto", "log_loss", "accuracy") if select == "auto" else (select,)
        newest = max(best_of(path, judge) for judge in judges)
        if len(path) - 1 - newest < AFTER or last["C"] < FAR * path[newest]["C"]:
            return False
        risen = last["log_loss"] - lowest > RISEN * last["log_loss_error"]
        # nothing moves any more; at tiny C nothing moves yet
        begun = path[0]["log_loss"] - lowest > RISEN * path[0]["log_loss_error"]
        still = begun and all(record["passes"] <= 1.0 for record in path[-AFTER:])
        return bool(risen or still)
    worse = top["top1"] - last["top1"] > top["top1_error"]
    has_risen = top["top1"] - path[0]["top1"] > 2.0 * top["top1_error"]
    overfits = last["log_loss"] > (1.0 + RISEN_AT_ALL) * lowest
    if after >= CLEARLY and worse:
        return bool(has_risen or overfits)
    return bool(after >= AT_ALL and overfits)
