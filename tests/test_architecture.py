"""Imports follow the data: a module imports only from what stands above it in this list."""

import ast
from pathlib import Path

import pytest

import slender

ORDER = [
    "registry",  # which estimators there are
    "notices",  # warnings
    "extras",  # packages that only some functions need
    "storage",  # files in general
    "kernels",  # compiled, and kept on disk
    "verbs",  # how kernels call methods
    "rows",  # vectors -> something a kernel can read
    "metrics",  # how good scores are
    "losses",
    "labels",
    "problem",  # the objective, written once
    "theory",
    "curvature",  # what is known of the Hessian
    "solvers",
    "estimators",
    "compress",  # rows as codes
    "files",  # data in
    "model",  # models in and out
    "export",  # models for other tools
    "lab",  # data sets, experiments
    "cli",
    "__main__",  # python -m slender
]
PACKAGE = Path(slender.__file__).parent


def imported(path):
    """The slender modules a file imports, as top-level names."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            yield from [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slender."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize(
    "path", [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)  # fmt: skip
def test_imports_go_up(path):
    here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imported(path):
        if name == "__version__":
            continue
        assert ORDER.index(name) <= ORDER.index(here), f"{here} imports {name}"


def test_files_stay_small():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
