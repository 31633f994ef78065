"""Patches on a grid, dense SIFT, local colour: naive versions, OpenCV, cases worked by hand."""

import numpy as np
import pytest
from benchmarks.textures import texture
from hypothesis import given
from hypothesis import strategies as st

import naive_fisher as naive
from slender.features import colour, grid, sift


def described(channel, image, cell, step=4, pixels=grid.BAND_PIXELS):
    height, width, _ = image.shape
    made = [
        piece.copy()
        for band in grid.bands(height, width, [cell], step, pixels)
        for piece in channel.descriptors(image[band.top : band.bottom], band.grids)
    ]
    return np.concatenate(made)


# -- the grid ------------------------------------------------------------------------------------

sides = st.integers(1, 90)
several = st.lists(st.integers(2, 12), min_size=1, max_size=3, unique=True)


@given(sides, sides, several, st.integers(1, 9))
def test_the_patches_are_those_that_fit(height, width, scales, step):
    found = {cell: [] for cell in scales}
    for band in grid.bands(height, width, scales, step, pixels=1):
        for g in band.grids:
            for rows in g.pieces():
                tops = band.top + g.rows.cells[rows]  # (patches, 4): where its cells start
                assert (np.diff(tops) == g.cell).all()
                found[g.cell] += tops[:, 0].tolist()
            lefts = g.columns.cells[g.columns.own]
            assert (np.diff(lefts) == g.cell).all()
            assert lefts[:, 0].tolist() == naive.patch_starts(width, g.cell, step)
            assert band.top + g.rows.cells.max() + g.cell <= band.bottom <= height
    for cell in scales:
        rows = naive.patch_starts(height, cell, step)
        assert found[cell] == (rows if naive.patch_starts(width, cell, step) else [])
    count = sum(
        len(naive.patch_starts(height, c, step)) * len(naive.patch_starts(width, c, step))
        for c in scales
    )
    assert grid.n_patches(height, width, scales, step) == count


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (15, 16), (7, 3), (40, 1)])
def test_a_small_image_is_extended_to_one_patch(shape):
    image = texture(*shape)
    large = grid.large_enough(image, (6, 4))
    assert min(large.shape[:2]) >= 16
    assert large.shape[:2] == tuple(max(side, 16) for side in shape)
    top, left = (max(0, 16 - side) // 2 for side in shape)
    np.testing.assert_array_equal(large[top : top + shape[0], left : left + shape[1]], image)
    assert grid.n_patches(*large.shape[:2], (6, 4), 4) > 0
    np.testing.assert_array_equal(np.unique(large), np.unique(image))


# -- against naive versions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "cell", "step"),
    [((24, 31), 4, 4), ((23, 20), 3, 5), ((40, 44), 8, 4), ((9, 8), 2, 1)],
)
def test_sift_is_what_its_formulas_say(shape, cell, step):
    image = texture(*shape)
    expected = naive.sift(image, cell, step)
    assert (expected != 0).any(axis=1).all()
    np.testing.assert_allclose(described(sift, image, cell, step), expected, atol=3e-5)


@pytest.mark.parametrize(("shape", "cell", "step"), [((24, 31), 4, 4), ((23, 20), 3, 5)])
def test_colour_is_what_its_formulas_say(shape, cell, step):
    image = texture(*shape)
    expected = naive.colour(image, cell, step)
    np.testing.assert_allclose(described(colour, image, cell, step), expected, atol=1e-6)


def test_colour_of_the_largest_cell_does_not_overflow():
    image = np.full((4 * colour.MAX_CELL, 4 * colour.MAX_CELL, 3), 255, np.uint8)
    (found,) = described(colour, image, colour.MAX_CELL)
    assert (found == np.tile([1, 1, 1, 0, 0, 0], 16)).all()


@pytest.mark.parametrize("channel", [sift, colour])
def test_bands_and_pieces_change_nothing(channel, monkeypatch):
    image = texture(150, 60)
    for cell in (3, 4, 10):
        whole = described(channel, image, cell)
        assert len(list(grid.bands(150, 60, [cell], 4, pixels=1))) > 1
        with monkeypatch.context() as patch:
            patch.setattr(grid, "PIECE", 7)
            parts = described(channel, image, cell, pixels=1)
        np.testing.assert_allclose(parts, whole, atol=1e-6)


