"""Drop the results of a run beyond the checkpoint from which it resumes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

STEPS = "num_env_steps_sampled_lifetime"
"""The column of env steps."""


def rewind_table(table: Path, steps: int) -> None:
    """Drop the rows of a table beyond ``steps``, and incomplete rows."""
    if not table.exists():
        return
    with table.open(newline="") as file:
        reader = csv.reader(file)
        header = next(reader, None)
        kept = []
        for row in reader:
            if len(row) == len(header or ()) and _upto(dict(zip(header or (), row, strict=True)), steps):
                kept.append(row)
    work = table.with_name(".rewinding")
    with work.open("w", newline="") as file:
        csv.writer(file).writerows([header, *kept] if header else [])
    work.replace(table)


def rewind_lines(lines: Path, steps: int) -> None:
    """Drop the lines of JSON beyond ``steps``, and incomplete lines."""
    if not lines.exists():
        return
    kept = []
    for line in lines.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if _upto(row, steps):
            kept.append(f"{line}\n")
    work = lines.with_name(".rewinding")
    work.write_text("".join(kept))
    work.replace(lines)


def _upto(row: Any, steps: int) -> bool:
    try:
        return float(row[STEPS]) <= steps
    except (KeyError, ValueError, TypeError):
        return False

