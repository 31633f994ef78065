"""cuML's LogisticRegression (`qn`, an L-BFGS) on float32 rows.  Minimises the same objective.

It shows nothing on its way: its curve is whole fits with more and more iterations, a quarter more
each.  `fit` has cuML's own tolerance.
"""

from typing import Any

from ...gpu_clock import DeviceWatch
from ...gpu_data import Planted, Weights, weights
from ..multinomial import ladder
from . import Record

name = "cuML"
rival = True
package = ("cuml", "cuml-cu12")
grid: list[dict[str, Any]] = [{}]
TOL = 1e-12  # as DINOv2's evaluation sets it: the number of iterations ends a fit


def refuses(problem: Planted) -> str | None:
    if problem.device.type != "cuda":
        return "it runs on CUDA alone"
    return None


def _fitted(problem: Planted, **settings: Any) -> Any:
    from cuml.linear_model import LogisticRegression

    model = LogisticRegression(C=problem.C, output_type="numpy", **settings)
    return model.fit(problem.wide, problem.y.float())


def fit(problem: Planted, setting: dict[str, Any]) -> tuple[Weights, dict[str, float]]:
    model = _fitted(problem)
    return weights(model, problem), {"iterations": int(max(model.n_iter_))}


def curve(problem: Planted, setting: dict[str, Any], seed: int, record: Record) -> None:
    problem.wide  # noqa: B018  (made before the clock starts)
    for iterations in ladder():
        with DeviceWatch(problem.device) as watch:
            model = _fitted(problem, tol=TOL, max_iter=iterations)
        if record(watch.seconds, weights(model, problem)) or max(model.n_iter_) < iterations:
            return
