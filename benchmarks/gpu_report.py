"""The figures of benchmarks.gpu in words and tables."""

from collections.abc import Callable
from typing import Any

from slender.lab.curves import best, seconds_to
from slender.lab.repeats import ranged, ratios, spread, spread_of

from . import command
from .gpu_race import HERO, SOLVERS, TOL
from .memory import verdict
from .solvers import options
from .solvers.gpu import torch_probe

Found = dict[str, Any]


def seconds(runs: list[Found], digits: int = 3, scale: float = 1.0) -> str:
    return ranged(spread_of(runs, "seconds"), digits, scale)


def milliseconds(runs: list[Found], name: str = "seconds") -> str:
    return ranged(spread_of(runs, name), 2, 1e3)


def sized(found: Found) -> str:
    n, d, C = found["shape"]
    return f"{n:,} × {d:,}, {C:,} classes"


def percent(found: Found, name: str = "top1") -> str:
    return f"{100 * found[name]:.2f}"


# -- part by part ------------------------------------------------------------------------------


def of_pass(found: Found) -> list[Any]:
    rows = []
    for name, of in found["arithmetics"].items():
        middle = spread_of(of["runs"], "seconds")["median"]
        rows.append(
            (
                name,
                milliseconds(of["runs"]),
                milliseconds(of["runs"], "device"),
                f"{found['flop'] / middle / 1e12:.3g}",
                f"{of['objective_error']:.0e}",
                f"{of['gradient_error']:.0e}",
            )
        )
    columns = (
        "arithmetic",
        "ms",
        "ms between events",
        "TFLOP/s",
        "error of the objective",
        "of the gradient",
    )
    title = f"One multinomial objective and gradient, {sized(found)}, float16 rows"
    return [
        command.table(title, columns, rows),
        f"with the rows sent from the host, read and checked: {milliseconds(found['from host'])} "
        "ms in the first of these arithmetics",
    ]


def of_fit(found: Found) -> list[Any]:
    """slender, and each rival to its own tolerance and to slender's objective."""
    ours, copies = found["ours"], found["copies"]
    lowest = lowest_objective(found)
    rows = [
        ("slender", seconds(ours), "1", *_proof(ours), *_model(ours, lowest)),
        (
            "slender, rows on the host",
            seconds(found["host"]),
            ranged(ratios(found["host"], ours), 1),
            *_proof(found["host"]),
            *_model(found["host"], lowest),
        ),
    ]
    lines = [f"the first fit of the process took {found['first']['seconds']:.2f} s"]
    for name, of in found["rivals"].items():
        label, own = f"{SOLVERS[name].name}{options(of['setting'])}", of["own"]
        times = ranged(ratios(own, ours), 1)
        steps = f"{own[-1]['iterations']} iterations"
        cells = seconds(own), times, steps, "none", *_model(own, lowest)
        rows.append((f"{label}, own tolerance", *cells))
        to, bound = to_target(of["target"], ours)
        cells = bound + ranged(spread(to), 3), bound + ranged(spread(over(to, ours)), 1)
        rows.append((f"{label}, to slender's objective", *cells, "", "", "", ""))
        sent = [run["seconds"] + copy for run, copy in zip(own, copies, strict=True)]
        lines.append(
            f"{label}: {ranged(spread(sent), 3)} s until its own tolerance with its float32 rows "
            f"copied from the host first, which takes {ranged(spread(copies), 3)} s"
        )
    columns = (
        "",
        "seconds",
        "times slender's",
        "passes",
        "proved gap",
        "above the best known",
        "top-1 %",
    )
    title = f"One fit, {sized(found)}, C = {found['C']:g}, tol = {TOL:g}"
    return [command.table(title, columns, rows), *lines, *found["skipped"]]


def _proof(runs: list[Found]) -> tuple[str, str]:
    """Passes, and the largest gap that any run had proved, relative to its objective."""
    return f"{runs[-1]['passes']}", f"{max(run['gap'] for run in runs):.1e}"


def _model(runs: list[Found], lowest: float) -> tuple[str, str]:
    """How far the worst run is above the lowest objective known; accuracy."""
    above = max(run["objective"] for run in runs) / lowest - 1
    return f"{above:.1e}", percent(runs[-1])


def lowest_objective(found: Found) -> float:
    """The best that is known of a race."""
    rivals = [run for of in found["rivals"].values() for run in of["own"]]
    return min(run["objective"] for run in [found["tight"], *found["ours"], *rivals])


def to_target(theirs: list[Found], ours: list[Found]) -> tuple[list[float], str]:
    """Seconds to slender's objective in each turn, and "" or what they are: a lower bound."""
    times = [
        seconds_to(run["curve"], "objective", mine["objective"])
        for run, mine in zip(theirs, ours, strict=True)
    ]
    spent = [best(run["curve"], "seconds", rising=True) for run in theirs]
    bound = "" if all(time is not None for time in times) else "> "
    return [s if t is None else t for t, s in zip(times, spent, strict=True)], bound


def over(theirs: list[float], ours: list[Found]) -> list[float]:
    """Their seconds over ours, turn by turn."""
    return [t / o["seconds"] for t, o in zip(theirs, ours, strict=True)]


