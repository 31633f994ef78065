"""A file over HTTP, continued where it was cut, checked, and renamed when it is whole.

What has arrived is in NAME.part.  It is continued only if the checksum of the whole is known:
otherwise nobody could tell if the beginning and the rest belong together.  Proxies are those of the
environment (https_proxy, http_proxy, no_proxy), which urllib reads.
"""

import hashlib
import http.client
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..storage import FileError, unwritten

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 4  # that bring nothing new, after something has arrived
PAUSE = 2.0  # seconds before the next of them, longer each time
BLOCK = 1 << 18  # bytes
USUAL = "sha256"  # is printed where no checksum is known
BUSY = (408, 429, 500, 502, 503, 504)  # answers after which another attempt may do
AWAY = "cannot be reached"
PAGE = (b"<!doctype html", b"<html")  # how a web page begins

Watch = Callable[[int, int | None], object]  # bytes that have arrived, of how many


class _CutError(Exception):
    """The connection ended too early: the rest may still come."""


class _RefusedError(Exception):
    """This server does not give the file: another may."""


def download(
    urls: tuple[str, ...], path: Path, checksum: str | None, watch: Watch = lambda done, of: None
) -> str:
    """Get the file from the first of these addresses that gives it; returns its checksum."""
    part = path.with_name(f"{path.name}.part")
    refusals = []
    for url in urls:
        try:
            _persist(url, part, checksum is not None, watch)
            break
        except _RefusedError as refusal:
            refusals.append(f"{url} {refusal}")
    else:
        advice = ""
        if any(AWAY in refusal for refusal in refusals):
            advice = "; check the connection, and https_proxy if there is a proxy"
        raise FileError(f"{path.name} could not be downloaded: {'; '.join(refusals)}{advice}")
    found = checksum_of(part, checksum)
    if checksum is not None and found != checksum:
        part.unlink()
        raise FileError(
            f"{path.name} has the checksum {found} instead of {checksum}: it was damaged on its "
            f"way, or {url} has another file now; it was removed, try again"
        )
    part.replace(path)
    return found


def checksum_of(path: Path, like: str | None = None) -> str:
    """md5:... or sha256:..., of the kind of another one."""
    kind = USUAL if like is None else like.partition(":")[0]
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def _persist(url: str, part: Path, resume: bool, watch: Watch) -> None:
    """Until the file is whole, as long as attempts bring it further."""
    most, left = _held(part) if resume else 0, 1
    while True:
        if not resume:
            part.unlink(missing_ok=True)
        try:
            _attempt(url, part, watch)
            return
        except _CutError as cut:
            held = _held(part)
            left = ATTEMPTS if held > most else left - 1
            most = max(most, held)
            if left == 0:
                kept = (
                    "; what has arrived is kept, give the command again" if resume and held else ""
                )
                raise _RefusedError(f"{cut}{kept}") from cut
            time.sleep(PAUSE * (ATTEMPTS - left))


def _attempt(url: str, part: Path, watch: Watch) -> None:
    """One connection; returns if the file is whole after it."""
    held = _held(part)
    request = urllib.request.Request(url, headers={"User-Agent": "slender"})
    if held:
        request.add_header("Range", f"bytes={held}-")
    try:
        opener = urllib.request.build_opener()  # with the proxies that are set now
        with opener.open(request, timeout=TIMEOUT) as answer:
            _receive(answer, part, held, watch)
    except urllib.error.HTTPError as error:
        if error.code == 416 and _total(error) == held:  # asked for what is behind the end
            return
        if error.code == 416:  # what has arrived is not of this file
            part.unlink()
            _attempt(url, part, watch)
            return
        answered = f"answers {error.code} {error.reason}"
        if error.code in BUSY:
            raise _CutError(answered) from error
        raise _RefusedError(f"{answered}: the file may have moved") from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(f"{AWAY} ({_reason(error)})") from error


def _receive(answer: Any, part: Path, held: int, watch: Watch) -> None:
    if answer.headers.get_content_type() == "text/html":
        raise _RefusedError("sends a web page instead of the file: is there a login, or a proxy?")
    if answer.status != 206:  # the server knows no ranges, and begins again
        held = 0
    length = answer.headers.get("Content-Length", "")
    total = held + int(length) if length.isdecimal() else None
    _check_space(part, total, held)
    block = answer.read1(BLOCK)
    if held == 0 and block.lstrip()[:20].lower().startswith(PAGE):
        raise _RefusedError("sends a web page instead of the file")
    with _opened(part, "ab" if held else "wb") as file:
        while block:
            _write(file, block, part)
            held += len(block)
            watch(held, total)
            block = answer.read1(BLOCK)
    if total is not None and held < total:
        raise _CutError(f"ended the connection after {held:,} of {total:,} bytes")


def _total(error: urllib.error.HTTPError) -> int | None:
    """N of "bytes */N"."""
    word = error.headers.get("Content-Range", "").rpartition("/")[2]
    return int(word) if word.isdecimal() else None


def _reason(error: Exception) -> str:
    reason: Any = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)


# -- the disk --------------------------------------------------------------------------------------


def _held(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _check_space(part: Path, total: int | None, held: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - held > free:
        raise FileError(
            f"{part}: {total - held:,} bytes are still to come, but only {free:,} are free there; "
            "free some space, or choose another folder"
        )


def _opened(part: Path, mode: str) -> Any:
    """Without a buffer: a full disk is met where it can be answered, not when the file closes."""
    try:
        return part.open(mode, buffering=0)
    except OSError as error:
        raise FileError(f"{part}: {unwritten(error)}") from error


def _write(file: Any, block: bytes, part: Path) -> None:
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise FileError(f"{part}: {unwritten(error)}; what has arrived is kept") from error
