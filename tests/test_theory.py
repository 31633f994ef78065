"""Theorem 2 as it is true: each step decreases the risk as guaranteed, squares exactly so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from slender import SLNDClassifier
from slender.losses import MARGIN_LOSSES, Hinge, fit_for, peaked_at_zero
from slender.theory import RiskSample, horizon, theory_step

NAMES = fit_for(peaked_at_zero, MARGIN_LOSSES)


def make(seed, m=30, d=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d)) * np.arange(1, d + 1)
    y = np.where(X @ rng.standard_normal(d) + 2 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return X, y, rng


def whiten(X, curvature0, k):
    D, P = np.linalg.eigh(naive.hessian_at_zero(X, curvature0))
    return X @ (P[:, ::-1][:, :k] / np.sqrt(D[::-1][:k]))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 10**6),
    st.floats(0.05, 0.95),
    st.integers(1, 5),
    st.booleans(),
)
def test_the_risk_falls_by_what_the_theorem_guarantees(name, seed, epsilon, k, weighed):
    loss = MARGIN_LOSSES[name]
    X, y, rng = make(seed)
    c = rng.uniform(0.1, 3.0, len(y)) if weighed else np.ones(len(y))
    sample = RiskSample.at_zero(whiten(X, loss.curvature(0.0), k), y, c)
    risk = sample.risk(loss)
    assert risk == pytest.approx(loss.value(0.0) * c.mean())
    for _ in range(200):
        step = sample.take_step(loss, int(rng.integers(len(y))), epsilon)
        new = sample.risk(loss)
        assert new <= risk - step.decrease + 1e-12
        if name == "squared":
            assert new == pytest.approx(risk - step.decrease, abs=1e-12)
        assert step.rho >= step.gamma**2 * (1 - 1e-12)
        risk = new
    margins = y * (sample.Z @ sample.v)
    np.testing.assert_allclose(sample.margins, margins, rtol=1e-9, atol=1e-9)


def test_the_signed_step_is_what_makes_it_true():
    """Some steps go backwards, and |eta| would raise the risk there."""
    loss = MARGIN_LOSSES["logistic"]
    X, y, rng = make(1)
    sample = RiskSample.at_zero(whiten(X, 0.25, 5), y)
    raised = 0
    for _ in range(300):
        i = int(rng.integers(len(y)))
        before, v, margins = sample.risk(loss), sample.v.copy(), sample.margins.copy()
        step = sample.take_step(loss, i)
        if step.eta < 0:
            p_i = -loss.slope(float(margins[i]))
            wrong = v + abs(step.eta) * y[i] * p_i * sample.Z[i]
            raised += np.mean([loss.value(m) for m in y * (sample.Z @ wrong)]) > before
    assert raised > 0


def test_the_formulas_by_hand():
    """Two examples on a line, z = (1, 2), y = (+1, -1), squared loss at v = 0: p = (1/2, 1/2)."""
    loss = MARGIN_LOSSES["squared"]
    s = np.array([1.0, -2.0])  # example 1 chosen: y_j z_j z_1
    step = theory_step(loss, np.zeros(2), s, 1.0, 0.5, epsilon=0.5)
    ps = -0.5  # pᵀs
    assert step.gamma == pytest.approx(0.5 / 3)
    assert step.rho == pytest.approx(0.25 / 5)
    assert step.decrease == pytest.approx(0.5 * (0.25 / 5) / (2 * 0.5))
    assert step.eta == pytest.approx(2 * 0.5 * (1 * 0.5 * ps) / (0.5 * 0.25 * 5))


def test_an_example_that_can_teach_nothing_moves_nothing():
    loss = MARGIN_LOSSES["logistic"]
    assert theory_step(loss, np.zeros(3), np.zeros(3), 1.0, 0.5) == (0.0, 0.0, 0.0, 0.0)
    assert theory_step(loss, np.zeros(3), np.ones(3), 1.0, 0.0).eta == 0.0


def test_horizon():
    loss = MARGIN_LOSSES["logistic"]
    want = np.log(2) * 0.25 * 100 / (2 * 0.1**2 * 0.25)
    assert horizon(loss, 100, 0.1) == pytest.approx(want)
    assert horizon(loss, 100, 0.1, target=np.log(2)) == 0


@pytest.mark.parametrize(
    ("loss", "wrong", "message"),
    [
        ("calibrated_hinge", {}, "target=0.0 lies above the risk at w = 0, -0.6931"),
        ("logistic", {"target": 0.7}, "target=0.7 lies above"),
        ("logistic", {"m": 0}, "m=0"),
        ("logistic", {"gamma": 0.0}, "gamma=0.0"),
        ("logistic", {"gamma": -0.1}, "gamma=-0.1"),
        ("logistic", {"epsilon": 1.0}, "epsilon=1.0"),
    ],
)
def test_a_horizon_that_cannot_be_is_refused(loss, wrong, message):
    with pytest.raises(ValueError, match=message):
        horizon(MARGIN_LOSSES[loss], **{"m": 100, "gamma": 0.1, **wrong})


def test_the_weakest_gamma_does_not_outlive_its_horizon():
    """If every step up to T has at least gamma, the risk is at most F(0) - T * decrease."""
    loss = MARGIN_LOSSES["logistic"]
    X, y, rng = make(4)
    sample = RiskSample.at_zero(whiten(X, 0.25, 5), y)
    gammas = []
    for t in range(1, 300):
        gammas.append(sample.take_step(loss, int(rng.integers(len(y)))).gamma)
        assert t <= horizon(loss, len(y), min(gammas), target=sample.risk(loss)) * (1 + 1e-9)


def test_bad_epsilon_and_loss():
    with pytest.raises(ValueError, match="epsilon"):
        theory_step(MARGIN_LOSSES["logistic"], np.zeros(1), np.ones(1), 1.0, 0.5, epsilon=1.0)
    with pytest.raises(ValueError, match=r"F''\(z\) <= F''\(0\), which Hinge lacks"):
        theory_step(Hinge(), np.zeros(1), np.ones(1), 1.0, 0.5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("curvature", ["lowrank", "identity"])
def test_the_estimator_with_the_theorys_step_decreases_the_exact_objective(name, curvature):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6)) + 0.5
    y = (X @ rng.standard_normal((6, 3))).argmax(axis=1)
    model = SLNDClassifier(
        name, step="theory", curvature=curvature, passes=3, objective="exact", random_state=0
    ).fit(X, y)
    objectives = [MARGIN_LOSSES[name].value(0.0)] + [r["objective"] for r in model.trace_]
    assert (np.diff(objectives) < 0).all()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_weights_of_the_risk_that_the_theorys_step_decreases(name):
    """Example and class weights: the exact objective has them, and it falls."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) + 0.5
    y = (X @ rng.standard_normal((4, 3))).argmax(axis=1)
    settings = {"step": "theory", "passes": 2, "random_state": 0}
    c = rng.uniform(0.1, 3.0, 60)
    for classes, weight in (({"class_weight": {0: 5.0}}, None), ({}, c)):
        model = SLNDClassifier(name, **settings, **classes).fit(X, y, weight)
        exact = SLNDClassifier(name, **settings, **classes, objective="exact").fit(X, y, weight)
        objectives = [record["objective"] for record in exact.trace_]
        assert objectives[1] < objectives[0]
        assert [r["objective"] for r in model.trace_] == pytest.approx(objectives, rel=1e-9)
