"""The folder that an extraction writes: rows appended chunk by chunk, then the lists beside them.

A chunk's line in progress.jsonl is written when its rows are on disk, so that progress never claims
too much; what a killed run wrote beyond its last whole line is cut off.  Waiting for the disk takes
milliseconds, so several quick chunks wait together.  A bad image leaves no row, and the header's
number of rows is written at the end.
"""

import csv
import io
import json
import os
import time
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, unreadable, unwritten, write_whole

JOB = "extraction.json"
ENCODER = "features.safetensors"
CLASSES = "classes.json"
PROGRESS = "progress.jsonl"
X_FILE, Y_FILE, FILES, SKIPPED = "X.npy", "y.npy", "files.txt", "skipped.csv"

WAIT_SECONDS = 1.0  # the work that a killed run may lose

Skips = list[tuple[int, str]]  # place among the files, and why


class VectorFile:
    """The rows of the chunks that are done, and how many more there are to come."""

    def __init__(self, folder: Path, dtype: Any, width: int) -> None:
        self.folder, self.dtype, self.width = folder, np.dtype(dtype), width
        self.images, self.rows, self.skipped = 0, 0, Skips()
        self._lines, self._last = list[bytes](), time.monotonic()  # that wait for the disk
        header = self._header()
        row_bytes = self.width * self.dtype.itemsize
        try:
            self._x = _opened(folder / f"{X_FILE}.part")
            self._progress = _opened(folder / PROGRESS)
            size = os.fstat(self._x.fileno()).st_size
            end = self._replay((size - len(header)) // row_bytes)
            self._progress.truncate(end)
            self._progress.seek(end)
            self._x.truncate(len(header) + self.rows * row_bytes)
            self._x.write(header)
            self._x.seek(0, os.SEEK_END)
        except OSError as error:
            raise FileError(f"{folder}: {unwritten(error)}") from error

    def _replay(self, there: int) -> int:
        """Count what whole lines claim, as far as the rows are there; where these lines end."""
        end = 0
        for line in self._progress.read().splitlines(keepends=True):
            chunk = _chunk(line)
            if chunk is None or self.rows + chunk["rows"] > there:
                break
            self._count(**chunk)
            end += len(line)
        return end

    def _count(self, images: int, rows: int, skipped: Any) -> None:
        self.images += images
        self.rows += rows
        self.skipped += [(place, reason) for place, reason in skipped]

    def append(self, rows: NDArray[np.float32], images: int, skipped: Skips) -> None:
        """A chunk."""
        with np.errstate(over="ignore"):
            stored = rows.astype(self.dtype)
        if not np.isfinite(stored).all():
            largest = float(np.abs(rows).max())
            raise ValueError(f"dtype={self.dtype} cannot hold {largest:.3g}; use dtype=float32")
        line = json.dumps({"images": images, "rows": len(rows), "skipped": skipped})
        self._lines.append(line.encode() + b"\n")
        self._count(images, len(rows), skipped)
        try:
            self._x.write(stored.tobytes())
            if time.monotonic() - self._last >= WAIT_SECONDS:
                self._x.flush()
                os.fsync(self._x.fileno())
                self._progress.write(b"".join(self._lines))
                self._progress.flush()
                self._lines, self._last = [], time.monotonic()
        except OSError as error:
            raise FileError(f"{self.folder}: {unwritten(error)}") from error

    def finish(self) -> None:
        """X.npy, complete."""
        try:
            self._x.seek(0)
            self._x.write(self._header())
            self._x.flush()
            os.fsync(self._x.fileno())
            (self.folder / f"{X_FILE}.part").replace(self.folder / X_FILE)
            (self.folder / PROGRESS).unlink()
        except OSError as error:
            raise FileError(f"{self.folder}: {unwritten(error)}") from error

    def close(self) -> None:
        """For now."""
        self._x.close()
        self._progress.close()

    def _header(self) -> bytes:
        """Of an .npy file; NumPy leaves room for any number of rows, so all have one length."""
        content = io.BytesIO()
        described = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.rows, self.width),
        }
        np.lib.format.write_array_header_1_0(content, described)
        return content.getvalue()


def _chunk(line: bytes) -> dict[str, Any] | None:
    """What a line of progress says; None if it was not written to its end."""
    try:
        chunk: dict[str, Any] = json.loads(line)
        return chunk if line.endswith(b"\n") and {"images", "rows", "skipped"} == {*chunk} else None
    except (ValueError, TypeError):
        return None


def _opened(path: Path) -> Any:
    """To read and write; made where it is not there, and otherwise kept as it is."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o666), "r+b")


# -- lists -----------------------------------------------------------------------------------------


def write_json(path: Path, content: Any) -> None:
    """One file, complete or not there."""
    text = json.dumps(content, indent=1) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_lists(
    folder: Path, names: list[str], y: NDArray[np.int64] | None, skipped: list[tuple[str, str]]
) -> None:
    """y.npy, files.txt and skipped.csv."""
    if y is not None:
        content = io.BytesIO()
        np.save(content, y)
        write_whole(folder / Y_FILE, lambda path: path.write_bytes(content.getvalue()))
    lines = "".join(f"{name}\n" for name in names)
    write_whole(folder / FILES, lambda path: path.write_text(lines, encoding="utf-8", newline=""))
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerows([("file", "reason"), *skipped])
    write_whole(
        folder / SKIPPED,
        lambda path: path.write_text(table.getvalue(), encoding="utf-8", newline=""),
    )


def read_skipped(folder: Path) -> list[tuple[str, str]]:
    """What skipped.csv says."""
    with (folder / SKIPPED).open(encoding="utf-8", newline="") as file:
        return [(name, reason) for name, reason in list(csv.reader(file))[1:]]


def read_files(folder: Path) -> list[str]:
    """The names of the rows' files, as files.txt lists them, without their JSON quotes."""
    try:
        lines = (folder / FILES).read_text(encoding="utf-8").split("\n")[:-1]
        return [str(json.loads(line)) if line.startswith('"') else line for line in lines]
    except (OSError, ValueError) as error:
        raise unreadable(folder / FILES, "a list of files", error) from error


def line_of(path: PurePath) -> str:
    """A file's name for a line of text; as a JSON string where it is not valid, printable text."""
    name = path.as_posix()
    return json.dumps(name) if not name.isprintable() or name.startswith('"') else name
