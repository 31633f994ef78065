"""Options that several commands have, and how their values are read."""

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..files import Names

# Whose threads to set: slender's, those of its BLAS, and of faiss and others that use OpenMP.
POOLS = ("SLENDER_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

# Options in their groups, as the help of a command shows them.
of_data: Any = partial(typer.Option, rich_help_panel="Data")
of_output: Any = partial(typer.Option, rich_help_panel="Output")

Data = Annotated[
    list[str],
    typer.Argument(
        help="Files of rows (.npy .npz .safetensors .pt .parquet .arrow .h5 .zarr .svm .pq), a "
        "folder of them or a pattern; then files of labels (.npy .txt .csv ...), unless X holds "
        "them.",
    ),
]
Key = Annotated[
    str | None, of_data(metavar="NAME", help="The array or column of X in files that have several.")
]
Label = Annotated[
    str | None, of_data(metavar="NAME", help="The array or column of labels, likewise.")
]
ValY = Annotated[str | None, of_data(help="Labels of --val.")]
ModelOut = Annotated[Path, of_output("--out", "-o", help="The model file to write.")]
Json = Annotated[
    str | None,
    of_output("--json", metavar="FILE", help="Write the results as JSON; - is standard output."),
]
Plot = Annotated[
    Path | None, of_output(help="Write a figure: .png, .pdf or .svg (needs matplotlib).")
]
Log = Annotated[
    str | None,
    of_output(
        "--log",
        metavar="WHERE",
        help="Keep each record as it comes: FILE.jsonl, tensorboard:FOLDER, wandb or mlflow.  "
        "Beside the file of --json there are always lines.",
    ),
]
Quiet = Annotated[bool, of_output("--quiet", "-q", help="Print no summary and no progress.")]


def _use_threads(context: typer.Context, count: int | None) -> int | None:
    """For this command, in the environment: libraries read it there, when they are first loaded."""
    if count is not None:
        if count < 1:
            raise ValueError(f"--threads {count}: give a number from 1 on")
        before = {name: os.environ.get(name) for name in POOLS}
        os.environ.update(dict.fromkeys(POOLS, str(count)))
        context.call_on_close(lambda: _restore(before))
    return count


def _restore(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        callback=_use_threads,
        help="Number of threads.  If not given: SLENDER_NUM_THREADS, or one for each core.",
    ),
]


Cluster = Annotated[
    str | None,
    of_data(metavar="ADDRESS", help="Fit on this Dask cluster: its scheduler, tcp://host:8786."),
]
Workers = Annotated[
    int | None,
    of_data(help="Fit on so many processes of this machine, which share its cores."),
]


def number_or_word(text: str, number: type[int] | type[float] = float) -> float | str:
    """1 or all; a word is judged where it is used."""
    try:
        return number(text)
    except ValueError:
        return text


def read_grid(flag: str, text: str, usual: int | None = None) -> int | list[float]:
    """0.01,0.1 -> these;  1e-3:1e3:7 -> seven, evenly in the logarithm;  45 -> 45, if `usual`."""
    if usual is not None and text.strip().isdecimal():
        return int(text)
    try:
        values = _between(*text.split(":")) if ":" in text else [float(v) for v in text.split(",")]
        if not all(0 < value < math.inf for value in values):
            raise ValueError
    except (TypeError, ValueError) as error:
        number = "" if usual is None else f"a number of values ({usual}), "
        raise ValueError(
            f"{flag} {text}: give {number}a list (0.01,0.1,1) or lowest:highest:number "
            "(1e-3:1e3:7), every one a number > 0"
        ) from error
    return values


def read_list(flag: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    """0.5,0.4,0.3 -> these."""
    try:
        return [kind(word.strip()) for word in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{flag} {text}: give a list of numbers with commas (1,2,3)") from error


def _between(lowest: str, highest: str, number: str) -> list[float]:
    """Numbers from the lowest to the highest, evenly in their logarithm."""
    low, high, n = float(lowest), float(highest), int(number)
    if not (0 < low < high < math.inf and n > 1):
        raise ValueError
    return [low * (high / low) ** (k / (n - 1)) for k in range(n)]


def read_data(
    paths: list[str],
    names: "Names",
    part: str = "train",
    n_features: int | None = None,
    as_store: bool = False,
) -> Any:
    """(X, y) of the files of a command line."""
    from ..files import read_dataset, rows_and_labels

    X, y = rows_and_labels(paths, names.label)
    return read_dataset(X, y, part, n_features, names, as_store)


def read_val(val: str | None, val_y: str | None, part: str, n_features: int, names: "Names") -> Any:
    """(X, y) of --val and --val-y, or of a part of a folder; None if they are not given."""
    if val is None:
        if val_y is not None:
            raise ValueError("--val-y without --val; give the rows as well")
        return None
    from ..files import read_dataset

    X, y = read_dataset(val, val_y, part, n_features, names)
    if X.shape[1] != n_features:
        raise ValueError(
            f"--val has {X.shape[1]} features but X has {n_features}; give rows of the same kind"
        )
    return X, y
