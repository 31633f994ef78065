"""python -m benchmarks.semipq: what compression costs, Figure 3 of the trace-norm paper.

    Full      trained and tested on the rows as they are
    PQ        trained and tested on codes
    Semi PQ   trained on codes, tested on the rows as they are

for the trace norm (TraceNormProbe, which reads the codes themselves) and for one-vs-rest linear
SVMs (LIBLINEAR's solver 1, on the decoded rows).  Rows are scaled to norm 1, as Fisher vectors are,
and neither side has an intercept.  The SVM's protocol is the paper's: three-fold cross-validation
over five C between 0.1 and 1e4 and over the weight of the positives (1, the ratio of negatives to
positives, and its root).  It sees a stratified part of at most --cv-rows rows; the SVM of the
chosen pair is then fitted to all rows.

A repeat draws other codebooks and other validation rows; cross-validation is done in the first.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import typer
from joblib import cpu_count
from numpy.typing import NDArray
from rich.table import Table
from sklearn.model_selection import StratifiedKFold

import slender
from slender.datasets import Dataset
from slender.estimators.splits import stratified
from slender.lab.repeats import Say, by_turns, ranged, spread_of
from slender.solvers.loop import Clock

from . import command, objective
from .objective import Linear
from .solvers.svm.liblinear import Liblinear

CS = np.logspace(-1, 4, 5)
POWERS = (0.0, 0.5, 1.0)  # of n_negatives / n_positives: the weight of the positives
FOLDS = 3
CV_ROWS = 3000
GRID, ALPHA = (4, 5), 0.1  # values of lambda1 and lambda2, and the ratio of one to the next
CASES = ("Full", "PQ", "Semi PQ")

Pair = tuple[float, float]  # C, and the power of the positives' weight


def first_classes(dataset: Dataset, k: int | None) -> Dataset:
    """The first k classes in their order, rows of norm 1."""
    kept = np.unique(dataset.y_train)[:k]
    parts: list[Any] = []
    for X, y in (dataset[:2], dataset[2:]):
        mine = np.isin(y, kept)
        X = X[mine]
        parts += [X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30), y[mine]]
    return Dataset(*parts)


# -- one-vs-rest -----------------------------------------------------------------------------------


class OneVsRest(Liblinear):
    """One call trains a binary SVM for each class."""

    def fit_pair(self, pair: Pair) -> Linear:
        C, power = pair
        ratio = (self.counts.sum() - self.counts) / self.counts
        # -wi is the weight of class i where it is the positive one, and only there
        weights = " ".join(f"-w{c} {r:.6g}" for c, r in enumerate(ratio**power))
        _, model = self.fit(f"-s 1 -c {C} {weights}")
        return Linear(model.coef.astype(np.float32), model.intercept, model.classes)


def cross_validated(
    X: NDArray[Any], y: NDArray[Any], cv_rows: int, say: Say
) -> tuple[Pair, list[dict[str, float]]]:
    """The pair of best mean top-1 over the folds, and all that was tried."""
    if len(y) > cv_rows:
        class_index = np.unique(y, return_inverse=True)[1].astype(np.int32)
        part = stratified(class_index, cv_rows / len(y), np.random.default_rng(0)).held_out
        X, y = X[part], y[part]
    pairs = [(float(C), power) for C in CS for power in POWERS]
    scores = np.zeros((FOLDS, len(pairs)))
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)
    for fold, (train, test) in enumerate(splits):
        say(f"one-vs-rest: fold {fold + 1} of {FOLDS}")
        svm, held_out = OneVsRest(X[train], y[train]), Dataset(X[:0], y[:0], X[test], y[test])
        with ThreadPoolExecutor(cpu_count()) as pool:  # LIBLINEAR runs outside Python's lock
            models = list(pool.map(svm.fit_pair, pairs))
        scores[fold] = [objective.measure(model, held_out)["top1"] for model in models]
    means = scores.mean(axis=0)
    tried = [
        {"C": C, "power": power, "top1": float(mean)}
        for (C, power), mean in zip(pairs, means, strict=True)
    ]
    return pairs[int(means.argmax())], tried


# -- both ------------------------------------------------------------------------------------------


def trace_norm(dataset: Dataset, M: Any, M_test: Any, seed: int) -> dict[str, Any]:
    """Accuracies of the three cases, and what was chosen."""
    tests = {"Full": dataset.X_test, "PQ": M_test, "Semi PQ": dataset.X_test}
    found: dict[str, Any] = {}
    for rows, cases in ((dataset.X_train, CASES[:1]), (M, CASES[1:])):
        probe = slender.TraceNormProbe(*GRID, alpha=ALPHA, random_state=seed)
        with Clock() as clock:
            probe.fit(rows, dataset.y_train)
        for case in cases:
            five = probe.predict_top_k(tests[case], min(5, len(probe.classes_)))
            hits = five == dataset.y_test[:, None]
            found[case] = {
                "top1": float(hits[:, 0].mean()),
                "top5": float(hits.any(axis=1).mean()),
                "chosen": [probe.lambda1_ / probe.lambda1_max_, probe.lambda2_],
                "rank": probe.rank_,
                "seconds": clock.seconds,
            }
    return found


def one_vs_rest(
    kind: str,
    train: Dataset,
    tests: dict[str, Dataset],
    chosen: dict[str, Any],
    cv_rows: int,
    say: Say,
) -> dict[str, Any]:
    """The same of the SVMs, for one kind of rows; `chosen` keeps its pair for the next repeat."""
    with Clock() as clock:
        if kind not in chosen:
            pair, tried = cross_validated(train.X_train, train.y_train, cv_rows, say)
            chosen[kind] = {"pair": pair, "tried": tried}
        say(f"one-vs-rest: all {kind}")
        model = OneVsRest(train.X_train, train.y_train).fit_pair(chosen[kind]["pair"])
    pair = list(chosen[kind]["pair"])
    return {
        case: {**objective.measure(model, test), "chosen": pair, "seconds": clock.seconds}
        for case, test in tests.items()
    }


def compare(
    dataset: Dataset, d_sq: int, repeats: int, cv_rows: int, say: Say
) -> dict[str, list[dict[str, Any]]]:
    chosen: dict[str, Any] = {}
    # nothing is drawn for the SVMs of the rows as they are: one fit serves all repeats
    full = one_vs_rest("rows", dataset, {"Full": dataset}, chosen, cv_rows, say)

    @lru_cache(maxsize=1)
    def codes(seed: int) -> tuple[Any, Any]:
        quantizer = slender.ProductQuantizer(d_sq=d_sq, random_state=seed).fit(dataset.X_train)
        return quantizer.encode(dataset.X_train), quantizer.encode(dataset.X_test)

    def svms(seed: int) -> dict[str, Any]:
        M, M_test = codes(seed)
        decoded = dataset._replace(X_train=M.toarray(), X_test=M_test.toarray())
        tests = {"PQ": decoded, "Semi PQ": dataset}
        return {**full, **one_vs_rest("codes", decoded, tests, chosen, cv_rows, say)}

    sides = {
        "trace norm": lambda seed: trace_norm(dataset, *codes(seed), seed),
        "one-vs-rest": svms,
    }
    return by_turns(sides, range(1, repeats + 1), say)


def figures(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Accuracies in percent, and how much of what PQ loses Semi PQ has back."""
    found: dict[str, Any] = {}
    for method, of in runs.items():
        found[method] = {
            case: {k: spread_of([run[case] for run in of], k, 100) for k in ("top1", "top5")}
            for case in CASES
        }
        full, coded, semi = (found[method][case]["top1"]["median"] for case in CASES)
        found[method]["back"] = (semi - coded) / (full - coded) if full > coded else None
    return found


