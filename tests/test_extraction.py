"""An extraction writes what the encoder says of the good files, however often it was killed."""

import contextlib
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bad_images import bad_files, encoded, picture
from killing import SMALL, contents
from onnx_models import colours
from processes import SLENDER
from slender.features import folder as output
from slender.features.encoders import load_encoder, save_encoder
from slender.features.extraction import extract
from slender.features.folder import VectorFile, line_of
from slender.features.images import BadImageError, find_images
from slender.features.onnx import OnnxEncoder
from slender.features.vectors import each_chunk, encode_files
from slender.files import read_dataset
from slender.registry import ENCODERS
from slender.storage import FileError

KILLING = Path(__file__).with_name("killing.py")
HALF = (0.5, 0.5, 0.5)


def photographs(root, per_class=5, classes=("ant", "bee", "cat"), side=40):
    """A folder of images, one folder for each class."""
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for k in range(per_class):
            content = encoded(picture(side, side + 9, 10 * c + k), "PNG")
            (root / name / f"{k}.png").write_bytes(content)
    return root


@pytest.fixture
def images(tmp_path):
    return photographs(tmp_path / "images")


@pytest.fixture
def network(tmp_path):
    """An encoder of four images at a time."""
    path = colours(tmp_path / "network.onnx")
    usual = {"mean": HALF, "std": HALF, "batch_size": 4}
    return lambda **more: OnnxEncoder(path, **{**usual, **more})


def fisher(**more):
    return ENCODERS["fisher"].load()(random_state=0, **{**SMALL, **more})


def spoil(images):
    """Add bad files; the reasons they are to be skipped for."""
    wanted = {}
    for k, (name, (content, why)) in enumerate(bad_files().items()):
        home = ("ant", "bee", "cat")[k % 3]
        (images / home / name).write_bytes(content)
        wanted[f"{home}/{name}"] = why
    (images / "bee" / "gone").symlink_to("nowhere")
    return {**wanted, "bee/gone": "broken link"}


def skipped(out):
    with (out / "skipped.csv").open(newline="") as file:
        heading, *rows = csv.reader(file)
    assert heading == ["file", "reason"]
    assert rows == sorted(rows)
    return dict(rows)


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_labels_and_names(tmp_path, images, network, dtype):
    out = tmp_path / "out"
    done = extract(images, out, network(), dtype=dtype)
    found = find_images(images)
    X = np.load(out / "X.npy", mmap_mode="r")
    assert (X.dtype, X.shape) == (dtype, (15, 5))
    # chunk by chunk, as it was extracted: a network may round other batches differently
    chunks = [network().fit().transform(found.files[lo : lo + 4]) for lo in range(0, 15, 4)]
    assert np.array_equal(X, np.concatenate(chunks).astype(dtype))
    assert np.load(out / "y.npy").tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert json.loads((out / "classes.json").read_text()) == ["ant", "bee", "cat"]
    names = (out / "files.txt").read_text().splitlines()
    assert names == [str(path.relative_to(images)) for path in found.files]
    assert skipped(out) == {}
    assert (done.images, done.rows, done.features, done.before) == (15, 15, 5, 0)
    assert {path.name for path in out.iterdir()} == {
        "X.npy", "y.npy", "classes.json", "files.txt", "skipped.csv", "features.safetensors",
        "extraction.json",
    }  # fmt: skip


