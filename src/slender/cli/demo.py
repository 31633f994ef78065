"""slender demo: the main job, end to end, on data that needs no download."""

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from .fit import fit_watched, summary
from .interrupts import interruptible
from .options import Json, Quiet, Threads
from .output import check_outputs, show, write_json
from .progress import progress_of_passes

SEPARATION = 0.36  # of the 1,000 planted classes: right about nine times out of ten


def demo(json: Json = None, threads: Threads = None, quiet: Quiet = False) -> None:
    """Fit, save, load and score: scikit-learn's digits, and 1,000 planted classes; a probe."""
    check_outputs(json)
    from ..datasets import digits, planted

    makers = {
        "digits": digits,
        "planted, 1,000 classes": lambda: planted(40_000, 256, 1000, separation=SEPARATION),
    }
    talk = not quiet and json != "-"
    compiling = interruptible(lambda: _compile(digits()))
    if talk:
        show(f"kernels compiled, or read from the cache, in {compiling:.1f} s", "")
    results: dict[str, Any] = {"command": "demo", "compile_seconds": compiling, "datasets": []}
    with tempfile.TemporaryDirectory(prefix="slender-demo-") as folder:
        for name, make in makers.items():
            entry = _one(name, make(), Path(folder), quiet)
            if name == "digits":
                entry["sklearn_sgd"] = interruptible(lambda: _scikit_learn(Path(folder)))
                entry["probe"] = interruptible(lambda: _probe(Path(folder)))
            results["datasets"].append(entry)
            if talk:
                show(_table(entry), *_comparison(entry), "")
    write_json(results, json)


def _compile(data: Any) -> float:
    """Seconds that the first fit after an installation takes longer."""
    from ..estimators.slnd import SLNDClassifier

    start = perf_counter()
    SLNDClassifier(passes=1).fit(data.X_train, data.y_train)
    return perf_counter() - start


def _one(name: str, data: Any, folder: Path, quiet: bool) -> dict[str, Any]:
    """From files to files: what a user would do with fit and score."""
    import numpy as np

    from ..estimators.slnd import SLNDClassifier
    from ..files import read_dataset
    from ..lab.evaluation import evaluate
    from ..model import load_model, save_model

    for part, array in data._asdict().items():
        np.save(folder / f"{part}.npy", array)
    train, test = read_dataset(folder), read_dataset(folder, part="test")
    model = SLNDClassifier(random_state=0)
    with progress_of_passes(name, model.passes, quiet) as advance:
        interruptible(lambda: fit_watched(model, train, test, [advance]))
    save_model(model, folder / "model")
    scores = evaluate(load_model(folder / "model"), *test)
    return {
        "name": name,
        **summary(model, train[0]),
        "test_rows": scores.rows,
        "top1": scores.top1,
        "top5": scores.top5,
        "mean_per_class": scores.mean_per_class,
    }


def _probe(folder: Path) -> dict[str, float]:
    """LinearProbe on the same files: C chosen on a tenth of the training rows."""
    from ..estimators.probe import LinearProbe
    from ..files import read_dataset

    train, test = read_dataset(folder), read_dataset(folder, part="test")
    LinearProbe([0.1], random_state=0).fit(*train)  # compiles
    start = perf_counter()
    probe = LinearProbe(random_state=0).fit(*train)
    return {
        "seconds": perf_counter() - start,
        "top1": float(probe.score(*test)),
        "tried": len(probe.path_),
        "C": float(probe.C_),
        "relative_gap": probe.gap_ / probe.objective_,
    }


def _scikit_learn(folder: Path) -> dict[str, float]:
    """scikit-learn's SGDClassifier on the same files."""
    from sklearn.linear_model import SGDClassifier

    from ..files import read_dataset

    train, test = read_dataset(folder), read_dataset(folder, part="test")
    start = perf_counter()
    model = SGDClassifier(loss="log_loss", random_state=0).fit(*train)
    return {"seconds": perf_counter() - start, "top1": float(model.score(*test))}


def _table(entry: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(
        title=f"{entry['name']}: {entry['rows']:,} rows, {entry['features']} features, "
        f"{entry['classes']:,} classes, {entry['test_rows']:,} test rows",
        title_justify="left",
    )
    for column in ("pass", "seconds", "objective", "test top-1", "test top-5"):
        table.add_column(column, justify="right")
    for record in entry["trace"]:
        table.add_row(
            f"{record['passes']:.0f}",
            f"{record['seconds']:.3f}",
            f"{record['objective']:.5f}",
            f"{record['validation_top1']:.4f}",
            f"{record['validation_top5']:.4f}",
        )
    return table


def _comparison(entry: dict[str, Any]) -> list[str]:
    if "sklearn_sgd" not in entry:
        return []
    other, probe = entry["sklearn_sgd"], entry["probe"]
    return [
        f"LinearProbe: top-1 {probe['top1']:.4f} in {probe['seconds']:.3f} s, C = {probe['C']:.3g} "
        f"the best of {probe['tried']} tried, proved within {probe['relative_gap']:.1e} "
        f"of its optimum",
        f"scikit-learn's SGDClassifier: top-1 {other['top1']:.4f} in {other['seconds']:.3f} s "
        f"(slender: {entry['top1']:.4f} in {entry['seconds']:.3f} s)",
    ]
