"""The linear probe of CLIP's README, with slender as its solver.

    python examples/clip_probe.py FOLDER    X_train.npy y_train.npy X_test.npy y_test.npy
    python examples/clip_probe.py           a small generated data set

CLIP's README fits `sklearn.linear_model.LogisticRegression(C=0.316, max_iter=1000)` on the image
features.  LogisticClassifier minimises the same objective at the same C, so the printed accuracy
is the same, except for rows that lie on a class boundary.  That value of C was chosen on other
data; dino_sweep.py shows how to choose C for yours.
"""

import sys

import numpy as np

from slender import LogisticClassifier
from slender.datasets import planted
from slender.files import read_dataset


def main(folder: str | None = None) -> None:
    if folder is None:
        data = planted(1500, 64, 20, n_test=500, separation=0.6)
        train, test = (data.X_train, data.y_train), (data.X_test, data.y_test)
    else:
        train, test = read_dataset(folder), read_dataset(folder, part="test")

    classifier = LogisticClassifier(C=0.316)
    classifier.fit(*train)

    predictions = classifier.predict(test[0])
    accuracy = 100 * np.mean(predictions == test[1])
    print(f"Accuracy = {accuracy:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
