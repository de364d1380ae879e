"""Estimate the time of a long run's updates by measuring updates of a copy of its networks."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from interreplay.environments.spaces import leaves
from interreplay.experiments.process.machine import counted
from interreplay.experiments.process.progress import duration
from interreplay.learning.update import Batch
from interreplay.transitions import Observation, Transitions, as_tensor, join_parts

MANY = 100_000
"""Minimum number of updates of a run for which the time is estimated."""
MEASURED_SECONDS = 2.0


def describe_updates(algo: Any, settings: SimpleNamespace) -> str:
    """Return a line about the time of a run's updates on this machine, "" for fewer than `MANY` updates.

    Args:
        algo: The algorithm, new or restored. It is not changed, nor are its random states.
        settings: Settings of the run.
    """
    steps = settings.total_env_steps - max(algo.env_steps, settings.learning_starts)
    count = steps * settings.updates_per_step
    if count < MANY:
        return ""
    seconds = seconds_per_update(algo)
    return (
        f"updates alone take about {duration(count * seconds)} here: {steps:,} steps, "
        f"{counted(settings.updates_per_step, 'update')} of {1e3 * seconds:.3g} ms per step (--updates_per_step)"
    )


def seconds_per_update(algo: Any, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the mean seconds of an update, including delayed updates of the policy.

    Args:
        algo: The algorithm. Copies of its networks learn from random rows.
        clock: Returns the time in seconds.
    """
    update = algo.config.make_update(copy.deepcopy(algo.learner.single_module))
    device = algo.learner._device
    rng = torch.Generator(device=device).manual_seed(0)
    rows = random_rows(algo)
    batch = Batch(rows.map(lambda column: column.to(device)), torch.ones(len(rows), device=device))
    turn = getattr(algo.config, "policy_delay", 1)
    update.update(batch, rng)  # allocates moments and gradients
    update.updates = 0
    count = 0
    elapsed = 0.0
    begun = clock()
    while count < 3 or elapsed < MEASURED_SECONDS or (count % turn and elapsed < 3 * MEASURED_SECONDS):
        float(update.update(batch, rng).metrics[0])  # waits for a GPU
        count += 1
        elapsed = clock() - begun
    return elapsed / count


def random_rows(algo: Any) -> Transitions:
    """Return a batch of random transitions of an algorithm's spaces."""
    module = algo.learner.single_module
    n = algo.config.train_batch_size_per_learner
    space = copy.deepcopy(module.observation_space)  # keeps the random state of the original
    space.seed(0)

    def observations() -> Observation:
        parts = {name: np.stack([part.sample() for _ in range(n)]) for name, part in leaves(space).items()}
        return join_parts({name: as_tensor(rows) for name, rows in parts.items()})

    actions = module.policy.random(n, torch.Generator(device=algo.learner._device).manual_seed(0))
    flags = torch.zeros(n, dtype=torch.bool)
    return Transitions(
        obs=observations(),
        actions=actions.cpu(),
        rewards=torch.zeros(n),
        next_obs=observations(),
        terminated=flags,
        truncated=flags,
        discounts=torch.full((n,), algo.config.gamma),
    )
