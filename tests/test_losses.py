"""Every loss: derivatives, extremes against mpmath, convexity, calibration."""

import math
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from sklearn.datasets import load_digits

from slender import (
    GDClassifier,
    OLBFGSClassifier,
    SGDClassifier,
    SGDQNClassifier,
    SLNDClassifier,
    losses,
)
from slender.losses import (
    MARGIN_LOSSES,
    MULTICLASS_LOSSES,
    SQUARED_CLIP,
    CrossEntropy,
    bounded,
    fit_for,
    peaked_at_zero,
    smooth,
)

MARGINS = st.floats(-30, 30)
EXTREMES = [-1e20, -37.0, -1.5, 0.0, 1.5, 37.0, 1e20]
mp.mp.dps = 60

# The formulas of the papers once more, in 60 digits.
EXACT = {
    "logistic": {
        "value": lambda z: mp.log1p(mp.exp(-z)) if z > -1e10 else -z,
        "slope": lambda z: -1 / (1 + mp.exp(z)) if z < 1e10 else mp.mpf(0),
        "curvature": lambda z: mp.exp(-abs(z)) / (1 + mp.exp(-abs(z))) ** 2,
        "posterior": lambda z: 1 / (1 + mp.exp(-z)) if z > -1e10 else mp.mpf(0),
        "logit": lambda z: z,
    },
    "calibrated_hinge": {
        "value": lambda z: max(mp.mpf(0), -z) - mp.log(2 + abs(z)),
        "slope": lambda z: -1 / (2 + z) if z >= 0 else -1 + 1 / (2 - z),
        "curvature": lambda z: 1 / (2 + abs(z)) ** 2,
        "posterior": lambda z: 1 - 1 / (2 + z) if z >= 0 else 1 / (2 - z),
        "logit": lambda z: mp.sign(z) * mp.log(1 + abs(z)),
    },
    "squared": {
        "value": lambda z: (1 - z) ** 2 / 4,
        "slope": lambda z: (z - 1) / 2,
        "curvature": lambda z: mp.mpf(1) / 2,
        "posterior": lambda z: min(mp.mpf(1), max(mp.mpf(0), (1 + z) / 2)),
    },
    "hinge": {
        "value": lambda z: max(mp.mpf(0), 1 - z),
        "slope": lambda z: mp.mpf(-1) if z < 1 else mp.mpf(0),
        "curvature": lambda z: mp.mpf(0),
    },
    "exponential": {
        "value": lambda z: mp.exp(-z) if z > -1e10 else mp.inf,
        "slope": lambda z: -mp.exp(-z) if z > -1e10 else -mp.inf,
        "curvature": lambda z: mp.exp(-z) if z > -1e10 else mp.inf,
        "posterior": lambda z: 1 / (1 + mp.exp(-2 * z)) if z > -1e10 else mp.mpf(0),
        "logit": lambda z: 2 * z,
    },
}


@pytest.fixture(params=MARGIN_LOSSES)
def name(request):
    return request.param


@pytest.mark.parametrize("z", EXTREMES)
def test_extremes_equal_mpmath(name, z):
    for verb, exact in EXACT[name].items():
        got, want = getattr(MARGIN_LOSSES[name], verb)(z), float(exact(mp.mpf(z)))
        if math.isinf(want):
            assert got == want
        else:
            assert got == pytest.approx(want, rel=4e-16, abs=1e-320), verb


def test_compiled_verbs_equal_the_methods_at_the_extremes(name):
    loss = MARGIN_LOSSES[name]
    verbs = {"value": losses.value, "slope": losses.slope}
    if hasattr(loss, "posterior"):
        verbs["logit"] = losses.logit
    for verb, function in verbs.items():

        @njit
        def over(loss, z, function=function):
            out = np.empty_like(z)
            for i in range(len(z)):
                out[i] = function(loss, z[i])
            return out

        want = [getattr(loss, verb)(z) for z in EXTREMES]
        assert [function(loss, z) for z in EXTREMES] == want
        np.testing.assert_allclose(over(loss, np.array(EXTREMES)), want, rtol=4e-16)


