"""Compression by way of a folder, where a killed run continues: codes are not computed twice.

    job.json        the settings, and a fingerprint of the rows
    codebooks.npy   once they are learned
    codes.part      rows of codes, appended block by block
    progress.json   number of rows in codes.part that are on disk, and checksums of both files

When all rows are coded, the output is written from them and the folder is removed.  The output is
the same file, byte by byte, that `ProductQuantizer.encode_to` writes.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..estimators.checkpoints import settings
from ..estimators.validation import read_rows
from ..rows import Rows
from ..rows.fingerprint import digest, fingerprint
from ..storage import (
    FileError,
    PathLike,
    check_writable,
    owned,
    remove_stale,
    unreadable,
    unwritten,
    write_whole,
)
from .format import write_codes
from .quantizer import ProductQuantizer

JOB, CODEBOOKS, CODES, PROGRESS = "job.json", "codebooks.npy", "codes.part", "progress.json"
CHUNK_ROWS = 2**16  # rows of codes that are read back at a time


def compress(
    quantizer: ProductQuantizer,
    X: Any,
    out: PathLike,
    folder: PathLike,
    every: float = 60.0,
    progress: Callable[[int], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Fit the quantizer unless it has codebooks, then write the codes of X to `out`.

    `every` is the number of seconds between two times that codes are made safe on disk.  `stop` is
    asked after each block: if it says so, the codes so far are made safe, and this returns False.
    """
    folder, given = Path(folder), hasattr(quantizer, "codebooks_")
    rows = read_rows(quantizer, X, reset=not given)
    with owned(folder, "compression"):
        remove_stale(folder)
        _begin(folder, _job(quantizer, rows, given))
        if not given:
            _learn(quantizer, X, folder)
        codes = folder / CODES
        if not _code(quantizer, rows, codes, every, progress, stop):
            return False
        n_sq = len(quantizer.codebooks_)
        write_codes(out, quantizer.codebooks_, rows.shape[0], _read_back(codes, n_sq))
        for name in (PROGRESS, CODES, CODEBOOKS, JOB):  # killed on the way, it begins anew
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    return True


def _job(quantizer: ProductQuantizer, rows: Rows, given: bool) -> dict[str, Any]:
    """All that the output depends on."""
    return {
        "slender": __version__,
        "codebooks": digest(quantizer.codebooks_) if given else None,
        **settings(quantizer),
        "shape": list(rows.shape),
        "rows": f"{rows.dtype} {fingerprint(rows)}",
    }


def _begin(folder: Path, job: dict[str, Any]) -> None:
    path = folder / JOB
    if not path.exists():
        if any(folder.iterdir()):
            raise FileError(f"{folder}: holds other files; choose a new folder, or an empty one")
        _write_json(path, job)
        return
    before = _read_json(path)
    check_writable(path)
    for name in {**before, **job}:
        if before.get(name) == job.get(name):
            continue
        what = f"with {name}={before.get(name)}, now {name}={job.get(name)}"
        if name in ("shape", "rows"):
            (n, d), (m, e) = before["shape"], job["shape"]
            what = f"of other rows ({n:,} x {d:,} there, {m:,} x {e:,} here)"
        elif name == "codebooks":
            what = "with other codebooks"
        raise FileError(
            f"{folder}: holds a compression {what}; choose another folder, or delete this one"
        )


def _learn(quantizer: ProductQuantizer, X: Any, folder: Path) -> None:
    """The codebooks, as their file has them."""
    path, noted = folder / CODEBOOKS, folder / PROGRESS
    if not noted.exists():
        quantizer.fit(X)

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # given a name, NumPy would add .npy to it
                np.save(file, quantizer.codebooks_)

        write_whole(path, write)
        _write_json(noted, {"rows": 0, "codebooks": digest(quantizer.codebooks_)})
    try:
        quantizer.codebooks_ = np.load(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, "codebooks", error) from error
    if digest(quantizer.codebooks_) != _read_json(noted).get("codebooks"):
        raise _damaged(path)


def _code(
    quantizer: ProductQuantizer,
    rows: Rows,
    path: Path,
    every: float,
    progress: Callable[[int], object] | None,
    stop: Callable[[], bool],
) -> bool:
    """Append the codes that are missing; False if it was stopped before all were there."""
    n_sq, noted = len(quantizer.codebooks_), path.with_name(PROGRESS)
    known = _read_json(noted) if noted.exists() else {"rows": 0}
    done, sum_of_codes = known["rows"], hashlib.blake2b(digest_size=16)

    def note(file: BinaryIO) -> None:
        """Codes are on disk before progress says so."""
        file.flush()
        os.fsync(file.fileno())
        _write_json(noted, {**known, "rows": done, "codes": sum_of_codes.hexdigest()})

    try:
        with path.open("a+b") as file:
            if file.tell() < done * n_sq:
                raise FileError(
                    f"{path}: is shorter than it was; delete {path.parent} to begin anew"
                )
            file.truncate(done * n_sq)
            for codes in _read_back(path, n_sq):
                sum_of_codes.update(codes.data)
            if done and sum_of_codes.hexdigest() != known.get("codes"):
                raise _damaged(path)
            last = time.monotonic()
            for block in quantizer.encoded(rows, progress, done):
                file.write(block.data)
                sum_of_codes.update(block.data)
                done += len(block)
                if stop():
                    break
                if time.monotonic() - last >= every:
                    note(file)
                    last = time.monotonic()
            note(file)
    except OSError as error:
        raise FileError(f"{path}: {unwritten(error)}") from error
    return bool(done == rows.shape[0])


def _damaged(path: Path) -> FileError:
    return FileError(f"{path}: damaged (checksum differs); delete {path.parent} to begin anew")


def _read_back(path: Path, n_sq: int) -> Iterator[NDArray[np.uint8]]:
    with path.open("rb") as file:
        while content := file.read(CHUNK_ROWS * n_sq):
            yield np.frombuffer(content, np.uint8).reshape(-1, n_sq)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(content)))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise unreadable(path, "the progress of a compression", error) from error
    return content
