"""Options that `slender run` and `slender compare` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .common import DATA
from .settings import settings_of, with_settings

PANEL = "Optimiser"
# What the practical calls them, and slender did.
SECOND_NAMES = {"lam": "--mu", "step": "--init-lr", "passes": "--epochs"}

OPT = typer.Option(
    help="gd, sgd, sgd-ovr, sgdqn, olbfgs, slnd, larank or bcfw.", rich_help_panel=PANEL
)
Obj = Annotated[
    str | None,
    typer.Option(
        help="logistic or svm.  If not given: what the optimiser solves.", rich_help_panel=PANEL
    ),
]
Dataset = Annotated[
    str,
    typer.Option(
        help="digits, mini-mnist, mnist, fashion-mnist, or the path of a file or a folder.",
        rich_help_panel=DATA,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder that holds mnist/ or fashion-mnist/.  If not given: SLENDER_DATA.",
        rich_help_panel=DATA,
    ),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        help="none, or standard: columns, then rows, are scaled (Bordes and Bottou 2008).  "
        "If not given: none.",
        rich_help_panel=DATA,
    ),
]


def with_experiment(command: Callable[..., None], arguments: list[str]) -> Callable[..., None]:
    """The command with every option of an experiment."""
    settings = settings_of("lab.optimisers", "Options", SECOND_NAMES)
    return with_settings(command, settings, PANEL)
