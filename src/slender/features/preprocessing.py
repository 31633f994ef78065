"""From an image to the input of a network, as the people who trained it did.

    resize   the shorter side to so many pixels, or both sides exactly, by Pillow's filter
    crop     the middle: (height, width), from row (h - height) // 2 and column (w - width) // 2
    scale    values times `rescale`, minus `mean`, divided by `std`, for each of R, G and B

A JSON file beside the model may give these, either under the names used here (size, resize, mean,
std, rescale, resample) or under those of preprocessor_config.json (size, crop_size, image_mean,
image_std, rescale_factor, resample, do_rescale, do_normalize).
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # by Pillow's numbers
CHANNELS = 3
# A longer image loses its ends before it is resized: a line of one pixel would become gigabytes.
LONGEST = 16  # times the shorter side

Settings = dict[str, Any]


class Preprocessing(NamedTuple):
    """All that has to be known to prepare an image."""

    resize: tuple[int, ...]  # (shorter side,) or (height, width)
    crop: tuple[int, int]  # height, width
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale: float = 1 / 255
    resample: str = "bicubic"

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(h, w, 3) uint8 to (height, width, 3), scaled."""
        Image = need("PIL.Image", "preparing images")
        image = _without_ends(image)
        height, width = self._resized(*image.shape[:2])
        filtered = Image.Resampling[self.resample.upper()]
        pixels = np.asarray(Image.fromarray(image).resize((width, height), filtered))
        top, left = (height - self.crop[0]) // 2, (width - self.crop[1]) // 2
        pixels = pixels[top : top + self.crop[0], left : left + self.crop[1]]
        scaled = pixels * np.float32(self.rescale)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return (scaled - mean) / std

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if len(self.resize) == 2:
            return self.resize[0], self.resize[1]
        (side,) = self.resize
        if height <= width:
            return side, max(side, side * width // height)
        return max(side, side * height // width), side

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As numbers, for a file."""
        return {
            "resize": np.array(self.resize, np.int64),
            "crop": np.array(self.crop, np.int64),
            "mean": np.array(self.mean, np.float64),
            "std": np.array(self.std, np.float64),
            "rescale": np.array(self.rescale, np.float64),
            "resample": np.array(FILTERS.index(self.resample), np.int64),
        }

    @classmethod
    def restored(cls, arrays: dict[str, NDArray[Any]]) -> "Preprocessing":
        """From what `arrays` gave."""
        return cls(
            tuple(arrays["resize"].tolist()),
            tuple(arrays["crop"].tolist()),
            tuple(arrays["mean"].tolist()),
            tuple(arrays["std"].tolist()),
            float(arrays["rescale"]),
            FILTERS[int(arrays["resample"])],
        )


def preprocessing(given: Settings, model: Path | None, sides: tuple[int, int] | None) -> Any:
    """From settings, else the JSON beside the model, else the sides of the model's input."""
    beside = {} if model is None else _beside(model)
    if given.get("size") is not None and given.get("resize") is None:
        beside.pop("resize", None)  # it belonged to another size
    known = {**beside, **{name: value for name, value in given.items() if value is not None}}
    crop = _pair("size", known["size"]) if "size" in known else sides
    if crop is None:
        raise ValueError(
            "the model takes images of any size: give size=224, or whatever it was trained with"
        )
    if sides is not None and crop != sides:
        raise ValueError(
            f"size={crop[0]} x {crop[1]}, but the model takes images of {sides[0]} x {sides[1]}; "
            "leave size out"
        )
    for name in ("mean", "std"):
        if name not in known:
            raise ValueError(
                f"{name} is not known: give {name}=0.5,0.5,0.5 or what the model was trained with, "
                "or a JSON file beside the model, named like it"
            )
    resize = _sides(known.get("resize", min(crop) if crop[0] == crop[1] else crop))
    if len(resize) == 1 and resize[0] < max(crop):
        raise ValueError(f"resize={resize[0]} is smaller than size={max(crop)}")
    std = _three("std", known["std"])
    if not all(value > 0 for value in std):
        raise ValueError(f"std={list(std)} must be three numbers > 0")
    rescale = float(known.get("rescale", 1 / 255))
    resample = known.get("resample", "bicubic")
    if resample not in FILTERS:
        raise ValueError(f"resample={resample!r} is not one of {', '.join(FILTERS)}")
    return Preprocessing(resize, crop, _three("mean", known["mean"]), std, rescale, resample)


def _beside(model: Path) -> Settings:
    """Of MODEL.json, else of preprocessor_config.json in the same folder; nothing without both."""
    for path in (model.with_suffix(".json"), model.with_name("preprocessor_config.json")):
        if path.is_file():
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
                if not isinstance(found, dict):
                    raise ValueError("not an object")
                return _in_our_names(found)
            except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
                raise FileError(f"{path}: cannot be used ({error}); correct it") from error
    return {}


def _in_our_names(found: Settings) -> Settings:
    """What a JSON file says, ours or a preprocessor_config.json."""
    if found.get("do_resize") is False:
        raise ValueError("do_resize is false, but a network needs images of one size")
    for name in ("image_mean", "image_std"):
        if name in found:
            found[name.removeprefix("image_")] = found[name]
    if found.get("do_normalize") is False:
        found |= {"mean": [0.0] * CHANNELS, "std": [1.0] * CHANNELS}
    if "rescale_factor" in found:
        found["rescale"] = found["rescale_factor"]
    if found.get("do_rescale") is False:
        found["rescale"] = 1.0
    if isinstance(found.get("resample"), int):
        found["resample"] = FILTERS[found["resample"]]
    if "crop_size" in found and found.get("do_center_crop") is not False:
        if "size" in found:
            found["resize"] = _edges(found["size"])
        found["size"] = _edges(found["crop_size"])
    elif "size" in found:
        edges = _edges(found["size"])
        found["size"] = edges
        found.setdefault("resize", edges)
    names = ("size", "resize", "mean", "std", "rescale", "resample")
    return {name: found[name] for name in names if name in found}


def _edges(value: Any) -> Any:
    """224, {"shortest_edge": 224} or {"height": 224, "width": 224}."""
    if not isinstance(value, dict):
        return value
    if "shortest_edge" in value:
        return value["shortest_edge"]
    return [value["height"], value["width"]]


def _sides(value: Any) -> tuple[int, ...]:
    sides = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not (1 <= len(sides) <= 2 and all(isinstance(side, int) and side > 0 for side in sides)):
        raise ValueError(f"resize={value!r} must be the shorter side, or height and width")
    return sides


def _pair(name: str, value: Any) -> tuple[int, int]:
    sides = tuple(value) if isinstance(value, list | tuple) else (value, value)
    if not (len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides)):
        raise ValueError(f"{name}={value!r} must be a whole number of pixels")
    return sides[0], sides[1]


def _three(name: str, value: Any) -> tuple[float, ...]:
    """One number for all channels, or one for each."""
    values = list(value) if isinstance(value, list | tuple) else [value] * CHANNELS
    if len(values) == CHANNELS and all(isinstance(v, int | float) for v in values):
        return tuple(float(v) for v in values)
    raise ValueError(f"{name}={value!r} must be three numbers, for red, green and blue")


def _without_ends(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = image.shape[:2]
    tall, wide = min(height, LONGEST * width), min(width, LONGEST * height)
    top, left = (height - tall) // 2, (width - wide) // 2
    return np.ascontiguousarray(image[top : top + tall, left : left + wide])
