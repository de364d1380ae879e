"""Warnings of Gymnasium's environment checker: each is shown once, on one line."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import gymnasium as gym

CHECKER = r"gymnasium\.utils\.passive_env_checker"
COLORS = re.compile(r"\x1b\[[0-9;]*m")


def show_checker_warnings() -> None:
    """Write each warning of the checker once to stderr; the filters of other warnings stay as they are."""
    gym.logger.min_level = gym.logger.WARN
    warnings.filterwarnings("always", module=CHECKER)
    shown: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        text = COLORS.sub("", str(message)).removeprefix("WARN: ")
        if text not in shown:
            shown.add(text)
            sys.stderr.write(f"warning of Gymnasium: {' '.join(text.split())}\n")

    warnings.showwarning = show
