"""Experiments one after another: measured, judged, drawn, and written as soon as they are done.

A folder for each, with the tables as CSV, the figure as PNG and SVG, and results.json, which is
written last: where it is there with the same settings, of the same code, the experiment is done.
"""

import csv
import hashlib
import inspect
import io
import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from ...extras import check
from ...rows import one_blas_thread
from ...storage import FileError, check_writable, finite
from ..documents import as_json, read, save
from ..plots import written
from ..provenance import machine
from ..repeats import Say
from ..splits import Split, fingerprint, locate
from .base import FULL, Experiment, Material, Row, Scale, as_document
from .drawing import brief
from .material import loaded

RESULTS = "results.json"
KIND = "reproduce"
PICTURES = (".png", ".svg")
VERSIONS = ("python", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")


class Order(NamedTuple):
    """What is to be done."""

    experiments: tuple[Experiment, ...]
    out: Path
    data: tuple[str, ...] = ()  # instead of the experiments' own; those without rows need none
    data_dir: str | None = None
    again: bool = False  # also what is there
    scale: Scale = FULL

    def names(self, each: Experiment) -> tuple[str, ...]:
        return (self.data or each.data) if each.data else ()


class Done(NamedTuple):
    """What came of one."""

    name: str
    document: dict[str, Any] | None  # what results.json holds
    reason: str = ""  # why there is none
    found: bool = False  # it was there already


def prepare(order: Order) -> None:
    """Raise now on what would fail after minutes."""
    check("matplotlib", "slender reproduce")
    for name in order.data:
        locate(name, order.data_dir)
    folders = [order.out / each.name for each in order.experiments]
    for folder in (order.out, *folders):
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder}: is a file; choose another --out")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{order.out}: cannot be created ({error.strerror}); choose another --out"
        ) from error
    for folder in folders:  # one that is not there is made with its first file
        check_writable((folder if folder.exists() else order.out) / RESULTS)


def carry_out(order: Order, say: Callable[[str, str], object]) -> Iterator[Done]:
    """Each experiment, when it is done; `say(name, line)` is told what is running."""
    sets = _Sets(order)
    for each in order.experiments:
        yield _one(order, each, sets, partial(say, each.name))


class _Sets:
    """Data sets, each loaded once."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._loaded: dict[str, Split] = {}

    def __getitem__(self, name: str) -> Split:
        if name not in self._loaded:
            self._loaded[name] = loaded(name, self._order.data_dir, self._order.scale)
        return self._loaded[name]


def _one(order: Order, each: Experiment, sets: _Sets, say: Say) -> Done:
    folder = order.out / each.name
    say("starts")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:  # a ValueError is about this data: too few rows or classes, a file, a package
            for package in each.packages:
                check(package, each.name)
            names = order.names(each)
            if each.data and len(names) < each.least:
                raise ValueError(f"needs {each.least} data sets; give --data one,other")
            material = Material({name: sets[name] for name in names}, order.scale, say)
            settings = _settings(order, each, material)
            earlier = None if order.again else found(folder, each, settings)
            if earlier is not None:
                return Done(each.name, earlier, found=True)
            with nullcontext() if each.times_blas else one_blas_thread():
                tables = each.measure(material)
        except ValueError as error:
            return Done(each.name, None, " ".join(str(error).split()))
    say("writes")
    document = {
        "kind": KIND,
        "name": each.name,
        "title": each.heading,
        "paper": each.paper,
        "claims": [as_document(claim) for claim in each.judge(tables)],
        "figures": [each.name + PICTURES[0]],
        "drawings": [each.name + suffix for suffix in PICTURES[1:]],  # the same, to be scaled
        "tables": [f"{name}.csv" for name in tables],
        "warnings": list(dict.fromkeys(_warning(w.message) for w in said)),
        "settings": settings,
        "versions": _versions(),
        "command": _command(order, each),
    }
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        save(as_csv(rows), folder / f"{name}.csv")
    figure = each.draw(brief(tables, names))
    for suffix in PICTURES:
        written(figure, folder / (each.name + suffix))
    text = as_json(document)
    save(text, folder / RESULTS)
    return Done(each.name, json.loads(text))


def _warning(message: Warning | str) -> str:
    """In one line, without the advice: an experiment's settings are not the user's."""
    return " ".join(str(message).split()).partition("; give ")[0]


def found(folder: Path, each: Experiment, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is there of an experiment with these settings, if it is complete."""
    document = read(folder / RESULTS)
    try:
        same = document["kind"] == KIND and document["settings"] == finite(settings)
        files = [*document["figures"], *document["drawings"], *document["tables"]]
    except (KeyError, TypeError):
        return None
    whole = same and all((folder / name).is_file() for name in files)
    return document if whole and document["name"] == each.name else None


def _settings(order: Order, each: Experiment, material: Material) -> dict[str, Any]:
    return {
        "data": [
            {"name": name, "fingerprint": fingerprint(split)}
            for name, split in material.sets.items()
        ],
        "scale": order.scale._asdict(),
        "version": __version__,
        "code": _code(each),
    }


def _code(each: Experiment) -> str:
    """A checksum of the modules of its functions: they may change while the version does not."""
    functions = (each.measure, each.judge, each.draw)
    modules = sorted({getattr(function, "func", function).__module__ for function in functions})
    text = "".join(inspect.getsource(sys.modules[name]) for name in modules)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _versions() -> dict[str, Any]:
    known = machine("matplotlib")
    return {"slender": __version__, **{name: known[name] for name in VERSIONS}}


def _command(order: Order, each: Experiment) -> str:
    """The command line that does it again."""
    words = ["slender", "reproduce", each.name]
    if each.data and order.data:
        words += ["--data", ",".join(order.data)]
    if order.data_dir is not None and each.data:
        words += ["--data-dir", order.data_dir]
    return shlex.join([*words, "--out", str(order.out), "--again"])


def as_csv(rows: Sequence[Row]) -> str:
    """A table with the names of its columns; what is missing is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
