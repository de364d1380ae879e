"""How long the updates of a long run will take, measured on a copy of its networks before it begins."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from interreplay.environments.spaces import leaves
from interreplay.experiments.process.progress import duration
from interreplay.learning.update import Batch
from interreplay.transitions import Observation, Transitions, as_tensor, join_parts

MANY = 100_000
"""Updates from which on a run is long enough to be told its time."""
MEASURED_SECONDS = 2.0


def describe_updates(algo: Any, settings: SimpleNamespace) -> str:
    """Return a line that says how long the updates of a run take here; "" where it makes few.

    Args:
        algo: The algorithm, new or restored; it is left as it is, random states included.
        settings: The run's.
    """
    steps = settings.total_env_steps - max(algo.env_steps, settings.learning_starts)
    count = steps * settings.updates_per_step
    if count < MANY:
        return ""
    seconds = seconds_per_update(algo)
    each = f"{settings.updates_per_step:g} update" + ("s" if settings.updates_per_step != 1 else "")
    return (
        f"updates alone take about {duration(count * seconds)} here: {steps:,} steps, "
        f"{each} of {1e3 * seconds:.3g} ms per step (--updates_per_step)"
    )


def seconds_per_update(algo: Any, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long an update takes on average, those of the policy in their turn included.

    Args:
        algo: The algorithm; copies of its networks learn, from random rows.
        clock: In seconds.
    """
    update = algo.config.make_update(copy.deepcopy(algo.learner.single_module))
    device = algo.learner._device
    rng, rows = torch.Generator(device=device).manual_seed(0), random_rows(algo)
    batch = Batch(rows.map(lambda column: column.to(device)), torch.ones(len(rows), device=device))
    turn = getattr(algo.config, "policy_delay", 1)
    update.update(batch, rng)  # which makes room for moments and gradients
    update.updates = 0
    begun, count = clock(), 0
    while count < 3 or (count % turn and clock() - begun < 3 * MEASURED_SECONDS) or clock() - begun < MEASURED_SECONDS:
        float(update.update(batch, rng).metrics[0])  # waits for a GPU
        count += 1
    return (clock() - begun) / count


def random_rows(algo: Any) -> Transitions:
    """Return a batch of random rows of an algorithm's spaces."""
    module, n = algo.learner.single_module, algo.config.train_batch_size_per_learner
    space = copy.deepcopy(module.observation_space)  # whose own random state stays as it is
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
