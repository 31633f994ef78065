"""Products with coded rows against BLAS on the decoded ones (Harchaoui et al. 2012, §4.2).

M @ B and M.T @ G of a CompressedMatrix, and the same of the dense float32 matrix it stands for, by
numpy.  Both sides have all cores: slender's threads, and BLAS's own.  A GFLOP is counted as the
dense product would need it, on both sides.
"""

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any

import numpy as np

from ..compress import CompressedMatrix
from ..rows.lookup import CENTROIDS
from ..solvers.loop import Clock
from .repeats import Say, by_turns, ratios, spread, spread_of

REST = 0.05  # seconds before each product: BLAS's threads spin for a while after theirs
PRODUCTS = {"M @ B": "X B, scores from weights", "M.T @ G": "Xᵀ G, a gradient"}


def random_codes(n: int, d: int, d_sq: int) -> CompressedMatrix:
    """The cost of a product does not depend on the numbers, and hardly on the codes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CENTROIDS, (n, d // d_sq), dtype=np.uint8)
    codebooks = rng.standard_normal((d // d_sq, CENTROIDS, d_sq), dtype=np.float32)
    return CompressedMatrix(codes, codebooks)


def race(n: int, d: int, d_sq: int, m: int, repeats: int, say: Say) -> dict[str, Any]:
    """Both products on both sides, by turns."""
    coded = random_codes(n, d, d_sq)
    dense = coded.toarray()
    rng = np.random.default_rng(1)
    B = rng.standard_normal((d, m), dtype=np.float32)
    G = rng.standard_normal((n, m), dtype=np.float32)
    sides = {
        "M @ B": (lambda: coded @ B, lambda: dense @ B),
        "M.T @ G": (lambda: coded.T @ G, lambda: dense.T @ G),
    }
    found = {}
    for name, (ours, theirs) in sides.items():
        say(name)
        apart = ours() - (expected := theirs())  # also compiles, and wakes BLAS's threads
        turns = {"codes": partial(_timed, ours), "dense": partial(_timed, theirs)}
        runs = by_turns(turns, range(repeats))
        found[name] = {
            "apart": float(np.linalg.norm(apart) / np.linalg.norm(expected)),
            "sooner": ratios(runs["dense"], runs["codes"]),
        }
        flop = 2.0 * n * d * m
        for side, of in runs.items():
            found[name][side] = spread_of(of, "seconds")
            found[name][f"{side}_gflops"] = spread([flop / run["seconds"] / 1e9 for run in of])
    return {"n": n, "d": d, "d_sq": d_sq, "m": m, "products": found}


def _timed(product: Callable[[], Any], turn: int) -> dict[str, float]:
    """One in a row of products, as a fit makes them, after the other side's threads have slept."""
    sleep(REST)
    product()
    with Clock() as clock:
        product()
    return {"seconds": clock.seconds}
