"""README and docs: their Python and shell runs, their tree is true, their links lead somewhere."""

import re
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import slender
from slender.datasets import digits

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]
MADE = {"benchmarks.md"}  # by a command, of measurements that take hours
README_LINES = 130  # it is the face; what needs more room is in docs/
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"# not run by the tests: (.+)")
LANGUAGES = {"python", "sh", "text", "py"}  # py is shown, not run; text is no code


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str
    line: int

    @property
    def excused(self):
        """It says in its first line why it is not run."""
        return NOT_RUN.match(self.text) is not None


def blocks_of(page):
    text = page.read_text()
    for found in BLOCK.finditer(text):
        yield Block(found[1], found[2], text[: found.start()].count("\n") + 2)


@pytest.fixture(scope="module")
def materials(tmp_path_factory):
    """The files that the commands of the pages name: vectors, labels, photographs."""
    folder = tmp_path_factory.mktemp("materials")
    data = digits()
    parts = {"train": slice(0, 300), "val": slice(300, 400), "test": slice(0, 100)}
    (folder / "FOLDER").mkdir()
    for place in (folder, folder / "FOLDER"):
        for part, rows in parts.items():
            X, y = (data[2], data[3]) if part == "test" else (data[0], data[1])
            np.save(place / f"X_{part}.npy", X[rows])
            np.save(place / f"y_{part}.npy", y[rows])
    np.save(folder / "X_new.npy", data[2][100:120])
    np.save(folder / "X.npy", data[0][:300])
    np.save(folder / "y.npy", data[1][:300])
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        for name, shape in (("cat", (48, 1, 1)), ("dog", (1, 48, 1)), ("owl", (48, 48, 1))):
            (folder / "photos" / part / name).mkdir(parents=True)
            for number in range(6):
                pixels = np.broadcast_to(rng.integers(0, 256, shape), (48, 48, 3))
                image = Image.fromarray(pixels.astype(np.uint8))
                image.save(folder / "photos" / part / name / f"{number}.png")
    image.save(folder / "holiday.jpg")
    image.save(folder / "party.png")
    return folder


def words_of(line):
    """A command as the shell reads it: without comment and quotes, patterns replaced by files."""
    script = f"set -- {line}\nprintf '%s\\0' \"$@\""
    read = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    return read.stdout.split("\0")[:-1]


def run_commands(text, slender_command):
    """Commands of the program, one on each line, in this process."""
    for line in text.replace("\\\n", " ").splitlines():
        words = words_of(line)
        if words in ([], [""]):
            continue
        assert words[0] == "slender", f"no test runs {line!r}; give the block a line that says why"
        code, out, err = slender_command(*words[1:])
        assert code == 0, f"{line}\n{out}{err}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in MADE],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_examples_run(page, tmp_path, materials, monkeypatch, slender):
    """The blocks of a page build on each other, and find the materials beside them."""
    shutil.copytree(materials, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    scope: dict[str, object] = {}
    for block in blocks_of(page):
        where = f"{page}:{block.line}"
        if "import torch" in block.text and find_spec("torch") is None:
            return  # what comes after it may build on it
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), scope)
        elif block.language == "sh" and not block.excused:
            run_commands(block.text, slender)
        assert block.language in LANGUAGES, f"{where}: {block.language} is not run"


def test_only_shell_and_other_tools_are_not_run():
    for page in PAGES:
        for block in blocks_of(page):
            if block.language == "python":
                assert not block.excused, f"{page}:{block.line}"
            if block.language == "py":
                assert block.excused, f"{page}:{block.line} does not say why it is not run"


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_tree_in_the_readme_is_true():
    tree = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[1]
    folders: list[str] = []
    listed = set()
    for line in tree.splitlines():
        names = re.match(r"(?:\S+, )*\S+", line.strip())[0].split(", ")
        depth = (len(line) - len(line.lstrip())) // 2
        folders = folders[:depth]
        for name in names:
            path = ROOT.joinpath(*folders, name.rstrip("/"))
            assert path.exists(), f"README's tree lists {path.relative_to(ROOT)}"
            listed.add(path)
        if names[0].endswith("/"):
            folders.append(names[0].rstrip("/"))
    for path in (ROOT / "src" / "slender").glob("*"):
        if path.name not in ("__pycache__", "__init__.py", "py.typed"):
            assert path in listed, f"README's tree lacks {path.relative_to(ROOT)}"


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text()
    for name in slender.__all__:
        if not name.startswith("__"):
            assert f":: slender.{name}\n" in reference, name


