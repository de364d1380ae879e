"""Flags of other programs, from ``other_programs.yaml``: their equivalents here, and flags without effect."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from interreplay.experiments.flags.values import read_boolean
from interreplay.experiments.process import outcome


@functools.cache
def read_programs() -> dict[str, Any]:
    """Return the flags and settings of other programs, by program."""
    import yaml  # imported here so that the smoke test can report that it is missing

    text = (files("interreplay.experiments.flags") / "other_programs.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # ten times as fast


def by_name(table: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return texts by name from a table of names by text."""
    found: dict[str, str] = {}
    for text, names in table.items():
        found |= dict.fromkeys(names, text)
    return found


class IgnoredFlag(argparse.Action):
    """Prints why a flag has no effect. Flags that are accepted with a default only are rejected with other values."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        original = read_programs()["original"]
        if values != original["default_only"].get(self.dest, values):
            parser.reject(f"--{self.dest}")
        reasons = original["without_value"] | original["with_value"]
        outcome.write_line(f"--{self.dest} has no effect: {reasons.get(self.dest, f'{values} is the default')}")


def accept_harmless(parser: argparse.ArgumentParser) -> None:
    """Let a parser accept the flags of the original work that have no effect."""
    original = read_programs()["original"]
    for name in original["without_value"]:
        parser.add_argument(f"--{name}", action=IgnoredFlag, nargs="?", type=read_boolean, help=argparse.SUPPRESS)
    for name in (*original["with_value"], *original["default_only"]):
        parser.add_argument(f"--{name}", action=IgnoredFlag, help=argparse.SUPPRESS)
