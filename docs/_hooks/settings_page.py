"""The page "Settings of algorithms", generated from the dataclasses that also define the flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

from mkdocs.structure.files import File

from interreplay.experiments.flags.algorithm_flags import as_given
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import get_accepted_values
from interreplay.learning.settings import LoopSettings, ReplaySettings

FAMILIES = {
    "SAC, TQC, CrossQ, TD3 and DDPG": ("SAC", "TQC", "CrossQ", "TD3", "DDPG"),
    "DQN and its variants": ("DQN", "DDQN", "DuelingDQN", "NoisyDQN", "C51", "QRDQN", "IQN", "Rainbow"),
    "Algorithms that learn from unrolls": ("IMPALA", "CLEAR", "LASER", "A2C", "A3C"),
}
HEAD = "| setting | default | accepted | meaning |\n|---|---|---|---|"
IN_PYTHON = "Python only: "
INTRODUCTION = """# Settings of algorithms

Each setting is an argument of `.training(...)` in Python. Unless it is marked "Python only", it is also a flag, such
as `--tau 0.01`, and a key of configuration files. If a default lists algorithms, the setting applies only to these;
otherwise it applies to all algorithms of the table. Defaults are written as flags: in Python, `256,256` is
`(256, 256)`, and None replaces `none`, `all` (`target_subset`) and `auto` (`exploration`).
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the site."""
    files.append(File.generated(config, "settings.md", content=page()))
    return files


def page() -> str:
    """Return the page as Markdown."""
    shared = fields(LoopSettings)
    of_replay = fields(ReplaySettings)[len(shared) :]
    parts = [INTRODUCTION, "## All algorithms\n", HEAD]
    parts += [line(field, f"`{shown(field)}`") for field in shared]
    parts += ["\n## All algorithms that replay transitions\n", HEAD]
    parts += [line(field, f"`{shown(field)}`") for field in of_replay]
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
    accepted = get_accepted_values(field).described.replace("|", "\\|")
    meaning = field.metadata["help"].replace("|", "\\|")
    if field.name not in FLAGS:
        meaning = IN_PYTHON + meaning
    return f"| `{field.name}` | {default} | {accepted} | {meaning} |"


def shown(field: Field[Any]) -> str:
    """Return a default as users write it in a flag."""
    return as_given(field.default, get_accepted_values(field))
