"""The linear probe of clip_benchmark, with slender as its solver.

    python examples/clip_benchmark_probe.py FOLDER    X_train.npy y_train.npy X_test.npy y_test.npy
    python examples/clip_benchmark_probe.py           a small generated data set

The features are scaled to norm 1.  97 weight decays from 1e-6 to 1e2 are tried, the best one is
chosen on a tenth of the training rows, and a final fit uses all of them.  The script prints a
report for every class, and one JSON line with the fields that clip_benchmark writes as metrics.

clip_benchmark runs AdamW for a number of epochs, at a given learning rate, for every weight decay.
Here the optimisation problem itself is solved, for each weight decay from the previous solution:

    minimise  mean cross-entropy + wd/2 ‖W‖²,    as LogisticRegression does at  C = 1 / (n wd)

So there is no learning rate to report, and `epochs` is the number of passes of the final fit.
AdamW applies its decay to its own scaled steps, not to this objective: compare accuracies, not
weight decays.
"""

import json
import sys
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, classification_report
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from slender import LinearProbe, LogisticClassifier
from slender.datasets import planted
from slender.files import read_dataset

WEIGHT_DECAYS = np.logspace(-6, 2, 97)
SEED = 0


def unit_rows(X: Any) -> Any:
    return normalize(np.asarray(X, np.float32))


def search(X: Any, y: Any) -> float:
    """The weight decay that gives the best results on a tenth of the rows."""
    X_fit, X_val, y_fit, y_val = train_test_split(
        X, y, test_size=0.1, stratify=y, random_state=SEED
    )
    Cs = 1 / (len(y_fit) * WEIGHT_DECAYS[::-1])
    probe = LinearProbe(list(Cs), validation=(X_val, y_val), refit=False, random_state=SEED)
    probe.fit(X_fit, y_fit)
    return float(1 / (len(y_fit) * probe.C_))


def evaluate(train: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, Any]:
    """The metrics of clip_benchmark; also prints its report."""
    X, y = unit_rows(train[0]), train[1]
    X_test, y_test = unit_rows(test[0]), test[1]
    weight_decay = search(X, y)
    probe = LogisticClassifier(C=1 / (len(y) * weight_decay), random_state=SEED).fit(X, y)
    predicted = probe.predict(X_test)
    acc5 = None
    if len(probe.classes_) > 5:
        best = probe.predict_top_k(X_test, 5)
        acc5 = float((best == np.asarray(y_test)[:, None]).any(axis=1).mean())
    print(classification_report(y_test, predicted, digits=3, zero_division=0.0))
    return {
        "lp_acc1": float(np.mean(predicted == y_test)),
        "lp_acc5": acc5,
        "lp_mean_per_class_recall": float(balanced_accuracy_score(y_test, predicted)),
        "weight_decay": weight_decay,
        "epochs": int(probe.n_iter_),
        "seed": SEED,
        "fewshot_k": -1,
        "normalized": True,
    }


def main(folder: str | None = None) -> None:
    if folder is None:
        data = planted(1500, 64, 20, n_test=500, separation=0.6)
        train, test = (data.X_train, data.y_train), (data.X_test, data.y_test)
    else:
        train, test = read_dataset(folder), read_dataset(folder, part="test")
    print(json.dumps(evaluate(train, test)))


if __name__ == "__main__":
    main(*sys.argv[1:])
