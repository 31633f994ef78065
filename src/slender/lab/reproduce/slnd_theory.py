"""Bel Haj Ali et al. 2013, §5: Theorem 2 at every step, and Lemma 1 against other matrices.

slender.theory says where the printed theorem is corrected.  Lemma 1 calls H* *the* minimiser of
‖I - H H'‖_F over rank k: its minimum d - k is attained by many H', of which H* is the smallest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...curvature import LowRank
from ...curvature.base import CurvatureSample
from ...losses import CalibratedHinge, Logistic, Squared
from ...rows import DenseRows, as_rows
from ...theory import RiskSample, horizon
from ..splits import Split
from .base import Claim, Experiment, Material, Row, Tables, grouped
from .drawing import below, named, numbers_on, sheet, style
from .material import dense, ladder
from .slnd_losses import PAPER

LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "calibrated hinge": CalibratedHinge(),
    "squared": Squared(),
}
ROWS, STEPS = 400, 400  # of the sample, and of the descent on it
RANK = 32
SHOWN = 1e-7  # smallest γ in the figure; that of a squared loss at its minimum is rounding
ROUNDING = 1e-12  # of a risk near 1
DIMENSION = 64  # of the matrices of Lemma 1, at most
RIVALS = 20  # matrices of each kind
EQUAL = 1e-8  # relative, of norms of matrices


def whitened(split: Split, seed: int, most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows z, half of them of the first class and half of others, and their signs, in float64."""
    X = dense(split.X_train, 20_000).astype(np.float64)
    y = np.asarray(split.y_train)[: len(X)] if len(X) == len(split.y_train) else None
    if y is None:
        y = np.asarray(split.y_train)[np.linspace(0, len(split.y_train) - 1, len(X)).astype(int)]
    rng = np.random.default_rng(seed)
    positive = y == np.unique(y)[0]
    half = min(most // 2, int(positive.sum()), int((~positive).sum()))
    places = [rng.choice(np.flatnonzero(side), half, False) for side in (positive, ~positive)]
    X = X[np.concatenate(places)]
    signs = np.repeat([1.0, -1.0], half)
    sample = CurvatureSample(as_rows(X), np.arange(len(X)), False, 0.25, rng)
    rank = min(RANK, int(np.linalg.matrix_rank(X)))
    Z = LowRank(rank=rank).estimate(sample).rows(DenseRows(X))
    return Z.dense(np.arange(len(X))), signs


def theorem2(material: Material) -> Tables:
    rows: list[Row] = []
    steps, m = int(STEPS * material.scale.effort), int(ROWS * material.scale.effort)
    for data, split in material.sets.items():
        for name, loss in LOSSES.items():
            material.say(f"{data}: {name}")
            sample = RiskSample.at_zero(*whitened(split, 0, max(m, 20)))
            order = np.random.default_rng(1).integers(len(sample.y), size=max(steps, 20))
            before = sample.risk(loss)
            for t, i in enumerate(order, 1):
                step = sample.take_step(loss, int(i))
                after = sample.risk(loss)
                rows.append(
                    {"data": data, "loss": name, "step": t, "m": len(sample.y), "risk": after,
                     "decrease": before - after, "guaranteed": step.decrease,
                     "gamma": step.gamma, "rho": step.rho, "eta": step.eta}
                )  # fmt: skip
                before = after
    return {"theorem2": rows}


def judge_theorem2(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["theorem2"], "data").items():
        for loss, its in grouped(rows, "loss").items():
            short = max(row["guaranteed"] - row["decrease"] for row in its)
            claims.append(
                Claim(
                    f"{loss}: every step lowers the risk by what eq. 15 guarantees", data,
                    short <= ROUNDING,
                    {"steps": len(its), "largest shortfall": short,
                     "guaranteed of measured": _share(its)},
                )
            )  # fmt: skip
        squared = [row for row in rows if row["loss"] == "squared"]
        apart = max((abs(r["guaranteed"] - r["decrease"]) for r in squared), default=0.0)
        claims.append(
            Claim("squared: by exactly that much", data, apart <= ROUNDING, {"largest": apart})
        )
        its = [row for row in rows if row["loss"] == "logistic"]
        gamma = min(row["gamma"] for row in its)
        can = horizon(Logistic(), its[0]["m"], gamma) if gamma > 0 else float("inf")
        claims.append(
            Claim(
                "weak separability: one γ > 0 serves every step (the logistic loss cannot fall "
                "below 0, so it can serve a limited number of steps)",
                data,
                gamma > 0 and len(its) <= can,
                {
                    "first γ": its[0]["gamma"],
                    "smallest": gamma,
                    "steps": len(its),
                    "steps it can serve at most": can,
                },
            )
        )
    return claims


def _share(rows: list[Row]) -> float:
    return sum(r["guaranteed"] for r in rows) / max(sum(r["decrease"] for r in rows), 1e-300)


def draw_theorem2(tables: Tables) -> Any:
    its = grouped(tables["theorem2"], "data")
    figure, axes = sheet(THEOREM2.heading, 2, len(its), 2.8)
    for (left, right), (data, rows) in zip(axes, its.items(), strict=True):
        for place, (loss, mine) in enumerate(grouped(rows, "loss").items()):
            look = {"color": style(place)["color"], "lw": 1.5}
            t = [row["step"] for row in mine]
            fell = np.cumsum([row["decrease"] for row in mine])
            least = np.cumsum([row["guaranteed"] for row in mine])
            left.plot(t, fell, **look, label=f"{loss}, measured")
            left.plot(t, least, **{**look, "lw": 2.5}, ls=":", label=f"{loss}, guaranteed")
            gamma = [row["gamma"] for row in mine]
            right.plot(t, gamma, ".", ms=2.5, color=look["color"], alpha=0.7)
        left.set_yscale("log")
        right.set_yscale("log")
        right.set_ylim(bottom=SHOWN)
        named(left, "step t", "fall of the risk since w = 0", data)
        named(right, "step t", "γ of the step (eq. 14)")
    return below(figure, axes, 3)


THEOREM2 = Experiment(
    "slnd-theorem2", PAPER, "Theorem 2", "fall of the risk, measured and guaranteed",
    theorem2, judge_theorem2, draw_theorem2, data=("digits", "planted5k"), aliases=("slnd-wsa",),
)  # fmt: skip


# -- Lemma 1 ---------------------------------------------------------------------------------------


def lemma1(material: Material) -> Tables:
    rows: list[Row] = []
    rng = np.random.default_rng(0)
    for data, split in material.sets.items():
        X = dense(split.X_train, 5000).astype(np.float64)[:, :DIMENSION]
        H = Logistic().curvature(0.0) * X.T @ X / len(X)
        D, P = np.linalg.eigh(H)
        D, P = D[::-1], P[:, ::-1]
        rank = int(np.sum(D > 1e-10 * D[0]))
        for k in ladder(1, rank - 1, material.scale.points):
            star = (P[:, :k] / D[:k]) @ P[:, :k].T
            rows.append({"data": data, "k": k, "kind": "H*", **_norms(H, star)})
            for _ in range(max(2, int(RIVALS * material.scale.effort))):
                kept = np.sort(rng.choice(rank, k, replace=False))
                others = (P[:, kept] / D[kept]) @ P[:, kept].T
                noise = rng.standard_normal((len(H), k)) @ rng.standard_normal((k, len(H)))
                moved = _truncated(star + 0.1 * _sized(noise, star), k)
                U = H @ P[:, :rank] @ rng.standard_normal((rank, k))  # a random range for H'
                fitted = np.linalg.lstsq(U, np.eye(len(H)), rcond=None)[0]
                inside = np.linalg.lstsq(H, U, rcond=None)[0] @ fitted
                for kind, rival in (
                    ("other eigenvectors", others), ("H* moved by a tenth", moved),
                    ("best on a random range", inside),
                ):  # fmt: skip
                    rows.append({"data": data, "k": k, "kind": kind, **_norms(H, rival)})
    return {"lemma1": rows}


def _norms(H: NDArray[Any], inverse: NDArray[Any]) -> Row:
    eye = np.eye(len(H))
    return {
        "d": len(H),
        "error": float(np.linalg.norm(eye - H @ inverse) ** 2),
        "norm": float(np.linalg.norm(inverse)),
        "sandwich": float(np.linalg.norm(H - H @ inverse @ H)),
    }


def _sized(noise: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    return noise * (np.linalg.norm(like) / np.linalg.norm(noise))


def _truncated(A: NDArray[Any], k: int) -> NDArray[Any]:
    U, s, Vt = np.linalg.svd(A)
    return (U[:, :k] * s[:k]) @ Vt[:k]


def judge_lemma1(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["lemma1"], "data").items():
        stars = {row["k"]: row for row in rows if row["kind"] == "H*"}
        rivals = [row for row in rows if row["kind"] != "H*"]
        apart = max(abs(row["error"] - (row["d"] - k)) for k, row in stars.items())
        d = rows[0]["d"]
        below_it = min(row["error"] - stars[row["k"]]["error"] for row in rivals)
        equal = [r for r in rivals if r["error"] - stars[r["k"]]["error"] <= EQUAL * d]
        smaller = min((r["norm"] / stars[r["k"]]["norm"] for r in equal), default=1.0)
        worse = min(row["sandwich"] - stars[row["k"]]["sandwich"] for row in rivals)
        largest = max(row["sandwich"] for row in rows)
        claims += [
            Claim("‖I - H H*‖² is d - k", data, apart <= EQUAL * d, {"largest departure": apart}),
            Claim(
                "no other H' of rank k has a smaller ‖I - H H'‖²", data, below_it >= -EQUAL * d,
                {"tried": len(rivals), "least above H*": below_it},
            ),
            Claim(
                "H* is the only one with the smallest (as the lemma is printed)", data, not equal,
                {"others with the same": len(equal)},
            ),
            Claim(
                "of those with the smallest, H* has the least norm, and it has the least "
                "‖H - H H' H‖ of all (the lemma as it is true)",
                data,
                smaller >= 1.0 - EQUAL and worse >= -EQUAL * largest,
                {"least norm over that of H*": smaller, "least ‖H - H H' H‖ above": worse},
            ),
        ]  # fmt: skip
    return claims


def draw_lemma1(tables: Tables) -> Any:
    its = grouped(tables["lemma1"], "data")
    figure, axes = sheet(LEMMA1.heading, 2, len(its), 2.8)
    for (left, right), (data, rows) in zip(axes, its.items(), strict=True):
        for place, (kind, mine) in enumerate(grouped(rows, "kind").items()):
            look = {**style(place, kind), "ls": "", "ms": 7 if kind == "H*" else 4}
            if kind != "H*":
                look |= {"alpha": 0.6, "fillstyle": "none"}
            k = [row["k"] for row in mine]
            left.plot(k, [row["error"] / (row["d"] - row["k"]) for row in mine], **look)
            right.plot(k, [max(row["sandwich"], 1e-12) for row in mine], **look)
        for ax in (left, right):
            ax.set_yscale("log")
            numbers_on(ax, "x", sorted({row["k"] for row in rows}))
        named(left, "rank k", r"$\|I - H H'\|_F^2\;/\;(d - k)$", data)
        named(right, "rank k", r"$\|H - H H' H\|_F$")
    return below(figure, axes)


LEMMA1 = Experiment(
    "slnd-lemma1", PAPER, "Lemma 1", "H* against other matrices of rank k",
    lemma1, judge_lemma1, draw_lemma1, data=("digits", "planted5k"),
)  # fmt: skip
