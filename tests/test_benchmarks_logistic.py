"""The multinomial race: every rival ends at one minimum, and the figures follow from the curves."""

import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import (
    agreement,
    logistic,
    logistic_figures,
    logistic_race,
    logistic_report,
    memory_logistic,
    objective,
    path,
    path_report,
    plot_logistic,
)
from benchmarks.command import DATASETS
from benchmarks.logistic_race import HERO, RIVALS, SOLVERS
from benchmarks.objective import Linear, Task, linear, recorder
from benchmarks.solvers.multinomial import MULTINOMIAL, curve_of_lbfgs, ladder, sklearn_lbfgs
from sklearn.linear_model import LogisticRegression, _logistic
from threadpoolctl import ThreadpoolController

from slender.datasets import Dataset, load
from slender.lab.recorder import Budget, Stopwatch
from slender.lab.repeats import spread
from test_benchmarks import run

C = 1.0
EXACT = {"sklearn_lbfgs", "sklearn_newton", "intelex", "cyanure", "torch_lbfgs"}


@pytest.fixture(scope="module")
def task():
    return Task(load("tiny"), C)


@pytest.fixture(scope="module")
def minimum(task):
    """The least objective, by scikit-learn in float64."""
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
    model.fit(task.dataset.X_train.astype(np.float64), task.dataset.y_train)
    return objective.multinomial(linear(model), task)


def installed(name):
    reason = logistic_race.missing(name)
    if reason:
        pytest.skip(reason)
    return SOLVERS[name]


# -- the objective and the clock -------------------------------------------------------------------


def test_the_objective_on_a_case_worked_by_hand():
    # one row x = 1 of class 7; scores (0, ln 2): loss ln 3; lam = 1/(1 * 2), |W|² = ln² 2
    data = Dataset(np.ones((1, 1), np.float32), np.array([7]), None, None)
    model = Linear(np.array([[0.0], [math.log(2)]]), np.zeros(2), np.array([7, 9]))
    expected = math.log(3) + 0.25 * math.log(2) ** 2
    assert objective.multinomial(model, Task(data, 2.0)) == pytest.approx(expected, rel=1e-14)


def test_the_intercept_is_not_penalised_and_blocks_do_not_matter(task, monkeypatch):
    rng = np.random.default_rng(0)
    model = Linear(np.zeros((6, 16)), rng.standard_normal(6), np.arange(6))
    prior = model.intercept - np.log(np.exp(model.intercept).sum())
    expected = -prior[task.dataset.y_train].mean()
    for block in (7, 4096):
        monkeypatch.setattr(objective, "BLOCK", block)
        assert objective.multinomial(model, task) == pytest.approx(expected, rel=1e-12)


def test_a_diverged_model_has_an_infinite_objective(task):
    model = Linear(np.full((6, 16), np.nan), np.zeros(6), np.arange(6))
    assert objective.multinomial(model, task) == math.inf


def test_a_held_clock_stands_still():
    with Stopwatch() as wall, Stopwatch() as watch:
        time.sleep(0.01)
        with watch.held():
            time.sleep(0.1)
    assert 0.01 <= watch.seconds < wall.seconds - 0.1


def test_watching_lbfgs_does_not_change_its_path(task):
    X, y = task.dataset.X_train, task.dataset.y_train
    plain = LogisticRegression(C=C).fit(X, y)
    seen = []
    watched = curve_of_lbfgs(
        LogisticRegression(C=C),
        _logistic,
        task,
        lambda seconds, model: seen.append(model),
        sklearn_lbfgs.unpack,
    )
    np.testing.assert_array_equal(watched.coef_, plain.coef_)
    np.testing.assert_array_equal(watched.intercept_, plain.intercept_)
    assert len(seen) == plain.n_iter_[0]
    np.testing.assert_array_equal(seen[-1].coef.astype(np.float32), plain.coef_)
    assert _logistic.optimize.minimize is not None
    assert not isinstance(_logistic.optimize, SimpleNamespace)  # put back


