"""Reports in a browser: nothing on the console, charts to be seen, switches that switch."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from browser import Browser, installed
from slender import LinearProbe, save_model
from slender.cli import main

pytestmark = pytest.mark.skipif(installed() is None, reason="there is no Chromium on the path")

C, N, D = 1000, 3000, 16
PAINT_MS = 1000.0
PAINT = """new Promise(done => new PerformanceObserver(list => {
  const [paint] = list.getEntriesByName("first-contentful-paint");
  if (paint) done(paint.startTime);
}).observe({type: "paint", buffered: true}))"""
# figures of the widest tables that one must scroll to, on paper never: the page begins with one
UNSEEN = """[...document.querySelectorAll('.wide td')].filter(e =>
  e.getBoundingClientRect().right > innerWidth).map(e => e.textContent)"""
SHOWN = "[...document.querySelectorAll('{}')].filter(e => e.getClientRects().length)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A probe of 1,000 classes, judged on rows of its own, and a comparison."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    y = np.arange(N) % C
    means = rng.standard_normal((C, D)).astype(np.float32)
    X = (means[y] + 0.8 * rng.standard_normal((N, D))).astype(np.float32)
    np.save(folder / "X.npy", X)
    names = np.array([f"class <{c}>" for c in range(C)])
    np.save(folder / "y.npy", names[y])
    # the path of a fit to four classes, then the weights of the nearest mean of all classes
    probe = LinearProbe([0.1, 1.0, 10.0], random_state=0).fit(X, y % 4)
    order = np.argsort(names)
    probe.classes_, probe.coef_ = names[order], means[order]
    probe.intercept_ = -0.5 * (means[order] ** 2).sum(axis=1)
    save_model(probe, folder / "probe")
    compare = ["compare", "--opt", "sgd,bcfw", "--obj", "svm", "--seeds", "2", "--passes", "3"]
    for words in (
        [*compare, "--json", str(folder / "c.json"), "-q"],
        ["report", str(folder / "probe"), str(folder / "c.json"), "--data", str(folder / "X.npy"),
         "--data-y", str(folder / "y.npy"), "--out", str(folder / "r.html"), "-q"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            main(words)
        assert not end.value.code
    return folder / "r.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


def pixels(content):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


def coloured(content):
    """The share of pixels that are neither paper nor ink: of the lines."""
    image = pixels(content)
    return float(np.mean(image.max(axis=2) - image.min(axis=2) > 60))


def test_it_is_small_paints_at_once_and_says_nothing(page, browser):
    assert page.stat().st_size < 6e6
    paints = []
    for _ in range(5):  # another process may be busy: the machine's best is the page's
        browser.open(page)
        paints.append(browser.value(PAINT))
        assert browser.said == []
        if min(paints) < PAINT_MS:
            break
    assert min(paints) < PAINT_MS
    assert browser.value("document.compatMode") == "CSS1Compat"
    assert browser.value("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn(page, browser, scheme):
    browser.open(page, scheme=scheme)
    charts = browser.value(SHOWN.format("svg") + ".length")
    assert charts == browser.value("document.querySelectorAll('.chart').length") > 6
    assert coloured(browser.picture(selector="#r0-0-0 svg")) > 0.003
    assert coloured(browser.picture(selector="#r1-0-0 svg")) > 0.003
    background = pixels(browser.picture(selector="h1"))[2, -2].mean()
    assert (background < 60) == (scheme == "dark")
    ink = browser.value("getComputedStyle(document.body).color")
    assert (np.mean([int(n) for n in re.findall(r"\d+", ink)]) > 200) == (scheme == "dark")


@pytest.mark.parametrize("scripts", [True, False])
def test_switches_choose_the_axes(page, browser, scripts):
    """With and without the page's own script."""
    browser.call("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        browser.open(page)

        def shown():
            look = SHOWN.format("#r1-0-0 svg") + ".map(e => e.getAttribute('class'))"
            return browser.value(look)

        assert shown() == ["x0 y-log"]
        before = browser.picture(selector="#r1-0-0 .plots")
        browser.click("label[for=r1-0-0-x1]")
        assert shown() == ["x1 y-log"]
        assert browser.picture(selector="#r1-0-0 .plots") != before
        browser.click("label[for=r1-0-0-y-linear]")
        assert shown() == ["x1 y-linear"]
        browser.click("label[for=r1-0-0-x0]")
        browser.click("label[for=r1-0-0-y-log]")
        assert shown() == ["x0 y-log"]
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def tip(browser, chart):
    return browser.value(
        f"(e => e.hidden ? null : e.textContent)(document.querySelector('#{chart} .tip'))"
    )


def test_points_say_their_numbers(page, browser):
    browser.open(page)
    left, top, width, height = browser.box("#r1-0-0 svg")
    assert tip(browser, "r1-0-0") is None
    browser.mouse("mouseMoved", left + width / 2, top + height / 2)
    assert re.fullmatch(r"(sgd|bcfw): \d passes, \S+ s: \S+ above the best", tip(browser, "r1-0-0"))
    browser.mouse("mouseMoved", 2, 2)
    assert tip(browser, "r1-0-0") is None
    browser.open(page)  # the keys would go on from where the mouse was
    browser.value("document.querySelector('#r1-0-0 svg').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        browser.key(key)
        seen.append(tip(browser, "r1-0-0"))
    assert [text.split(":")[0] for text in seen] == ["sgd", "sgd", "bcfw"]
    assert "1 passes" in seen[0]
    assert "2 passes" in seen[1]


def test_a_name_in_the_legend_hides_its_curve(page, browser):
    browser.open(page)
    count = SHOWN.format("#r1-0-0 g.line") + ".length"
    before = browser.value(count)
    browser.click("#r1-0-0 .key.s0")
    assert browser.value(count) == before - 3  # a median and two seeds
    browser.click("#r1-0-0 .key.s0")
    assert browser.value(count) == before


def test_classes_are_sorted_searched_and_continued(page, browser):
    browser.open(page)
    table = "document.querySelector('.long')"
    cells = f"[...{table}.querySelectorAll('tbody tr')].map(r => r.cells[{{}}].textContent)"

    def numbers(column):
        return [float(t.removesuffix(" %")) for t in browser.value(cells.format(column))]

    words = browser.value("[...document.querySelectorAll('.tools input')].map(e => e.placeholder)")
    assert words == ["Search classes", "Search pairs"]  # also where there are more than it holds
    assert len(numbers(1)) == 20
    assert numbers(1) == sorted(numbers(1))  # the worst recall first
    assert f"20 of {C:,} classes" in browser.value(f"{table}.querySelector('.count').textContent")
    worst = numbers(1)[0]
    browser.click(".long th:nth-child(2) button")
    assert numbers(1) == sorted(numbers(1), reverse=True)
    assert numbers(1)[0] > worst
    browser.click(".long th:nth-child(1) button")
    assert browser.value(cells.format(0))[:3] == ["class <0>", "class <1>", "class <2>"]
    browser.click(".long .more")
    assert len(numbers(1)) == 100
    browser.click(".long input")
    browser.call("Input.insertText", text="<77")
    found = [*zip(browser.value(cells.format(0)), browser.value(cells.format(4)), strict=True)]
    assert {"class <77>", *(f"class <77{k}>" for k in range(10))} <= {name for name, _ in found}
    assert all("<77" in name + taken_for for name, taken_for in found)
    assert browser.said == []


def test_a_comparison_shows_all_its_columns(page, browser):
    for width in (1000, 1100):
        browser.open(page, width)
        over = browser.value("(e => e.scrollWidth - e.clientWidth)"
                             "(document.querySelector('#r1 .wide'))")  # fmt: skip
        assert over <= 0


def test_it_fits_a_phone(page, browser):
    browser.open(page, 360, 740, phone=True)
    assert browser.value("document.documentElement.scrollWidth") == 360
    wide = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, svg') && " \
           "e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 80))"  # fmt: skip
    assert browser.value(wide) == []
    smallest = "Math.min(...[...document.querySelectorAll('svg text')].filter(e => " \
               "e.getClientRects().length).map(e => e.getBoundingClientRect().height))"  # fmt: skip
    assert browser.value(smallest) > 9
    assert browser.value(UNSEEN) == []


def test_it_prints_on_white(page, browser):
    browser.open(page, scheme="dark", media="print")
    assert (pixels(browser.picture(selector="h1"))[2, -2] == 255).all()
    assert browser.value(SHOWN.format(".chart label, .tools, .more") + ".length") == 0
    assert coloured(browser.picture(selector="#r1-0-0 svg")) > 0.003
    browser.open(page, 700, media="print")  # A4 between its margins
    assert browser.value("document.documentElement.scrollWidth") == 700
    assert browser.value("document.querySelectorAll('.wide td').length") > 0
    assert browser.value(UNSEEN) == []
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3


@pytest.mark.parametrize("width", [360, 1100])
def test_commands_are_not_under_their_buttons(page, browser, width):
    browser.open(page, width)
    over = """[...document.querySelectorAll('pre.command')].filter(pre => {
      const text = document.createRange();
      text.selectNodeContents(pre.querySelector('code'));
      const edge = pre.querySelector('button').getBoundingClientRect().left;
      return [...text.getClientRects()].some(line => line.right > edge);
    }).length"""
    assert browser.value("document.querySelectorAll('pre.command').length") > 0
    assert browser.value(over) == 0


def test_the_page_names_no_other_place(page):
    text = Path(page).read_text(encoding="utf-8")
    addresses = {*re.findall(r"https?://[^\s\"'<]+", text)}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
