"""Rows that live on the workers of a Dask cluster, as rows and examples for any solver.

    rows = on_workers(X)                    X a Dask array; its chunks become shards (shards.py)
    examples = examples_of(rows, y, w)      its `reduce` runs on the workers (fleet.py)

Labels and weights, of length n, are held here too; of the rows only the few that a sample or a
bound on rounding errors needs are sent.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..places import CPU, check_device, gpus, torch_device
from ..rows import Block, DenseBlock, Rows, as_rows
from ..rows.base import compute_dtype
from ..rows.block import Bad
from ..rows.cores import sharing
from .examples import Examples, Pass, Sums
from .fleet import A_WORKER, Fleet
from .replicas import ReplicatedRows
from .scheduler import ClusterError
from .shards import (
    Change,
    Recipe,
    Reduce,
    RowFunction,
    Shard,
    called,
    first_bad,
    gather,
    product,
    shard_of,
    square_norms,
)

PURPOSE = "A Dask array"


def is_dask(X: Any) -> bool:
    """Is this a collection of Dask?  Does not import Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def computed(values: Any) -> Any:
    """Labels or weights, of which n numbers are held here."""
    if not is_dask(values):
        return values
    try:
        return values.compute()
    except CancelledError as lost:
        raise ClusterError(
            "the scheduler went away while labels or weights were computed: repeat the fit, or "
            "give them as NumPy arrays"
        ) from lost


def on_workers(X: Any, client: Any = None, device: Any = None) -> "RemoteRows":
    """X on the workers of a Dask client, for any number of fits; freed when it is forgotten.

    X is a Dask array, or in files that every worker can read: a memory map, or a store.  The
    estimators that can be fitted to a Dask array accept the result as X.  With device="cuda" every
    worker sends its rows to its own GPU and computes there (docs/gpu.md).
    """
    device = None if check_device(device) == CPU else check_device(device)
    client = _active(client)
    workers = len(client.sync(client.scheduler.identity, n_workers=-1)["workers"])
    most = A_WORKER * max(1, workers)
    if is_dask(X):
        check_array(X)
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        chunks, ends = X.to_delayed().ravel(), np.cumsum(X.chunks[0])
        cuts = _cut(ends, most)
        edges = np.concatenate([[0], ends])[cuts]
        parts = [list(chunks[lo:hi]) for lo, hi in pairwise(cuts)]
    elif hasattr(X, "part") or getattr(X, "filename", None):
        X = X if hasattr(X, "part") else MappedRows(X.filename, X.dtype, X.shape, X.offset)
        edges = np.unique(np.linspace(0, X.shape[0], most + 1).astype(np.intp))
        parts = [[X.part(int(lo), int(hi))] for lo, hi in pairwise(edges)]
    else:
        raise ValueError(
            f"X is {type(X).__name__}, whose rows are in this process: give a Dask array, or a "
            "file that the workers can read (np.load('X.npy', mmap_mode='r'))"
        )
    delayed = need("dask", PURPOSE).delayed

    def source(part: list[Any]) -> Callable[[str], Any]:
        return lambda name: delayed(_shard, pure=False)(part, device, dask_key_name=name)

    fleet = Fleet(client, [source(part) for part in parts], edges)
    named = getattr(X, "where", None)
    return RemoteRows(fleet, tuple(X.shape), compute_dtype(X.dtype), device, named)


def _shard(parts: list[Any], device: str | None) -> Shard:
    """On a worker: its rows, on its own GPU if "cuda" is asked for.

    Who gives each worker a CUDA_VISIBLE_DEVICES has said which that is (as `dask cuda worker`
    does); else the workers of a machine, which Dask numbers, take turns.
    """
    if device == "cuda" and "CUDA_VISIBLE_DEVICES" not in os.environ:
        name = need("distributed", PURPOSE).get_worker().name
        there = len(gpus())
        device = f"cuda:{name % there}" if there and isinstance(name, int) else device
    return shard_of(parts, None if device is None else torch_device(device))


