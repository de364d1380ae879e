"""The notebooks are their scripts, have no outputs, and run; their pages match the scripts and show their pictures."""

import importlib.util
import io
import logging
import os
import re
import sys
import warnings
from pathlib import Path
from unittest import mock

import gymnasium as gym
import pytest
from PIL import Image

pytest.importorskip("jupytext")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_spec = importlib.util.spec_from_file_location("notebooks", EXAMPLES / "notebooks.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))
IN_A_KERNEL = ("what_nmer_does",)
"""Notebooks that run in Jupyter. The others run as scripts in this process, which saves the starts of kernels."""
FEWER = {
    "cluster_study": {
        "seeds: 2": "seeds: 1",
        "total_env_steps: 1000": "total_env_steps: 120",
        "steps_per_iteration: 250": "steps_per_iteration: 40",
        "learning_starts: 250": "learning_starts: 40",
        "evaluation_num_episodes: 3": "evaluation_num_episodes: 1",
        '"--max_concurrent", "2"': '"--max_concurrent", "1"',  # resuming continues one run and starts the other
        "of 4 runs": "of 2 runs",
        "len(finished) == 4": "len(finished) == 2",
    },
    "compare_methods": {
        "seeds: 3": "seeds: 2",
        "total_env_steps: 1000": "total_env_steps: 600",
        "steps_per_iteration: 200": "steps_per_iteration: 300",
        "learning_starts: 200": "learning_starts: 100",
        "evaluation_num_episodes: 3": "evaluation_num_episodes: 2",
        '"--together", "2"': '"--together", "1"',  # `test_runs_together.py` trains in two processes
        "of 6 runs": "of 4 runs",
        "finished == 6": "finished == 4",
    },
    "experience_replay": {"STEPS = 2_500": "STEPS = 1_500"},
    "first_steps": {
        "STEPS = 1_000": "STEPS = 120",
        "learning_starts=250": "learning_starts=60",
        "steps_per_iteration=250": "steps_per_iteration=60",
        "evaluation_duration=3": "evaluation_duration=1",
        '(("Uniform", 0), ("NMER", 1), ("Uniform", 1))': '(("Uniform", 0),)',
        "best > -900": "math.isfinite(best)",  # `your_own_environment` proves that SAC with NMER learns
    },
    "keep_your_data": {
        "STEPS = 1_500": "STEPS = 400",
        "learning_starts=400": "learning_starts=100",
        "steps_per_iteration=200": "steps_per_iteration=100",
        "evaluation_duration=3": "evaluation_duration=1",
        "800)": "200)",
        "seed in range(2)": "seed in range(1)",
    },
    "offline_data": {
        '"steps_per_iteration": 250': '"steps_per_iteration": 500',
        "until=2_500": "until=1_000",
        "until=1_500": "until=500",
    },
    "your_own_environment": {"env_steps < 2_000": "env_steps < 1_500"},
}
"""Published numbers and smaller ones, with which the same lines run. `make pages` runs the published ones."""


def test_all_examples_are_known():
    assert [path.stem for path in notebooks.SCRIPTS] == NAMES and {*IN_A_KERNEL, *FEWER} < {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_script_without_outputs(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    notebook = (EXAMPLES / f"{name}.ipynb").read_text()
    assert notebook == notebooks.format_notebook(EXAMPLES / f"{name}.py"), "make notebooks"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_one_question_and_one_answer(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert text.count("*Question: ") == 1 and text.count("**The answer.**") == 1


def notebook_calls(text: str) -> int:
    return text.count("show(figure, ")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_a_notebook_runs_and_shows_pictures(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(EXAMPLES)}}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == sum(notebook_calls(cell.source) for cell in code) > 0
    assert all(len(picture) > 5_000 for picture in pictures)


@pytest.fixture
def pictures_shown(monkeypatch):
    """Run as a script in `examples` does, collect the pictures, and restore what scripts change in the process."""
    log = logging.getLogger("ray")
    level = log.level
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    shown = []

    def show(figure, name):
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        plt.close(figure)
        shown.append(picture.getvalue())

    with plt.rc_context(), warnings.catch_warnings(), mock.patch.dict(os.environ), mock.patch.dict(gym.registry):
        monkeypatch.setattr(importlib.import_module("pictures"), "show", show)
        yield shown
    log.setLevel(level)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in IN_A_KERNEL])
def test_an_example_runs_with_few_steps_and_shows_pictures(name, pictures_shown):
    script = EXAMPLES / f"{name}.py"
    text = script.read_text()
    for published, short in FEWER.get(name, {}).items():
        assert published in text
        text = text.replace(published, short)
    exec(compile(text, str(script), "exec"), {"__name__": "__main__"})
    assert len(pictures_shown) == notebook_calls(text) > 0
    assert all(len(picture) > 5_000 for picture in pictures_shown)


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