# -- the rivals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_solver_file_has_what_it_must(solver):
    assert isinstance(solver.name, str)
    assert isinstance(solver.rival, bool)
    assert isinstance(solver.problem, str)
    assert solver.package is None or len(solver.package) == 2
    assert all(isinstance(setting, dict) for setting in solver.grid)
    assert callable(solver.curve)
    assert "inimises" in solver.__doc__ or "objective" in solver.__doc__


@pytest.mark.parametrize("name", sorted(EXACT))
def test_a_rival_reaches_the_minimum(name, task, minimum):
    solver = installed(name)
    seen = recorder(task, budget=20.0, target=minimum * (1 + 1e-4))
    solver.curve(task, solver.grid[0], 0, seen)
    seen.finish()
    assert seen.stopped == "target"
    assert all(p["objective"] >= minimum * (1 - 1e-9) for p in seen.curve)
    assert seen.curve[-1]["top1"] > 0.9


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_stops_when_told(name, task):
    solver = installed(name)
    seen = recorder(task, budget=0.0)
    solver.curve(task, solver.grid[0], 0, seen)
    assert seen.stopped == "budget"
    assert len(seen.curve) == 1


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_leaves_the_process_as_it_was(name, task):
    solver = installed(name)
    solver.curve(task, solver.grid[0], 0, recorder(task, budget=0.0))
    for openmp in ThreadpoolController().select(user_api="openmp").lib_controllers:
        assert openmp.dynlib.omp_get_dynamic() == 0  # 1: fewer threads on a busy machine
    assert np.full(1, 1e-310)[0] / 2 > 0  # subnormal numbers


@pytest.mark.parametrize("name", RIVALS)
def test_evaluation_is_off_a_rivals_clock(name, task, monkeypatch):
    solver = installed(name)
    measure, pause = objective.measure, 0.05
    monkeypatch.setattr(objective, "measure", lambda *a: time.sleep(pause) or measure(*a))
    monkeypatch.setattr(logistic_race, "SOLVERS", {name: solver})
    stop = recorder(task, budget=math.inf)
    points = []

    def few(seconds, model):
        points.append(seconds)
        stop.look(seconds, model)
        return len(points) == 4

    with Stopwatch() as wall:
        solver.curve(task, solver.grid[0], 0, few)
    assert points[-1] < wall.seconds - 0.9 * pause * len(points)


def test_points_are_thinned_but_the_first_at_the_target_is_found(task, monkeypatch):
    values = iter([9.0, 4.0, 1.0, 0.5, 0.4])  # as measured, in the order asked for
    monkeypatch.setattr(objective, "multinomial", lambda model, task: model.coef[0, 0])
    monkeypatch.setattr(objective, "measure", lambda *a: {"top1": 0.0, "top5": 0.0})
    seen = recorder(task, budget=100.0, target=1.0)
    for seconds, value in zip([1.0, 1.01, 1.02, 1.03, 1.2], values, strict=True):
        done = seen(seconds, objective.Linear(np.full((1, 1), value), np.zeros(1), np.zeros(1)))
    assert done
    assert seen.stopped == "target"
    assert [point["seconds"] for point in seen.curve] == [1.0, 1.02]


def test_adam_with_the_penalty_in_its_gradient_comes_near_the_minimum(task, minimum):
    solver = installed("torch_adamw")
    seen = recorder(task, budget=math.inf)
    solver.curve(task, {"optimizer": "Adam", "epochs": 60, "lr": 0.3}, 0, seen)
    assert seen.curve[-1]["objective"] < 1.1 * minimum


def test_snap_ml_learns_though_it_minimises_something_else(task):
    solver = installed("snapml")
    assert solver.problem != MULTINOMIAL
    seen = recorder(task, budget=20.0)
    solver.curve(task, solver.grid[0], 0, seen)
    assert seen.curve[-1]["top1"] > 0.9


def test_newton_refuses_a_large_hessian(task):
    refuses = SOLVERS["sklearn_newton"].refuses
    assert refuses(task) is None
    wide = task.dataset._replace(X_train=np.zeros((600, 2000), np.float32))
    assert "12,000² numbers" in refuses(Task(wide, C))


