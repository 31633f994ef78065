"""Labels as text: one per line; a .csv may have a header line."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, plain_file, unreadable
from .base import Ask, FileRows, NoRowsError, check_nameless
from .columns import HEADINGS


class Lines:
    suffixes = (".txt", ".csv")

    def open(self, path: Path, ask: Ask) -> FileRows:
        raise NoRowsError(f"{path}: holds labels, one per line; give rows in another format")

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        check_nameless(path, "y", ask.label)
        return read_lines(path)


def read_lines(path: Path) -> NDArray[Any]:
    """One label per line, without the header; integers if all are written as integers."""
    try:
        text = plain_file(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a text file", error) from error
    lines = [line.strip() for line in text.rstrip().splitlines()]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise FileError(f"{path}: line {number} is empty; give one label per line")
    if path.suffix.lower() == ".csv":
        rows = list(csv.reader(lines))
        for number, row in enumerate(rows, start=1):
            if len(row) != 1:
                raise FileError(
                    f"{path}: line {number} has {len(row)} columns; give one label per line"
                )
        lines = [row[0] for row in rows]
        lines = lines[_is_heading(*lines) :] if lines else lines
    if not lines:
        raise FileError(f"{path}: is empty; give one label per line")
    try:
        # "007" or "+1" stay strings: as integers they could not be written back
        if all(str(int(line)) == line for line in lines):
            return np.array([int(line) for line in lines], np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(lines)


def _is_heading(first: str, *rest: str) -> bool:
    """Is the first line a column name?  It is a usual name, or the only line not an integer."""
    if first in rest or not rest:
        return False
    usual = first.lower() in HEADINGS
    return usual or (all(map(_is_integer, rest)) and not _is_integer(first))


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
