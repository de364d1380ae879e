"""What is known of the episodes that a runner steps: their ids, returns and lengths."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interreplay.learning.update import SUCCESS_COLUMN

Names = Collection[str]
"""Of columns that are recorded beside the transitions: "behavior" and "success"."""


def success_of(info: Any) -> Any:
    """Return whether an environment's info speaks of success, None where it does not."""
    return info.get("is_success", info.get("success")) if isinstance(info, dict) else None


def columns_of_infos(names: Names, infos: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return those of the named columns ``(n,)`` that infos speak of: whether each step was a success."""
    return {SUCCESS_COLUMN: np.array([bool(success_of(info)) for info in infos])} if SUCCESS_COLUMN in names else {}


@dataclass
class Finished:
    """An episode that ended: its length in steps, return, duration in seconds, whether it succeeded, and its id."""

    length: int
    ret: float
    seconds: float
    success: float | None
    id: int = -1


class EpisodeLog:
    """Running episodes of n environments.

    Args:
        num_envs: Number of environments n.
        first: First episode id; runners start far apart so that ids differ everywhere.
    """

    def __init__(self, num_envs: int, first: int):
        self.next_id = first
        self.ids = np.full(num_envs, -1, dtype=np.int64)
        self.returns = np.zeros(num_envs)
        self.lengths = np.zeros(num_envs, dtype=np.int64)
        self.started = np.full(num_envs, time.perf_counter())
        self.finished: list[Finished] = []

    def start(self, which: np.ndarray) -> None:
        """Begin new episodes in the environments `which` ``(n,)`` bool."""
        count = int(which.sum())
        self.ids[which] = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        self.returns[which], self.lengths[which], self.started[which] = 0.0, 0, time.perf_counter()

    def step(self, live: np.ndarray, rewards: np.ndarray, done: np.ndarray, infos: Any) -> None:
        """Count one step of the environments `live` ``(n,)`` bool, and close the episodes that are done."""
        self.returns += rewards * live
        self.lengths += live
        ended = done & live
        for i in np.flatnonzero(ended) if ended.any() else ():
            success = success_of(infos[i])
            seconds = time.perf_counter() - self.started[i]
            self.finished.append(
                Finished(
                    length=int(self.lengths[i]),
                    ret=float(self.returns[i]),
                    seconds=seconds,
                    success=None if success is None else float(success),
                    id=int(self.ids[i]),
                )
            )

    def take_finished(self) -> list[Finished]:
        """Return episodes that ended since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def state(self) -> dict[str, Any]:
        return {
            "next_id": self.next_id,
            "ids": self.ids.copy(),
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "finished": [vars(f) for f in self.finished],
        }

    def load(self, state: dict[str, Any]) -> None:
        self.next_id = int(state["next_id"])
        self.ids, self.returns, self.lengths = (np.array(state[k]) for k in ("ids", "returns", "lengths"))
        self.finished = [Finished(**f) for f in state["finished"]]
        self.started = np.full(len(self.ids), time.perf_counter())
