"""slender reproduce: the figures and claims of the papers, measured on data of one's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .experiments import DataDir
from .interrupts import Interrupted, interruptible
from .options import Json, Quiet, Threads, of_data, of_output
from .output import check_outputs, columns, say, show, write_json
from .progress import progress_of_experiments

COLUMNS = {  # heading -> name in a row, format; words to the left
    "": ("name", ""),
    "paper": ("paper", ""),
    "what": ("what", ""),
    "shows": ("title", ""),
    "data": ("data", ""),
}


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Experiments; --list shows which there are."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All of them; this takes minutes.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Show the experiments, and run none.")
    ] = False,
    data: Annotated[
        str | None,
        of_data(
            help="Data sets or paths of data, with commas between them (slender datasets).  If not "
            "given: digits, and data made by a formula."
        ),
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path, of_output("--out", "-o", help="Folder for the results: one folder in it for each.")
    ] = Path("reproduced"),
    again: Annotated[
        bool, of_output("--again", help="Also run what the folder holds with these settings.")
    ] = False,
    strict: Annotated[
        bool, of_output("--strict", help="Exit code 1 if a claim does not hold.")
    ] = False,
    scale: Annotated[str, typer.Option(hidden=True)] = "full",
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Redraw figures and check claims of the papers that slender carries out.

    Each experiment writes its numbers as CSV, its figure as PNG and SVG, and results.json, and says
    for each claim of the paper whether it holds on this data.  What is done is kept: the same
    command continues after an interruption.
    """
    check_outputs(json)
    from ..lab.reproduce.catalogue import EXPERIMENTS, experiment

    for_people = not quiet and json != "-"
    if listing:
        _list(EXPERIMENTS, json, for_people)
        return
    if bool(names) == everything:
        raise ValueError("give names of experiments, or --all; --list shows which there are")
    chosen = EXPERIMENTS if everything else tuple(dict.fromkeys(map(experiment, names or ())))
    order = _order(chosen, out, data, data_dir, again, scale)
    done = _carry_out(order, quiet)
    results = {
        "command": "reproduce",
        "experiments": [each.document for each in done if each.document],
        "left_out": [
            {"name": each.name, "reason": each.reason} for each in done if not each.document
        ],
    }
    write_json(results, json)
    if len(done) == 1 and not done[0].document:
        raise ValueError(f"{done[0].name} could not be measured: {done[0].reason}")
    for each in done:
        for text in each.document["warnings"] if each.document else ():
            say(f"warning: {each.name}: {text}")
        if not each.document:
            say(f"{each.name} left out: {each.reason}")
    if not results["experiments"]:
        raise ValueError(f"none of {len(done)} experiments could be measured")
    if for_people:
        show(*_report(done, out))
    claims = [claim for document in results["experiments"] for claim in document["claims"]]
    if strict and not all(claim["holds"] for claim in claims):
        raise typer.Exit(1)


def _order(
    chosen: tuple[Any, ...],
    out: Path,
    data: str | None,
    data_dir: Path | None,
    again: bool,
    scale: str,
) -> Any:
    """What is to be done, if it can be."""
    from ..lab.reproduce.base import SCALES
    from ..lab.reproduce.carrying_out import Order, prepare
    from ..lab.splits import needs_folder

    if scale not in SCALES:
        raise ValueError(f"--scale {scale} is not one of {', '.join(SCALES)}")
    sets = tuple(word.strip() for word in data.split(",")) if data is not None else ()
    if not all(sets) or len(set(sets)) < len(sets):
        raise ValueError(f"--data {data}: give names with a comma between them, each once")
    if sets and not any(each.data for each in chosen):
        raise ValueError(f"--data is not used by {chosen[0].name}, which makes its rows; remove it")
    if data_dir is not None and not any(needs_folder(name) for name in sets):
        raise ValueError("--data-dir is used by data sets that --data names; name one, or leave it")
    order = Order(
        chosen, out, sets, None if data_dir is None else str(data_dir), again, SCALES[scale]
    )
    prepare(order)
    return order


def _carry_out(order: Any, quiet: bool) -> list[Any]:
    from ..lab.reproduce.carrying_out import carry_out

    done: list[Any] = []
    total = len(order.experiments)
    with progress_of_experiments("reproduce", total, quiet) as advance:

        def watch(name: str, line: str) -> None:
            advance({"done": len(done), "what": name, "text": line}, None)

        def work() -> None:
            for each in carry_out(order, watch):
                done.append(each)  # noqa: PERF402  (an interruption keeps those so far)

        try:
            interruptible(work)
        except KeyboardInterrupt as stop:
            raise Interrupted(
                f"{len(done)} of {total} experiments are done; the same command continues with "
                f"what {order.out} holds"
            ) from stop
    return done


def _list(experiments: Any, json: str | None, for_people: bool) -> None:
    rows = [
        {
            "name": each.name,
            "aliases": list(each.aliases),
            "paper": each.paper,
            "what": each.what,
            "title": each.title,
            "data": ", ".join(each.data) or "makes its own",
        }
        for each in experiments
    ]
    write_json({"command": "reproduce", "experiments": rows}, json)
    if for_people:
        show(columns(rows, COLUMNS))


def _report(done: list[Any], out: Path) -> list[Any]:
    """What was claimed and what is true here."""
    from ..lab.reproduce.base import verdict

    things: list[Any] = []
    held = total = 0
    for each in done:
        if each.document is None:
            continue
        claims = each.document["claims"]
        held, total = held + sum(claim["holds"] for claim in claims), total + len(claims)
        kept = " (was there)" if each.found else ""
        things.append(f"{each.document['title']}{kept}")
        things += [f"  {verdict(claim)}" for claim in claims]
        things += [f"  {out / each.name / each.document['figures'][0]}", ""]
    left = sum(each.document is None for each in done)
    there = len(done) - left
    things.append(
        f"{held} of {total} claims hold; {there} experiment{'s' * (there != 1)} in {out}"
        + (f", {left} left out" if left else "")
    )
    return things
