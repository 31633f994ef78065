"""The formats of rows and of labels, by the suffixes of files.  A new one is one line here."""

from pathlib import Path

from ..storage import FileError
from .arrow import Arrow
from .base import Ask, FileRows, Format
from .hdf5 import Hdf5
from .lines import Lines
from .npy import Npy
from .npz import Npz
from .parquet import Parquet
from .pq import Pq
from .pt import Pt
from .safetensors import Safetensors
from .svmlight import SvmlightFormat
from .zarr import Zarr, is_zarr

FORMATS: tuple[Format, ...] = (
    Npy(),
    Npz(),
    Safetensors(),
    Pt(),
    Parquet(),
    Arrow(),
    Hdf5(),
    Zarr(),
    Pq(),
    SvmlightFormat(),
)
BY_SUFFIX: dict[str, Format] = {suffix: each for each in FORMATS for suffix in each.suffixes}
ROWS = {**BY_SUFFIX, ".txt": BY_SUFFIX[".svm"]}  # as text, rows are svmlight
LABELS = {**BY_SUFFIX, **dict.fromkeys(Lines.suffixes, Lines())}
ZIPPED = (".gz", ".bz2")


def format_of(path: Path, labels: bool = False) -> Format:
    """The format of a file, for its rows or for its labels."""
    known = LABELS if labels else ROWS
    if path.is_dir() and is_zarr(path):
        return known[".zarr"]
    suffix = suffix_of(path)
    if suffix not in known:
        what = "labels" if labels else "a matrix"
        raise FileError(
            f"{path}: no known format for {what} ({suffix or 'no suffix'}); use {', '.join(known)}"
        )
    return known[suffix]


def suffix_of(path: Path) -> str:
    """In lower case; of rcv1.svm.gz it is .svm, since the reader of that format unzips."""
    inner = Path(path.stem).suffix.lower()
    zipped = path.suffix.lower() in ZIPPED
    return inner if zipped and inner in SvmlightFormat.suffixes else path.suffix.lower()


def open_file(path: Path, ask: Ask) -> FileRows:
    """The rows of one file."""
    return format_of(path).open(path, ask)
