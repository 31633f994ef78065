"""What the commands share: options, names checked, data sets loaded or skipped with a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slender.lab.datasets import Dataset

from .datasets import MissingDataError
from .runner import DATASETS, QUICK_ROWS, first_rows

Json = Annotated[Path | None, typer.Option("--json", help="Write all to this file.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="2,000 rows, one repeat: does it run? Not a figure.")
]
WIDTH = 128  # of the tables, also where there is no terminal


def names(given: str, known: dict[str, Any], what: str) -> list[str]:
    chosen = [name.strip() for name in given.split(",")]
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return chosen


def load(given: str, quick: bool, console: Console) -> Iterator[tuple[str, Dataset]]:
    """Each data set of a list of names, one at a time; `quick`: a few of its rows."""
    for name in names(given, DATASETS, "data set"):
        try:
            dataset = DATASETS[name].load()
        except MissingDataError as reason:
            console.print(f"{name} is skipped: {reason}")
            continue
        yield name, first_rows(dataset, QUICK_ROWS) if quick else dataset
