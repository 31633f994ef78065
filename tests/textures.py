"""Images made of noise and stripes, for tests of features."""

import numpy as np


def texture(height, width, seed=0, levels=256):
    """Coloured noise with structure at several sizes, as a photograph has."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for size in (1, 2, 4, 8, 16):
        coarse = rng.standard_normal((height // size + 2, width // size + 2, 3))
        total += size * coarse.repeat(size, axis=0).repeat(size, axis=1)[:height, :width]
    total -= total.min()
    return (total / total.max() * (levels - 1)).astype(np.uint8)


def stripes(n, seed):
    """Four classes of stripes that differ by direction and width, anywhere in the image."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:48, :48]
    labels = rng.integers(0, 4, n)
    images = []
    for label in labels:
        angle, period = (0.4, 1.2)[label // 2], (5, 9)[label % 2]
        phase = (np.cos(angle) * x + np.sin(angle) * y) * 2 * np.pi / period
        wave = 128 + 50 * np.sin(phase + rng.uniform(0, 2 * np.pi))
        noisy = wave[:, :, None] + rng.normal(0, 25, (48, 48, 3))
        images.append(noisy.clip(0, 255).astype(np.uint8))
    return images, labels
