"""What an experiment was begun with, kept in its folder: `--resume` goes on with that and refuses anything else."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.rllib_command.experiments import Experiment
from interreplay.experiments.studies.trial_folder import write_whole

FILE = "experiment.json"


def keep(folder: Path, experiment: Experiment) -> None:
    """Write down what an experiment is begun with.

    Args:
        folder: Its own, which exists.
        experiment: Just begun.
    """
    write_whole(folder / FILE, _text(asdict(experiment)))


def check_unchanged(folder: Path, experiment: Experiment) -> None:
    """Refuse settings that Tune would not hear of, since it restores those of the beginning.

    Args:
        folder: The experiment's own; one of before there was this file holds nothing to compare with.
        experiment: As it is asked for now; what is left out, or at its default, is as it was.

    Raises:
        UsageError: One of them is another than it was.
    """
    if not (folder / FILE).is_file():
        return
    begun, asked = json.loads((folder / FILE).read_text()), json.loads(_text(asdict(experiment)))
    usual = json.loads(_text(asdict(Experiment("", "", ""))))
    for name, value in asked.items():
        if value != usual[name] and _differs(value, begun.get(name)):
            raise UsageError(
                f"--{name} {value!r}: {folder} was begun with {begun.get(name)!r}, and --resume goes on with that; "
                "leave it out, or begin another with --experiment_name"
            )


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, default=repr)


def _differs(asked: Any, begun: Any) -> bool:
    """Return whether anything that is asked for is another than it was; settings are compared one by one."""
    if isinstance(asked, dict) and isinstance(begun, dict):
        return any(name not in begun or begun[name] != value for name, value in asked.items())
    return bool(asked != begun)