def test_whole_fits_climb_a_ladder_and_repeats_begin_below_the_target():
    steps = ladder(ratio=1.25)
    assert [next(steps) for _ in range(8)] == [1, 2, 3, 4, 5, 6, 8, 10]
    focus, curve = SOLVERS["cyanure"].focus, [None] * 8
    assert focus({}, curve, 7) == {"start": 8}
    assert focus({}, curve, 0) == {"start": 0}
    assert next(ladder(focus({}, curve, None)["start"])) == 10


def test_a_missing_package_is_a_line_and_not_an_error(task, monkeypatch):
    monkeypatch.setattr(SOLVERS["cyanure"], "package", ("no_such_module", "no-such-package"))
    said = []
    skipped = logistic_race.runnable(task, ["cyanure", "sklearn_lbfgs"], said.append)
    assert list(skipped) == ["cyanure"]
    assert "pip install no-such-package" in said[0]


# -- the figures -----------------------------------------------------------------------------------


def points(*pairs):
    return [{"seconds": s, "objective": f, "top1": 0.5, "top5": 1.0} for s, f in pairs]


def trial(seed, stopped, *pairs, solver="sklearn_lbfgs"):
    return {
        "solver": solver,
        "setting": {},
        "seed": seed,
        "stopped": stopped,
        "curve": points(*pairs),
    }


def result(first, *repeated):
    return {
        "tight": {"objective": 1.0},
        "plain": points((1.0, 1.2), (1.0, 1.2), (2.0, 1.1)),
        "grid": [trial(0, "by itself", (0.5, 1.5), (1.0, 1.0005), solver=HERO), first],
        "chosen": {"sklearn_lbfgs": {}},
        "repeats": list(repeated),
        "shape": [600, 16, 6],
        "C": 1.0,
    }


def test_figures_on_a_case_worked_by_hand():
    raced = result(
        trial(0, "budget", (1.0, 2.0), (9.0, 1.0009)),
        trial(1, "target", (3.0, 1.3), (4.0, 1.15)),
        trial(2, "target", (3.0, 1.3), (12.0, 1.1)),
    )
    found = logistic_figures.figures(raced, {"sklearn_lbfgs": MULTINOMIAL})
    row = found["figures"]["sklearn_lbfgs"]
    assert found["best"] == 1.0
    assert row["versus"]["ratio"] == {"median": 5.0, "min": 4.0, "max": 6.0}
    assert row["versus"]["reached"] == 2
    assert row["near_seconds"] == 9.0
    assert row["excess"] == pytest.approx(9e-4)
    assert found["ours"]["near_seconds"] == 1.0
    said = logistic_report.sentences("x", {**raced, **found})
    assert "takes 5.0 (4.0–6.0) times as long as slender" in said[0]


def test_a_rival_out_of_time_has_a_lower_bound_and_one_that_stops_has_none():
    slow = result(
        trial(0, "budget", (9.0, 2.0)),
        trial(1, "budget", (10.0, 1.3)),
        trial(2, "target", (12.0, 1.1)),
    )
    found = logistic_figures.figures(slow, {"sklearn_lbfgs": MULTINOMIAL})
    assert found["figures"]["sklearn_lbfgs"]["versus"]["ratio"]["max"] == 10.0
    said = logistic_report.sentences("x", {**slow, **found})[0]
    assert "takes at least 8.0 (6.0–10.0) times" in said
    assert "NOT reached in 1 of 2 repeats, out of time in 1" in said
    short = result(
        trial(0, "by itself", (9.0, 2.0)),
        trial(1, "by itself", (1.0, 1.3)),
        trial(2, "by itself", (1.0, 1.3)),
    )
    found = logistic_figures.figures(short, {"sklearn_lbfgs": MULTINOMIAL})
    assert found["figures"]["sklearn_lbfgs"]["versus"]["ratio"] is None
    said = logistic_report.sentences("x", {**short, **found})[0]
    assert "stops above slender's objective in 2 of 2 repeats" in said