def report(name: str, result: dict[str, Any]) -> list[Any]:
    found = result["figures"]
    return [table(name, result), *(sentence(name, method, found[method]) for method in found)]


def table(name: str, result: dict[str, Any]) -> Table:
    rows = [
        (method, case, *(ranged(of[case][k], 1) for k in ("top1", "top5")))
        for method, of in result["figures"].items()
        for case in CASES
    ]
    sized = command.sized(name, result["shape"])
    title = f"{sized}, d_sq = {result['d_sq']}; % of the test rows"
    return command.table(title, ("trained by", "case", "top-1", "top-5"), rows, left=2)


def sentence(name: str, method: str, found: dict[str, Any]) -> str:
    _, coded, semi = (found[case]["top1"]["median"] for case in CASES)
    back = "" if found["back"] is None else f", {100 * found['back']:.0f} % of the loss is back"
    word = "at or above" if semi >= coded else "BELOW"
    return f"{name}, {method}: Semi PQ is {word} PQ by {abs(semi - coded):.1f} points{back}"


def main(
    datasets: command.Sets = "caltech101,cifar100",
    classes: Annotated[int | None, typer.Option(min=3, help="Only so many first classes.")] = None,
    d_sq: Annotated[int, typer.Option(min=1, help="Numbers a byte stands for.")] = 16,
    cv_rows: Annotated[
        int, typer.Option(min=100, help="Most rows the SVM is cross-validated on.")
    ] = CV_ROWS,
    repeats: Annotated[int, typer.Option(min=1, help="Codebooks and validation rows drawn.")] = 5,
    json_file: command.Json = None,
    resume: command.Resume = False,
    quick: command.Quick = False,
) -> None:
    """Accuracy of the trace norm and of one-vs-rest: Full, PQ and Semi PQ."""
    repeats = 1 if quick else repeats

    def work(name: str, dataset: Dataset, say: Say) -> dict[str, Any]:
        few = first_classes(dataset, classes)
        runs = compare(few, d_sq, repeats, cv_rows, say)
        shape = command.shape_of(few)
        return {"shape": shape, "d_sq": d_sq, "runs": runs, "figures": figures(runs)}

    options = {"classes": classes, "d_sq": d_sq, "cv_rows": cv_rows, "repeats": repeats}
    packages = ("liblinear-official", "faiss-cpu")
    benchmark = command.Benchmark("semipq", json_file, quick, resume, packages)
    benchmark.over(datasets, options, work, report)


if __name__ == "__main__":
    typer.run(main)
