"""slender run: one optimiser on one data set, epoch by epoch."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from .common import (
    Average,
    BatchSize,
    Damping,
    DataDir,
    Ending,
    Epochs,
    HessianSamples,
    InitLr,
    Intercept,
    Interrupted,
    Json,
    Loss,
    Mu,
    Negatives,
    Plot,
    Preprocess,
    Prior,
    Quiet,
    Rank,
    Schedule,
    Threads,
    cell,
    check_outputs,
    check_plot,
    interruptible,
    number_or_word,
    show,
    write_json,
)
from .progress import progress_of_passes

COLUMNS = {  # heading -> name in an entry of the curve, format
    "epoch": ("passes", ".0f"),
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
    opt: Annotated[
        str, typer.Option(help="gd, sgd, sgd-ovr, sgdqn, olbfgs, slnd, larank or bcfw.")
    ],
    dataset: Annotated[
        str, typer.Option(help="digits, mini-mnist, mnist, fashion-mnist, a file or a folder.")
    ] = "digits",
    obj: Annotated[
        str | None, typer.Option(help="logistic or svm; what the optimiser solves, if not given.")
    ] = None,
    epochs: Epochs = None,
    mu: Mu = None,
    init_lr: InitLr = None,
    batch_size: BatchSize = None,
    schedule: Schedule = None,
    average: Average = None,
    intercept: Intercept = None,
    loss: Loss = None,
    negatives: Negatives = None,
    prior: Prior = None,
    rank: Rank = None,
    hessian_samples: HessianSamples = None,
    damping: Damping = None,
    preprocess: Preprocess = "none",
    dsq: Annotated[
        int | None,
        typer.Option("--dsq", help="Train on codes of a byte for so many numbers (needs faiss)."),
    ] = None,
    test_on: Annotated[
        str | None, typer.Option(help="With --dsq: full rows (the default) or codes.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Also the exact objective after each epoch.")
    ] = False,
    data_dir: DataDir = None,
    json: Json = None,
    plot: Plot = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit one optimiser and show objective, gap and accuracies after each epoch.

    The test rows are looked at once, at the end.  Evaluation is off the clock.  Ctrl-C ends the
    fit after the epoch that is running.
    """
    check_outputs(json, plot)
    check_plot(plot)
    from ..lab.experiment import describe, experiment
    from ..lab.optimisers import Options, choose, complete
    from ..lab.sources import compressed, load, needs_folder, prepared

    chosen, _ = choose(opt, obj)
    given: dict[str, Any] = {"epochs": epochs, "mu": mu, "init_lr": init_lr, "schedule": schedule}
    given |= {"batch_size": batch_size, "average": average, "intercept": intercept}
    given |= {"loss": loss, "negatives": number_or_word(negatives), "prior": prior}
    given |= {"rank": rank, "hessian_samples": hessian_samples, "damping": damping}
    options = Options.of(given)
    complete(opt, chosen, options)
    if data_dir is not None and not needs_folder(dataset):
        raise ValueError(f"--data-dir is not used by --dataset {dataset}; remove it")
    if test_on is not None and dsq is None:
        raise ValueError("--test-on says what a model trained on codes is tested on; give --dsq")
    whole = load(dataset, data_dir)
    split = prepared(whole, preprocess)
    compression: dict[str, Any] | None = None
    if dsq is not None:
        compression = {"d_sq": dsq, "test_on": test_on or "full"}
        split = compressed(split, **compression, seed=seed)
    fit: dict[str, Any] = {"command": "run", "dataset": dataset, "preprocess": preprocess}
    fit |= {"compression": compression, **describe(split, opt, chosen, options, seed)}
    ending, table = Ending(), Table(_heading(fit))
    for_people = not quiet and json != "-"
    with progress_of_passes(f"{opt} on {dataset}", options.epochs, quiet or for_people) as advance:

        def watch(entry: dict[str, float | None]) -> bool:
            stop = ending(entry, None)  # before anyone can see the epoch, and press Ctrl-C
            advance(entry, None)
            if for_people:
                table.add(entry)
            return stop

        fit |= interruptible(
            lambda: experiment(split, opt, chosen, options, seed, exact, watch), ending
        )
    fit["finished"] = not ending.ended
    if plot is not None:
        from ..lab.figures import plot_curves

        plot_curves([fit], plot)
    fit["settings"] = {**fit["options"], "preprocess": preprocess, "dsq": dsq, "test_on": test_on}
    write_json(fit, json, {part: (dataset, of) for part, of in whole._asdict().items()})
    _warn(fit["warnings"])
    if for_people:
        show("", _last_line(fit["test"]))
    if ending.ended:
        kept = "" if json in (None, "-") else f", and in {json}"
        raise Interrupted(f"{len(fit['curve'])} of {options.epochs} epochs are done{kept}")


class Table:
    """The curve for people, a line when its epoch ends."""

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