# -- worked cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_orientations_count_anticlockwise_from_the_right(turns):
    """A ramp that grows to the right has orientation 0 only; upwards, 90°, orientation 2."""
    ramp = np.broadcast_to(8 * np.arange(24, dtype=np.uint8)[None, :, None], (24, 24, 3))
    image = np.ascontiguousarray(np.rot90(ramp, turns))
    found = described(sift, image, 4).reshape(-1, 16, 8)
    assert (found[:, :, 2 * turns] > 0.1).all()
    found[:, :, 2 * turns] = 0
    np.testing.assert_allclose(found, 0, atol=1e-6)


def test_a_diagonal_gradient_lies_between_two_orientations():
    y, x = np.mgrid[:24, :24]
    angle = np.deg2rad(30)  # two thirds of the way from 0° to 45°
    image = np.rint(100 + 5 * (np.cos(angle) * x - np.sin(angle) * y)).astype(np.uint8)
    found = described(sift, np.repeat(image[:, :, None], 3, axis=2), 6, step=1)
    corners = found.reshape(-1, 16, 8)[:, [0, 3, 12, 15]]  # those in the middle are clamped
    np.testing.assert_allclose(corners[:, :, 1] / corners[:, :, 0], 2, atol=0.25)
    np.testing.assert_allclose(corners[:, :, 2:], 0, atol=0.02)


def test_flat_patches_are_zeros_and_others_have_norm_1():
    image = np.full((40, 120, 3), 90, np.uint8)
    image[:, 60:] = texture(40, 60)
    found = described(sift, image, 4)
    norms = np.linalg.norm(found, axis=1)
    flat = norms == 0
    assert 0 < flat.mean() < 0.6
    np.testing.assert_allclose(norms[~flat], 1, atol=1e-5)
    np.testing.assert_array_equal(sift.textured(found), found[~flat])


def test_contrast_is_measured_in_grey_levels_per_pixel():
    """On a ramp of g levels per pixel, a cell is g times its window's weight."""
    least = sift.CONTRAST / np.linalg.norm(sift.window()[::8])
    assert 0.2 < least < 1
    x = np.arange(200)
    for slope, flat in ((0.8 * least, True), (1.25 * least, False)):
        row = np.rint(slope * x).astype(np.uint8)
        image = np.ascontiguousarray(np.broadcast_to(row[None, :, None], (56, 200, 3)))
        inner = described(sift, image, 12)  # large cells: whole numbers average out
        assert ((inner == 0).all(axis=1) == flat).mean() > 0.9


@given(st.integers(0, 10_000), st.sampled_from([3, 5]))
def test_turning_an_image_turns_its_descriptor(seed, cell):
    image = texture(4 * cell, 4 * cell, seed)
    (plain,) = described(sift, image, cell).reshape(-1, 4, 4, 8)
    (turned,) = described(sift, np.ascontiguousarray(np.rot90(image)), cell).reshape(-1, 4, 4, 8)
    np.testing.assert_allclose(turned, np.roll(np.rot90(plain), 2, axis=2), atol=1e-4)


@given(st.integers(0, 10_000), st.integers(0, 50))
def test_brightness_and_contrast_do_not_matter(seed, offset):
    image = texture(20, 20, seed, levels=100)
    brighter = (2 * image + offset).astype(np.uint8)
    np.testing.assert_allclose(described(sift, brighter, 4), described(sift, image, 4), atol=1e-4)


# -- against OpenCV ------------------------------------------------------------------------------


def of_opencv(cv2, grey, cell, step):
    """OpenCV's descriptors of the same patches; sift.py has the correspondence."""
    height, width = grey.shape
    middle = cell // 2 + 1.5 * cell
    keypoints = [
        cv2.KeyPoint(left + middle, top + middle, 2 * cell / 3, 0.0, 0.0, 0)
        for top in naive.patch_starts(height, cell, step)
        for left in naive.patch_starts(width, cell, step)
    ]
    return cv2.SIFT_create(sigma=cell / 6).compute(grey, keypoints)[1]


@pytest.mark.parametrize("cell", [4, 6, 8, 10])
def test_descriptors_correlate_with_those_of_opencv(cell):
    cv2 = pytest.importorskip("cv2")
    image = np.repeat(texture(100, 130)[:, :, :1], 3, axis=2)
    ours, theirs = described(sift, image, cell), of_opencv(cv2, image[:, :, 0], cell, 4)
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(ours, theirs, strict=True)]
    assert np.median(correlations) > 0.99  # 0.92 to 0.98 if it were a pixel away
    assert min(correlations) > 0.96
