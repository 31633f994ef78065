"""Options that a command has because a constructor has a parameter: nothing is declared twice.

A command says where they belong by a parameter `settings`, in whose place typer sees the options of
the estimator that the command line chooses; the command gets a dict of the constructor's arguments.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Annotated, Any, NamedTuple

import typer

from ..registry import Encoder, Estimator
from .constructors import Parameter, parameters
from .device import AUTO
from .device import HELP as OF_DEVICE
from .options import number_or_word, read_grid, read_list
from .wording import in_options

# Parameters that a command line cannot say, or that its command says in words of its own.
NOT_OPTIONS = ("callbacks", "model", "n_jobs", "progress", "validation", "warm_start")
FLAGS = {"Cs": "--cs", "fit_intercept": "--intercept", "random_state": "--seed"}
KINDS: Mapping[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
KEYWORD = inspect.Parameter.KEYWORD_ONLY
SEED = 0  # a command gives the same result each time, unless it is told otherwise


class Setting(NamedTuple):
    """An option, and how the constructor's argument comes of it."""

    name: str  # of the constructor's parameter
    flags: tuple[str, ...]  # the first is what messages call it
    kind: type
    default: Any
    help: str
    read: Callable[[Any], Any] = lambda value: value
    metavar: str | None = None

    def declared(self, panel: str) -> inspect.Parameter:
        """As typer reads it from a signature."""
        names = self.flags
        if self.kind is bool:
            names = tuple(f"{flag}/--no-{flag.removeprefix('--')}" for flag in names)
        option = typer.Option(*names, help=self.help, metavar=self.metavar, rich_help_panel=panel)
        annotation: Any = Annotated[self.kind | None, option]  # type: ignore[name-defined]
        return inspect.Parameter(self.name, KEYWORD, default=self.default, annotation=annotation)


def settings_of(module: str, name: str, also: Mapping[str, str] | None = None) -> list[Setting]:
    """Of a class's constructor; `also` are second names of options, by parameter."""
    known = {of.name: of for of in parameters(module, name).values() if of.name not in NOT_OPTIONS}
    flags = {name: FLAGS.get(name, "--" + name.replace("_", "-")) for name in known}
    more = {name: (flag,) for name, flag in (also or {}).items()}
    return [_setting(of, (flags[of.name], *more.get(of.name, ())), flags) for of in known.values()]


def _setting(of: Parameter, names: tuple[str, ...], flags: Mapping[str, str]) -> Setting:
    """The annotation says what is read; Any is a word, but for these."""
    text = _in_words(of, flags)
    if of.name == "random_state":
        return Setting(of.name, names, int, SEED, text)
    if of.name == "device":
        return Setting(of.name, names, str, AUTO, OF_DEVICE, metavar="NAME")
    if of.name in ("Cs", "lambda1s", "lambda2s"):
        default = None if of.default is None else str(of.default)
        grid = partial(read_grid, names[0], usual=of.default)
        text += "  Write 0.01,0.1,1 or lowest:highest:number."
        return Setting(of.name, names, str, default, text, grid, "NUMBERS")
    kinds = [kind for kind in of.annotation.split(" | ") if kind != "None"]
    if items := re.fullmatch(r"Sequence\[(\w+)\]", kinds[0]):
        default = None if of.default is None else ",".join(map(str, of.default))
        listed = partial(read_list, names[0], kind=KINDS[items[1]])
        return Setting(of.name, names, str, default, text, listed, "LIST")
    if kinds[-1] == "str" and len(kinds) > 1:
        number = {"int": int, "float": float}[kinds[0]]
        either = partial(number_or_word, number=number)
        return Setting(of.name, names, str, of.default, text, either, "NUMBER|WORD")
    return Setting(of.name, names, KINDS.get(kinds[0], str), of.default, text)


def _in_words(of: Parameter, flags: Mapping[str, str]) -> str:
    """What the docstring says, for users of the command: they write no quotes, and no None."""
    text = in_options(re.sub(r'["`]', "", of.about), flags)
    if of.default is None:
        return text.replace("None:", "If not given:")
    return re.sub(r"(;?)\s*\bNone: [^.]*\.", lambda found: "." * len(found[1]), text)


def with_settings(
    command: Callable[..., None], settings: Iterable[Setting] = (), panel: str = ""
) -> Callable[..., None]:
    """The command with these options in place of its parameter `settings`.

    It gets those that were given, and the seed: all else is left to the constructor.
    """
    settings = list(settings)

    @wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        read = {}
        for each in settings:
            value = values.pop(each.name)
            if each.name == "random_state" or _is_given(context, each.name):
                read[each.name] = each.read(value)
        command(**values, settings=read)

    seen = [inspect.Parameter("context", KEYWORD, annotation=typer.Context)]
    for parameter in inspect.signature(command).parameters.values():
        own = parameter.replace(kind=KEYWORD)
        mine = parameter.name == "settings"
        seen += [each.declared(panel) for each in settings] if mine else [own]
    run.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in seen}
    return run


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


class OneOf(NamedTuple):
    """An option that chooses the estimator, and with it the other options."""

    flag: str
    default: str
    among: Mapping[str, Estimator | Encoder]

    def made(self, arguments: list[str]) -> str:
        """On a command line that is not parsed yet: it decides how to parse it."""
        given = self.given(arguments)
        if given not in self.among:
            raise ValueError(f"{self.flag} {given} is not one of {', '.join(self.among)}")
        return given

    def given(self, arguments: list[str]) -> str:
        """The word after the flag, or the default."""
        given = self.default
        for place, word in enumerate(arguments):
            if word == self.flag and place + 1 < len(arguments):
                given = arguments[place + 1]
            elif word.startswith(f"{self.flag}="):
                given = word.partition("=")[2]
        return given

    def settings(self, made: str) -> list[Setting]:
        return settings_of(self.among[made].module, self.among[made].name)

    def offered(self, command: Callable[..., None], arguments: list[str]) -> Callable[..., None]:
        """The command with the options of the estimator that its arguments choose."""
        made = self.made(arguments)
        return with_settings(command, self.settings(made), f"Options of {self.flag} {made}")

    def refusal(self, flag: str, arguments: list[str]) -> str | None:
        """What to say about an option that only others have; None if nobody has it."""
        made, flag = self.made(arguments), flag.replace("--no-", "--")
        able = [
            name for name in self.among if any(flag in each.flags for each in self.settings(name))
        ]
        if not able or made in able:
            return None
        kind = self.flag.removeprefix("--")
        return f"{kind} {made} does not support {flag}: use {self.flag} {', '.join(able)}"

    def help(self) -> str:
        """Who there is, and how to see the options of each."""
        command = next(iter(self.among.values())).command.split()[0]
        width = max(map(len, self.among))
        lines = "\n".join(f"{name:{width}}  {of.about}" for name, of in self.among.items())
        last = list(self.among)[-1]
        return (
            f"What {self.flag} can be, each with options of its own "
            f"(slender {command} {self.flag} {last} --help):\n\n\b\n{lines}"
        )
