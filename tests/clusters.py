"""Clusters of this machine for tests: processes without a dashboard, which always end."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from slender.data import Pass
from slender.solvers.sweep import Sweep

SETTINGS = {
    "distributed.worker.daemon": True,
    "distributed.admin.low-level-log-length": 0,
    "distributed.comm.timeouts.connect": "10s",
}


@contextmanager
def cluster(workers=3, threads=1, **options):
    """A client of so many workers."""
    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=workers, threads_per_worker=threads, dashboard_address=":0", **options
        ) as local,
        Client(local) as client,
    ):
        yield client


def pids(client):
    """The process of each worker, by its address."""
    return client.run(os.getpid)


def kill(client, number=0, how=signal.SIGKILL):
    """Send a signal to one of the workers; returns its address and its process."""
    address, process = sorted(pids(client).items())[number]
    os.kill(process, how)
    return address, process


def chunked(X, y, chunks):
    """X and y as Dask arrays of so many chunks."""
    rows = -(-len(X) // chunks)
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


@dataclass(frozen=True)
class Once(Pass):
    """Counts rows; the first worker that is asked does something else first, in its middle."""

    flag: Path
    act: Callable[[], object]

    def start(self, d, dtype):
        return np.zeros(1)

    def add(self, sums, part):
        with suppress(FileExistsError):
            with open(self.flag, "x") as file:
                file.write(str(os.getpid()))
            self.act()
        sums += len(part.w)


COUNT = Once(Path(__file__), print)


class Two(NamedTuple):
    scale: np.ndarray
    most: int


@dataclass(frozen=True)
class Misaligned(Pass):
    """Counts arrays that a kernel would be compiled for once more."""

    W: np.ndarray
    two: Two
    b: np.ndarray

    def start(self, d, dtype):
        return np.zeros(1)

    def add(self, sums, part):
        given = self.W, self.two.scale, self.b, part.y, part.w
        sums += sum(not values.flags.aligned for values in given)


@dataclass(frozen=True)
class SweepOnce(Sweep):
    """A sweep; the first worker to finish its part does something else before it answers."""

    flag: Path | None = None
    act: Callable[[], object] = print

    def run(self, rows):
        super().run(rows)
        with suppress(FileExistsError):
            with open(self.flag, "x") as file:
                file.write(str(os.getpid()))
            self.act()


def end(process):
    """End a process that was stopped, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(600)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)
