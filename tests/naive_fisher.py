"""Dense SIFT, local colour and Fisher vectors as their formulas say: float64, one patch, one pixel
and one descriptor at a time.
"""

import math

import numpy as np

CLAMP, CONTRAST = 0.2, 1.0


def patch_starts(length, cell, step):
    """As many patches of 4 cells as fit, with what is left over on both sides."""
    count = (length - 4 * cell) // step + 1 if length >= 4 * cell else 0
    used = 4 * cell + (count - 1) * step
    return [(length - used) // 2 + step * i for i in range(count)]


# -- SIFT ----------------------------------------------------------------------------------------


def smoothed(grey, cell):
    """By a Gaussian of deviation sqrt((cell / 6)² - 0.5²), the image mirrored at its border."""
    variance = (cell / 6) ** 2 - 0.25
    if variance <= 0:
        return grey
    reach = math.ceil(4 * math.sqrt(variance))
    t = np.arange(-reach, reach + 1)
    taps = np.exp(-(t**2) / (2 * variance))
    taps /= taps.sum()
    wide = np.pad(grey, reach, mode="reflect")
    height, width = grey.shape
    out = np.zeros_like(grey)
    for y in range(height):
        for x in range(width):
            out[y, x] = taps @ wide[y : y + len(t), x : x + len(t)] @ taps
    return out


def gradient_planes(S):
    """(height, width, 8): magnitudes at orientations k 45°, y upwards."""
    height, width = S.shape
    planes = np.zeros((height, width, 8))
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            dx, dy = (S[y, x + 1] - S[y, x - 1]) / 2, (S[y - 1, x] - S[y + 1, x]) / 2
            angle = math.atan2(dy, dx) % (2 * math.pi) / (math.pi / 4)
            low = math.floor(angle)
            planes[y, x, low % 8] += math.hypot(dx, dy) * (1 - (angle - low))
            planes[y, x, (low + 1) % 8] += math.hypot(dx, dy) * (angle - low)
    return planes


def cell_weight(k):
    """The mean of a Gaussian of 2 cells over the triangle of cell k."""
    t = np.linspace(-1, 1, 2001)
    triangle = 1 - abs(t)
    return float((triangle * np.exp(-((k - 1.5 + t) ** 2) / 8)).sum() / triangle.sum())


def sift_patch(planes, top, left, cell):
    height, width, _ = planes.shape
    histogram = np.zeros((4, 4, 8))
    for r in range(4):
        for c in range(4):
            cy, cx = top + r * cell + cell // 2, left + c * cell + cell // 2
            for y in range(max(0, cy - cell), min(height, cy + cell + 1)):
                for x in range(max(0, cx - cell), min(width, cx + cell + 1)):
                    near = max(0, 1 - abs(y - cy) / cell) * max(0, 1 - abs(x - cx) / cell)
                    histogram[r, c] += near / cell**2 * planes[y, x]
            histogram[r, c] *= cell_weight(r) * cell_weight(c)
    descriptor = histogram.ravel()
    norm = np.linalg.norm(descriptor)
    if norm < CONTRAST:
        return np.zeros(128)
    descriptor = np.minimum(descriptor / norm, CLAMP)
    return descriptor / np.linalg.norm(descriptor)


def sift(image, cell, step):
    """(patches, 128) of an RGB image."""
    grey = image.astype(float) @ [0.299, 0.587, 0.114]
    planes = gradient_planes(smoothed(grey, cell))
    height, width = grey.shape
    return np.array(
        [
            sift_patch(planes, top, left, cell)
            for top in patch_starts(height, cell, step)
            for left in patch_starts(width, cell, step)
        ]
    )


# -- colour --------------------------------------------------------------------------------------


def colour_patch(patch, cell):
    found = []
    for r in range(4):
        for c in range(4):
            pixels = patch[r * cell : (r + 1) * cell, c * cell : (c + 1) * cell].reshape(-1, 3)
            found += [*pixels.mean(axis=0), *pixels.std(axis=0)]
    return np.array(found)


def colour(image, cell, step):
    """(patches, 96) of an RGB image."""
    height, width, _ = image.shape
    side = 4 * cell
    return np.array(
        [
            colour_patch(image[top : top + side, left : left + side] / 255, cell)
            for top in patch_starts(height, cell, step)
            for left in patch_starts(width, cell, step)
        ]
    )


# -- Fisher vectors ------------------------------------------------------------------------------


def log_density(x, mean, variance):
    return -0.5 * sum(
        math.log(2 * math.pi * v) + (a - m) ** 2 / v
        for a, m, v in zip(x, mean, variance, strict=True)
    )


def posteriors(x, weights, means, variances):
    logs = [
        math.log(w) + log_density(x, m, v)
        for w, m, v in zip(weights, means, variances, strict=True)
    ]
    most = max(logs)
    shares = [math.exp(log - most) for log in logs]
    return [share / sum(shares) for share in shares]


def gradients(X, weights, means, variances):
    """Derivatives by means and deviations, before square roots and norm."""
    by_mean, by_deviation = np.zeros(means.shape), np.zeros(means.shape)
    for x in X:
        for k, gamma in enumerate(posteriors(x, weights, means, variances)):
            z = (x - means[k]) / np.sqrt(variances[k])
            by_mean[k] += gamma * z / math.sqrt(weights[k])
            by_deviation[k] += gamma * (z**2 - 1) / math.sqrt(2 * weights[k])
    return np.concatenate([by_mean.ravel(), by_deviation.ravel()]) / len(X)


def improved(vector):
    roots = np.array([math.copysign(math.sqrt(abs(v)), v) for v in vector])
    return roots / np.linalg.norm(roots)


def fisher_vector(image, vectorizer):
    """Of an RGB image that is neither too large nor too small, by a fitted FisherVectorizer."""
    makers = {"sift": sift, "colour": colour}
    X = {
        name: np.concatenate(
            [
                made
                for cell in vectorizer.scales
                if len(made := makers[name](image, cell, vectorizer.step))
            ]
        )
        for name in vectorizer.channels
    }
    if not vectorizer.joint and "sift" in X:
        X["sift"] = np.array([x for x in X["sift"] if x.any()])
    Z = {
        name: (X[name] - mean.astype(float)) @ components.T.astype(float)
        for name, (mean, components) in vectorizer.projections_.items()
    }
    if vectorizer.joint:
        Z = {"joint": np.hstack(list(Z.values()))}
    return np.concatenate(
        [improved(gradients(Z[name], *mixture)) for name, mixture in vectorizer.mixtures_.items()]
    )
