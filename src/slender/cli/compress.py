"""slender compress: rows as codes, 64 times smaller, that every other command takes as they are."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from .interrupts import Ending, interruptible
from .options import Json, Key, Quiet, Threads, of_output
from .output import check_outputs, facts, show, write_json
from .progress import progress_of_rows
from .resuming import Resume, check_resume, left_with

_EVERY = "give seconds from 0 on, and the folder of --checkpoint"


def compress(
    X: Annotated[list[str], typer.Argument(help="Files of rows, as slender fit takes them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .pq file to write.")],
    d_sq: Annotated[
        int | None, typer.Option("--dsq", help="Features per byte.  If not given: 16.")
    ] = None,
    n_sq: Annotated[
        int | None, typer.Option("--nsq", help="Bytes per row, instead of --dsq.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Use the codebooks of this .pq file, as for the test set that goes with it."
        ),
    ] = None,
    training_rows: Annotated[
        int | None, typer.Option(help="Rows to learn the codebooks on.  If not given: 65,536.")
    ] = None,
    random_state: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the draw of rows and of k-means.  If not given: 0."),
    ] = None,
    key: Key = None,
    checkpoint: Annotated[
        Path | None,
        of_output(
            help="Folder to keep the codes in that are done, so that a killed run can continue."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        of_output(help="Seconds of work that a killed run may lose.  If not given: 60."),
    ] = None,
    resume: Resume = False,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Compress rows by product quantisation."""
    settings = {"d_sq": d_sq, "n_sq": n_sq, "training_rows": training_rows}
    settings["random_state"] = random_state
    given = {name: value for name, value in settings.items() if value is not None}
    if out.suffix.lower() != ".pq":
        raise ValueError(f"--out {out}: compressed rows are read back by their suffix; name it .pq")
    if like is not None and given:
        name, value = next(iter(given.items()))
        raise ValueError(f"--like takes the codebooks of {like} as they are; remove {name}={value}")
    if like is None:
        given = {"random_state": 0, **given}
    check_outputs(out, json)
    folder = check_resume(checkpoint, resume)
    if checkpoint_every is not None and (folder is None or checkpoint_every < 0):
        raise ValueError(f"--checkpoint-every {checkpoint_every}: {_EVERY}")

    from ..compress import CompressedMatrix, ProductQuantizer, resumable
    from ..estimators.checkpoints import EVERY
    from ..extras import check
    from ..files import read_matrix
    from ..lab.provenance import settings_of
    from ..stores.finding import as_listed

    check("faiss", "slender compress")
    rows = read_matrix(as_listed(X), key=key)
    begun = perf_counter()
    quantizer = ProductQuantizer(**given)
    if like is not None:
        quantizer = ProductQuantizer.of(CompressedMatrix.load(like))
    elif folder is None:
        interruptible(lambda: quantizer.fit(rows))
    trained = perf_counter()
    with progress_of_rows("compress", rows.shape[0], quiet) as advance:
        ending = Ending()  # codes that are done are saved before the command leaves

        def encode() -> bool:
            if folder is None:
                quantizer.encode_to(rows, out, show_rows)
                return True
            every = EVERY if checkpoint_every is None else checkpoint_every
            return resumable.compress(quantizer, rows, out, folder, every, show_rows, ending.stop)

        def show_rows(done: int) -> None:
            advance(done, None)

        if not _finished(encode, ending):
            raise left_with(folder)
    coded = perf_counter()
    n_sq, _, d_sq = quantizer.codebooks_.shape
    n, d = rows.shape
    results: dict[str, Any] = {
        "command": "compress",
        "seed": given.get("random_state"),
        "settings": {"like": None if like is None else str(like), **settings_of(quantizer)},
        "out": str(out),
        "rows": n,
        "features": d,
        "n_sq": n_sq,
        "d_sq": d_sq,
        "bytes": out.stat().st_size,
        "times_smaller": 4.0 * n * d / out.stat().st_size,
        "lost": _lost(rows, out),
        "seconds_codebooks": None if folder else trained - begun,
        "seconds_codes": coded - trained,
    }
    write_json(results, json, {"X": (" ".join(X), rows)})
    if not quiet and json != "-":
        show(facts(_lines(results)))


def _finished(encode: Callable[[], bool], ending: Ending) -> bool:
    try:
        return interruptible(encode, ending, "the codes so far are saved")
    except KeyboardInterrupt:
        return False


def _lost(rows: Any, out: Path, most: int = 4096) -> float:
    """The share of the rows' squared deviation from their mean that the codes lose, on a sample."""
    import numpy as np

    from ..compress import CompressedMatrix
    from ..rows import as_rows

    M = CompressedMatrix.load(out, check=False)
    index = np.linspace(0, len(M) - 1, min(most, len(M))).astype(np.intp)
    sample = as_rows(rows).dense(index).astype(np.float64)
    spread = float(((sample - sample.mean(axis=0)) ** 2).sum())
    return float(((sample - M[index].toarray()) ** 2).sum()) / spread if spread > 0 else 0.0


def _seconds(codebooks: float | None, codes: float) -> str:
    """With a checkpoint both are one job."""
    if codebooks is None:
        return f"{codes:.2f}"
    return f"{codebooks:.2f} for codebooks, {codes:.2f} for codes"


def _lines(results: dict[str, Any]) -> dict[str, str]:
    return {
        "rows": f"{results['rows']:,}",
        "features": f"{results['features']:,}",
        "parts": f"{results['n_sq']:,} of {results['d_sq']} features, a byte each",
        "bytes": f"{results['bytes']:,}: {results['times_smaller']:.1f} times smaller than float32",
        "lost": f"{100 * results['lost']:.1f} % of the variance",
        "seconds": _seconds(results["seconds_codebooks"], results["seconds_codes"]),
        "file": results["out"],
    }
