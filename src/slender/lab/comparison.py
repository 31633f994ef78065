"""Many experiments: optimisers x data sets x seeds, and x numbers of training rows.

A contender whose first step is to be chosen tries every rate with the first seed and goes on with
the one that reached the lowest exact objective: the comparison is on that figure, so the choice
can only flatter it.  A contender that cannot be fitted to a data set is left out there, with its
reason, and the others go on.

Every fit goes into a ledger (ledger.py), which knows it by ASKED, a fingerprint of the rows
included.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..datasets import is_name
from ..estimators.validation import check_choice
from ..files import NO_NAMES, Names
from ..storage import FileError
from .experiment import experiment
from .ledger import Ledger
from .optimisers import OBJECTIVES, OPTIMISERS, Options, choose, complete, unused
from .repeats import by_turns, try_each
from .splits import Split, fingerprint, load, locate, mean_square, permuted, prepared

LOWEST_RATE, HIGHEST_RATE = 10**-1.5, 10**3.0  # over mean ‖x‖²; ten of them are half decades
ASKED = ("dataset", "data", "size", "preprocess", "opt", "obj", "seed", "options")

Fit = dict[str, Any]
PRESETS: dict[str, dict[str, Any]] = {  # options of the command; those given win
    "orders": {  # Bordes and Bottou 2008: first against second order
        "opt": "sgd-ovr,sgdqn,olbfgs,slnd",
        "obj": "logistic",
        "lam": 1e-4,
        "fit_intercept": True,  # columns of mean 0 say nothing of how rare a class is
        "preprocess": "standard",
    },
    "practical": {  # Lacoste-Julien et al. 2013: no rate to choose, against the best of ten
        "opt": "bcfw,sgd",
        "obj": "svm",
        "lam": 0.01,
        "batch_size": 256,
        "schedule": "sqrt",
        "average": True,
        "rates": "10",
    },
}


@dataclass(frozen=True)
class Rates:
    """First steps to choose from: these, or `count` over the range in units of 1 / mean ‖x‖²."""

    values: tuple[float, ...] = ()
    count: int = 0

    def on(self, split: Split) -> tuple[float, ...]:
        if self.values:
            return self.values
        spread = np.geomspace(LOWEST_RATE, HIGHEST_RATE, self.count)
        return tuple((spread / (mean_square(split) or 1.0)).tolist())

    def __len__(self) -> int:
        return len(self.values) or self.count


@dataclass(frozen=True)
class Contender:
    """An optimiser as it takes part."""

    opt: str
    obj: str
    options: Options
    rates: Rates | None = None


@dataclass(frozen=True)
class Plan:
    """What is compared on what."""

    datasets: tuple[str, ...]
    contenders: tuple[Contender, ...]
    seeds: int = 1
    sizes: tuple[int, ...] = ()  # training rows; none: all there are
    preprocess: str = "none"
    data_dir: str | None = None
    names: Names = NO_NAMES  # in the files of those data sets that are paths

    @property
    def fits(self) -> int:
        """How many there are to make; the chosen rate's first fit is one of the grid's."""
        each = sum(self.seeds - 1 + len(c.rates or (1,)) for c in self.contenders)
        return len(self.datasets) * max(1, len(self.sizes)) * each


class Outcome(NamedTuple):
    """What a plan led to."""

    fits: list[Fit]  # of every contender at its rate
    choices: list[dict[str, Any]]  # of rates: dataset, size, opt, obj, rates, objectives, chosen
    left_out: list[dict[str, Any]]  # dataset, size, opt, obj, reason
    datasets: dict[str, dict[str, Any]]  # what is known of each


def contenders(
    opts: Sequence[str], objs: Sequence[str], options: Options, rates: Rates | None
) -> tuple[tuple[Contender, ...], list[str]]:
    """Each optimiser with each objective that it solves, and why one takes no part at all.

    An option goes to those that have it; rates in units of 1 / mean ‖x‖² to those whose steps are
    along the gradient.
    """
    for obj in objs:
        check_choice("obj", obj, OBJECTIVES)
    taking: list[Contender] = []
    reasons: list[str] = []
    for opt in opts:
        own, _ = choose(opt)
        able = [obj for obj in objs if obj in OPTIMISERS[opt]] if objs else [own]
        if not able:
            reasons.append(f"--opt {opt} solves {', '.join(OPTIMISERS[opt])}, not {objs[0]}")
        for obj in able:
            _, optimiser = choose(opt, obj)
            lacks = unused(optimiser, options)
            mine = Options(**{k: of for k, of in options.given().items() if k not in lacks})
            complete(opt, obj, mine)  # an impossible value is an error now, not in an hour
            rated = "step" in optimiser.takes and (
                optimiser.plain or rates is None or bool(rates.values)
            )
            taking.append(Contender(opt, obj, mine, rates if rated else None))
    if not taking:
        raise ValueError("; ".join(reasons))
    return tuple(taking), reasons


def compare(
    plan: Plan, ledger: Ledger, watch: Callable[[Mapping[str, Any]], object] = lambda event: None
) -> Outcome:
    """Every fit of the plan that the ledger does not hold yet.

    `watch` gets an event when there is news of a fit: dataset, size, opt, obj, seed and step of the
    fit, `record` (the newest entry of its curve; None as it starts), `ended`, and `done` of
    plan.fits being through.  When a contender drops out it gets an entry of `left_out`.
    """
    for dataset in plan.datasets:
        locate(dataset, plan.data_dir)  # now, not after an hour of other fits
    run = _Run(plan, ledger, watch)
    for dataset in plan.datasets:
        names = NO_NAMES if is_name(dataset) else plan.names
        whole = load(dataset, plan.data_dir, names)
        run.outcome.datasets[dataset] = facts_of(whole)
        for size in plan.sizes or (None,):
            if size is not None and size > len(whole.y_train):
                reason = f"there are only {len(whole.y_train):,} training rows"
                run.leave_out(Stage(dataset, size, 0, whole), reason)
                continue
            run.all_seeds(dataset, size, whole)
    return run.outcome


def facts_of(split: Split) -> dict[str, Any]:
    """Sizes, and the test error of always answering the most frequent training class."""
    classes, counts = np.unique(split.y_train, return_counts=True)
    return {
        "train": len(split.y_train),
        "validation": len(split.y_val),
        "test": len(split.y_test),
        "features": split.X_train.shape[1],
        "classes": len(classes),
        "guess_error": float(np.mean(split.y_test != classes[counts.argmax()])),
        "guess_pr_area": float(np.mean(split.y_test == classes[-1])) if len(classes) == 2 else None,
        "data": fingerprint(split),
    }


class Stage(NamedTuple):
    """Where contenders meet."""

    dataset: str
    size: int | None
    seed: int
    split: Split


class _Run:
    """A plan on its way."""

    def __init__(self, plan: Plan, ledger: Ledger, watch: Callable[..., object]) -> None:
        self.plan, self.ledger, self.watch = plan, ledger, watch
        self.outcome = Outcome([], [], [], {})
        self.done = 0

    def all_seeds(self, dataset: str, size: int | None, whole: Split) -> None:
        """Every contender with every seed; the first one chooses the rates."""
        everything = prepared(whole, self.plan.preprocess) if size is None else whole
        steps: dict[Contender, float | None] = {}  # of the contenders that can be fitted

        @lru_cache(maxsize=1)  # everyone's turn with one seed comes before the next seed
        def stage(seed: int) -> Stage:
            if size is None:
                return Stage(dataset, size, seed, everything)
            rows = permuted(whole, size, seed)
            return Stage(dataset, size, seed, prepared(rows, self.plan.preprocess))

        def turn(each: Contender, seed: int) -> None:
            if seed > 0 and each not in steps:
                return
            try:
                if seed == 0:
                    steps[each] = self.first_step(stage(seed), each)
                self.outcome.fits.append(self.fit(stage(seed), each, steps[each]))
            except FileError:  # of the data: it is not this contender that cannot be fitted
                raise
            except ValueError as error:
                steps.pop(each, None)
                self.leave_out(stage(seed), str(error), each)

        by_turns(
            {each: partial(turn, each) for each in self.plan.contenders}, range(self.plan.seeds)
        )

    def first_step(self, stage: Stage, each: Contender) -> float | None:
        """The best of its rates; None leaves it to the optimiser."""
        if each.rates is None:
            return each.options.step
        rates = each.rates.on(stage.split)

        def cost(fit: Fit) -> float:
            reached = fit["curve"][-1]["exact"]
            return np.inf if reached is None else float(reached)

        fits, best = try_each(rates, partial(self.fit, stage, each), cost)
        self.done -= 1  # one of them will be asked for again
        if not np.isfinite(cost(fits[best])):
            raise ValueError("it diverged at every rate; give --rates with smaller ones")
        choice = {
            "rates": list(rates),
            "objectives": [fit["curve"][-1]["exact"] for fit in fits],
            "chosen": rates[best],
            "at_edge": len(rates) > 1 and best in (0, len(rates) - 1),
        }
        self.outcome.choices.append({**_named(stage, each), **choice})
        return rates[best]

    def fit(self, stage: Stage, each: Contender, step: float | None) -> Fit:
        """From the ledger, or now."""
        options = replace(each.options, step=step)
        asked: Fit = {
            **_named(stage, each),
            "data": self.outcome.datasets[stage.dataset]["data"],
            "preprocess": self.plan.preprocess,
            "seed": stage.seed,
            "options": complete(each.opt, each.obj, options, len(stage.split.y_train)),
        }
        whose = {**_named(stage, each), "seed": stage.seed, "step": step}

        def news(record: Mapping[str, Any] | None = None, ended: bool = False) -> None:
            self.watch({**whose, "record": record, "ended": ended, "done": self.done})

        found = self.ledger.get(asked)
        if found is None:
            news()
            result = experiment(stage.split, each.opt, each.obj, options, stage.seed, watch=news)
            found = {**asked, **result}
            self.ledger.add(found)
        self.done += 1
        news(found["curve"][-1], ended=True)
        return found

    def leave_out(self, stage: Stage, reason: str, each: Contender | None = None) -> None:
        self.outcome.left_out.append({**_named(stage, each), "reason": reason})
        self.watch(self.outcome.left_out[-1])


def _named(stage: Stage, each: Contender | None) -> dict[str, Any]:
    return {
        "dataset": stage.dataset,
        "size": stage.size,
        "opt": each.opt if each else None,
        "obj": each.obj if each else None,
    }
