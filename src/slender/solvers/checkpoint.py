"""A fit that is saved in a folder while it runs, and continued from there after it was killed.

The folder has one safetensors file for each call of the loop that has lasted long enough (a path
has a second one, for its final fit): fit-0.safetensors, fit-1.safetensors.  A file holds the
solver's state after a step, the trace and the clock (packing.py).  `__metadata__` has

    slender-checkpoint   a JSON document: version of slender, what the fit is of (`about`), the
                         random generator at the start of the fit, and the packed tree
    sha256               of the document and the arrays

A fit that is continued does what comes before its first step again, with the same random numbers;
then its state is replaced by the saved one.  So a state need not hold what follows from the data
and the settings.

A file stays when the fit ends: the same call then finds the last step and only ends it again.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..notices import warn
from ..rows.cores import num_threads
from ..storage import (
    FileError,
    PathLike,
    check_writable,
    checksum,
    mapped_tensor,
    owned,
    remove_stale,
    safetensors_header,
    unreadable,
    write_tensors,
    write_whole,
)
from .packing import pack, restore

FORMAT = "slender-checkpoint"
NAMES = "fit-[0-9].safetensors"
ELSEWHERE = "choose another folder, or delete this one"

About = Mapping[str, Mapping[str, Any]]  # see `_differs`


class Checkpoint:
    """The folder of a fit, owned while `with` lasts.

    `about` is what the result depends on, as JSON holds it: "fit" with the estimator's name and
    "settings".  `data()` are fingerprints of the data, which must agree; they need a reading of the
    rows, and are not asked for before the folder was found fit for use.
    """

    def __init__(
        self,
        folder: PathLike,
        every: float,
        about: About,
        data: Callable[[], Mapping[str, Any]],
        rng: np.random.Generator,
    ) -> None:
        self.folder, self.every, self.about, self._data = Path(folder), every, about, data
        self.rng, self.start = rng, rng.bit_generator.state
        self.begun = self.last = time.monotonic()
        self.warned = self.warned_of_threads = self.closed = False
        self._stages = 0
        self._held = ExitStack()

    def __enter__(self) -> "Checkpoint":
        with ExitStack() as held:
            held.enter_context(owned(self.folder, "fit"))
            remove_stale(self.folder)
            found = saved_in(self.folder)
            if not found and any(self.folder.iterdir()):
                raise FileError(
                    f"{self.folder}: holds other files; choose a new folder, or an empty one"
                )
            check_writable(self.folder / _name(0))
            for path in found:
                self._compare(path)
            self.about = {**self.about, "data": self._data()}
            for path in found:
                self._begin_as(path)
            self._held = held.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._held.close()

    def _compare(self, path: Path) -> dict[str, Any]:
        """What a file holds beside its arrays, if it is of this fit."""
        document = _document(path)
        try:
            _check(self.folder, document, self.about)
            document["start"], document["threads"]  # must be there
        except (KeyError, TypeError, AttributeError) as error:
            raise unreadable(path, "a checkpoint", error) from error
        return document

    def _begin_as(self, path: Path) -> None:
        """Check that a file is of this fit; draw the random numbers that it drew."""
        document = self._compare(path)
        start, threads = document["start"], document["threads"]
        if start["bit_generator"] != self.start["bit_generator"]:
            raise FileError(
                f"{self.folder}: was made with a random_state of {start['bit_generator']}, here it "
                f"is one of {self.start['bit_generator']}; {ELSEWHERE}"
            )
        if threads != num_threads() and not self.warned_of_threads:
            warn(
                f"{self.folder}: was made with {threads} threads, now there are {num_threads()}: "
                "the result may differ by rounding errors"
            )
            self.warned_of_threads = True
        self.rng.bit_generator.state = self.start = _state_of(start)

    def next_stage(self) -> "SavedRun | None":
        """For the next call of the loop; None once the fit was interrupted: its rest is hurried."""
        if self.closed:
            return None
        self._stages += 1
        return SavedRun(self, self.folder / _name(self._stages - 1))


class Saved(NamedTuple):
    """What a file holds."""

    tree: list[Any]  # the state, the trace and the clock
    kinds: Iterable[type]  # classes in the tree
    noted: Mapping[str, Any]  # numbers of the loop


class SavedRun:
    """One call of the loop."""

    def __init__(self, of: Checkpoint, path: Path) -> None:
        self.of, self.path = of, path
        self.changed = False  # since the last write

    def restore(self, fresh: Saved) -> dict[str, Any] | None:
        """Change the tree to what was saved, if anything; returns what was noted with it."""
        if not self.path.exists():
            return None
        document = _document(self.path)
        try:
            offset, header = safetensors_header(self.path)
            arrays = {
                name: np.array(mapped_tensor(self.path, offset, name, entry))
                for name, entry in header.items()
                if name != "__metadata__"
            }
            metadata = header["__metadata__"]
            if metadata["sha256"] != checksum(metadata[FORMAT], arrays):
                raise FileError(f"{self.path}: damaged (checksum differs); delete it to fit again")
            restore(fresh.tree, document["tree"], arrays, fresh.kinds)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise unreadable(self.path, "a checkpoint", error) from error
        noted: dict[str, Any] = document["noted"]
        return noted

    def stepped(self, saved: Saved, last: bool = False) -> None:
        """After a step: write it if the last write is long enough ago."""
        self.changed = True
        if not last and time.monotonic() - self.of.last >= self.of.every:
            self.write(saved)

    def finish(self, saved: Saved, stopped: bool) -> None:
        """Write the last step, unless it was written or the whole fit took less than `every`."""
        if self.changed and time.monotonic() - self.of.begun >= self.of.every:
            self.write(saved, stopped)

    def write(self, saved: Saved, stopped: bool = False) -> None:
        """A failure is a warning: the fit goes on, since its work is not lost yet.

        `stopped` notes that a callback ended the fit here.
        """
        of = self.of
        packed, arrays = pack(saved.tree, saved.kinds)
        document = {
            "slender": __version__,
            "about": of.about,
            "start": _plain(of.start),
            "threads": num_threads(),
            "noted": {**saved.noted, "stopped": stopped},
            "tree": packed,
        }
        text = json.dumps(document)
        metadata = {FORMAT: text, "sha256": checksum(text, arrays)}
        try:
            write_whole(self.path, lambda path: write_tensors(path, arrays, metadata))
            self.changed = False
        except FileError as error:
            if not of.warned:
                warn(f"{error}; the fit goes on, but would lose what it does until this succeeds")
            of.warned = True
        of.last = time.monotonic()


def saved_in(folder: Path) -> list[Path]:
    """The files of a fit in a folder."""
    return sorted(folder.glob(NAMES)) if folder.is_dir() else []


def clear(folder: Path) -> None:
    """Remove the files of a fit, and the folder if nothing else is in it."""
    for path in saved_in(folder):
        path.unlink()
    remove_stale(folder)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _name(stage: int) -> str:
    return NAMES.replace("[0-9]", str(stage))


def _document(path: Path) -> dict[str, Any]:
    _, header = safetensors_header(path)
    text = header.get("__metadata__", {}).get(FORMAT)
    if text is None:
        raise FileError(f"{path}: not a checkpoint of slender; choose another folder")
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise unreadable(path, "a checkpoint", error) from error
    return document


# -- is it of this fit? ----------------------------------------------------------------------------


def _check(folder: Path, document: dict[str, Any], about: About) -> None:
    version = document.get("slender")
    if version != __version__:
        raise FileError(
            f"{folder}: was made by slender {version}, this is slender {__version__}, which may "
            f"compute otherwise; continue it with slender {version}, or delete it"
        )
    before, now = document["about"], json.loads(json.dumps(about))
    if before["fit"] != now["fit"]:
        raise FileError(
            f"{folder}: is of {before['fit']['estimator']}, not of {now['fit']['estimator']}; "
            f"{ELSEWHERE}"
        )
    for name in {**before["settings"], **now["settings"]}:
        then, here = before["settings"].get(name), now["settings"].get(name)
        if then != here:
            raise FileError(
                f"{folder}: was made with {name}={_shown(then)}, this fit has "
                f"{name}={_shown(here)}; {ELSEWHERE}"
            )
    for name in {**before["data"], **now["data"]} if "data" in now else ():
        then, here = before["data"].get(name), now["data"].get(name)
        if then != here:
            shapes = [f"{n:,} x {d:,}" for n, d in (before["data"]["shape"], now["data"]["shape"])]
            raise FileError(
                f"{folder}: was made from other {'rows' if name == 'shape' else name} "
                f"({shapes[0]} there, {shapes[1]} here); {ELSEWHERE}"
            )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _plain(state: Any) -> Any:
    """A bit generator's state with lists for arrays."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    return {"list": state.tolist()} if hasattr(state, "tolist") else state


def _state_of(plain: Any) -> Any:
    if isinstance(plain, dict) and "list" in plain:
        return np.array(plain["list"], np.uint64)
    if isinstance(plain, dict):
        return {name: _state_of(part) for name, part in plain.items()}
    return plain