def test_a_rival_is_held_against_the_plain_fit_of_its_own_repeat():
    plain = points((1.0, 1.5), (1.0, 1.2), (2.0, 1.1))
    found = logistic_figures.versus(plain, [trial(2, "target", (3.0, 1.2), (8.0, 1.1))])
    assert found["ratio"]["median"] == 4.0


def test_a_budget_is_a_multiple_within_bounds():
    budget = Budget(factor=60, least=5, most=600)
    assert [budget.seconds(s) for s in (0.01, 1.0, 100.0)] == [5, 60, 600]


# -- the commands ----------------------------------------------------------------------------------


def test_the_race_writes_a_table_json_and_a_figure(tmp_path):
    file, figure = tmp_path / "results.json", tmp_path / "figure.png"
    options = ["--datasets", "tiny", "--repeats", "2", "--max-seconds", "20", "--json", str(file)]
    said = run(logistic.main, *options, "--solvers", "sklearn_lbfgs,sklearn_newton")
    assert said.exit_code == 0, said.exception
    assert "times as long as slender to slender's objective" in said.stdout
    written = json.loads(file.read_text())
    tiny = written["datasets"]["tiny"]
    assert tiny["C"] == logistic.CHOSEN_C["tiny"]
    assert [t["stopped"] for t in tiny["repeats"]] == ["target"] * 4
    assert tiny["ours"]["excess"]["max"] <= 1e-3  # LogisticClassifier(tol=1e-3) keeps its word
    plot_logistic.draw(written, figure)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_every_data_set_has_a_C_and_another_can_be_asked_for():
    assert set(logistic.CHOSEN_C) == set(DATASETS)
    assert logistic.with_changes("mnist=0.5, digits=2")["digits"] == 2.0
    for wrong in ("nobody=1", "mnist=much"):
        assert run(logistic.main, "--datasets", "tiny", "--c", wrong).exit_code == 2


def test_every_solver_has_a_colour():
    assert set(plot_logistic.COLOURS) == set(SOLVERS)


def test_the_path_is_compared_and_its_fits_are_kept(tmp_path):
    options = ["--datasets", "tiny", "--repeats", "1", "--values", "3", "--cache", str(tmp_path)]
    file = tmp_path / "path.json"
    said = run(path.main, *options, "--json", str(file))
    assert said.exit_code == 0, said.exception
    assert "times as long as one fit of scikit-learn" in said.stdout
    tiny = json.loads(file.read_text())["datasets"]["tiny"]
    *tried, final = [run["C"] for run in json.loads((tmp_path / "tiny.json").read_text())["runs"]]
    assert tried == path.GRID[[0, 22, 44]].tolist()
    assert final == tiny["exhaustive"]["C"]
    again = run(path.main, *options, "--json", str(file))
    assert again.exit_code == 0
    found = json.loads(file.read_text())["datasets"]["tiny"]["exhaustive"]
    assert found == tiny["exhaustive"]  # seconds too: nothing was fitted again


def test_places_between_two_values_of_C():
    assert path.steps_apart(path.GRID[7], path.GRID[10] * 1.01) == 3


def test_sentences_of_a_thin_grid_say_so():
    figure = {
        "of_single": spread([0.5]),
        "sooner": spread([30.0]),
        "steps_apart": 1,
        "points_more": 0.25,
    }
    fit = {"converged": False, "others": 0.0}
    raced = {"figures": {"early": figure}, "exhaustive": {"fits": [fit] * 9}}
    _, second, third = path_report.sentences("x", raced, 45)
    assert "30.0 (30.0–30.0) times as long as LinearProbe()" in second
    assert "only 9 of 45 values" in second
    assert "9 of scikit-learn's fits ended at max_iter" in third


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slender_agrees_with_scikit_learn(dtype, task):
    assert agreement.compare(task, dtype)["within"]


@pytest.mark.slow
def test_memory_of_multinomial_fits():
    for peak in memory_logistic.peaks((20_000, 128), 20):
        assert 0 < peak["allocated_bytes"] <= peak["allowed_bytes"]
