"""python -m benchmarks.gpu: on a GPU, against scikit-learn, torch and cuML there.

Planted rows are made on the device, in float16.  Rows are there before the clock starts, in the
type that each side takes; fits to rows in the host's memory are timed beside.  The clock waits for
the device.  Evaluation is in float64 and off the clock.  The first fit of the process, which
compiles kernels, is reported apart.

    pass      one multinomial objective and gradient, in each arithmetic, against float64
    fit       LogisticClassifier to a proved 0.1 % against scikit-learn by the array API, and cuML
    curves    objective and test accuracy over seconds: those, and torch's probes by mini-batches
    path      LinearProbe() with validation and final proof, beside DINOv2's linear evaluation
    slnd      SLNDClassifier, ten balanced passes, curvature and projection included
    stream    rows in the host's memory against copying them once
    memory    the most memory on the device above X
"""

import traceback
from collections.abc import Callable
from typing import Annotated, Any

import torch
import typer

import slender
from slender.lab.documents import read
from slender.lab.recorder import Budget

from . import command, machine
from . import gpu_measures as measures
from . import gpu_race as race
from .gpu_clock import device_line, release
from .gpu_data import LOGISTIC, QUICK_LOGISTIC, QUICK_SLND, SLND, Planted, Size, planted
from .gpu_goals import summary
from .gpu_report import REPORTS

PARTS = tuple(REPORTS)
PACKAGES = ("torch", "triton", "array-api-compat", "cuml-cu12")
RANK, PASSES = 512, 10
QUICK_RANK, QUICK_PASSES = 8, 2
QUICK_SETTINGS = 2  # of each grid
QUICK_BUDGET = Budget(factor=10.0, least=0.1, most=0.5)


class Problems:
    """The two planted problems, one of them on the device at a time."""

    def __init__(self, device: str, quick: bool) -> None:
        self.device = device
        sizes = (QUICK_LOGISTIC, QUICK_SLND) if quick else (LOGISTIC, SLND)
        self.sizes = dict(zip(("logistic", "slnd"), sizes, strict=True))
        self._made: dict[str, Planted] = {}

    def __getitem__(self, name: str) -> Planted:
        if name not in self._made:
            self._made.clear()
            release(self.device)
            command.say(f"making {name}'s rows")
            self._made[name] = planted(self.sizes[name], self.device)
        return self._made[name]

    def tidy(self) -> None:
        """Drop copies of rows between two parts."""
        for problem in self._made.values():
            problem.forget()
        release(self.device)


def shape_of(size: Size) -> dict[str, Any]:
    return {"shape": (size.n, size.d, size.n_classes), "C": size.C, "size": size._asdict()}


def work_of(
    problems: Problems, repeats: int, quick: bool, settings: int | None
) -> dict[str, Callable[[], Any]]:
    """What each part does."""
    rank, passes = (QUICK_RANK, QUICK_PASSES) if quick else (RANK, PASSES)
    budget = QUICK_BUDGET if quick else race.BUDGET

    def say(line: str) -> None:
        command.say(line, "gpu")

    def memory() -> dict[str, Any]:
        makes = {"LogisticClassifier": None, "LinearProbe": slender.LinearProbe}
        fits = [
            measures.peak(name, make or measures.logistic_of(problems["logistic"]),
                          problems["logistic"], say)
            for name, make in makes.items()
        ]  # fmt: skip
        make = measures.slnd_of(rank, passes)
        return {"fits": [*fits, measures.peak("SLNDClassifier", make, problems["slnd"], say)]}

    return {
        "pass": lambda: measures.one_pass(problems["logistic"], repeats, say),
        "fit": lambda: race.fits(problems["logistic"], repeats, say, budget),
        "curves": lambda: race.curves(problems["logistic"], say, settings, budget),
        "path": lambda: measures.path(problems["logistic"], repeats, say),
        "slnd": lambda: measures.slnd(problems["slnd"], rank, passes, repeats, say),
        "stream": lambda: measures.stream(problems["logistic"], repeats, say),
        "memory": memory,
    }


def earlier(benchmark: command.Benchmark, options: dict[str, Any]) -> dict[str, Any]:
    """What the file to resume holds: its parts and its commands."""
    if not benchmark.resume:
        return {}
    if benchmark.json_file is None:
        raise typer.BadParameter("--resume continues the file of --json; name it")
    held = read(benchmark.json_file) or {}
    if held and (held.get("benchmark"), held.get("options")) != ("gpu", options):
        raise typer.BadParameter(f"{benchmark.json_file} is of another benchmark, size or device")
    return held


def main(
    only: Annotated[str, typer.Option(help="Parts, separated by commas.")] = ",".join(PARTS),
    device: Annotated[str, typer.Option(help="Where to compute: cuda, cuda:1, cpu.")] = "cuda",
    repeats: command.Repeats = 5,
    json_file: command.Json = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the parts that the file of --json holds.")
    ] = False,
    settings: Annotated[
        int | None, typer.Option(help="curves: the last so many settings of each grid; all.")
    ] = None,
    quick: command.QuickMatrix = False,
) -> None:
    """Linear classifiers on a GPU: seconds, memory, and the same by others."""
    chosen = command.names(only, PARTS, "part")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise typer.BadParameter("torch sees no GPU here; --quick --device cpu is a trial run")
    repeats = 1 if quick else repeats
    benchmark = command.Benchmark("gpu", json_file, quick, resume, PACKAGES)
    options = {"device": device_line(device), "repeats": repeats, "quick": quick}
    held = earlier(benchmark, options)
    parts: dict[str, Any] = held.get("parts", {})
    commands = [each for each in (*held.get("command", []), command.called()) if each]
    told = {part: of for part, of in held.get("report", {}).items() if part}
    benchmark.report.update({"": [], **told})
    problems = Problems(device, quick)
    work = work_of(problems, repeats, quick, QUICK_SETTINGS if quick else settings)
    failed = []
    for part in chosen:
        if part in parts:
            continue
        size = problems.sizes["slnd" if part == "slnd" else "logistic"]
        try:
            with machine.Neighbours() as others:
                found = work[part]()
        except Exception:  # the machine may be lent for this one run: do what can be done
            failed.append(part)
            command.say(traceback.format_exc(), part)
            problems.tidy()
            continue
        parts[part] = {**shape_of(size), "others": others.cores, **found}
        problems.tidy()
        disturbed = machine.disturbed(part, others.cores)
        benchmark.tell(*REPORTS[part](parts[part]), *disturbed, part=part)
        parts = {name: parts[name] for name in PARTS if name in parts}
        benchmark.report[""] = [f"{options['device']}.", command.plain(summary(parts))]
        benchmark.save({"options": options, "command": commands, "parts": parts})
    command.show(summary(parts), options["device"])
    if failed:
        command.show(f"FAILED: {', '.join(failed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
