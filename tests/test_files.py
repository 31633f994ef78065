"""Files that are read give back what was written; files that cannot be read say so in one line."""

import os
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from slender.files import read_dataset, read_labels, read_matrix
from slender.storage import FileError, write_whole

X = np.arange(12, dtype=np.float32).reshape(4, 3)
y = np.array([0, 2, 1, 2])


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def bfloat16_file(path, values):
    """A safetensors file with one bfloat16 tensor, written byte by byte."""
    values = np.asarray(values, np.float32)
    bits = (values.view(np.uint32) >> 16).astype("<u2")
    offsets = f"[0,{bits.nbytes}]"
    header = f'{{"X":{{"dtype":"BF16","shape":{list(bits.shape)},"data_offsets":{offsets}}}}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bits.tobytes())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint8", "int64", ">f4"])
def test_npy_is_mapped_not_read(tmp_path, dtype):
    np.save(tmp_path / "X.npy", X.astype(dtype))
    read = read_matrix(tmp_path / "X.npy")
    assert isinstance(read, np.memmap)
    assert read.dtype == np.dtype(dtype)
    assert np.array_equal(read, X)


@pytest.mark.parametrize("names", [("X", "y"), ("embeddings", "labels"), ("anything", "other")])
def test_one_file_may_hold_both(tmp_path, names):
    arrays = dict(zip(names, (X, y), strict=True))
    np.savez(tmp_path / "d.npz", **arrays)
    save_file(arrays, tmp_path / "d.safetensors")
    for path in (tmp_path / "d.npz", tmp_path / "d.safetensors"):
        read_X, read_y = read_dataset(path)
        assert np.array_equal(read_X, X)
        assert np.array_equal(read_y, y)


def test_sparse_npz(tmp_path):
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X))
    read = read_matrix(tmp_path / "X.npz")
    assert sparse.issparse(read)
    assert np.array_equal(read.toarray(), X)
    with pytest.raises(FileError, match="no array named y"):
        read_dataset(tmp_path / "X.npz")


@pytest.mark.parametrize("suffix", [".svm", ".svmlight", ".libsvm", ".txt"])
def test_svmlight(tmp_path, suffix):
    dump_svmlight_file(X, y, str(tmp_path / f"d{suffix}"), zero_based=False)
    read_X, read_y = read_dataset(tmp_path / f"d{suffix}")
    assert np.array_equal(read_X.toarray(), X)
    assert np.array_equal(read_y, y)
    assert read_y.dtype == np.int64
    assert read_matrix(tmp_path / f"d{suffix}", n_features=7).shape == (4, 7)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int32"])
def test_safetensors_keep_their_dtype(tmp_path, dtype):
    save_file({"features": X.astype(dtype)}, tmp_path / "X.safetensors")
    read = read_matrix(tmp_path / "X.safetensors")
    assert read.dtype == dtype
    assert np.array_equal(read, X)


def test_bfloat16_is_widened(tmp_path):
    # all are exact in bfloat16: eight bits of mantissa, the range of float32
    values = np.array([[1.0, -2.5, 3.0e38, np.inf], [0.0, -0.0, 2.0**-126, 0.15625]], np.float32)
    values.view(np.uint32)[...] &= 0xFFFF0000
    bfloat16_file(tmp_path / "X.safetensors", values)
    read = read_matrix(tmp_path / "X.safetensors")
    assert read.dtype == np.float32
    assert np.array_equal(np.asarray(read).view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("3\n-1\n3\n", np.array([3, -1, 3])),
        ("cat\r\ndog\r\n3\r\n", np.array(["cat", "dog", "3"])),
        ("007\n8\n", np.array(["007", "8"])),  # an integer would lose the zeros
        (f"1\n{10**30}\n", np.array(["1", str(10**30)])),
        ('a\n"b, c"\n', np.array(["a", "b, c"])),
        ("species\n3\n-1\n", np.array([3, -1])),  # a heading
        ("Label\ncat\ndog\n", np.array(["cat", "dog"])),
        ("label\nno label\nlabel\n", np.array(["label", "no label", "label"])),  # a class
        ("label\n", np.array(["label"])),
    ],
)
def test_one_label_a_line(tmp_path, text, labels):
    (tmp_path / "y.csv").write_bytes(text.encode())
    read = read_labels(tmp_path / "y.csv")
    assert read.dtype == labels.dtype
    assert np.array_equal(read, labels)


@pytest.mark.parametrize(
    "labels", [y, np.array(["a", "b"]), np.eye(3, dtype=int), np.array([b"a"])]
)
def test_labels_from_npy(tmp_path, labels):
    np.save(tmp_path / "y.npy", labels)
    read = read_labels(tmp_path / "y.npy")
    assert np.array_equal(read, labels.astype(read.dtype))
    assert read.dtype.kind != "S"  # scikit-learn knows no bytes


def test_folder(tmp_path):
    for part in ("train", "test"):
        np.save(tmp_path / f"X_{part}.npy", X + (part == "test"))
        np.save(tmp_path / f"y_{part}.npy", y)
    assert np.array_equal(read_dataset(tmp_path)[0], X)
    assert np.array_equal(read_dataset(tmp_path, part="test")[0], X + 1)
    with pytest.raises(FileError, match="has its own labels"):
        read_dataset(tmp_path, "y.npy")
    holds = r"lacks X_val.npy and y_val.npy; .* X_val.npy \(or X_val.pq\) and y_val.npy, or shards"
    with pytest.raises(
        FileError, match=holds + ", but this one holds X_test.npy, X_train.npy, y_test.npy"
    ):
        read_dataset(tmp_path, part="val")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="this one holds nothing"):
        read_dataset(tmp_path / "empty")


# -- what can go wrong -----------------------------------------------------------------------------


