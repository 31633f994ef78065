"""FisherVectorizer: a scikit-learn transformer from images to Fisher vectors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..estimators.validation import check_choice, check_positive, generator
from ..rows import one_blas_thread
from . import colour, sift
from .colour import MAX_CELL
from .encoding import FisherSums, Floats, Mixture, Projection, improved
from .grid import CELLS, bands, n_patches
from .parallel import each
from .pixels import Image, listed, prepared
from .vocabulary import check_variety, learn_mixture, learn_projection

CHANNELS = {"sift": sift, "colour": colour}
JOINT = "joint"  # the name of the mixture that all channels share
SCALES = (4, 6, 8, 10)
AT_ONCE = 8  # images that are sent to a process together with the model

Blocks = tuple[Floats, ...]  # of the same patches, one array for each channel


class FisherVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns images into improved Fisher vectors of local descriptors.

    Patches on a dense grid at several scales are described by SIFT and by local colour.  `fit`
    samples descriptors, and learns for each channel a PCA and a mixture of Gaussians.  `transform`
    gives, for each image and channel, the derivatives of the descriptors' log-likelihood by means
    and standard deviations, as signed square roots of L2 norm 1, channel after channel (Perronnin,
    Sánchez and Mensink 2010; the modules sift, colour and encoding have the formulas).

    Images are paths, or uint8 arrays (h, w, 3) of RGB or (h, w) of grey values.  One that is too
    small for a patch of some scale has no patches of that scale; one that is too small for any has
    its border pixels repeated until it holds one patch of the smallest scale.  A vector depends on
    its image and on the fitted model only.

    Parameters
    ----------
    n_gaussians : int, default 16
        Gaussians of a mixture.  With the other defaults a vector has 256 times as many numbers:
        4,096, or 65,536 for 256 Gaussians.
    n_components : int, default 64
        Principal components to which the descriptors of each channel are reduced.
    channels : sequence of {"sift", "colour"}, default ("sift", "colour")
        What describes a patch.
    joint : bool, default False
        Join the reduced descriptors of all channels, and learn one mixture, as in Harchaoui et al.
        2012, instead of one for each channel.
    step : int, default 4
        Pixels between two neighbouring patches.
    scales : sequence of int, default (4, 6, 8, 10)
        Sides of a cell in pixels; patches have 4 x 4 cells.
    max_size : int or None, default 300
        Larger images are shrunk until their longer side has this many pixels; None: never.
    fit_images : int, default 1,000
        `fit` reads at most so many images, drawn with the seed.
    descriptors : int, default 65,536
        Number of descriptors of each channel that `fit` learns from, the same number from each
        image as far as it has them.  They decide how much memory `fit` takes: 0.2 GB by default,
        0.6 GB with 256 Gaussians.
    n_jobs : int or None, default None
        Processes that read and describe images: None is 1 (unless joblib's parallel_config says
        otherwise), -1 is one for each core.
    progress : bool, default False
        Show a progress bar if standard error is a terminal.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: which descriptors are sampled, and the start of the mixtures.

    Attributes
    ----------
    projections_ : dict of channel -> (mean, components)
    mixtures_ : dict of channel -> (weights, means, variances); with joint=True of "joint"
    n_features_out_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from slender import FisherVectorizer
    >>> images = list(np.random.default_rng(0).integers(0, 256, (4, 48, 64, 3), dtype=np.uint8))
    >>> vectorizer = FisherVectorizer(n_gaussians=2, n_components=8, random_state=0)
    >>> X = vectorizer.fit_transform(images)
    >>> X.shape, X.dtype
    ((4, 64), dtype('float32'))
    """

    projections_: dict[str, Projection]
    mixtures_: dict[str, Mixture]
    n_features_out_: int

    def __init__(
        self,
        n_gaussians: int = 16,
        n_components: int = 64,
        channels: Sequence[str] = ("sift", "colour"),
        *,
        joint: bool = False,
        step: int = 4,
        scales: Sequence[int] = SCALES,
        max_size: int | None = 300,
        fit_images: int = 1000,
        descriptors: int = 65_536,
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_gaussians = n_gaussians
        self.n_components = n_components
        self.channels = channels
        self.joint = joint
        self.step = step
        self.scales = scales
        self.max_size = max_size
        self.fit_images = fit_images
        self.descriptors = descriptors
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state

    # -- learning ----------------------------------------------------------------------------------

    def fit(self, images: Iterable[Image], y: Any = None) -> "FisherVectorizer":
        """Learn PCA and mixtures from descriptors of some of the images."""
        self._check()
        images = listed(images)
        rng = generator(self.random_state)
        chosen = np.sort(rng.permutation(len(images))[: self.fit_images])
        samples = self._samples([images[i] for i in chosen], rng)
        self._check_samples(samples, len(chosen))
        # One thread: sums over several are rounded in the order in which they happen to end.
        with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
            self._learn(samples, int(rng.integers(2**31)))
        return self

    def _samples(self, images: list[Image], rng: np.random.Generator) -> dict[str, Floats]:
        """Descriptors of all these images together."""
        quota = -(-self.descriptors // len(images))
        seeds = rng.integers(2**63, size=len(images))  # one each: neither order nor processes count
        tasks = [(image, seed, quota) for image, seed in zip(images, seeds, strict=True)]
        samples = list(self._each(self._sample, tasks, "Sampling"))
        return self._described(np.concatenate(of) for of in zip(*samples, strict=True))

    def _check_samples(self, samples: dict[str, Floats], n_images: int) -> None:
        for name, X in samples.items():
            if len(X) < max(self.n_gaussians, self.n_components):
                raise ValueError(
                    f"{len(X)} {name} descriptors (of {n_images} images) are too few to learn "
                    f"n_components={self.n_components} and n_gaussians={self.n_gaussians} from; "
                    "give more or larger images, a smaller step, or smaller numbers"
                )
        for X in [np.hstack(list(samples.values()))] if self.joint else samples.values():
            check_variety(X, self.n_gaussians)

    def _learn(self, samples: dict[str, Floats], seed: int) -> None:
        projections: dict[str, Projection] = {}
        Z: dict[str, Floats] = {}
        for name in self.channels:
            X = samples.pop(name)  # whose memory the mixtures need
            mean, components = projections[name] = learn_projection(X, self.n_components, seed)
            Z[name] = np.matmul(X - mean, components.T)
            del X
        if self.joint:
            Z = {JOINT: np.hstack(list(Z.values()))}
        self.mixtures_ = {name: learn_mixture(z, self.n_gaussians, seed) for name, z in Z.items()}
        self.projections_ = projections
        self._set_width()

    def _sample(self, task: tuple[Image, int, int]) -> Blocks:
        """Descriptors of `quota` patches of an image, or of all if it has fewer."""
        image, seed, quota = task
        pixels = prepared(image, self.max_size, self.scales)
        height, width, _ = pixels.shape
        total = n_patches(height, width, self.scales, self.step)
        rng = np.random.default_rng(seed)
        wanted = np.sort(rng.choice(total, min(total, quota), replace=False))
        found, first = [], 0
        for blocks in self._blocks(pixels):
            low, high = np.searchsorted(wanted, [first, first + len(blocks[0])])
            found.append([block[wanted[low:high] - first] for block in blocks])
            first += len(blocks[0])
        return tuple(np.concatenate(of_channel) for of_channel in zip(*found, strict=True))

    # -- encoding ----------------------------------------------------------------------------------

    def transform(self, images: Iterable[Image]) -> Floats:
        """The Fisher vectors of images, one a row."""
        check_is_fitted(self)
        images = listed(images)
        out = np.empty((len(images), self.n_features_out_), np.float32)
        vectors = self._each(self._vector, images, "Fisher vectors")
        for row, vector in zip(out, vectors, strict=True):
            row[:] = vector
        return out

    def _each(self, work: Callable[[Any], Any], tasks: list[Any], title: str) -> Iterator[Any]:
        shown = title if self.progress else None
        return each(work, tasks, self.n_jobs, at_once=AT_ONCE, title=shown)

    def encode(self, image: NDArray[np.uint8]) -> Floats:
        """The Fisher vector of one image."""
        check_is_fitted(self)
        with one_blas_thread():
            return self._vector(image)

    def _vector(self, image: Image) -> Floats:
        sums = {name: FisherSums(mixture) for name, mixture in self.mixtures_.items()}
        pixels = prepared(image, self.max_size, self.scales)
        for blocks in self._blocks(pixels):
            parts = [(X, self.projections_[name]) for name, X in self._described(blocks).items()]
            groups = [parts] if self.joint else [[part] for part in parts]
            for of_mixture, group in zip(sums.values(), groups, strict=True):
                of_mixture.add_projected(group)
        return np.concatenate([improved(of_mixture.gradients()) for of_mixture in sums.values()])

    def _blocks(self, image: NDArray[np.uint8]) -> Iterator[Blocks]:
        """Descriptors of all patches of an image, piece by piece; the next overwrites the last."""
        height, width, _ = image.shape
        for band in bands(height, width, self.scales, self.step):
            crop = image[band.top : band.bottom]
            made = (CHANNELS[name].descriptors(crop, band.grids) for name in self.channels)
            yield from zip(*made, strict=True)

    def _described(self, blocks: Iterable[Floats]) -> dict[str, Floats]:
        """Descriptors by channel.  Flat patches have no SIFT, but in a joint descriptor zeros."""
        named = dict(zip(self.channels, blocks, strict=True))
        if "sift" in named and not self.joint:
            named["sift"] = sift.textured(named["sift"])
        return named

    # -- the model as arrays -----------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fitted arrays, by names such as "sift.components"."""
        check_is_fitted(self)
        fitted: list[tuple[str, Any]] = [*self.projections_.items(), *self.mixtures_.items()]
        return {f"{n}.{field}": a for n, of in fitted for field, a in of._asdict().items()}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "FisherVectorizer":
        """The fitted transformer with these settings (of `get_params`) and `arrays()`."""
        lists = {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
        model = cls(**{**settings, **lists})
        model._check()
        shapes = model._shapes()
        found = {name: np.shape(array) for name, array in arrays.items()}
        if found != shapes:
            raise ValueError(
                f"the arrays of a FisherVectorizer are {found}, but its settings need {shapes}"
            )
        for name, array in arrays.items():
            positive = name.endswith((".weights", ".variances"))
            if not np.isfinite(array).all() or (positive and not (array > 0).all()):
                raise ValueError(f"{name} of a FisherVectorizer has values that no fit gives")
        model.projections_ = {
            name: Projection(*_parts(arrays, name, Projection, np.float32))
            for name in model.channels
        }
        model.mixtures_ = {
            name: Mixture(*_parts(arrays, name, Mixture, np.float64))
            for name in model._mixture_names()
        }
        model._set_width()
        return model

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Those of `arrays()`."""
        K, D = self.n_gaussians, self.n_components
        shapes: dict[str, tuple[int, ...]] = {}
        for name in self.channels:
            d = CHANNELS[name].SIZE
            shapes |= {f"{name}.mean": (d,), f"{name}.components": (D, d)}
        width = D * len(self.channels) if self.joint else D
        for name in self._mixture_names():
            shapes |= {f"{name}.weights": (K,)}
            shapes |= {f"{name}.{part}": (K, width) for part in ("means", "variances")}
        return shapes

    # -- scikit-learn ------------------------------------------------------------------------------

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names such as "sift_mean_3_17": of Gaussian 3, component 17."""
        check_is_fitted(self)
        names = [
            f"{name}_{part}_{k}_{d}"
            for name, mixture in self.mixtures_.items()
            for part in ("mean", "deviation")
            for k, d in np.ndindex(mixture.means.shape)
        ]
        return np.array(names, dtype=object)

    def _set_width(self) -> None:
        self.n_features_out_ = sum(2 * mixture.means.size for mixture in self.mixtures_.values())

    def _mixture_names(self) -> tuple[str, ...]:
        return (JOINT,) if self.joint else tuple(self.channels)

    def _check(self) -> None:
        for name in ("n_gaussians", "n_components", "step", "fit_images", "descriptors"):
            check_positive(name, getattr(self, name), kind=Integral)
        if isinstance(self.channels, str) or not len(self.channels):
            raise ValueError(f"channels={self.channels!r} must be a sequence of {list(CHANNELS)}")
        for name in self.channels:
            check_choice("channels: each", name, tuple(CHANNELS))
        for name in ("channels", "scales"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r} has the same entry twice")
        if self.joint and len(self.channels) < 2:
            raise ValueError(
                f"joint=True joins channels, but there is only {self.channels[0]!r}; "
                "use joint=False, or both channels"
            )
        smallest = min(self.channels, key=lambda name: CHANNELS[name].SIZE)
        if self.n_components > CHANNELS[smallest].SIZE:
            raise ValueError(
                f"n_components={self.n_components} is more than the {CHANNELS[smallest].SIZE} "
                f"numbers of a descriptor of the channel {smallest!r}"
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        whole = all(isinstance(cell, Integral) for cell in self.scales)
        if not whole or not self.scales or min(self.scales) < 2 or max(self.scales) > MAX_CELL:
            raise ValueError(
                f"scales={self.scales!r} must be integers from 2 to {MAX_CELL}, sides of a cell"
            )
        if self.max_size is not None:
            check_positive("max_size", self.max_size, kind=Integral)
            if self.max_size < CELLS * min(self.scales):
                raise ValueError(
                    f"max_size={self.max_size} is smaller than a patch of the smallest scale, "
                    f"{CELLS * min(self.scales)} pixels"
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


def _parts(
    arrays: Mapping[str, NDArray[Any]], name: str, kind: Any, dtype: type
) -> Iterator[NDArray[Any]]:
    return (np.ascontiguousarray(arrays[f"{name}.{part}"], dtype) for part in kind._fields)
