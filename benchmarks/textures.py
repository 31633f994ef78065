"""Images of noise and stripes, where there are no photographs; the tests use them too."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ANGLES, PERIODS = (0.4, 1.2), (5, 9)  # of stripes: radians, pixels

Image = NDArray[np.uint8]


def texture(height: int, width: int, seed: int = 0, levels: int = 256) -> Image:
    """Coloured noise with structure at several sizes, as a photograph has."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for size in (1, 2, 4, 8, 16):
        coarse = rng.standard_normal((height // size + 2, width // size + 2, 3))
        total += size * coarse.repeat(size, axis=0).repeat(size, axis=1)[:height, :width]
    total -= total.min()
    return (total / total.max() * (levels - 1)).astype(np.uint8)


def stripes(n: int, seed: int, side: int = 48) -> tuple[list[Image], NDArray[np.int64]]:
    """Four classes of stripes that differ by direction and width, anywhere in the image."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    labels = rng.integers(0, 4, n)
    images = []
    for label in labels:
        angle, period = ANGLES[label // 2], PERIODS[label % 2]
        phase = (np.cos(angle) * x + np.sin(angle) * y) * 2 * np.pi / period
        wave = 128 + 50 * np.sin(phase + rng.uniform(0, 2 * np.pi))
        noisy = wave[:, :, None] + rng.normal(0, 25, (side, side, 3))
        images.append(noisy.clip(0, 255).astype(np.uint8))
    return images, labels


def write_stripes(folder: Path, n: int, seed: int, side: int) -> None:
    """The same as files, one folder for each class."""
    from PIL import Image as Picture

    for number, (image, label) in enumerate(zip(*stripes(n, seed, side), strict=True)):
        home = folder / f"stripes{label}"
        home.mkdir(parents=True, exist_ok=True)
        Picture.fromarray(image).save(home / f"{number}.jpg", quality=95)
