"""Claims of the papers, decided on numbers that were made up: each can hold, and each can fail."""

import copy

import pytest

from slender.lab.reproduce import (
    complexity,
    larank,
    onepass,
    orders,
    practical,
    sizes,
    slnd_losses,
    slnd_passes,
    slnd_settings,
    slnd_theory,
    slnd_transfer,
    trace,
    trace_codes,
    trace_quoted,
)
from slender.lab.reproduce.base import Material, Scale, as_document, verdict
from slender.lab.reproduce.catalogue import EXPERIMENTS

A = {"data": "a"}


def over(name, values, **more):
    """Rows that differ in one column."""
    return [{**A, **more, name: value} for value in values]


def curve(y, values, **more):
    """Rows of passes 1, 2, ... with one figure."""
    return [{**A, **more, "seed": 0, "passes": t, "seconds": t * 1.0, "gap": None, y: value}
            for t, value in enumerate(values, 1)]  # fmt: skip


def losses(change=None):
    tables = slnd_losses.measure(Material({}, Scale(points=1)))
    if change:
        change([row for row in tables["losses"] if row["loss"] == "logistic"])
    return tables


def steeper(rows):
    rows[0]["curvature"] = 1.0


def lopsided(rows):
    rows[0]["posterior"] = 0.4


def eigenvalues(values, shares):
    return {
        "eigenvalues": [
            {**A, "place": k, "eigenvalue": v, "share": s}
            for k, (v, s) in enumerate(zip(values, shares, strict=True), 1)
        ]
    }


def ranks(values, other=None):
    sets = {"a": values, "b": other or values}
    return {"ranks": [{"data": data, "rank": 2**k, "share": 2**k / 64, "seed": 0, "top1": v}
                      for data, of in sets.items() for k, v in enumerate(of)]}  # fmt: skip


def samples(values):
    return {"samples": [{**A, "samples": 10 * 2**k, "rank": 10, "seed": 0, "top1": v}
                        for k, v in enumerate(values)]}  # fmt: skip


GOOD = {"SGD": [0.1] * 9 + [0.2], "SGD-QN": [0.2] * 10, "SLND, diagonal": [0.2] * 10,
        "SLND, logistic": [0.5] * 10, "SLND, calibrated hinge": [0.5] * 10,
        "SGD, averaged": [0.3] * 10}  # fmt: skip


def passes(**change):
    curves = {**GOOD, **{name.replace("_", " "): of for name, of in change.items()}}
    curves = {name.replace("SLND ", "SLND, "): of for name, of in curves.items()}
    return {"passes": [row | {"top5": row["top1"]} for name, of in curves.items()
                       for row in curve("top1", of, method=name)]}  # fmt: skip


def time(rival):
    return {
        "time": [
            {
                **A,
                "seed": 0,
                "rival": "SGD",
                "top1": 0.9,
                "seconds_slnd": 1.0,
                "seconds_rival": rival,
                "seconds_given": 30.0,
                "top1_rival": 0.8,
            }
        ]
    }


def theorem(decrease, gamma=0.3):
    return {"theorem2": [{**A, "loss": loss, "step": 1, "m": 40, "risk": 0.5, "decrease": decrease,
                          "guaranteed": 0.1, "gamma": gamma, "rho": 1.0, "eta": 1.0}
                         for loss in ("logistic", "squared")]}  # fmt: skip


def lemma(star, rival, norm=2.0, sandwich=2.0):
    row = {**A, "k": 2, "d": 5}
    return {
        "lemma1": [
            {**row, "kind": "H*", "error": star, "norm": 1.0, "sandwich": 1.0},
            {**row, "kind": "other", "error": rival, "norm": norm, "sandwich": sandwich},
        ]
    }


def transfer(top1):
    rows = [{"tuned_on": one, "used_on": two, "step": 1.0, "share": 0.5, "own": 0.9,
             "top1": 0.9 if one == two else top1} for one in "ab" for two in "ab"]  # fmt: skip
    return {"grid": [], "transfer": rows}


def epochs(with_it, without, moves=(100, 200)):
    return {"epochs": [
        {**A, "size": size, "seed": 0, "kind": kind, "epochs": e, "moves": m}
        for kind, of in (("with reprocess", with_it), ("without", without))
        for size, e, m in zip((100, 200), of, moves, strict=True)
    ]}  # fmt: skip


