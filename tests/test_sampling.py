"""A pass visits all positives of a class and the right number of fresh negatives, shuffled."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slender.labels import ClassIndex, Indicator, counts, positives
from slender.solvers.sampling import negatives_used, pass_over


def visits_by_class(active, labels, n_classes, negatives, row_bytes, seed):
    mine = positives(labels, n_classes, active)
    result = [[] for _ in range(n_classes)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(active))
    for chunk in pass_over(active, order, mine, negatives, rng).portions(row_bytes):
        for c in range(n_classes):
            for lo, hi in zip(chunk.first[:, c], chunk.last[:, c], strict=True):
                assert (np.diff(chunk.pos[lo:hi]) > 0).all()
            result[c] += list(chunk.of_class(c))
    return result


@given(
    st.integers(2, 5),
    st.integers(10, 60),
    st.sampled_from(["all", 0.5, 1, 3]),
    st.integers(0, 2**31),
    st.sampled_from([1, 2**18, 2**22]),
)
def test_a_pass(n_classes, n, negatives, seed, row_bytes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n).astype(np.int32)
    active = np.flatnonzero(rng.random(n) < 0.8)
    if not len(active):
        return
    per_class = visits_by_class(active, ClassIndex(codes, 0), n_classes, negatives, row_bytes, seed)
    n_positives = np.bincount(codes[active], minlength=n_classes)
    used = negatives_used(negatives, n_positives, len(active))
    for c, visited in enumerate(per_class):
        assert len(set(visited)) == len(visited), "an example is visited once a pass"
        assert set(visited) <= set(active)
        own = [i for i in visited if codes[i] == c]
        assert sorted(own) == sorted(active[codes[active] == c]), "all positives"
        assert len(visited) - len(own) == used[c]
        if negatives == "all":
            assert len(visited) == len(active)


def test_negatives_used_is_capped_and_never_nothing():
    n_positives = np.array([0, 1, 5, 9, 10])
    np.testing.assert_array_equal(negatives_used(1, n_positives, 10), [1, 1, 5, 1, 0])
    np.testing.assert_array_equal(negatives_used("all", n_positives, 10), [10, 9, 5, 1, 0])


def test_draws_are_fresh_each_pass_and_uniform():
    n, codes = 40, np.zeros(40, np.int32)
    codes[:4] = 1
    active, labels = np.arange(n), ClassIndex(codes, 1)
    mine = positives(labels, 1, active)
    rng = np.random.default_rng(0)
    drawn = np.zeros(n)
    place = np.zeros(n)
    for _ in range(2000):
        for chunk in pass_over(active, rng.permutation(n), mine, 1, rng).portions(8):
            visited = chunk.order[chunk.pos]
            drawn[visited] += 1
            place[visited] += np.arange(len(visited))
    assert (drawn[:4] == 2000).all()
    expected = 2000 * 4 / 36  # each of 36 negatives, 4 a pass
    assert np.abs(drawn[4:] - expected).max() < 5 * np.sqrt(expected)
    assert np.abs(place[:4] / 2000 - 3.5).max() < 0.25, "positives are shuffled among negatives"


def test_labels_agree_between_codes_and_indicator():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, 30).astype(np.int32)
    active = np.sort(rng.choice(30, 20, replace=False))
    by_code = positives(ClassIndex(codes, 0), 4, active)
    by_indicator = positives(Indicator(codes[:, None] == np.arange(4)), 4, active)
    for a, b in zip(by_code, by_indicator, strict=True):
        np.testing.assert_array_equal(np.sort(a), b)


def test_positives_are_counted():
    """As many as are listed, for all examples and for some, one class a row or several."""
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(40, 25, replace=False))
    binary = ClassIndex(rng.integers(2, size=40).astype(np.int32), 1)
    labels = [
        (ClassIndex(rng.integers(4, size=40).astype(np.int32), 0), 6),  # two classes have none
        (binary, 1),
        (Indicator(rng.random((40, 3)) < 0.4), 3),
        (Indicator(rng.random((40, 5)) < 0.4, 2), 3),
    ]
    for y, n_classes in labels:
        for active in (np.arange(40), some):
            expected = [len(mine) for mine in positives(y, n_classes, active)]
            np.testing.assert_array_equal(counts(y, n_classes, active), expected)
