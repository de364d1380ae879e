"""The pages of the examples match the current scripts and show their pictures."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("jupytext")
pytest.importorskip("nbclient")
ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        spec = importlib.util.spec_from_file_location("example_pages", ROOT / "examples" / "pages.py")
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    finally:
        sys.path.remove(str(ROOT / "examples"))
    return found


def test_every_example_has_a_page_of_its_cells(pages):
    scripts = pages.notebooks.SCRIPTS
    assert {path.stem for path in PAGES.glob("*.md")} == {script.stem for script in scripts}
    for script in scripts:
        text, place = (PAGES / f"{script.stem}.md").read_text(), 0
        for cell in pages.notebooks.make_notebook(script).cells:
            shown = pages.format_text(cell).partition("\n")[2] if place == 0 else pages.format_text(cell)
            part = pages.format_code(cell) if cell.cell_type == "code" else shown.strip()
            assert part in text[place:], f"make pages ARGS={script.stem}"
            place = text.index(part, place) + len(part)


def test_every_picture_exists_and_is_shown():
    shown = [name for page in PAGES.glob("*.md") for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())]
    assert sorted(shown) == sorted(path.name for path in PAGES.glob("*.png")) and len(shown) >= 14
    for name in shown:
        with Image.open(PAGES / name) as image:
            assert min(image.size) > 150 and len(image.convert("RGB").getcolors(10**6)) > 8


def test_warnings_of_libraries_are_on_no_page():
    text = "".join(page.read_text() for page in PAGES.glob("*.md"))
    assert not re.search(r"Warning:|site-packages|Traceback|WARNING", text)
