"""Cost of a study, estimated from earlier runs in the same folder or from a few seconds of training."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from interreplay.experiments.process.machine import counted, own_cpus
from interreplay.experiments.process.progress import duration
from interreplay.experiments.studies.results_table import aligned
from interreplay.experiments.studies.study import Study
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.experiments.studies.trial_folder import FINISHED, OVER, STATUS
from interreplay.experiments.training.build import build
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.rllib import ray_session

MEASURED_SECONDS = 4.0
START_SECONDS = 10.0
EFFORT = (
    "updates_per_step",
    "policy_delay",
    "n_critics",
    "target_subset",
    "critic_layer_norm",
    "critic_dropout",
    "critic_blocks",
    "critic_width",
    "actor_blocks",
    "actor_width",
    "hiddens",
    "train_batch_size",
    "matrix_dtype",
)
"""Settings on which the time of a step depends most."""
EARLIER = "of earlier runs in this folder, of the same kind or the most similar one"
MEASURED = f"measured here in {MEASURED_SECONDS:.0f} s per algorithm, without evaluations and differences of replay"
Rates = dict[tuple[str, ...], list[float]]


def describe_cost(study: Study, folder: StudyFolder, settings: list[dict[str, Any]]) -> str:
    """Return a table of the runs and the estimated time of those that are not finished.

    Args:
        study: The study.
        folder: Folder of the study, which may not exist yet.
        settings: Settings of each run.
    """
    known = earlier(folder.path.parent)
    lines = [("", "run", "steps", "steps/s", "state")]
    notes = set()
    measured: dict[tuple[str, ...], float] = {}
    total = 0.0
    for number, (run, how) in enumerate(zip(study.runs, settings, strict=True)):
        state = folder.trial(run).status()["state"]
        keys = _keys(how)
        similar = next((key for key in keys if key in known), None)
        if similar is not None:
            rate = median(known[similar])
            notes.add(EARLIER)
        else:
            if keys[-1] not in measured:
                measured[keys[-1]] = measure(how)
            rate = measured[keys[-1]]
            notes.add(MEASURED)
        lines.append((str(number), run.name, f"{how['total_env_steps']:,}", f"{rate:.0f}", state))
        if state not in OVER:
            total += how["total_env_steps"] / rate + START_SECONDS
    cpus = study.execution.cpus_per_trial
    room = max(1, own_cpus() // cpus)
    at_once = min(study.execution.max_concurrent or room, room, len(study.runs))
    runs = counted(len(study.runs), "run")
    return "\n".join(
        [
            aligned(lines, right={0, 2, 3}),
            f"{runs}: {work(total * cpus / 3600)}, {duration(total / at_once)} with {at_once} at a time here",
            f"steps/s: {'; '.join(sorted(notes))}; plus {START_SECONDS:.0f} s per run for its start",
        ]
    )


def work(hours: float) -> str:
    """Return an amount of work in CPU hours, or in CPU minutes if it is less than an hour."""
    return f"{hours:.1f} CPU hours" if hours >= 1 else f"{max(1, round(60 * hours))} CPU minutes"


def _keys(how: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the kinds of runs that a run belongs to, the narrowest first."""
    default = ALGORITHMS[how["trainer"]].defaults
    effort = {name: how.get(name, default.get(name)) for name in EFFORT}
    text = json.dumps(effort | {"hiddens": list(effort["hiddens"] or ())})
    trainer = how["trainer"]
    return [(trainer, how["env"], how["buffer"], text), (trainer, how["buffer"], text), (trainer, text)]


def earlier(folder: Path) -> Rates:
    """Return env steps per second of the finished runs in a folder's studies, evaluations included, by kind of run."""
    rates: Rates = defaultdict(list)
    for path in folder.glob(f"*/*/{STATUS}"):
        try:
            status = json.loads(path.read_text())
            how = json.loads(path.with_name("params.json").read_text())
            if status["state"] == FINISHED and status["seconds"] > 0:
                for key in _keys(how):
                    rates[key].append(status["env_steps"] / status["seconds"])
        except (OSError, ValueError, KeyError):
            continue
    return rates


def measure(how: dict[str, Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the env steps per second of a run with these settings after learning has started."""
    short = {
        "learning_starts": how["train_batch_size"],
        "steps_per_iteration": max(1, round(25 / max(how["updates_per_step"], 1))),
        "evaluation_interval": 0,
        "num_workers": 0,
        "on_manifold_rows": 0,
    }
    settings = SimpleNamespace(**how | short)
    ray_session.prepare_host(settings.threads, 0)
    algo = build(ALGORITHMS[settings.trainer].config, settings)
    try:
        warm = settings.learning_starts + max(2.0, 50.0 / max(settings.updates_per_step, 1.0))
        while algo.env_steps < warm:  # the first updates are slower than the others
            algo.train()
        first = algo.env_steps
        begun = clock()
        while clock() - begun < MEASURED_SECONDS:
            algo.train()
        return (algo.env_steps - first) / (clock() - begun)
    finally:
        algo.stop()
