"""slender datasets: which there are, what is here, what is missing; and downloads, if asked for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .experiments import DataDir
from .interrupts import Interrupted, interruptible
from .options import Json, Quiet
from .output import check_outputs, columns, facts, show, write_json
from .progress import progress_of_bytes

COLUMNS = {  # heading -> name in a row, format; words to the left
    "": ("name", ""),
    "kind": ("kind", ""),
    "train": ("train", ",d"),
    "test": ("test", ",d"),
    "features": ("features", ",d"),
    "classes": ("classes", ",d"),
    "here": ("state", ""),
}
ACTIONS = ("check", "get")
SHOWN = 10  # classes, files, or things that are missing
USAGE = "give nothing, NAME, check NAME or get NAME"


def datasets(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[check|get] [NAME]", help="Nothing: list all of them."),
    ] = None,
    data_dir: DataDir = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="After get, keep the archives that were unpacked.")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """List data sets; show one, with its layout, split and source; check it; download it.

    NAME may set options, as in vehicle:classes=10 or caltech256:seed=1.  check ends with exit code
    2 if something is missing.  Nothing is downloaded but by get, and only what has a public
    address: of the others it says what to do by hand.
    """
    words = words or []
    action = words[0] if words and words[0] in ACTIONS else None
    names = words[1:] if action else words
    if len(names) > 1 or (action and not names):
        raise ValueError(f"slender datasets {' '.join(words)}: {USAGE}")
    if keep and action != "get":
        raise ValueError("--keep is used by slender datasets get only; remove it")
    check_outputs(json)
    talk = not quiet and json != "-"
    if not names:
        _list(data_dir, json, talk)
    elif action is None:
        _show(names[0], data_dir, json, talk)
    elif action == "check":
        _check(names[0], data_dir, json, talk)
    else:
        _get(names[0], data_dir, keep, json, quiet)


def _list(data_dir: Path | None, json: str | None, talk: bool) -> None:
    from ..datasets import DATASETS

    rows = interruptible(lambda: [_row(each, data_dir) for each in DATASETS.values()])
    write_json({"command": "datasets", "datasets": rows}, json)
    if talk:
        show(
            columns(rows, COLUMNS),
            "",
            "slender datasets NAME shows layout, split and source of one",
        )


def _show(name: str, data_dir: Path | None, json: str | None, talk: bool) -> None:
    entry = _entry(name)
    row = interruptible(lambda: _row(entry, data_dir))
    results = {"command": "datasets", **row, "layout": entry.layout, "split": entry.split}
    results |= {"source": entry.source, "options": list(entry.OPTIONS), "help": entry.help}
    results["urls"] = [url for archive in entry.archives for url in archive.urls[:1]]
    write_json(results, json)
    if talk:
        show(facts(_lines(results)))


def _check(name: str, data_dir: Path | None, json: str | None, talk: bool) -> None:
    entry = _entry(name)
    row = interruptible(lambda: _row(entry, data_dir))
    write_json({"command": "datasets", "action": "check", **row}, json)
    if not row["complete"]:
        where = "" if row["folder"] is None else f"{row['folder']} is not complete: "
        raise ValueError(f"{name}: {where}{_some(row['missing'], '; ')}")
    if talk:
        show(f"{name} is complete{_in_folder(row)}", *_counts(row["counts"]))


def _get(name: str, data_dir: Path | None, keep: bool, json: str | None, quiet: bool) -> None:
    from ..datasets.getting import get

    entry = _entry(name)
    with progress_of_bytes(name, quiet) as advance:

        def watch(file: str) -> Any:
            return lambda done, of: advance((file, done, of), None)

        try:
            # in this thread: it waits for the network or the disk, and Ctrl-C reaches it there
            got = get(entry, data_dir, watch, keep)
        except KeyboardInterrupt as stop:
            raise Interrupted("what has arrived is kept; the same command continues") from stop
    row = {"command": "datasets", "action": "get", **_row(entry, data_dir)}
    write_json({**row, "checksums": got.checksums, "unsure": got.unsure}, json)
    if quiet or json == "-":
        return
    show(f"{name} is complete{_in_folder(row)}")
    for file, checksum in got.checksums.items():
        known = "no checksum to compare with is known" if file in got.unsure else "as it should be"
        show(f"{file}: {checksum}, {known}")


# -- what is known of one --------------------------------------------------------------------------


def _entry(name: str) -> Any:
    """By its name, or an image folder by its path."""
    from ..datasets import folder, is_name, named

    return folder(name) if not is_name(name) and Path(name).is_dir() else named(name)


def _row(entry: Any, data_dir: Path | None) -> dict[str, Any]:
    report = entry.status(data_dir)
    made = not entry.places and entry.kind == "vectors"
    size, few = entry.size, getattr(entry, "classes", None)  # some of the classes only
    if few is not None:
        size = size._replace(train=None, test=None, classes=min(few, size.classes or few))
    state = "complete" if report.complete else "no" if report.folder is None else "incomplete"
    return {
        "name": entry.name,
        "kind": entry.kind,
        "about": entry.about,
        **size._asdict(),
        "state": "needs no files" if made else state,
        "complete": report.complete,
        "folder": None if made or report.folder is None else str(report.folder),
        "missing": report.missing,
        "counts": report.counts,
        "download": bool(entry.archives),
    }


def _lines(results: dict[str, Any]) -> dict[str, str]:
    size = {name: results[name] for name in ("train", "test", "features", "classes")}
    sizes = ", ".join(f"{value:,} {name}" for name, value in size.items() if value is not None)
    lines = {
        "name": f"{results['name']} ({results['kind']}): {results['about']}",
        "size": sizes or "as it is on disk",
        "split": results["split"],
        "source": results["source"],
    }
    if results["layout"]:
        lines["layout"] = results["layout"]
    if results["options"]:
        lines["options"] = ", ".join(f"{key}=" for key in results["options"]) + " (NAME:KEY=VALUE)"
    lines["here"] = results["state"] + _in_folder(results)
    if results["missing"]:
        lines["missing"] = _some(results["missing"], "\n")
    if results["download"]:
        lines["download"] = f"slender datasets get {results['name']}"
    return lines


def _in_folder(row: dict[str, Any]) -> str:
    return "" if row["folder"] is None else f", in {row['folder']}"


def _counts(counts: dict[str, int]) -> list[str]:
    lines = [f"  {count:,}  {name}" for name, count in counts.items()]
    return [*lines[:SHOWN], *([f"  and {len(lines) - SHOWN:,} more"] if lines[SHOWN:] else [])]


def _some(phrases: list[str], between: str) -> str:
    rest = len(phrases) - SHOWN
    return between.join(phrases[:SHOWN] + ([f"and {rest} more"] if rest > 0 else []))
