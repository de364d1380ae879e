"""When batches of unrolls are due: as soon as enough fresh ones wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


class UnrollExperience:
    """What actors add unrolls to and a learner gets batches from; the randomness of both, and the count of env steps.

    Args:
        mix: Of fresh and replayed unrolls.
        batch_size: Unrolls per batch.
        seed: Of what is drawn; None for a random one.

    Attributes:
        env_steps: Steps that environments made in the whole run, over resumes.
    """

    def __init__(self, mix: UnrollMix, batch_size: int, seed: int | None = None):
        self.mix, self.batch_size, self.env_steps = mix, batch_size, 0
        self.rng = np.random.default_rng(seed)

    def add(self, unrolls: Unrolls) -> None:
        """Take new unrolls, which nobody writes to any more.

        Raises:
            NonFiniteError: When a column holds NaN or infinity.
        """
        self.mix.add(unrolls, self.rng)
        self.env_steps += unrolls.env_steps

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Unrolls]:
        """Draw the batches that are due.

        Args:
            stop: Asked before each, whether to leave the rest for the next call.
        """
        while not stop() and self.mix.ready(self.batch_size):
            yield self.mix.batch(self.batch_size, self.rng)

    def update(self, batch: Unrolls, policy: Tensor, errors: Tensor) -> None:
        """Take note of what an update found out of a batch; arguments as of `UnrollMix.update`."""
        self.mix.update(batch, policy, errors)

    def to_refresh(self) -> Unrolls | None:
        """Return unrolls whose distance from the policy is to be measured again, None where there are none."""
        return self.mix.to_refresh(self.rng)

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""
        self.mix.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        """Return counters and randomness, without the unrolls, which are saved by themselves."""
        return {"env_steps": self.env_steps, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.env_steps = int(state["env_steps"])
        self.rng.bit_generator.state = state["rng"]
