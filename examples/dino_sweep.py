"""The logistic-regression evaluation of DINOv2 and DINOv3, with slender as its solver.

    python examples/dino_sweep.py FOLDER ...    X_train.npy y_train.npy X_test.npy y_test.npy
    python examples/dino_sweep.py               a small generated data set

45 values of C from 1e-6 to 1e5 are tried, the best one is chosen on a tenth of the training rows,
and a final fit uses all of them.  The script prints one JSON line per folder, with the test
accuracies in percent:

    {"top-1": 65.85, "top-5": 88.9, "best_C": 0.0178}

The original evaluation fits every C from zero, in float64, to a tolerance of 1e-12.  Here each fit
starts from the solution of the previous C and stops at a certified gap, and the features keep
their precision.  The test rows are used once, after C is chosen.
"""

import json
import sys
from typing import Any

import numpy as np

from slender import LinearProbe
from slender.datasets import planted
from slender.files import read_dataset


def evaluate(train: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, float]:
    """Choose C and fit on the training rows; score the test rows."""
    probe = LinearProbe(Cs=45, validation=0.1, refit=True, random_state=0)
    probe.fit(*train)
    k = min(5, len(probe.classes_))
    right = probe.predict_top_k(test[0], k) == np.asarray(test[1])[:, None]  # (n, k)
    return {
        "top-1": 100 * float(right[:, 0].mean()),
        "top-5": 100 * float(right.any(axis=1).mean()),
        "best_C": float(probe.C_),
    }


def main(*folders: str) -> None:
    if not folders:
        data = planted(1500, 64, 20, n_test=500, separation=0.6)
        results = evaluate((data.X_train, data.y_train), (data.X_test, data.y_test))
        print(json.dumps(results))
    for folder in folders:
        results = evaluate(read_dataset(folder), read_dataset(folder, part="test"))
        print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
