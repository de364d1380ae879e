"""The report's page as a person meets it, in headless Chromium."""

from __future__ import annotations

import numpy as np
import pytest
from browser import SCHEMES, address_of, chromium, needs_chromium, watched
from run_folders import study

from interreplay.experiments.report.__main__ import main
from interreplay.experiments.report.drawing.charts import smoothed

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("page")
    assert main([str(study(top / "runs")), "--output", str(top / "out")]) == 0
    return top / "out"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def opened(browser, width, address):
    page = watched(browser, width, address, color_scheme="light")
    page.goto(f"{address}/index.html")
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    return page


@pytest.fixture(params=[(390, "http"), (1280, "file")], ids=["phone", "desktop"], scope="module")
def page(request, browser, folder):
    width, scheme = request.param
    with address_of(folder, scheme) as address:
        page = opened(browser, width, address)
        yield page
        page.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [390, 1280])
def test_it_opens_without_errors_requests_or_sideways_scrolling(browser, folder, width, scheme):
    with address_of(folder, scheme) as address:
        page = opened(browser, width, address)
        assert page.said == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.close()


def test_every_figure_has_a_size_and_data(page):
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    shown = ".chart:not([hidden] .chart)"
    page.wait_for_function(f"[...document.querySelectorAll('{shown}')].every(chart => chart.data)")
    charts = page.query_selector_all(shown)
    assert len(charts) >= 11
    for chart in charts:
        box = chart.query_selector("svg.main-svg").bounding_box()
        assert box["width"] > 250 and box["height"] > 100
        assert chart.query_selector_all(".scatterlayer .trace, .heatmaplayer .hm"), chart.get_attribute("aria-label")


def test_it_can_be_used_with_the_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.evaluate("document.activeElement.blur()")
    reached = set()
    page.focus(".skip")
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.tagName + (document.activeElement.getAttribute('role') || '')")
        )
    assert {"A", "INPUT", "DIVregion", "SUMMARY"} <= reached


def test_a_method_can_be_hidden_in_all_figures(page):
    box = page.query_selector('.methods input[value="NMER"]')
    box.focus()
    page.keyboard.press("Space")
    state = """() => [...document.querySelectorAll('.chart')].flatMap(
        c => (c.data || []).filter(t => t.meta === 'NMER').map(t => t.visible))"""
    page.wait_for_function(f"({state})().every(shown => shown === false)")
    page.keyboard.press("Space")
    page.wait_for_function(f"({state})().every(shown => shown === true)")
    assert page.said == []


def test_learning_curves_by_updates_and_by_time(page):
    for axis, label in (("seconds", "seconds"), ("updates", "updates"), ("env_steps", "environment steps")):
        page.check(f"input[name=axis][value={axis}]")
        page.wait_for_function(
            f"[...document.querySelectorAll('[data-axis={axis}] .chart')].every(chart => chart.data)"
        )
        seen = [figure.get_attribute("data-axis") for figure in page.query_selector_all("[data-axis]:not([hidden])")]
        assert seen == [axis]
        assert label in page.text_content(f"[data-axis={axis}] .chart .xtitle")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.said == []


def test_learning_curves_are_smoothed_as_in_tensorboard(page):
    chart = "document.querySelector('[data-axis=env_steps] .chart')"
    lines = f"{chart}.data.map(line => [line.fill === 'toself', [...line.y]])"
    raw = page.evaluate(f"() => {lines}")
    slider = page.query_selector("input[type=range]")
    move = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', { bubbles: true })); }"
    slider.evaluate(move, 0.5)
    page.wait_for_function(f"raw => JSON.stringify({lines}) !== JSON.stringify(raw)", arg=raw)
    calm = page.evaluate(f"() => {lines}")
    assert any(banded for banded, _ in raw)
    for (banded, before), (_, after) in zip(raw, calm, strict=True):
        half = len(before) // 2  # a band is its upper end, then its lower end backwards
        parts = [slice(0, half), slice(None, half - 1 if half else None, -1)] if banded else [slice(None)]
        for part in parts:
            assert after[part] == pytest.approx(smoothed(np.array(before[part]), 0.5).tolist())
    slider.evaluate(move, 0)
    page.wait_for_function(f"raw => JSON.stringify({lines}) === JSON.stringify(raw)", arg=raw)


def test_dark_is_dark(browser, folder):
    page = browser.new_page(color_scheme="dark")
    page.goto((folder / "index.html").as_uri())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    page.close()
