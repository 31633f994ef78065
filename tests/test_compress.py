"""Rows as codes: the matrix, its files, and how codes are made."""

import hashlib
import json
import sys
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from naive_codes import coded, quarters
from slender import CompressedMatrix, ProductQuantizer
from slender.compress import format as file_format
from slender.extras import MissingPackageError
from slender.files import read_dataset, read_matrix
from slender.rows import base
from slender.storage import FileError

same = np.testing.assert_array_equal
DTYPES = (np.float32, np.float64)


# -- the matrix ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_a_matrix_says_of_itself(dtype):
    numbers, books, X = coded(dtype=dtype)
    M = CompressedMatrix(numbers, books)
    assert (M.shape, M.ndim, len(M), M.dtype) == ((50, 15), 2, 50, dtype)
    name = np.dtype(dtype).name
    assert repr(M) == f"<50x15 CompressedMatrix of 3 parts, dtype {name}: 150 bytes of codes>"
    assert np.shares_memory(M.codes, numbers)
    assert M.toarray().dtype == dtype
    same(M.toarray(), X)


@pytest.mark.parametrize(
    "rows",
    [
        slice(3, 9),
        slice(None, None, -2),
        slice(9, 3),
        [4, 1, 1, -1],
        [],
        np.arange(50) % 3 == 0,
        np.array([7, 0], np.int32),
        ...,
    ],
)
def test_rows_of_a_matrix(rows):
    numbers, books, X = coded()
    M, B = CompressedMatrix(numbers, books), quarters(1, 15, 3)
    part, want = M[rows], X[np.asarray(rows, int) if isinstance(rows, list) else rows]
    same(part.toarray(), want)
    same(part @ B, want @ B)
    same(part.T @ want, want.T @ want)
    assert np.shares_memory(part.codebooks, books)
    if isinstance(rows, slice):
        assert len(part) == 0 or np.shares_memory(part.codes, numbers)


def test_what_is_no_choice_of_rows():
    M = CompressedMatrix(*coded()[:2])
    with pytest.raises(IndexError, match=r"M\[3\] is a row, not a matrix; use M\[\[3\]\]"):
        M[np.int64(3)]
    with pytest.raises(IndexError, match=r"by rows only; use M.toarray\(\)"):
        M[3:5, 0]
    for rows in ([50], [-51], np.ones(49, bool), 1.5, "a"):
        with pytest.raises(IndexError):
            M[rows]
    with pytest.raises(ValueError, match="codes must be a matrix"):
        M[None]


def test_the_last_row():
    M = CompressedMatrix(*coded()[:2])
    with pytest.raises(IndexError, match=r"use M\[\[-1\]\]"):
        M[-1]
    assert M[[-1]].shape == (1, M.shape[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, b: (c.astype(int), b), r"bytes \(uint8\).*int64 of shape \(50, 3\)"),
        (lambda c, b: (c[0], b), r"a matrix.*shape \(3,\)"),
        (lambda c, b: (c, b[:2]), r"n_sq=3 parts.*shape \(2, 256, 5\)"),
        (lambda c, b: (c, b[:, :255]), r"\(n_sq, 256, d_sq\).*\(3, 255, 5\)"),
        (lambda c, b: (c, b[:, :, 0]), r"these have shape \(3, 256\)"),
        (lambda c, b: (c, np.where(b == 1, np.nan, b)), "NaN or infinity"),
        (lambda c, b: (c, np.where(b == 1, -np.inf, b)), "NaN or infinity"),
    ],
)
def test_what_is_no_matrix(change, message):
    with pytest.raises(ValueError, match=message):
        CompressedMatrix(*change(*coded()[:2]))


