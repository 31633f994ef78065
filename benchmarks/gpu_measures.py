"""What benchmarks.gpu measures beside the race: a pass, the path, SLND, streaming, memory.

Each estimator is called as a user would call it.  The first call in a process compiles kernels and
loads libraries; it is timed apart, and the repeats are warm.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import slender
from slender.data import examples_of
from slender.data.tensors import TensorRows
from slender.lab.repeats import Say, by_turns
from slender.problem import Multinomial
from slender.rows import as_rows
from slender.rows.streamed import Streamed

from . import gpu_race
from .gpu_clock import DevicePeak, DeviceWatch, device_seconds, named, release
from .gpu_data import Planted, Weights, accuracy, gradient, objective, reached, weights
from .solvers.gpu import torch_probe

ALLOWED, ALLOWED_TIMES = 10**9, 30  # bytes on the device above X; arrays of the weights' size
Make = Callable[..., Any]  # of an estimator: random_state and device


def logistic_of(problem: Planted) -> Make:
    return lambda **settings: slender.LogisticClassifier(C=problem.C, **settings)


def slnd_of(rank: int, passes: int) -> Make:
    """The balanced draw of the paper: a class visits as many negatives as positives."""
    return lambda **settings: slender.SLNDClassifier(
        rank=rank, passes=passes, negatives=1, **settings
    )


# -- one pass ----------------------------------------------------------------------------------


def some_weights(problem: Planted, seed: int = 0) -> Weights:
    """Weights at which scores are about as large as those of a fit, and no class is alone."""
    draw = torch.Generator(device=problem.device).manual_seed(seed)
    shape = problem.n_classes, problem.size.d
    W = torch.randn(*shape, device=problem.device, generator=draw)
    W *= 2.0 / problem.X[:4096].float().square().sum(1).mean().sqrt()
    return Weights(W, 0.1 * torch.randn(shape[0], device=problem.device, generator=draw))


def arithmetics(problem: Planted) -> dict[str, Multinomial]:
    """slender's problem of these rows, in the arithmetic a fit begins with, and in finer ones.

    The last one is float64, which a fit turns to where float32 has no digits left.
    """
    found = {}
    now = slender.LogisticClassifier(C=problem.C)._read_problem(problem.X, problem.y, None)
    while True:
        arithmetic = now.rows.arithmetic
        split = f"{arithmetic.half}, pieces: {arithmetic.pieces}" if arithmetic.pieces else None
        found[split or str(now.rows.dtype)] = now
        if now.rows.dtype == np.float64:
            return found
        now = now.widened()


def one_pass(problem: Planted, repeats: int, say: Say) -> dict[str, Any]:
    """Objective and gradient at one point: seconds, and how far they are from float64's."""
    model = some_weights(problem)
    found = {}
    for name, of in arithmetics(problem).items():
        say(f"pass in {name}")
        theta = of.theta(model.W, model.b)
        point = of.at(theta, problem.lam)  # compiles
        runs = []
        for _ in range(repeats):
            with DeviceWatch(problem.device) as watch:
                of.at(theta, problem.lam)
            there = device_seconds(partial(of.at, theta, problem.lam), problem.device)
            runs.append({"seconds": watch.seconds, "device": there})
        found[name] = {"runs": runs, **_errors(of, point, problem)}
    return {
        "arithmetics": found,
        "from host": _passes_from_host(problem, model, repeats),
        "flop": 4.0 * problem.size.n * problem.size.d * problem.n_classes,
    }


def _errors(of: Multinomial, point: Any, problem: Planted) -> dict[str, float]:
    """Relative errors, at the weights that the pass was made for."""
    W, b = of.model(point.theta)
    at = Weights(torch.as_tensor(W), torch.as_tensor(b, device=problem.device))
    truth = gradient(at, problem)
    mean = torch.as_tensor(of.mean, device=problem.device).double()
    G = truth.W - torch.outer(truth.b, mean)  # in centred coordinates
    exact = objective(at, problem)
    found = torch.as_tensor(point.gradient, device=problem.device).double()
    return {
        "objective_error": abs(point.objective - exact) / exact,
        "gradient_error": ((found[:, :-1] - G).norm() / G.norm()).item(),
    }


def _passes_from_host(problem: Planted, model: Weights, repeats: int) -> list[dict[str, float]]:
    """The rows sent, read and checked, and one pass over them."""
    X, y = problem.host
    runs = []
    for _ in range(repeats + 1):
        with DeviceWatch(problem.device) as watch:
            reader = slender.LogisticClassifier(C=problem.C, device=named(problem.device))
            of = reader._read_problem(X, y, None)
            of.at(of.theta(model.W, model.b), problem.lam)
        runs.append({"seconds": watch.seconds})
    return runs[1:]  # the first one warms up


# -- whole fits --------------------------------------------------------------------------------


