"""The experience of actor-learner algorithms: batches are due as soon as enough fresh unrolls are waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


class UnrollExperience:
    """Receives unrolls from actors and provides batches for a learner, with its own random generator.

    Attributes:
        env_steps: Number of env steps in the whole run, including resumed parts.
    """

    def __init__(self, mix: UnrollMix, batch_size: int, seed: int | None = None):
        self.mix = mix
        self.batch_size = batch_size
        self.env_steps = 0
        self.rng = np.random.default_rng(seed)

    def add(self, unrolls: Unrolls) -> None:
        """Add new unrolls. The caller must not modify them afterwards."""
        self.mix.add(unrolls, self.rng)
        self.env_steps += unrolls.env_steps

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Unrolls]:
        """Draw the batches that are due. If `stop`, called before each, is True, the rest waits for the next call."""
        while not stop() and self.mix.ready(self.batch_size):
            yield self.mix.batch(self.batch_size, self.rng)

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the completed share of the run, from 0 to 1."""
        self.mix.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        """Return counters and random state; the unrolls are saved separately."""
        return {"env_steps": self.env_steps, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps = int(state["env_steps"])
        self.rng.bit_generator.state = state["rng"]
