"""Downloads: continued, checked, unpacked; against a server of this process that misbehaves."""

import errno
import hashlib
import io
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dataset_trees as trees
from idx_files import write_images
from processes import LISTEN
from servers import serving
from slender.datasets import DATASETS, Size, unpack
from slender.datasets.download import download
from slender.datasets.getting import get
from slender.datasets.known import Archive
from slender.storage import FileError

CONTENT = np.random.default_rng(0).bytes(2_000_000)  # several blocks
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
SHA = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in ("SLENDER_DATA", "http_proxy", "https_proxy", "all_proxy", "SLENDER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("slender.datasets.download.PAUSE", 0.0)


@pytest.fixture
def server():
    with serving() as made:
        made.files["/file"] = CONTENT
        yield made


@pytest.fixture
def fetch(server, tmp_path):
    """Download /file; what progress said is in `seen`."""

    def run(path="/file", checksum=MD5, mirrors=()):
        urls = (server.url + path, *mirrors)
        return download(
            urls, tmp_path / "file", checksum, lambda done, of: run.seen.append((done, of))
        )

    run.seen = []
    return run


def held(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


# -- one file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [MD5, SHA, None])
def test_a_file_arrives(server, fetch, tmp_path, checksum):
    assert fetch(checksum=checksum) == (checksum or SHA)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert held(tmp_path) == ["file"]
    assert [of for _, of in fetch.seen] == [len(CONTENT)] * len(fetch.seen)
    assert fetch.seen[-1][0] == len(CONTENT)
    assert sorted(fetch.seen) == fetch.seen
    assert server.asked == [("/file", None)]


def test_a_cut_connection_is_continued(server, fetch, tmp_path):
    server.cuts = [700_000, 500_000, 1]
    fetch()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [
        None,
        "bytes=700000-",
        "bytes=1200000-",
        "bytes=1200001-",
    ]


def test_a_server_that_stays_away_is_left_and_asked_again_later(server, fetch, tmp_path):
    server.cuts = [700_000]
    server.answers = [200, 503, 503, 503, 503]
    with pytest.raises(FileError, match=r"answers 503 .* what has arrived is kept, give the"):
        fetch()
    assert len(server.asked) == 5  # four attempts without a byte
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:700_000]
    fetch()
    assert server.asked[-1] == ("/file", "bytes=700000-")
    assert held(tmp_path) == ["file"]


def test_without_ranges_it_begins_again(server, fetch, tmp_path):
    server.ranges = False
    server.cuts = [700_000, 900_000]
    fetch()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert fetch.seen[-1] == (len(CONTENT), len(CONTENT))
    server.cuts = [900_000, 800_000, 800_000, 800_000, 800_000]
    (tmp_path / "file").unlink()
    with pytest.raises(FileError, match="ended the connection after 800,000 of 2,000,000 bytes"):
        fetch()
    assert not (tmp_path / "file").exists()


def test_a_part_without_a_checksum_is_not_trusted(server, fetch, tmp_path):
    (tmp_path / "file.part").write_bytes(b"of another file")
    assert fetch(checksum=None) == SHA
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [("/file", None)]


@pytest.mark.parametrize(("size", "asked"), [(len(CONTENT), 1), (len(CONTENT) + 5, 2)])
def test_a_part_that_has_it_all_or_more(server, fetch, tmp_path, size, asked):
    (tmp_path / "file.part").write_bytes((CONTENT + b"12345")[:size])
    fetch()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(server.asked) == asked


def test_a_server_that_does_not_say_how_long_it_is(server, fetch, tmp_path):
    server.lengths = False
    fetch()
    assert fetch.seen[-1] == (len(CONTENT), None)
    server.cuts = [700_000]
    (tmp_path / "file").unlink()
    with pytest.raises(FileError, match="has the checksum"):  # it cannot be seen earlier
        fetch()


def test_a_wrong_checksum_is_refused(server, fetch, tmp_path):
    server.files["/file"] = CONTENT[:-1] + b"!"
    with pytest.raises(FileError) as caught:
        fetch()
    for part in ("file has the checksum md5:", f"instead of {MD5}", "was removed, try again"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert held(tmp_path) == []


def test_a_redirection_is_followed(server, fetch, tmp_path):
    server.moved["/file?download=1"] = f"{server.url}/new?token=1"
    server.files["/new"] = CONTENT
    server.cuts = [700_000]
    fetch("/file?download=1")
    assert server.asked[-1] == ("/new?token=1", "bytes=700000-")


def test_a_file_that_is_not_there(server, fetch, tmp_path):
    with pytest.raises(FileError) as caught:
        fetch("/none")
    assert f"{server.url}/none answers 404 Not Found: the file may have moved" in str(caught.value)
    assert len(server.asked) == 1
    assert held(tmp_path) == []
    fetch("/none", mirrors=(f"{server.url}/file",))  # another address has it
    assert held(tmp_path) == ["file"]


@pytest.mark.parametrize("typed", [True, False])
def test_a_web_page_is_no_data(server, fetch, tmp_path, typed):
    server.files["/file"] = b"\n<!DOCTYPE html><html><body>Please log in.</body></html>"
    if typed:
        server.types["/file"] = "text/html; charset=utf-8"
    with pytest.raises(FileError, match="sends a web page instead of the file"):
        fetch(checksum=None)
    assert held(tmp_path) == []


def test_offline(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FileError) as caught:
        download((f"http://127.0.0.1:{port}/file",), tmp_path / "file", MD5)
    for part in ("cannot be reached (Connection refused)", "https_proxy"):
        assert part in str(caught.value)
    with pytest.raises(FileError, match=r"cannot be reached \(.*(name|Name|resolution).*\)"):
        download(("http://nowhere.invalid/file",), tmp_path / "file", MD5)


def test_a_server_that_falls_silent(server, fetch, tmp_path, monkeypatch):
    monkeypatch.setattr("slender.datasets.download.TIMEOUT", 0.2)
    server.cuts, server.stall = [700_000], 1.0
    fetch()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.files["http://data.invalid/file"] = CONTENT  # a proxy is asked for the whole address
    download(("http://data.invalid/file",), tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


# -- disks -----------------------------------------------------------------------------------------


def test_too_little_space_is_said_before_it_is_used(fetch, tmp_path, monkeypatch):
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=1_999_999))
    with pytest.raises(FileError, match="2,000,000 bytes are still to come, but only 1,999,999"):
        fetch()
    assert held(tmp_path) == []


def test_a_disk_that_fills_up(server, fetch, tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))
    try:
        with pytest.raises(FileError, match=r"file\.part: could not be written \(File too large\)"):
            fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:700_000]
    fetch()
    assert server.asked[-1] == ("/file", "bytes=700000-")


