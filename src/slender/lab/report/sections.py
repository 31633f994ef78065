"""Which function makes the section of which result."""

from collections.abc import Callable, Mapping
from typing import Any

from ...storage import FileError
from .experiments import of_compare, of_run
from .fits import of_fit, of_model, of_path
from .judgement import Data, classes, headline, judge, spectrum, spread
from .reproductions import of_reproduce
from .results import Result
from .section import DAMAGED, Section, command_of, versions_of

NO_DATA = (
    "Accuracy by class, confused pairs, calibration and mistakes: the page was made without rows "
    "with known labels (--data)."
)
NO_MODEL = (
    "Accuracy by class, confused pairs, calibration and the spectrum of W: the document does not "
    "hold the model; give the model file too."
)
OLD = "The command: this result was written by a version that did not keep it."


def section_of(result: Result, data: Data | None = None) -> Section:
    """The section of a result; of a model also what these rows say about it."""
    try:
        section = KINDS[result.kind](result)
    except DAMAGED as error:
        reason = f"{type(error).__name__}: {error}"
        raise FileError(
            f"{result.path}: not as slender {result.kind} writes it ({reason}); run it again"
        ) from error
    if result.kind == "model":
        spectrum(section, result.classifier)
        if data is None:
            section.left_out.append(NO_DATA)
        else:
            judge(section, result.classifier, data)
    if result.kind in ("fit", "path"):
        section.left_out.append(NO_MODEL)
    if section.command is None:
        section.left_out.append(OLD)
    return section


def of_score(result: Result) -> Section:
    """Of slender score --json."""
    document = result.document
    figures: Mapping[str, Any] = {
        **{name: document[name] for name in ("rows", "classes")},
        **headline(document),
    }
    section = Section(
        name=result.name,
        title=f"Score of {document['model']}",
        rows=[("", figures)],
        settings=document["settings"],
        versions=versions_of(document),
        command=command_of(document),
    )
    if "per_class" in document:
        section.parts.append(classes(document["per_class"]))
        section.charts["Classes"] = spread(document["per_class"])
    else:
        section.left_out.append("Accuracy by class: slender score --per-class writes it.")
    return section


KINDS: dict[str, Callable[[Result], Section]] = {
    "model": of_model,
    "fit": of_fit,
    "path": of_path,
    "score": of_score,
    "run": of_run,
    "compare": of_compare,
    "reproduce": of_reproduce,
}
