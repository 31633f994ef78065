"""slender compare: optimisers x data sets x seeds; with --sizes, x numbers of training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .compared import report
from .experiments import OPT, DataDir, Dataset, Obj, Preprocess, of_optimiser
from .interrupts import Interrupted, interruptible
from .live import progress_of_comparison
from .logs import check_log, logged, places_of
from .options import Json, Key, Label, Plot, Quiet, Threads, of_data, of_output, read_grid
from .output import check_outputs, check_plot, say, show, write_json
from .resuming import forget_fits, ledger_in

FIT = ("dataset", "size", "opt", "obj", "seed", "step")  # of a record in the log


def compare(
    *,
    dataset: Dataset = "digits",
    sizes: Annotated[
        str | None,
        of_data(help="Numbers of training rows to fit to, such as 1000,3000,10000."),
    ] = None,
    preprocess: Preprocess = None,
    data_dir: DataDir = None,
    key: Key = None,
    label: Label = None,
    opt: Annotated[str | None, OPT] = None,
    obj: Obj = None,
    preset: Annotated[
        str | None,
        of_optimiser(
            help="orders or practical: which optimisers, with which options; those given win."
        ),
    ] = None,
    rates: Annotated[
        str | None,
        of_optimiser(
            help="First steps to choose from: a number of them (10), a list (0.01,0.1) or "
            "lowest:highest:number."
        ),
    ] = None,
    settings: dict[str, Any],
    seeds: Annotated[int, typer.Option(help="Number of seeds: 0, 1, ...")] = 1,
    checkpoint: Annotated[
        Path | None,
        of_output(
            help="Folder to keep the fits in that are made, so that a killed run can continue.  If "
            "not given, the file of --json is used."
        ),
    ] = None,
    resume: Annotated[
        bool,
        of_output(
            "--resume",
            help="Continue with the fits that the folder of --checkpoint or the file of --json "
            "holds.",
        ),
    ] = False,
    json: Json = None,
    log: Annotated[
        str | None,
        of_output(
            "--log",
            metavar="FILE.jsonl",
            help="Keep each record as it comes.  If not given: beside the file of --json.",
        ),
    ] = None,
    plot: Plot = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit several optimisers to several data sets and compare what they reach, and when.

    --opt, --obj and --dataset take several names, with commas between them.  An option goes to the
    optimisers that have it.  Objectives are exact, accuracies are those of the last pass, figures
    are means over the seeds.
    """
    check_outputs(json, plot)
    places = places_of(log, json)
    check_log(places, json, plot, only_lines=True)
    check_plot(plot)
    from ..lab import comparison
    from ..lab.optimisers import Options
    from ..lab.splits import PREPROCESSING, needs_folder

    words = {"opt": opt, "obj": obj, "rates": rates, "preprocess": preprocess}
    given = {**settings, **{name: word for name, word in words.items() if word is not None}}
    asked = _with_preset(given, preset, comparison.PRESETS)
    if "step" in given and "rates" in given:
        raise ValueError("--step and --rates exclude each other; give one of them")
    names = _words("--dataset", dataset)
    if data_dir is not None and not any(needs_folder(name) for name in names):
        raise ValueError(f"--data-dir is not used by --dataset {dataset}; remove it")
    preprocess = asked.pop("preprocess", "none")
    if preprocess not in PREPROCESSING:
        raise ValueError(f"--preprocess {preprocess} is not one of {', '.join(PREPROCESSING)}")
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: give a number from 1 on")
    contenders, reasons = comparison.contenders(
        _words("--opt", asked.pop("opt")),
        _words("--obj", asked.pop("obj")) if "obj" in asked else (),
        options=Options(**{name: of for name, of in asked.items() if name != "rates"}),
        rates=_rates(asked["rates"]) if "rates" in asked else None,
    )
    _check_used(contenders, given)
    plan = comparison.Plan(
        names,
        contenders,
        seeds,
        () if sizes is None else _sizes(sizes),
        preprocess,
        None if data_dir is None else str(data_dir),
        _names(names, key, label),
    )
    for reason in reasons:
        say(f"left out: {reason}")
    with ledger_in(checkpoint, json) as ledger:
        results = _carry_out(plan, ledger, places, resume, quiet)
    if plot is not None:
        _plot(results, plot)
    write_json(results, json)
    for message in _warnings(results):
        say(f"warning: {message}")
    if not quiet and json != "-":
        show(*report(results))
    if checkpoint is not None:
        forget_fits(checkpoint)


# -- what is asked for -----------------------------------------------------------------------------


