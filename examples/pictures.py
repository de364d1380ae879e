"""Show the pictures of the examples in a notebook, or write them to ``pictures/`` in a script."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import matplotlib

IN_NOTEBOOK = "ipykernel" in sys.modules
if not IN_NOTEBOOK:
    matplotlib.use("Agg")

from matplotlib import pyplot as plt

# The color-blind safe colors of `interreplay report`.
GREY, BLUE, ORANGE, GREEN, PINK = "#7F7F7F", "#1F83C4", "#D55E00", "#009E73", "#CC79A7"

plt.rcParams.update(
    {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E5E5E5",
        "axes.titlelocation": "left",
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
    }
)


def show(figure: Any, name: str) -> None:
    """Show a figure in a notebook, or write it to ``pictures/NAME.png`` next to the script."""
    if IN_NOTEBOOK:
        from IPython.display import Image, display

        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        display(Image(data=picture.getvalue(), format="png"))
    else:
        folder = Path(__file__).parent / "pictures"
        folder.mkdir(exist_ok=True)
        figure.savefig(folder / f"{name}.png", dpi=110)
        print(f"picture: {folder / name}.png")
    plt.close(figure)
