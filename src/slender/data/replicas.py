"""Rows that every worker of a fleet has, for work by classes in which each class reads all of them.

    Z = ReplicatedRows(X B, fleet)       computed from rows on workers (dask.py)
    Z.each_class(work)                   classes are divided over the workers, by their costs

Z is sent to a worker once, when it is first asked, with the arrays of length n that do not change
during a fit (`Replica`).  A pass sends the order of the examples and, to each worker, the state of
its classes, and brings this state back.  State here changes when all have answered: until then work
of a lost worker can be repeated by another one, from the same state and so with the same result.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import received
from ..rows import DenseRows, Rows
from ..rows.classwork import ClassWork
from ..rows.threads import even_parts
from .fleet import Fleet, OnEveryWorker
from .sending import sent_whole
from .shards import Shard


class Replica:
    """Rows, and what work by classes reads besides them in every pass."""

    def __init__(self, Z: NDArray[Any], lasting: Sequence[NDArray[Any]]) -> None:
        self.rows = DenseRows(Z)
        self.lasting = tuple(lasting)
        self._there: dict[Any, Rows] = {}  # the rows on a device of this worker

    def __reduce__(self) -> Any:
        return _received, (self.rows.X, self.lasting)

    def __sizeof__(self) -> int:
        return self.rows.X.nbytes + sum(values.nbytes for values in self.lasting)

    def on(self, device: Any) -> Rows:
        """The rows on a `torch.device`, sent there once."""
        if device not in self._there:
            self._there[device] = sent_whole(self.rows.X, device)
        return self._there[device]


class ReplicatedRows(DenseRows):
    """Rows that are here and, once there is work by classes, on every worker."""

    def __init__(self, Z: NDArray[Any], fleet: Fleet) -> None:
        super().__init__(Z)
        self.fleet = fleet
        self._kept: OnEveryWorker | None = None

    def like(self, stored: NDArray[Any]) -> DenseRows:
        return DenseRows(stored)  # a part of them is only here

    def each_class(self, work: ClassWork) -> None:
        """Run the work on the workers."""
        ranges = even_parts(work.costs, self.fleet.count)
        parts = [work.of_classes(lo, hi) for lo, hi in ranges]
        known = *work.lasting, work.order
        own = {number: _packed(part, known) for number, part in enumerate(parts)}
        answers = self.fleet.each(run, work.order, own, self._keep(work.lasting))
        for part, answer in zip(parts, answers, strict=True):
            for mine, theirs in zip(part.state, answer, strict=True):
                mine[...] = theirs

    def _keep(self, lasting: tuple[NDArray[Any], ...]) -> OnEveryWorker:
        """What workers keep as long as these rows exist and the work reads the same arrays."""
        if self._kept is None or [*map(id, self._kept.value.lasting)] != [*map(id, lasting)]:
            self._kept = OnEveryWorker(Replica(self.X, lasting))
        return self._kept


def run(shard: Shard, common: tuple[Replica, NDArray[np.intp]], own: bytes) -> Any:
    """The work of some classes on the worker that holds a shard; the state that results.

    It is done where the worker computes: on its device, if its shards are there.
    """
    replica, order = common
    work = _unpacked(own, (*replica.lasting, received(order)))
    device = shard.rows.device
    rows = replica.rows if device is None or work.lacks_device else replica.on(device)
    rows.each_class(work)
    return work.state


def _received(Z: NDArray[Any], lasting: Sequence[NDArray[Any]]) -> Replica:
    return Replica(received(Z), [*map(received, lasting)])


# -- messages that leave out what their receiver has -----------------------------------------------


class _WorkPickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, known: Sequence[Any]) -> None:
        super().__init__(file, protocol=4)  # arrays by value: the receiver may change its copies
        self._places = {id(values): place for place, values in enumerate(known)}

    def persistent_id(self, values: Any) -> int | None:
        return self._places.get(id(values))


class _WorkUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: Sequence[Any]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, place: int) -> Any:
        return self._known[place]


def _packed(work: ClassWork, known: Sequence[Any]) -> bytes:
    file = io.BytesIO()
    _WorkPickler(file, known).dump(work)
    return file.getvalue()


def _unpacked(message: bytes, known: Sequence[Any]) -> ClassWork:
    work: ClassWork = _WorkUnpickler(io.BytesIO(message), known).load()
    return work
