"""What the constructor of a class takes, read from its source.

Help must not wait for the class itself: importing an estimator takes a second, parsing its file a
few milliseconds.  A parameter is described under "Parameters" in the docstring of the class, in
NumPy's style; a description that begins "As in Other." is continued from Other's.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..registry import ESTIMATORS

PACKAGE = Path(__file__).parent.parent
# names, their type, and indented lines
ENTRY = re.compile(r"^(\w+(?:,\s+\w+)*)(?: : (.*))?\n((?:[ ]+.*\n?|\n)*)", re.MULTILINE)
ELSEWHERE = re.compile(r"As in (\w+)\.\s*")


class Parameter(NamedTuple):
    """One parameter of a constructor."""

    name: str
    annotation: str  # as it is written: "float | None"
    default: Any
    about: str


@cache
def parameters(module: str, name: str) -> dict[str, Parameter]:
    """Of the class `name` in a module below slender; those of a dataclass are its fields."""
    body = _tree(module).body
    cls = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    about = _descriptions(ast.get_docstring(cls) or "")
    found = {}
    for parameter, annotation, default in _signature(cls):
        text = about.get(parameter, "")
        if other := ELSEWHERE.match(text):
            there = parameters(ESTIMATORS[other[1]].module, other[1])[parameter].about
            text = f"{there}  {text[other.end() :]}".strip()
        value = _value(module, default)
        found[parameter] = Parameter(parameter, ast.unparse(annotation), value, text)
    return found


def _signature(cls: ast.ClassDef) -> list[tuple[str, Any, ast.expr]]:
    """Name, annotation and default of each parameter; all of ours have a default."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            of = node.args
            given = of.args[1:] + of.kwonlyargs
            defaults = [*of.defaults, *of.kw_defaults]
            return [(a.arg, a.annotation, d) for a, d in zip(given, defaults, strict=True) if d]
    fields = [node for node in cls.body if isinstance(node, ast.AnnAssign) and node.value]
    return [
        (ast.unparse(node.target), node.annotation, node.value) for node in fields if node.value
    ]


def _descriptions(docstring: str) -> dict[str, str]:
    """Parameter -> its description in one line, with the values it names if the type is a set."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", docstring + "\n", re.M | re.S)
    found: dict[str, str] = {}
    for names, kind, text in ENTRY.findall(section[1] if section else ""):
        line = " ".join(text.split())
        braces = re.match(r"\{(.*)\}", kind)
        choices = re.findall(r'"(\w+)"', braces[1]) if braces else []
        if any(f'"{choice}"' not in line for choice in choices):
            line += f"  One of {', '.join(choices)}."
        found |= dict.fromkeys(re.split(r",\s+", names), line.strip())
    return found


def _value(module: str, node: ast.expr) -> Any:
    """Of a default: a literal, or a constant of this module or of one that it is imported from."""
    if not isinstance(node, ast.Name):
        return ast.literal_eval(node)
    for line in _tree(module).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == node.id:
            return _value(module, line.value)
        if isinstance(line, ast.ImportFrom) and node.id in [alias.name for alias in line.names]:
            above = module.split(".")[: -line.level]
            return _value(".".join([*above, line.module or ""]), node)
    raise ValueError(f"slender.{module} does not say what {node.id} is")


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
