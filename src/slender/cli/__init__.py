"""The command `slender`: thin, and quick to start (numpy and numba wait for a command to run).

Exit codes: 0; 2 for bad usage or input, with one line on stderr; 1 for a failure that is not the
user's; 130 for Ctrl-C or SIGTERM.
"""

import inspect
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from .. import __version__
from .compare import compare
from .compress import compress
from .datasets import datasets
from .demo import demo
from .experiments import with_experiment
from .export import export
from .extract import BY_FEATURES, extract
from .fit import BY_METHOD, fit
from .info import info
from .interrupts import Interrupted, end_processes
from .output import WORDS, say
from .path import BY_PENALTY, path
from .predict import predict
from .report import report
from .reproduce import reproduce
from .run import run
from .score import score
from .settings import OneOf, with_settings
from .wording import flags, in_options

Command = Callable[..., None]
CHOICES: dict[Command, OneOf] = {fit: BY_METHOD, path: BY_PENALTY, extract: BY_FEATURES}
# The commands whose options come from a constructor.
OFFERS: dict[Command, Callable[[Command, list[str]], Command]] = {
    **{command: choice.offered for command, choice in CHOICES.items()},
    run: with_experiment,
    compare: with_experiment,
}
EXAMPLES: dict[Command, str] = {
    fit: "slender fit X.npy y.npy --out model",
    predict: "slender predict model X_test.npy --out y.npy",
    score: "slender score model X_test.npy y_test.npy --per-class",
    info: "slender info model",
    path: "slender path X.npy y.npy --out probe --plot path.png",
    extract: "slender extract images --features fisher --out vectors",
    compress: "slender compress X.npy --dsq 16 --out X.pq",
    run: "slender run --dataset mnist --opt bcfw --lam 0.01 --batch-size 256 --passes 5",
    compare: "slender compare --dataset digits --opt sgd,bcfw --obj svm --seeds 3 --plot c.png",
    report: "slender report model --data X_test.npy --data-y y_test.npy --out report.html",
    reproduce: "slender reproduce slnd-fig3 --out reproduced",
    datasets: "slender datasets get mnist --data-dir data",
    export: "slender export model --to onnx --out model.onnx",
    demo: "slender demo",
}

UsageError: Any = typer.BadParameter.__base__  # click's own, or that of the click inside typer


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"slender {__version__}")
        raise typer.Exit()


def _about(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _app(arguments: list[str]) -> Any:
    """The command; the subcommand that the arguments name has the options that they choose."""
    app = typer.Typer(
        help="Linear classifiers with thousands of classes, fitted in seconds.",
        epilog="--debug anywhere, or SLENDER_DEBUG=1, shows the traceback of a failure.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_about)
    for command, example in EXAMPLES.items():
        about = inspect.getdoc(command)
        if command in CHOICES:
            about = f"{about}\n\n{CHOICES[command].help()}"
        if command in OFFERS and command.__name__ in arguments:
            command = OFFERS[command](command, arguments)
        elif command in OFFERS:  # nobody asks for its options
            command = with_settings(command)
        app.command(help=about, epilog=f"Example:  {example}")(command)
    return typer.main.get_command(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments or os.environ.get("SLENDER_DEBUG", "0") not in ("", "0")
    with _sigterm_as_ctrl_c():
        code = _run([word for word in arguments if word != "--debug"], debug)
    sys.exit(code)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """What a system that shuts down, or a scheduler, sends: there is time to keep what there is."""
    if threading.current_thread() is not threading.main_thread():  # others may not listen
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: list[str], debug: bool) -> int:
    """The exit code of a command line."""
    kept, options = "no result was written", {}
    WORDS.set(tuple(arguments))
    with warnings.catch_warnings():
        try:
            app = _app(arguments)
            options = _options(app, arguments)
            _warn_in_one_line(options)
            code = app.main(arguments, prog_name="slender", standalone_mode=False)
        except UsageError as error:
            say(_bad_usage(error, arguments))
            return 2
        except (KeyboardInterrupt, typer.Abort):
            code = 130
        except Interrupted as stop:
            code, kept = 130, str(stop)
        except Exception as error:
            if debug:
                traceback.print_exc()
            if isinstance(error, ValueError):
                say(in_options(str(error), options))
                return 2
            say(f"{type(error).__name__}: {error} (--debug shows where)")
            return 1
    if code == 130:  # typer's own answer to Ctrl-C
        from ..storage import remove_unfinished

        say(f"interrupted; {kept}")
        sys.stdout.flush()
        remove_unfinished()
        end_processes()
        os._exit(130)  # a kernel may still run in another thread: nobody waits for it
    return code if isinstance(code, int) else 0


def _options(app: Any, arguments: list[str]) -> dict[str, str]:
    """What the command of a command line calls the library's parameters."""
    command = next((app.commands[word] for word in arguments if word in app.commands), None)
    return {} if command is None else flags(command)


def _bad_usage(error: Any, arguments: list[str]) -> str:
    """In one line; an option of another method is answered with who has it."""
    path = error.ctx.command_path if error.ctx else "slender"
    choice = next((of for who, of in CHOICES.items() if path == f"slender {who.__name__}"), None)
    asked = getattr(error, "option_name", None)
    refusal = choice.refusal(asked, arguments) if choice and asked else None
    return refusal or f"{error.format_message().rstrip('.')} (see {path} --help)"


def _warn_in_one_line(options: dict[str, str]) -> None:
    """Each warning once, as a line of its own, in the words of the command."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = in_options(str(message), options)
        if text not in shown:
            shown.add(text)
            say(f"warning: {text}")

    warnings.showwarning = show  # type: ignore[assignment]
