"""python -m benchmarks.cores: do more threads make a fit faster; how long does a large one take?

Planted data (slender.datasets).  Each fit is timed from the call to the return, after one that
compiles the kernels; the seconds are the median of the repeats.
"""

from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

import slender
from slender.datasets import Dataset, planted
from slender.lab.repeats import ranged, spread

from . import command, machine

FITS: dict[str, Any] = {
    "logistic": lambda: slender.LogisticClassifier(C=5.62, random_state=0),
    "probe": lambda: slender.LinearProbe(random_state=0),
    "slnd": lambda: slender.SLNDClassifier(random_state=0),
}
LARGE_C, SEPARATION = 0.01, 0.4
TOL = 1e-3


def compile_kernels(dtype: str) -> None:
    few = planted(2000, 64, 10, n_test=10)
    for fit in FITS.values():
        fit().fit(few.X_train.astype(dtype), few.y_train)


def over_threads(data: Dataset, counts: list[int], names: list[str], repeats: int) -> Any:
    """Seconds of each fit for each number of threads."""
    found: dict[str, dict[int, list[float]]] = {name: {} for name in names}
    for count in counts:
        slender.set_num_threads(count)
        for name in names:
            found[name][count], _ = machine.timed(FITS[name], data.X_train, data.y_train, repeats)
            command.say(f"{name}, {count} threads: {median(found[name][count]):.2f} s")
    slender.set_num_threads(None)
    return found


def large(n: int, d: int, C: int, dtype: str, repeats: int) -> dict[str, Any]:
    """One fit at C = 0.01 to a proved 0.1 %."""
    data = planted(n, d, C, n_test=5000, separation=SEPARATION)
    X = data.X_train.astype(dtype, copy=False)
    taken, model = machine.timed(
        lambda: slender.LogisticClassifier(C=LARGE_C, tol=TOL, random_state=0),
        X,
        data.y_train,
        repeats,
    )
    return {
        "shape": (n, d, C),
        "dtype": dtype,
        "seconds": taken,
        "passes": model.n_iter_,
        "gap": model.gap_ / model.objective_,
        "top1": float(np.mean(model.predict(data.X_test) == data.y_test)),
    }


def main(
    threads: Annotated[str, typer.Option(help="Numbers of threads, by commas.")] = "1,2,4,8,16",
    fits: Annotated[str, typer.Option(help="Names, by commas.")] = ",".join(FITS),
    rows: Annotated[int, typer.Option(help="Of the planted data.")] = 200_000,
    repeats: Annotated[int, typer.Option(min=1)] = 3,
    sizes: Annotated[
        str, typer.Option(help="Instead: one fit each, as rows x dimensions x classes x dtype.")
    ] = "",
    json_file: command.Json = None,
) -> None:
    """Seconds of fits over the number of threads, or of large fits on all of them."""
    benchmark = command.Benchmark("cores", json_file)
    results: dict[str, Any] = {}
    compile_kernels("float32")
    if sizes:
        results["large"] = []
        for size in sizes.split(","):
            n, d, C, dtype = size.split("x")
            one = large(int(n), int(d), int(C), dtype, repeats)
            results["large"].append(one)
            benchmark.tell(
                f"{size}: {ranged(spread(one['seconds']), 1)} s, {one['passes']} passes, "
                f"gap {one['gap']:.1e}, test top-1 {100 * one['top1']:.1f} %"
            )
    else:
        counts = [int(count) for count in threads.split(",")]
        data = planted(rows, 1024, 200)
        found = over_threads(data, counts, command.names(fits, FITS, "fit"), repeats)
        results["threads"] = found
        lines = []
        for count in counts:
            cells = []
            for of in found.values():
                now, first = median(of[count]), median(of[counts[0]])
                cells.append(f"{now:.2f} ({first / now:.1f}x)")
            lines.append((str(count), *cells))
        title = f"Seconds, planted {rows:,} × 1,024, 200 classes"
        benchmark.tell(command.table(title, ("threads", *found), lines, left=0))
    benchmark.save(results)


if __name__ == "__main__":
    typer.run(main)
