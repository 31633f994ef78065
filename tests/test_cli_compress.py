"""`slender compress` as people use it, and the other commands on what it wrote."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from slender import CompressedMatrix, LogisticClassifier, ProductQuantizer, load_model
from test_cli import refused

rng = np.random.default_rng(0)
CODES = np.arange(600) % 6
X = (2 * rng.standard_normal((6, 8))[CODES] + rng.standard_normal((600, 8))).astype(np.float32)
TRAIN, TEST = slice(400), slice(400, None)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a data set in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    for part, rows in (("train", TRAIN), ("test", TEST)):
        np.save(f"X_{part}.npy", X[rows])
        np.save(f"y_{part}.npy", CODES[rows])
    return tmp_path


@pytest.fixture(scope="module")
def quantizer():
    pytest.importorskip("faiss")
    return ProductQuantizer(d_sq=2, random_state=0).fit(X[TRAIN])


@pytest.fixture
def compressed(here, quantizer):
    """X_train.pq and X_test.pq, of the same codebooks."""
    for part, rows in (("train", TRAIN), ("test", TEST)):
        quantizer.encode(X[rows]).save(f"X_{part}.pq")


# -- compress --------------------------------------------------------------------------------------


def test_the_file_is_the_librarys(slender, quantizer):
    code, out, err = slender("compress", "X_train.npy", "--dsq", 2, "--out", "X.pq", "--seed", 0)
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert list(lines) == ["rows", "features", "parts", "bytes", "lost", "seconds", "file"]
    assert lines["rows"].strip() == "400"
    assert lines["parts"].strip() == "4 of 2 features, a byte each"
    assert lines["file"].strip() == "X.pq"
    M = CompressedMatrix.load("X.pq")
    assert np.array_equal(M.codebooks, quantizer.codebooks_)
    assert np.array_equal(M.codes, quantizer.encode(X[TRAIN]).codes)


def test_results_for_machines(slender, compressed):
    words = ("--dsq", 2, "--out", "X.PQ", "--seed", 0, "--json", "-")
    code, out, err = slender("compress", "X_train.npy", *words)
    results = json.loads(out)
    assert (code, err) == (0, "")
    assert {name: results[name] for name in ("command", "out", "rows", "features")} == {
        "command": "compress",
        "out": "X.PQ",
        "rows": 400,
        "features": 8,
    }
    assert (results["n_sq"], results["d_sq"]) == (4, 2)
    assert results["bytes"] == Path("X.PQ").stat().st_size
    assert results["times_smaller"] == pytest.approx(X[TRAIN].nbytes / results["bytes"])
    rows, kept = X[TRAIN].astype(np.float64), CompressedMatrix.load("X.PQ").toarray()
    lost = ((rows - kept) ** 2).sum() / ((rows - rows.mean(axis=0)) ** 2).sum()
    assert 0 < results["lost"] == pytest.approx(lost)
    assert results["seconds_codebooks"] > 0 < results["seconds_codes"]
    words = ("--out", "X.pq", "--json", "r.json", "-q")
    assert slender("compress", "X_train.npy", *words) == (0, "", "")
    assert json.loads(Path("r.json").read_text())["d_sq"] == 8  # of d = 8 no part is larger


@pytest.mark.parametrize(
    ("words", "shape"),
    [("--dsq 4", (2, 256, 4)), ("--nsq 4", (4, 256, 2)), ("--training-rows 300", (1, 256, 8))],
)
def test_options_reach_the_quantizer(slender, words, shape):
    pytest.importorskip("faiss")
    done = slender("compress", "X_train.npy", "--out", "X.pq", "-q", *words.split())
    assert done == (0, "", "")
    assert CompressedMatrix.load("X.pq").codebooks.shape == shape


def test_a_test_set_takes_the_codebooks_of_its_training_set(slender, compressed, quantizer):
    code, out, err = slender("compress", "X_test.npy", "--like", "X_train.pq", "--out", "new.pq")
    assert (code, err) == (0, "")
    assert "4 of 2 features" in out
    new = CompressedMatrix.load("new.pq")
    assert np.array_equal(new.codebooks, quantizer.codebooks_)
    assert np.array_equal(new.codes, CompressedMatrix.load("X_test.pq").codes)
    words = ("--like", "X_train.pq", "--out", "few.pq", "-q")
    np.save("few.npy", X[:3])  # too few for codebooks of their own
    assert slender("compress", "few.npy", *words) == (0, "", "")
    assert len(CompressedMatrix.load("few.pq")) == 3
    for flag in ("--dsq", "--nsq", "--training-rows", "--seed"):
        result = slender("compress", "X_test.npy", *words, flag, 2)
        refused(result, "--like takes the codebooks of X_train.pq as they are", f"remove {flag}")


def test_other_formats(slender, quantizer):
    from scipy import sparse

    sparse.save_npz("X.npz", sparse.csr_array(np.where(X > 0, X, 0)))
    np.save("half.npy", X.astype(np.float16))
    for name in ("X.npz", "half.npy"):
        assert slender("compress", name, "--nsq", 4, "--out", "X.pq", "-q") == (0, "", "")
        assert CompressedMatrix.load("X.pq").shape == (600, 8)
    # and codes themselves, into fewer bytes
    assert slender("compress", "X.pq", "--nsq", 2, "--out", "X.pq", "-q") == (0, "", "")
    assert CompressedMatrix.load("X.pq").codes.shape == (600, 2)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("X_train.npy --out X.npy", ["--out X.npy", "name it .pq"]),
        ("X_train.npy --out X", ["--out X:", "name it .pq"]),
        ("X_train.npy", ["Missing option '--out'"]),
        ("--out X.pq", ["Missing argument 'X'", "slender compress --help"]),
        ("X_train.npy --out X.pq --dsq 3", ["--dsq 3 does not divide the 8", "2 and 4"]),
        (
            "X_train.npy --out X.pq --nsq 9",
            ["--nsq 9 does not divide the 8", "nearest divisors: 8"],
        ),
        ("X_train.npy --out X.pq --dsq 2 --nsq 4", ["n_sq and d_sq determine each other"]),
        ("X_train.npy --out X.pq --dsq 0", ["--dsq 0 must be an integer > 0"]),
        ("X_train.npy --out X.pq --dsq some", ["--dsq", "slender compress --help"]),
        ("X_train.npy --out X.pq --training-rows 99", ["99 rows", "give at least 256"]),
        ("X_test.npy --out X.pq", ["200 rows", "give at least 256"]),
        ("none.npy --out X.pq", ["none.npy", "no such file"]),
        (". --out X.pq", ["different formats", "X_test.npy and X_test.pq"]),
        ("y_train.npy --out X.pq", ["y_train.npy", "1 dimension"]),
        ("X_train.npy --out none/X.pq", ["none/X.pq", "no folder"]),
        ("X_train.npy --out X.pq --json X.pq", ["two results"]),
        ("X_train.npy --out X.pq --like none.pq", ["none.pq"]),
        ("X_train.npy --out X.pq --like y_train.npy", ["y_train.npy"]),
        ("bad.npy --out X.pq", ["NaN at row 333, column 5"]),
        ("bad.npy --out X.pq --like X_train.pq", ["NaN at row 333, column 5"]),
        ("narrow.npy --out X.pq --like X_train.pq", ["6 features", "expecting 8"]),
    ],
)
def test_compress_refuses(here, slender, compressed, words, parts):
    bad = X[TRAIN].copy()
    bad[333, 5] = np.nan
    np.save("bad.npy", bad)
    np.save("narrow.npy", X[:, :6])
    before = {path.name for path in here.iterdir()}
    refused(slender("compress", *words.split()), *parts)
    assert {path.name for path in here.iterdir()} == before


def test_without_faiss(here, slender, compressed, monkeypatch):
    """Codes cannot be made, and nothing is read before that is said; but they can be used."""
    monkeypatch.setitem(sys.modules, "faiss", None)
    for words in (("X_train.npy",), ("none.npy",), ("X_train.npy", "--like", "X_train.pq")):
        result = slender("compress", *words, "--out", "X.pq")
        refused(result, "slender compress needs the package faiss-cpu: pip install faiss-cpu")
    assert not Path("X.pq").exists()
    assert slender("fit", "X_train.pq", "y_train.npy", "--out", "model", "-q") == (0, "", "")
    assert slender("score", "model", "X_test.pq", "y_test.npy", "-q") == (0, "", "")


def test_help_has_an_example(slender):
    code, out, _ = slender("compress", "--help")
    assert code == 0
    assert "Example:  slender compress" in out


# -- the other commands ----------------------------------------------------------------------------


def test_fit_predict_and_score_take_codes(slender, compressed):
    train, test = (CompressedMatrix.load(f"X_{part}.pq") for part in ("train", "test"))
    words = ("--out", "model", "--seed", 0, "--val", "X_test.pq", "--val-y", "y_test.npy")
    code, out, err = slender("fit", "X_train.pq", "y_train.npy", *words)
    assert (code, err) == (0, "")
    assert "400" in out
    fitted = LogisticClassifier(random_state=0).fit(train, CODES[TRAIN])
    assert np.array_equal(load_model("model").coef_, fitted.coef_)
    for name, rows in (("X_test.pq", test), ("X_test.npy", X[TEST])):
        for flags, wanted in (
            ((), fitted.predict(rows)),
            (("--proba",), fitted.predict_proba(rows)),
            (("--top-k", 2), fitted.predict_top_k(rows, 2)),
        ):
            words = ("predict", "model", name, "--out", "y.npy", "-q", *flags)
            assert slender(*words) == (0, "", "")
            np.testing.assert_allclose(np.load("y.npy"), wanted, rtol=1e-5)
        _, out, _ = slender("score", "model", name, "y_test.npy", "--json", "-")
        assert json.loads(out)["top1"] == pytest.approx(fitted.score(rows, CODES[TEST]))
        assert json.loads(out)["top1"] > 0.8


@pytest.mark.parametrize("command", ["path", "fit"])
def test_other_fits_take_codes(slender, compressed, command):
    words = {"path": ("--cs", "1"), "fit": ("--method", "sgd", "--passes", 1)}[command]
    done = slender(command, "X_train.pq", "y_train.npy", "--out", "model", "-q", *words)
    assert done == (0, "", "")
    assert load_model("model").score(X[TEST], CODES[TEST]) > 0.7


def test_codes_that_cannot_be_read(slender, compressed):
    whole = Path("X_train.pq").read_bytes()
    fit = ("fit", "X_train.pq", "y_train.npy", "--out", "model")
    Path("X_train.pq").write_bytes(whole[:-1])
    refused(slender(*fit), "X_train.pq", "damaged")
    Path("X_train.pq").write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    refused(slender(*fit), "X_train.pq", "checksum differs")
    refused(slender("fit", "X_test.pq", "--out", "model"), "holds no labels")
    refused(slender("fit", "X_test.pq", "y_train.npy", "--out", "model"), "200 rows", "400 labels")
    assert not Path("model").exists()


@pytest.mark.parametrize("word", [b"version", b"codebooks", b'"codes"', b"sha256", b'"{'])
def test_a_damaged_header_is_one_line(slender, compressed, word):
    content = bytearray(Path("X_train.pq").read_bytes())
    content[content.index(word) + 1] ^= 1
    Path("X_train.pq").write_bytes(content)
    result = slender("fit", "X_train.pq", "y_train.npy", "--out", "model")
    refused(result, "X_train.pq", "damaged")


def test_a_bad_row_is_named_also_where_few_are_drawn(slender):
    pytest.importorskip("faiss")
    bad = X.copy()
    bad[500:] = np.nan
    np.save("bad.npy", bad)
    _, _, err = slender("compress", "bad.npy", "--out", "X.pq", "--training-rows", 300)
    assert int(err.split("NaN at row ")[1].split(",")[0]) >= 500


def test_few_distinct_parts_are_kept_exactly(slender):
    pytest.importorskip("faiss")
    pieces = rng.standard_normal((40, 4)).astype(np.float32)
    np.save("few.npy", pieces[rng.integers(0, 40, (1000, 2))].reshape(1000, 8))
    assert slender("compress", "few.npy", "--dsq", 4, "--out", "X.pq", "-q") == (0, "", "")
    np.testing.assert_array_equal(CompressedMatrix.load("X.pq").toarray(), np.load("few.npy"))


def test_numbers_too_large_for_float32(slender, compressed):
    np.save("large.npy", X.astype(np.float64) * 1e200)
    refused(
        slender("compress", "large.npy", "--like", "X_train.pq", "--out", "X.pq"),
        "too large for float32",
    )


def test_a_folder_of_codes(here, slender, compressed):
    """Where a folder has no X_train.npy its codes are read."""
    for part in ("train", "test"):
        Path(f"X_{part}.npy").unlink()
    code, *_ = slender("fit", here, "--out", "model", "--seed", 0)
    assert code == 0
    assert load_model("model").score(CompressedMatrix.load("X_test.pq"), CODES[TEST]) > 0.8


def test_experiments_on_codes(here, slender, quantizer):
    """slender run: trained on codes, tested on full rows or on codes."""
    found = {}
    for test_on in ("full", "codes"):
        words = ("--passes", 2, "--dsq", 4, "--test-on", test_on, "--quiet", "--json", "-")
        code, out, _ = slender("run", "--opt", "bcfw", "--dataset", "digits", *words)
        assert code == 0
        found[test_on] = json.loads(out)
        assert found[test_on]["compression"] == {"d_sq": 4, "test_on": test_on}
    # the same model: its last objective, on the training codes, does not see the test rows
    assert found["full"]["curve"][-1]["objective"] == found["codes"]["curve"][-1]["objective"]
    refused(slender("run", "--opt", "bcfw", "--test-on", "codes"), "--test-on", "--dsq")
    refused(slender("run", "--opt", "bcfw", "--dsq", 4, "--test-on", "x"), "--test-on")
