"""A model on rows with known labels: which classes, which pairs, how sure, which mistakes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics import calibration_error
from ...metrics import reliability as binned
from ..evaluation import Answers, answers, evaluate, figures
from .bars import bars, reliability
from .charts import Chart, Curve
from .elements import E, Element
from .section import Section
from .tables import long_table
from .thumbnails import Mistake, gallery

PAIRS = 200  # most confused, that the page holds
MISTAKES = 24  # most confident, that it shows
HISTOGRAM = 20  # bars
NO_PROBABILITIES = "Calibration: this model gives no probabilities."
ONE_CLASS = "they are of models with one class per row."


class Data(NamedTuple):
    """Rows with known labels; for images also the file of each row."""

    name: str
    X: Any
    y: NDArray[Any]
    files: Sequence[Path] = ()
    no_files: str = "Thumbnails of mistakes: the rows are not of images."


def judge(section: Section, model: Any, data: Data) -> None:
    """Add to a model's section what these rows say about it."""
    scores = evaluate(model, data.X, data.y)
    found, by_class = figures(model, data.X, data.y, scores)
    section.rows = [(who, {**row, **headline(found)}) for who, row in section.rows]
    what, names = f"{scores.rows:,} rows of {data.name}", model.classes_.tolist()
    charts = section.charts.setdefault(f"On {what}", [])
    charts += spread(by_class)
    if model.multilabel_:
        section.parts.append(classes(by_class))
        section.left_out.append(f"Confused pairs, calibration and mistakes: {ONE_CLASS}")
        return
    said, probable = answers(model, data.X, data.y), hasattr(model, "predict_proba")
    section.parts.append(classes(by_class, most_taken_for(said, names)))
    section.parts.append(confused(said, names))
    if probable:
        charts.append(calibration(said))
    else:
        section.left_out.append(NO_PROBABILITIES)
    if data.files:
        made, unread = gallery(mistakes(said, names, data.files, probable))
        section.parts.append(("Most confident mistakes", [made]))
        section.left_out += unread
    else:
        section.left_out.append(data.no_files)


