"""What is wrong with files of rows is said in one line, which names the file."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from slender import CompressedMatrix, LogisticClassifier, SGDClassifier, UnitRows, open_rows
from slender.storage import FileError

X = np.arange(24, dtype=np.float32).reshape(8, 3)
Y = np.arange(8) % 2


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("features").mkdir()
    return tmp_path


def shards(*arrays):
    for k, array in enumerate(arrays):
        np.save(f"features/{k:02}.npy", array)


def parquet(**columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), "t.parquet")
    return "t.parquet"


def read_all(*where, **named):
    store = open_rows(*where, **named)
    store.as_rows()
    store[:]
    assert store.labels is not None


def refuses(message, *where, **named):
    with pytest.raises(ValueError, match=message) as caught:
        read_all(*where, **named)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(here):
    refuses(r"none\.npy: no such file", "none.npy")
    refuses(r"features/\*\.npy: no file matches", "features/*.npy")
    refuses("features: this folder holds nothing", "features")
    refuses("no file in this list", [])
    np.save("features/0.npy", X)
    refuses(r"features/1\.npy: no such file", ["features/0.npy", "features/1.npy"])


def test_files_that_do_not_go_together(here):
    shards(X, X[:, :2])
    refuses(r"features/01\.npy has 2 features but features/00\.npy has 3", "features")
    shards(X, X.astype(np.float64))
    refuses(r"features/01\.npy has dtype float64 but features/00\.npy has float32", "features")
    shards(X, X)
    np.save("y.npy", Y)
    refuses(
        r"X has 16 rows but y has 8 labels \(features/00\.npy, y\.npy\)", "features", labels="y.npy"
    )
    refuses("X has 16 rows but there are 8 labels", "features", labels=Y)
    np.savez("features/02.npz", X=X)
    refuses(r"different formats, 00\.npy and 02\.npz", "features")
    refuses(r"different formats, 00\.npy and 02\.npz", "features/*")
    Path("features/02.npz").unlink()
    Path("features/README.md").touch()
    refuses(r"README\.md is of no known format", "features")
    Path("features/README.md").unlink()
    Path("features/more").mkdir()
    refuses("more is a folder", "features")


def test_a_folder_that_is_two_things(here):
    shards(X)
    Path("features/zarr.json").write_text("{}")
    refuses(r"is a Zarr store, and holds 00\.npy too", "features")
    Path("features/zarr.json").unlink()
    Path("features/state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    Path("features/dataset_info.json").write_text("{}")
    refuses(r"features/a\.arrow: no such file, but features/state\.json lists it", "features")
    Path("features/a.arrow").touch()
    refuses(r"is a Hugging Face data set, and holds 00\.npy too", "features")


def test_splits(here):
    Path("features/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    refuses("has the splits train, test; say which with split=NAME", "features")
    refuses("has no split dev, but train, test", "features", split="dev")
    Path("features/train").mkdir()
    refuses(r"train/state\.json: cannot be read as JSON", "features", split="train")
    state = {"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}
    Path("features/train/state.json").write_text(json.dumps(state))
    refuses("flatten_indices", "features", split="train")
    np.save("X.npy", X)
    refuses(r"X\.npy: has no splits", "X.npy", split="train")


def test_columns(here):
    pa = pytest.importorskip("pyarrow")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    names = pa.array([f"#{i}" for i in range(8)])
    y = pa.array(Y)
    refuses("no column named oops \\(it has X, label\\)", parquet(X=fixed, label=y), label="oops")
    refuses("no column named oops", parquet(X=fixed, label=y), key="oops")
    refuses("column name is string, not a number", parquet(name=names, f0=y, label=y))
    refuses("column name is string", parquet(name=names, f0=y, label=y), key="name")
    refuses("has 2 columns of lists \\(A, B\\)", parquet(A=fixed, B=fixed, label=y))
    refuses("columns y and label could all be labels", parquet(X=fixed, y=y, label=y))
    refuses("no column but the labels", parquet(label=y))
    ragged = pa.array([*X.tolist()[:5], [1.0], *X.tolist()[6:]], pa.list_(pa.float32()))
    refuses(
        "column X: lists of different lengths, 3 at first and 1 at row 5", parquet(X=ragged, y=y)
    )
    hole = pa.array([*X.tolist()[:6], None, X.tolist()[7]], pa.list_(pa.float32()))
    refuses("column X: null at row 6", parquet(X=hole, y=y))
    inner = X.tolist()
    inner[4][1] = None
    refuses("column X: null at row 4", parquet(X=pa.array(inner, pa.list_(pa.float32())), y=y))
    number = pa.array([1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0])
    refuses("column f1: null at row 2", parquet(f0=y, f1=number, label=y))
    gone = pa.array([0, 1, 0, None, 0, 1, 0, 1])
    refuses(r"column label: no label \(null\) at row 3", parquet(X=fixed, label=gone))


def test_ragged_between_batches(here):
    pa = pytest.importorskip("pyarrow")
    lists = pa.array([[1.0, 2.0]] * 4 + [[1.0]] * 4)
    made = pa.table({"X": lists, "y": pa.array(Y)})
    with pa.ipc.new_file("t.arrow", made.schema) as file:
        file.write_table(made, max_chunksize=4)
    refuses("lists of different lengths, 2 at first and 1 at row 4", "t.arrow")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".h5", ".npz", ".safetensors", ".pq"])
def test_damaged_files(here, suffix):
    for module in ("pyarrow", "h5py"):
        pytest.importorskip(module)
    name = f"features/0{suffix}"
    for content in (b"", b"noise" * 300):
        Path(name).write_bytes(content)
        refuses(f"features/0{re.escape(suffix)}: ", name)
    Path(name).chmod(0)
    Path(name).unlink()


def test_a_damaged_chunk_is_found_when_it_is_read(here):
    pa = pytest.importorskip("pyarrow")
    name = parquet(X=pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3), y=pa.array(Y))
    content = bytearray(Path(name).read_bytes())
    content[8:60] = b"\xff" * 52
    Path(name).write_bytes(content)
    refuses(r"t\.parquet: cannot be read as a Parquet file, or is damaged", name)


def test_an_encrypted_file(here):
    pytest.importorskip("pyarrow")
    Path("e.parquet").write_bytes(b"PARE" + b"\x00" * 60 + b"\x10\x00\x00\x00PARE")
    refuses(r"e\.parquet: cannot be read as a Parquet file", "e.parquet")


def test_names_in_files(here):
    h5py = pytest.importorskip("h5py")
    with h5py.File("a.h5", "w") as file:
        file["A"], file["B"], file["y"] = X, X, Y[:5]
    refuses(r"a\.h5: no array named X, and 2 with 2 dimensions \(it holds A, B, y\)", "a.h5")
    refuses(r"a\.h5: no array named C", "a.h5", key="C")
    refuses(r"a\.h5: X has 8 rows but y has 5 labels", "a.h5", key="A")
    refuses(r"a\.h5: no array named z", "a.h5", key="A", label="z")
    refuses(r"a\.h5:y: X has 1 dimension", "a.h5", key="y")
    np.savez("a.npz", X=X)
    assert open_rows("a.npz").labels is None
    np.savez("b.npz", X=X, y=Y)
    refuses(r"a\.npz: no array named y", ["b.npz", "a.npz"])


def test_labels_of_two_kinds(here):
    save_file({"X": X, "y": Y}, "a.safetensors")
    np.save("y0.npy", Y)
    np.save("y1.npy", Y.astype(str))
    both = ["y0.npy", "y1.npy"]
    refuses(
        r"y0\.npy has labels of dtype int64 but y1\.npy has <U", ["a.safetensors"] * 2, labels=both
    )


def test_codes(here):
    codebooks = np.zeros((1, 256, 3), np.float32)
    codes = np.zeros((8, 1), np.uint8)
    for k in range(2):
        CompressedMatrix(codes, codebooks + k).save(f"features/{k}.pq")
    refuses(
        r"1\.pq and features/0\.pq have different codebooks; .*--like features/0\.pq", "features"
    )
    refuses("what it holds has no name; remove key=X", "features/0.pq", key="X")
    Path("t.pq").write_bytes(b"PAR1" * 10)
    refuses(r"t\.pq: is a Parquet file; rename it t\.parquet", "t.pq")


@pytest.mark.parametrize(
    ("name", "package"),
    [("a.parquet", "pyarrow"), ("a.arrow", "pyarrow"), ("a.h5", "h5py"), ("a.pt", "torch")],
)
def test_a_missing_package(here, monkeypatch, name, package):
    Path(name).touch()
    monkeypatch.setattr("slender.extras.find_spec", lambda module: None)
    refuses(f"{re.escape(name)}: reading .* files needs the package {package}: pip install", name)


def test_a_missing_package_of_a_folder(here, monkeypatch):
    Path("a.zarr").mkdir()
    Path("a.zarr/zarr.json").touch()
    monkeypatch.setattr("slender.extras.find_spec", lambda module: None)
    refuses(r"a\.zarr: reading Zarr stores needs the package zarr: .* slender\[storage\]", "a.zarr")


def test_nan_is_named_by_its_file_and_its_row_there(here):
    bad = X.copy()
    bad[5, 2] = np.nan
    shards(X, X, bad)
    store, y = open_rows("features"), np.tile(Y, 3)
    place = r"NaN at features/02\.npy, row 5, column 2"
    for model in (LogisticClassifier(), SGDClassifier()):
        with pytest.raises(ValueError, match=place):
            model.fit(store, y)
    with pytest.raises(ValueError, match=place):
        UnitRows().fit(store)
    fitted = LogisticClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=place):
        fitted.predict(store)
    with pytest.raises(ValueError, match=place):  # a part knows where its rows are in the file
        fitted.predict(store.part(18, 24))


def test_sparse_rows_come_in_one_file(here):
    Path("a.svm").write_text("1 1:2 3:4\n0 2:1\n")
    store = open_rows("a.svm")
    assert store.labels.tolist() == [1, 0]
    assert store[:].tolist() == [[2, 0, 4], [0, 1, 0]]
    assert store.part(1, 2).as_rows().dense(np.array([0])).tolist() == [[0, 1, 0]]
    refuses(r"hold sparse rows, which are read from one file only", ["a.svm", "a.svm"])


def test_names_in_files_that_have_none(here):
    np.save("X.npy", X)
    np.save("y.npy", Y)
    Path("a.svm").write_text("1 1:2 3:4\n0 2:1\n")
    np.savez("both.npz", X=X, y=Y)
    nameless = "what it holds has no name; remove "
    with pytest.raises(FileError, match=rf"y\.npy: {nameless}label=q"):  # as it is opened
        open_rows("X.npy", labels="y.npy", label="q")
    with pytest.raises(FileError, match=rf"X\.npy: {nameless}key=q"):
        open_rows("X.npy", key="q")
    for name in ("key", "label"):
        with pytest.raises(FileError, match=rf"a\.svm: {nameless}{name}=q"):
            open_rows("a.svm", **{name: "q"})
    with pytest.raises(FileError, match=r"both\.npz: holds labels named y, and y\.npy is a file"):
        open_rows("both.npz", labels="y.npy", label="y")
    assert open_rows("X.npy", labels="both.npz", label="y").labels.tolist() == Y.tolist()


def test_a_file_that_changed(here):
    shards(X)
    store = open_rows("features").part(0, 3)
    shards(X[:4])
    with pytest.raises(FileError, match=r"features/00\.npy: has changed since it was opened"):
        store[:]


def test_importing_slender_imports_no_format():
    import subprocess

    code = "import slender, sys; slender.open_rows; print([m for m in MODULES if m in sys.modules])"
    code = code.replace("MODULES", "('pyarrow', 'h5py', 'zarr', 'dask', 'torch')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
