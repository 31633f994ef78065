"""R1D as in its paper: Algorithm 4.1 step by step, its stopping conditions, its minimum."""

import numpy as np
import pytest

import naive_trace
from naive_trace import PROBLEMS, blobs, stated
from slender.rows import one_blas_thread
from test_tracenorm import fitted, weights


@pytest.fixture(autouse=True)
def _one_thread():
    """Products this small lose more than they gain by threads."""
    with one_blas_thread():
        yield


@pytest.mark.parametrize(
    ("name", "every"), [("few classes", 1), ("more columns than rows", 5), ("binary", 1)]
)
def test_the_minimum_is_that_of_algorithm_4_1(name, every):
    problem = stated(*PROBLEMS[name])
    atoms = naive_trace.algorithm_4_1(problem, 1e-3 * problem.lambda1, every)
    model = fitted(problem, tol=1e-6)
    theirs = problem.objective(atoms.W)
    assert model.objective_ == pytest.approx(theirs, rel=1e-4)
    assert model.objective_ <= theirs + model.gap_
    assert model.rank_ <= len(atoms.theta)


def literal(problem, epsilon, **options):
    """W (d, k) at the start and after each step of `pairs=1, turn=False`."""
    seen = []
    watch = [lambda record, weights: seen.append(weights()[0].T)]
    fitted(problem, epsilon=epsilon, pairs=1, turn=False, callbacks=watch, **options)
    return seen


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["few classes", "more columns than rows", "no squared norm"])
def test_one_pair_and_no_turns_is_algorithm_4_1_step_by_step(name):
    """(8) being solved to the end, W is the same; and so is the way to the paper's conditions."""
    problem, theirs = stated(*PROBLEMS[name]), []
    ours = literal(problem, 1e-6 * problem.lambda1, passes=13)
    with pytest.raises(AssertionError, match="after 7 steps"):
        naive_trace.algorithm_4_1(problem, 1e-6 * problem.lambda1, steps=7, watch=theirs.append)
    size = np.linalg.norm(theirs[-1].W)
    for W, atoms in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(W, atoms.W, atol=1e-5 * size)
    theirs.clear()
    epsilon = 2e-2 * problem.lambda1
    atoms = naive_trace.algorithm_4_1(problem, epsilon, watch=theirs.append)
    ours = literal(problem, epsilon)
    assert len(ours) == pytest.approx(len(theirs), rel=0.2, abs=2)
    assert problem.objective(ours[-1]) == pytest.approx(problem.objective(atoms.W), rel=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("options", [{}, {"pairs": 1}, {"pairs": 1, "turn": False}])
def test_the_paper_s_conditions_hold_where_they_are_asked_for(options, intercept):
    problem = stated(*blobs(), 0.1, intercept=intercept)
    epsilon = 1e-2 * problem.lambda1
    model = fitted(problem, epsilon=epsilon, tol=1e-12, **options)  # tol has no say
    W, b = weights(model)
    gradient = problem.gradient(W, b)
    assert np.linalg.norm(gradient, 2) <= problem.lambda1 + epsilon  # (C1)
    slopes = problem.lambda1 + np.einsum("dr,dr->r", model.U_, gradient @ model.V_)
    assert np.abs(slopes).max() <= epsilon  # (C2)
    assert model.objective_ == pytest.approx(naive_trace.fista(problem)[0], rel=3e-3)


def test_the_paper_s_epsilon_may_accept_no_model_at_all():
    problem = stated(*blobs(), 0.1)
    model = fitted(problem, epsilon=problem.lambda1_max())
    assert (model.rank_, len(model.trace_)) == (0, 1)
