"""Options that `slender run` and `slender compare` share."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import of_data
from .settings import settings_of, with_settings

PANEL = "Optimiser"
of_optimiser: Any = partial(typer.Option, rich_help_panel=PANEL)
# Of `slender run`: the name in the exercise sheet that it comes from (AIMS in NOTATION.md).
SECOND_NAMES = {"run": {"lam": "--mu"}}

OPT = of_optimiser(help="gd, sgd, sgd-ovr, sgdqn, olbfgs, slnd, larank or bcfw.")
Obj = Annotated[
    str | None,
    of_optimiser(help="logistic or svm.  If not given: what the optimiser solves."),
]
Dataset = Annotated[
    str,
    of_data(help="digits, mnist, ... (slender datasets lists them), or the path of data."),
]
DataDir = Annotated[
    Path | None,
    of_data(help="The folder that holds data sets (mnist/, ...).  If not given: SLENDER_DATA."),
]
Preprocess = Annotated[
    str | None,
    of_data(
        help="none, or standard: columns, then rows, are scaled (Bordes and Bottou 2008).  "
        "If not given: none."
    ),
]


def with_experiment(command: Callable[..., None], arguments: list[str]) -> Callable[..., None]:
    """The command with every option of an experiment."""
    second_names = SECOND_NAMES.get(command.__name__)
    settings = settings_of("lab.optimisers", "Options", second_names)
    return with_settings(command, settings, PANEL)