def test_a_folder_that_cannot_be_written(server, tmp_path):
    trees.touch(tmp_path / "data")
    entry = replace(DATASETS["mnist"], archives=(Archive("f", (f"{server.url}/file",), MD5),))
    with pytest.raises(FileError, match=r"data/mnist: could not be written \("):
        get(entry, tmp_path / "data")


# -- archives --------------------------------------------------------------------------------------


def tar_with(path, **members):
    """A tar of members that may be anything: name -> bytes, or a TarInfo."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "members",
    [
        {"set/a": b"1", "../outside": b"2"},
        {"set/a": b"1", "set/../../outside": b"2"},
        {"set/a": b"1", "/tmp/w-outside": b"2"},
        {"set/a": b"1", "link": special("set/link", tarfile.SYMTYPE, "/etc/passwd")},
        {"set/a": b"1", "link": special("set/link", tarfile.SYMTYPE, "a")},
        {"set/a": b"1", "link": special("set/link", tarfile.LNKTYPE, "set/a")},
        {"set/a": b"1", "pipe": special("set/pipe", tarfile.FIFOTYPE)},
        {"set/a": b"1", "device": special("set/device", tarfile.CHRTYPE)},
    ],
    ids=["..", "inside ..", "absolute", "symlink out", "symlink", "hard link", "pipe", "device"],
)
def test_a_tar_that_would_leave_its_folder(tmp_path, members):
    home = tmp_path / "data"
    home.mkdir()
    archive = tar_with(home / "set.tar.gz", **members)
    with pytest.raises(FileError, match=r"set\.tar\.gz: .*not unpacked"):
        unpack.unpack(archive, "set")
    assert held(home) == ["set.tar.gz"]
    assert held(tmp_path) == ["data"]
    assert not Path("/tmp/w-outside").exists()


@pytest.mark.parametrize("name", ["../outside", "set/../../outside", "/abs", "C:\\x", "..\\x"])
def test_a_zip_that_would_leave_its_folder(tmp_path, name):
    home = tmp_path / "data"
    home.mkdir()
    with zipfile.ZipFile(home / "set.zip", "w") as members:
        members.writestr("set/a", b"1")
        members.writestr(name, b"2")
    with pytest.raises(FileError, match=r"set\.zip: .* would leave its folder: not unpacked"):
        unpack.unpack(home / "set.zip", "set")
    assert held(home) == ["set.zip"]
    assert held(tmp_path) == ["data"]


def test_archives_that_cannot_be_used(tmp_path, monkeypatch):
    good = tar_with(tmp_path / "good.tar.gz", **{"set/a": bytes(100_000)})
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(good.read_bytes()[:-30])
    for path, part in {
        trees.touch(tmp_path / "text.tar", b"hello") or tmp_path / "text.tar": "neither a tar nor",
        cut: "damaged or unsafe",
        tar_with(tmp_path / "other.tar.gz", **{"b/a": b"1"}): "has no folder set in it",
    }.items():
        with pytest.raises(FileError) as caught:
            unpack.unpack(path, "set")
        assert part in str(caught.value)
    with pytest.raises(FileError, match=r"has no inner\.tar in it"):
        unpack.unpack(good, "set", "inner.tar")
    monkeypatch.setattr(unpack, "ROOM", 99_999)
    monkeypatch.setattr(unpack, "TIMES", 1)
    with pytest.raises(FileError, match="would unpack to more than 99,999 bytes"):
        unpack.unpack(good, "set")
    assert not [name for name in held(tmp_path) if name.startswith((".", "set"))]
    (tmp_path / "set").mkdir()
    with pytest.raises(FileError, match="is there already; remove or rename it"):
        unpack.unpack(good, "set")


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_nothing_is_left_half_unpacked(tmp_path, monkeypatch, failure):
    good = tar_with(tmp_path / "good.tar.gz", **{"set/a": b"1", "set/b": b"2"})
    extract = tarfile.TarFile.extract

    def fails(self, member, *rest, **more):
        if member.name == "set/b":
            raise failure
        return extract(self, member, *rest, **more)

    monkeypatch.setattr(tarfile.TarFile, "extract", fails)
    with pytest.raises((KeyboardInterrupt, FileError)) as caught:
        unpack.unpack(good, "set")
    if isinstance(failure, OSError):
        assert "No space left); free some space" in str(caught.value)
    assert held(tmp_path) == ["good.tar.gz"]


# -- whole data sets -------------------------------------------------------------------------------


def served(server, path):
    """Put a file on the server; its address and checksum."""
    server.files[f"/{path.name}"] = path.read_bytes()
    return f"{server.url}/{path.name}", "md5:" + hashlib.md5(path.read_bytes()).hexdigest()


def mnist(server, tmp_path):
    folder = tmp_path / "there" / "mnist"
    write_images(folder)
    real = DATASETS["mnist"]
    archives = []
    for each in real.archives:
        url, checksum = served(server, folder / each.file)
        archives.append(each._replace(urls=(url,), checksum=checksum))
    return replace(real, archives=tuple(archives), kept=60, size=Size(60, 12, 3, 6))


def cifar10(server, tmp_path):
    entry, _ = trees.cifar10(tmp_path / "there")
    packed = trees.tar_of(
        tmp_path / "there" / "cifar-10-batches-bin", tmp_path / "cifar-10-binary.tar.gz"
    )
    return with_archive(server, entry, packed)


def caltech256(server, tmp_path):
    entry = trees.caltech256(tmp_path / "there")
    packed = trees.tar_of(
        tmp_path / "there" / "256_ObjectCategories", tmp_path / "256_ObjectCategories.tar"
    )
    return with_archive(server, entry, packed)


def caltech101(server, tmp_path):
    """A zip of a folder with tars in it, as Caltech has it now."""
    entry = trees.caltech101(tmp_path / "there")
    inner = trees.tar_of(
        tmp_path / "there" / "101_ObjectCategories", tmp_path / "101_ObjectCategories.tar.gz"
    )
    packed = tmp_path / "caltech-101.zip"
    with zipfile.ZipFile(packed, "w") as members:
        members.write(inner, f"caltech-101/{inner.name}")
        members.writestr("caltech-101/Annotations.tar", b"not needed")
        members.writestr("__MACOSX/caltech-101/._101_ObjectCategories.tar.gz.txt", b"junk")
    return with_archive(server, entry, packed)


def with_archive(server, entry, packed):
    url, checksum = served(server, packed)
    assert entry.archives[0].file == packed.name
    archive = entry.archives[0]._replace(urls=(f"{url}?download=1",), checksum=checksum)
    return replace(entry, archives=(archive,))


SETS = {"mnist": mnist, "cifar10": cifar10, "caltech256": caltech256, "caltech101": caltech101}


@pytest.mark.parametrize("name", SETS)
def test_a_data_set_is_got(server, tmp_path, name):
    entry = SETS[name](server, tmp_path)
    data = tmp_path / "data" / "below"  # neither is there yet
    got = get(entry, data)
    assert got.report.complete
    assert list(got.checksums) == [each.file for each in entry.archives]
    assert got.unsure == []
    assert held(data) == [entry.places[0]]  # no archive, no part, nothing temporary
    entry.load(data)
    before = len(server.asked)
    assert get(entry, data).checksums == {}  # nothing is missing
    assert len(server.asked) == before


def test_only_files_that_are_missing_are_got(server, tmp_path):
    entry = mnist(server, tmp_path)
    shutil.copytree(tmp_path / "there", tmp_path / "data")
    labels = tmp_path / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz"
    labels.unlink()
    assert list(get(entry, tmp_path / "data").checksums) == [labels.name]


def test_an_archive_that_is_kept_or_lies_there_is_used(server, tmp_path):
    entry = cifar10(server, tmp_path)
    data = tmp_path / "data"
    get(entry, data, keep=True)
    assert held(data) == ["cifar-10-batches-bin", "cifar-10-binary.tar.gz"]
    shutil.rmtree(data / "cifar-10-batches-bin")
    before = len(server.asked)
    assert get(entry, data, keep=True).checksums == {}
    assert len(server.asked) == before
    shutil.rmtree(data / "cifar-10-batches-bin")
    (data / "cifar-10-binary.tar.gz").write_bytes(b"another")
    with pytest.raises(FileError, match="its checksum is not md5:"):
        get(entry, data)


def test_what_is_there_and_not_complete_is_left_alone(server, tmp_path):
    entry = cifar10(server, tmp_path)
    trees.touch(tmp_path / "data" / "cifar-10-batches-bin" / "data_batch_1.bin")
    with pytest.raises(FileError, match=r"is there, but not complete .*; remove or rename it"):
        get(entry, tmp_path / "data")
    assert server.asked == []


def test_an_archive_that_unpacks_to_less_is_said(server, tmp_path):
    entry = cifar10(server, tmp_path)
    with pytest.raises(FileError, match=r"downloaded, but .* is not complete: data_batch_1\.bin"):
        get(replace(entry, size=Size(50, 3, 10, 3072)), tmp_path / "data")


def test_where_no_checksum_is_known_it_is_said(server, tmp_path):
    entry = cifar10(server, tmp_path)
    archive = entry.archives[0]._replace(checksum=None)
    got = get(replace(entry, archives=(archive,)), tmp_path / "data")
    assert got.unsure == [archive.file]
    packed = (tmp_path / archive.file).read_bytes()
    assert got.checksums[archive.file] == "sha256:" + hashlib.sha256(packed).hexdigest()


def test_what_cannot_be_got_says_what_to_do(server, tmp_path):
    with pytest.raises(
        FileError, match=r"ilsvrc2010: no public address .*LSVRC/2010.*: unpack its"
    ):
        get(DATASETS["ilsvrc2010"], tmp_path)
    with pytest.raises(FileError, match="digits: needs no download"):
        get(DATASETS["digits"], tmp_path)
    with pytest.raises(FileError, match="where to\\? give --data-dir FOLDER, or set SLENDER_DATA"):
        get(DATASETS["mnist"])
    entry = mnist(server, tmp_path)
    server.files.clear()
    with pytest.raises(FileError, match=r"404 .* by hand: put its four IDX files"):
        get(entry, tmp_path / "data")


# -- the command -----------------------------------------------------------------------------------


def test_the_command_gets(server, tmp_path, slender, monkeypatch):
    entry = caltech256(server, tmp_path)
    monkeypatch.setitem(DATASETS, "caltech256", entry)
    data = tmp_path / "data"
    code, out, err = slender("datasets", "get", "caltech256", "--data-dir", data)
    assert (code, err) == (0, "")
    assert f"caltech256 is complete, in {data / '256_ObjectCategories'}" in out
    assert f"256_ObjectCategories.tar: {entry.archives[0].checksum}, as it should be" in out
    assert slender("datasets", "check", "caltech256", "--data-dir", data)[0] == 0
    assert slender("datasets", "get", "caltech256", "--data-dir", data, "-q") == (0, "", "")


def test_the_command_says_what_went_wrong(server, tmp_path, slender, monkeypatch):
    monkeypatch.setitem(DATASETS, "mnist", mnist(server, tmp_path))
    server.files.clear()
    code, out, err = slender("datasets", "get", "mnist", "--data-dir", tmp_path / "data")
    assert (code, out) == (2, "")
    assert err.startswith("slender: mnist: train-images-idx3-ubyte.gz could not be downloaded: ")
    assert err.count("\n") == 1


GET = """
from dataclasses import replace
from slender.datasets import DATASETS, Size
from slender.datasets.known import Archive
import sys
url, checksum = sys.argv[1:3]
archive = Archive("train-images-idx3-ubyte.gz", (url,), checksum)
DATASETS["mnist"] = replace(DATASETS["mnist"], archives=(archive,))
from slender.cli import main
main(["datasets", "get", "mnist", "--data-dir", sys.argv[3]])
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_has_arrived(server, tmp_path, sent):
    server.cuts, server.stall = [700_000], 20.0
    words = [sys.executable, "-c", f"{LISTEN}\n{GET}", f"{server.url}/file", MD5, str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "mnist" / "train-images-idx3-ubyte.gz.part"
    deadline = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size == 700_000) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(sent)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err == "slender: interrupted; what has arrived is kept; the same command continues\n"
    assert part.read_bytes() == CONTENT[:700_000]
    assert held(part.parent) == [part.name]