def test_bad_files_leave_no_holes(tmp_path, images, network):
    extract(images, tmp_path / "good", network(batch_size=1))
    wanted = spoil(images)
    done = extract(images, tmp_path / "out", network(batch_size=1))
    for name in ("X.npy", "y.npy", "files.txt", "classes.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "good" / name).read_bytes()
    found = skipped(tmp_path / "out")
    assert found.keys() == wanted.keys()
    assert all(why in found[name] for name, why in wanted.items())
    assert dict(done.skipped) == found
    assert (done.images, done.rows) == (15 + len(bad_files()), 15)


def test_a_flat_folder_has_no_labels(tmp_path, images, network):
    extract(images / "ant", tmp_path / "out", network())
    assert not (tmp_path / "out" / "y.npy").exists()
    assert np.load(tmp_path / "out" / "X.npy").shape == (5, 5)
    with pytest.raises(FileError, match=r"has no y\.npy"):
        read_dataset(tmp_path / "out")


def test_a_class_without_images_keeps_its_number(tmp_path, images, network):
    for path in (images / "bee").iterdir():
        path.write_bytes(b"")
    extract(images, tmp_path / "out", network())
    assert np.load(tmp_path / "out" / "y.npy").tolist() == [0] * 5 + [2] * 5
    X, y = read_dataset(tmp_path / "out")
    assert X.shape == (10, 5)
    assert y.tolist() == ["ant"] * 5 + ["cat"] * 5


def test_a_vector_that_is_not_finite_is_skipped(tmp_path, images, network):
    path = colours(tmp_path / "huge.onnx", scale=1e38)
    black = encoded(np.zeros((20, 20, 3), np.uint8), "PNG")
    (images / "ant" / "grey.png").write_bytes(encoded(np.full((20, 20, 3), 128, np.uint8), "PNG"))
    (images / "ant" / "0.png").write_bytes(black)
    huge = OnnxEncoder(path, mean=(128 / 255,) * 3, std=(0.001,) * 3)
    extract(images, tmp_path / "out", huge)
    assert (tmp_path / "out" / "files.txt").read_text() == "ant/grey.png\n"
    assert set(skipped(tmp_path / "out").values()) == {"its vector is not finite"}


def test_what_float16_cannot_hold(tmp_path, images):
    path = colours(tmp_path / "large.onnx", scale=1e6)
    large = OnnxEncoder(path, mean=HALF, std=HALF)
    with pytest.raises(ValueError, match=r"dtype=float16 cannot hold .*; use dtype=float32"):
        extract(images, tmp_path / "out", large, dtype="float16")


def test_strict_refuses_the_first_bad_file(tmp_path, images, network):
    (images / "bee" / "3.png").write_bytes(b"")
    with pytest.raises(BadImageError, match=r"bee/3.png: empty file"):
        extract(images, tmp_path / "out", network(), strict=True)
    extract(images, tmp_path / "loose", network())
    (tmp_path / "loose" / "X.npy").rename(tmp_path / "loose" / "X.npy.part")
    (images / "ant" / "gone").symlink_to("nowhere")
    with pytest.raises(BadImageError, match=r"ant/gone: broken link"):
        extract(images, tmp_path / "loose", network(), strict=True)


def test_strict_sees_what_an_earlier_run_skipped(tmp_path, images, network, monkeypatch):
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
    (images / "ant" / "0.png").write_bytes(b"")
    stop_after(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        extract(images, tmp_path / "out", network())
    with pytest.raises(BadImageError, match=r"ant/0.png: empty file"):
        extract(images, tmp_path / "out", network(), strict=True)


def test_names_that_no_line_can_hold(tmp_path, network):
    root = tmp_path / "images"
    root.mkdir()
    names = ["a\nb.png", '"q".png', "é.png", os.fsdecode(b"\xff.png"), "z, z.png"]
    for name in names:
        (root / name).write_bytes(encoded(picture(), "PNG"))
    (root / os.fsdecode(b"\xfe.png")).write_bytes(b"")
    extract(root, tmp_path / "out", network())
    lines = (tmp_path / "out" / "files.txt").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) if line.startswith('"') else line for line in lines]
    assert read == sorted(names)
    assert "é.png" in lines
    assert skipped(tmp_path / "out") == {'"\\udcfe.png"': "empty file"}


@given(st.text(st.characters(exclude_characters="\0/"), min_size=1))
def test_a_line_is_one_line_and_says_the_name(name):
    line = line_of(Path(f"a/{name}"))
    line.encode()  # is text
    assert len(line.splitlines()) == 1
    assert (json.loads(line) if line.startswith('"') else line) == Path(f"a/{name}").as_posix()


# -- the encoder of another extraction -------------------------------------------------------------


