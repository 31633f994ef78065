"""OnnxEncoder: vectors of images from a network in an ONNX file.

A batch runs on one thread, several batches side by side: the vectors do not depend on how many.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..storage import PathLike, plain_file
from .images import read_image
from .network import Network, load, network
from .parallel import each
from .preprocessing import CHANNELS, Preprocessing, preprocessing

READ_SIZE = 4096  # larger images are shrunk to this longer side before they are prepared
BATCH = 16


class OnnxEncoder(TransformerMixin, BaseEstimator):
    """Vectors of images from a network in an ONNX file (needs the package onnxruntime).

    Every image is resized, cropped in the middle and scaled.  What is not given here is read from
    a JSON file beside the model: MODEL.json, or preprocessor_config.json.

    Parameters
    ----------
    model : path
        The .onnx file, with its weights in it.
    size : int or None
        Height and width of the network's input.  None: as the JSON file or the network says.
    resize : int or None
        What the shorter side is resized to before the middle is cut out.  None: as the JSON file
        says, else size.
    mean : sequence of float, or None
        Subtracted from red, green and blue, which lie between 0 and 1.  None: as the JSON file
        says.
    std : sequence of float, or None
        What they are divided by afterwards.  None: as the JSON file says.
    resample : {"bicubic", "bilinear", "lanczos", "box", "hamming", "nearest"} or None
        Filter of the resizing.  None: as the JSON file says, else "bicubic".
    output : str or None
        Name of the output to take.  None: the first one of two dimensions.
    pool : {"first", "mean"} or None
        What to do with an output of tokens: take the "first" (the class token) or the "mean" of
        all.  None: refuse it.
    batch_size : int
        Images at a time.
    n_jobs : int or None
        Batches at a time.  None: 1.

    Attributes
    ----------
    n_features_out_ : int
    preprocessing_ : Preprocessing
        What is done to an image.
    """

    n_features_out_: int
    preprocessing_: Preprocessing
    workers = "threads"  # onnxruntime and Pillow let other threads work

    def __init__(
        self,
        model: PathLike | None = None,
        *,
        size: int | None = None,
        resize: int | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        resample: str | None = None,
        output: str | None = None,
        pool: str | None = None,
        batch_size: int = BATCH,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.size = size
        self.resize = resize
        self.mean = mean
        self.std = std
        self.resample = resample
        self.output = output
        self.pool = pool
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def fit(self, images: Any = None, y: Any = None) -> "OnnxEncoder":
        """Read the model; the images are not looked at."""
        if self.model is None:
            raise ValueError("OnnxEncoder needs a model: give the path of an .onnx file")
        path = plain_file(self.model)
        self._content = path.read_bytes()
        self._start(None)
        return self

    def transform(self, images: Iterable[Any]) -> NDArray[np.float32]:
        """(n, n_features_out_) of paths, or of (h, w, 3) uint8 arrays."""
        batches = self._batches(list(images))
        rows = each(self._vectors, batches, self.n_jobs, threads=True)
        return np.concatenate([np.empty((0, self.n_features_out_), np.float32), *rows])

    def encode(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The vector of one image, (n_features_out_,)."""
        vector: NDArray[np.float32] = self.transform([image])[0]
        return vector

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file has to hold: the bytes of the model, and how images are prepared."""
        check_is_fitted(self)
        return {"model": np.frombuffer(self._content, np.uint8), **self.preprocessing_.arrays()}

    @classmethod
    def restored(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "OnnxEncoder":
        """The encoder with these settings, and what `arrays` gave."""
        encoder = cls(**settings)
        encoder._content = arrays["model"].tobytes()
        encoder._start(Preprocessing.restored(arrays))
        return encoder

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_content")

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which no other process can have."""
        return {name: of for name, of in super().__getstate__().items() if name != "_network"}

    def _start(self, prepared: Preprocessing | None) -> None:
        """The network of `_content`, ready to run."""
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size} must be a whole number from 1 on")
        path = Path(self.model or "the model")
        loaded = load(self._content, path)
        if prepared is None:
            names = ("size", "resize", "mean", "std", "resample")
            given = {name: getattr(self, name) for name in names}
            prepared = preprocessing(given, path, loaded[1].sides)
        self.preprocessing_ = prepared
        self._network = network(loaded, prepared.crop, self.output, self.pool, path)
        self.n_features_out_ = self._network.width

    def _ready(self) -> Network:
        check_is_fitted(self)
        if not hasattr(self, "_network"):  # in another process than that of `fit`
            self._start(self.preprocessing_)
        return self._network

    def _batches(self, images: list[Any]) -> list[list[Any]]:
        step = self._ready().takes.batch or self.batch_size
        return [images[lo : lo + step] for lo in range(0, len(images), step)]

    def _vectors(self, images: list[Any]) -> NDArray[np.float32]:
        prepared = [self.preprocessing_(_pixels(image)) for image in images]
        return self._ready()(np.stack(prepared))


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Of a path, or of an image that is read already."""
    if isinstance(image, str | os.PathLike):
        return read_image(image, READ_SIZE)
    if image.ndim != 3 or image.shape[2] != CHANNELS or image.dtype != np.uint8:
        raise ValueError(
            f"an image is an (h, w, 3) array of uint8, not {image.shape} of {image.dtype}"
        )
    return image
