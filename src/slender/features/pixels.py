"""Images as users have them, paths or arrays, prepared for their description."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from .grid import large_enough
from .images import read_image, shrunk

Image = str | PathLike[str] | NDArray[np.uint8]


def prepared(image: Image, max_size: int | None, scales: Sequence[int]) -> NDArray[np.uint8]:
    """An image as (h, w, 3) RGB, neither larger than max_size nor too small for a patch."""
    if isinstance(image, str | PathLike):
        pixels = read_image(image, max_size)
    else:
        pixels = _shrunk(_rgb(image), max_size)
    return np.ascontiguousarray(large_enough(pixels, scales))


def listed(images: Iterable[Image]) -> list[Image]:
    """Images as a list; an error if they are a single one, or if there are none."""
    shape: tuple[int, ...] = getattr(images, "shape", (0,))
    single = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if single or isinstance(images, str | PathLike):
        raise ValueError("a single image was given; give a list of images, here [image]")
    found = list(images)
    if not found:
        raise ValueError("there are no images; give a list of at least one path or array")
    for i, image in enumerate(found):
        if not isinstance(image, str | PathLike):
            _check(np.asarray(image), f"image {i}")
    return found


def _check(pixels: NDArray[Any], name: str) -> None:
    if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or pixels.shape[2:] == (3,)):
        raise ValueError(
            f"{name} has type {pixels.dtype} and shape {pixels.shape}; "
            "give uint8 arrays (h, w, 3) of RGB or (h, w) of grey values, or paths"
        )
    if pixels.size == 0:
        raise ValueError(f"{name} of shape {pixels.shape} has no pixels; remove it")


def _rgb(image: Any) -> NDArray[np.uint8]:
    """An array as (h, w, 3)."""
    pixels = np.asarray(image)
    _check(pixels, "the image")
    return np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels


def _shrunk(image: NDArray[np.uint8], max_size: int | None) -> NDArray[np.uint8]:
    """As read_image does, but for JPEG's own shrinking."""
    if max_size is None or max(image.shape[:2]) <= max_size:
        return image  # without Pillow
    Image = need("PIL.Image", "shrinking images")
    return np.asarray(shrunk(Image.fromarray(np.ascontiguousarray(image)), max_size))