def in_turns(
    make: Make, problem: Planted, repeats: int, say: Say, about: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Fits to rows of the device and to rows of the host; `about` says more of each model."""

    def fit(seed: int, host: bool) -> dict[str, Any]:
        X, y = problem.host if host else (problem.X, problem.y)
        where = {"device": named(problem.device)} if host else {}
        with DeviceWatch(problem.device) as watch:
            model = make(random_state=seed, **where).fit(X, y)
        return {"seconds": watch.seconds, **about(model)}

    say("first fits")
    first = fit(0, host=False)
    fit(0, host=True)
    runs = by_turns(
        {"device": lambda seed: fit(seed, False), "host": lambda seed: fit(seed, True)},
        range(1, repeats + 1),
        say,
    )
    return {"first": first, **runs}


def path(problem: Planted, repeats: int, say: Say) -> dict[str, Any]:
    """LinearProbe() as it comes, and through all of its values; DINOv2's sweep beside it."""

    def about(model: Any) -> dict[str, Any]:
        return {
            "C": float(model.C_),
            "values": len(model.path_),
            "path_passes": float(sum(record["passes"] for record in model.path_)),
            "passes": model.n_iter_,
            "gap": float(model.gap_ / model.objective_),
            **accuracy(weights(model, problem), problem),
        }

    default = in_turns(slender.LinearProbe, problem, repeats, say, about)
    say("all values of C")
    with DeviceWatch(problem.device) as watch:
        model = slender.LinearProbe(full=True, random_state=1).fit(problem.X, problem.y)
    whole = {"seconds": watch.seconds, **about(model)}
    say("DINOv2's sweep")
    torch_probe.sweep(problem.few(gpu_race.WARM_UP_ROWS), 0, epochs=1)
    seconds, heads = torch_probe.sweep(problem, 0)
    best = max((accuracy(head, problem) for head in heads), key=lambda found: found["top1"])
    sweep = {"seconds": seconds, "classifiers": len(heads), **best}
    return {**default, "full": whole, "sweep": sweep}


def slnd(problem: Planted, rank: int, passes: int, repeats: int, say: Say) -> dict[str, Any]:
    """SLND by balanced draws, curvature and projection included."""

    def about(model: Any) -> dict[str, Any]:
        found = accuracy(weights(model, problem), problem)
        return {"rank": model.rank_, "traced": model.trace_[-1]["seconds"], **found}

    return {"passes": passes, **in_turns(slnd_of(rank, passes), problem, repeats, say, about)}


# -- rows on the host --------------------------------------------------------------------------


def stream(problem: Planted, repeats: int, say: Say) -> dict[str, Any]:
    """A fit to float32 rows of the host, and one pass that streams them, against copying them."""
    X, y = problem.wide_host, problem.host[1]
    plain = torch.from_numpy(X)
    pinned = plain.pin_memory() if problem.device.type == "cuda" else plain
    n, device = len(X), problem.device
    rows = TensorRows(Streamed(as_rows(X), device))
    of = Multinomial(examples_of(rows, y.astype(np.int32), np.full(n, 1 / n)), problem.n_classes)
    theta = of.theta(*some_weights(problem))

    def copy(tensor: torch.Tensor) -> dict[str, float]:
        with DeviceWatch(device) as watch:
            tensor.to(device, non_blocking=True, copy=True)
        return {"seconds": watch.seconds}

    def fit(seed: int) -> dict[str, float]:
        make = logistic_of(problem)
        with DeviceWatch(device) as watch:
            model = make(device=named(device), random_state=seed).fit(X, y)
        gap = float(model.gap_ / model.objective_)
        figures = {"seconds": watch.seconds, "passes": model.n_iter_, "gap": gap}
        return {**figures, **reached(weights(model, problem), problem)}

    def streamed(seed: int) -> dict[str, float]:
        with DeviceWatch(device) as watch:
            of.at(theta, problem.lam)
        return {"seconds": watch.seconds}

    sides: dict[str, Callable[[int], dict[str, float]]] = {
        "copy": lambda _: copy(plain),
        "pinned": lambda _: copy(pinned),
        "fit": fit,
        "pass": streamed,
    }
    for side in sides.values():  # warm
        side(0)
    return {"bytes": X.nbytes, **by_turns(sides, range(1, repeats + 1), say)}


# -- memory --------------------------------------------------------------------------------------


def peak(name: str, make: Make, problem: Planted, say: Say) -> dict[str, Any]:
    """The most memory on the device above X during a fit, and what is allowed."""
    say(f"memory of {name}")
    make(random_state=0).fit(problem.X, problem.y)  # loads libraries, which keep workspaces
    release(problem.device)
    with DevicePeak(problem.device) as most:
        make(random_state=0).fit(problem.X, problem.y)
    shape = problem.size.n, problem.size.d, problem.n_classes
    return {
        "estimator": name,
        "shape": shape,
        "above_bytes": most.above,
        "reserved_bytes": most.reserved,
        "allowed_bytes": ALLOWED + ALLOWED_TIMES * 4 * shape[1] * shape[2],
    }
