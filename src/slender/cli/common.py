"""What the commands share: options, lines on stderr, tables, JSON, and work that Ctrl-C ends."""

import contextvars
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

Result = TypeVar("Result")

# Whose threads to set: slender's, those of its BLAS, and of faiss and others that use OpenMP.
POOLS = ("SLENDER_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

# Options in their groups, as the help of a command shows them.
of_data: Any = partial(typer.Option, rich_help_panel="Data")
of_output: Any = partial(typer.Option, rich_help_panel="Output")

Rows = Annotated[Path, typer.Argument(help="Rows: .npy .npz .safetensors .svm .pq, or a folder.")]
Labels = Annotated[
    Path | None, typer.Argument(help="Labels: .npy .txt .csv; not needed where X holds them.")
]
ValY = Annotated[Path | None, of_data(help="Labels of --val.")]
ModelOut = Annotated[Path, of_output("--out", "-o", help="The model file to write.")]
Json = Annotated[
    str | None,
    of_output("--json", metavar="FILE", help="Write the results as JSON; - is standard output."),
]
Plot = Annotated[
    Path | None, of_output(help="Write a figure: .png, .pdf or .svg (needs matplotlib).")
]
Quiet = Annotated[bool, of_output("--quiet", "-q", help="Print no summary and no progress.")]


def _use_threads(context: typer.Context, count: int | None) -> int | None:
    """For this command, in the environment: libraries read it there, when they are first loaded."""
    if count is not None:
        if count < 1:
            raise ValueError(f"--threads {count}: give a number from 1 on")
        before = {name: os.environ.get(name) for name in POOLS}
        os.environ.update(dict.fromkeys(POOLS, str(count)))
        context.call_on_close(lambda: _restore(before))
    return count


def _restore(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        callback=_use_threads,
        help="Number of threads.  If not given: SLENDER_NUM_THREADS, or one for each core.",
    ),
]

WIDE = 160  # columns at least: a terminal folds a line, but a table's cells would be cut
Columns = Mapping[str, tuple[str, str]]  # heading -> name in a row, format


class Interrupted(Exception):  # noqa: N818  (it is none)
    """Ctrl-C, where there is something to say about what was written."""


def say(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"slender: {' '.join(message.split())}\n")
    sys.stderr.flush()


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """To write to; a full disk at its other end is an error of one line."""
    from ..storage import FileError, unwritten

    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough
        raise
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python tries once more when it exits
        raise FileError(f"standard output {unwritten(error)}") from error


def check_outputs(*names: str | Path | None) -> None:
    """Raise before the work starts if a result could not be written after it."""
    from ..storage import check_writable

    given = [str(name) for name in names if name is not None]
    if len(set(given)) < len(given):
        raise ValueError(f"two results cannot both go to {given[0]}; name another file")
    for name in given:
        if name != "-":
            check_writable(name)


def check_plot(path: Path | None) -> None:
    """Raise before the work starts if a figure could not be drawn after it."""
    if path is not None:
        from ..extras import check
        from ..lab.plots import check_format

        check_format(path)
        check("matplotlib", "--plot")


def write_json(
    results: dict[str, Any],
    name: str | None,
    inputs: Mapping[str, tuple[Any, Any]] | None = None,
) -> None:
    """To a file, to standard output, or nowhere; with where the results come from."""
    if name is None:
        return
    from ..lab.documents import as_json, save

    text = as_json(results, inputs)
    if name == "-":
        with standard_output() as out:
            out.write(text)
    else:
        save(text, name)


def relative_gap(record: dict[str, float]) -> float:
    """The share of the objective by which it can lie above its optimum, as far as is proved."""
    gap, objective = record["gap"], record["objective"]
    return gap / objective if objective > 0 else (0.0 if gap == 0 else math.inf)


def show(*things: Any) -> None:
    """Tables and lines for people, on standard output."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, WIDE)
    with standard_output():
        console.print(*things, sep="\n")


def number_or_word(text: str, number: type[int] | type[float] = float) -> float | str:
    """1 or all; a word is judged where it is used."""
    try:
        return number(text)
    except ValueError:
        return text


def read_grid(flag: str, text: str, usual: int | None = None) -> int | list[float]:
    """0.01,0.1 -> these;  1e-3:1e3:7 -> seven, evenly in the logarithm;  45 -> 45, if `usual`."""
    if usual is not None and text.strip().isdecimal():
        return int(text)
    try:
        values = _between(*text.split(":")) if ":" in text else [float(v) for v in text.split(",")]
        if not all(0 < value < math.inf for value in values):
            raise ValueError
    except (TypeError, ValueError) as error:
        number = "" if usual is None else f"a number of values ({usual}), "
        raise ValueError(
            f"{flag} {text}: give {number}a list (0.01,0.1,1) or lowest:highest:number "
            "(1e-3:1e3:7), every one a number > 0"
        ) from error
    return values


def _between(lowest: str, highest: str, number: str) -> list[float]:
    """Numbers from the lowest to the highest, evenly in their logarithm."""
    low, high, n = float(lowest), float(highest), int(number)
    if not (0 < low < high < math.inf and n > 1):
        raise ValueError
    return [low * (high / low) ** (k / (n - 1)) for k in range(n)]


def facts(pairs: dict[str, str]) -> Any:
    """A table of two columns: what, how much."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs.items():
        table.add_row(name, value)
    return table


def columns(rows: Iterable[Mapping[str, Any]], wanted: Columns) -> Any:
    """A table with one line per row; a column in which no row has anything is left out."""
    from rich.table import Table

    lines = [[cell(row.get(name), style) for name, style in wanted.values()] for row in rows]
    kept = [place for place in range(len(wanted)) if any(line[place] != "-" for line in lines)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for place in kept:
        heading = list(wanted)[place]
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(line[place] for place in kept))
    return table


def cell(value: Any, style: str) -> str:
    """A figure, or its mean ± spread over seeds where they differ."""
    if isinstance(value, Mapping):
        spread = f" ± {value['spread']:.2g}" if value["spread"] else ""
        return cell(value["mean"], style) + spread
    return "-" if value is None else format(value, style)


class Ending:
    """A callback of a fit: once Ctrl-C was pressed, the step that runs is the last one."""

    def __init__(self) -> None:
        self.begun = self.asked = self.ended = False

    def __call__(self, record: Any, weights: Any) -> bool:
        self.begun, self.ended = True, self.asked
        return self.asked


def interruptible(work: Callable[[], Result], ending: Ending | None = None) -> Result:
    """work(), in another thread: Ctrl-C reaches this one even while a compiled kernel runs.

    With an `ending` among its callbacks, a fit that has something to keep is ended rather than
    left; a second Ctrl-C leaves it.
    """
    future: Future[Result] = Future()

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    context = contextvars.copy_context()  # newer Pythons keep the warnings' settings there
    threading.Thread(target=context.run, args=(target,), daemon=True).start()
    try:
        _await(future)
    except KeyboardInterrupt:
        if ending is None or not ending.begun:
            raise
        ending.asked = True
        say(
            "interrupted: this step is the last, then the best so far is written (again: leave now)"
        )
        _await(future)
    return future.result()


def _await(future: Future[Any]) -> None:
    """Until it is done.  (Not by joining its thread, which Python 3.11 can interrupt only once.)"""
    while not future.done():
        wait([future], 0.2)  # a wait without end cannot be interrupted on Windows
