"""README and docs: their Python runs, their tree is true, their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), scope)  # the examples of a page build on each other


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
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        folders = folders[:depth]
        path = ROOT.joinpath(*folders, name.rstrip("/"))
        assert path.exists(), f"README's tree lists {path.relative_to(ROOT)}"
        listed.add(path)
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
    for path in (ROOT / "src" / "slender").glob("*"):
        if path.name not in ("__pycache__", "__init__.py", "py.typed"):
            assert path in listed, f"README's tree lacks {path.relative_to(ROOT)}"


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
    assert len(lines) == 5
