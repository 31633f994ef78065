"""What the commands share: options, lines on stderr, JSON, and work that Ctrl-C ends."""

import contextvars
import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

Result = TypeVar("Result")

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the results as JSON; - is standard output."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no summary and no progress.")]


def say(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"slender: {' '.join(message.split())}\n")
    sys.stderr.flush()


def check_outputs(*names: str | Path | None) -> None:
    """Raise before the work starts if a result could not be written after it."""
    from ..files import check_writable

    given = [str(name) for name in names if name is not None]
    if len(set(given)) < len(given):
        raise ValueError(f"two results cannot both go to {given[0]}; name another file")
    for name in given:
        if name != "-":
            check_writable(name)


def write_json(results: dict[str, Any], name: str | None) -> None:
    """To a file, to standard output, or nowhere."""
    from ..files import write_whole

    if name is None:
        return
    text = json.dumps(_finite(results), indent=2, allow_nan=False) + "\n"
    if name == "-":
        sys.stdout.write(text)
    else:
        write_whole(name, lambda path: path.write_text(text, encoding="utf-8"))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {name: _finite(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def relative_gap(record: dict[str, float]) -> float:
    """The share of the objective by which it can lie above its optimum, as far as is proved."""
    gap, objective = record["gap"], record["objective"]
    return gap / objective if objective > 0 else (0.0 if gap == 0 else math.inf)


def show(*things: Any) -> None:
    """Tables and lines for people, on standard output."""
    from rich.console import Console

    Console(highlight=False, markup=False, soft_wrap=True).print(*things, sep="\n")


def facts(pairs: dict[str, str]) -> Any:
    """A table of two columns: what, how much."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs.items():
        table.add_row(name, value)
    return table


def interruptible(work: Callable[[], Result]) -> Result:
    """work(), in another thread: Ctrl-C reaches this one even while a compiled kernel runs."""
    done: list[Result] = []
    failed: list[BaseException] = []

    def target() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    context = contextvars.copy_context()  # newer Pythons keep the warnings' settings there
    thread = threading.Thread(target=context.run, args=(target,), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)  # a wait without end cannot be interrupted on Windows
    if failed:
        raise failed[0]
    return done[0]
