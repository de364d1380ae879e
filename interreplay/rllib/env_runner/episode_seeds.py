"""Seeds of the episodes of evaluations, one for each number of an episode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

EVALUATION = 1 << 20
"""Part of the key of these seeds, which no runner's index reaches."""


class EpisodeSeeds(Iterator[int]):
    """The seeds of successive episodes: the i-th episode has the same one in however many environments it is played.

    Args:
        seed: Seed of the run; None for a random one.
        index: Index of the runner.

    Attributes:
        number: Number of the next episode, counted over all evaluations of a run.
    """

    def __init__(self, seed: int | None, index: int):
        self._entropy = np.random.SeedSequence(seed).entropy
        self._index = index
        self.number = 0

    def __next__(self) -> int:
        key = (EVALUATION, self._index, self.number)
        self.number += 1
        return int(np.random.SeedSequence(self._entropy, spawn_key=key).generate_state(1)[0])
