"""Bars on a terminal, a line now and then elsewhere: each gives the callback that moves it."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .output import relative_gap, say

LOG_SECONDS = 30.0  # at least, between two lines of a log

Callback = Callable[[Any, Any], None]
Step = Callable[[Any], tuple[float | None, str]]  # a record -> (how far in all, what to say)
Bar = AbstractContextManager[Callback]


def progress_of_passes(title: str, passes: int, quiet: bool) -> Bar:
    """For a solver that makes a known number of passes."""

    def step(record: Any) -> tuple[float | None, str]:
        done, objective = record["passes"], record["objective"]
        value = math.inf if objective is None else objective  # None: of a fit that diverged
        return done, f"{done:.0f}/{passes} passes  objective {value:.5g}"

    return _bar(title, passes, f"0/{passes} passes", step, quiet)


def progress_of_gap(title: str, tol: float, quiet: bool) -> Bar:
    """For a solver that stops at a relative gap of `tol`, after an unknown number of passes.

    While nothing is proved the bar has no length and the falling objective is all there is to see;
    then it is the logarithm of the gap on its way from 1 to tol, and never goes back.
    """
    best = 1.0

    def step(record: Any) -> tuple[float | None, str]:
        nonlocal best
        gap = relative_gap(record)
        best = max(tol, min(best, gap))
        text = f"{record['passes']:.0f} passes  objective {record['objective']:.5g}  "
        if best >= 1.0:
            return None, text + "nothing proved yet"
        return math.log(best) / math.log(tol), text + f"gap {gap:.1e} -> {tol:.0e}"

    return _bar(title, None, "0 passes", step, quiet)


def progress_of_path(title: str, n: int, what: str, names: tuple[str, ...], quiet: bool) -> Bar:
    """For a path of n values of `what`, or more, which a record has under these names."""
    done = 0

    def step(record: Any) -> tuple[float | None, str]:
        nonlocal done
        done += 1
        last = ", ".join(f"{record[name]:.3g}" for name in names)
        return min(
            done, n
        ), f"{done}/{max(done, n)} {what}  last {last}: top-1 {record['top1']:.4f}"

    return _bar(title, n, f"0/{n} {what}", step, quiet)


def progress_of_fits(title: str, n: int, quiet: bool) -> Bar:
    """For the n fits of a comparison."""

    def step(event: Any) -> tuple[float | None, str]:
        done, record = event["done"], event["record"]
        text = "done" if event["ended"] else "starts" if record is None else figures_of(record)
        return done, f"{done}/{n} fits  {name_of(event)} seed {event['seed']}: {text}"

    return _bar(title, n, f"0/{n} fits", step, quiet)


def name_of(event: Mapping[str, Any]) -> str:
    """Who fits, and to what."""
    rows = "" if event["size"] is None else f" {event['size']:,} rows"
    return f"{event['dataset']}{rows} {event['opt']} {event['obj']}"


def figures_of(record: Mapping[str, Any]) -> str:
    """An entry of a curve in one line."""
    gap = "" if record["gap"] is None else f"  gap {record['gap']:.1e}"
    value = record.get("exact", record["objective"])
    objective = math.inf if value is None else value
    return (
        f"pass {record['passes']:.0f}  {record['seconds']:.3g} s  objective {objective:.5g}{gap}  "
        f"validation {record['validation_accuracy']:.4f}"
    )


def progress_of_experiments(title: str, n: int, quiet: bool) -> Bar:
    """For n experiments, each of which says what it is doing."""

    def step(event: Any) -> tuple[float | None, str]:
        return event["done"], f"{event['done']}/{n}  {event['what']}: {event['text']}"

    return _bar(title, n, f"0/{n}", step, quiet)


def progress_of_images(title: str, quiet: bool) -> Bar:
    """For images that are counted first; the record is how many are done, and of how many."""

    def step(record: Any) -> tuple[float | None, str]:
        done, total = record
        return done / total, f"{done:,}/{total:,} images"

    return _bar(title, None, "fitting the encoder", step, quiet)


def progress_of_rows(title: str, n: int, quiet: bool) -> Bar:
    """For work that goes over n rows once; the record is how many are done."""

    def step(done: Any) -> tuple[float | None, str]:
        return done, f"{done:,}/{n:,} rows"

    return _bar(title, n, f"0/{n:,} rows", step, quiet)


def progress_of_bytes(title: str, quiet: bool) -> Bar:
    """For downloads; the record is a file, how much of it is there, and of how much, if known."""

    def step(record: Any) -> tuple[float | None, str]:
        file, done, total = record
        if not total:
            return None, f"{file}  {done / 1e6:,.1f} MB"
        return done / total, f"{file}  {done / 1e6:,.1f}/{total / 1e6:,.1f} MB"

    return _bar(title, None, "", step, quiet)


@contextmanager
def _bar(
    title: str, total: float | None, start: str, step: Step, quiet: bool
) -> Iterator[Callback]:
    """A bar up to `total`; without one, it runs to and fro until a step says a share."""
    if quiet:
        yield lambda record, weights: None
        return
    if not sys.stderr.isatty():
        yield _log(title, step)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, text=start)

        def advance(record: Any, weights: Any) -> None:
            done, text = step(record)
            bar.update(task, total=None if done is None else total or 1, completed=done, text=text)

        yield advance


def _log(title: str, step: Step) -> Callback:
    """A line on stderr now and then, to be read later."""
    last = time.monotonic()

    def advance(record: Any, weights: Any) -> None:
        nonlocal last
        _, text = step(record)  # every time: a step may count
        if time.monotonic() - last >= LOG_SECONDS:
            say(f"{title}: {text}")
            last = time.monotonic()

    return advance
