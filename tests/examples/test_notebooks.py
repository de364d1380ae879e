"""The notebooks are their scripts, hold no outputs, and run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jupytext")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_spec = importlib.util.spec_from_file_location("notebooks", EXAMPLES / "notebooks.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)
NAMES = [
    "cluster_study",
    "compare_methods",
    "distances",
    "experience_replay",
    "first_steps",
    "gaussian_processes",
    "keep_your_data",
    "offline_data",
    "what_nmer_does",
    "your_own_buffer",
    "your_own_environment",
]


def test_all_examples_are_known():
    assert [path.stem for path in notebooks.SCRIPTS] == NAMES
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_script_without_outputs(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    assert (EXAMPLES / f"{name}.ipynb").read_text() == notebooks.text_of(EXAMPLES / f"{name}.py"), "make notebooks"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_one_question_and_one_answer(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert text.count("*Question: ") == 1 and text.count("**The answer.**") == 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_pictures(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(EXAMPLES)}}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == notebook_calls(notebook) > 0
    assert all(len(picture) > 5_000 for picture in pictures)


def notebook_calls(notebook) -> int:
    return sum(cell.source.count("show(figure, ") for cell in notebook.cells if cell.cell_type == "code")
