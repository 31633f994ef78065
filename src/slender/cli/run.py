"""slender run: one optimiser on one data set, pass by pass."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from .device import AUTO, Device, check_asked, computes_on
from .experiments import OPT, DataDir, Dataset, Obj, Preprocess
from .interrupts import Ending, Interrupted, interruptible
from .logs import check_log, logged, places_of
from .options import Json, Key, Label, Log, Plot, Quiet, Threads, of_data
from .output import cell, check_outputs, check_plot, show, write_json
from .progress import progress_of_passes

COLUMNS = {  # heading -> name in an entry of the curve, format
    "pass": ("passes", ".0f"),
    "seconds": ("seconds", ".3f"),
    "objective": ("objective", ".5g"),
    "exact": ("exact", ".5g"),
    "gap": ("gap", ".2e"),
    "train": ("train_accuracy", ".4f"),
    "validation": ("validation_accuracy", ".4f"),
    "top-5": ("validation_top5", ".4f"),
}
WIDTH = 11  # of a column: a figure of five digits with its sign and exponent


def run(
    *,
    dataset: Dataset = "digits",
    preprocess: Preprocess = None,
    dsq: Annotated[
        int | None,
        of_data("--dsq", help="Train on codes: one byte for this many numbers (needs faiss)."),
    ] = None,
    test_on: Annotated[
        str | None,
        of_data(help="With --dsq, test on full rows or on codes.  If not given: full."),
    ] = None,
    data_dir: DataDir = None,
    key: Key = None,
    label: Label = None,
    opt: Annotated[str, OPT],
    obj: Obj = None,
    settings: dict[str, Any],
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    device: Device = AUTO,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Also compute the exact objective after each pass."),
    ] = False,
    json: Json = None,
    log: Log = None,
    plot: Plot = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit one optimiser and show objective, gap and accuracies after each pass.

    The test rows are looked at once, at the end.  Evaluation is off the clock.  Ctrl-C ends the
    fit after the pass that is running.  An option that the optimiser does not use is an error.
    """
    check_outputs(json, plot)
    places = places_of(log, json)
    check_log(places, json, plot)
    check_plot(plot)
    check_asked(device)
    from ..files import Names
    from ..lab.experiment import describe, experiment
    from ..lab.optimisers import Options, choose, complete
    from ..lab.splits import compressed, load, needs_folder, prepared

    chosen, _ = choose(opt, obj)
    options = Options(**settings)
    complete(opt, chosen, options)
    preprocess = preprocess or "none"
    if data_dir is not None and not needs_folder(dataset):
        raise ValueError(f"--data-dir is not used by --dataset {dataset}; remove it")
    if test_on is not None and dsq is None:
        raise ValueError("--test-on says what a model trained on codes is tested on; give --dsq")
    whole = load(dataset, data_dir, Names(key, label))
    split = prepared(whole, preprocess)
    compression: dict[str, Any] | None = None
    if dsq is not None:
        compression = {"d_sq": dsq, "test_on": test_on or "full"}
        split = compressed(split, **compression, seed=seed)
    fit: dict[str, Any] = {"command": "run", "dataset": dataset, "preprocess": preprocess}
    fit |= {"compression": compression, **describe(split, opt, chosen, options, seed)}
    fit["device"], there = _where(fit, device, split.X_train)
    ending, table = Ending(), Table(_heading(fit))
    keep = logged(places)
    for_people = not quiet and json != "-"
    with progress_of_passes(f"{opt} on {dataset}", options.passes, quiet or for_people) as advance:

        def watch(entry: dict[str, float | None]) -> bool:
            stop = ending(entry, None)  # before anyone can see the pass, and press Ctrl-C
            advance(entry, None)
            for call in keep:
                call(entry)
            if for_people:
                table.add(entry)
            return stop

        fit |= interruptible(
            lambda: experiment(split, opt, chosen, options, seed, exact, watch, there), ending
        )
    fit["finished"] = not ending.ended
    if plot is not None:
        from ..lab.figures import plot_curves

        plot_curves([fit], plot)
    fit["settings"] = {
        **fit["options"],
        "preprocess": preprocess,
        "dsq": dsq,
        "test_on": test_on,
        "key": key,
        "label": label,
    }
    write_json(fit, json, {part: (dataset, of) for part, of in whole._asdict().items()})
    _warn(fit["warnings"])
    if for_people:
        show("", _last_line(fit["test"]))
    if ending.ended:
        kept = "" if json in (None, "-") else f", and in {json}"
        raise Interrupted(f"{len(fit['curve'])} of {options.passes} passes are done{kept}")


def _where(fit: dict[str, Any], asked: str, X: Any) -> tuple[str, Any]:
    """Where to compute, in words and as the estimator's parameter."""
    from ..lab.optimisers import estimator

    model = estimator(fit["opt"], fit["obj"], fit["options"], fit["rows"], fit["seed"])
    words = computes_on(model, asked, X, fit["classes"], fit["options"]["passes"])
    return words, getattr(model, "device", None)


class Table:
    """The curve for people, one line when its pass ends."""

    def __init__(self, heading: str) -> None:
        self._heading = heading
        self._wanted: dict[str, tuple[str, str]] = {}

    def add(self, entry: dict[str, float | None]) -> None:
        if not self._wanted:  # the first says which figures there are: gap and exact not always
            self._wanted = {
                heading: (name, style)
                for heading, (name, style) in COLUMNS.items()
                if name == "objective" or entry.get(name) is not None
            }
            show(self._heading, _line(self._wanted))
        show(_line(cell(entry.get(name), style) for name, style in self._wanted.values()))


def _line(cells: Iterable[str]) -> str:
    return " ".join(f"{text:>{WIDTH}}" for text in cells)


def _warn(messages: list[str]) -> None:
    import warnings

    for message in messages:
        warnings.warn(message, stacklevel=2)


def _heading(fit: dict[str, Any]) -> str:
    codes = ""
    if fit["compression"] is not None:
        codes = f"; trained on codes, tested on {fit['compression']['test_on']}"
    return (
        f"{fit['opt']} on {fit['dataset']}: {fit['problem']}; {fit['rows']:,} x {fit['features']:,}"
        f", {fit['classes']} classes, seed {fit['seed']}{codes}"
    )


def _last_line(test: dict[str, Any]) -> str:
    area, top5 = test.get("pr_area"), test.get("top5")
    return (
        f"test error {100 * test['error']:.2f} % of {test['rows']:,} rows"
        + ("" if top5 is None else f"; top-5 error {100 * (1 - top5):.2f} %")
        + ("" if area is None else f"; area under the precision-recall curve {area:.4f}")
    )
