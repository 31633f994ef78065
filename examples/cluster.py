"""A linear probe on several machines, through Dask.

    python examples/cluster.py                              workers on this machine
    python examples/cluster.py tcp://scheduler:8786         a cluster that is already there

Every worker reads its own rows (here: makes them) and keeps them.  A pass sends the weights to each
worker once and brings back one sum.  If a worker is lost during the fit, others read its rows
again, and the fit ends with the same proof.
"""

import sys

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from slender import LinearProbe

N, D, C, CHUNK = 4000, 32, 10, 500


def features(labels, centres):
    """The rows of a chunk: in real work, an array read from a file."""
    rng = np.random.default_rng(int(labels.sum()))
    return (centres[labels] + rng.standard_normal((len(labels), D))).astype(np.float32)


def main(address=None):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((C, D))
    y = da.from_array(rng.integers(C, size=N), chunks=CHUNK)
    X = y.map_blocks(features, centres, dtype=np.float32, new_axis=1, chunks=(y.chunks[0], (D,)))
    cluster = address or LocalCluster(2, threads_per_worker=1, dashboard_address=":0")
    with Client(cluster) as client:
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        print(f"{workers} workers, {X.numblocks[0]} chunks")
        probe = LinearProbe(9, random_state=0).fit(X[: N - 2 * CHUNK], y[: N - 2 * CHUNK])
        accuracy = probe.score(X[N - 2 * CHUNK :], y[N - 2 * CHUNK :])
    if address is None:
        cluster.close()
    print(f"C {probe.C_:.3g}, gap {probe.gap_ / probe.objective_:.1e} of the objective")
    print(f"top-1 {accuracy:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
