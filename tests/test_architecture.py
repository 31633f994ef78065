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
    "callbacks",  # records of a fit, kept elsewhere
    "kernels",  # compiled, and kept on disk
    "overloads",  # how kernels call methods
    "arrays",  # NumPy's arrays and torch's tensors
    "places",  # where to compute
    "krylov",  # eigenpairs by products
    "rows",  # vectors -> something a kernel can read
    "losses",
    "labels",
    "device",  # kernels of a GPU
    "data",  # everything of length n together
    "passes",  # what one reading of it adds up
    "metrics",  # how good scores are
    "problem",  # the objective, written once
    "theory",
    "curvature",  # what is known of the Hessian
    "solvers",
    "estimators",
    "compress",  # rows as codes
    "stores",  # rows and labels in files of many formats
    "features",  # images -> vectors
    "files",  # data in
    "model",  # models in and out
    "export",  # models for other tools
    "datasets",  # by name, from files or made
    "lab",  # experiments
    "cli",
    "__main__",  # python -m slender
]
PACKAGE = Path(slender.__file__).parent

# Who may ask if something is an array, a sparse matrix or a kind of rows: whoever meets what users
# or files bring.  Everyone else has a Block, and calls its methods.
DOORS = {
    "arrays.py",  # of NumPy, or a tensor?
    "places.py",  # arrays of CuPy
    "rows/convert.py",  # as_rows
    "rows/bfloat.py",  # an array of ml_dtypes, or a tensor
    "rows/mapped.py",  # is there a file behind an array?
    "solvers/packing.py",  # whatever a state holds
    "estimators/validation.py",  # X and y as users have them
    "estimators/linear.py",  # parts of a model file
    "model.py",  # likewise
    "lab/experiment.py",  # parts of a data set
    "lab/splits.py",  # likewise
}


# Modules that functions import when they are called: slow to import, and seldom needed.
LAZY = {
    "__init__.py": {"*"},  # public names, each when it is asked for
    "registry.py": {"*"},  # estimators, by name
    "model.py": {"estimators.linear", "estimators.placing", "*"},  # and the class that a file names
    "data/sending.py": {"data.tensors", "rows.streamed", "rows.tensor"},  # they import torch
    "lab/provenance.py": {"rows.cores"},
    "device/softmax.py": {"device.softmax_kernel"},  # needs Triton
    "device/picking.py": {"device.picking_kernel"},  # likewise
    "device/pairs.py": {"device.pairs_kernel"},  # likewise
    "device/line.py": {"device.line_kernel"},  # likewise
    "device/ranks.py": {"device.ranks_kernel"},  # likewise
    "device/row_sums.py": {"device.row_sums_kernel"},  # likewise
    "device/sweep.py": {"device.sweep_kernel"},  # likewise
    "solvers/stochastic.py": {"device.draws"},  # needs torch
    "passes/softmax_tensors.py": {"device.softmax", "device.summing", "device.picking"},
    "passes/moments.py": {"device.row_sums"},  # need torch
    "passes/class_sums.py": {"device.row_sums"},
    "problem/rounding.py": {"device.softmax"},
    "stores/pq.py": {"compress.matrix"},
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    """rows.base for rows/base.py, rows for rows/__init__.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in SOURCES}


def imported(path, nodes):
    """The modules of slender among import statements, by their names."""
    package = path.relative_to(PACKAGE).parts[:-1]
    for node in nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = package[: len(package) + 1 - node.level]
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
        elif (node.module or "").split(".")[0] == "slender":
            module = node.module.removeprefix("slender").strip(".")
        else:
            continue
        for alias in node.names:  # a module of a package, or a name in a module
            inner = f"{module}.{alias.name}".strip(".")
            yield inner if inner in NAMES else module


def at_the_top(tree):
    """Statements that run when the module is imported."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.If | ast.Try) else []
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        yield node
        yield from [] if typing_only else inner


def tree_of(path):
    return ast.parse(path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_go_up(path):
    here = name_of(path).split(".")[0]
    if not here:
        return  # slender itself
    for name in imported(path, ast.walk(tree_of(path))):
        if name:
            assert ORDER.index(name.split(".")[0]) <= ORDER.index(here), f"{here} imports {name}"


def test_no_file_imports_itself_by_way_of_others():
    """Packages stand for their files only to those outside: inside, imports name the file."""
    left = {name_of(p): {*imported(p, at_the_top(tree_of(p)))} - {""} for p in SOURCES}
    del left[""]
    while left:
        free = {name for name, needs in left.items() if not (needs & left.keys()) - {name}}
        assert free, f"imports go in circles: {sorted(left)}"
        left = {name: needs for name, needs in left.items() if name not in free}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_only_listed_imports_hide_in_functions(path):
    """Of slender's own modules; the command line imports whatever a command needs when it runs."""
    relative = str(path.relative_to(PACKAGE))
    if relative.startswith("cli/"):
        return
    tree = tree_of(path)
    top = set(map(id, at_the_top(tree)))
    guarded = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
        for node in ast.walk(test)
    }
    hidden = [n for n in ast.walk(tree) if id(n) not in top | guarded]
    assert {*imported(path, hidden)} <= LAZY.get(relative, set())


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
