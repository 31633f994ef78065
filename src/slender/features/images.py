"""Images from files: found in folders, read as upright 8-bit RGB.

A file is judged by its content, never by its name.  What cannot be used is a `BadImageError` whose
`reason` is a short phrase, so that a caller can skip the file and say why.  Choices where files
leave room: the first frame of an animation; transparent pixels lie on white; of 16-bit values the
upper 8 bits; an EXIF orientation is applied.
"""

import errno
import os
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError, PathLike

# Not all that Pillow knows: some of its readers start other programs, or fetch further files.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"II*\0", b"MM\0*", b"RIFF")
JPEG = SIGNATURES[0]
MAX_PIXELS = 2**26  # decoded, 8,192 x 8,192: Pillow holds 4 bytes per pixel, and a copy or two
MAX_JPEG_PIXELS = 2**29  # in a JPEG file, which is decoded at 1/2, 1/4 or 1/8 of its size
SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
WHITE = (255, 255, 255, 255)
NOT_THE_FILE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)  # errors of the machine
ORIENTATION = 0x0112  # EXIF tag: how the camera was held
UPRIGHT = {  # its value -> what Pillow calls the way back
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


class BadImageError(ValueError):
    """A file that cannot be used as an image; `reason` is one short phrase."""

    def __init__(self, path: PathLike, reason: str) -> None:
        super().__init__(path, reason)  # both, so that it survives the way out of a process
        self.path, self.reason = Path(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class ImageFiles(NamedTuple):
    """The files below a folder that may be images."""

    files: list[Path]
    labels: list[str]  # the class of each; empty if there are no classes
    classes: list[str]  # in increasing order
    skipped: list[tuple[Path, str]]  # and why


# -- reading ---------------------------------------------------------------------------------------


def read_image(path: PathLike, max_size: int | None = None) -> NDArray[np.uint8]:
    """The image in a file, (h, w, 3) RGB; shrunk until the longer side is at most `max_size`."""
    path = Path(path)
    try:
        with _silence(), _open_file(path) as file:
            return _read(path, file, max_size)
    except OSError as error:  # of the system; those of Pillow have no number
        if error.errno in NOT_THE_FILE:
            raise
        reason = error.strerror or "damaged"
        raise BadImageError(path, reason[0].lower() + reason[1:]) from error


class _Silence:
    """No warnings while any thread reads an image: they are about metadata that nobody needs.

    The warnings' settings are one for all threads: the first saves them, the last restores them.
    """

    def __init__(self) -> None:
        self.lock, self.readers = threading.Lock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.readers == 0:
                self.saved = warnings.catch_warnings()
                self.saved.__enter__()
                warnings.simplefilter("ignore")
            self.readers += 1
        try:
            yield
        finally:
            with self.lock:
                self.readers -= 1
                if self.readers == 0:
                    self.saved.__exit__(None, None, None)


_silence = _Silence()


def _open_file(path: Path) -> IO[bytes]:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise BadImageError(path, "a folder")
    if not stat.S_ISREG(status.st_mode):  # opening a pipe could wait forever
        raise BadImageError(path, "not a regular file")
    if status.st_size == 0:
        raise BadImageError(path, "empty file")
    return path.open("rb")


def _read(path: Path, file: IO[bytes], max_size: int | None) -> NDArray[np.uint8]:
    Image = need("PIL.Image", "reading images")
    image = _opened(path, file)
    pixels = image.width * image.height
    if max_size is not None:
        # twice what is wanted: the rest is shrunk with a filter
        image.draft(None, tuple(2 * side for side in _within(image.size, max_size)))
    decoded = image.width * image.height
    if "progressive" in image.info:  # the decoder holds all coefficients, whatever it then writes
        decoded = pixels
    if decoded > MAX_PIXELS or pixels > MAX_JPEG_PIXELS:
        raise BadImageError(path, "too many pixels")
    try:
        image.load()
        orientation = _orientation(image)
        image = _as_rgb(path, image)
        image = shrunk(image, max_size)
        if orientation in UPRIGHT:
            image = image.transpose(Image.Transpose[UPRIGHT[orientation]])
        return np.array(image)
    except (BadImageError, MemoryError):
        raise
    except Exception as error:  # decoders raise errors of many kinds when they meet damage
        if getattr(error, "errno", None):
            raise
        reason = "truncated" if "truncated" in str(error).lower() else "damaged"
        raise BadImageError(path, reason) from error


def _opened(path: Path, file: IO[bytes]) -> Any:
    """An image whose size is known and whose pixels are not read yet."""
    Image = need("PIL.Image", "reading images")
    head = file.read(4)
    file.seek(0)
    try:
        if head.startswith(JPEG):  # not by Image.open: its own limit knows nothing of shrinking
            return need("PIL.JpegImagePlugin", "reading images").JpegImageFile(file)
        return Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise BadImageError(path, "too many pixels") from error
    except MemoryError:
        raise
    except Exception as error:
        if getattr(error, "errno", None):
            raise
        known = any(head.startswith(each) for each in SIGNATURES)
        raise BadImageError(path, "damaged" if known else "not an image") from error


def shrunk(image: Any, max_size: int | None) -> Any:
    """An image of Pillow's whose longer side is at most max_size."""
    if max_size is None or max(image.size) <= max_size:
        return image
    Image = need("PIL.Image", "shrinking images")
    smaller = _within(image.size, max_size)
    return image.resize(smaller, Image.Resampling.BILINEAR, reducing_gap=2.0)


def _within(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """The size of the same shape whose longer side is `longest`, or this one if it is smaller."""
    scale = min(1.0, longest / max(size))
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def _orientation(image: Any) -> int:
    """Of EXIF; damaged metadata are no reason to refuse the pixels."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1


def _as_rgb(path: Path, image: Any) -> Any:
    Image = need("PIL.Image", "reading images")
    if image.mode in SIXTEEN_BITS or (image.mode == "I" and image.format == "PNG"):
        values = np.asarray(image)
        image = Image.fromarray((values >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise BadImageError(path, "32-bit values of unknown range")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image)
    return image.convert("RGB")


# -- finding ---------------------------------------------------------------------------------------


def find_images(folder: PathLike) -> ImageFiles:
    """The files below a folder, in the order of their names; each folder in it is a class.

    Links are followed; a folder that is met again in the same class is skipped, so that a loop
    ends.  A folder without folders has no classes.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise FileError(f"{folder}: {what}; give a folder of images")
    skipped: list[tuple[Path, str]] = []
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise FileError(f"{folder}: cannot be read ({error.strerror})") from error
    homes = [path for path in entries if os.path.isdir(path) and not _is_hidden(path)]
    loose = [path for path in entries if path not in set(homes)]
    files: list[Path] = []
    labels: list[str] = []
    for home in homes:
        seen = {_identity(folder): folder}
        found = list(_files(home, seen, [folder], skipped))
        files += found
        labels += [_readable(home.name)] * len(found)
    for path in loose:
        kept = _judged(path, skipped)
        if kept and homes:
            skipped.append((path, "in no class folder"))
        elif kept:
            files.append(path)
    return ImageFiles(files, labels, sorted(set(labels)), sorted(skipped))


def _files(
    folder: Path, seen: dict[Any, Path], above: list[Path], skipped: list[tuple[Path, str]]
) -> Iterator[Path]:
    """The files in this folder and in the folders below it; `above` is the way to it."""
    try:
        first = seen.setdefault(_identity(folder), folder)
        entries = sorted(folder.iterdir()) if first == folder else []
    except OSError as error:
        skipped.append((folder, _why(error)))
        return
    if first != folder:
        again = "a loop of links" if first in above else "a folder that was read already"
        skipped.append((folder, again))
        return
    for path in entries:
        if _judged(path, skipped):
            if os.path.isdir(path):
                yield from _files(path, seen, [*above, folder], skipped)
            else:
                yield path


def _judged(path: Path, skipped: list[tuple[Path, str]]) -> bool:
    """May it be used?  If not, it is added to `skipped`."""
    if _is_hidden(path):
        skipped.append((path, "hidden"))
        return False
    try:
        path.stat()
    except OSError as error:
        skipped.append((path, _why(error)))
        return False
    return True


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "broken link"  # it is listed, but not there
    reason = error.strerror or type(error).__name__
    return "a loop of links" if "symbolic" in reason else reason[0].lower() + reason[1:]


def _is_hidden(path: Path) -> bool:
    """What systems and programs put beside images: .DS_Store, ._photo.jpg, .git."""
    return path.name.startswith(".")


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _readable(name: str) -> str:
    r"""A folder's name as text: bytes that are not UTF-8 are written as \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
