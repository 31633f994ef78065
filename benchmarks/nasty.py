"""python -m benchmarks.nasty: do float32 fits end, and are their proofs true, on nasty problems?

Problems are drawn from seeds (tests/nasty.py) and fitted as they are.  Each fit claims
objective - minimum <= gap_; the minimum lies in a bracket known independently
(tests/nasty_reference.py), and the objective of coef_ and intercept_ is computed anew.  A claim is

    violated        if truth - gap_ lies above the bracket: the minimum is lower than proved
                    (gap_ = objective_, which says that the minimum is not negative, is true)
    misreported     if objective_ is off the truth by more than 1e-6 of it and by more than gap_
    not converged   if truth lies above the bracket by more than max(tol, 1e-5) of it and more than
                    rounding of the scores in float32 explains
    silent          if the fit raised no ConvergenceWarning

Where the bracket is loose, only what lies above its upper end counts: no verdict rests on a guess.
"""

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning
from tests import nasty, nasty_trace
from tests.nasty import Problem
from tests.nasty_reference import Bracket, Reference, both_rows

import slender

from . import command

TOLS = (1e-3, 1e-5)
PATH = (1e-2, 1.0, 10.0)  # the probe's Cs, in units of the problem's
PASSES = 20  # of gradient descent
TOLD = 50  # problems after which the counts are told
TRACE_PASSES = 40
UNIT = float(np.finfo(np.float32).eps)
MISREPORTED, STRICTEST = 1e-6, 1e-5
ABOVE = 1e-9  # of the bracket's upper end: more than its own rounding
KINDS = ("exception", "violated", "misreported", "not converged", "negative gap")


class Claim(NamedTuple):
    """What a fit says of itself."""

    who: str
    W: Any  # (C, d)
    b: Any  # (C,)
    objective: float
    gap: float
    tol: float | None  # None: it was not asked to converge
    warned: bool
    other: list[str]  # kinds of warnings that no user should see


class Verdict(NamedTuple):
    """What is true of it; excesses are shares of the truth, 0 where there is none."""

    seed: int | str
    who: str
    what: list[str]
    error: str
    warned: bool
    other: list[str]
    loose: bool
    negative: bool
    violated: float
    misreported: float
    unconverged: float
    figures: dict[str, float]

    @property
    def kinds(self) -> dict[str, float]:
        """How bad it is, by kind."""
        given = (bool(self.error), self.violated, self.misreported, self.unconverged, self.negative)
        return dict(zip(KINDS, map(float, given), strict=True))


def judge(
    seed: int | str, problem: Problem, claim: Claim, truth: float, bracket: Bracket, rounding: float
) -> Verdict:
    upper, size = bracket.upper, max(truth, np.finfo(float).tiny)
    finite = np.isfinite([truth, claim.objective, claim.gap]).all()
    false = truth - claim.gap - upper * (1 + ABOVE)
    off = abs(claim.objective - truth)
    empty = claim.gap >= claim.objective and off <= MISREPORTED * truth
    above = truth - upper
    allowed = np.inf if claim.tol is None else max(claim.tol, STRICTEST) * truth + rounding
    figures = {
        "truth": float(truth),
        "objective": float(claim.objective),
        "gap": float(claim.gap),
        "lower": float(bracket.lower),
        "upper": float(upper),
        "rounding": float(rounding),
    }
    return Verdict(
        seed,
        claim.who,
        problem.what,
        "",
        claim.warned,
        claim.other,
        bracket.loose,
        not claim.gap >= 0,
        (0.0 if empty else max(false, 0.0) / size) if finite else np.inf,
        (off / size if off > max(MISREPORTED * truth, claim.gap) else 0.0) if finite else np.inf,
        (above / size if above > allowed else 0.0) if finite else np.inf,
        figures,
    )


# -- the fits --------------------------------------------------------------------------------------


class RaisedError(Exception):
    """A fit raised; what goes wrong in the reference is not caught."""


class Heard(NamedTuple):
    model: Any
    warned: bool
    other: list[str]


def fitted(model: Any, problem: Problem) -> Heard:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(problem.X, problem.y, problem.sample_weight)
        except Exception as error:  # any at all is what is looked for
            raise RaisedError(f"{type(error).__name__}: {error}") from error
    kinds = {warning.category for warning in caught}
    other = sorted(kind.__name__ for kind in kinds - {ConvergenceWarning})
    return Heard(model, ConvergenceWarning in kinds, other)