def order_of(sgd, sgdqn, seconds=(1.0, 1.0, 5.0)):
    rows = []
    for (name, of), pace in zip(
        {"SGD": sgd, "SGD-QN": sgdqn, "oLBFGS": sgd}.items(), seconds, strict=True
    ):
        rows += [
            {**row, "seconds": pace * row["passes"]} for row in curve("objective", of, method=name)
        ]
    return {"orders": rows}


def scaled(gains):
    return {"preprocessing": [
        {**A, "rows": how, "solver": solver, "seed": 0, "passes": 1,
         "top1": 0.5 + (gain if how == "standard" else 0.0)}
        for solver, gain in zip(orders.SOLVERS, gains, strict=True) for how in orders.HOW
    ]}  # fmt: skip


def one_pass(second, slnd=1.0, plain=9.0):
    excess = {onepass.OPTIMUM: 1.0, onepass.SECOND: second, onepass.SLND: slnd,
              onepass.PLAIN: plain}  # fmt: skip
    return {
        "onepass": [
            {"examples": n, "method": kind, "repeat": 0, "excess": value}
            for kind, value in excess.items()
            for n in (10, 100)
        ]
    }


def doubled(errors, above, seconds=(1.0, 2.0, 4.0)):
    return {"sizes": [
        {**A, "method": "SGD", "size": 100 * 2**k, "seconds": s, "error": e, "above_best": x,
         "effort": 1.0, "au_time": None}
        for k, (e, x, s) in enumerate(zip(errors, above, seconds, strict=True))
    ]}  # fmt: skip


def descent(gd, sgd, pace=0.1):
    fast = [
        {**row, "seconds": pace * row["passes"]} for row in curve("objective", sgd, method="SGD")
    ]
    return {"gd": [*curve("objective", gd, method="GD"), *fast]}


def frank_wolfe(bcfw, sub, rates=(1.0, 3.0)):
    rows = [
        row
        for name in practical.SVMS
        for row in curve("objective", bcfw if "BCFW" in name else sub, method=name)
    ]
    return {"bcfw": rows, "rates": [row for rate, value in enumerate(rates)
            for row in curve("objective", [value], rate=rate, average=False)]}  # fmt: skip


def mu(shares):
    return {
        "mu": [
            row
            for power, share in enumerate(shares)
            for row in curve("share", [share], mu=10.0**power)
        ]
    }


def costs(grow=1.0, flat=0.0, times=1.0, memory=2.0, single=1e9):
    rows = []
    for name, method in complexity.METHODS.items():
        p = grow if method.batch is None else flat
        for n in (1000, 4000):
            more = {"BCFW, mini-batches": (times, memory), "BCFW": (1.0, single)}
            factor, stored = more.get(name, (1.0, 1.0))
            rows.append(
                {
                    "method": name,
                    "rows": n,
                    "seconds": factor * n**p / 1e6,
                    "bytes": stored,
                    "bytes_formula": 1e6,
                }
            )
    return {"complexity": rows}


def spectrum(values):
    total = sum(v * v for v in values)
    sums = [sum(v * v for v in values[:k]) / total for k in range(1, len(values) + 1)]
    return {
        "spectrum": [
            {**A, "place": k, "singular_value": v, "energy": e}
            for k, (v, e) in enumerate(zip(values, sums, strict=True), 1)
        ]
    }


def classes(trace_norm, svm):
    rows = []
    for method, of in ((trace.TRACE, trace_norm), (trace.SVM, svm)):
        rows += [
            {**A, "classes": count, "method": method, "k": k, "top_k": v + 0.1 * k, "rank": 3}
            for count, v in zip((4, 40), of, strict=True)
            for k in (1, 2)
        ]
    return {"classes": rows}


def codes(full, coded, semi):
    cases = zip(trace_codes.CASES, (full, coded, semi), strict=True)
    return {"compression": [{**A, "method": trace.TRACE, "case": case, "seed": 0, "d_sq": 4,
                             "top1": value} for case, value in cases]}  # fmt: skip


def products(sooner):
    return {"products": [{"product": name, "sooner": sooner, "seconds_full": 4.0,
                          "seconds_codes": 1.0, "paper_full": 4.0, "paper_codes": 1.0}
                         for name in trace_codes.QUOTED]}  # fmt: skip


def quoted(top1):
    return {"quoted": [{"data": "fungus", "method": trace.TRACE, "classes": 9, "quoted": 0.12,
                        "classes_in_paper": 134, "top1": top1}]}  # fmt: skip