@given(MARGINS)
def test_slope_and_curvature_are_derivatives(z):
    h = 1e-5
    for loss in MARGIN_LOSSES.values():
        if abs(z - 1) < 2 * h or abs(z) < 2 * h:  # the kinks of hinge and of |z|
            continue
        scale = max(1.0, abs(loss.value(z)))
        slope = (loss.value(z + h) - loss.value(z - h)) / (2 * h)
        curvature = (loss.slope(z + h) - loss.slope(z - h)) / (2 * h)
        assert loss.slope(z) == pytest.approx(slope, rel=1e-6, abs=1e-8 * scale)
        assert loss.curvature(z) == pytest.approx(curvature, rel=1e-6, abs=1e-8 * scale)


@given(MARGINS, MARGINS, st.floats(0, 1))
def test_convex(a, b, share):
    for loss in MARGIN_LOSSES.values():
        between = loss.value(share * a + (1 - share) * b)
        chord = share * loss.value(a) + (1 - share) * loss.value(b)
        assert between <= chord + 1e-12 * max(1.0, abs(chord))


@given(MARGINS, st.floats(0.001, 5))
def test_calibrated(z, step):
    """f = F' + 1 is increasing, symmetric about (0, 1/2), within [0, 1]; F'' <= F''(0)."""
    for name in fit_for(peaked_at_zero, MARGIN_LOSSES):
        loss = MARGIN_LOSSES[name]
        f = loss.posterior
        assert f(0.0) == 0.5
        assert 0.0 <= f(z) <= 1.0
        assert f(z) + f(-z) == pytest.approx(1.0, abs=1e-15)
        assert f(z + step) >= f(z)
        assert loss.curvature(z) <= loss.curvature(0.0) * (1 + 1e-15)
        if loss is not MARGIN_LOSSES["squared"] or abs(z) <= 1:
            assert loss.slope(z) + 1.0 == pytest.approx(f(z), abs=1e-15)


@given(MARGINS, st.floats(1e-6, 5))
def test_logit_is_that_of_the_posterior_and_strictly_increasing(z, step):
    for name, loss in MARGIN_LOSSES.items():
        if not hasattr(loss, "logit"):
            continue
        assert loss.logit(z + step) > loss.logit(z)
        inside = abs(z) < (SQUARED_CLIP if name == "squared" else 30)
        p = loss.posterior(z)
        if inside and 1e-9 < p < 1 - 1e-9:
            assert loss.logit(z) == pytest.approx(math.log(p / (1 - p)), rel=1e-6, abs=1e-9)


def test_calibrated_hinge_crosses_zero_where_the_notes_say():
    loss = MARGIN_LOSSES["calibrated_hinge"]
    assert loss.value(0.0) == pytest.approx(-math.log(2))
    assert abs(loss.value(-1.146)) < 1e-3


@pytest.mark.parametrize("scale", [1.0, 37.0, 1e20])
@pytest.mark.parametrize("name", MULTICLASS_LOSSES)
def test_multiclass_value_and_slope_equal_mpmath(name, scale):
    loss = MULTICLASS_LOSSES[name]
    rng = np.random.default_rng(0)
    for _ in range(20):
        s = scale * rng.choice([-1.0, -0.3, 0.0, 0.2, 1.0], 5)
        y = int(rng.integers(5))
        got = np.empty(5)
        loss.slope(s, y, got)
        exact = [mp.mpf(float(v)) for v in s]
        if name == "cross_entropy":
            total = mp.fsum([mp.exp(v - max(exact)) for v in exact])
            value = max(exact) - exact[y] + mp.log(total)
            p = [mp.exp(v - max(exact)) / total for v in exact]
            slope = [float(p[k] - (k == y)) for k in range(5)]
        else:
            terms = [exact[k] - exact[y] + (k != y) for k in range(5)]
            value = max(terms)
            # the first class that attains the maximum, the true one only if nothing exceeds 0
            best = y if value == 0 else next(k for k in range(5) if k != y and terms[k] == value)
            slope = [float((k == best) - (k == y)) for k in range(5)]
        assert loss.value(s, y) == pytest.approx(float(value), rel=1e-14, abs=1e-300)
        np.testing.assert_allclose(got, slope, rtol=1e-13, atol=1e-300)


