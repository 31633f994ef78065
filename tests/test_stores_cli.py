"""The command on shards, columns and named arrays, as users and their shells write it."""

import json
import re
import shlex
from glob import glob, has_magic
from pathlib import Path

import numpy as np
import pytest

from slender import load_model
from slender.datasets import planted

ROOT = Path(__file__).resolve().parent.parent
DATA = planted(400, 8, 4, n_test=100, separation=1.5)
FIT = ("--method", "logistic", "--C", "0.1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("features", "labels", "both"):
        Path(folder).mkdir()
    for k, index in enumerate(np.array_split(np.arange(400), 12)):  # 10 comes before 2 in a shell
        np.save(f"features/part-{k}.npy", DATA.X_train[index])
        np.save(f"labels/y-{k}.npy", DATA.y_train[index])
        np.savez(f"both/{k}.npz", X=DATA.X_train[index], y=DATA.y_train[index], other=index)
    np.save("y.npy", DATA.y_train)
    np.savetxt("y.txt", DATA.y_train, "%d")
    for name, row, value in (("gone", 17, np.nan), ("half", 40, 0.5)):
        labels = DATA.y_train.astype(float)
        labels[row] = value
        np.save(f"{name}.npy", labels)
    Path("half.svm").write_text("1 1:2\n1.5 2:1\n")
    np.save("X.npy", DATA.X_train)
    return tmp_path


def shell(line):
    """The words that a shell makes of a line: patterns without quotes become names."""
    words = []
    for word in re.findall(r"'[^']*'|\S+", line.split(" #")[0]):
        plain = shlex.split(word)[0]
        found = sorted(glob(plain)) if has_magic(plain) and not word.startswith("'") else []
        words += found or [plain]
    return words


@pytest.mark.parametrize(
    "files",
    [
        "X.npy y.npy",
        "features y.npy",
        "features/ labels/",
        "'features/*.npy' y.npy",
        "'features/*.npy' 'labels/*.npy'",
        "features/*.npy y.npy",
        "features/*.npy labels/*.npy",
        "both",
        "'both/*.npz'",
        "both/*.npz",
        "both/*.npz --label y --key X",
    ],
)
def test_fit_takes_files_as_shells_give_them(here, slender, files):
    code, _, err = slender("fit", *shell(files), *FIT, "--out", "model", "--json", "r.json")
    assert (code, err) == (0, ""), err
    assert slender("fit", "X.npy", "y.npy", *FIT, "--out", "whole")[0] == 0
    model, whole = load_model("model"), load_model("whole")
    both = [each.trace_[-1] for each in (model, whole)]
    assert abs(both[0]["objective"] - both[1]["objective"]) <= both[0]["gap"] + both[1]["gap"]
    assert np.array_equal(model.classes_, whole.classes_)
    # the same rows have the same checksum, in whatever files they are
    results = json.loads(Path("r.json").read_text())
    assert results["rows"] == 400
    assert slender("fit", "X.npy", "y.npy", *FIT, "--out", "m", "--json", "w.json")[0] == 0
    wanted = json.loads(Path("w.json").read_text())["inputs"]
    assert [each["sha256"] for each in results["inputs"].values()] == [
        each["sha256"] for each in wanted.values()
    ]


def test_two_files_with_rows_and_labels_are_shards_if_the_labels_are_named(here, slender):
    words = "both/0.npz", "both/1.npz", "--label", "y", *FIT, "--out", "model", "--json", "-"
    code, out, _ = slender("fit", *words)
    assert code == 0
    assert json.loads(out)["rows"] == 68


def test_the_other_commands_take_shards(here, slender):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array(["ape", "bee", "cat", "dog"])
    for k, index in enumerate(np.array_split(np.arange(400), 3)):
        flat = pa.array(DATA.X_train[index].astype(np.float32).ravel())
        columns = {"emb": pa.FixedSizeListArray.from_arrays(flat, 8)}
        columns["kind"] = pa.array(names[DATA.y_train[index]]).dictionary_encode()
        pq.write_table(pa.table(columns), f"part-{k}.parquet")
    files = shell("part-*.parquet")
    named = "--label", "kind"
    path = ("path", *files, *named, "--cs", "0.1,1", "--out", "probe", "-q")
    assert slender(*path)[0] == 0
    assert load_model("probe").classes_.tolist() == names.tolist()
    code, out, _ = slender("score", "probe", *files, *named, "--json", "-")
    assert code == 0
    assert json.loads(out)["top1"] > 0.8
    assert slender("predict", "probe", *files, "--key", "emb", "--out", "y.txt", "-q")[0] == 0
    assert len(Path("y.txt").read_text().splitlines()) == 400
    run = ("run", "--dataset", "part-*.parquet", *named, "--opt", "sgd", "--passes", "1", "-q")
    assert slender(*run)[0] == 0
    assert slender("compare", *run[1:])[0] == 0
    known = slender("compare", "--dataset", "digits", "--opt", "sgd", "--label", "kind")
    assert "--key and --label are names in files" in known[2]
    assert slender("fit", *files[:2], *named, "--val", files[2], *FIT, "--out", "m", "-q")[0] == 0


def test_compress_takes_shards(here, slender):
    pytest.importorskip("faiss")
    assert slender("compress", *shell("features/*.npy"), "--dsq", "2", "--out", "X.pq")[0] == 0
    for k in (0, 1):
        one = (f"features/part-{k}.npy", "--like", "X.pq", "--out", f"codes-{k}.pq")
        assert slender("compress", *one)[0] == 0
    np.save("y2.npy", DATA.y_train[:68])
    assert slender("fit", *shell("codes-*.pq"), "y2.npy", *FIT, "--out", "model")[0] == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("both/0.npz both/1.npz", "both hold rows and labels; if they are shards, .* --label NAME"),
        ("features", r"features/part-0\.npy: holds no labels"),
        ("'none/*.npy' y.npy", r"none/\*\.npy: no file matches"),
        ("features labels/y-0.npy", r"X has 400 rows but y has 34 labels"),
        ("both --label oops", r"both/0\.npz: no array named oops"),
        ("both --key oops", r"both/0\.npz: no array named oops"),
        ("labels y.npy", r"labels/y-0\.npy: X has 1 dimension"),
        ("features both y.npy", "X has 800 rows but y has 400 labels"),
        ("X.npy y.npy --label nosuch", r"y\.npy: what it holds has no name; remove --label nosuch"),
        ("X.npy y.txt --label nosuch", r"y\.txt: what it holds has no name; remove --label nosuch"),
        ("X.npy y.npy --key nosuch", r"X\.npy: what it holds has no name; remove --key nosuch"),
        ("X.npy gone.npy", r"gone\.npy: the label of row 17 is nan, but classes are integers or"),
        ("X.npy half.npy", r"half\.npy: the label of row 40 is 0\.5, but classes are integers or"),
        ("half.svm", r"half\.svm: the label of row 1 is 1\.5, but classes are integers or"),
        (
            "both y.npy --label y",
            r"both/0\.npz: holds labels named y, and y\.npy is a file of labels, too; remove that "
            "file, or --label y",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(here, slender, files, message):
    code, _, err = slender("fit", *shell(files), *FIT, "--out", "model")
    assert code == 2
    assert re.search(message, err), err
    assert err.count("\n") == 1
    assert not Path("model").exists()


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_nan_in_shard_7_row_12(here, slender, device):
    if device != "cpu":
        pytest.importorskip("torch")
    X = np.load("features/part-7.npy")
    X[12, 3] = np.nan
    np.save("features/part-7.npy", X)
    for words in (("fit", *FIT), ("path", "--cs", "3")):
        code, _, err = slender(*words, "features", "y.npy", "--out", "model", "--device", device)
        assert code == 2
        assert "X contains NaN at features/part-7.npy, row 12, column 3" in err


def test_a_dataset_with_splits_is_scored_on_its_test_rows(here, slender):
    pa = pytest.importorskip("pyarrow")
    parts = {"train": (DATA.X_train, DATA.y_train), "test": (DATA.X_test, DATA.y_test)}
    for split, (X, y) in parts.items():
        folder = Path("hub") / split
        folder.mkdir(parents=True)
        made = pa.table({"emb": pa.array(X.tolist()), "label": pa.array(y)})
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", made.schema) as stream:
            stream.write_table(made, max_chunksize=50)
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": split}
        (folder / "state.json").write_text(json.dumps(state))
        (folder / "dataset_info.json").write_text("{}")
    Path("hub/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    code, out, _ = slender("path", "hub", "--cs", "0.1,1", "--out", "probe", "--json", "-")
    assert code == 0
    results = json.loads(out)
    assert (results["rows"], results["test"]["rows"]) == (400, 100)
    code, out, _ = slender("score", "probe", "hub", "--json", "-")
    assert json.loads(out)["rows"] == 100


def test_the_commands_of_the_guide_run(tmp_path, monkeypatch, slender):
    """Of docs/large.md, after its Python, as a shell would run them."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "large.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile("\n".join(code), "large.md", "exec"), {})
    commands = re.findall(r"^slender .*$", text, flags=re.MULTILINE)
    assert len(commands) == 5
    for line in commands:
        done = slender(*shell(line)[1:])
        assert done[0] == 0, (line, done[2])
