"""Make the notebooks from the scripts: ``make notebooks``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jupytext
import nbformat

HERE = Path(__file__).parent
SCRIPTS = [path for path in sorted(HERE.glob("*.py")) if path.name not in ("notebooks.py", "pages.py", "pictures.py")]


def make_notebook(script: Path) -> Any:
    """Return the notebook of a script in jupytext's percent format, without outputs and reproducible."""
    notebook = jupytext.read(script)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
    return notebook


def format_notebook(script: Path) -> str:
    """Return the text of the notebook's file."""
    return nbformat.writes(make_notebook(script)) + "\n"


if __name__ == "__main__":
    for script in SCRIPTS:
        script.with_suffix(".ipynb").write_text(format_notebook(script))
        print(script.with_suffix(".ipynb").name)
