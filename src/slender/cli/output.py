"""What commands write: lines on stderr, tables and figures for people, JSON for machines."""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

WIDE = 160  # columns at least: a terminal folds a line, but a table's cells would be cut
# The words of the command that runs, which results keep: how to get them again.
WORDS: ContextVar[tuple[str, ...]] = ContextVar("WORDS", default=())
Columns = Mapping[str, tuple[str, str]]  # heading -> name in a row, format


def say(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"slender: {' '.join(message.split())}\n")
    sys.stderr.flush()


def command_line() -> list[str]:
    """The command that runs, as its user typed it; empty where a function is called directly."""
    return ["slender", *WORDS.get()] if WORDS.get() else []


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

    text = as_json({**results, "command_line": command_line()}, inputs)
    if name == "-":
        with standard_output() as out:
            out.write(text)
    else:
        save(text, name)


def relative_gap(record: dict[str, float]) -> float:
    """The share of the objective by which it can lie above its optimum, as far as is proved."""
    gap, objective = record["gap"], record["objective"]
    return gap / objective if objective > 0 else (0.0 if gap == 0 else math.inf)


def place(results: dict[str, Any]) -> dict[str, str]:
    """A line that says where it was computed, if not on this machine's cores."""
    return {} if results["device"] == "cpu" else {"device": results["device"]}


def show(*things: Any) -> None:
    """Tables and lines for people, on standard output."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, WIDE)
    with standard_output():
        console.print(*things, sep="\n")


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
