"""Reading and writing files in general: one-line errors, and no half-written files."""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PathLike = str | os.PathLike[str]

TEMPORARY = ".slender-*.tmp"  # names of files that are being written
_unfinished: set[Path] = set()  # what `write_whole` is writing at this moment

DTYPES = {  # of safetensors
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # its reader widens it
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


ADVICE = {  # by the number of an error of the system
    (errno.ENOSPC, errno.EDQUOT): "free some space, or choose another folder",
    (errno.EACCES, errno.EPERM, errno.EROFS): "choose another folder",
    (errno.ENOENT,): "create the folder that it is to be in",
}


class FileError(ValueError):
    """A file that cannot be used; the message says what, where, and what to do, in one line."""


def plain_file(path: PathLike) -> Path:
    """The path, if it is a regular file; reading a pipe could wait forever."""
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path}: is a folder; give a file in it")
    if not path.exists():
        raise FileError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise FileError(f"{path}: is not a regular file; save its contents to one and give that")
    return path


def unreadable(path: Path, what: str, error: Exception) -> FileError:
    if isinstance(error, PermissionError):
        return FileError(f"{path}: permission denied; check who may read it")
    reason = " ".join(str(error).split()) or type(error).__name__
    if "objects in dtype" in reason or "Object arrays" in reason:  # numpy's two ways to say it
        return FileError(f"{path}: holds Python objects; save it as numbers or as strings")
    return FileError(f"{path}: cannot be read as {what}, or is damaged ({reason}); write it again")


def safetensors_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the tensors of a safetensors file begin, and its header, if the file is complete."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    try:
        with safe_open(path, framework="numpy"):
            pass  # checks the header and that the file is whole
    except (SafetensorError, OSError) as error:
        raise unreadable(path, f"a {path.suffix} file", error) from error
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return 8 + size, json.loads(file.read(size))


def mapped_tensor(path: Path, offset: int, name: str, entry: dict[str, Any]) -> NDArray[Any]:
    """A tensor of a safetensors file whose tensors begin at `offset`, memory-mapped."""
    dtype, shape = entry["dtype"], tuple(entry["shape"])
    if dtype not in DTYPES:
        raise FileError(f"{path}: tensor {name!r} has dtype {dtype}; convert it to float32")
    if 0 in shape:
        return np.empty(shape, DTYPES[dtype])
    raw = np.memmap(path, DTYPES[dtype], "r", offset + entry["data_offsets"][0], shape)
    return np.require(raw, requirements="A")


# -- writing ---------------------------------------------------------------------------------------


def checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Of a document and its arrays, with their names, dtypes and shapes."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {name: finite(of) for name, of in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Its numbers row by row; a contiguous array is not copied."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def write_tensors(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """A safetensors file, written array by array: nothing is held twice."""
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items() if name != "BF16"}
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        kind = names[array.dtype]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(_bytes_of(array))


def check_writable(path: PathLike) -> Path:
    """The real path, if a file can be written there; called before a long computation."""
    real = Path(os.path.realpath(path))  # a link stays a link
    if real.exists() and not real.is_file():  # also /dev/null, which root could replace
        raise FileError(f"{path}: cannot be written, not a regular file; choose another name")
    if real.parent.is_file():
        raise FileError(f"{path}: cannot be written, {real.parent} is a file; choose another name")
    if not real.parent.is_dir():
        raise FileError(f"{path}: cannot be written, there is no folder {real.parent}; create it")
    try:
        trial = _beside(real)
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written ({error.strerror}); choose another folder"
        ) from error
    return real


def write_whole(path: PathLike, write: Callable[[Path], object]) -> None:
    """`write` to a temporary name in the same folder, then rename: never half-written."""
    real = check_writable(path)
    temporary = _beside(real)
    _unfinished.add(temporary)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(real)
    except OSError as error:
        raise FileError(f"{path}: {unwritten(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def unwritten(error: OSError) -> str:
    """Why something could not be written, and what to do, where that is known."""
    advice = next((f"; {advice}" for known, advice in ADVICE.items() if error.errno in known), "")
    return f"could not be written ({error.strerror or error}){advice}"


def remove_stale(folder: Path) -> None:
    """Delete what killed processes were writing there; only the owner of a folder may."""
    for stale in folder.glob(TEMPORARY):
        stale.unlink(missing_ok=True)


def check_no_file(folder: Path) -> None:
    """Raise an error if the name of a folder is that of a file."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: is a file; name a folder")


@contextlib.contextmanager
def owned(folder: Path, who: str) -> Iterator[None]:
    """The folder, made where it is not there; no other process may write there meanwhile.

    `who` says what else may be writing there, for the message of the error.
    """
    check_no_file(folder)
    try:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY) if os.name == "posix" else None
    except OSError as error:
        raise FileError(f"{folder}: {unwritten(error)}") from error
    try:
        if lock is not None:
            import fcntl  # noqa: PLC0415  (not on Windows, where nothing is locked)

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FileError(
                    f"{folder}: another {who} is writing there; wait for its end"
                ) from error
        yield
    finally:
        if lock is not None:
            os.close(lock)


def move_folder(folder: Path, to: Path) -> None:
    """Rename a folder, whatever disk it is on; `to`, which may be an empty folder, is then whole.

    On another disk it is copied under another name first.
    """
    try:
        if to.is_dir():
            to.rmdir()
        try:
            folder.rename(to)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            beside = _beside(to)
            try:
                shutil.copytree(folder, beside)
                beside.rename(to)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
            shutil.rmtree(folder)
    except OSError as error:
        raise FileError(f"{to}: {unwritten(error)}") from error


def remove_unfinished() -> None:
    """Delete temporary files, for a process that exits while another thread is writing."""
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def _beside(path: Path) -> Path:
    return path.parent / TEMPORARY.replace("*", uuid.uuid4().hex[:12])
