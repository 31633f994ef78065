"""The scheduler of a Dask client: is it there, and who works for it?

A question to it never waits for ever.  A scheduler may go away and come back at the same address,
started again by whoever watches over it; the client then connects to it by itself, and only what
was asked in between has failed.
"""

import asyncio
import time
from concurrent.futures import CancelledError, wait
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from typing import Any

from ..extras import need

TICK = 1.0  # seconds between two looks at who has answered
ANSWER = 20.0  # seconds in which a worker, or the scheduler, must say that it is there
RETURN = 30.0  # seconds for the scheduler, or for its workers, to come back


class ClusterError(RuntimeError):
    """A cluster has lost what a fit needs."""


class SchedulerError(ClusterError):
    """The scheduler went away and did not come back."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the scheduler at {address} is gone: start it again, make a new Client and repeat the "
            "fit"
        )
        self.address = address


class Scheduler:
    """What a client knows of its scheduler and of its workers."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.address = client.scheduler.address

    def faults(self, *more: type[BaseException]) -> tuple[type[BaseException], ...]:
        """The errors that mean that somebody is lost."""
        distributed = need("distributed", "A cluster")
        lost = distributed.scheduler.KilledWorker, distributed.comm.CommClosedError
        closed = distributed.client.ClosedClientError
        return CancelledError, WaitedTooLong, TimeoutError, closed, *lost, *more

    def own_error(self, future: Any) -> BaseException | None:
        """What a task itself raised; None if it has not failed, or was lost with its worker.

        A task may raise what is a fault elsewhere: a slow disk gives a TimeoutError, too.
        """
        error: BaseException | None = future.exception() if future.status == "error" else None
        lost = need("distributed", "A cluster").scheduler.KilledWorker
        return None if isinstance(error, (lost, CancelledError)) else error

    def finished(self, future: Any, seconds: float) -> bool:
        """Has it finished or failed, at the latest after so many seconds?

        Not asked by a timeout of Dask's: the frames of its error refer to each other, and so to the
        future, whose value a worker would keep until Python next looks for such cycles.
        """
        waiting = future._state.wait()
        try:
            ended = asyncio.run_coroutine_threadsafe(waiting, self.client.loop.asyncio_loop)
        except RuntimeError:  # the client was closed
            waiting.close()
            return False
        wait([ended], timeout=seconds)
        ended.cancel()
        return bool(future.done())

    def check(self) -> None:
        """Give a scheduler that is away some time to come back."""
        until = time.monotonic() + RETURN
        while self.client.status != "running":
            if self.client.status == "closed" or time.monotonic() > until:
                raise SchedulerError(self.address)
            time.sleep(TICK / 4)

    def says(self, what: str, **details: Any) -> Any:
        """Its answer to a question; {} if there is none."""
        self.check()
        try:
            question = getattr(self.client.scheduler, what)
            return self.client.sync(question, **details, callback_timeout=ANSWER)
        except self.faults(OSError, AttributeError):  # AttributeError: the client was closed
            return {}

    def workers(self, wanted: int = 1) -> dict[str, int]:
        """The running workers and their threads: so many, if they come in time, or at least one."""
        until = time.monotonic() + RETURN
        while True:
            known = self.says("identity", n_workers=-1).get("workers", {})
            running = {
                address: int(worker["nthreads"])
                for address, worker in sorted(known.items())
                if worker["status"] == "running"
            }
            late = time.monotonic() > until
            if len(running) >= wanted or (running and late):
                return running
            if late:
                raise ClusterError(
                    f"the cluster at {self.address} has no worker: start some "
                    f"(dask worker {self.address})"
                )
            time.sleep(TICK / 4)

    def drop_silent(self, workers: list[str]) -> list[str]:
        """Drop those of the workers that do not answer at all; which are lost?"""
        known = self.says("identity", n_workers=-1).get("workers", {})
        silent = []
        for worker in known.keys() & set(workers):  # to ask a dead one takes as long as a slow one
            ask = {"workers": [worker], "on_error": "return", "callback_timeout": ANSWER}
            try:
                self.client.sync(self.client._run, time.time, **ask)
            except self.faults(OSError):
                silent.append(worker)
        self.drop(silent)
        return [*silent, *(worker for worker in workers if worker not in known)]

    def drop(self, workers: list[str]) -> None:
        """Make the scheduler forget workers; one that wakes up later finds that out, and ends."""
        for worker in workers:
            with suppress(*self.faults(OSError)):  # then the next question fails, too
                self.client.sync(
                    self.client._run_on_scheduler, _remove, worker, callback_timeout=ANSWER
                )


async def _remove(address: str, dask_scheduler: Any = None) -> None:
    # without `close`: it would tell the nanny of a worker that died not to start another one
    stimulus = f"slender-{time.time()}"
    await dask_scheduler.remove_worker(address, stimulus_id=stimulus, close=False)
