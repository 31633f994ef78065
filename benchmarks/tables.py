"""python -m benchmarks.tables: docs/benchmarks.md, made from results files.

Every file of `benchmarks/results/` is the document of one run (`--json`), or of `slender compare`.
Its tables and sentences are those that the run showed; the command, the machine, the versions and
the date come from the same file.  No figure of the page is typed by hand.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from slender.cli.compared import report as compared
from slender.lab.documents import read, save
from slender.lab.provenance import PACKAGES

from . import command

RESULTS = Path(__file__).parent / "results"
KEPT = ("benchmark", "command", "quick", "report", "version", "machine")  # of a run


class Section(NamedTuple):
    """A heading of the page, and the benchmarks below it."""

    title: str
    benchmarks: tuple[str, ...]
    figure: str = ""  # Markdown


SECTIONS = (
    Section(
        "Multinomial logistic regression",
        ("logistic", "path", "agreement", "memory_logistic"),
        "![Distance to the optimum and test accuracy over seconds of fit, slender against "
        "scikit-learn and others](logistic.png)",
    ),
    Section("Thousands of classes, many cores", ("classes", "cores", "nasty")),
    Section(
        "On a GPU",
        ("gpu",),
        "![Distance to the optimum and test accuracy over seconds of fit on a GPU, slender against "
        "scikit-learn, torch and others](gpu.png)",
    ),
    Section("The SVM and the published optimisers", ("svm", "compare", "native")),
    Section("Low rank: the trace norm", ("tracenorm", "tracenorm --path")),
    Section("Rows that do not fit, and several machines", ("beyond", "shuffle", "cluster")),
    Section("Killed jobs and workers", ("kills", "kill_workers")),
    Section("Rows as codes", ("products", "compressed", "semipq")),
    Section("From images to vectors", ("fisher",)),
    Section(
        "One-vs-rest: SLND",
        ("accuracy", "steps", "scaling"),
        "![Test accuracy over seconds of fit, slender against scikit-learn's "
        "SGDClassifier](curves.png)",
    ),
)
HEAD = """\
<!-- Made by `python -m benchmarks.tables` from benchmarks/results/; do not edit. -->
# Benchmarks

How each figure is measured is explained in `benchmarks/README.md`.  Evaluation is never timed;
`a (b–c)` is the median of the repeats and their range.  Commands are run from the root of the
repository, on a machine that does nothing else; those with data sets that are not made look for
them in the folder that `SLENDER_DATA` names.
"""


class Document(NamedTuple):
    """One results file."""

    file: str
    benchmark: str
    body: dict[str, Any]


def load(path: Path) -> Document:
    """A document, or an error that says what is wrong with the file."""
    body = read(path)
    if not isinstance(body, dict):
        raise typer.BadParameter(f"{path} is not a results file: no JSON document")
    if body.get("command") == "compare":
        told = {"": [command.plain(thing) for thing in compared(body)]}
        typed = command.without_outputs(body["command_line"])
        body = {**body, "benchmark": "compare", "command": typed, "report": told}
    missing = [key for key in ("benchmark", "report", "version", "machine") if key not in body]
    if missing:
        raise typer.BadParameter(f"{path} is not a results file: it lacks {', '.join(missing)}")
    if body.get("quick"):
        raise typer.BadParameter(f"{path} is a trial run (--quick), not a measurement")
    return Document(path.name, body["benchmark"], body)


def page(documents: Iterable[Document]) -> str:
    """The page of all these documents, in the order of SECTIONS and then of their names."""
    left = sorted(documents, key=lambda document: document.file)
    listed = {name for section in SECTIONS for name in section.benchmarks}
    others = dict.fromkeys(document.benchmark for document in left)
    more = tuple(name for name in others if name not in listed)
    parts = [HEAD]
    for section in (*SECTIONS, Section("Others", more)):
        mine = [d for name in section.benchmarks for d in left if d.benchmark == name]
        if mine:
            figure = f"{section.figure}\n" if section.figure else ""
            parts += [f"## {section.title}\n", figure, *map(_part, mine)]
    return "\n".join(part for part in parts if part)


def _part(document: Document) -> str:
    told = [thing for of in document.body["report"].values() for thing in of]
    return "\n".join([_about(document), *_blocks(told), _source(document.body), ""])


def _about(document: Document) -> str:
    """What the benchmark measures: the docstring of its module."""
    name = {"accuracy": "__main__"}.get(document.benchmark, document.benchmark.replace(" --", "_"))
    file = Path(__file__).with_name(f"{name}.py")
    if not file.exists():  # not of this folder
        return f"### `{document.body.get('command') or document.benchmark}`\n"
    # read, not imported: a page is also made where a benchmark's packages are missing
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first, _, rest = text.partition("\n")
    headline = first.partition(": ")[2].rstrip(".")
    more = "\n\n".join(map(_paragraph, rest.strip("\n").split("\n\n")))
    return f"### {headline[:1].upper()}{headline[1:]}\n\n{more}\n"


def _paragraph(text: str) -> str:
    """Prose; or a list, if its lines are indented, by more where an item goes on."""
    lines = text.split("\n")
    if not all(line.startswith("    ") for line in lines):
        return _flat(text)
    items: list[str] = []
    for line in lines:
        if line.startswith("     "):
            items[-1] += f" {line.strip()}"
        else:
            name, _, said = line.strip().partition("  ")
            items.append(f"- **{name}**: {said.strip()}")
    return "\n".join(items)


def _blocks(told: list[Any]) -> Iterator[str]:
    """Tables and sentences in their order; several sentences in a row are a list."""
    for tables, group in groupby(told, key=lambda thing: isinstance(thing, dict)):
        things = list(group)
        if tables:
            for table in things:
                yield from ("", *_table(table), "")
        else:
            said = [_flat(thing) for thing in things if thing.strip()]
            yield from (f"- {text}" for text in said) if len(said) > 1 else said


def _table(table: dict[str, Any]) -> Iterator[str]:
    if table["title"]:
        yield f"{_flat(table['title'])}:\n"
    yield _row(table["columns"])
    yield _row(["---"] * len(table["columns"]))
    yield from map(_row, table["rows"])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_flat(cell).replace("|", "\\|") for cell in cells) + " |"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _source(body: dict[str, Any]) -> str:
    """The command, and on what it ran."""
    commands = body.get("command") or []
    lines = [commands] if isinstance(commands, str) else commands
    machine = body["machine"]
    facts = [
        machine["processor"],
        f"{machine['threads']} threads",
        f"slender {body['version']}",
        *(f"{name} {machine[name]}" for name in PACKAGES if machine.get(name)),
        machine["date"][:10],
    ]
    return "\n".join(["", "```sh", *lines, "```", "", f"*{'; '.join(facts)}.*"])


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Results files; none: all of benchmarks/results.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/benchmarks.md"),
    keep: Annotated[
        bool, typer.Option("--keep", help="First copy the files there, without their raw curves.")
    ] = False,
) -> None:
    """Make docs/benchmarks.md from results files."""
    documents = [load(path) for path in files or ()]
    if keep:
        for document in documents:
            body = {key: document.body[key] for key in KEPT if key in document.body}
            save(json.dumps(body, indent=2, ensure_ascii=False) + "\n", RESULTS / document.file)
    if keep or not files:
        documents = [load(path) for path in sorted(RESULTS.glob("*.json"))]
    save(page(documents), out)


if __name__ == "__main__":
    typer.run(main)
