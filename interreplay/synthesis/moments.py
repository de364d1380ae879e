"""The standard deviation of the numbers in the rows stored now, kept up to date as rows come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.read_views import OneStep
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import ExactMoments
from interreplay.transitions import Transitions, observation_parts

STEP = OneStep()


def parts(rows: Transitions) -> dict[str, Tensor]:
    """Return s, a, r and s' of n rows, each ``(n, numbers)``, by name; parts of an observation as ``obs.part``."""
    named = {f"obs.{name}": part for name, part in observation_parts(rows.obs).items()}
    named |= {"actions": rows.actions, "rewards": rows.rewards}
    named |= {f"next_obs.{name}": part for name, part in observation_parts(rows.next_obs).items()}
    return {name: part.reshape(len(rows), -1) for name, part in named.items()}


class StoredSpread:
    """Standard deviations over the rows stored now of every number in s, a, r and s', single steps."""

    def __init__(self) -> None:
        self.moments: ExactMoments | None = None

    def observe(self, storage: Storage, slots: Tensor) -> None:
        """Take note of rows that were just stored in `slots` ``(n,)``."""
        vectors = STEP.vectors(storage, slots.numpy(force=True))
        if self.moments is None:
            self.moments = ExactMoments(vectors.shape[1])
            self.moments.origin[0] = vectors[0]
        self.moments.add(vectors)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        """Take leave of the rows in `slots` ``(n,)``, which are about to be overwritten."""
        if self.moments is not None:
            self.moments.remove(STEP.vectors(storage, slots.numpy(force=True)))

    def std(self) -> Tensor:
        """Return standard deviations ``(D,)``, float64, dividing by N, in the order of `parts`."""
        assert self.moments is not None
        return torch.from_numpy(self.moments.mean_and_std()[1])

    @staticmethod
    def nbytes(features: int) -> int:
        """Return the bytes that this takes for rows with `features` numbers in z = [s; a]."""
        return 5 * 8 * (2 * features + 1) + 8

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on; arrays share memory."""
        return {} if self.moments is None else self.moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; also from an earlier one, with sums of blocks of rows and of all of them."""
        if "blocks" in state:
            earlier, total = state, np.asarray(state["total"])
            state = {"counts": [earlier["count"]], "origin": np.asarray(earlier["origin"])[None]} if len(total) else {}
            state |= {"sums": total[:1], "squares": total[1:]} if state else {}
        self.moments = None
        if state:
            self.moments = ExactMoments(np.shape(state["origin"])[1])
            self.moments.load_state_dict(state)
