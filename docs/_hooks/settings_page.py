"""The page "Settings of algorithms", generated from the dataclasses that also define the flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

from mkdocs.structure.files import File

from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import accepted_by
from interreplay.learning.settings import ReplaySettings

FAMILIES = {
    "SAC, TQC, CrossQ, TD3 and DDPG": ("SAC", "TQC", "CrossQ", "TD3", "DDPG"),
    "DQN and its variants": ("DQN", "DDQN", "DuelingDQN", "NoisyDQN", "C51", "QRDQN", "Rainbow"),
    "Algorithms that learn from unrolls": ("IMPALA", "CLEAR", "LASER", "A2C", "A3C"),
}
HEAD = "| setting | default | accepted | meaning |\n|---|---|---|---|"
INTRODUCTION = """# Settings of algorithms

Each setting is an argument of `.training(...)` in Python, a flag such as `--tau 0.01`, and a key of configuration
files. If defaults differ, the algorithms are named. A setting applies only to the algorithms that are named, or to all
of a table if none is named.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the site."""
    files.append(File.generated(config, "settings.md", content=page()))
    return files


def page() -> str:
    """Return the page as Markdown."""
    parts = [INTRODUCTION, "## All algorithms that replay transitions\n", HEAD]
    parts += [line(field, f"`{shown(field)}`") for field in fields(ReplaySettings)]
    for title, names in FAMILIES.items():
        parts += [f"\n## {title}\n", HEAD, *rows(names)]
    return "\n".join(parts) + "\n"


def rows(names: Sequence[str]) -> list[str]:
    """Return one row per setting of a family of algorithms, in order of first appearance."""
    found: dict[str, dict[str, Field[Any]]] = {}
    for name in names:
        for field in fields(ALGORITHMS[name].settings):
            found.setdefault(field.name, {})[name] = field
    return [line(next(iter(by_name.values())), defaults(by_name, names)) for by_name in found.values()]


def defaults(by_name: dict[str, Field[Any]], names: Sequence[str]) -> str:
    """Return the default of a setting, by algorithm if they differ or if some do not have it."""
    groups: dict[str, list[str]] = {}
    for name, field in by_name.items():
        groups.setdefault(shown(field), []).append(name)
    if len(groups) == 1 and len(by_name) == len(names):
        return f"`{next(iter(groups))}`"
    return "; ".join(f"`{value}` ({', '.join(users)})" for value, users in groups.items())


def line(field: Field[Any], default: str) -> str:
    """Return a table row."""
    accepted = accepted_by(field).described.replace("|", "\\|")
    return f"| `{field.name}` | {default} | {accepted} | {field.metadata['help'].replace('|', chr(92) + '|')} |"


def shown(field: Field[Any]) -> str:
    """Return a default as users write it."""
    return str(field.default).lower() if field.default is None else str(field.default)
