"""Docstrings as they are written here, for Sphinx.

They are plain text: `name` is code, coef_ is no link, ‖W‖_* no error, and an indented block after
an empty line is a formula.  reStructuredText would read all of these as something else.
"""

import re
from typing import Any

FIELDS = ("Parameters", "Attributes", "Returns")  # sections whose unindented lines are names
LITERAL = re.compile(r"(``[^`]+``)")


def marked(line: str) -> str:
    """A line of prose: `name` as code, and nothing else as a mark."""
    line = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
    parts = LITERAL.split(line)
    parts[::2] = [re.sub(r"([*|\\]|(?<=\S)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def rewritten(lines: list[str]) -> list[str]:
    made: list[str] = []
    section, block, above = "", None, 0  # of the last line of prose: its indentation
    for place, line in enumerate(lines):
        if not line.strip():
            made.append(line)
            continue
        underlined = place + 1 < len(lines) and set(lines[place + 1].strip()) == {"-"}
        section = line.strip() if underlined else section
        if block is not None and indent(line) < block:
            block = None
        after_gap = place > 0 and not lines[place - 1].strip()
        if block is None and after_gap and indent(line) > above:
            block = indent(line)
            made += [" " * above + "::", ""]
        if block is None:
            above = indent(line)
        is_name = section in FIELDS and indent(line) == 0
        code = section == "Examples" or set(line.strip()) == {"-"}
        made.append(line if block is not None or is_name or code else marked(line))
    return made


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
