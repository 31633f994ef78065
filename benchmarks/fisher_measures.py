"""What `benchmarks.fisher` measures: descriptors, encoding, whole images, memory, accuracy.

Everything runs on one thread, as in a worker of FisherVectorizer: BLAS, OpenCV and our kernels.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

from slender import FisherVectorizer, SLNDClassifier
from slender.features import encoding, sift
from slender.features.encoding import Mixture
from slender.features.grid import Grid, bands
from slender.features.images import find_images, read_image
from slender.lab.repeats import Say, by_turns, ratios, spread_of
from slender.rows import one_blas_thread
from slender.solvers.loop import Clock

from .memory import Peak, in_fresh_process
from .textures import texture, write_stripes

SCALES, STEP = (4, 6, 8, 10), 4
SIDE = 300
RAW = 32  # pixels on a side of what Fisher vectors are compared with
N_FIT, N_DESCRIPTORS = 100, 30_000  # images and descriptors for models whose speed is measured
WHILE = 0.1  # seconds, so that a pause of the system is not a result
LARGE = (3000, 4000)  # pixels of the largest image that a worker is given

Images = list[Path]


class Photos(NamedTuple):
    """Images of some classes, in files."""

    name: str
    train: Images
    y_train: list[str]
    test: Images
    y_test: list[str]


@contextmanager
def photos(quick: bool) -> Iterator[Photos]:
    """Photographs under SLENDER_DATA, or else stripes."""
    root = Path(os.environ.get("SLENDER_DATA", "")) / "photos"
    if "SLENDER_DATA" in os.environ and root.is_dir() and not quick:
        yield _photos("photos", root)
        return
    with tempfile.TemporaryDirectory() as folder:
        n, side = (80, 64) if quick else (400, 200)
        for seed, part in enumerate(("train", "test")):
            write_stripes(Path(folder) / part, n, seed, side)
        yield _photos("generated stripes", Path(folder))


def _photos(name: str, root: Path) -> Photos:
    parts = [find_images(root / part) for part in ("train", "test")]
    return Photos(name, *(each for part in parts for each in (part.files, part.labels)))


def timed(work: Callable[[], Any], turn: int) -> dict[str, float]:
    """Once to have all in the cache, then as often as takes a while; seconds of one call."""
    with Clock() as first:
        work()
    calls = max(1, round(WHILE / first.seconds))
    with Clock() as clock:
        for _ in range(calls):
            work()
    return {"seconds": clock.seconds / calls}


# -- descriptors -----------------------------------------------------------------------------------


def describe(image: NDArray[np.uint8], grids: Sequence[Grid]) -> None:
    """All descriptors, piece by piece, as the encoder takes them."""
    for _ in sift.descriptors(image, grids):
        pass


def keypoints(cv2: Any, grid: Grid) -> list[Any]:
    """OpenCV's of the same patches, as sift.py says."""
    rows, columns = (axis.cells[axis.own[:, 0]] for axis in (grid.rows, grid.columns))
    middle = grid.cell // 2 + 1.5 * grid.cell
    places = [(float(x + middle), float(y + middle)) for y in rows for x in columns]
    return [cv2.KeyPoint(x, y, 2 * grid.cell / 3, 0.0, 0.0, 0) for x, y in places]


