"""Shards: consecutive rows that one worker of a cluster holds, and work on them.

A worker reads the rows of a shard once.  Everything else is made from them there, by a `Recipe` of
this process: the rows scaled or widened, some of them, their classes and their weights.  So a shard
that is lost with its worker can be read and made again by another one.

Sums of all shards are added by a fixed tree over their numbers: at each level every even node is
joined by the odd one after it.  So the same shards give the same sums to the last bit, whichever
worker holds which of them, and in whatever order they answer.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import received, to_numpy
from ..rows import Rows, as_rows, some_of
from .examples import Examples, Pass, examples_of
from .sending import sent

Change = tuple[str, tuple[Any, ...]]  # a method of rows, and its arguments
Node = tuple[int, int]  # level of the tree, number in it
Index = NDArray[np.intp] | None  # some of the rows; None: all
RowFunction = Callable[[Rows], NDArray[Any]]  # has an entry for each row
FORGOTTEN = "the worker has not made these examples: it needs their recipe"


class Shard:
    """Rows, and the examples that were made of them, by their names."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.made: dict[str, Examples] = {}

    def __sizeof__(self) -> int:
        return self.rows.shape[0] * self.rows.row_bytes

    def changed(self, changes: Sequence[Change], index: Index = None) -> Rows:
        """Some of the rows, or all, scaled, normalised or widened."""
        rows = self.rows
        for method, arguments in changes:
            rows = getattr(rows, method)(*arguments)
        return rows if index is None else some_of(rows, index)


class Recipe(NamedTuple):
    """How to make examples from the rows of a shard."""

    changes: tuple[Change, ...]
    places: Index  # of these rows in the shard
    y: NDArray[Any]
    w: NDArray[np.float64]
    first: int  # the number of the first of them
    parts: int  # the number of shards

    def examples(self, shard: Shard) -> Examples:
        y, w = received(self.y), received(self.w)
        examples = examples_of(shard.changed(self.changes, self.places), y, w)
        examples.first, examples.parts = self.first, self.parts
        return examples


class Work(Protocol):
    """What a worker does with each of its shards."""

    def __call__(self, shard: Shard, common: Any, own: Any) -> Any:
        """The result, from what all shards share and what only this one is given."""


@dataclass(frozen=True)
class Reduce:
    """The sums of a pass over the examples of this name; a shard is given their recipe once."""

    name: str

    def __call__(self, shard: Shard, common: Pass[Any], own: Recipe | None) -> Any:
        if own is not None:
            shard.made[self.name] = own.examples(shard)
        if self.name not in shard.made:
            return FORGOTTEN
        return shard.made[self.name].reduce(common)


def gather(shard: Shard, common: tuple[Change, ...], own: NDArray[np.intp]) -> NDArray[Any]:
    """Some rows, dense."""
    return to_numpy(shard.changed(common).dense(own))


def product(shard: Shard, common: tuple[tuple[Change, ...], NDArray[Any]], own: Index) -> Any:
    """X B."""
    changes, B = common
    return to_numpy(shard.changed(changes, own).matmat(B))


def square_norms(shard: Shard, common: tuple[Change, ...], own: Index) -> NDArray[Any]:
    return to_numpy(shard.changed(common, own).sqnorms())


def first_bad(shard: Shard, common: tuple[Change, ...], own: Index) -> Any:
    return shard.changed(common, own).first_bad()


def called(shard: Shard, common: tuple[tuple[Change, ...], RowFunction], own: Index) -> Any:
    """A function of rows."""
    changes, function = common
    return to_numpy(function(shard.changed(changes, own)))


def shard_of(parts: Sequence[Any], device: Any = None) -> Shard:
    """The shard of some consecutive arrays, which are joined once; of files, which are opened.

    Its rows are computed on here, or sent to a `torch.device`.  There they are not multiplied in
    half precision: who asks for a pass proves something of its result, and must know how the
    workers compute, which may have different devices.
    """
    X = parts[0] if len(parts) == 1 else np.concatenate(parts)
    rows = as_rows(X)
    if device is None:
        return Shard(rows)
    there: Any = sent(rows, str(getattr(X, "dtype", rows.dtype)), device)
    return Shard(there.unrounded())


def worked(
    shards: Sequence[Shard], numbers: Sequence[int], work: Work, common: Any, own: dict[int, Any]
) -> dict[Node, Any] | None:
    """The results of all shards of a worker, as leaves of the tree; None if it needs a recipe."""
    results = {}
    for shard, number in zip(shards, numbers, strict=True):
        result = results[0, number] = work(shard, common, own.get(number))
        if result is FORGOTTEN:
            return None
    return results


def joined(parts: dict[Node, Any], count: int, keep: bool = False) -> dict[Node, Any]:
    """Add what can be added of the tree over `count` shards; `keep`: do not change the given sums.

    >>> joined({(0, 0): 1, (0, 1): 2, (0, 3): 4}, 5)
    {(0, 3): 4, (1, 0): 3}
    >>> joined({(0, 3): 4, (1, 0): 3, (0, 2): 3, (0, 4): 5}, 5)
    {(3, 0): 15}
    """
    parts, level, width = dict(parts), 0, count
    while width > 1:
        for i in range(0, width, 2):
            left, right, above = (level, i), (level, i + 1), (level + 1, i // 2)
            if left in parts and i + 1 == width:  # it has no neighbour
                parts[above] = parts.pop(left)
            elif left in parts and right in parts:
                total = deepcopy(parts.pop(left)) if keep else parts.pop(left)
                total += parts.pop(right)
                parts[above] = total
        level, width = level + 1, -(-width // 2)
    return parts
