"""Archives that come from elsewhere: nothing leaves the folder, nothing is left half unpacked."""

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath

from ..storage import FileError, unwritten

# Unpacked, an archive may be so large, or so many times its size: photographs hardly shrink.
ROOM, TIMES = 2**30, 100
BROKEN = (  # RuntimeError: encrypted, or compressed in an unknown way
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)


def unpack(archive: Path, folder: str, inner: str | None = None) -> Path:
    """The folder of this name in an archive, put beside it; a new one, complete or not at all.

    `inner` is an archive in the archive, which holds the folder.
    """
    target = archive.parent / folder
    if target.exists():
        raise FileError(f"{target}: is there already; remove or rename it, and try again")
    with _temporary(archive.parent) as here:
        _extract(archive, here)
        if inner is not None:
            found = next((path for path in sorted(here.rglob(inner)) if path.is_file()), None)
            if found is None:
                raise FileError(f"{archive}: has no {inner} in it; is it another archive?")
            _extract(found, here)
        if not (here / folder).is_dir():
            raise FileError(f"{archive}: has no folder {folder} in it; is it another archive?")
        (here / folder).rename(target)
    return target


@contextmanager
def _temporary(beside: Path) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix=".slender-", suffix=".tmp", dir=beside))
    except OSError as error:
        raise FileError(f"{beside}: {unwritten(error)}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extract(archive: Path, into: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as members:
                _unzip(archive, members, into)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as members:
                _untar(archive, members, into)
        else:
            raise FileError(f"{archive}: is neither a tar nor a zip archive; get it again")
    except BROKEN as error:
        raise FileError(f"{archive}: damaged or unsafe ({error}); get it again") from error
    except OSError as error:
        raise FileError(f"{archive}: {unwritten(error)}") from error


def _untar(archive: Path, members: tarfile.TarFile, into: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise FileError(f"{archive}: this Python cannot unpack it safely; use 3.11.4 or later")
    size = _Sum(archive)
    for member in members:
        if not (member.isfile() or member.isdir()):
            raise FileError(f"{archive}: {member.name} is a link or a device: not unpacked")
        _check_name(archive, member.name)
        size.add(member.size)
        members.extract(member, into, filter="data")


def _unzip(archive: Path, members: zipfile.ZipFile, into: Path) -> None:
    size = _Sum(archive)
    for member in members.infolist():
        _check_name(archive, member.filename)
        size.add(member.file_size)
        members.extract(member, into)


def _check_name(archive: Path, name: str) -> None:
    windows = PureWindowsPath(name)  # it splits at both kinds of slashes, and knows drives
    if windows.is_absolute() or windows.drive or windows.root or ".." in windows.parts:
        raise FileError(f"{archive}: {name} would leave its folder: not unpacked")


class _Sum:
    """Of bytes, which may not become absurd."""

    def __init__(self, archive: Path) -> None:
        self.archive, self.held = archive, 0
        self.most = max(ROOM, TIMES * archive.stat().st_size)

    def add(self, size: int) -> None:
        self.held += size
        if self.held > self.most:
            raise FileError(
                f"{self.archive}: would unpack to more than {self.most:,} bytes: not unpacked"
            )
