"""The page of a report in headless Chromium."""

import pytest
from browser import address_of, chromium, needs_chromium, watched

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(params=[(390, "http"), (1280, "file")], ids=["phone", "desktop"], scope="module")
def page(request, browser, report):
    width, scheme = request.param
    with address_of(report, scheme) as address:
        page = watched(browser, width, address, color_scheme="light")
        page.goto(f"{address}/index.html")
        yield page
        page.close()


def test_the_page_has_no_errors_requests_or_sideways_scrolling_and_wide_figures(page):
    assert page.printed == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    charts = page.query_selector_all(".chart")
    assert len(charts) >= 8
    for chart in charts:
        box = chart.query_selector("svg").bounding_box()
        assert box["width"] > 250 and box["height"] > 90, chart.get_attribute("aria-label")
        assert chart.query_selector_all("path"), chart.get_attribute("aria-label")


def test_the_keyboard_reaches_all_controls(page):
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
    number = page.evaluate("methods.indexOf('NMER')")
    box = page.query_selector(f'.choices input[value="{number}"]')
    state = f"[...document.querySelectorAll('.method{number}')].map(part => getComputedStyle(part).display)"
    assert "none" not in page.evaluate(state)
    box.focus()
    page.keyboard.press("Space")
    assert set(page.evaluate(state)) == {"none"}
    page.keyboard.press("Space")
    assert "none" not in page.evaluate(state)
    assert page.printed == []


def test_pointing_at_a_chart_shows_the_values_of_all_methods(page):
    chart = page.query_selector(".chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.98 * box["width"], box["y"] + box["height"] / 2)
    shown = page.inner_text("#tip").splitlines()
    assert shown == ["4,000", "Uniform: 89 [88, 90]", "NMER: 99 [98, 100]"]
    page.mouse.move(0, 0)
    assert not page.is_visible("#tip")


def test_values_at_other_steps_than_the_nearest_are_shown_with_their_step(page):
    none = [None, None]
    lines = [[0, [5000, 12345], [1.0, 2.0], none, none], [1, [6000, 12000], [3.0, 4.0], none, none]]
    shown = page.evaluate("chart => values(chart, 0.6)", {"x": [0, 20000], "lines": lines})
    assert shown.splitlines() == ["12,000", "Uniform: 2 at 12,345", "NMER: 4"]


def test_dark_colors_are_used_in_dark_mode(browser, report):
    page = browser.new_page(color_scheme="dark")
    page.goto((report / "index.html").as_uri())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    page.close()
