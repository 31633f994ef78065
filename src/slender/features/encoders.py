"""Fitted encoders in files: settings as JSON, arrays as tensors of a safetensors file."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..registry import ENCODERS
from ..storage import FileError, PathLike, checksum, plain_file, write_whole

FORMAT = "slender-features"
VERSION = 1
# Settings that do not change a vector.
NOT_SAVED = ("n_jobs", "progress", "verbose")

Arrays = dict[str, NDArray[Any]]


def kind_of(encoder: Any) -> str | None:
    """Its name among ENCODERS; None if it is none of them."""
    name = type(encoder).__name__
    kinds = [kind for kind, of in ENCODERS.items() if of.name == name]
    return kinds[0] if kinds and type(encoder) is ENCODERS[kinds[0]].load() else None


def settings_of(encoder: Any) -> dict[str, Any]:
    """Those that decide what an encoder computes, in a form that JSON restores."""
    params = encoder.get_params(deep=False)
    return {name: _plain(of) for name, of in params.items() if name not in NOT_SAVED}


def describe(encoder: Any) -> tuple[dict[str, Any], Arrays]:
    """A JSON document and the tensors of a fitted encoder."""
    kind = kind_of(encoder)
    if kind is None:
        names = " and ".join(of.name for of in ENCODERS.values())
        raise FileError(f"{type(encoder).__name__} cannot be saved; slender saves {names}")
    arrays = {
        name: np.asarray(of, of.dtype.newbyteorder("<"), order="C")
        for name, of in encoder.arrays().items()
    }
    return {"features": kind, "settings": settings_of(encoder), "arrays": sorted(arrays)}, arrays


def restore(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The encoder that `describe` described."""
    kind = document["features"]
    if kind not in ENCODERS:
        raise FileError(f"features {kind!r}, which this version of slender does not know")
    own = {name: arrays[name] for name in document["arrays"]}
    return ENCODERS[kind].load().restored(document["settings"], own)


def save_encoder(encoder: Any, path: PathLike) -> None:
    """Write a fitted encoder to one file, whose bytes depend on nothing else."""
    from safetensors.numpy import save  # noqa: PLC0415

    document, arrays = describe(encoder)
    document = {"version": VERSION, **document, "sha256": _digest(document, arrays)}
    # one entry: of several, the order in the file would be that of a hash table
    content = save(arrays, {FORMAT: json.dumps(document)})
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def load_encoder(path: PathLike) -> Any:
    """The encoder that `save_encoder` wrote."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    path = plain_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(FORMAT)
            arrays = {name: file.get_tensor(name) for name in file.keys()} if text else {}  # noqa: SIM118
        if text is None:
            raise FileError("a safetensors file, but no encoder that slender wrote")
        document = json.loads(text)
        if document["version"] > VERSION:
            raise FileError("an encoder that a newer slender wrote; upgrade slender")
        if document.pop("sha256") != _digest(_without_version(document), arrays):
            raise FileError("a damaged encoder (checksum differs); copy or extract it again")
        return restore(document, arrays)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: cannot be read as an encoder ({error})") from error


def same(first: Any, second: Any) -> bool:
    """Do two fitted encoders give the same vectors?"""
    return _digest(*describe(first)) == _digest(*describe(second))


def _without_version(document: dict[str, Any]) -> dict[str, Any]:
    return {name: of for name, of in document.items() if name != "version"}


def _digest(document: Mapping[str, Any], arrays: Arrays) -> str:
    return checksum(json.dumps(document, sort_keys=True), arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return str(Path(value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return None  # a random generator, which has moved on since the fit
