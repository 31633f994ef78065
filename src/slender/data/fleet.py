"""A fleet: the workers of a Dask client, which of them holds which shard, and what they are asked.

    results = fleet.each(work, common, own)       one result per shard
    total = fleet.sum(work, common, own)          the sum of them all
    results = fleet.each(work, common, own, kept) with a value that workers keep for later work

One task per worker does the work on all its shards, one after the other, with as many threads as
the worker has.  What all shards need, such as W, is sent to each worker once; sums are added on the
workers, by a tree, and only the total comes back.  Rows never travel.

Faults.  A shard is a future of Dask, so its memory is freed when this process forgets it, or ends.
If a worker dies, Dask runs its tasks elsewhere, and whatever they lack is read again there.  What
Dask cannot know is handled here: which recipes a worker has, where a lost shard should go, and
workers that hang.  A scheduler that is started again at its address knows nothing of what was
before, and its workers are new: once they are there, all shards are read again.  After any of these
the same pass is asked for again; shards and tree stay the same, so its sums do, too.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..rows.ahead import METER
from ..rows.cores import sharing
from .allocator import keep_blocks
from .scheduler import TICK, ClusterError, Scheduler
from .shards import Node, Shard, Work, joined, worked

A_WORKER = 2  # shards for each worker: if one dies, its share can be divided
FAN = 4  # sums that a worker adds at a time; few, so that none receives many
FEW = 4  # workers that get W from each other; more get it by a tree
PATIENCE = 60.0  # seconds to wait for a worker at least,
SLOWER = 10.0  # and how much longer than the others, or than before, it may take
READING = 10.0  # times as long, if it reads its rows
REREAD = 3  # times that reading a lost shard may fail
ATTEMPTS = 10  # at one pass

READ: Node = (-1, 0)  # in an answer, beside its results: bytes that were read from files
PROCESS = uuid4().hex  # a worker that is a thread of this process has read them here

_one_at_a_time = threading.Lock()  # work uses all threads of its worker


class _Again(Exception):  # noqa: N818
    """A worker was lost, or lacked something: ask again."""


class OnEveryWorker:
    """A value that workers keep until this process forgets it; each of them is sent it once."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.at: dict[str, Any] = {}  # a future for each worker that has it


def _same(value: Any) -> Any:
    return value


def _task(
    shards: Sequence[Shard],
    numbers: Sequence[int],
    work: Work,
    common: Any,
    own: dict[int, Any],
    count: int,
    process: str,
) -> dict[Node, Any] | None:
    """What a worker is asked for; with `count` shards in all, sums are added as far as possible.

    `process` asks; the bytes that it reads itself it counts itself.
    """
    keep_blocks()
    threads = need("distributed", "A cluster").get_worker().state.nthreads
    with _one_at_a_time, sharing(threads):
        before = METER.total
        results = worked(shards, numbers, work, common, own)
        read = METER.total - before if process != PROCESS else 0
    if results is None:
        return None
    return {**(joined(results, count) if count else results), READ: read}


def _join(parts: Sequence[dict[Node, Any] | None], count: int) -> dict[Node, Any] | None:
    together: dict[Node, Any] = {READ: 0}
    for part in parts:
        if part is None:
            return None
        together |= {**part, READ: together[READ] + part[READ]}
    return joined(together, count, keep=True)  # Dask may need the parts again


