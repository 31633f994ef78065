"""Downloads of data sets: files that are missing, or an archive that is unpacked and removed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ..storage import FileError, PathLike, unwritten
from .download import Watch, checksum_of, download
from .known import VARIABLE, Archive, Entry, Report, folder_of_data
from .unpack import unpack


class Got(NamedTuple):
    """What a download ended with."""

    report: Report
    checksums: dict[str, str]  # of the files that were downloaded now
    unsure: list[str]  # of these, the ones without a checksum to compare with


def get(
    entry: Entry,
    data_dir: PathLike | None = None,
    watch: Callable[[str], Watch] = lambda file: lambda done, of: None,
    keep: bool = False,
) -> Got:
    """Download what is missing of a data set, unpack it and check that it is complete.

    `watch` gets the name of each file and returns what is called as it arrives.  `keep` keeps
    archives that were unpacked.
    """
    if not entry.places:
        raise FileError(f"{entry.name}: needs no download")
    if not entry.archives:
        raise FileError(
            f"{entry.name}: no public address is known for certain; by hand (from {entry.source}): "
            f"{entry.provide}"
        )
    root = folder_of_data(data_dir)
    if root is None:
        raise FileError(f"{entry.name}: where to? give --data-dir FOLDER, or set {VARIABLE}")
    before = entry.status(root)
    if before.complete:
        return Got(before, {}, [])
    home = before.folder or root / entry.places[0]
    checksums, unsure = {}, []
    for archive in _needed(entry, home):
        target = (root if archive.folder else home) / archive.file
        found = _fetched(entry, archive, target, watch)
        if found is not None:
            checksums[archive.file] = found
            unsure += [archive.file] if archive.checksum is None else []
        if archive.folder is not None:
            unpack(target, archive.folder, archive.inner)
            if not keep:
                target.unlink()
    report = entry.status(root)
    if not report.complete:
        raise FileError(
            f"{entry.name}: downloaded, but {report.folder} is not complete: "
            f"{'; '.join(report.missing)}"
        )
    return Got(report, checksums, unsure)


def _needed(entry: Entry, home: Path) -> Iterable[Archive]:
    for archive in entry.archives:
        if archive.folder is None:
            if not (home / archive.file).exists():
                yield archive
        elif home.exists():
            raise FileError(
                f"{entry.name}: {home} is there, but not complete "
                f"({'; '.join(entry.check(home).missing)}); remove or rename it, and try again"
            )
        else:
            yield archive


def _fetched(
    entry: Entry, archive: Archive, target: Path, watch: Callable[[str], Watch]
) -> str | None:
    """The checksum of a file that was downloaded; None if an earlier call has left it there."""
    if target.exists():
        if archive.checksum not in (None, checksum_of(target, archive.checksum)):
            raise FileError(f"{target}: its checksum is not {archive.checksum}; remove it")
        return None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{target.parent}: {unwritten(error)}") from error
    try:
        return download(archive.urls, target, archive.checksum, watch(archive.file))
    except FileError as error:
        raise FileError(f"{entry.name}: {error}; by hand: {entry.provide}") from error