WRITE = {
    "X.npy": np.save,
    "X.npz": lambda path, X: np.savez(path, X=X),
    "X.safetensors": lambda path, X: save_file({"X": X}, path),
}


def one_line(caught, path):
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message


@pytest.mark.parametrize("name", ["X.npy", "X.npz", "X.safetensors", "X.svm", "y.txt", "none.xyz"])
def test_missing(tmp_path, name):
    read = read_labels if name.startswith("y") else read_matrix
    with pytest.raises(FileError, match="no such file") as caught:
        read(tmp_path / name)
    one_line(caught, tmp_path / name)


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "pickle"])
def test_damaged(tmp_path, name, damage):
    path = tmp_path / name
    if damage == "cut":
        WRITE[name](path, X)
        path.write_bytes(path.read_bytes()[:-5])
    else:
        noise = np.random.default_rng(0).bytes(500)
        content = {"empty": b"", "noise": noise, "pickle": pickle.dumps({"X": X})}
        path.write_bytes(content[damage])
    for read in (read_matrix, read_labels):
        with pytest.raises(FileError, match="damaged") as caught:
            read(path)
        one_line(caught, path)
        assert "allow_pickle" not in str(caught.value)


def test_damaged_text(tmp_path):
    (tmp_path / "X.svm").write_text("1 2:x\n")
    (tmp_path / "y.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="svmlight"):
        read_matrix(tmp_path / "X.svm")
    with pytest.raises(FileError, match="text"):
        read_labels(tmp_path / "y.txt")


@pytest.mark.parametrize("name", ["X.npy", "X.npz"])
def test_python_objects_are_refused(tmp_path, name):
    objects = np.array([[1, None]], dtype=object)
    WRITE[name](tmp_path / name, objects)
    for read in (read_matrix, read_labels):
        with pytest.raises(FileError, match="Python objects"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "1 dimension,"),
        (np.zeros((2, 2, 2)), "3 dimensions,"),
        (np.array([["a"]]), "dtype <U1; convert it to numbers"),
        (np.zeros((2, 2), complex), "dtype complex128"),
    ],
)
def test_matrix_of_the_wrong_kind(tmp_path, array, message):
    np.save(tmp_path / "X.npy", array)
    with pytest.raises(FileError, match=message):
        read_matrix(tmp_path / "X.npy")


def test_labels_of_the_wrong_kind(tmp_path):
    for array, message in ((np.zeros((1, 1, 1)), "3 dim"), (np.zeros(2, complex), "complex")):
        np.save(tmp_path / "y.npy", array)
        with pytest.raises(FileError, match=message):
            read_labels(tmp_path / "y.npy")
    for text, message in (
        ("a\n\nb\n", "line 2 is empty"),
        ("", "is empty"),
        ("a\nb,c\n", "line 2 has 2 columns"),
    ):
        (tmp_path / "y.csv").write_text(text)
        with pytest.raises(FileError, match=message):
            read_labels(tmp_path / "y.csv")


def test_no_such_array(tmp_path):
    save_file({"a": X, "b": X}, tmp_path / "two.safetensors")
    np.savez(tmp_path / "none.npz", a=y)
    with pytest.raises(
        FileError, match=r"no array named X, and 2 with 2 dimensions \(it holds a, b\)"
    ):
        read_matrix(tmp_path / "two.safetensors")
    with pytest.raises(FileError, match="no array named X, and none"):
        read_matrix(tmp_path / "none.npz")


def test_unknown_format_folder_and_lengths(tmp_path):
    (tmp_path / "X.xyz").touch()
    for read in (read_matrix, read_labels):
        with pytest.raises(FileError, match="no known format"):
            read(tmp_path / "X.xyz")
        with pytest.raises(FileError, match=r"X\.xyz is of no known format"):
            read(tmp_path)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y[:3])
    with pytest.raises(FileError, match="X has 4 rows but y has 3 labels"):
        read_dataset(tmp_path / "X.npy", tmp_path / "y.npy")
    with pytest.raises(FileError, match="holds no labels"):
        read_dataset(tmp_path / "X.npy")


def test_write_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out"
    path.write_text("before")

    def fails(temporary):
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, fails)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    write_whole(path, lambda temporary: temporary.write_text("after"))
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "none" / "out", tmp_path / "file" / "out", "/dev/null"):
        with pytest.raises(FileError, match="cannot be written"):
            write_whole(path, lambda temporary: temporary.touch())


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_a_sparse_npz_that_contradicts_itself_is_refused(tmp_path, form):
    X = sparse.random_array((20, 6), density=0.5, rng=0, format="csr")
    M = sparse.bsr_array(X, blocksize=(2, 2)) if form == "bsr" else X.asformat(form)
    M.indices[4] = 10**6
    sparse.save_npz(tmp_path / "X.npz", M)
    with pytest.raises(FileError, match=r"X\.npz: .*not a valid sparse matrix: .* index") as error:
        read_matrix(tmp_path / "X.npz")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".svm", ".pq", ".txt"])
def test_a_pipe_is_refused_not_waited_for(tmp_path, suffix):
    pipe = tmp_path / f"X{suffix}"
    os.mkfifo(pipe)
    for read in (read_matrix, read_labels, read_dataset):
        if read is not read_labels or suffix != ".pq":
            with pytest.raises(FileError, match="is not a regular file"):
                read(pipe)


def test_an_svmlight_file_with_bad_indices_is_refused(tmp_path):
    for text in ("1 -3:1\n", "1 2:1 1:1\n", "1 99999999999999999999:1\n"):
        (tmp_path / "X.svm").write_text(text)
        with pytest.raises(FileError, match=r"X\.svm: cannot be read as an svmlight file"):
            read_matrix(tmp_path / "X.svm")
