"""Draw the figures of docs/concepts.md that show the path of a value: ``python docs/_hooks/path_figures.py``.

The page's numbered lists define the files of each path; tests compare the lists with the code.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "concepts.md"
IMAGES = PAGE.parent / "images"
SECTIONS = {
    "The path of a transition": "path-transition.svg",
    "The path of a flag": "path-flag.svg",
    "The path of a checkpoint": "path-checkpoint.svg",
}
STEP = re.compile(r"^\d+\. `([\w/.]+)`:? ?(.*?)[,.:;]?$", re.MULTILINE)
COLORS = {
    "experiments": "#f4ecf7",
    "rllib": "#e8f0fb",
    "experience": "#fdf3e1",
    "buffer": "#e6f4ea",
    "storage": "#e6f4ea",
    "synthesis": "#e6f4ea",
    "neighborhood": "#e6f4ea",
    "replay_buffers": "#e6f4ea",
    "learning": "#fde8e4",
    "runs": "#eef0f2",
}
WIDTH = 880
ROW = 44
FILE_WIDTH = 330


def read_steps(section: str) -> list[tuple[str, str]]:
    """Return the files of a section's numbered list, and what each does."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    return [(file, purpose.replace("`", "")) for file, purpose in STEP.findall(text)]


def svg(title: str, steps: list[tuple[str, str]]) -> str:
    """Return a figure with one row per file, connected by arrows."""
    height = ROW * len(steps) + 10
    size = f'viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for row, (file, purpose) in enumerate(steps):
        top = 8 + ROW * row
        color = COLORS.get(file.split("/")[0], "#eef0f2")
        parts.append(f'<rect x="8" y="{top}" width="{FILE_WIDTH}" height="28" rx="5" fill="{color}" stroke="#667"/>')
        parts.append(
            f'<text x="18" y="{top + 19}" fill="#111" font-family="monospace" font-size="13">{escape(file)}</text>'
        )
        parts.append(f'<text x="{FILE_WIDTH + 26}" y="{top + 19}" fill="#333">{escape(purpose)}</text>')
        if row + 1 < len(steps):
            start = top + 28
            parts.append(
                f'<path d="M40 {start}v{ROW - 30}m-4 -5l4 6l4 -6" fill="none" stroke="#667" stroke-width="1.5"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Write the figures into docs/images."""
    for section, name in SECTIONS.items():
        (IMAGES / name).write_text(svg(section, read_steps(section)))


if __name__ == "__main__":
    main()