def test_codebooks_of_any_layout_and_kind():
    numbers, books, X = coded()
    same(CompressedMatrix(numbers, np.asfortranarray(books)).toarray(), X)
    M = CompressedMatrix(numbers, (4 * books).astype(np.int8))
    assert M.dtype == np.float32
    same(M @ np.ones(15), 4 * X.sum(axis=1))


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A matrix and its file."""
    M = CompressedMatrix(*coded(dtype=np.float32)[:2])
    M.save(tmp_path / "X.pq")
    return M, tmp_path / "X.pq"


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [slice(None), slice(0), slice(None, None, -3)])
def test_a_file_gives_back_the_matrix(tmp_path, dtype, rows):
    M = CompressedMatrix(*coded(dtype=dtype)[:2])[rows]
    M.save(tmp_path / "X.pq")
    for read in (CompressedMatrix.load(tmp_path / "X.pq"), read_matrix(tmp_path / "X.pq")):
        assert (read.dtype, read.shape) == (dtype, M.shape)
        same(read.codes, M.codes)
        same(read.codebooks, M.codebooks)
        same(read @ np.ones(15), M @ np.ones(15))


def test_codes_are_mapped_not_read(saved):
    M, path = saved
    read = CompressedMatrix.load(path)
    assert isinstance(read[5:9].codes, np.memmap)
    read[5:9].save(path)  # over the very file that is mapped
    same(CompressedMatrix.load(path).codes, M.codes[5:9])


def test_the_format_needs_safetensors_alone(saved):
    M, path = saved
    tensors = load_file(path)
    assert list(tensors) == ["codebooks", "codes", "sha256"]
    same(tensors["codebooks"], M.codebooks)
    same(tensors["codes"], M.codes)
    with safe_open(path, framework="numpy") as file:
        document = file.metadata()["slender-codes"]
    assert json.loads(document) == {"version": 1, "slender": file_format.__version__}
    digest = hashlib.sha256(document.encode() + M.codebooks.tobytes() + M.codes.tobytes())
    assert tensors["sha256"].tobytes() == digest.digest()


@pytest.mark.parametrize(
    "place", ["document", "first codebook", "last codebook", "first code", "last code", "checksum"]
)
def test_a_flipped_byte_is_noticed(saved, place, monkeypatch):
    monkeypatch.setattr(file_format, "CHUNK", 16)  # the checksum in several steps
    M, path = saved
    numbers = len(path.read_bytes()) - 32 - M.codes.nbytes - M.codebooks.nbytes
    flip(
        path,
        {
            "document": path.read_bytes().index(b"0.1") + 2,
            "first codebook": numbers,
            "last codebook": numbers + M.codebooks.nbytes - 1,
            "first code": numbers + M.codebooks.nbytes,
            "last code": -33,
            "checksum": -1,
        }[place],
    )
    with pytest.raises(FileError, match=r"X\.pq: damaged compressed rows \(checksum differs\)"):
        CompressedMatrix.load(path)
    read = CompressedMatrix.load(path, check=False)
    assert (read.codes != M.codes).sum() == ("code" in place.split())
    assert (read.codebooks != M.codebooks).sum() == ("codebook" in place.split())


def test_files_that_are_none(saved, tmp_path, monkeypatch):
    M, path = saved
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) - 40, 100, 5, 0):
        path.write_bytes(whole[:size])
        for check in (True, False):
            with pytest.raises(FileError, match=r"X\.pq: .*damaged"):
                CompressedMatrix.load(path, check)
    save_file({"codes": M.codes, "codebooks": M.codebooks}, path)
    with pytest.raises(FileError, match=r"not a file of compressed rows.*`slender compress`"):
        read_matrix(path)
    path.write_bytes(b"something else altogether" * 9)
    with pytest.raises(FileError, match=r"cannot be read as a \.pq file"):
        read_matrix(path)
    with pytest.raises(FileError, match="no such file"):
        read_matrix(tmp_path / "none.pq")
    monkeypatch.setattr(file_format, "VERSION", 2)
    M.save(path)
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"format 2, .* reads up to format 1: upgrade slender"):
        read_matrix(path)


def forged(path, document, **tensors):
    """A file whose checksum fits, of (dtype, shape, bytes) by name."""
    content = [document.encode(), *(tensors[name][2] for name in ("codebooks", "codes"))]
    digest = hashlib.sha256(b"".join(content)).digest()
    tensors["sha256"] = ("U8", (32,), digest)
    header, end = {"__metadata__": {"slender-codes": document}}, 0
    for name, (dtype, shape, numbers) in tensors.items():
        header[name] = {
            "dtype": dtype, "shape": shape, "data_offsets": [end, end + len(numbers)]
        }  # fmt: skip
        end += len(numbers)
    text = json.dumps(header).encode()
    numbers = b"".join(of[2] for of in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + numbers)


BOOKS = ("F32", (3, 256, 5), bytes(3 * 256 * 5 * 4))
CODES = ("U8", (7, 3), bytes(21))


@pytest.mark.parametrize(
    ("tensors", "document", "message"),
    [
        ({"codebooks": ("BF16", (3, 256, 5), bytes(7680))}, None, "codebooks have dtype BF16"),
        ({"codebooks": ("I32", (3, 256, 5), bytes(15360))}, None, "codebooks have dtype I32"),
        ({"codes": ("I8", (7, 3), bytes(21))}, None, "codes have dtype I8"),
        ({"codebooks": ("F32", (3, 256, 0), b"")}, None, "a part at least one number"),
        ({"codebooks": ("F32", (2, 256, 5), bytes(10240))}, None, "codebooks must have shape"),
        ({"codebooks": ("F32", (3, 256, 5), b"\xff" * 15360)}, None, "NaN or infinity"),
        ({"codes": ("U8", (21,), bytes(21))}, None, "and 2 dimensions"),
        ({"codes": ("U8", (), bytes(1))}, None, "and 2 dimensions"),
        ({"codes": ("U8", (7, 0), b"")}, None, "codebooks must have shape"),
        ({}, "[" * 10**5, "or is damaged"),
        ({}, "[]", "or is damaged"),
        ({}, '{"version": "one"}', "or is damaged"),
    ],
)
def test_a_file_whose_parts_do_not_belong_together(tmp_path, tensors, document, message):
    path = tmp_path / "X.pq"
    whole = '{"version": 1, "slender": "0"}'
    forged(path, whole, codebooks=BOOKS, codes=CODES)
    assert CompressedMatrix.load(path).shape == (7, 15)
    forged(path, document or whole, **{"codebooks": BOOKS, "codes": CODES, **tensors})
    with pytest.raises(FileError, match=message) as caught:
        read_matrix(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_nothing_is_left_of_a_file_that_failed(saved, monkeypatch):
    M, path = saved
    before = path.read_bytes()

    def blocks():
        yield M.codes[:7]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file_format.write_codes(path, M.codebooks, 50, blocks())
    with pytest.raises(ValueError, match="49 rows of codes were written, but 50 were announced"):
        file_format.write_codes(path, M.codebooks, 50, [M.codes[:40], M.codes[:9]])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_format, "_put", full)
    with pytest.raises(FileError, match="No space left"):
        M.save(path)
    with pytest.raises(FileError, match="no folder"):
        M.save(path.parent / "none" / "X.pq")
    assert [file.name for file in path.parent.iterdir()] == ["X.pq"]
    assert path.read_bytes() == before


def test_a_data_set_of_codes(saved, tmp_path):
    M, path = saved
    y = np.arange(50) % 4
    np.save(tmp_path / "y.npy", y)
    path = path.rename(tmp_path / "UPPER.PQ")
    read_X, read_y = read_dataset(path, tmp_path / "y.npy")
    same(read_X.codes, M.codes)
    same(read_y, y)
    with pytest.raises(FileError, match="holds no labels"):
        read_dataset(path)
    np.save(tmp_path / "y.npy", y[1:])
    with pytest.raises(FileError, match="50 rows but y has 49 labels"):
        read_dataset(path, tmp_path / "y.npy")


# -- making codes ----------------------------------------------------------------------------------

needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="pip install faiss-cpu")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((700, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(rows):
    pytest.importorskip("faiss")
    return ProductQuantizer(d_sq=4, n_iter=4, random_state=0).fit(rows)


def test_codes_are_the_nearest_centroids(fitted, rows):
    M = fitted.encode(rows)
    assert (fitted.codebooks_.shape, fitted.codebooks_.dtype) == ((3, 256, 4), np.float32)
    assert (M.shape, M.codes.shape) == ((700, 12), (700, 3))
    for q in range(3):
        part = rows[:, 4 * q : 4 * q + 4].astype(np.float64)
        distance = ((part[:, None] - fitted.codebooks_[q]) ** 2).sum(axis=2)
        chosen = np.take_along_axis(distance, M.codes[:, q : q + 1].astype(int), axis=1)[:, 0]
        np.testing.assert_allclose(chosen, distance.min(axis=1), atol=1e-5)
    same(fitted.decode(M), M.toarray())
    same(fitted.inverse_transform(fitted.transform(rows)), M.toarray())
    assert ((M.toarray() - rows) ** 2).mean() < 0.3  # of 1: they are centroids of these rows


def test_rows_drawn_from_the_codebooks_decode_exactly(fitted):
    numbers = np.random.default_rng(1).integers(0, 256, (500, 3), np.uint8)
    X = CompressedMatrix(numbers, fitted.codebooks_).toarray()
    same(fitted.encode(X).toarray(), X)
    same(ProductQuantizer.of(CompressedMatrix(numbers, fitted.codebooks_)).encode(X).toarray(), X)


@needs_faiss
def test_as_many_rows_as_centroids_are_kept_exactly(rows):
    fitted = ProductQuantizer(n_sq=2).fit(rows[:256])
    same(fitted.encode(rows[:256]).toarray(), rows[:256])


@needs_faiss
@pytest.mark.parametrize(
    ("d", "settings", "parts"),
    [
        (12, {"n_sq": 3}, 3),
        (12, {"d_sq": 6}, 2),
        (12, {"n_sq": 12}, 12),
        (12, {}, 1),  # 16 at most, and a divisor
        (48, {}, 3),
        (20, {}, 2),
        (17, {}, 17),
    ],
)
def test_how_many_parts(d, settings, parts):
    X = np.random.default_rng(0).standard_normal((256, d))
    assert len(ProductQuantizer(**settings).fit(X).codebooks_) == parts


@needs_faiss
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_sq": 5}, "d_sq=5 does not divide the 12 features; the nearest divisors: 4 and 6"),
        ({"n_sq": 7}, "n_sq=7 does not divide the 12 features; the nearest divisors: 6 and 12"),
        ({"n_sq": 13}, "n_sq=13 .* nearest divisors: 12$"),
        ({"n_sq": 3, "d_sq": 4}, "n_sq and d_sq determine each other"),
        ({"d_sq": 0}, "d_sq=0 must be an integer > 0"),
        ({"d_sq": 2.0}, "d_sq=2.0 must be an integer"),
        ({"n_iter": 0}, "n_iter=0"),
        ({"training_rows": -1}, "training_rows=-1"),
        ({"training_rows": 255}, "255 rows .* give at least 256"),
    ],
)
def test_settings_that_cannot_be(rows, settings, message):
    with pytest.raises(ValueError, match=message):
        ProductQuantizer(**settings).fit(rows)


def test_rows_that_cannot_be(fitted, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 100 * 12 * 4)
    with pytest.raises(ValueError, match=r"255 rows .* give at least 256"):
        clone(fitted).fit(rows[:255])
    bad = rows.copy()
    bad[600, 7] = np.nan
    to_file = partial(fitted.encode_to, path=tmp_path / "X.pq")
    for call in (clone(fitted).fit, fitted.encode, to_file):
        with pytest.raises(ValueError, match="NaN at row 600, column 7"):
            call(bad)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"8 features, but .* expecting 12"):
        fitted.encode(rows[:, :8])
    with pytest.raises(ValueError, match="M has 2 parts, but the codebooks have 3"):
        fitted.decode(CompressedMatrix(*coded(parts=2)[:2]))
    with pytest.raises(NotFittedError):
        ProductQuantizer().encode(rows)


@needs_faiss
@pytest.mark.parametrize("drawn", [700, 300])  # all: then the seed is that of k-means alone
def test_a_seed_says_all(rows, drawn):
    settings = {"n_sq": 3, "n_iter": 2, "training_rows": drawn}
    made = [ProductQuantizer(**settings, random_state=seed).fit(rows) for seed in (1, 1, 2)]
    a, b, c = (quantizer.codebooks_ for quantizer in made)
    same(a, b)
    assert not np.array_equal(a, c)


def test_rows_of_every_kind(fitted, rows, tmp_path, monkeypatch):
    half = np.where(abs(rows) < 0.5, 0, rows).astype(np.float16)
    np.save(tmp_path / "X.npy", half)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    forms = (half, half.astype(float), sparse.csr_array(half.astype(np.float32)), mapped)
    want = clone(fitted).fit(half.astype(np.float32))
    numbers = want.encode(half.astype(np.float32)).codes
    monkeypatch.setattr(base, "BLOCK_BYTES", 100 * 12 * 4)
    for form in forms:
        same(clone(fitted).fit(form).codebooks_, want.codebooks_)
        same(want.encode(form).codes, numbers)


def test_codes_go_to_a_file_as_they_are_made(fitted, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 300 * 12 * 4)
    told = []
    fitted.encode_to(rows, tmp_path / "X.pq", told.append)
    read, M = CompressedMatrix.load(tmp_path / "X.pq"), fitted.encode(rows, told.append)
    assert told == [300, 600, 700] * 2
    same(read.codes, M.codes)
    same(read.codebooks, M.codebooks)
    again = ProductQuantizer.of(read)
    assert (again.n_sq, again.n_features_in_) == (3, 12)
    same(again.encode(rows).codes, M.codes)


def test_settings_as_scikit_learn_has_them(fitted):
    settings = {"n_sq": None, "d_sq": 4, "training_rows": 65536, "n_iter": 4, "random_state": 0}
    assert fitted.get_params() == settings
    assert not hasattr(clone(fitted), "codebooks_")


def test_faiss_is_asked_for_by_name(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    M = CompressedMatrix(*coded(d_sq=4, dtype=np.float32)[:2])
    for call in (ProductQuantizer().fit, ProductQuantizer.of(M).encode):
        with pytest.raises(MissingPackageError, match="pip install faiss-cpu"):
            call(rows)
    same(ProductQuantizer.of(M).decode(M), M.toarray())  # which needs none
