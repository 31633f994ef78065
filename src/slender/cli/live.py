"""A comparison as it goes: one line for each contender on a terminal, a log elsewhere."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .output import cell
from .progress import Callback, name_of, progress_of_fits

COLUMNS = {  # heading -> name in an entry of the curve, format
    "pass": ("passes", ".0f"),
    "seconds": ("seconds", ".3f"),
    "objective": ("exact", ".5g"),
    "gap": ("gap", ".1e"),
    "validation": ("validation_accuracy", ".4f"),
}


@contextmanager
def progress_of_comparison(n: int, quiet: bool) -> Iterator[Callback]:
    """For the n fits of a comparison; gives the callback that takes its events."""
    if quiet or not sys.stderr.isatty():
        with progress_of_fits("compare", n, quiet) as advance:
            yield advance
        return
    from rich.console import Console
    from rich.live import Live

    board = Board(n)
    with Live(
        board.table(), console=Console(stderr=True), transient=True, refresh_per_second=4
    ) as live:

        def show(event: Any, weights: Any) -> None:
            board.add(event)
            live.update(board.table())

        yield show


class Board:
    """What is known of every contender: the newest record of its newest fit."""

    def __init__(self, n: int) -> None:
        self.n, self.done = n, 0
        self.rows: dict[str, dict[str, Any]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """An event of slender.lab.comparison.compare."""
        self.done = event["done"]
        row = self.rows.setdefault(name_of(event), {"record": {}})
        row |= {"seed": event["seed"], "step": event["step"], "ended": event["ended"]}
        if event["record"] is not None:
            row["record"] = event["record"]

    def table(self) -> Any:
        """For a terminal."""
        from rich.table import Table

        table = Table(
            title=f"{self.done} of {self.n} fits",
            title_justify="left",
            box=None,
            padding=(0, 2, 0, 0),
        )
        for heading in ("", "seed", "step", *COLUMNS):
            table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
        for name, row in self.rows.items():
            figures = [cell(row["record"].get(of), style) for of, style in COLUMNS.values()]
            mark = "  " if row["ended"] else "> "
            table.add_row(mark + name, str(row["seed"]), cell(row["step"], ".3g"), *figures)
        return table