def of_curves(found: Found) -> list[Any]:
    """The best run of each solver; slender's objective is the worse one of its two fits."""
    own = [best(run["curve"], "objective") for run in found["runs"] if run["solver"] == HERO]
    target = max(found["plain"]["objective"], *own)
    rows = []
    for name, solver in SOLVERS.items():
        mine = [run for run in found["runs"] if run["solver"] == name]
        if not mine:
            continue
        soonest = min(mine, key=lambda run: _soonest(run, target))
        top = max(mine, key=lambda run: best(run["curve"], "top1", rising=True))
        time = seconds_to(soonest["curve"], "objective", target)
        highest = best(top["curve"], "top1", rising=True)
        when = seconds_to(top["curve"], "top1", highest, rising=True)
        lowest = best(soonest["curve"], "objective")
        rows.append(
            (
                solver.name,
                options(soonest["setting"]).strip(" ()") or "as it comes",
                "never" if time is None else f"{time:.3f}",
                f"{(lowest - found['best']) / found['best']:.1e}",
                f"{100 * highest:.2f}",
                f"{when:.3f}",
                options(top["setting"]).strip(" ()") or "as it comes",
            )
        )
    columns = (
        "solver",
        "setting of lowest seconds",
        "s to slender's objective",
        "above the best known",
        "best top-1 %",
        "after s",
        "setting of that",
    )
    title = f"Objective and test accuracy over seconds, {sized(found)}, C = {found['C']:g}"
    tried = {SOLVERS[run["solver"]].name for run in found["runs"] if run["solver"] != HERO}
    about = (
        f"best of the settings tried of {', '.join(sorted(tried))}; a run may take "
        f"{found['budget']:.0f} s; top-1 is the best of any point, chosen on the test rows"
    )
    return [command.table(title, columns, rows), about, *found["skipped"]]


def _soonest(run: Found, target: float) -> tuple[float, float]:
    time = seconds_to(run["curve"], "objective", target)
    return (float("inf") if time is None else time), best(run["curve"], "objective")


def of_path(found: Found) -> list[Any]:
    rows = [
        ("LinearProbe()", seconds(found["device"]), *_probe(found["device"][-1])),
        ("LinearProbe(), rows on the host", seconds(found["host"]), *_probe(found["host"][-1])),
        (
            "LinearProbe(full=True), one run",
            f"{found['full']['seconds']:.3f}",
            *_probe(found["full"]),
        ),
    ]
    sweep = found["sweep"]
    rates = torch_probe.DINOV2_RATES
    rows.append(
        (
            f"torch, {sweep['classifiers']} learning rates, one run",
            f"{sweep['seconds']:.3f}",
            f"{len(rates)} rates",
            f"{torch_probe.EPOCHS}",
            "",
            "none",
            percent(sweep),
        )
    )
    columns = ("", "seconds", "values of C", "passes", "chosen C", "proved gap", "top-1 %")
    return [
        command.table(f"C chosen on a held-out tenth, {sized(found)}", columns, rows),
        f"the first fit of the process took {found['first']['seconds']:.2f} s; passes are those "
        "of the path over its part of the rows, and of the final fit; torch's sweep is DINOv2's "
        f"linear evaluation, batches of {torch_probe.DINOV2_BATCH:,}, its best classifier chosen "
        "on the test rows",
    ]


def _probe(run: Found) -> tuple[str, ...]:
    passes = f"{run['path_passes']:.0f} + {run['passes']}"
    return str(run["values"]), passes, f"{run['C']:.3g}", f"{run['gap']:.1e}", percent(run)


def of_slnd(found: Found) -> list[Any]:
    rows = [
        (name, seconds(runs, 4), seconds_traced(runs), percent(runs[-1]), percent(runs[-1], "top5"))
        for name, runs in (
            ("rows on the device", found["device"]),
            ("rows on the host", found["host"]),
        )
    ]
    rank = found["device"][-1]["rank"]
    title = f"SLND, {sized(found)}, rank {rank}, {found['passes']} balanced passes"
    columns = ("", "seconds", "of them in trace_", "top-1 %", "top-5 %")
    first = f"the first fit of the process took {found['first']['seconds']:.2f} s"
    return [command.table(title, columns, rows), first]


def seconds_traced(runs: list[Found]) -> str:
    return ranged(spread_of(runs, "traced"), 4)


def of_stream(found: Found) -> list[Any]:
    copied, pinned = found["copy"], found["pinned"]
    rows = [
        (label, seconds(runs), ranged(ratios(runs, copied)), ranged(ratios(runs, pinned)))
        for label, runs in (
            ("copying them once", copied),
            ("copying them once, from pinned memory", pinned),
            ("one pass, streamed", found["pass"]),
            ("LogisticClassifier", found["fit"]),
        )
    ]
    columns = ("", "seconds", "of copying", "of copying pinned")
    gigabytes = found["bytes"] / 1e9
    title = f"float32 rows on the host, {gigabytes:.3g} GB, {sized(found)}, C = {found['C']:g}"
    last = found["fit"][-1]
    fitted = f"the fit: {last['passes']} passes, proved gap {last['gap']:.1e}"
    return [command.table(title, columns, rows), fitted]


def of_memory(found: Found) -> list[Any]:
    lines = []
    for of in found["fits"]:
        what = f"{of['estimator']}, {sized(of)}"
        if of["above_bytes"] is None:
            lines.append(f"{what}: not measured, torch counts memory on CUDA alone")
        else:
            lines.append(
                f"{what}: above X {verdict(of['above_bytes'], of['allowed_bytes'])}; "
                f"{of['reserved_bytes'] / 1e6:,.0f} MB taken from the driver"
            )
    return lines


REPORTS: dict[str, Callable[[Found], list[Any]]] = {
    "pass": of_pass,
    "fit": of_fit,
    "curves": of_curves,
    "path": of_path,
    "slnd": of_slnd,
    "stream": of_stream,
    "memory": of_memory,
}
