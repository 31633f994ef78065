"""The sample of the line search: which rows it holds once nearly all are classified with certainty.

The other tests of the line search are in test_multinomial.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from slender import LogisticClassifier
from slender.arrays import dot
from slender.curvature.doubtful import wanted
from slender.data import Examples
from slender.problem import Multinomial
from slender.rows import as_rows
from slender.solvers import linesearch

N, D, C = 20_000, 12, 6


@given(
    st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=1, max_size=40),
    st.integers(0, 30),
)
def test_chances_are_in_proportion_up_to_certainty(h, m):
    h = np.array(h)
    chance = linesearch.chances(h, m)
    positive = int((h > 0.0).sum())
    assert chance.min() >= 0.0
    assert chance.max() <= 1.0
    assert chance.sum() == pytest.approx(min(m, positive), rel=1e-9)
    some = (chance > 0.0) & (chance < 1.0)
    if some.any():
        rate = chance[some] / h[some]
        assert np.ptp(rate) <= 1e-9 * rate.max()
        assert (h[chance == 1.0] >= 0.999 * h[some].max()).all()


def test_places_are_drawn_with_their_chances():
    chance = np.array([0.0, 0.2, 1.0, 0.05, 0.5, 0.25, 0.0])
    rng = np.random.default_rng(0)
    counts, draws = np.zeros(len(chance)), 20_000
    for _ in range(draws):
        drawn = linesearch.systematic(chance, rng)
        assert len(drawn) == 2  # their sum
        counts[drawn] += 1
    np.testing.assert_allclose(counts / draws, chance, atol=5 * 0.5 / np.sqrt(draws))
    assert counts[0] == counts[-1] == 0
    assert counts[2] == draws


def nearly_separable():
    """A problem, and a point where most of the curvature is that of a few rows."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((C, D))
    y = rng.integers(C, size=N).astype(np.int32)
    X = 2.2 * centres[y] + rng.standard_normal((N, D))
    w = rng.uniform(0.5, 1.5, N)
    problem = Multinomial(Examples(as_rows(X), y, w / w.sum()), C)
    model = LogisticClassifier(C=100.0, random_state=0).fit(X, y, w)
    theta = problem.theta(model.coef_, model.intercept_)
    few = problem.at(theta, 0.0, second=True)
    return problem, problem.at(theta, 0.0, wanted=wanted(problem, few.A.diagonal)), rng


def test_doubtful_rows_make_the_curvature_of_a_sample_certain():
    """Its mean over many draws is that of all rows, and it varies much less."""
    problem, point, rng = nearly_separable()
    doubts = point.doubts
    assert doubts.h.sum() > 0.5 * doubts.a.sum()
    direction = np.column_stack([rng.standard_normal((C, D)), np.zeros(C)])
    step = 1e-4 * direction
    change = (
        problem.at(point.theta + step, 0.0).gradient - problem.at(point.theta - step, 0.0).gradient
    )
    exact = dot(direction, change) / 2e-4

    def estimates(focused):
        for seed in range(30):
            own = np.random.default_rng(seed)
            sample = linesearch.draw(problem, own)
            rows = len(sample.X)
            sample.move_to(point.theta)
            if focused:
                sample.focus(problem, point, own)
                assert abs(len(sample.X) - rows) < 0.1 * rows
            yield linesearch.moments(sample.along(point.theta, direction), sample.w, 0.0)[1]

    random, focused = (np.array([*estimates(kind)]) / exact for kind in (False, True))
    assert focused.std() < 0.5 * random.std()
    assert abs(focused.mean() - 1.0) < 5.0 * focused.std() / np.sqrt(len(focused))


def test_a_sample_of_all_rows_stays():
    problem, point, rng = nearly_separable()
    some = Multinomial(problem.examples.subset(np.arange(1000)), C)
    near = some.at(point.theta, 0.0, second=True)
    near = some.at(point.theta, 0.0, wanted=wanted(some, near.A.diagonal))
    sample = linesearch.draw(some, rng)
    X = sample.X
    sample.move_to(near.theta)
    sample.focus(some, near, rng)
    assert sample.X is X


def test_a_step_that_was_too_long_asks_for_doubtful_rows(monkeypatch):
    """The sample has missed rows that matter: the next trial looks for them."""
    asked, at = [], Multinomial.at

    def spy(self, theta, lam, second=False, wanted=None):
        asked.append(wanted is not None)
        return at(self, theta, lam, second, wanted)

    monkeypatch.setattr(Multinomial, "at", spy)
    monkeypatch.setattr(linesearch.LineSample, "root", lambda *_: 1000.0)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    with pytest.warns(ConvergenceWarning):
        LogisticClassifier(random_state=0, max_iter=4).fit(X, y)
    assert asked[:2] == [False, True]