def _with_preset(
    given: dict[str, Any], preset: str | None, presets: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """What was given, and the preset's for the rest."""
    if preset is None:
        if "opt" not in given:
            raise ValueError("--opt or --preset says what is compared; see slender compare --help")
        return dict(given)
    if preset not in presets:
        raise ValueError(f"--preset {preset} is not one of {', '.join(presets)}")
    asked = {**presets[preset], **given}
    if "step" in given:
        asked.pop("rates", None)
    return asked


def _check_used(contenders: Any, given: dict[str, Any]) -> None:
    """Raise on an option that was given and that no contender has."""
    from ..lab.optimisers import flag

    for name in ("rates", *vars(contenders[0].options)):
        options = [getattr(each.options, name, each.rates) for each in contenders]
        if name in given and all(option is None for option in options):
            who = ", ".join(dict.fromkeys(each.opt for each in contenders))
            raise ValueError(f"{flag(name)} is used by none of {who}; remove it")


def _words(option: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words) or len(set(words)) < len(words):
        raise ValueError(f"{option} {text}: give names with a comma between them, each once")
    return words


def _names(datasets: tuple[str, ...], key: str | None, label: str | None) -> Any:
    """Names in files; an error if there are no files."""
    from ..datasets import is_name
    from ..files import NO_NAMES, Names

    names = Names(key, label)
    if names != NO_NAMES and all(map(is_name, datasets)):
        raise ValueError(
            f"--key and --label are names in files, but slender knows {', '.join(datasets)}; "
            "remove them"
        )
    return names


def _sizes(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or len(set(found)) < len(found):
        raise ValueError(f"--sizes {text}: give numbers of rows, as 1000,3000,10000")
    return tuple(sorted(found))


def _rates(text: str) -> Any:
    """10 -> as many over the usual range;  0.01,0.1 or 1e-3:1:4 -> these."""
    from ..lab.comparison import Rates

    found = read_grid("--rates", text, usual=10)
    if found == 0:
        raise ValueError("--rates 0: give a number of values from 1 on")
    return Rates(count=found) if isinstance(found, int) else Rates(tuple(found))


# -- the work --------------------------------------------------------------------------------------


def _carry_out(
    plan: Any, json: str | None, places: Sequence[str], resume: bool, quiet: bool
) -> dict[str, Any]:
    from ..lab.comparison import ASKED
    from ..lab.comparison import compare as carry_out
    from ..lab.ledger import Ledger, checksum
    from ..lab.measures import large_scale, summary

    def document(fits: list[Any], **more: Any) -> dict[str, Any]:
        return {
            "command": "compare",
            "finished": bool(more),
            "planned": plan.fits,
            **more,
            "checksum": checksum(fits),
            "fits": fits,
        }

    def save(fits: list[Any]) -> None:
        write_json(document(fits), json)

    ledger = Ledger(ASKED, _earlier(json, resume), save)
    keep = logged(places, append=resume)
    with progress_of_comparison(plan.fits, quiet) as advance:

        def watch(event: Any) -> None:
            if "reason" in event:
                where = event["dataset"] + (f", {event['size']:,} rows" if event["size"] else "")
                say(f"{event['opt'] or 'every optimiser'} left out on {where}: {event['reason']}")
                return
            if event["record"] is not None and not event["ended"]:
                whose = {name: event[name] for name in FIT}
                for call in keep:
                    call({**whose, **event["record"]})
            advance(event, None)

        try:
            outcome = interruptible(lambda: carry_out(plan, ledger, watch))
        except KeyboardInterrupt as stop:
            ledger.lock.acquire()  # no write is cut short, and none begins
            kept = json is not None and ledger.saved
            raise Interrupted(
                f"{ledger.saved} fits are in {json}; the same command with --resume continues"
                if kept
                else "no result was written"
            ) from stop
    if not outcome.fits:
        raise ValueError(f"nothing could be fitted: {outcome.left_out[0]['reason']}")
    return document(
        ledger.runs,
        datasets=outcome.datasets,
        summary=summary(outcome.fits),
        choices=outcome.choices,
        left_out=outcome.left_out,
        large_scale=large_scale(outcome.fits, outcome.datasets) if plan.sizes else None,
        compared=[ledger.runs.index(fit) for fit in outcome.fits],
    )


def _earlier(json: str | None, resume: bool) -> list[Any]:
    """The fits of the file to go on with."""
    from ..lab.ledger import checksum
    from ..storage import FileError

    path = None if json is None else Path(json)
    if path is None:
        if resume:
            raise ValueError("--resume continues the file of --json, or --checkpoint; name it")
        return []
    held = _held(path)
    if resume:
        if held is None and path.exists():
            raise FileError(f"{path}: not a file of slender compare; --resume needs one")
        if held and not _ours(held["fits"]):
            raise FileError(
                f"{path}: written by another version of slender, whose options have other names; "
                "give --json another name, and no --resume, to fit them again"
            )
        if held and held.get("checksum") != checksum(held["fits"]):
            raise FileError(
                f"{path}: its fits are not as they were written (checksum differs); give --json "
                "another name, and no --resume, to fit them again"
            )
        return list(held["fits"]) if held else []
    if held and not held["finished"]:
        raise FileError(
            f"{path}: holds an unfinished comparison, {len(held['fits'])} of {held['planned']} "
            "fits; --resume continues it, or name another file"
        )
    return []


def _ours(fits: list[Any]) -> bool:
    """Are the fits known by the options of this version?"""
    from ..lab.optimisers import Options

    return all(fit["options"].keys() <= Options.__dataclass_fields__.keys() for fit in fits)


def _held(path: Path) -> Any:
    """The comparison in a file; None if there is none in it."""
    from ..lab.comparison import ASKED
    from ..lab.documents import read

    document = read(path)
    try:
        ours = document["command"] == "compare" and {"finished", "planned"} <= document.keys()
        ours = ours and all(fit.keys() >= {*ASKED, "curve", "test"} for fit in document["fits"])
    except (KeyError, TypeError, AttributeError):
        return None
    return document if ours else None


# -- what came of it -------------------------------------------------------------------------------


def _plot(results: dict[str, Any], plot: Path) -> None:
    from ..lab.figures import plot_curves, plot_sizes

    if results["large_scale"]:
        plot_sizes(results["large_scale"], plot)
    else:
        plot_curves([results["fits"][place] for place in results["compared"]], plot)


def _warnings(results: dict[str, Any]) -> list[str]:
    """Of the fits that were compared, each once."""
    fits = [results["fits"][place] for place in results["compared"]]
    texts = [f"{f['opt']} on {f['dataset']}: {text}" for f in fits for text in f["warnings"]]
    return list(dict.fromkeys(texts))
