"""Hyperparameter search: settings drawn from Ray Tune's distributions, and Tune's schedulers, which stop bad runs."""

from __future__ import annotations

import ast
import inspect
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search.sample import Domain

from interreplay.buffer.catalogue import OF_PARTS, resolve
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.studies.grid import SettingsResolver, with_values
from interreplay.experiments.studies.study import PlannedRun

DISTRIBUTIONS = (
    "uniform",
    "quniform",
    "loguniform",
    "qloguniform",
    "randint",
    "qrandint",
    "lograndint",
    "qlograndint",
    "randn",
    "qrandn",
    "choice",
)


def domains(search: Mapping[str, str]) -> dict[str, Domain]:
    """Return Tune's distributions for texts such as ``uniform(.2, 2)`` and ``choice([1, 5])``.

    Raises:
        UsageError: A text is not such a call.
    """
    form = f"expected a distribution of Ray Tune such as randint(3,30); accepted: {', '.join(DISTRIBUTIONS)}"
    found = {}
    for name, text in search.items():
        try:
            call = ast.parse(str(text).strip(), mode="eval").body
            assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.keywords
            assert call.func.id in DISTRIBUTIONS
            found[name] = getattr(tune, call.func.id)(*map(ast.literal_eval, call.args))
            found[name].sample(random_state=np.random.RandomState(0))
        except (SyntaxError, AssertionError):
            raise UsageError(f"search: {name}={text}: {form}") from None
        except Exception as error:  # raised by Tune for arguments that the distribution does not accept
            raise UsageError(f"search: {name}={text}: {' '.join(str(error).split())}; {form}") from None
    return found


def sampled(
    runs: Sequence[PlannedRun],
    search: Mapping[str, str],
    samples: int,
    resolver: SettingsResolver,
    catalogue: Mapping[str, Callable[..., Any]],
) -> list[PlannedRun]:
    """Repeat each run that accepts a searched setting, with other values each time.

    The n-th values of a replay method are equal for all environments and seeds.

    Args:
        runs: Runs of the study.
        search: Distributions as texts, by flags or by arguments of the replay methods.
        samples: Number of draws.
        resolver: Resolves flags to settings.
        catalogue: Replay methods by name.

    Raises:
        UsageError: No run accepts one of the settings.
    """
    found = domains(search)
    known = set(resolver.flags)
    numbered = []
    for place, run in enumerate(runs):
        arguments = _arguments(run, resolver, catalogue)
        known |= arguments
        accepted = arguments | resolver.flags.keys()
        taken = {name: domain for name, domain in found.items() if name in accepted}
        if not taken:
            numbered.append((0, place, run))
            continue
        for number in range(samples):
            numbered.append((number, place, _draw(run, taken, number, resolver)))
    unused = sorted(found.keys() - known)
    if unused:
        raise UsageError(f"search: no run has a setting {unused[0]!r}; {accepted_names(unused[0], sorted(known))}")
    numbered.sort(key=lambda entry: entry[:2])
    return [run for _, _, run in numbered]


def _arguments(run: PlannedRun, resolver: SettingsResolver, catalogue: Mapping[str, Callable[..., Any]]) -> set[str]:
    """Return the arguments of a run's replay method."""
    name = resolver.settings_for(run.given()).buffer
    recipe = resolve(name) if ":" in name or name == OF_PARTS else catalogue.get(name)
    return set(inspect.signature(recipe).parameters) if recipe else set()  # stores of unrolls are not in the catalogue


def _draw(run: PlannedRun, taken: Mapping[str, Domain], number: int, resolver: SettingsResolver) -> PlannedRun:
    values = {}
    for name, domain in sorted(taken.items()):
        seed = zlib.crc32(f"{run.trainer} {run.label} {name} {number}".encode())
        value = domain.sample(random_state=np.random.RandomState(seed))
        values[name] = value.item() if isinstance(value, np.generic) else value
    return with_values(replace(run, label=f"{run.label}_{number:03d}"), values, resolver)


def scheduler(
    name: str, jobs: Sequence[dict[str, Any]], before: Iterable[Sequence[tuple[int, float]]]
) -> TrialScheduler:
    """Return one of Tune's schedulers, with the results of earlier runs of the study.

    Args:
        name: ``fifo``, which stops no run, ``asha`` or ``median``.
        jobs: Settings of the runs to start.
        before: Env steps and returns of each finished run.
    """
    if name == "fifo":
        return FIFOScheduler()
    most = max(settings["total_env_steps"] for settings in jobs)
    each = max(settings["steps_per_iteration"] * max(1, settings["evaluation_interval"]) for settings in jobs)
    grace = max(each, most // 9)
    if name == "median":
        median = MedianScheduler(
            time_attr="env_steps",
            metric="score",
            mode="max",
            grace_period=grace,
            min_time_slice=math.inf,  # never pause a run
        )
        for number, curve in enumerate(before):
            for steps, value in curve:
                median.on_trial_complete(None, f"before_{number}", {"env_steps": steps, "score": value})
        return median
    asha = AsyncHyperBandScheduler(
        time_attr="env_steps",
        metric="score",
        mode="max",
        max_t=most,
        grace_period=grace,
        reduction_factor=3,
        stop_last_trials=False,
    )
    for number, curve in enumerate(before):
        trial: Any = SimpleNamespace(trial_id=f"before_{number}")
        asha.on_trial_add(None, trial)
        for steps, value in curve:
            asha.on_trial_result(None, trial, {"env_steps": steps, "score": value})
    return asha


class MedianScheduler(MedianStoppingRule):
    """Tune's median stopping rule, which accepts runs that end before their first evaluation."""

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        if "score" in result:
            super().on_trial_complete(tune_controller, trial, result)