def test_cross_entropy_curvature_is_the_derivative_of_its_slope():
    loss, rng = CrossEntropy(), np.random.default_rng(0)
    s, h = rng.standard_normal(4), 1e-6
    H, up, down = np.empty((4, 4)), np.empty(4), np.empty(4)
    loss.curvature(s, 1, H)
    for k in range(4):
        e = h * np.eye(4)[k]
        loss.slope(s + e, 1, up)
        loss.slope(s - e, 1, down)
        np.testing.assert_allclose(H[k], (up - down) / (2 * h), atol=1e-9)
    np.testing.assert_allclose(H.sum(axis=1), 0, atol=1e-16)


@given(
    st.lists(st.floats(-50, 50), min_size=3, max_size=3),
    st.lists(st.floats(-50, 50), min_size=3, max_size=3),
    st.integers(0, 2),
)
def test_multiclass_losses_are_convex_with_their_slope_as_subgradient(a, b, y):
    a, b = np.array(a), np.array(b)
    g = np.empty(3)
    for loss in MULTICLASS_LOSSES.values():
        loss.slope(a, y, g)
        assert loss.value(b, y) >= loss.value(a, y) + g @ (b - a) - 1e-9


def test_posterior_of_scores_is_softmax():
    p = np.empty(3)
    CrossEntropy().posterior(np.array([0.0, np.log(2), np.log(5)]), p)
    np.testing.assert_allclose(p, [1 / 8, 2 / 8, 5 / 8])


# -- what losses are fit for -----------------------------------------------------------------------


@given(MARGINS)
def test_smoothness_bounds_the_curvature(z):
    for loss in MARGIN_LOSSES.values():
        assert loss.curvature(z) <= loss.smoothness() * (1 + 1e-15)


def test_who_takes_which():
    assert fit_for(peaked_at_zero, MARGIN_LOSSES) == ("logistic", "calibrated_hinge", "squared")
    assert "exponential" not in fit_for(bounded, MARGIN_LOSSES)
    assert "hinge" in fit_for(bounded, MARGIN_LOSSES)
    assert "hinge" not in fit_for(smooth, MARGIN_LOSSES)
    assert fit_for(smooth, MULTICLASS_LOSSES) == ("cross_entropy",)


class SquaredHinge(NamedTuple):
    """F(z) = max(0, 1 - z)^2 / 2: a loss that slender does not have."""

    def value(self, z: float) -> float:
        return 0.5 * max(0.0, 1.0 - z) ** 2

    def slope(self, z: float) -> float:
        return -max(0.0, 1.0 - z)

    def curvature(self, z: float) -> float:
        return 1.0 if z < 1.0 else 0.0

    def smoothness(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    "model",
    [
        SLNDClassifier("squared_hinge", random_state=0),
        SGDClassifier("squared_hinge", random_state=0),
        SGDClassifier("squared_hinge", batch_size=16, random_state=0),
        SGDQNClassifier("squared_hinge", random_state=0),
        OLBFGSClassifier("squared_hinge", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_new_loss_is_one_class_and_one_line(monkeypatch, model):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    with pytest.raises(ValueError, match="loss='squared_hinge' must be one of"):
        model.fit(X, y)
    monkeypatch.setitem(MARGIN_LOSSES, "squared_hinge", SquaredHinge())
    model.fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.85
    assert not hasattr(model, "predict_proba")  # it has no posterior


def test_a_new_loss_without_a_gradient_for_every_class_is_not_taken():
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="loss='squared_hinge' must be one of"):
        GDClassifier(loss="squared_hinge").fit(X, y)
