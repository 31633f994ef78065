"""The trace-norm and compression benchmarks run, and FISTA, the rival, is a fair one."""

import itertools
import json

import numpy as np
import pytest
from benchmarks import compressed, products, semipq, tracenorm
from benchmarks.command import DATASETS
from benchmarks.solvers.tracenorm import fista

from slender import CompressedMatrix, TraceNormClassifier
from slender.datasets import load, low_rank
from test_benchmarks import run

LAMBDA2 = 1e-4


def silent(line):
    pass


@pytest.fixture(scope="module")
def tiny():
    return load("tiny")


@pytest.fixture(scope="module")
def problem(tiny):
    return tracenorm.Problem(tiny, 0.1 * tracenorm.lambda1_max(tiny), LAMBDA2)


@pytest.fixture(scope="module")
def minimum(problem):
    """The least objective, proved in float64."""
    data = problem.dataset
    model = TraceNormClassifier(problem.lambda1, LAMBDA2, tol=1e-9)
    model.fit(data.X_train.astype(np.float64), data.y_train)
    assert model.gap_ <= 1e-9 * model.objective_
    return model.objective_


# -- FISTA -----------------------------------------------------------------------------------------


def test_fista_reaches_the_minimum(problem, minimum):
    steps = list(itertools.islice(problem.fista(), 150))
    assert steps[-1].objective == pytest.approx(minimum, rel=2e-6)
    assert all(step.objective >= minimum * (1 - 1e-6) for step in steps)
    # what it says on its way is what an independent sum in float64 says
    for step in steps[::30]:
        assert problem.objective(step.W) == pytest.approx(step.objective, rel=1e-5)
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds)


def test_fista_gives_the_rank_of_its_weights(problem):
    step = next(itertools.islice(problem.fista(), 20, None))
    sizes = np.linalg.svd(step.W, compute_uv=False)
    assert step.rank == (sizes > 1e-5 * sizes[0]).sum()


def test_the_gradient_is_that_of_the_loss(problem):
    data = problem.dataset
    loss = fista.Loss(data.X_train, problem.class_index, len(problem.classes))
    rng = np.random.default_rng(0)
    W, D = rng.standard_normal((2, len(problem.classes), data.X_train.shape[1]), np.float32)
    S, value = loss.scores(W)
    np.testing.assert_allclose(S, data.X_train @ W.T, rtol=1e-4, atol=1e-4)
    G, same = loss.gradient(S)
    assert same == pytest.approx(value, rel=1e-6)
    h = 1e-2
    difference = (loss.scores(W + h * D)[1] - loss.scores(W - h * D)[1]) / (2 * h)
    assert np.vdot(G, D) == pytest.approx(difference, rel=1e-2)


def test_power_iterations_do_not_stay_below_the_norm(problem):
    X = problem.dataset.X_train
    loss = fista.Loss(X, problem.class_index, len(problem.classes))
    exact = np.linalg.norm(X.astype(np.float64), 2) ** 2 / len(X)
    assert exact <= loss.curvature() <= 1.1 * exact


def test_soft_threshold_on_a_case_worked_by_hand():
    A = np.diag([3.0, 1.0, 2.0]).astype(np.float32)
    shrunk, left = fista.soft_threshold(A, 1.5)
    np.testing.assert_allclose(shrunk, np.diag([1.5, 0.0, 0.5]), atol=1e-6)
    np.testing.assert_allclose(left, [1.5, 0.5], rtol=1e-6)


# -- the data --------------------------------------------------------------------------------------


def test_planted_classes_share_few_directions():
    data = low_rank(2000, 32, 40, 3, n_test=1000)
    assert data.X_train.shape == (2000, 32)
    assert data.X_test.shape == (1000, 32)
    assert data.X_train.dtype == np.float32
    assert len(np.unique(data.y_train)) == 40
    again = low_rank(2000, 32, 40, 3, n_test=1000)
    np.testing.assert_array_equal(data.X_test, again.X_test)
    np.testing.assert_array_equal(data.y_train, again.y_train)
    # the means of the classes lie in as many directions of the whitened rows
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(data.X_train.T)))
    means = np.array([data.X_train[data.y_train == c].mean(axis=0) for c in range(40)])
    sizes = np.linalg.svd(means @ whiten.T, compute_uv=False)
    assert sizes[2] > 2 * sizes[3]