def headline(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a score, as the headline calls them."""
    same = ("mean_per_class", "ece", "mean_average_precision", "f1_micro", "f1_macro")
    return {
        "test_top1": found["top1"],
        "test_top5": found["top5"],
        **{name: found.get(name) for name in same},
    }


# -- parts -----------------------------------------------------------------------------------------


def classes(
    by_class: Sequence[dict[str, Any]], taken: Sequence[str | None] | None = None
) -> tuple[str, list[Element]]:
    """Recall of each class."""
    order = sorted(
        range(len(by_class)),
        key=lambda c: (by_class[c]["recall"] is None, by_class[c]["recall"] or 0.0),
    )
    heads = [("class", ""), ("recall", "%"), ("precision", "%"), ("rows", ",d")]
    keys = ["recall", "precision", "support"]
    if any("average_precision" in each for each in by_class):
        heads.insert(3, ("average precision", "%"))
        keys.insert(2, "average_precision")
    rows = [[str(by_class[c]["class"]), *(by_class[c][key] for key in keys)] for c in order]
    if taken is not None:
        heads.append(("most often taken for", ""))
        rows = [[*row, taken[c]] for row, c in zip(rows, order, strict=True)]
    return "Classes, worst first", [long_table(heads, rows, "classes", 1)]


def spread(by_class: Sequence[dict[str, Any]]) -> list[Chart | Element]:
    """How many classes have which recall, if there are enough of them to look at."""
    recalls = np.array([each["recall"] for each in by_class if each["recall"] is not None], float)
    if len(recalls) < 2 * HISTOGRAM:
        return []
    counts, step = np.histogram(recalls, HISTOGRAM, (0.0, 1.0))[0], 100 // HISTOGRAM
    tips = [f"recall {step * k} to {step * (k + 1)} %: {n:,} classes" for k, n in enumerate(counts)]
    axes = ("recall of the class, %", "classes")
    return [bars("How the classes spread", counts.tolist(), axes, tips)]


def most_taken_for(said: Answers, names: Sequence[Any]) -> list[str | None]:
    """For each class the other one that most of its wrong rows are taken for."""
    truth, other, count = _pairs(said)
    found: list[str | None] = [None] * len(names)
    for t, o, n in zip(truth[::-1], other[::-1], count[::-1], strict=True):  # the most is last
        found[t] = f"{names[o]} ({n:,})"
    return found


def confused(said: Answers, names: Sequence[Any]) -> tuple[str, list[Any]]:
    """The pairs of classes with the most wrong rows."""
    truth, other, count = _pairs(said)
    if not len(count):
        return "Confused pairs", [E("p", "None: every row is right.")]
    support = np.bincount(said.truth[said.truth >= 0], minlength=len(names))
    rows = [
        [str(names[t]), str(names[o]), int(n), float(n / support[t])]
        for t, o, n in zip(truth[:PAIRS], other[:PAIRS], count[:PAIRS], strict=True)
    ]
    heads = [("class", ""), ("taken for", ""), ("rows", ",d"), ("of the class", "%")]
    what = "pairs" if len(count) <= PAIRS else f"of {len(count):,} pairs"
    return "Most confused pairs", [long_table(heads, rows, what, 2, down=True)]


def _pairs(said: Answers) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(truth, answer, rows) of the pairs that differ, most rows first."""
    wrong = (said.truth >= 0) & ~said.right
    both = np.stack([said.truth[wrong], said.said[wrong]], axis=1)
    found, count = np.unique(both, axis=0, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return found[order, 0], found[order, 1], count[order]


def calibration(said: Answers) -> Element:
    rows, expected, right = binned(said.confidence, said.right)
    share = np.maximum(rows, 1)
    ece = calibration_error(said.confidence, said.right)
    return reliability(rows.tolist(), (expected / share).tolist(), (right / share).tolist(), ece)


def mistakes(
    said: Answers, names: Sequence[Any], files: Sequence[Path], probabilities: bool
) -> list[Mistake]:
    """The wrong rows of which the model is surest."""
    wrong = np.flatnonzero((said.truth >= 0) & ~said.right)
    surest = wrong[np.argsort(-said.confidence[wrong], kind="stable")[:MISTAKES]]
    return [
        Mistake(
            files[row],
            str(names[said.truth[row]]),
            str(names[said.said[row]]),
            f"{100 * said.confidence[row]:.0f} % sure" if probabilities
            else f"ahead by {said.confidence[row]:.3g}",
        )
        for row in surest
    ]  # fmt: skip


def spectrum(section: Section, model: Any) -> None:
    """Add the singular values of W."""
    W = model.coef_
    values = np.linalg.svd(W.astype(np.float64), compute_uv=False)
    # those that rounding makes of zeros are none: weights of a softmax add up to zero
    values = values[values > values[0] * max(W.shape) * np.finfo(W.dtype).eps]
    if len(values) < 2:
        section.left_out.append("Spectrum of W: its rank is below two.")
        return
    energy = np.cumsum(values**2) / np.sum(values**2)
    tips = [
        f"σ{k + 1} = {value:.4g}: {100 * part:.1f} % of ‖W‖² so far"
        for k, (value, part) in enumerate(zip(values, energy, strict=True))
    ]
    half, most = (1 + int(np.searchsorted(energy, share)) for share in (0.5, 0.9))
    line = Curve("σ", {"place": list(range(1, len(values) + 1))}, values.tolist(), tips)
    note = f"Half of ‖W‖² is in the first {half:,}, 90 % in the first {most:,} of {len(values):,}."
    section.charts["Spectrum of W"] = [
        Chart(
            "Singular values of W",
            "singular value",
            {"place": "place of the singular value"},
            [line],
            False,
            True,
            note=note,
        )
    ]