S = [1e0, 1e-3, 0.9e-3, 0.8e-3, 0.7e-3, 0.6e-3, 0.5e-3, 0.4e-3, 0.3e-3, 1e-6, 1e-9]
CASES = [  # judge, tables in which all holds, tables in which something does not, a word of it
    (slnd_losses.judge, losses(), losses(steeper), "F''(z) <= F''(0)"),
    (slnd_losses.judge, losses(), losses(lopsided), "calibrated"),
    (slnd_settings.judge_eigenvalues, eigenvalues(S, [0.95] * 11),
     eigenvalues([1.0 - 0.01 * k for k in range(11)], [0.95] * 11), "badly conditioned"),
    (slnd_settings.judge_eigenvalues, eigenvalues(S, [0.95] * 11),
     eigenvalues([10.0**-k for k in range(11)], [0.95] * 11), "sigmoid"),
    (slnd_settings.judge_eigenvalues, eigenvalues(S, [0.95] * 11),
     eigenvalues(S, [k / 11 for k in range(1, 12)]), "few directions"),
    (slnd_settings.judge_ranks, ranks([0.1, 0.5, 0.9, 0.9, 0.9]), ranks([0.1, 0.2, 0.5, 0.7, 0.9]),
     "large plateau"),
    (slnd_settings.judge_ranks, ranks([0.1, 0.5, 0.9, 0.9, 0.9]),
     ranks([0.1, 0.5, 0.9, 0.9, 0.9], [0.9, 0.1, 0.1, 0.1, 0.1]), "overlap"),
    (slnd_settings.judge_samples, samples([0.1, 0.9, 0.91]), samples([0.9, 0.8, 0.9]), "m'"),
    (slnd_passes.judge, passes(), passes(SGD=[0.1, 0.5] + [0.2] * 8), "passes or more"),
    (slnd_passes.judge, passes(), passes(SLND_calibrated_hinge=[0.6] * 10), "calibrated hinge"),
    (slnd_passes.judge, passes(), passes(**{"SGD-QN": [0.4] * 10}), "close to SGD"),
    (slnd_passes.judge, passes(), passes(SLND_diagonal=[0.4] * 10), "diagonal SLND"),
    (slnd_passes.judge, passes(), passes(SLND_logistic=[0.1] * 10), "more accurate than SGD"),
    (slnd_passes.judge, passes(), passes(SLND_logistic=[0.1] * 10), "top-5"),
    (slnd_passes.judge_time, time(20.0), time(2.0), "times as long"),
    (slnd_passes.judge_time, time(None), time(2.0), "times as long"),  # it never gets there
    (slnd_theory.judge_theorem2, theorem(0.1), theorem(0.05), "lowers the risk"),
    (slnd_theory.judge_theorem2, theorem(0.1), theorem(0.2), "exactly"),
    (slnd_theory.judge_theorem2, theorem(0.1), theorem(0.1, 0.0), "weak separability"),
    (slnd_theory.judge_lemma1, lemma(3.0, 3.5), lemma(2.5, 3.5), "d - k"),
    (slnd_theory.judge_lemma1, lemma(3.0, 3.5), lemma(3.0, 2.5), "no other"),
    (slnd_theory.judge_lemma1, lemma(3.0, 3.5), lemma(3.0, 3.0), "the only one"),
    (slnd_theory.judge_lemma1, lemma(3.0, 3.5), lemma(3.0, 3.0, norm=0.5), "least norm"),
    (slnd_theory.judge_lemma1, lemma(3.0, 3.5), lemma(3.0, 3.5, sandwich=0.5), "least norm"),
    (slnd_transfer.judge, transfer(0.89), transfer(0.8), "tuned on a"),
    (larank.judge, epochs((2, 3), (5, 6)), epochs((2, 6), (5, 6)), "reprocess"),
    (larank.judge, epochs((2, 3), (None, 6)), epochs((None, 3), (5, 6)), "reprocess"),
    (larank.judge, epochs((2, 3), (5, 6)), epochs((2, 3), (5, 6), (100, 400)), "O(n)"),
    (orders.judge, order_of([3, 2], [2, 1]), order_of([1, 2], [2, 1]), "after one pass"),
    (orders.judge, order_of([3, 2], [2, 1]), order_of([3, 1], [2, 2]), "after 2 passes"),
    (orders.judge, order_of([3, 2], [2, 1]), order_of([3, 2], [2, 1], (1, 3, 5)), "about as much"),
    (orders.judge, order_of([3, 2], [2, 1]), order_of([3, 2], [2, 1], (1, 1, 1)), "oLBFGS"),
    (orders.judge_preprocessing, scaled((0.1, 0.1, 0.0)), scaled((0.0, 0.1, 0.0)), "SGD gains"),
    (orders.judge_preprocessing, scaled((0.1, 0.1, 0.0)), scaled((0.1, 0.1, -0.2)), "LaRank"),
    (onepass.judge, one_pass(1.1), one_pass(2.0), "one pass with H⁻¹"),
    (onepass.judge, one_pass(1.1), one_pass(1.1, slnd=2.0), "SLND"),
    (onepass.judge, one_pass(1.1), one_pass(1.1, plain=1.2), "without curvature"),
    (sizes.judge, doubled((0.2, 0.199, 0.199), (0.01, 0.005, 0.004)),
     doubled((0.2, 0.1, 0.05), (0.15, 0.05, 0.001)), "there is a point"),
    (sizes.judge, doubled((0.2, 0.199, 0.199), (0.01, 0.005, 0.004)),
     doubled((0.2, 0.199, 0.199), (0.01, 0.005, 0.004), (1, 2, 2.1)), "last doubling"),
    (practical.judge_gd, descent([5] * 10, [2] * 10), descent([5] + [1] * 9, [2] * 10), "one pass"),
    (practical.judge_gd, descent([5] * 10, [2] * 10), descent([5] * 10, [2] * 10, 9.0), "faster"),
    (practical.judge_bcfw, frank_wolfe([2, 1], [3, 2]), frank_wolfe([4, 1], [3, 2]), "one epoch"),
    (practical.judge_bcfw, frank_wolfe([2, 1], [3, 2]), frank_wolfe([2, 1.9], [3, 1]), "fewer"),
    (practical.judge_bcfw, frank_wolfe([2, 1], [3, 2]), frank_wolfe([2, 1], [3, 2], (1, 1.1)),
     "first step"),
    (practical.judge_mu, mu([0.5, 0.1, 0.01]), mu([0.5, 0.1, 0.2]), "larger μ"),
    (complexity.judge, costs(), costs(grow=0.0), "GD: the time of an iteration grows"),
    (complexity.judge, costs(), costs(flat=1.0), "SGD: the time of an iteration does not depend"),
    (complexity.judge, costs(), costs(times=9.0), "the same time"),
    (complexity.judge, costs(), costs(memory=0.5), "more memory"),
    (complexity.judge, costs(), costs(single=2.0), "copies of W"),
    (trace.judge_spectrum, spectrum([9, 8, 1, 0.9, 0.9, 0.8, 0.8, 0.8]),
     spectrum([2, 1.5, 1.2, 1.1, 1, 1, 1, 1]), "most of the energy"),
    (trace.judge_spectrum, spectrum([9, 8, 1, 0.9, 0.9, 0.8, 0.8, 0.8]),
     spectrum([9, 8, 8, 8, 8, 0.1, 0.1, 0.1]), "falls fast"),
    (trace.judge_classes, classes((0.5, 0.5), (0.5, 0.4)), classes((0.5, 0.5), (0.3, 0.4)),
     "gains on one-vs-rest"),
    (trace.judge_classes, classes((0.5, 0.5), (0.5, 0.4)), classes((0.2, 0.3), (0.5, 0.4)),
     "more accurate with all"),
    (trace.judge_classes, classes((0.5, 0.5), (0.5, 0.4)), classes((0.2, 0.3), (0.5, 0.4)),
     "every k"),
    (trace_codes.judge_compression, codes(0.9, 0.7, 0.8), codes(0.9, 0.7, 0.71), "almost half"),
    (trace_codes.judge_compression, codes(0.7, 0.7, 0.6), codes(0.9, 0.7, 0.6), "almost half"),
    (trace_codes.judge_products, products(5.0), products(0.5), "faster than from the full"),
    (trace_codes.judge_products, products(5.0), products(2.0), "four times faster"),
    (trace_quoted.judge, quoted(0.2), quoted(0.1), "Deng et al. 2010"),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "good", "bad", "word"), CASES)
def test_a_claim_can_hold_and_can_fail(judge, good, bad, word):
    before = copy.deepcopy((good, bad))
    held = [claim for claim in judge(good) if word in claim.text]
    failed = [claim for claim in judge(bad) if word in claim.text]
    assert held
    assert all(claim.holds for claim in held), held
    assert failed
    assert not all(claim.holds for claim in failed), failed
    assert (good, bad) == before  # a judge changes nothing
    for claim in held:
        assert verdict(as_document(claim)).startswith("holds: ")


def test_every_experiment_is_judged_here():
    assert {each.judge for each in EXPERIMENTS} == {judge for judge, *_ in CASES}
