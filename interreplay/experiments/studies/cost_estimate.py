"""Cost of a study, estimated from finished runs of studies in the same folder."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from interreplay.experiments.process.machine import counted, own_cpus
from interreplay.experiments.process.progress import duration
from interreplay.experiments.studies.results_table import aligned
from interreplay.experiments.studies.study import Study
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.experiments.studies.trial_folder import FINISHED, OVER, STATUS

EFFORT = (
    "updates_per_step",
    "policy_delay",
    "n_critics",
    "target_subset",
    "critic_layer_norm",
    "critic_dropout",
    "hiddens",
    "train_batch_size",
    "matrix_dtype",
)
"""Settings on which the time of a step depends most."""


def describe_cost(study: Study, folder: StudyFolder, settings: list[dict[str, Any]]) -> str:
    """Return a table of the runs and the estimated time of those that are not finished.

    Args:
        study: The study.
        folder: Folder of the study, which may not exist yet.
        settings: Settings of each run.
    """
    known = earlier(folder.path.parent)
    lines = [("", "run", "steps", "steps/s", "state")]
    seconds = 0.0
    unknown = 0
    for number, (run, how) in enumerate(zip(study.runs, settings, strict=True)):
        state = folder.trial(run).status()["state"]
        similar = list(filter(None, map(known.get, kinds(how))))
        rate = "-"
        if similar:
            rate = f"{median(similar[0]):.0f}"
        if state not in OVER and similar:
            seconds += how["total_env_steps"] / median(similar[0])
        elif state not in OVER:
            unknown += 1
        lines.append((str(number), run.name, f"{how['total_env_steps']:,}", rate, state))
    cpus = study.execution.cpus_per_trial
    room = max(1, own_cpus() // cpus)
    at_once = min(study.execution.max_concurrent or room, room, len(study.runs))
    cost = f"{seconds * cpus / 3600:.1f} CPU hours, {duration(seconds / at_once)} with {at_once} at a time here"
    if unknown:
        cost = f"{cost}, and {counted(unknown, 'run')} without similar runs in {folder.path.parent}"
    return f"{aligned(lines, right={0, 2, 3})}\n{counted(len(study.runs), 'run')}: {cost}"


def kinds(how: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the kinds of runs that a run belongs to, the narrowest first."""
    effort = json.dumps([how.get(name) for name in EFFORT], default=list)
    trainer = how["trainer"]
    return [(trainer, how["env"], how["buffer"], effort), (trainer, how["buffer"], effort), (trainer, effort)]


def earlier(folder: Path) -> dict[tuple[str, ...], list[float]]:
    """Return env steps per second of the finished runs in a folder's studies, evaluations included, by kind of run."""
    rates = defaultdict(list)
    for path in folder.glob(f"*/*/{STATUS}"):
        try:
            status = json.loads(path.read_text())
            how = json.loads(path.with_name("params.json").read_text())
            if status["state"] == FINISHED and status["seconds"] > 0:
                for kind in kinds(how):
                    rates[kind].append(status["env_steps"] / status["seconds"])
        except (OSError, ValueError, KeyError):
            continue
    return rates
