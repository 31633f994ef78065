"""What the library says in Python's words, in those of the command: max_iter=7 is --max-iter 7."""

import re
from collections.abc import Mapping
from typing import Any

GRID = r"np\.geomspace\(([^,]+), ([^,]+), (\d+)\)"
GIVEN = re.compile(rf"(?<![-\w])([A-Za-z_]\w*)=({GRID}|'[^']*'|[^\s,;:()]+)")
BARE = re.compile(r"\b(Cs|random_state|fit_intercept)\b")  # no words of English


def flags(command: Any) -> dict[str, str]:
    """Parameter -> option of a command of click's."""
    return {each.name: each.opts[0] for each in command.params if each.opts[0].startswith("--")}


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message with every parameter that is an option here written as one."""

    def given(found: re.Match[str]) -> str:
        name, value, *grid = found.groups()
        if name not in options:
            return found[0]
        if value == "None":
            return f"no {options[name]}"  # the command has no word for None
        return f"{options[name]} {':'.join(grid) if grid[0] else value.strip(chr(39))}"

    def bare(found: re.Match[str]) -> str:
        return options.get(found[1], found[1])

    return BARE.sub(bare, GIVEN.sub(given, message))