def test_like_another(tmp_path, images):
    test = photographs(tmp_path / "test", 2, ("cat", "ant"))
    extract(images, tmp_path / "train", fisher())
    extract(test, tmp_path / "out", like=tmp_path / "train")
    assert np.load(tmp_path / "out" / "y.npy").tolist() == [0, 0, 2, 2]
    assert json.loads((tmp_path / "out" / "classes.json").read_text()) == ["ant", "bee", "cat"]
    encoder = load_encoder(tmp_path / "train" / "features.safetensors")
    X = encoder.transform(find_images(test).files)
    assert np.array_equal(np.load(tmp_path / "out" / "X.npy"), X)
    (test / "dog").mkdir()
    (test / "dog" / "1.png").write_bytes(encoded(picture(), "PNG"))
    with pytest.raises(FileError, match=r"classes.json: does not have the class 'dog'"):
        extract(test, tmp_path / "new", like=tmp_path / "train")
    with pytest.raises(FileError, match=r"lacks classes.json"):
        extract(test, tmp_path / "new", like=tmp_path)
    with pytest.raises(ValueError, match="either an encoder"):
        extract(test, tmp_path / "new")


def test_the_encoder_is_fitted_to_good_files(tmp_path, images):
    """The bad ones are left out; without them it is what the library fits."""
    extract(images, tmp_path / "good", fisher())
    fitted = fisher().fit(find_images(images).files)
    again = load_encoder(tmp_path / "good" / "features.safetensors")
    for name, array in fitted.arrays().items():
        assert np.array_equal(again.arrays()[name], array)
    spoil(images)
    extract(images, tmp_path / "out", fisher())
    assert np.load(tmp_path / "out" / "X.npy").shape == np.load(tmp_path / "good" / "X.npy").shape


def test_an_encoder_file_that_cannot_be_used(tmp_path, network):
    path = tmp_path / "features.safetensors"
    save_encoder(network().fit(), path)
    content = path.read_bytes()
    assert load_encoder(path).n_features_out_ == 5
    for changed, said in (
        (content[:-9], "cannot be read as an encoder"),
        (content.replace(b'\\"batch_size\\": 4', b'\\"batch_size\\": 5'), "checksum differs"),
        (content.replace(b'\\"version\\": 1', b'\\"version\\": 9'), "newer slender"),
        (content.replace(b"slender-features", b"slender-somewhat"), "no encoder"),
    ):
        assert changed != content
        path.write_bytes(changed)
        with pytest.raises(FileError, match=said):
            load_encoder(path)


# -- going on --------------------------------------------------------------------------------------


def stop_after(monkeypatch, chunks):
    """As if somebody had pressed Ctrl-C when so many chunks are on disk."""
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
    append, done = VectorFile.append, []

    def counted(self, *chunk):
        if len(done) == chunks:
            raise KeyboardInterrupt
        done.append(1)
        append(self, *chunk)

    monkeypatch.setattr(VectorFile, "append", counted)


@pytest.mark.parametrize("chunks", range(4))
def test_what_is_done_is_not_done_again(tmp_path, images, network, monkeypatch, chunks):
    extract(images, tmp_path / "whole", network())
    stop_after(monkeypatch, chunks)
    with pytest.raises(KeyboardInterrupt):
        extract(images, tmp_path / "out", network())
    monkeypatch.undo()
    told = []
    done = extract(images, tmp_path / "out", network(), advance=lambda *now: told.append(now))
    assert done.before == 4 * chunks
    assert told == [(n, 15) for n in (0, 4, 8, 12, 15) if n >= 4 * chunks]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["onnx", pytest.param("fisher", marks=pytest.mark.slow)])
