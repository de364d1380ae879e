"""The documentation: links are valid, code matches this version, and the site builds without a warning."""

import ast
import importlib
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SCHEMES, address_of, chromium, needs_chromium, watched

from argument_parser import GROUPS
from interreplay.buffer.catalogue import OWN_METHODS
from interreplay.experiments.flags.original_flags import GAUSSIAN_PROCESS_FLAGS, ORIGINAL
from replay_buffers import __all__ as METHODS

ROOT = Path(__file__).resolve().parents[2]
SKIP = {".venv", "results", "site", "build", "node_modules", ".pytest_cache"}
PAGES = [path for path in sorted(ROOT.rglob("*.md")) if not SKIP & set(path.relative_to(ROOT).parts)]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]*)(?:#([^)\s]+))?\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as Markdown hosts and the site create them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings]
    return {text.strip().lower().replace(" ", "-") for text in plain}


def text_of(page: Path) -> str:
    """Return a page without its code, in which brackets are not links."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_are_valid(page):
    for target, anchor in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        place = page.parent / target if target else page
        assert place.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(place), f"{name_of(page)} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [path for path in PAGES if "decisions" not in path.parts], ids=name_of)
def test_code_matches_this_version(page):
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("interreplay", "replay_buffers"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), block


def test_the_migration_page_lists_every_flag_of_the_original():
    page = (ROOT / "docs" / "migration.md").read_text()
    original = [flag.name for flag in GROUPS["replay, as in the original work"]]
    original += [flag.name for flag in GAUSSIAN_PROCESS_FLAGS]
    missing = [name for name in (*original, *ORIGINAL["removed"]) if not re.search(rf"`--{name}\b", page)]
    assert not missing
    text = page.replace("`", "")
    assert [name for name, instead in ORIGINAL["removed"].items() if f"| --{name} | {instead} |" not in text] == []


def test_the_catalogue_pages_know_every_method():
    methods, reference = ((ROOT / "docs" / page).read_text() for page in ("methods.md", "api/catalogue.md"))
    names = [*METHODS, *OWN_METHODS]
    assert not [name for name in names if f"`{name}`" not in methods]
    assert not [name for name in names if f".{name}\n" not in reference]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site and return its folder."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings_handlers.python")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


SEARCH = "input[data-md-component=search-query]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.mark.slow
def test_the_site_needs_no_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)"', text)
        loaded += re.findall(r'<link[^>]* href="(https?:[^"]*)"', text)
        assert not loaded, f"{posixpath.basename(str(page))} loads {loaded}"


@pytest.mark.slow
def test_the_site_s_links_need_no_server(site):
    for page in site.rglob("*.html"):
        links = re.findall(r'<a [^>]*href="([^"#?]+)', page.read_text()) if page.name != "404.html" else []
        inside = [link for link in links if not re.match("(https?|mailto):", link)]
        missing = [link for link in inside if not (page.parent / link).is_file()]
        assert not missing, f"from disk, links of {page.relative_to(site)} are no pages"


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_site_can_be_searched_from_disk_and_over_http(site, browser, scheme):
    with address_of(site, scheme) as address:
        page = watched(browser, 1280, address)
        page.goto(f"{address}/index.html")
        page.focus(SEARCH, timeout=60_000)
        ready = "document.querySelector('.md-search-result__meta').textContent.includes('Type to start')"
        page.wait_for_function(ready, timeout=60_000)
        for word in ("--updates_per_step", "NMER", "HER", "Christodoulou"):
            page.fill(SEARCH, "")
            page.keyboard.type(word)
            found = f".md-search-result__item mark:text-is('{word.lstrip('-')}')"
            page.wait_for_selector(found, timeout=60_000)
        result = page.locator(".md-search-result__item a").first  # found again if the list changes while it is typed
        assert re.search(r"\.html(\?|#|$)", result.get_attribute("href", timeout=60_000))
        result.click(timeout=60_000)
        page.wait_for_selector("article :text('Christodoulou')", timeout=60_000)
        assert page.printed == []


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("width", "scheme"), [(390, "http"), (1280, "file")])
def test_examples_show_what_they_drew(site, browser, width, scheme):
    with address_of(site, scheme) as address:
        page = watched(browser, width, address)
        page.goto(f"{address}/examples/first_steps.html")
        drawn = page.evaluate("[...document.querySelectorAll('article img')].map(image => image.naturalWidth)")
        assert len(drawn) == 2 and min(drawn) > 300
        assert "best mean evaluation return" in page.text_content("article")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.printed == []


def test_the_figures_of_paths_show_existing_files_and_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_hooks")
    figures = importlib.import_module("path_figures")
    for section, name in figures.SECTIONS.items():
        steps = figures.read_steps(section)
        assert len(steps) >= 7
        assert [purpose for _, purpose in steps if len(purpose) > 72] == [], "longer texts leave the picture"
        places = [ROOT / file for file, _ in steps if file.startswith("replay_buffers/")]
        places += [ROOT / "interreplay" / file for file, _ in steps if not file.startswith("replay_buffers/")]
        assert [place for place in places if not place.is_file()] == []
        assert (figures.IMAGES / name).read_text() == figures.svg(section, steps), "run docs/_hooks/path_figures.py"
