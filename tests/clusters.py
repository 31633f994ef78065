"""Clusters of this machine for tests: processes without a dashboard, which always end."""

import os
import signal
from contextlib import contextmanager

import dask
import dask.array as da
from distributed import Client, LocalCluster

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
            n_workers=workers, threads_per_worker=threads, dashboard_address=None, **options
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
