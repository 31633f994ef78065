"""Callbacks that keep the records of a fit elsewhere, as they come.

    LogisticClassifier(callbacks=[JSONLines("fit.jsonl"), TensorBoard("runs/1")]).fit(X, y)

Each takes the records of any estimator: one per pass, of a probe one per value of its path.  The
optional packages are imported when the first record comes, but missed when the callback is made.
Copies of an estimator (clone, a grid search) write to the same place.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .extras import check, need
from .storage import FileError, PathLike, check_writable, finite, unwritten

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}
FLUSH_SECONDS = 5  # of TensorBoard
KINDS = "FILE.jsonl, tensorboard:FOLDER, wandb or mlflow"


class _Logger:
    """What the callbacks share: they count records, and are never copied."""

    def __init__(self) -> None:
        self.records = 0

    def __call__(self, record: Mapping[str, Any], model: Any = None) -> None:
        self.records += 1
        self.keep(record)

    def keep(self, record: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def __deepcopy__(self, memo: Any) -> "_Logger":
        return self


class JSONLines(_Logger):
    """One line of JSON per record, on disk before the fit goes on; null for what is not finite.

    The file is emptied first, unless `append`.
    """

    def __init__(self, path: PathLike, append: bool = False) -> None:
        super().__init__()
        self.path = check_writable(path)
        if not append:
            self._write("", "w")

    def keep(self, record: Mapping[str, Any]) -> None:
        self._write(json.dumps(finite(dict(record)), allow_nan=False) + "\n", "a")

    def _write(self, text: str, mode: str) -> None:
        try:
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise FileError(f"{self.path}: {unwritten(error)}") from error


class TensorBoard(_Logger):
    """A scalar for each figure, in event files in a folder (package tensorboardX).

    They are on disk after FLUSH_SECONDS, at the end of the process, or after `close()`.
    """

    def __init__(self, folder: PathLike) -> None:
        super().__init__()
        check("tensorboardX", "TensorBoard")
        self.folder = Path(folder)
        self._writer: Any = None

    def keep(self, record: Mapping[str, Any]) -> None:
        if self._writer is None:
            tensorboard = need("tensorboardX", "TensorBoard")
            try:
                self._writer = tensorboard.SummaryWriter(str(self.folder), flush_secs=FLUSH_SECONDS)
            except OSError as error:
                raise FileError(f"{self.folder}: {unwritten(error)}") from error
        for name, value in _figures(record).items():
            self._writer.add_scalar(name, value, self.records)

    def close(self) -> None:
        """Write what is waiting; a later record opens another file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None}  # it has a thread, and opens a file


class WandB(_Logger):
    """The figures of each record go to a run of Weights & Biases.

    run : what wandb.init() returned; None: the current run, or a new one
    """

    def __init__(self, run: Any = None) -> None:
        super().__init__()
        if run is None:
            check("wandb", "WandB")
        self.run = run

    def keep(self, record: Mapping[str, Any]) -> None:
        if self.run is None:
            wandb = need("wandb", "WandB")
            self.run = wandb.run or wandb.init()
        self.run.log(_figures(record))


class MLflow(_Logger):
    """The figures of each record are metrics of MLflow's current run, or of a new one."""

    def __init__(self) -> None:
        super().__init__()
        check("mlflow", "MLflow")

    def keep(self, record: Mapping[str, Any]) -> None:
        need("mlflow", "MLflow").log_metrics(_figures(record), step=self.records)


def _figures(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a record."""
    numbers = {name: of for name, of in record.items() if isinstance(of, int | float)}
    return {name: float(of) for name, of in numbers.items() if math.isfinite(of)}


def named(where: str, append: bool = False) -> _Logger:
    """The callback that KINDS spells; raises on what it does not spell."""
    kind, _, folder = where.partition(":")
    if kind == "tensorboard" and folder:
        return TensorBoard(folder)
    if where in ("wandb", "mlflow"):
        return WandB() if where == "wandb" else MLflow()
    if Path(where).suffix.lower() == ".jsonl":
        return JSONLines(where, append)
    raise ValueError(f"{where} is not one of {KINDS}")