def claim_of(who: str, heard: Heard, tol: float | None) -> Claim:
    model, warned, other = heard
    W, b = both_rows(model.coef_, model.intercept_)
    return Claim(who, W, b, model.objective_, model.gap_, tol, warned, other)


class Judged(NamedTuple):
    """One problem with its reference, for the estimators below."""

    seed: int | str
    problem: Problem
    reference: Reference

    def _verdict(self, claim: Claim, C: float) -> Verdict:
        lam = self.reference.lam(C)
        truth = self.reference.objective(claim.W, claim.b, lam)
        unit = UNIT * np.sqrt(self.problem.X.shape[1])
        rounding = self.reference.score_rounding(claim.W, claim.b, unit)
        bracket = self.reference.bracket(lam)
        return judge(self.seed, self.problem, claim, truth, bracket, rounding)

    def logistic(self, tol: float) -> Iterator[Verdict]:
        problem = self.problem
        model = slender.LogisticClassifier(
            problem.C, tol=tol, fit_intercept=problem.fit_intercept, random_state=0
        )
        yield self._verdict(claim_of("", fitted(model, problem), tol), problem.C)

    def gd(self) -> Iterator[Verdict]:
        problem = self.problem
        model = slender.GDClassifier(
            lam=self.reference.lam(problem.C),
            passes=PASSES,
            fit_intercept=problem.fit_intercept,
            random_state=0,
        )
        yield self._verdict(claim_of("", fitted(model, problem), None), problem.C)

    def probe(self) -> Iterator[Verdict]:
        """Every C of the path, by a callback that keeps its model, and the final fit."""
        problem, kept = self.problem, []

        def keep(record: Any, model: Any) -> None:
            kept.append((record, *both_rows(*model())))

        probe = slender.LinearProbe(
            [C * problem.C for C in PATH],
            validation=(problem.X[:50], problem.y[:50]),
            refit=bool(len(problem.y) % 2),
            full=True,
            fit_intercept=problem.fit_intercept,
            callbacks=[keep],
            random_state=0,
        )
        heard = fitted(probe, problem)
        for record, W, b in kept:  # only the final fit is asked to converge
            figures = record["objective"], record["gap"]
            claim = Claim("path", W, b, *figures, None, heard.warned, heard.other)
            yield self._verdict(claim, record["C"])
        yield self._verdict(claim_of("", heard, probe.tol), probe.C_)

    def tracenorm(self) -> Iterator[Verdict]:
        """Judged by an upper bound alone: the bracket's lower end says nothing."""
        problem, reference = self.problem, self.reference
        model = slender.TraceNormClassifier(
            fit_intercept=problem.fit_intercept, passes=TRACE_PASSES, random_state=0
        )
        heard = fitted(model, problem)
        W = (model.V_ * model.theta_).astype(np.float64) @ model.U_.T.astype(np.float64)
        _, b = both_rows(model.coef_, model.intercept_)
        claim = Claim("", W, b, model.objective_, model.gap_, model.tol, heard.warned, heard.other)
        penalties = float(model.lambda1_), float(model.lambda2)
        truth = nasty_trace.objective(reference, W, b, *penalties)
        upper = nasty_trace.least(reference, *penalties, W, b)
        unit = UNIT * np.sqrt(problem.X.shape[1])
        rounding = reference.score_rounding(W, b, unit)
        bracket = Bracket(upper, upper)
        yield judge(self.seed, problem, claim, truth, bracket, rounding)


ESTIMATORS: dict[str, dict[str, Callable[[Judged], Iterator[Verdict]]]] = {
    "logistic": {
        f"logistic {tol:g}": (lambda judged, tol=tol: judged.logistic(tol)) for tol in TOLS
    },
    "gd": {"gd": Judged.gd},
    "probe": {"probe": Judged.probe},
    "tracenorm": {"tracenorm": Judged.tracenorm},
}


def verdicts(seed: int | str, names: list[str]) -> Iterator[Verdict]:
    """All claims of these estimators on the problem of a seed, or of a name; exceptions too."""
    problem = nasty.FIXED[seed]() if isinstance(seed, str) else nasty.problem(seed)
    weight, intercept = problem.sample_weight, problem.fit_intercept
    judged = Judged(seed, problem, Reference(problem.X, problem.y, weight, intercept))
    for name in names:
        for who, run in ESTIMATORS[name].items():
            try:
                for verdict in run(judged):
                    yield verdict._replace(who=f"{who} {verdict.who}".strip())
            except RaisedError as error:
                none = False, [], False, False, 0.0, 0.0, 0.0, {}
                yield Verdict(seed, who, problem.what, str(error), *none)


