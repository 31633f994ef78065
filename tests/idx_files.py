"""IDX files for tests, written from the format's description."""

import gzip
import struct

import numpy as np

CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def idx(array):
    """An array as the bytes of an IDX file."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(">BBBB", 0, 0, code, array.ndim)
    header += b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_images(folder, n=60, n_test=12, suffix=".gz", dotted=False):
    """A data set of three classes in MNIST's form, 2 x 3 pixels; returns what is in it."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, rows in (("train", n), ("t10k", n_test)):
        labels = (np.arange(rows) % 3).astype(np.uint8)
        images = rng.integers(0, 128, (rows, 2, 3), dtype=np.uint8)
        images[np.arange(rows), 0, labels] += 127  # a bright pixel tells the class
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            stem = what.replace("-", ".") if dotted else what
            path = folder / f"{part}-{stem}-ubyte{suffix}"
            path.write_bytes(gzip.compress(idx(array)) if suffix else idx(array))
        made[part] = images, labels
    return made
