"""A linear probe on features that are too large for memory: shards with labels in them.

    python examples/shards.py FOLDER [LABEL]    shards: .parquet, .npz, .safetensors, ...
    python examples/shards.py                   small generated shards in a temporary folder

The shards are read a part at a time in every pass.  The first nine tenths of the rows are fitted,
the last tenth is scored.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from slender import LinearProbe, RowStore, open_rows
from slender.datasets import planted


def write_shards(folder: Path, count: int = 8) -> None:
    """What an embedding job leaves behind: one file of float16 rows and their labels per worker."""
    data = planted(4000, 64, 20, n_test=1, separation=0.6)
    parts = np.array_split(np.arange(len(data.y_train)), count)
    for k, index in enumerate(parts):
        rows = data.X_train[index].astype(np.float16)
        np.savez(folder / f"part-{k}.npz", X=rows, y=data.y_train[index])


def evaluate(store: RowStore) -> None:
    """Choose C by validation, fit, and score rows that were held back."""
    n = len(store)
    train, test = store.part(0, 9 * n // 10), store.part(9 * n // 10, n)  # nothing is read yet
    probe = LinearProbe(Cs=15, random_state=0).fit(train, train.labels)
    read = probe.trace_[-1].get("bytes_read", 0)
    print(f"{store!r}")
    print(f"C = {probe.C_:.3g}, proved within {probe.gap_ / probe.objective_:.1e} of the optimum")
    print(f"the last fit read {read / 2**20:.0f} MB in {probe.trace_[-1]['passes']:.0f} passes")
    print(f"top-1 = {100 * probe.score(test, test.labels):.2f} %")


def main(*words: str) -> None:
    if words:
        evaluate(open_rows(words[0], label=words[1] if len(words) > 1 else None))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_shards(Path(folder))
        evaluate(open_rows(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
