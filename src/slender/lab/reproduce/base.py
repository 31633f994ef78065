"""What an experiment is: three functions, of which only the first takes time.

    measure(material) -> tables      the numbers, one row for each point of a figure
    judge(tables) -> claims          what the paper says, held against these numbers
    draw(tables) -> figure           the same numbers for the eye

The tables are all that passes between them.  So a claim can be tested on numbers that somebody made
up, and what a figure shows is exactly what its CSV file holds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from ..repeats import Say
from ..splits import Split

Row = dict[str, Any]
Tables = dict[str, list[Row]]  # name of a file, without its suffix -> rows of the same columns


class Claim(NamedTuple):
    """A statement of a paper, and whether it is true here."""

    text: str
    data: str | None  # the data set it was judged on; None: all of them, or none is needed
    holds: bool
    numbers: dict[str, Any]  # that decided


class Scale(NamedTuple):
    """How much work an experiment may make of itself."""

    rows: int | None = None  # training rows of a data set at most; None: all there are
    passes: int = 10
    seeds: int = 3
    points: int = 7  # along an axis of settings
    effort: float = 1.0  # of sizes that an experiment chooses itself


FULL = Scale()
TINY = Scale(rows=300, passes=2, seeds=1, points=3, effort=0.05)  # does it run?
SCALES = {"full": FULL, "tiny": TINY}


class Material(NamedTuple):
    """What an experiment gets."""

    sets: Mapping[str, Split]
    scale: Scale = FULL
    say: Say = lambda line: None


@dataclass(frozen=True)
class Experiment:
    """A figure, a table or a claim of a paper."""

    name: str
    paper: str  # authors and year, as NOTATION.md has them
    what: str  # of the paper: "Figure 3"
    title: str  # one line
    measure: Callable[[Material], Tables]
    judge: Callable[[Tables], list[Claim]]
    draw: Callable[[Tables], Any]
    data: tuple[str, ...] = ()  # data sets if none is named; (): it makes its own rows
    least: int = 1  # data sets that it needs
    times_blas: bool = False  # else BLAS has one thread: products are small, and its threads spin
    packages: tuple[str, ...] = ()  # beside those of slender
    aliases: tuple[str, ...] = ()  # by the number in the paper

    @property
    def heading(self) -> str:
        """Over its figure."""
        return f"{self.paper}, {self.what}: {self.title}"


def grouped(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Rows that agree in one column, in the order of their first."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def means(rows: Sequence[Row], over: str, name: str) -> dict[Any, float]:
    """The mean of a column for each value of another; a missing figure makes its mean nan."""
    return {
        value: fmean(float("nan") if row[name] is None else row[name] for row in its)
        for value, its in grouped(rows, over).items()
    }


def as_document(claim: Claim) -> Row:
    """For results.json: the text says where, too."""
    where = "" if claim.data is None else f"{claim.data}: "
    return {**claim._asdict(), "text": where + claim.text, "holds": bool(claim.holds)}


def verdict(claim: Mapping[str, Any]) -> str:
    """One line for people, of a claim as results.json has it."""
    holds = "holds" if claim["holds"] else "DOES NOT HOLD"
    return f"{holds}: {claim['text']}{evidence(claim)}"


def evidence(claim: Mapping[str, Any]) -> str:
    """The numbers that decided, in brackets; names of numbers have commas."""
    numbers = "; ".join(f"{name} {shown(value)}" for name, value in claim["numbers"].items())
    return f" ({numbers})" if numbers else ""


def shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
