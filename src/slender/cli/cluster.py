"""--cluster and --workers: fits on a Dask cluster, of other machines or of this one."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5  # for a scheduler to answer
# Loggers with levels of their own, whose lines would come between those of the command.
TALKING = ("distributed", "distributed.client")


@contextmanager
def spread(
    X: Any, cluster: str | None, workers: int | None, device: str | None = None
) -> Iterator[Any]:
    """X, on the workers if there are any; a cluster of this machine ends when it is done."""
    if cluster is None and workers is None:
        yield X
        return
    if cluster is not None and workers is not None:
        raise ValueError("--cluster and --workers exclude each other; give one of them")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: give a number from 1 on")

    from ..data import scheduler
    from ..data.dask import on_workers
    from ..extras import need

    distributed = need("distributed", "--cluster" if workers is None else "--workers")
    for name in TALKING:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        address: Any = cluster
        if workers is not None:
            address = stack.enter_context(_processes(distributed, workers))
        try:
            if cluster is not None:  # a Client would try for longer
                place = urlsplit(cluster)
                create_connection((place.hostname or cluster, place.port or 8786), SECONDS).close()
            # this is also the time for a scheduler that is started again
            client = stack.enter_context(distributed.Client(address, timeout=scheduler.RETURN))
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(
                f"--cluster {cluster}: no Dask scheduler answers there; start one (dask scheduler) "
                "or give its address, such as tcp://host:8786"
            ) from error
        try:
            yield on_workers(X, client, device)
        except scheduler.SchedulerError as gone:
            raise scheduler.ClusterError(
                f"the scheduler at {gone.address} is gone: start it again, then give the same "
                "command once more (with --resume, if it had --checkpoint)"
            ) from gone


def _processes(distributed: Any, workers: int) -> Any:
    """A cluster of so many processes, which share the cores."""
    from ..rows.cores import num_threads

    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=max(1, num_threads() // workers),
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
