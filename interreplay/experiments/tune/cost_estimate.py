"""What a study would cost: from earlier runs beside it, or else from a few seconds of training here."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
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
    "policy_delay",
    "n_critics",
    "target_subset",
    "critic_layer_norm",
    "critic_dropout",
    "hiddens",
    "train_batch_size",
    "matrix_dtype",
)
"""Settings beside `updates_per_step` on which the time of a step depends most."""
Rates = dict[tuple[str, ...], list[float]]


def describe_cost(study: Study, folder: StudyFolder, settings: list[dict[str, Any]]) -> str:
    """Return the runs, a line each, and what those that are left would take.

    Args:
        study: The study.
        folder: Its folder, there or not.
        settings: Of every run.
    """
    known = earlier(folder.path.parent)
    lines, total = [("", "run", "steps", "steps/s", "state")], 0.0
    notes: set[str] = set()
    measured: dict[str, float] = {}
    for number, (run, how) in enumerate(zip(study.runs, settings, strict=True)):
        state = folder.trial(run).status()["state"]
        rate, note = _rate(how, known, measured)
        notes.add(note)
        lines.append((str(number), run.name, f"{how['total_env_steps']:,}", f"{rate:.0f}", state))
        if state not in OVER:
            total += how["total_env_steps"] / rate + START_SECONDS
    room = max(1, own_cpus() // study.execution.cpus_per_trial)
    at_once = min(study.execution.max_concurrent or room, room, len(study.runs))
    hours = total * study.execution.cpus_per_trial / 3600
    runs = counted(len(study.runs), "run")
    return "\n".join(
        [
            aligned(lines, right={0, 2, 3}),
            f"{runs}: {work(hours)}, {duration(total / at_once)} with {at_once} at a time here",
            f"steps/s: {'; '.join(sorted(notes))}; {START_SECONDS:.0f} s per run for its start are added",
        ]
    )


def work(hours: float) -> str:
    """Return an amount of work: in CPU minutes where it is less than an hour."""
    return f"{hours:.1f} CPU hours" if hours >= 1 else f"{max(1, round(60 * hours))} CPU minutes"


def _rate(how: dict[str, Any], known: Rates, measured: dict[str, float]) -> tuple[float, str]:
    """Return env steps per second of a run, and where that is known from."""
    for key in _keys(how):
        if key in known:
            return median(known[key]), "of earlier runs beside it, of the same kind or the most similar one"
    kind = " ".join((how["trainer"], _effort(how)))
    if kind not in measured:
        measured[kind] = measure(how)
    note = f"measured here in {MEASURED_SECONDS:.0f} s per algorithm, without evaluations, other replay methods alike"
    return measured[kind], note


def _keys(how: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    full = (how["trainer"], how["env"], how["buffer"], _effort(how))
    return full, (full[0], full[2], full[3]), (full[0], full[3])


def _effort(how: dict[str, Any]) -> str:
    """Return the settings that say how long the updates of a step take; defaults where a run does not say them."""
    default = ALGORITHMS[how["trainer"]].defaults
    said = {name: how.get(name, default.get(name)) for name in ("updates_per_step", *EFFORT)}
    return json.dumps(said | {"hiddens": list(said["hiddens"] or ())})


def earlier(folder: Path) -> Rates:
    """Return env steps per second, evaluations included, of finished runs in a folder's studies, by kind of run."""
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
    """Return env steps per second of a run with these settings, once it learns."""
    length = max(1, round(25 / max(how["updates_per_step"], 1)))
    short = {"learning_starts": how["train_batch_size"], "steps_per_iteration": length, "evaluation_interval": 0}
    settings = SimpleNamespace(**how | short | {"num_workers": 0, "on_manifold_rows": 0})
    ray_session.prepare_host(settings.threads, 0)
    algo = build(ALGORITHMS[settings.trainer].config, settings)
    try:
        warm = settings.learning_starts + max(2.0, 50.0 / max(settings.updates_per_step, 1.0))
        while algo.env_steps < warm:  # the first updates are slower than all others
            algo.train()
        first, begun = algo.env_steps, clock()
        while clock() - begun < MEASURED_SECONDS:
            algo.train()
        return (algo.env_steps - first) / (clock() - begun)
    finally:
        algo.stop()