@pytest.mark.parametrize("share", [0.3, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_planted_rank_is_found(share, dtype):
    """rank_ counts atoms that matter, not what a loose tolerance leaves of the others."""
    X, y, *_ = low_rank(2000, 128, 40, 5)
    lambda1_max = TraceNormClassifier(passes=1, tol=1.0).fit(X, y).lambda1_max_
    model = TraceNormClassifier(share * lambda1_max, 1e-5, random_state=0)
    assert model.fit(X.astype(dtype), y).rank_ == 5


def test_every_data_set_has_a_share():
    assert set(tracenorm.SHARES) == set(DATASETS)


# -- the race --------------------------------------------------------------------------------------


def test_the_least_lambda1_of_nothing(tiny):
    most = tracenorm.lambda1_max(tiny)
    model = TraceNormClassifier(0.9 * most, random_state=0).fit(tiny.X_train, tiny.y_train)
    assert model.lambda1_max_ == pytest.approx(most, rel=1e-5)


def test_the_race_writes_a_table_and_json(tmp_path, monkeypatch):
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    file = tmp_path / "trace.json"
    said = run(tracenorm.main, "--datasets", "mnist,tiny", "--quick", "--json", str(file))
    assert said.exit_code == 0, said.exception
    assert "mnist is skipped: mnist: not found" in said.stdout
    assert "FISTA's seconds / these" in said.stdout
    written = json.loads(file.read_text())["datasets"]["tiny"]
    (us,), (them,) = written["runs"]["slender"], written["runs"]["fista"]
    assert them["reached"]
    assert us["gap"] <= 1e-3
    assert us["to_target"] <= us["seconds"]
    for run_ in (us, them):
        assert run_["objective"] <= 1.001 * written["best"] * (1 + 1e-6)
        assert 0 < run_["rank"] <= 6
    best = written["best"]
    assert all(objective > 1.001 * best for _, objective in them["curve"][:-1])


def made_up(seconds, to_target, spent, reached=True):
    return (
        {"seconds": seconds, "to_target": to_target, "objective": 1.0005},
        {"seconds": spent, "reached": reached, "objective": 1.001},
    )


def test_figures_on_a_case_worked_by_hand():
    us, them = zip(made_up(2.0, 1.0, 8.0), made_up(4.0, 2.0, 8.0, reached=False), strict=True)
    found = tracenorm.figures({"slender": list(us), "fista": list(them)}, 1.0)
    assert found["of_fit"] == {"median": 3.0, "min": 2.0, "max": 4.0}
    assert found["of_target"] == {"median": 6.0, "min": 4.0, "max": 8.0}
    assert found["fista_reached"] == 1
    assert found["above"]["slender"] == pytest.approx(5e-4)
    # a fit that is not at the target is not sooner than anything
    us, them = zip(made_up(2.0, None, 8.0), strict=True)
    found = tracenorm.figures({"slender": list(us), "fista": list(them)}, 1.0)
    assert found["to_target"] is None
    assert found["of_fit"]["max"] == found["of_target"]["max"] == 0.0


def test_fista_out_of_time_is_said(problem):
    ran = tracenorm.theirs(problem, target=0.0, budget=0.0)
    assert not ran["reached"]
    assert ran["steps"] == 1


def test_the_path_is_held_against_its_dearest_fit(tmp_path):
    file = tmp_path / "path.json"
    options = ["--datasets", "tiny", "--quick", "--path", "--values", "3", "--json", str(file)]
    said = run(tracenorm.main, *options)
    assert said.exit_code == 0, said.exception
    assert "3 x 3 pairs with validation take" in said.stdout
    written = json.loads(file.read_text())["datasets"]["tiny"]
    (ran,) = written["runs"]
    assert len(ran["path"]) == 9
    assert len(ran["cold"]) == 3
    assert ran["missed"] == 0
    assert all(fit["gap"] <= 1e-3 for fit in ran["cold"])
    dearest = max(fit["seconds"] for fit in ran["cold"])
    assert written["figures"]["fits"]["median"] == pytest.approx(ran["seconds"] / dearest)


# -- codes -----------------------------------------------------------------------------------------


def test_products_are_the_same_on_both_sides(tmp_path):
    result = products.race(500, 32, 8, 5, 2, silent)
    for found in result["products"].values():
        assert found["apart"] < 1e-5
    file = tmp_path / "products.json"
    said = run(products.main, "--quick", "--json", str(file))
    assert said.exit_code == 0, said.exception
    assert set(json.loads(file.read_text())["products"]) == {"M @ B", "M.T @ G"}
    assert run(products.main, "--d", "100", "--d-sq", "16").exit_code == 2


def test_drawn_codes_tell_the_classes_apart():
    X, y = compressed.drawn(2000, 256, 4, d_sq=4)
    assert isinstance(X, CompressedMatrix)
    own = np.array([[np.bincount(part).argmax() for part in X.codes[y == c].T] for c in range(4)])
    share = np.mean([(X.codes[y == c] == own[c]).mean() for c in range(4)])
    assert share == pytest.approx(compressed.OWN + 1 / 256, rel=0.15)


@pytest.mark.slow
def test_codes_and_dense_rows_are_one_problem(tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    monkeypatch.setattr(compressed, "QUICK", (1500, 64, 5))
    file = tmp_path / "compressed.json"
    said = run(compressed.main, "--quick", "--json", str(file))
    assert said.exit_code == 0, said.exception
    (coded,), (dense,) = (json.loads(file.read_text())["runs"][k] for k in compressed.KINDS)
    assert coded["objective"] == pytest.approx(dense["objective"], rel=1e-3)
    assert coded["rows_bytes"] * 64 == dense["rows_bytes"]
    assert 0 < coded["allocated_bytes"] <= coded["allowed_bytes"]


@pytest.mark.slow
def test_huge_codes_are_fitted(monkeypatch):
    monkeypatch.setattr(compressed, "HUGE_QUICK", (2000, 512, 5))
    said = run(compressed.main, "--quick", "--huge")
    assert said.exit_code == 0, said.exception
    assert "huge: 2,000 × 512, 5 classes" in said.stdout


# -- Figure 3 --------------------------------------------------------------------------------------


def test_figure_3_of_the_tiny_data(tmp_path):
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    pytest.importorskip("liblinear", reason="pip install liblinear-official")
    file = tmp_path / "semi.json"
    options = ["--datasets", "tiny", "--quick", "--d-sq", "4", "--classes", "5"]
    said = run(semipq.main, *options, "--json", str(file))
    assert said.exit_code == 0, said.exception
    assert "Semi PQ is" in said.stdout
    written = json.loads(file.read_text())["datasets"]["tiny"]
    assert written["shape"][2] == 5
    for of in written["figures"].values():
        assert of["Full"]["top1"]["median"] > 95
        assert of["Full"]["top1"]["median"] >= of["PQ"]["top1"]["median"]
        assert of["PQ"]["top5"]["median"] == 100.0


def test_positives_weigh_only_in_their_own_machine(tiny):
    pytest.importorskip("liblinear", reason="pip install liblinear-official")
    from sklearn.svm import LinearSVC

    y = np.where(tiny.y_train < 2, tiny.y_train, 2)  # two rare classes and a frequent one
    ours = semipq.OneVsRest(tiny.X_train, y).fit_pair((0.5, 1.0))
    for c in range(3):
        n_pos = (y == c).sum()
        weight = {1: (len(y) - n_pos) / n_pos}
        binary = LinearSVC(C=0.5, fit_intercept=False, class_weight=weight, tol=1e-6, max_iter=9999)
        theirs = binary.fit(tiny.X_train.astype(np.float64), y == c).coef_[0]
        np.testing.assert_allclose(ours.coef[c], theirs, atol=0.05 * np.abs(theirs).max())


def test_what_semi_pq_has_back_on_a_case_worked_by_hand():
    def case(top1):
        return {"top1": top1, "top5": 1.0}

    ran = {"Full": case(0.9), "PQ": case(0.5), "Semi PQ": case(0.7)}
    found = semipq.figures({"x": [ran]})["x"]
    assert found["back"] == pytest.approx(0.5)
    said = semipq.sentence("v10", "x", found)
    assert said == "v10, x: Semi PQ is at or above PQ by 20.0 points, 50 % of the loss is back"
    worse = semipq.figures({"x": [{**ran, "Semi PQ": case(0.4)}]})["x"]
    assert "BELOW" in semipq.sentence("v10", "x", worse)
