"""`make docs`: the site builds without a warning, its links lead somewhere, it needs no network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import slender

ROOT = Path(__file__).resolve().parent.parent
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}

for package in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(package, reason=f"the documentation needs {package}: pip install .[docs]")
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, pairs):
        of = dict(pairs)
        self.anchors |= {of[key] for key in ("id", "name") if key in of}
        if tag in LOADED and of.get(LOADED[tag]):
            self.loads.append(of[LOADED[tag]])
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "-W", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    here = {**os.environ, "PYTHONPATH": str(Path(slender.__file__).parent.parent)}
    built = subprocess.run(
        [sys.executable, *words, str(ROOT / "docs"), str(folder / "html")],
        check=False,
        capture_output=True,
        text=True,
        env=here,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_nothing_comes_from_the_network(site, pages):
    for path, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{path.name} loads {address}"
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        text = path.read_text()
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text), path
        assert not re.search(r"importScripts|\.src\s*=\s*['\"](https?:)?//", text), path


def test_links_lead_to_pages_and_to_places_in_them(site, pages):
    checked = 0
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            if urlsplit(link).scheme or urlsplit(link).netloc:
                continue
            file, anchor = urldefrag(link)
            file = urlsplit(file).path
            target = (path.parent / unquote(file)).resolve() if file else path
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if anchor and target in pages:
                assert unquote(anchor) in pages[target].anchors, f"{path.relative_to(site)}: {link}"
                checked += 1
    assert checked > 100


def test_every_page_can_be_reached(site, pages):
    start = site / "index.html"
    seen, left = set(), [start]
    while left:
        path = left.pop()
        if path in seen or path not in pages:
            continue
        seen.add(path)
        left += [
            (path.parent / unquote(urlsplit(link).path)).resolve()
            for link in pages[path].links
            if urlsplit(link).path and not urlsplit(link).netloc
        ]
    sources = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    for source in sources:
        made = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        assert made.resolve() in {path.resolve() for path in seen}, source.name


def test_formulas_are_drawn_by_the_browser_alone(site):
    text = (site / "solvers" / "bcfw.html").read_text()
    assert text.count("<math ") > 20
    assert "$$" not in text
    assert "\\frac" not in text


def test_docstrings_are_read_as_they_are_written(site):
    """Names that end with _ are no links, and formulas keep their lines."""
    text = (site / "api.html").read_text()
    assert "<strong>coef_</strong>" in text
    assert 'class="problematic"' not in text
    plain = re.sub(r"<[^>]+>", "", text)
    assert "1/n Σ_i c_i (ln Σ_c exp s_ic - s_iy) + ‖W‖²/(2 n C),    s = W x + b" in plain
    for name in slender.__all__:
        assert name.startswith("__") or f'id="slender.{name}"' in text, name