def test_every_extra_is_in_the_guide():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    guide = (ROOT / "docs" / "start.md").read_text()
    for extra in project["optional-dependencies"].keys() - {"dev", "bench"}:
        assert f"| `{extra}` |" in guide, extra


def test_every_example_is_linked():
    pages = "".join(page.read_text() for page in PAGES)
    for example in (ROOT / "examples").glob("*.py"):
        assert f"examples/{example.name})" in pages, example.name


def test_every_solver_has_a_page():
    index = (ROOT / "docs" / "solvers" / "index.md").read_text()
    for name in slender.registry.ESTIMATORS:
        page = re.search(rf"\[{name}\]\((\w+\.md)\)", index)
        assert page, name
        text = (ROOT / "docs" / "solvers" / page[1]).read_text()
        for heading in ("## Objective", "## Algorithm", "## When to use it"):
            assert heading in text, f"{page[1]} lacks {heading!r}"
        assert "ertificate" in text or "gap_" in text
        assert re.search(r"^Sources?: ", text, flags=re.MULTILINE), page[1]


def test_every_parameter_of_scikit_learn_is_in_the_table():
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
    from sklearn.svm import LinearSVC

    text = (ROOT / "docs" / "sklearn.md").read_text()
    tables = re.split(r"^## ", text, flags=re.MULTILINE)
    for theirs in (LogisticRegression, LogisticRegressionCV, SGDClassifier, LinearSVC):
        table = next(part for part in tables if part.startswith(f"{theirs.__name__} →"))
        ours = getattr(slender, re.match(r"\w+ → (\w+)", table)[1])
        rows = [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| `")]
        listed = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
        assert set(theirs().get_params()) <= set(listed), theirs.__name__
        named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
        assert named <= set(ours().get_params()), ours.__name__


def test_the_figures_in_the_readme_are_measured():
    """The bold figures of README's table are in docs/benchmarks.md, which a command makes."""
    readme = (ROOT / "README.md").read_text()
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    section = re.search(r"## Measured\n(.*?)^## ", readme, flags=re.DOTALL | re.MULTILINE)[1]
    figures = re.findall(r"\*\*(\d[^*]*)\*\*", section)
    assert figures
    for figure in figures:  # some tables name the ratio in the column's title, without the sign
        number = re.escape(figure.rstrip("×"))
        assert re.search(rf"(?<![\d.]){number}(?!\.?\d)", measured), figure


def test_the_readme_is_short_and_shows_figures_with_the_commands_that_redraw_them():
    from slender.lab.reproduce.catalogue import experiment

    readme = (ROOT / "README.md").read_text()
    assert readme.count("\n") <= README_LINES
    shown = re.findall(r"^!\[.+\]\(docs/reproduce-\w+\.png\)\n(.+)$", readme, flags=re.MULTILINE)
    assert len(shown) >= 3
    for caption in shown:
        name, data = re.search(r"`([a-z-]+) --data (\w+)`", caption).groups()
        assert experiment(name).name == name
        assert data in experiment(name).data


def test_the_commands_that_redraw_figures_run(tmp_path, monkeypatch, slender):
    """Of docs/reproduce.md: every name is known, and the examples run at a small setting."""
    from slender.lab.reproduce.catalogue import EXPERIMENTS, experiment

    page = (ROOT / "docs" / "reproduce.md").read_text()
    words = re.findall(r"^\|.*?`slender reproduce ([a-z0-9-]+)", page, flags=re.MULTILINE)
    assert {experiment(word) for word in words} == set(EXPERIMENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    lines = re.findall(r"^slender (reproduce [^#\n]+)", page, flags=re.MULTILINE)
    for line in lines:
        if "--all" not in line:  # every one of them runs in tests/test_reproduce.py
            code, out, err = slender(*line.split(), "--scale", "tiny")
            assert (code, err) == (0, ""), err
            assert "--list" in line or "claims hold" in out
    assert len(lines) > 4
