"""The code blocks of docs/extending.md run."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run(blocks: list[str]) -> dict[str, Any]:
    """Return the names defined by running the blocks in order."""
    names: dict[str, Any] = {"__name__": "extending"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of {PAGE.name}", "exec", dont_inherit=True), names)
    return names


def test_the_parts_of_the_page():
    core = [block for block in BLOCKS if "rllib" not in block]
    names = run(core)
    assert len(core) == len(BLOCKS) - 2 == 5
    assert {"Recent", "Contemporary", "Mirror", "Timely"} <= set(names)


@pytest.mark.slow
def test_the_whole_page(cluster):
    run(BLOCKS)