def timed(names: list[str], end: float, seed: int | str) -> tuple[list[Verdict], float] | None:
    """All claims on one problem, and their seconds; None if time is over."""
    started = time.time()
    return None if started > end else (list(verdicts(seed, names)), time.time() - started)


def over(
    seeds: list[int | str], work: Callable[[int | str], Any], processes: int
) -> Iterable[tuple[int | str, Any]]:
    """(seed, work(seed)), as they come; each process has one thread if there are several."""
    if processes == 1:
        yield from ((seed, work(seed)) for seed in seeds)
        return
    one = {f"{library}_NUM_THREADS": "1" for library in ("SLENDER", "OPENBLAS", "MKL")}
    spawned = multiprocessing.get_context("spawn")
    with patch.dict(os.environ, one), ProcessPoolExecutor(processes, mp_context=spawned) as pool:
        jobs = {pool.submit(work, seed): seed for seed in seeds}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


# -- the report ------------------------------------------------------------------------------------


def counts(found: list[Verdict]) -> dict[str, int]:
    """By kind, and how many of a kind had no warning."""
    silent = {f"{kind}, silently": kind for kind in ("violated", "not converged")}
    table = {"claims": len(found)}
    for kind in KINDS:
        table[kind] = sum(verdict.kinds[kind] > 0 for verdict in found)
    for name, kind in silent.items():
        table[name] = sum(verdict.kinds[kind] > 0 and not verdict.warned for verdict in found)
    table["other warnings"] = sum(bool(verdict.other) for verdict in found)
    table["loose bracket"] = sum(verdict.loose for verdict in found)
    return table


def report(found: list[Verdict], most: int = 5) -> Iterator[Any]:
    """How many fits went wrong in which way, and the worst of them."""
    whos = list(dict.fromkeys(verdict.who for verdict in found))
    by_who = {who: [verdict for verdict in found if verdict.who == who] for who in whos}
    columns = [counts(by_who[who]) for who in whos]
    rows = [(name, *(str(column[name]) for column in columns)) for name in columns[0]]
    yield command.table("Fits of nasty problems in float32", ("", *whos), rows)
    for who in whos:
        for kind in KINDS:
            bad = [verdict for verdict in by_who[who] if verdict.kinds[kind] > 0]
            for verdict in sorted(bad, key=lambda v: -v.kinds[kind])[:most]:
                size = verdict.error or f"{verdict.kinds[kind]:.1e}"
                silent = "" if verdict.warned else ", silent"
                traits = ", ".join(verdict.what)
                yield f"{who}: {kind}: {verdict.seed}: {size}{silent} ({traits})"


def main(
    count: Annotated[int, typer.Option(min=1, help="Problems.")] = 100,
    seed: Annotated[int, typer.Option(help="The first one's seed.")] = 0,
    estimators: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(
        ESTIMATORS
    ),
    fixed: Annotated[bool, typer.Option("--fixed", help="The named problems first.")] = False,
    minutes: Annotated[float, typer.Option(help="No new problem after so many.")] = 60.0,
    processes: Annotated[int, typer.Option(min=1, help="Problems at a time.")] = 1,
    json_file: command.Json = None,
) -> None:
    """Counts of false proofs, wrong objectives and fits that give up, by estimator."""
    names = command.names(estimators, ESTIMATORS, "estimator")
    found: list[Verdict] = []
    seconds: dict[int | str, float] = {}
    seeds = [*(nasty.FIXED if fixed else ()), *range(seed, seed + count)]
    work = partial(timed, names, time.time() + 60 * minutes)
    for each, made in over(seeds, work, processes):
        if made is None:
            continue
        found += made[0]
        seconds[each] = made[1]
        if len(seconds) % TOLD == 0:
            false = sum(verdict.violated > 0 for verdict in found)
            command.say(f"{len(seconds)} problems, {len(found)} claims, {false} violated")
    if len(seconds) < len(seeds):
        command.say(f"{len(seeds) - len(seconds)} problems left: {minutes:g} minutes are over")
    slow = sorted(seconds, key=lambda each: -seconds[each])[:5]
    shown = ", ".join(f"{each} ({seconds[each]:.0f} s)" for each in slow)
    benchmark = command.Benchmark("nasty", json_file)
    benchmark.tell(
        *report(found),
        f"{len(seconds)} problems, {len(found)} claims, {sum(seconds.values()):.0f} s; "
        f"slowest: {shown}",
    )
    verdicts_of = [verdict._asdict() for verdict in found]
    benchmark.save({"verdicts": verdicts_of})


if __name__ == "__main__":
    typer.run(main)
