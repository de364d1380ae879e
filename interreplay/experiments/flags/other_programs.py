"""Flags of other programs, from ``other_programs.yaml``: their equivalents here, and flags without effect."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import yaml

from interreplay.experiments.flags.values import read_boolean
from interreplay.experiments.process import outcome

PROGRAMS: dict[str, Any] = yaml.load(
    (files("interreplay.experiments.flags") / "other_programs.yaml").read_text(encoding="utf-8"),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),  # ten times as fast
)
ORIGINAL = PROGRAMS["original"]
"""Flags of the code of NMER and BIER."""


def by_name(table: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return texts by name from a table of names by text."""
    found: dict[str, str] = {}
    for text, names in table.items():
        found |= dict.fromkeys(names, text)
    return found


RENAMED = by_name(PROGRAMS["renamed"])
"""Flags of other programs, and the flags to use here."""
INSTEAD: dict[str, str] = ORIGINAL["removed"] | RENAMED
"""Flags that do not exist, and what to do instead."""
_WHY = ORIGINAL["without_value"] | ORIGINAL["with_value"]


class IgnoredFlag(argparse.Action):
    """Prints why a flag has no effect. Flags that are accepted with a default only are rejected with other values."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if values != ORIGINAL["default_only"].get(self.dest, values):
            parser.reject(f"--{self.dest}")
        outcome.write_line(f"--{self.dest} has no effect: {_WHY.get(self.dest, f'{values} is the default')}")


def accept_harmless(parser: argparse.ArgumentParser) -> None:
    """Let a parser accept the flags of the original work that have no effect."""
    for name in ORIGINAL["without_value"]:
        parser.add_argument(f"--{name}", action=IgnoredFlag, nargs="?", type=read_boolean, help=argparse.SUPPRESS)
    for name in (*ORIGINAL["with_value"], *ORIGINAL["default_only"]):
        parser.add_argument(f"--{name}", action=IgnoredFlag, help=argparse.SUPPRESS)