class Fleet:
    """`sources[k]` reads shard k, rows edges[k]..edges[k + 1]: a Dask object, given its name."""

    def __init__(
        self, client: Any, sources: Sequence[Callable[[str], Any]], edges: NDArray[np.intp]
    ) -> None:
        self.client, self.sources, self.edges = client, sources, edges
        self.scheduler = Scheduler(client)
        self.id = f"slender-{uuid4().hex[:12]}"
        self.versions = Counter[int]()  # how often each shard was read,
        self.failed = Counter[int]()  # and how often in vain
        self.recipes: set[tuple[str, int]] = set()  # examples that a shard is known to have made
        self.longest = defaultdict[str, float](float)  # seconds of the slowest pass of each kind
        live = self.scheduler.workers()
        share = np.cumsum([0, *live.values()]) / sum(live.values())
        middles = (edges[:-1] + edges[1:]) / (2 * max(1, edges[-1]))
        homes = np.searchsorted(share[1:-1], middles, side="right")
        self.homes = [list(live)[home] for home in homes]
        self.shards = [self._read(k) for k in range(self.count)]

    @property
    def count(self) -> int:
        return len(self.sources)

    # -- what it is asked for --------------------------------------------------------------------

    def each(
        self, work: Work, common: Any, own: dict[int, Any], kept: OnEveryWorker | None = None
    ) -> list[Any]:
        """The result of every shard, in order; with `kept`, work is given (its value, common)."""
        results = self._ask(work, common, lambda: own, add=False, kept=kept)
        return [results[0, number] for number in sorted(own)]

    def sum(self, work: Work, common: Any, own: Callable[[], dict[int, Any]]) -> Any:
        """The sum of the results of all shards; `own` says what each is given, if asked again."""
        (total,) = self._ask(work, common, own, add=True).values()
        return total

    def _ask(
        self,
        work: Work,
        common: Any,
        own: Callable[[], dict[int, Any]],
        add: bool,
        kept: OnEveryWorker | None = None,
    ) -> dict[Node, Any]:
        for _ in range(ATTEMPTS):
            try:
                self._settle()
                return self._attempt(work, common, own(), add, kept)
            except _Again as again:
                last = str(again)
            except self.scheduler.faults() as fault:  # while tasks were on their way
                self.scheduler.check()
                last = f"{type(fault).__name__}: {fault}"
        raise ClusterError(f"the cluster lost {ATTEMPTS} workers in one pass, the last: {last}")

    def _attempt(
        self, work: Work, common: Any, own: dict[int, Any], add: bool, kept: OnEveryWorker | None
    ) -> dict[Node, Any]:
        started, kind = time.perf_counter(), type(common).__name__
        asked = range(self.count) if add else sorted(own)
        homes = list(dict.fromkeys(self.homes[k] for k in asked))
        messages = dict.fromkeys(homes, self._send(common, homes))
        if kept is not None:
            self._keep(kept, homes)
            messages = {home: [kept.at[home], message] for home, message in messages.items()}
        answers: dict[str, Any] = {}
        for home in homes:
            mine = [k for k in asked if self.homes[k] == home]
            given: Any = {k: own[k] for k in mine if own.get(k) is not None}
            given = self._send(given, [home]) if given else given
            shards = [self.shards[k] for k in mine]
            task = shards, mine, work, messages[home], given, self.count if add else 0, PROCESS
            answers[home] = self._submit(home, _task, *task)
        parts = list(answers.values())
        while add and len(parts) > 1:
            parts = [
                self._submit(homes[k], _join, parts[k : k + FAN], self.count)
                for k in range(0, len(parts), FAN)
            ]
            homes = homes[::FAN]
        results: dict[Node, Any] = {}
        read = 0
        for part in parts:
            result = self._wait(part, answers, started, self.longest[kind])
            if result is None:
                self.recipes.clear()
                raise _Again("a shard was moved")
            results.update(result)
            read += results.pop(READ)
        METER.add(read)
        self.longest[kind] = max(self.longest[kind], time.perf_counter() - started)
        return results

    def _submit(self, home: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """At this worker or, if it is lost, at another one."""
        where = {"workers": [home], "allow_other_workers": True}
        name = f"{function.__name__}-{self.id}-{uuid4().hex}"
        return self.client.submit(function, *arguments, key=name, **where)

    def _send(self, common: Any, homes: list[str]) -> Any:
        """What all shards need, to each worker once."""
        many = len(homes) > FEW
        where = {"workers": homes if many else homes[:1], "broadcast": many, "hash": False}
        try:
            (message,) = self.client.sync(
                self.client._scatter, [common], **where, callback_timeout=self._patience()
            )
        except self.scheduler.faults(
            OSError, KeyError
        ) as fault:  # KeyError: there is no such worker
            self.scheduler.drop_silent(homes)
            raise _Again(f"{type(fault).__name__} while sending") from fault
        return message

    def _keep(self, kept: OnEveryWorker, homes: list[str]) -> None:
        """Send a value to those of these workers that do not have it.

        Each has it under a name of its own: Dask removes second copies of what has one name.
        """
        keys = [future.key for future in kept.at.values()]
        held = self.scheduler.says("who_has", keys=keys) if keys else {}
        kept.at = {home: it for home, it in kept.at.items() if home in held.get(it.key, ())}
        lacking = [home for home in homes if home not in kept.at]
        if lacking:
            message = self._send(kept.value, lacking)
            kept.at |= {home: self._submit(home, _same, message) for home in lacking}

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self, future: Any, answers: dict[str, Any], started: float, usual: float) -> Any:
        """The result; an error of a worker's task is raised, a fault means to ask again.

        `usual` are the seconds that it took before.
        """
        answered: set[str] = set()
        while not self.scheduler.finished(future, TICK):
            self.scheduler.check()
            now = time.perf_counter() - started
            pending = [home for home, answer in answers.items() if answer.status == "pending"]
            if len(answers) - len(pending) > len(answered):
                answered = answers.keys() - set(pending)
                usual = max(usual, now)  # of those who have answered
            self._check_hung(now, usual, pending, list(answers))
        try:
            return future.result(timeout=self._patience())
        except self.scheduler.faults() as fault:
            own = self.scheduler.own_error(future)
            if own is not None:  # to ask again would not help
                raise ClusterError(f"a worker failed: {type(own).__name__}: {own}") from own
            self.scheduler.check()
            raise _Again(f"{type(fault).__name__}: {fault}") from fault

    def _patience(self) -> float:
        """Seconds that a value may be on its way."""
        return max(PATIENCE, SLOWER * max(self.longest.values(), default=0.0))

    def _check_hung(self, now: float, usual: float, pending: list[str], homes: list[str]) -> None:
        """Drop workers that take much longer than the others, or than before, or say nothing."""
        if now < PATIENCE:
            return
        too_long = usual > 0.0 and now > SLOWER * usual
        late = pending if too_long else []
        self.scheduler.drop(late)
        lost = late or self.scheduler.drop_silent(homes)
        if lost or too_long:  # if nobody is late, a message was lost
            raise _Again(f"no answer after {now:.0f} s from {', '.join(lost) or 'the cluster'}")

    # -- who holds what --------------------------------------------------------------------------

    def _read(self, number: int) -> Any:
        """The shard, read by the worker that it belongs to."""
        self.versions[number] += 1
        name = f"{self.id}-{number}-{self.versions[number]}"
        where = {"workers": [self.homes[number]], "allow_other_workers": True}
        return self.client.compute(self.sources[number](name), retries=1, **where)

    def _settle(self) -> None:
        """Every shard gets a home among the live workers; wait for those that are read."""
        live = self.scheduler.workers()
        if live.keys().isdisjoint(self.homes):  # all are new: nobody should read everything
            live = self.scheduler.workers(len(set(self.homes)))
        for number in [k for k, home in enumerate(self.homes) if home not in live]:
            self._move(number, self._idlest(live))
        load = self._load(live)
        while max(load.values()) - min(load.values()) >= A_WORKER:  # a worker came late
            busiest = max(load, key=load.__getitem__)
            number = max(k for k, home in enumerate(self.homes) if home == busiest)
            self._move(number, self._idlest(live))
            load = self._load(live)
        self._wait_for_shards()

    def _load(self, live: dict[str, int]) -> dict[str, float]:
        """Shards of each worker for one thread of it."""
        held = Counter(self.homes)
        least = min(live.values())
        return {home: held[home] * least / threads for home, threads in live.items()}

    def _idlest(self, live: dict[str, int]) -> str:
        load = self._load(live)
        return min(load, key=load.__getitem__)

    def _move(self, number: int, home: str) -> None:
        self.homes[number] = home
        self.recipes = {(name, k) for name, k in self.recipes if k != number}
        self.shards[number].release()
        self.shards[number] = self._read(number)

    def _wait_for_shards(self) -> None:
        started, answered, usual = time.perf_counter(), set[str](), 0.0
        while pending := [k for k, shard in enumerate(self.shards) if shard.status == "pending"]:
            self.scheduler.finished(self.shards[pending[0]], TICK)
            self.scheduler.check()
            now = time.perf_counter() - started
            late = sorted({self.homes[k] for k in pending})
            if len(set(self.homes) - set(late)) > len(answered):
                answered = set(self.homes) - set(late)
                usual = now  # of those who have read theirs
            self._check_hung(now, READING * usual, late, late)
        lost = [(k, shard) for k, shard in enumerate(self.shards) if shard.status != "finished"]
        for number, shard in lost:
            self._revive(number, shard)
        if lost:
            raise _Again(f"{len(lost)} shards were lost")
        self.failed.clear()

    def _revive(self, number: int, shard: Any) -> None:
        """Read a shard again that is lost; if that cannot help, an error says which rows."""
        lo, hi = self.edges[number], self.edges[number + 1] - 1
        reason = self.scheduler.own_error(shard)
        if reason is not None:
            raise ValueError(
                f"rows {lo} to {hi} of X could not be read on {self.homes[number]}: "
                f"{type(reason).__name__}: {reason}"
            ) from reason
        self.failed[number] += 1
        if self.failed[number] > REREAD:
            raise ClusterError(
                f"rows {lo} to {hi} of X are lost with the worker that held them, and nothing says "
                "where to read them again: make X from files, or keep it in this process"
            )
        self._move(number, self._idlest(self.scheduler.workers()))