def test_killed_at_every_file_operation(tmp_path, network, kind):
    """And while a mixture is fitted; and then twenty times in one folder."""
    images = photographs(tmp_path / "images", 3)
    (images / "bee" / "2.png").write_bytes(b"")
    encoder = network().model if kind == "onnx" else kind
    command = [sys.executable, str(KILLING), str(images), str(tmp_path), str(encoder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    events, kills = (int(text.split()[0]) for text in done.stdout.split(", "))
    assert events > 40
    assert kills > 3


@pytest.mark.slow
def test_the_command_killed_at_random_points(tmp_path, network):
    """Some times, and given again until it ends by itself; SLENDER_KILLS=20 takes minutes."""
    images = photographs(tmp_path / "images", 20, side=100)
    spoil(images)
    small = "--n-gaussians 4 --n-components 16 --descriptors 5000 --jobs 1 -q"

    def command(out):
        words = f"extract {images} --out {out} {small}"
        return subprocess.Popen([*SLENDER, *words.split()])

    assert command(tmp_path / "first").wait(timeout=300) == 0  # which compiles
    begun = time.monotonic()
    assert command(tmp_path / "whole").wait(timeout=300) == 0
    seconds = time.monotonic() - begun
    rng, killed = random.Random(0), 0
    while killed < int(os.environ.get("SLENDER_KILLS", "3")):
        out = tmp_path / "out"
        running = command(out)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert running.wait(timeout=rng.uniform(0.2, 1.0) * seconds) == 0
        if running.returncode is None:
            running.kill()
            running.wait()
            killed += 1
        else:  # it was done: once more from the start
            assert contents(out) == contents(tmp_path / "whole")
            shutil.rmtree(out)
    assert command(tmp_path / "out").wait(timeout=300) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_files_that_a_crash_has_cut(tmp_path_factory, monkeypatch, data):
    """After a power failure the two growing files may end anywhere."""
    folder = tmp_path_factory.mktemp("rows")
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    chunks = [rng.standard_normal((n, 3)).astype(np.float32) for n in (2, 0, 3, 1, 4)]
    rows = VectorFile(folder, "float32", 3)
    for place, chunk in enumerate(chunks):
        rows.append(chunk, len(chunk) + 1, [(place, "bad")])
    rows.close()
    for name in ("X.npy.part", "progress.jsonl"):
        size = (folder / name).stat().st_size
        os.truncate(folder / name, data.draw(st.integers(0, size)))
    with (folder / "progress.jsonl").open("ab") as file:
        file.write(data.draw(st.sampled_from([b"", b"\0" * 9, b"0\n", b"{}\n", b"[1]\n", b"\xff"])))
    rows = VectorFile(folder, "float32", 3)
    done = len(rows.skipped)
    assert rows.skipped == [(place, "bad") for place in range(done)]
    for place, chunk in enumerate(chunks[done:], start=done):
        rows.append(chunk, len(chunk) + 1, [(place, "bad")])
    rows.finish()
    rows.close()
    assert rows.images == 15
    assert np.array_equal(np.load(folder / "X.npy"), np.concatenate(chunks))


def test_a_complete_folder_is_left_as_it_is(tmp_path, images, network):
    out = tmp_path / "out"
    first = extract(images, out, network())
    times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    (out / "progress.jsonl").write_text("killed before it was removed")
    again = extract(images, out, network())
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == times
    assert again == first._replace(before=15, seconds_fit=0.0, seconds=0.0)


def test_another_job_is_refused_by_name(tmp_path, images, network):
    out = tmp_path / "out"
    extract(images, out, network())
    before = contents(out)
    for changes, said in (
        ({"encoder": network(batch_size=5)}, "with batch_size=4, now batch_size=5"),
        ({"encoder": network(std=(0.1, 0.2, 0.3))}, r"std=\[0.5, 0.5, 0.5\], now std=\[0.1"),
        ({"encoder": fisher()}, "features=OnnxEncoder, now features=FisherVectorizer"),
        ({"dtype": "float16"}, "with dtype=float32, now dtype=float16"),
    ):
        given = {"encoder": network(), **changes}
        with pytest.raises(FileError, match=said):
            extract(images, out, **given)
    colours(network().model, scale=2.0)
    with pytest.raises(FileError, match="with another model"):
        extract(images, out, network())
    colours(network().model)
    (images / "ant" / "new.png").write_bytes(encoded(picture(), "PNG"))
    with pytest.raises(FileError, match=r"of other images.*15 files then, 16 now"):
        extract(images, out, network())
    (images / "ant" / "new.png").unlink()
    os.utime(images / "bee" / "0.png", ns=(1, 1))
    with pytest.raises(FileError, match="or they have changed since"):
        extract(images, out, network())
    assert contents(out) == before


def test_folders_that_cannot_be_written_to(tmp_path, images, network):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("all of it")
    for out, said in (
        (tmp_path / "full", "holds other files"),
        (images, "lies in the folder of images"),
        (images / "ant" / "new", "lies in the folder of images"),
        (tmp_path / "none" / "new", "could not be written .*; create the folder"),
        (tmp_path / "network.onnx", "is a file; name a folder"),
    ):
        with pytest.raises(FileError, match=said):
            extract(images, out, network())
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    assert not (images / "ant" / "new").exists()


def test_one_at_a_time(tmp_path, images, network):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "out").mkdir()
    folder = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(FileError, match="another extraction is writing there"):
            extract(images, tmp_path / "out", network())
    finally:
        os.close(folder)
    extract(images, tmp_path / "out", network())


def test_folders_without_images(tmp_path, network):
    root = tmp_path / "images"
    root.mkdir()
    with pytest.raises(FileError, match="holds no images"):
        extract(root, tmp_path / "out", network())
    (root / "a").mkdir()
    (root / "a" / "text").write_text("text")
    with pytest.raises(FileError, match=r"none of 1 files is an image .*skipped.csv says why"):
        extract(root, tmp_path / "out", network())
    with pytest.raises(FileError, match="none of 1 files is an image"):
        extract(root, tmp_path / "fisher", fisher())
    with pytest.raises(FileError, match="is not complete"):
        read_dataset(tmp_path / "out")


# -- several at a time -----------------------------------------------------------------------------


def test_the_number_of_jobs_changes_nothing(tmp_path, images, network):
    spoil(images)
    for name, encoder in (("network", network), ("fisher", fisher)):
        for jobs in (1, 2):
            extract(images, tmp_path / f"{name}{jobs}", encoder(), n_jobs=jobs)
        assert contents(tmp_path / f"{name}1") == contents(tmp_path / f"{name}2")


def test_names_are_those_of_this_folder(tmp_path, monkeypatch):
    """Processes that were started in another one find the images too."""
    for name in ("first", "second"):
        photographs(tmp_path / name / "images", 6)
        monkeypatch.chdir(tmp_path / name)
        assert extract("images", "out", fisher(), n_jobs=2).rows == 18


def test_in_memory_it_is_the_same(tmp_path, images, network):
    spoil(images)
    extract(images, tmp_path / "out", network())
    files, told = find_images(images).files, []
    X, bad = encode_files(network().fit(), files, 2, lambda *now: told.append(now))
    assert np.array_equal(X, np.load(tmp_path / "out" / "X.npy"))
    assert told[-1] == (len(files), len(files))
    assert len(bad) == len(bad_files())


def test_nobody_needs_to_wait_for_the_last_chunk(network, images):
    """joblib would warn of results that are not used."""
    files = find_images(images).files
    encoder = network(batch_size=1).fit()
    chunks = each_chunk(encoder, files * 10, 2)
    next(chunks)
    time.sleep(0.5)
    chunks.close()


def test_processes_end_with_the_one_that_started_them(tmp_path, images):
    """Also if that one is killed, and cannot tell them."""
    script = (
        "import os, time\n"
        "from slender.features.parallel import each\n"
        "def work(task):\n    time.sleep(0.3)\n    return os.getpid()\n"
        "print(*each(work, range(16), 2), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as killed:
        workers = {int(word) for word in killed.stdout.readline().split()}
        assert killed.wait(timeout=60) == -9
    assert len(workers) == 2
    assert all_end(workers)


def test_a_process_whose_parent_is_gone_ends_with_its_first_task():
    """It was killed while this one started, or while the task was on its way."""
    script = (
        "import os, time\n"
        "from slender.features.parallel import _settle\n"
        "parent = os.getpid()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    while os.getppid() == parent:\n        time.sleep(0.01)\n"
        "    _settle(parent)\n"
        "    time.sleep(60)\n"
        "print(child, flush=True)\n"
        "os._exit(0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert parent.wait(timeout=60) == 0
    assert all_end({child})


def all_end(processes):
    """Soon."""
    deadline = time.monotonic() + 20
    while processes and time.monotonic() < deadline:
        processes = {pid for pid in processes if runs(pid)}
        time.sleep(0.1)
    return not processes


def runs(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
