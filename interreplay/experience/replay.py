"""Replay: stored rows, learned from so many times per added one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from interreplay.buffer.sample import Sample
from interreplay.experience.source import RowSource
from interreplay.learning.update import UpdateResult
from interreplay.transitions import Transitions


class Replay:
    """An `ExperienceSource` that owes updates for every row added: so many per row, drawn from what is stored.

    Args:
        rows: Stores them, and draws the batches.
        batch_size: Rows per batch.
        updates_per_step: Batches per added row; below 1 for less than one.
        learning_starts: Rows before the first batch.
        batches_per_draw: Most batches of one draw; priorities change between draws.

    Attributes:
        env_steps: Rows added in the whole run, over resumes; updates where nothing is collected.
        owed: Batches that are due, a fraction of one included.
    """

    def __init__(
        self,
        rows: RowSource,
        batch_size: int,
        updates_per_step: float = 1.0,
        learning_starts: int = 0,
        batches_per_draw: int = 32,
    ):
        self.rows, self.batch_size, self.updates_per_step = rows, batch_size, updates_per_step
        self.learning_starts, self.batches_per_draw = learning_starts, batches_per_draw
        self.env_steps, self.owed = 0, 0.0

    def advance(self, count: int) -> None:
        """Owe `count` updates for as many steps without new rows, where all that is learned from was recorded."""
        self.env_steps += count
        self.owed += count

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from.

        Env steps and stored rows are the same where a run begins and where it is resumed with its buffer. Where the
        steps were restored alone, the buffer is filled again before learning continues.
        """
        least = self.learning_starts
        return self.env_steps >= least and len(self.rows) >= min(least, self.rows.capacity)

    def add(self, rows: Transitions) -> None:
        self.rows.add(rows)
        self.env_steps += len(rows)
        if self.ready:
            self.owed += self.updates_per_step * len(rows)

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        self.rows.truncate_episodes(episodes)

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Sample]:
        while self.owed >= 1.0 and self.ready and not stop():
            count = min(int(self.owed), self.batches_per_draw)
            yield from self.rows.batches(self.batch_size, count)
            self.owed -= count

    def update(self, batch: Sample, result: UpdateResult) -> None:
        self.rows.update(batch, result.errors, result.scores)

    def anneal(self, progress: float) -> None:
        self.rows.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        return {"env_steps": self.env_steps, "owed": self.owed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps, self.owed = int(state["env_steps"]), float(state["owed"])
