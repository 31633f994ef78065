"""The options of a command are the parameters of a constructor: all of them, and no others."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import slender as library
from slender.cli import _app
from slender.cli.settings import NOT_OPTIONS, SEED
from slender.lab.optimisers import OPTIMISERS, Options
from slender.registry import ESTIMATORS, METHODS, PROBES

COMMANDS = dict.fromkeys(METHODS, ("fit", "--method"))
COMMANDS |= dict.fromkeys(PROBES, ("path", "--penalty"))
EVERY = {**METHODS, **PROBES}
FLAGS = {"fit_intercept": "--intercept", "random_state": "--seed", "Cs": "--cs"}
BOTH = {"out", "val", "val_y", "label", "key", "resume", "cluster", "workers", "log", "json",
        "threads", "quiet"}  # fmt: skip
COMMON = {  # options that are not those of an estimator
    "fit": {*BOTH, "features", "method"},
    "path": {*BOTH, "penalty", "validation", "cv", "plot"},
}


def options(*words):
    """Parameter -> option of a command with these arguments."""
    app = _app([str(word) for word in words])
    params = app.commands[words[0]].params
    return {each.name: each for each in params if each.param_type_name == "option"}


def parameters(cls):
    known = inspect.signature(cls).parameters.values()
    return {each.name: each.default for each in known if each.name not in NOT_OPTIONS}


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_is_an_option(name):
    command, flag = COMMANDS[name]
    found = options(command, flag, name)
    expected = parameters(EVERY[name].load())
    assert set(found) - COMMON[command] == set(expected)
    for parameter, default in expected.items():
        option = found[parameter]
        assert option.opts[0] == FLAGS.get(parameter, "--" + parameter.replace("_", "-"))
        wanted = {"random_state": SEED, "Cs": "45", "device": "auto"}.get(parameter, default)
        assert option.default == wanted, parameter
        assert option.help.strip(), parameter
        for bad in ("As in", "None", '"', "`", "seed 00", "the practical", "["):  # [: rich's markup
            assert bad not in option.help, (parameter, option.help)


def test_every_option_of_an_experiment_is_there():
    for command in ("run", "compare"):
        found = options(command)
        for name, default in parameters(Options).items():
            option = found[name]
            assert (option.default, bool(option.help)) == (default, True)
            assert option.opts[1:] == (["--mu"] if (command, name) == ("run", "lam") else [])
        for opt in OPTIMISERS:
            assert opt in found["opt"].help


@pytest.mark.parametrize("name", EVERY)
def test_help_shows_the_options_of_the_method_alone(slender, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "200")
    command, flag = COMMANDS[name]
    code, out, err = slender(command, flag, name, "--help")
    assert (code, err) == (0, "")
    words = set(out.replace(",", " ").split())
    own = {
        FLAGS.get(each, "--" + each.replace("_", "-")) for each in parameters(EVERY[name].load())
    }
    others = {
        "--" + each.replace("_", "-") for of in EVERY.values() for each in parameters(of.load())
    }
    shown = {word for word in words if word.startswith("--") and not word.startswith("--no-")}
    assert own <= shown
    general = {"--help", "--n", flag, *("--" + each.replace("_", "-") for each in COMMON[command])}
    assert not (shown & others) - own - general


@pytest.mark.parametrize(("command", "flag"), [("fit", "--method"), ("path", "--penalty")])
def test_plain_help_is_of_the_default_and_names_the_others(slender, monkeypatch, command, flag):
    monkeypatch.setenv("COLUMNS", "200")
    among = METHODS if command == "fit" else PROBES
    _, out, _ = slender(command, "--help")
    assert f"Options of {flag} {next(iter(among))}" in out
    assert f"slender {command} {flag} " in out  # how to see those of another
    for name, of in among.items():
        assert f"{name} " in out
        assert of.about in out


@pytest.mark.parametrize("words", [(), ("--method", "larank")])
def test_help_waits_for_no_heavy_import(words):
    check = (
        "import sys\nfrom slender.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print({'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", check, "fit", *words, "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "--tol" in done.stdout
    assert done.stdout.endswith("set()\n")


def test_the_last_method_counts_wherever_it_stands(slender):
    assert "lam" in options("fit", "X.npy", "--method=sgd")
    assert "C" in options("fit", "--method", "sgd", "X.npy", "--method", "larank")
    code, out, err = slender("fit", "--method", "svm", "--help")
    assert (code, out) == (2, "")
    assert err == f"slender: --method svm is not one of {', '.join(METHODS)}\n"
    code, _, err = slender("fit", "X.npy", "--method")
    assert (code, err.count("\n")) == (2, 1)


def test_the_registry_knows_every_public_estimator():
    from sklearn.base import ClassifierMixin

    public = {name: getattr(library, name) for name in library.__all__}
    classifiers = {
        name for name, of in public.items()
        if inspect.isclass(of) and issubclass(of, ClassifierMixin)
    }  # fmt: skip
    assert classifiers == set(ESTIMATORS)
    for name, of in ESTIMATORS.items():
        assert of.load() is public[name]
        assert of.probe == ("validation" in inspect.signature(of.load()).parameters)
    typed = Path(library.__file__).read_text()  # what type checkers see, which is written by hand
    seen = {alias.asname for node in ast.walk(ast.parse(typed)) if isinstance(node, ast.ImportFrom)
            for alias in node.names if alias.asname}  # fmt: skip
    assert seen == set(library.__all__) - {"__version__"}
