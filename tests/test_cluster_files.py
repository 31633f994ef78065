"""The command on a cluster: workers read files of every format, and errors name file and row."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import clusters
from slender.datasets import planted

DATA = planted(300, 8, 4, separation=1.5)
X, Y = DATA.X_train.astype(np.float32), DATA.y_train


@pytest.fixture(scope="module")
def address():
    with clusters.cluster(1) as client:
        yield client.scheduler.address


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", Y)


def arrow():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"emb": pa.array(X.tolist(), pa.list_(pa.float32())), "label": pa.array(Y)})


def parquet():
    made = arrow()
    import pyarrow.parquet as pq

    pq.write_table(made, "X.parquet", row_group_size=60)


def feather():
    made = arrow()
    from pyarrow.feather import write_feather

    write_feather(made, "X.feather", chunksize=60)


def pt():
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(X), "X.pt")


def h5():
    h5py = pytest.importorskip("h5py")
    with h5py.File("X.h5", "w") as file:
        file["X"], file["y"] = X, Y


def zarr():
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group("X.zarr", mode="w")
    for name, array in (("X", X), ("y", Y)):
        group.create_array(name, data=array)


def pq():
    pytest.importorskip("faiss")
    from slender import ProductQuantizer

    ProductQuantizer(d_sq=2, random_state=0).fit(X).encode(X).save("X.pq")


ONE_FILE = {  # how to write it, and the words that name it
    "npy": (lambda: np.save("X.npy", X), "X.npy y.npy"),
    "npz": (lambda: np.savez("X.npz", X=X, y=Y), "X.npz"),
    "compressed npz": (lambda: np.savez_compressed("X.npz", X=X, y=Y), "X.npz"),
    "sparse npz": (lambda: sparse.save_npz("X.npz", sparse.csr_array(X)), "X.npz y.npy"),
    "safetensors": (lambda: save_file({"X": X, "y": Y}, "X.safetensors"), "X.safetensors"),
    "pt": (pt, "X.pt y.npy"),
    "parquet": (parquet, "X.parquet"),
    "feather": (feather, "X.feather"),
    "hdf5": (h5, "X.h5"),
    "zarr": (zarr, "X.zarr"),
    "pq": (pq, "X.pq y.npy"),
    "svmlight": (lambda: dump_svmlight_file(X, Y, "X.svm"), "X.svm"),
}


@pytest.mark.parametrize("kind", ONE_FILE)
def test_one_file_of_every_format(kind, address, slender):
    write, words = ONE_FILE[kind]
    write()
    found = []
    for more in ((), ("--cluster", address)):
        fit = "fit", *words.split(), "--C", "0.1", "--out", "model", "--json", "-", *more
        code, out, err = slender(*fit)
        assert code == 0, err
        found.append(json.loads(out))
    here, there = found
    assert abs(here["objective"] - there["objective"]) <= here["gap"] + there["gap"]
    assert here["inputs"] == there["inputs"]


def test_nan_is_named_by_its_file(address, slender, tmp_path):
    (tmp_path / "shards").mkdir()
    for k, rows in enumerate(np.array_split(X, 10)):
        rows = rows.copy()
        if k == 7:
            rows[12, 3] = np.nan
        np.save(f"shards/{k}.npy", rows)
    for words in (("fit",), ("path", "--cs", "3")):
        places = "shards", "y.npy", "--out", "model", "--cluster", address
        code, _, err = slender(*words, *places)
        assert code == 2
        assert "X contains NaN at shards/7.npy, row 12, column 3" in err


def test_records_say_what_the_workers_have_read(address, slender):
    np.savez("X.npz", X=X, y=Y)
    fit = "fit", "X.npz", "--method", "gd", "--passes", "4", "--out", "m", "--json", "-"
    code, out, err = slender(*fit, "--cluster", address)
    assert code == 0, err
    trace = json.loads(out)["trace"]
    assert len(trace) > 1
    for record in trace:
        assert record["bytes_read"] >= record["passes"] * X.nbytes
        assert record["bytes_read"] % X.nbytes == 0


def test_vectors_made_here_are_no_files(slender):
    code, _, err = slender("fit", "photos", "--features", "fisher", "--workers", 1, "--out", "m")
    assert code == 2
    assert "write them with slender extract first" in err