@dataclass(frozen=True)
class MappedRows:
    """A matrix in a file, which each worker maps for itself."""

    path: Any
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    offset: int  # bytes before its first row

    def part(self, lo: int, hi: int) -> "MappedRows":
        """Rows lo..hi."""
        offset = self.offset + lo * self.shape[1] * self.dtype.itemsize
        return MappedRows(self.path, self.dtype, (hi - lo, self.shape[1]), offset)

    def as_rows(self) -> Rows:
        """The rows, here."""
        return as_rows(np.memmap(self.path, self.dtype, "r", self.offset, self.shape))


def _active(client: Any) -> Any:
    distributed = need("distributed", PURPOSE)
    if client is not None:
        return client
    try:
        return distributed.default_client()
    except ValueError as error:
        raise ValueError(
            "X is a Dask array, and there is no active Client to fit it: make one first "
            "(dask.distributed.Client()), or give open_rows(X), which is read here chunk by chunk"
        ) from error


def check_array(X: Any) -> None:
    """Raise an error unless X is a Dask array of numbers whose shape is known."""
    if not hasattr(X, "chunks"):
        raise ValueError(
            f"X is a Dask {type(X).__name__}; give an array: X.to_dask_array(lengths=True)"
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a Dask array of shape {X.shape}")
    if np.isnan(X.shape[0]) or np.isnan(X.shape[1]):
        raise ValueError(
            "X is a Dask array whose chunks have unknown lengths: call X.compute_chunk_sizes()"
        )
    if 0 in X.shape:
        raise ValueError(f"Found array with 0 sample(s) or feature(s) (shape={X.shape})")
    if X.dtype.kind not in "biuf" or type(X._meta).__module__.split(".")[0] != "numpy":
        raise ValueError(
            f"X is a Dask array of {type(X._meta).__name__} with dtype {X.dtype}; "
            "its chunks must be NumPy arrays of numbers"
        )


def _cut(ends: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Where to cut chunks with these ends into at most `most` groups of about as many rows."""
    wanted = np.linspace(0, ends[-1], min(most, len(ends)) + 1)
    nearest = np.searchsorted((ends[:-1] + ends[1:]) / 2, wanted[1:-1]) + 1
    return np.unique([0, *nearest, len(ends)])


class RemoteRows(Rows):
    """Rows on the workers of a fleet; `index` (increasing) are those that take part.

    `named` says where a row of X comes from, if X is in files.
    """

    def __init__(
        self,
        fleet: Fleet,
        shape: tuple[int, int],
        dtype: Any,
        place: str | None = None,
        named: Callable[[int], str] | None = None,
    ) -> None:
        self.fleet, self.shape, self.dtype, self.named = fleet, shape, dtype, named
        self.place = place  # the device of every worker; None: its cores
        self.changes: tuple[Change, ...] = ()
        self.index: NDArray[np.intp] | None = None

    def as_rows(self) -> "RemoteRows":
        """Estimators accept these rows as X."""
        return self

    def with_labels(self, y: NDArray[Any], w: NDArray[np.float64]) -> "DaskExamples":
        """The examples of these rows."""
        return DaskExamples(self, y, w)

    # -- the verbs of rows that need no rows here ------------------------------------------------

    def subset(self, index: NDArray[np.intp]) -> "RemoteRows":
        if (np.diff(index) <= 0).any():
            raise ValueError("some rows of a Dask array: their numbers must increase")
        other = copy(self)
        other.index = np.asarray(index if self.index is None else self.index[index])
        other.shape = (len(other.index), self.shape[1])
        return other

    def scaled(self, scale: NDArray[Any]) -> "RemoteRows":
        return self._changed("scaled", scale)

    def normalised(self) -> "RemoteRows":
        return self._changed("normalised")

    def widened(self) -> Rows:
        return self if self.dtype == np.float64 else self._changed("widened", dtype=np.float64)

    def _changed(self, verb: str, *arguments: Any, dtype: Any = None) -> "RemoteRows":
        other = copy(self)
        other.changes = (*self.changes, (verb, arguments))
        other.dtype = self.dtype if dtype is None else np.dtype(dtype)
        return other

    def beside(self, Z: NDArray[Any]) -> ReplicatedRows:
        """Rows computed from these: work on them by classes is done by the same workers."""
        return ReplicatedRows(Z, self.fleet)

    # -- the verbs whose results come here -------------------------------------------------------

    def gather(self, index: NDArray[np.intp]) -> DenseBlock:
        """A few rows."""
        base = np.asarray(index if self.index is None else self.index[index])
        of = np.searchsorted(self.fleet.edges, base, side="right") - 1  # the shard of each
        numbers = np.unique(of).tolist()
        own = {k: base[of == k] - self.fleet.edges[k] for k in numbers}
        out = np.empty((len(base), self.shape[1]), self.dtype)
        for k, rows in zip(numbers, self.fleet.each(gather, self.changes, own), strict=True):
            out[of == k] = rows
        return DenseBlock(out)

    def matmat(self, B: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        parts = self.fleet.each(product, (self.changes, B), self._places())
        return np.concatenate(parts, out=out)

    def each_row(self, function: RowFunction) -> NDArray[Any]:
        """function(rows) of every shard, computed by the worker that holds it."""
        return np.concatenate(self.fleet.each(called, (self.changes, function), self._places()))

    def sqnorms(self) -> NDArray[Any]:
        return np.concatenate(self.fleet.each(square_norms, self.changes, self._places()))

    def first_bad(self) -> Bad | None:
        found = self.fleet.each(first_bad, self.changes, self._places())
        for first, bad in zip(self.cuts(), found, strict=False):
            if bad is not None:
                return int(first) + bad[0], bad[1], bad[2]
        return None

    def where(self, i: int) -> str:
        i = i if self.index is None else int(self.index[i])
        return super().where(i) if self.named is None else self.named(i)

    def cuts(self) -> NDArray[np.intp]:
        """Where the rows of each shard begin among these rows; then their number."""
        edges = self.fleet.edges
        return edges if self.index is None else np.searchsorted(self.index, edges)

    def places(self, number: int) -> NDArray[np.intp] | None:
        """Which rows of a shard take part; None: all."""
        if self.index is None:
            return None
        lo, hi = self.cuts()[number : number + 2]
        return self.index[lo:hi] - self.fleet.edges[number]

    def _places(self) -> dict[int, Any]:
        return {k: self.places(k) for k in range(self.fleet.count)}

    def part(self, lo: int, hi: int) -> Rows:
        return self.subset(np.arange(lo, hi))

    def block(self, lo: int, hi: int) -> Block:
        raise ValueError(
            "these rows stay on their workers, but this would read them here, one block after the "
            "other"
        )


@dataclass
class DaskExamples(Examples):
    """Examples whose rows are on workers."""

    rows: RemoteRows
    name: str = field(default_factory=lambda: uuid4().hex)

    def reduce(self, p: Pass[Sums]) -> Sums:
        """The sums of a pass, added up on the workers."""
        self.read.passes += p.readings
        fleet = self.rows.fleet
        total: Sums = fleet.sum(Reduce(self.name), p, self._unknown)
        fleet.recipes.update((self.name, k) for k in range(fleet.count))
        return total

    def _unknown(self) -> dict[int, Recipe]:
        """The recipes that the workers do not have yet."""
        fleet = self.rows.fleet
        missing = [k for k in range(fleet.count) if (self.name, k) not in fleet.recipes]
        return {k: self._recipe(k) for k in missing}

    def _recipe(self, number: int) -> Recipe:
        rows = self.rows
        lo, hi = rows.cuts()[number : number + 2]
        here = rows.places(number), self.y[lo:hi], self.w[lo:hi], int(lo)
        return Recipe(rows.changes, *here, parts=rows.fleet.count)

    @property
    def sizes(self) -> NDArray[Any]:
        """(n,) ‖x_i‖, from the workers."""
        if "sizes" not in self.columns:
            self.columns["sizes"] = np.sqrt(self.rows.sqnorms())
        return self.columns["sizes"]


@dataclass(frozen=True)
class Call:
    """A method of a model, called on a block of rows by one thread: Dask uses the others."""

    model: Any
    method: str
    arguments: tuple[Any, ...] = ()

    def __call__(self, block: NDArray[Any]) -> Any:
        with sharing(1):
            return getattr(self.model, self.method)(block, *self.arguments)


def by_blocks(X: Any, function: Callable[[Any], Any], columns: int | None, dtype: Any) -> Any:
    """A Dask array of function(block) for every block of rows; computed when it is asked for."""
    check_array(X)
    X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    if columns is None:
        return X.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks: Sequence[Any] = (X.chunks[0], (columns,))
    return X.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))
