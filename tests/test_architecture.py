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
    "overloads",  # how kernels call methods
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

# Who may ask if something is an array, a sparse matrix or a kind of rows: whoever meets what users
# or files bring.  Everyone else has a Block, and calls its methods.
DOORS = {
    "rows/convert.py",  # as_rows
    "rows/bfloat.py",  # an array of ml_dtypes, or a tensor
    "rows/mapped.py",  # is there a file behind an array?
    "estimators/validation.py",  # X and y as users have them
    "estimators/linear.py",  # parts of a model file
    "model.py",  # likewise
    "lab/experiment.py",  # data sets
    "lab/sources.py",  # likewise
}


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


def type_tests(path):
    """Lines that ask for the kind of an array or of a block."""
    kinds = {"ndarray", "spmatrix", "sparray", "csr_array", "csr_matrix"}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else None
        function = node.func.id if isinstance(node.func, ast.Name) else function
        if function in ("issparse", "isspmatrix", "isspmatrix_csr"):
            yield node.lineno
        elif function in ("isinstance", "issubclass"):
            names = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node.args[1])}
            if names & kinds or any(name.endswith(("Block", "Rows")) for name in names):
                yield node.lineno


def test_blocks_are_not_asked_for_their_type():
    for path in PACKAGE.rglob("*.py"):
        if str(path.relative_to(PACKAGE)) not in DOORS:
            assert not list(type_tests(path)), path


def siblings(path):
    """The modules of its own folder that a file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module] if node.module else [a.name for a in node.names]
            yield from (path.parent / f"{name.split('.')[0]}.py" for name in names)


def test_rows_import_each_other_in_one_direction():
    left = {p: set(siblings(p)) for p in (PACKAGE / "rows").glob("[!_]*.py")}
    while left:
        free = {path for path, needs in left.items() if not needs & left.keys()}
        assert free, f"imports go in circles: {sorted(p.name for p in left)}"
        left = {path: needs for path, needs in left.items() if path not in free}
