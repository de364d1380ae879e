"""The results of a run without those beyond the checkpoint that it is resumed from."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

STEPS = "num_env_steps_sampled_lifetime"
"""Name of the env steps of a row of results."""


def rewind_table(table: Path, steps: int) -> None:
    """Drop the rows of a table past ``steps``, and half-written ones."""
    if not table.exists():
        return
    with table.open(newline="") as file:
        header, *rows = [*csv.reader(file)] or [[]]
    kept = [row for row in rows if len(row) == len(header) and _upto(dict(zip(header, row, strict=True)), steps)]
    with (work := table.with_name(".rewinding")).open("w", newline="") as file:
        csv.writer(file).writerows([header, *kept] if header else [])
    work.replace(table)


def rewind_lines(lines: Path, steps: int) -> None:
    """Drop the lines of JSON past ``steps``, and half-written ones."""
    if not lines.exists():
        return
    kept = [line + "\n" for line in lines.read_text().splitlines() if _upto(_parsed(line), steps)]
    (work := lines.with_name(".rewinding")).write_text("".join(kept))
    work.replace(lines)


def _upto(row: dict[str, Any], steps: int) -> bool:
    try:
        return float(row[STEPS]) <= steps
    except (KeyError, ValueError, TypeError):
        return False


def _parsed(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
