"""Every kind of file that a folder of images may hold is read, or refused with a reason."""

import contextlib
import errno
import os
import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bad_images import bad_files, encoded, exif, odd_images, picture, stored
from slender.features import images
from slender.features.images import BadImageError, find_images, read_image
from slender.storage import FileError

ODD, BAD = odd_images(), bad_files()
SIGNATURES = [b"", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0", b"RIFF"]


def reason(path, max_size=None):
    with pytest.raises(BadImageError) as caught:
        read_image(path, max_size)
    assert caught.value.path == Path(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_odd_images_are_read(tmp_path, name):
    content, shown, most = ODD[name]
    (tmp_path / name).write_bytes(content)
    found = read_image(tmp_path / name)
    assert (found.shape, found.dtype) == (shown.shape, np.uint8)
    assert np.abs(found.astype(int) - shown).max() <= most


@pytest.mark.parametrize("max_size", [None, 100])
@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_a_reason(tmp_path, name, max_size):
    content, why = BAD[name]
    (tmp_path / name).write_bytes(content)
    assert why in reason(tmp_path / name, max_size)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(tmp_path, orientation):
    image = picture()
    content = encoded(stored(image, orientation), "PNG", exif=exif(orientation))
    (tmp_path / "a.png").write_bytes(content)
    assert np.array_equal(read_image(tmp_path / "a.png"), image)
    assert read_image(tmp_path / "a.png", 32).shape == (24, 32, 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_large_images_are_shrunk_and_small_ones_are_not(tmp_path, kind):
    """To the mean of what they show, as far as one pixel in the original knows it."""
    image = picture(300, 400)
    (tmp_path / "a").write_bytes(encoded(image, kind, quality=95))
    small = read_image(tmp_path / "a", 40)
    assert small.shape == (30, 40, 3)
    blocks = image.reshape(30, 10, 40, 10, 3).mean(axis=(1, 3))
    assert np.abs(small - blocks).max() < 12
    assert read_image(tmp_path / "a", 400).shape == (300, 400, 3)
    assert read_image(tmp_path / "a", 4000).shape == (300, 400, 3)


def test_no_side_is_shrunk_away(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(picture(2, 20_000), "JPEG"))
    assert read_image(tmp_path / "a.jpg", 300).shape == (1, 300, 3)


def test_of_a_jpeg_only_what_is_decoded_counts(tmp_path, monkeypatch):
    """A JPEG is decoded shrunk: it may have more pixels than other files."""
    monkeypatch.setattr(images, "MAX_PIXELS", 100_000)
    wide = picture(300, 2000)
    (tmp_path / "a.jpg").write_bytes(encoded(wide, "JPEG"))
    (tmp_path / "p.jpg").write_bytes(encoded(wide, "JPEG", progressive=True))
    (tmp_path / "a.png").write_bytes(encoded(wide, "PNG"))
    assert read_image(tmp_path / "a.jpg", 200).shape == (30, 200, 3)
    assert reason(tmp_path / "a.jpg") == "too many pixels"
    assert reason(tmp_path / "a.png", 200) == "too many pixels"
    assert reason(tmp_path / "p.jpg", 200) == "too many pixels"  # its decoder holds all of it
    monkeypatch.setattr(images, "MAX_JPEG_PIXELS", 500_000)
    assert reason(tmp_path / "a.jpg", 200) == "too many pixels"


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert reason(tmp_path / "pipe") == "not a regular file"
    assert reason(tmp_path) == "a folder"
    assert reason(tmp_path / "none.jpg") == "no such file or directory"


def test_what_may_not_be_read(tmp_path, monkeypatch):
    """As the system says it; root may read everything, so it is said for the system."""
    (tmp_path / "a.jpg").write_bytes(encoded(picture(), "JPEG"))

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    assert reason(tmp_path / "a.jpg") == "permission denied"


def test_what_is_wrong_with_the_machine_is_no_bad_image(tmp_path, monkeypatch):
    """Skipping all files that follow would lose them without need."""
    (tmp_path / "a.jpg").write_bytes(encoded(picture(), "JPEG"))

    def refuse(self, *args, **kwargs):
        raise OSError(errno.EMFILE, "Too many open files", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        read_image(tmp_path / "a.jpg")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_by_its_permissions(tmp_path):
    home = tmp_path / "closed"
    home.mkdir()
    (tmp_path / "a.jpg").write_bytes(encoded(picture(), "JPEG"))
    (tmp_path / "a.jpg").chmod(0)
    home.chmod(0)
    try:
        assert reason(tmp_path / "a.jpg") == "permission denied"
        assert (home, "permission denied") in find_images(tmp_path).skipped
    finally:
        home.chmod(0o700)


@given(st.sampled_from(SIGNATURES), st.binary(max_size=200))
def test_no_content_raises_another_error(tmp_path_factory, head, rest):
    path = tmp_path_factory.getbasetemp() / "noise"
    path.write_bytes(head + rest)
    reason(path)


@given(st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "WEBP"]), st.data())
def test_no_damage_raises_another_error(tmp_path_factory, kind, data):
    content = bytearray(encoded(picture(16, 16), kind))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(BadImageError):
        assert read_image(path, 8).shape[2] == 3


def test_the_error_survives_the_way_to_another_process():
    error = pickle.loads(pickle.dumps(BadImageError("a.jpg", "truncated")))
    assert (error.path, error.reason) == (Path("a.jpg"), "truncated")


def test_warnings_are_as_before_after_threads_have_read(tmp_path):
    (tmp_path / "a.png").write_bytes(ODD["transparent.png"][0])
    before = list(warnings.filters)
    readers = [
        threading.Thread(target=lambda: [read_image(tmp_path / "a.png") for _ in range(20)])
        for _ in range(8)
    ]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert warnings.filters == before


# -- finding ---------------------------------------------------------------------------------------


def tree(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found_in(root):
    found = find_images(root)
    names = [str(path.relative_to(root)) for path in found.files]
    skipped = {str(path.relative_to(root)): why for path, why in found.skipped}
    return names, found.labels, found.classes, skipped


def test_folders_are_classes_and_everything_is_in_order(tmp_path):
    tree(tmp_path, "b/2.jpg", "a/9.jpg", "a/10.jpg", "b/deep/er/1.jpg", "c/.hidden", "b/Z.txt")
    names, labels, classes, skipped = found_in(tmp_path)
    assert names == ["a/10.jpg", "a/9.jpg", "b/2.jpg", "b/Z.txt", "b/deep/er/1.jpg"]
    assert labels == ["a", "a", "b", "b", "b"]
    assert classes == ["a", "b"]
    assert skipped == {"c/.hidden": "hidden"}


def test_a_flat_folder_has_no_classes(tmp_path):
    tree(tmp_path, "2.jpg", "1.jpg", ".DS_Store", ".cache/3.jpg")
    names, labels, classes, skipped = found_in(tmp_path)
    assert (names, labels, classes) == (["1.jpg", "2.jpg"], [], [])
    assert skipped == {".DS_Store": "hidden", ".cache": "hidden"}


def test_files_beside_the_classes_are_skipped(tmp_path):
    tree(tmp_path, "README.txt", "a/1.jpg")
    assert found_in(tmp_path) == (["a/1.jpg"], ["a"], ["a"], {"README.txt": "in no class folder"})


def test_the_same_name_in_several_folders(tmp_path):
    tree(tmp_path, "a/1.jpg", "b/1.jpg", "b/c/1.jpg")
    assert found_in(tmp_path)[0] == ["a/1.jpg", "b/1.jpg", "b/c/1.jpg"]


def test_links_are_followed(tmp_path):
    tree(tmp_path, "elsewhere/x/1.jpg", "elsewhere/2.jpg", "images/a/3.jpg")
    (tmp_path / "images/a/file").symlink_to(tmp_path / "elsewhere/2.jpg")
    (tmp_path / "images/a/folder").symlink_to(tmp_path / "elsewhere/x")
    (tmp_path / "images/b").symlink_to(tmp_path / "elsewhere/x")
    names, labels, _, skipped = found_in(tmp_path / "images")
    assert names == ["a/3.jpg", "a/file", "a/folder/1.jpg", "b/1.jpg"]
    assert labels == ["a", "a", "a", "b"]
    assert skipped == {}


def test_loops_of_links_end(tmp_path):
    tree(tmp_path, "a/1.jpg", "b/2.jpg")
    (tmp_path / "a/itself").symlink_to("itself")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/here").symlink_to(".")
    (tmp_path / "a/other").symlink_to("../b")
    (tmp_path / "b/other").symlink_to("../a")
    (tmp_path / "b/gone").symlink_to("nowhere")
    names, _, _, skipped = found_in(tmp_path)
    assert names == ["a/1.jpg", "a/other/2.jpg", "b/2.jpg", "b/other/1.jpg"]
    loop = "a loop of links"
    assert skipped == {
        "a/here": loop,
        "a/itself": loop,
        "a/up": loop,
        "a/other/gone": "broken link",
        "a/other/other": loop,
        "b/gone": "broken link",
        "b/other/here": loop,
        "b/other/itself": loop,
        "b/other/other": loop,
        "b/other/up": loop,
    }


def test_a_folder_counts_once_in_a_class(tmp_path):
    """Else links among n folders would be read in all their orders."""
    names = "abcdefgh"
    tree(tmp_path, *(f"{name}/{name}.jpg" for name in names))
    for one in names:
        for other in set(names) - {one}:
            (tmp_path / one / f"to {other}").symlink_to(f"../{other}")
    found = find_images(tmp_path)
    assert len(found.files) == len(names) ** 2
    assert {why for _, why in found.skipped} == {
        "a loop of links",
        "a folder that was read already",
    }


def test_names_of_any_kind(tmp_path):
    odd = ["é", "e\u0301", "日本", "a\nb", " ", "-rf", '"quoted"', "🍄"]
    tree(tmp_path, *(f"{name}/{name}.jpg" for name in odd))
    names, labels, classes, _ = found_in(tmp_path)
    assert classes == sorted(odd)
    assert names == [f"{label}/{label}.jpg" for label in labels]


def test_names_that_are_not_utf8(tmp_path):
    home = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(home)
    except OSError:
        pytest.skip("this file system has Unicode names only")
    Path(os.fsdecode(home + b"/\xff.png")).write_bytes(encoded(picture(), "PNG"))
    found = find_images(tmp_path)
    assert found.classes == ["caf\\xe9"]
    assert read_image(found.files[0]).shape == (48, 64, 3)


def test_what_is_no_folder(tmp_path):
    tree(tmp_path, "file")
    with pytest.raises(FileError, match="is not a folder"):
        find_images(tmp_path / "file")
    with pytest.raises(FileError, match="no such folder"):
        find_images(tmp_path / "none")
