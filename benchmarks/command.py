"""What the commands share: options, data sets one after another, tables, documents."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from slender import datasets as registry
from slender.datasets import Dataset, MissingDataError, first_rows
from slender.lab.documents import as_json, read, save
from slender.lab.ledger import Ledger, checksum
from slender.lab.repeats import Say
from slender.lab.splits import fingerprint

from . import machine

# Of the registry, those with settings of their own in the races (CHOSEN_C, SHARES).
DATASETS = (
    "caltech101",
    "cifar100",
    "digits",
    "mnist",
    "planted",
    "planted200k",
    "planted_lowrank",
    "tiny",
)
QUICK_ROWS = 2000
WIDTH = 128  # of the tables, also where there is no terminal
ASKED = ("benchmark", "dataset", "data", "options")  # what a result is known by

Json = Annotated[Path | None, typer.Option("--json", help="Write all to this file.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="2,000 rows, one repeat: does it run? Not a figure.")
]
QuickMatrix = Annotated[
    bool, typer.Option("--quick", help="A small matrix, one repeat. Not a figure.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Run only what the file of --json does not hold yet.")
]
Sets = Annotated[str, typer.Option(help="Names, separated by commas.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs of each.")]
Factor = Annotated[float, typer.Option(help="A rival may take this many times slender's seconds.")]
MostSeconds = Annotated[float, typer.Option(help="But no run of a rival more than this.")]
Work = Callable[[str, Dataset, Say], dict[str, Any]]
Show = Callable[[str, dict[str, Any]], Iterable[Any]]


def names(given: str, known: Iterable[str], what: str) -> list[str]:
    chosen = [name.strip() for name in given.split(",")]
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return chosen


def say(line: str, name: str = "") -> None:
    """Plain lines on stderr: the thread of a live display would compete with what is timed."""
    print(f"{name}: {line}" if name else line, file=sys.stderr, flush=True)


def show(*things: Any) -> None:
    """Tables and sentences, on standard output."""
    console = Console(width=WIDTH, highlight=False)
    for thing in things:
        console.print(thing, soft_wrap=isinstance(thing, str))


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> Table:
    """With the first columns, of words, to the left and figures to the right."""
    made = Table(title=title)
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < left else "right")
    for row in rows:
        made.add_row(*row)
    return made


def plain(thing: Any) -> Any:
    """A sentence, or a table as JSON can hold it; benchmarks.tables makes Markdown of both."""
    if not isinstance(thing, Table):
        return str(thing)
    cells = [list(column.cells) for column in thing.columns]
    return {
        "title": str(thing.title or ""),
        "columns": [str(column.header) for column in thing.columns],
        "rows": [list(row) for row in zip(*cells, strict=True)],
    }


def called() -> str | None:
    """The command that runs now, as a user types it, without where its results go."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is None or not main.name.startswith("benchmarks"):
        return None
    return without_outputs(["python", "-m", main.name.removesuffix(".__main__"), *sys.argv[1:]])


def without_outputs(words: Iterable[str]) -> str:
    """A command line without --json FILE, --cache FOLDER and --resume."""
    given, kept = iter(words), []
    for word in given:
        if word in ("--json", "--cache"):
            next(given, None)
        elif word != "--resume" and not word.startswith(("--json=", "--cache=")):
            kept.append(word)
    return shlex.join(kept)


def shape_of(dataset: Dataset) -> list[int]:
    """Rows, dimensions, classes."""
    return [*dataset.X_train.shape, len(np.unique(dataset.y_train))]


def sized(name: str, shape: Sequence[int]) -> str:
    n, d, C = shape
    return f"{name}: {n:,} × {d:,}, {C} classes"


def load(given: str, quick: bool) -> Iterator[tuple[str, Dataset]]:
    """Each data set of a list of names, one at a time; `quick`: a few of its rows."""
    for name in names(given, DATASETS, "data set"):
        try:
            dataset = registry.load(name)
        except MissingDataError as reason:
            show(f"{name} is skipped: {reason}")
            continue
        yield name, first_rows(dataset, QUICK_ROWS) if quick else dataset


@dataclass(frozen=True)
class Benchmark:
    """One call of a command, and the document that it writes."""

    name: str
    json_file: Path | None = None
    quick: bool = False
    resume: bool = False
    packages: Sequence[str] = ()  # of rivals, whose versions belong to the result
    report: dict[str, list[Any]] = field(default_factory=dict)  # what was told, part by part

    def tell(self, *things: Any, part: str = "") -> None:
        """Show tables and sentences; the document keeps them too."""
        show(*things)
        self.report.setdefault(part, []).extend(map(plain, things))

    def save(self, results: dict[str, Any]) -> None:
        if self.json_file:
            about = {
                "benchmark": self.name,
                "command": called(),
                "quick": self.quick,
                "pools": machine.pools(),
                "report": self.report,
            }
            save(as_json({**about, **results}, None, *self.packages), self.json_file)

    def over(
        self,
        datasets: str,
        options: dict[str, Any],
        work: Work,
        report: Show = lambda *_: (),
        summary: Callable[[dict[str, dict[str, Any]]], Iterable[Any]] = lambda _: (),
    ) -> dict[str, dict[str, Any]]:
        """The work on each data set, saved after each of them: the whole may take hours.

        `options` are all that a result depends on; `report` tells of each data set, `summary` of
        all of them together.
        """
        ledger = Ledger(ASKED, self._earlier(), self._keep)
        results = {}
        for name, dataset in load(datasets, self.quick):
            known = {"benchmark": self.name, "dataset": name, "data": fingerprint(dataset)}
            asked = {**known, "options": {**options, "quick": self.quick}}
            found = ledger.get(asked)
            if found is None:
                with machine.Neighbours() as others:
                    made = work(name, dataset, lambda line, name=name: say(line, name))
                found = {**asked, "others": others.cores, **made}
                ledger.add(found)
            results[name] = found
            self.report.pop(name, None)  # what an earlier run told of it
            self.tell(*report(name, found), *machine.disturbed(name, found["others"]), part=name)
            self._keep(ledger.runs)
        self.tell(*summary(results))
        if results:
            self._keep(ledger.runs)
        return results

    def _keep(self, runs: list[dict[str, Any]]) -> None:
        latest = {run["dataset"]: run for run in runs}
        self.save({"checksum": checksum(list(latest.values())), "datasets": latest})

    def _earlier(self) -> list[dict[str, Any]]:
        """What the file to resume holds."""
        if not self.resume:
            return []
        if self.json_file is None:
            raise typer.BadParameter("--resume continues the file of --json; name it")
        if not self.json_file.exists():
            return []
        held = read(self.json_file) or {}
        runs = list(held.get("datasets", {}).values())
        if held.get("benchmark") != self.name or held["checksum"] != checksum(runs):
            raise typer.BadParameter(f"{self.json_file} is not as {self.name} wrote it")
        self.report.update({part: of for part, of in held.get("report", {}).items() if part})
        return runs