def race_sift(photos: Photos, repeats: int, say: Say) -> dict[str, Any]:
    """One image, one grid for each scale, both sides by turns."""
    import cv2

    cv2.setNumThreads(1)
    pixels = read_image(photos.train[len(photos.train) // 2], SIDE)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    image = np.repeat(grey[:, :, None], 3, axis=2)
    height, width = grey.shape
    (band,) = bands(height, width, SCALES, STEP)
    sides: dict[tuple[str, int], Callable[[int], dict[str, float]]] = {}
    correlations, n = {}, {}
    for grid in band.grids:
        points, theirs = keypoints(cv2, grid), cv2.SIFT_create(sigma=grid.cell / 6)
        ours = np.concatenate([piece.copy() for piece in sift.descriptors(image, [grid])])
        pairs = zip(ours, theirs.compute(grey, points)[1], strict=True)
        found = [np.corrcoef(a, b)[0, 1] for a, b in pairs if a.any()]
        correlations[grid.cell], n[grid.cell] = float(np.median(found)), len(ours)
        sides["slender", grid.cell] = partial(timed, partial(describe, image, [grid]))
        sides["OpenCV", grid.cell] = partial(timed, partial(theirs.compute, grey, points))
    sides["slender", 0] = partial(timed, partial(describe, image, band.grids))
    say(f"SIFT of {sum(n.values()):,} patches of {width} x {height} pixels")
    runs = by_turns(sides, range(repeats))
    # OpenCV has one call for each scale, since each has its own smoothing
    turns = zip(*(runs["OpenCV", cell] for cell in SCALES), strict=True)
    runs["OpenCV", 0] = [{"seconds": sum(run["seconds"] for run in turn)} for turn in turns]
    n[0] = sum(n.values())
    return {
        "image": [height, width],
        "scales": {
            str(cell): {
                "descriptors": n[cell],
                "microseconds": spread_of(runs["slender", cell], "seconds", 1e6 / n[cell]),
                "opencv": spread_of(runs["OpenCV", cell], "seconds", 1e6 / n[cell]),
                "faster": ratios(runs["OpenCV", cell], runs["slender", cell]),
                "correlation": correlations.get(cell),
            }
            for cell in (*SCALES, 0)
        },
    }


# -- encoding --------------------------------------------------------------------------------------


def as_scikit(mixture: Mixture, dtype: type) -> GaussianMixture:
    gmm = GaussianMixture(len(mixture.weights), covariance_type="diag")
    gmm.weights_, gmm.means_, gmm.covariances_ = (part.astype(dtype) for part in mixture)
    gmm.precisions_cholesky_ = 1 / np.sqrt(gmm.covariances_)
    return gmm


def race_encoding(photos: Photos, K: int, repeats: int, say: Say) -> dict[str, Any]:
    """Descriptors of one image, one mixture; skimage in the precision of its mixture."""
    from skimage.feature import fisher_vector

    vectorizer = FisherVectorizer(
        K, channels=("sift",), descriptors=N_DESCRIPTORS, fit_images=N_FIT, random_state=0
    ).fit(photos.train)
    mixture = vectorizer.mixtures_["sift"]
    mean, components = vectorizer.projections_["sift"]
    pixels = read_image(photos.train[len(photos.train) // 2], SIDE)
    found = np.concatenate([blocks[0].copy() for blocks in vectorizer._blocks(pixels)])
    X = np.ascontiguousarray((sift.textured(found) - mean) @ components.T)
    say(f"encoding {len(X):,} descriptors with {K} Gaussians")
    plain = fisher_vector(X.astype(float), as_scikit(mixture, np.float64))[K:]
    plain *= np.repeat([1, -1], plain.size // 2)
    sums = encoding.FisherSums(mixture)
    sums.add(X)
    apart = float(abs(sums.gradients() - plain).max() / abs(plain).max())
    sides = {"slender": partial(timed, partial(encoding.fisher_vector, X, mixture))}
    for dtype in (np.float64, np.float32):
        gmm, same = as_scikit(mixture, dtype), X.astype(dtype)
        work = partial(fisher_vector, same, gmm, improved=True)
        sides[f"skimage {np.dtype(dtype).name}"] = partial(timed, work)
    with one_blas_thread():
        runs = by_turns(sides, range(repeats))
    return {
        "K": K,
        "descriptors": len(X),
        "apart": apart,
        "seconds": {side: spread_of(of, "seconds") for side, of in runs.items()},
        "faster": {side: ratios(of, runs["slender"]) for side, of in runs.items()},
    }


# -- whole images ----------------------------------------------------------------------------------


def fitted(files: Sequence[Path], K: int = 16, **settings: Any) -> FisherVectorizer:
    return FisherVectorizer(
        K, fit_images=N_FIT, descriptors=N_DESCRIPTORS, random_state=0, **settings
    ).fit(files)


def race_images(photos: Photos, n: int, repeats: int, say: Say) -> dict[str, Any]:
    """Images per second from files to vectors: in this process, and in two others."""
    from slender.rows.cores import num_threads

    cores = num_threads()
    files = photos.test[:n]
    vectorizer = fitted(photos.train, scales=SCALES, step=STEP, max_size=SIDE)
    shapes = [read_image(path, SIDE).shape for path in files]
    found: dict[str, Any] = {
        "images": len(files),
        "pixels": float(np.mean([height * width for height, width, _ in shapes])),
        "cores": cores,
    }
    for jobs in {1, cores}:
        say(f"{len(files)} images in {jobs} process{'es' * (jobs > 1)}")
        vectorizer.set_params(n_jobs=jobs)
        runs = [timed(partial(vectorizer.transform, files), turn) for turn in range(repeats)]
        rates = [{"rate": len(files) / run["seconds"] / jobs} for run in runs]
        found[f"per_core_{jobs}"] = spread_of(rates, "rate")
    return found


# -- memory: in a process of its own ---------------------------------------------------------------


def memory(photos: Photos, K: int) -> dict[str, Any]:
    """The peak of a worker that encodes images, one of which is large."""
    with tempfile.TemporaryDirectory() as folder:
        from PIL import Image

        large = Path(folder) / "large.jpg"
        height, width = LARGE
        Image.fromarray(texture(height, width)).save(large)
        files = [large, *photos.test[:20]]
        return in_fresh_process(__name__, K, *files)


def measure_memory(K: int, files: Sequence[str]) -> dict[str, Any]:
    vectorizer = FisherVectorizer(min(K, 8), 8, descriptors=2000, random_state=0).fit(files[1:])
    rng = np.random.default_rng(0)
    D = vectorizer.n_components = 64
    vectorizer.n_gaussians = K
    shapes = vectorizer._shapes()  # of a large model, whose numbers do not matter
    arrays = {name: rng.uniform(0.5, 1.0, shape) / D for name, shape in shapes.items()}
    model = FisherVectorizer.restored(vectorizer.get_params(), arrays)
    peaks = {}
    for size in (SIDE, None):
        model.set_params(max_size=size)
        with Peak() as peak:
            model.transform(list(files))
        peaks[str(size)] = int(peak.most[0])
    return {"K": K, "peaks": peaks}


# -- accuracy --------------------------------------------------------------------------------------


def pixels(files: Sequence[Path]) -> NDArray[np.float32]:
    """All images as RAW x RAW pixels."""
    from PIL import Image

    small = [
        Image.fromarray(read_image(path)).resize((RAW, RAW), Image.Resampling.BILINEAR)
        for path in files
    ]
    return np.stack([np.asarray(each) for each in small]).reshape(len(files), -1) / np.float32(255)


def accuracy(photos: Photos, repeats: int, say: Say, **settings: Any) -> dict[str, Any]:
    """Top-1 of SLNDClassifier, by default, on Fisher vectors and on pixels; one seed for all."""

    def top1(X: Any, X_test: Any, seed: int) -> dict[str, float]:
        model = SLNDClassifier(random_state=seed).fit(X, photos.y_train)
        return {"top1": 100 * float(model.score(X_test, photos.y_test))}

    def of_fisher(seed: int) -> dict[str, float]:
        vectorizer = FisherVectorizer(**settings, n_jobs=-1, random_state=seed)
        X = vectorizer.fit_transform(photos.train)
        return top1(X, vectorizer.transform(photos.test), seed)

    raw, raw_test = pixels(photos.train), pixels(photos.test)
    sides = {"Fisher vectors": of_fisher, "pixels": partial(top1, raw, raw_test)}
    runs = by_turns(sides, range(repeats), say)
    above = [
        {"points": a["top1"] - b["top1"]}
        for a, b in zip(runs["Fisher vectors"], runs["pixels"], strict=True)
    ]
    return {
        "data": photos.name,
        "shape": [len(photos.train), len(photos.test), len(set(photos.y_train))],
        "top1": {side: spread_of(of, "top1") for side, of in runs.items()},
        "above": spread_of(above, "points"),
    }


if __name__ == "__main__":
    print(json.dumps(measure_memory(int(sys.argv[1]), sys.argv[2:])))
