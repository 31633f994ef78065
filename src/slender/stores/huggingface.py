"""Folders that `save_to_disk` of Hugging Face `datasets` writes, read without that package.

A data set is a folder with `state.json`, which lists its Arrow files, and `dataset_info.json`.  A
DatasetDict is a folder with `dataset_dict.json` and one such folder for each split.
"""

import json
from pathlib import Path
from typing import Any

from ..storage import FileError, unreadable

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def is_dataset(folder: Path) -> bool:
    """Is this the folder of a data set, or of one with splits?"""
    single = (folder / STATE).is_file() and (folder / INFO).is_file()
    return single or (folder / SPLITS).is_file()


def splits(folder: Path) -> list[str]:
    """The splits of a DatasetDict; none of a single data set."""
    if not (folder / SPLITS).is_file():
        return []
    return list(map(str, _document(folder / SPLITS).get("splits", [])))


def data_files(folder: Path, split: str | None) -> list[Path]:
    """The Arrow files of a data set, in order."""
    there = splits(folder)
    if there:
        names = ", ".join(there)
        if split is None and len(there) > 1:
            raise FileError(f"{folder}: has the splits {names}; say which with split=NAME")
        if split is not None and split not in there:
            raise FileError(f"{folder}: has no split {split}, but {names}")
        folder = folder / (there[0] if split is None else split)
    state = _document(folder / STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise FileError(
            f"{folder}: its rows are chosen by a list of indices; call flatten_indices() before "
            "save_to_disk"
        )
    try:
        files = [folder / entry["filename"] for entry in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise unreadable(folder / STATE, "the state of a data set", error) from error
    for path in files:
        if not path.is_file():
            raise FileError(f"{path}: no such file, but {folder / STATE} lists it; copy it there")
    if not files:
        raise FileError(f"{folder}: {STATE} lists no files; save the data set again")
    return files


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unreadable(path, "JSON", error) from error
    if not isinstance(found, dict):
        raise FileError(f"{path}: is no object of JSON; save the data set again")
    return found
