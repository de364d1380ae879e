"""Make pages of the site from the executed notebooks: ``make pages``, after `notebooks.py`.

A page is `docs/examples/NAME.md`, and its pictures are in the same folder. Both are stored in the repository, so that
the site is built without running the notebooks.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import notebooks
from PIL import Image

PAGES = notebooks.HERE.parent / "docs" / "examples"
COLORS = 64
"""Number of colors of a picture. Charts need few, and the repository stores the pictures."""


def format_code(cell: Any) -> str:
    """Return a code cell as a page shows it."""
    return f"```python\n{cell.source}\n```"


def format_text(cell: Any) -> str:
    """Return a text cell with links relative to the page."""
    return re.sub(r"\]\(\.\./", "](../../", cell.source)


def write_page(script: Path, notebook: Any, folder: Path) -> str:
    """Write the pictures of an executed notebook into a folder and return its page."""
    parts, pictures = [], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(format_text(cell))
            continue
        parts.append(format_code(cell))
        for output in cell.outputs:
            if output.get("name") == "stderr":  # warnings of libraries
                continue
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            if picture := output.get("data", {}).get("image/png"):
                pictures += 1
                name = f"{script.stem}-{pictures}.png"
                with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
                    image.convert("RGB").quantize(COLORS).save(folder / name, optimize=True)
                parts.append(f"![{_described(cell.source, pictures)}]({name})")
            elif text.strip():
                parts.append(f"```text\n{text.rstrip()}\n```")
    where = f"*This page is an executed notebook: `examples/{script.stem}.ipynb`, or `.py` as a script.*"
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{where}\n{rest}\n"


def _described(source: str, number: int) -> str:
    """Return the name of a picture in the cell that shows it."""
    found = re.search(r"show\(figure, [\"']([^\"']+)", source)
    return (found[1] if found else f"picture {number}").replace("_", " ")


def main(names: list[str]) -> None:
    """Run the notebooks with these names (all without names) and write their pages."""
    PAGES.mkdir(exist_ok=True)
    for script in notebooks.SCRIPTS:
        if names and script.stem not in names:
            continue
        notebook = notebooks.make_notebook(script)
        resources = {"metadata": {"path": str(notebooks.HERE)}}
        nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
        (PAGES / f"{script.stem}.md").write_text(write_page(script, notebook, PAGES))
        print(PAGES / f"{script.stem}.md")


if __name__ == "__main__":
    main(sys.argv[1:])
