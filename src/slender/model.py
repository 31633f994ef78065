"""Models in one safetensors file: arrays as tensors, everything else as one JSON document.

No pickle.  The document is stored in the `__metadata__` of the file under FORMAT:

    version     of this format; a newer one is refused
    slender     the version that wrote the file
    estimator   name of the class, one of slender.registry
    params      constructor settings, without callbacks, checkpoint and device; random_state and
                validation only if they are numbers
    arrays      name -> dtype of the tensors
    strings     name -> {dtype, values}: arrays of strings (classes_, feature_names_in_); the dtype
                only says if they are objects, the width is that of the longest string
    values      name -> number, flag or list (n_features_in_, n_iter_, multilabel_, trace_, ...)
    command_line  the words of the command that fitted the model; empty if none did

A pipeline of two steps, an encoder of images and a classifier of its vectors, is the classifier's
document with one more entry; the encoder's tensors are those whose names begin with "features.":

    pipeline    steps, the names of the two, and what slender.features.encoders says of the encoder

`__metadata__` also has `sha256` of the document and the tensors, to detect damage.  A correct
checksum is not trusted: the parts of a file are checked for consistency too.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import __version__
from .features.encoders import describe, restore
from .registry import ESTIMATORS
from .storage import FileError, PathLike, checksum, plain_file, write_whole

FORMAT = "slender-model"
VERSION = 3
WITHOUT_IMAGES = 2  # the version of a model of vectors, which older slenders read too
INNER = "features."  # before the names of an encoder's tensors
# Parameters as version 1 called them.
RENAMED = {
    "BCFWClassifier": {"mu": "lam", "averaging": "average"},
    "TraceNormClassifier": {"max_iter": "passes"},
    "TraceNormProbe": {"max_iter": "passes"},
}
NOT_SAVED = ("callbacks", "checkpoint", "checkpoint_every", "device", "models_")

Arrays = dict[str, NDArray[Any]]


def save_model(model: Any, path: PathLike, command_line: Sequence[str] = ()) -> None:
    """Write a fitted estimator to one file; a failure leaves no partial file.

    Tensors of a model that was fitted on a device are written as arrays.

    `command_line` are the words of the command that fitted it, for whoever wants to do so again.

    The model may also be a scikit-learn Pipeline of two steps: FisherVectorizer or OnnxEncoder,
    then a classifier.
    """
    from safetensors.numpy import save  # noqa: PLC0415
    from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415  (slow to import)

    from .estimators.linear import check_parts  # noqa: PLC0415  (likewise)
    from .estimators.placing import on_host  # noqa: PLC0415

    encoder, classifier = parts_of(model)
    name = type(classifier).__name__
    if name not in ESTIMATORS or type(classifier) is not ESTIMATORS[name].load():
        raise FileError(f"{name} cannot be saved; slender saves {', '.join(sorted(ESTIMATORS))}")
    check_is_fitted(classifier)
    classifier = on_host(classifier)
    inner, tensors = (None, {}) if encoder is None else describe(encoder)
    try:
        check_parts(classifier)
        _check_widths(encoder, classifier)
    except ValueError as error:
        raise FileError(f"{path}: this model cannot be saved: {error}") from error
    document, arrays = _describe(classifier)
    document["command_line"] = list(command_line)
    if inner is not None:
        document["version"] = VERSION
        document["pipeline"] = {"steps": [step for step, _ in model.steps], **inner}
        arrays |= {INNER + key: tensor for key, tensor in tensors.items()}
    text = json.dumps(document)
    metadata = {FORMAT: text, "sha256": checksum(text, arrays)}
    content = save(arrays, metadata)
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def load_model(path: PathLike) -> Any:
    """The estimator that `save_model` wrote, with bit for bit the same predictions.

    The file does not contain the state of the solver: a loaded model cannot continue its fit.
    """
    from .estimators.linear import check_parts  # noqa: PLC0415  (slow to import)

    text, arrays = _read(Path(path))
    try:
        document = json.loads(text)
        classifier = _restore(document, arrays)
        check_parts(classifier)
        return _with_encoder(classifier, document.get("pipeline"), arrays)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileError(f"{path}: cannot be read as a model ({error}); save it again") from error


def parts_of(model: Any) -> tuple[Any, Any]:
    """(encoder of images or None, classifier) of a model."""
    steps = getattr(model, "steps", None)
    if steps is None:
        return None, model
    if len(steps) != 2:
        raise FileError(
            f"a pipeline of {len(steps)} steps cannot be saved; slender saves one of two: "
            "an encoder of images, and a classifier"
        )
    return steps[0][1], steps[1][1]


def read_document(path: PathLike) -> dict[str, Any]:
    """The JSON document of a model file: versions, estimator, settings; everything but arrays."""
    document: dict[str, Any] = json.loads(_read(Path(path))[0])
    return document


def _with_encoder(classifier: Any, inner: Mapping[str, Any] | None, arrays: Arrays) -> Any:
    """The classifier itself, or the pipeline that it belongs to."""
    if inner is None:
        return classifier
    from sklearn.pipeline import Pipeline  # noqa: PLC0415  (slow to import)

    own = {
        name.removeprefix(INNER): tensor
        for name, tensor in arrays.items()
        if name.startswith(INNER)
    }
    encoder = restore(inner, own)
    _check_widths(encoder, classifier)
    first, second = inner["steps"]
    return Pipeline([(first, encoder), (second, classifier)])


def _check_widths(encoder: Any, classifier: Any) -> None:
    if encoder is not None and encoder.n_features_out_ != classifier.n_features_in_:
        raise ValueError(
            f"the encoder makes vectors of {encoder.n_features_out_} numbers, but the classifier "
            f"takes {classifier.n_features_in_}"
        )


# -- the document ----------------------------------------------------------------------------------


def _describe(model: Any) -> tuple[dict[str, Any], Arrays]:
    """The JSON document and the tensors of a fitted model: every public attribute `name_`."""
    arrays: Arrays = {}
    strings: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not _kept(name):
            continue
        if not isinstance(value, np.ndarray):
            values[name] = _plain(name, value)
        elif value.dtype.kind in "fiub":
            little = value.dtype.newbyteorder("<")  # what safetensors writes in any case
            arrays[name] = np.ascontiguousarray(value, little)
        else:
            strings[name] = {"dtype": value.dtype.str, "values": _plain(name, value.tolist())}
    params = {
        name: _plain(name, value)
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_SAVED
    }
    document = {
        "version": WITHOUT_IMAGES,
        "slender": __version__,
        "estimator": type(model).__name__,
        "params": params,
        "arrays": {name: getattr(model, name).dtype.str for name in arrays},
        "strings": strings,
        "values": values,
    }
    return document, arrays


def _restore(document: Mapping[str, Any], arrays: Arrays) -> Any:
    if document["version"] > VERSION:
        raise FileError(
            f"a model of format {document['version']}, written by slender {document['slender']}; "
            f"slender {__version__} reads up to format {VERSION}: upgrade slender"
        )
    name = document["estimator"]
    if name not in ESTIMATORS:
        raise FileError(f"a model of class {name}, which slender {__version__} does not know")
    renamed = RENAMED.get(name, {}) if document["version"] == 1 else {}
    params = {
        renamed.get(key, key): _from_plain(value) for key, value in document["params"].items()
    }
    fitted = {
        **{key: _numbers(key, dtype, arrays[key]) for key, dtype in document["arrays"].items()},
        **{key: _strings(key, **entry) for key, entry in document["strings"].items()},
        **{key: _from_plain(value) for key, value in document["values"].items()},
    }
    model = ESTIMATORS[name].load()(**params)
    for key, value in fitted.items():
        if not _kept(key):
            raise ValueError(f"{key} is not a fitted attribute")
        setattr(model, key, value)
    return model


def _kept(name: str) -> bool:
    """Is this the name of a fitted attribute that is saved?"""
    return name.endswith("_") and not name.startswith("_") and name not in NOT_SAVED


def _numbers(name: str, dtype: str, array: NDArray[Any]) -> NDArray[Any]:
    """A tensor in its original byte order; any other dtype is refused, as it may be huge."""
    if np.dtype(dtype).newbyteorder("<") != array.dtype.newbyteorder("<"):
        raise ValueError(f"{name} is a tensor of dtype {array.dtype}, not {dtype!r}")
    return array.astype(dtype, copy=False)


def _strings(name: str, dtype: str, values: list[str]) -> NDArray[Any]:
    if dtype[:2] not in ("<U", ">U", "|O"):
        raise ValueError(f"{name} has dtype {dtype!r}, which is not a string dtype")
    return np.array(values, object if dtype == "|O" else str)


def _plain(name: str, value: Any) -> Any:
    """The value in a form that JSON restores; a dict with other keys than strings becomes pairs."""
    if isinstance(value, np.generic):
        value = value.item()
    if name == "random_state" and not isinstance(value, int):
        return None  # a generator has moved on since the fit: there is nothing to come back to
    if name == "validation" and not isinstance(value, int | float):
        return None  # rows, or a splitter: data and code of the fit, no part of the model
    if isinstance(value, np.ndarray):  # of a setting; fitted arrays are tensors
        return _plain(name, value.tolist())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, dict):
        pairs = [[_plain(name, key), _plain(name, of)] for key, of in value.items()]
        named = all(isinstance(key, str) for key, _ in pairs) and "pairs" not in value
        return dict(pairs) if named else {"pairs": pairs}
    raise FileError(f"{name} holds a {type(value).__name__}, which a model file cannot store")


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if isinstance(value, dict):
        pairs = value.get("pairs", value.items())
        return {key: _from_plain(of) for key, of in pairs}
    return value


# -- the file --------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[str, Arrays]:
    """The document and the tensors, if the file is a slender model and not damaged."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    plain_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            ours = FORMAT in metadata
            arrays = {name: file.get_tensor(name) for name in file.keys()} if ours else {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise FileError(
            f"{path}: not a slender model, or a damaged one ({reason}); "
            "models are written by `slender fit` or slender.save_model"
        ) from error
    if not ours:
        raise FileError(
            f"{path}: a safetensors file, but not a slender model; "
            "models are written by `slender fit` or slender.save_model"
        )
    if metadata.get("sha256") != checksum(metadata[FORMAT], arrays):
        raise FileError(f"{path}: a damaged slender model (checksum differs); copy or fit it again")
    return metadata[FORMAT], arrays
