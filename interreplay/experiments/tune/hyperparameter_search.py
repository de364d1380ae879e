"""Hyperparameter search: settings drawn from Ray Tune's distributions, and its schedulers that end bad runs early."""

from __future__ import annotations

import ast
import inspect
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search.sample import Domain

from interreplay.buffer.catalogue import OF_PARTS, resolve
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.studies.grid import SettingsResolver, with_values
from interreplay.experiments.studies.study import PlannedRun
from interreplay.experiments.tune.sequential_search import MedianScheduler

DISTRIBUTIONS = (
    *("uniform", "quniform", "loguniform", "qloguniform", "randint", "qrandint", "lograndint", "qlograndint"),
    *("randn", "qrandn", "choice"),
)


def domains(search: Mapping[str, str]) -> dict[str, Domain]:
    """Return Tune's distributions from texts like ``uniform(.2, 2)`` and ``choice([1, 5])``.

    Raises:
        UsageError: A text is no such call.
    """
    return {name: _domain(name, str(text)) for name, text in search.items()}


def _domain(name: str, text: str) -> Domain:
    form = f"expected a distribution of Ray Tune such as randint(3,30); accepted: {', '.join(DISTRIBUTIONS)}"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.keywords
        assert call.func.id in DISTRIBUTIONS
        domain = getattr(tune, call.func.id)(*map(ast.literal_eval, call.args))
        domain.sample(random_state=np.random.RandomState(0))
        return domain
    except (SyntaxError, AssertionError):
        raise UsageError(f"search: {name}={text}: {form}") from None
    except Exception as error:
        raise UsageError(f"search: {name}={text}: {' '.join(str(error).split())}; {form}") from None


def sampled(
    runs: Iterable[PlannedRun],
    search: Mapping[str, str],
    samples: int,
    resolver: SettingsResolver,
    catalogue: Mapping[str, Callable[..., Any]],
) -> list[PlannedRun]:
    """Return every run that takes one of the searched settings, so often, each time with other values.

    The n-th values of a replay method are the same for all environments and seeds.

    Args:
        runs: The study's.
        search: Distributions as texts, by flags or by arguments of the replay methods.
        samples: How often.
        resolver: What flags mean.
        catalogue: The replay methods by name.

    Raises:
        UsageError: A setting is drawn that no run takes.
    """
    found, runs, used = domains(search), list(runs), set[str]()
    numbered = []
    for place, run in enumerate(runs):
        taken = _taken(run, found, resolver, catalogue)
        used |= taken.keys()
        numbers = range(samples if taken else 1)
        numbered += [(number, place, _draw(run, taken, number, resolver) if taken else run) for number in numbers]
    if unused := sorted(found.keys() - used):
        known = sorted({*resolver.flags, *(name for run in runs for name in _arguments(run, resolver, catalogue))})
        raise UsageError(f"search: no run has a setting {unused[0]!r}; {accepted_names(unused[0], known)}")
    return [run for *_, run in sorted(numbered, key=lambda entry: entry[:2])]


def _arguments(run: PlannedRun, resolver: SettingsResolver, catalogue: Mapping[str, Callable[..., Any]]) -> set[str]:
    name = resolver.settings_for(run.given()).buffer
    recipe = resolve(name) if ":" in name or name == OF_PARTS else catalogue.get(name)  # none of unrolls
    return set(inspect.signature(recipe).parameters) if recipe else set()


def _taken(
    run: PlannedRun,
    found: Mapping[str, Domain],
    resolver: SettingsResolver,
    catalogue: Mapping[str, Callable[..., Any]],
) -> dict[str, Domain]:
    accepted = _arguments(run, resolver, catalogue) | resolver.flags.keys()
    return {name: domain for name, domain in found.items() if name in accepted}


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
    """Return one of Tune's schedulers, told what earlier runs of the study came to.

    Args:
        name: ``fifo``, which ends none, ``asha`` or ``median``.
        jobs: Settings of the runs that are left.
        before: Env steps and returns of those that are over.
    """
    if name == "fifo":
        return FIFOScheduler()
    most, before = max(settings["total_env_steps"] for settings in jobs), list(before)
    each = max(settings["steps_per_iteration"] * max(1, settings["evaluation_interval"]) for settings in jobs)
    if name == "median":
        return MedianScheduler(before, grace=max(each, most // 9))
    asha = AsyncHyperBandScheduler(
        time_attr="env_steps", metric="score", mode="max", max_t=most, grace_period=max(each, most // 9),
        reduction_factor=3, stop_last_trials=False,
    )  # fmt: skip
    for number, curve in enumerate(before):
        trial: Any = SimpleNamespace(trial_id=f"before_{number}")
        asha.on_trial_add(None, trial)
        for steps, value in curve:
            asha.on_trial_result(None, trial, {"env_steps": steps, "score": value})
    return asha
