"""What was done already: runs that are known by all that was asked for.

A run is a dict, which holds what was asked for beside what came of it.  A ledger is saved after
each run that is added; what it holds is never run again, and never taken for something else.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..notices import warn
from ..storage import FileError, finite
from .documents import as_json, read, save

Run = dict[str, Any]


class Ledger:
    """Runs, told apart by what they have under the names in `asked`.

    `save(runs)` is called after each that is added.  If it fails, a warning says so, once; the next
    call saves them all.  `saved` is how many are safe.
    """

    def __init__(
        self,
        asked: Sequence[str],
        runs: Iterable[Run] = (),
        save: Callable[[list[Run]], object] = lambda runs: None,
    ) -> None:
        self.runs = list(runs)
        self.lock = threading.Lock()  # whoever holds it knows that nothing is being saved
        self._names, self._save = tuple(asked), save
        self.saved, self._warned = len(self.runs), False
        self._places = {self._key(run): place for place, run in enumerate(self.runs)}

    def get(self, asked: Mapping[str, Any]) -> Run | None:
        place = self._places.get(self._key(asked))
        return None if place is None else self.runs[place]

    def add(self, run: Run) -> None:
        with self.lock:
            self._places[self._key(run)] = len(self.runs)
            self.runs.append(run)
            try:
                self._save(self.runs)
                self.saved = len(self.runs)
            except FileError as error:  # the run is not lost yet
                if not self._warned:
                    warn(f"{error}; the work goes on, but would be lost until this succeeds")
                self._warned = True

    def _key(self, run: Mapping[str, Any]) -> str:
        return json.dumps([run[name] for name in self._names], sort_keys=True)


def checksum(runs: list[Run]) -> str:
    """Of runs as JSON keeps them: what was edited since is not taken for a result."""
    text = json.dumps(finite(runs), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def ledger_file(path: Path, asked: Sequence[str]) -> Ledger:
    """The ledger that a file holds, or an empty one that will be saved there."""
    held = read(path)
    if path.exists() and not (
        isinstance(held, dict) and held.get("checksum") == checksum(held["runs"])
    ):
        raise FileError(f"{path}: not a ledger as slender wrote it; remove it to begin anew")

    def keep(runs: list[Run]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(as_json({"checksum": checksum(runs), "runs": runs}), path)

    return Ledger(asked, held["runs"] if held else (), keep)
