"""Replay: a number of updates on stored rows for each added row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from interreplay.buffer.sample import Sample
from interreplay.experience.source import RowSource
from interreplay.learning.update import UpdateResult
from interreplay.transitions import Transitions

ROUNDING = 1e-6
"""Fraction of a batch that sums of `Replay.updates_per_step` may lack; ten times 0.1 is less than 1."""


@dataclass(eq=False)
class Replay:
    """The source of the training loop: a fixed number of updates per added row, on batches drawn from all stored rows.

    Attributes:
        rows: Stores rows and draws batches.
        batch_size: Rows per batch.
        updates_per_step: Batches per added row; can be less than 1.
        learning_starts: Number of rows before the first batch.
        batches_per_draw: Maximum number of batches that `rows` are requested to draw at once.
        env_steps: Rows added in the whole run, including before resumes; without collection, the number of updates.
        due: Number of batches that are due, including a fraction of a batch.
    """

    rows: RowSource
    batch_size: int
    updates_per_step: float = 1.0
    learning_starts: int = 0
    batches_per_draw: int = 32
    env_steps: int = 0
    due: float = 0.0

    def advance(self, count: int) -> None:
        """Add `count` due updates without new rows, for learning from recorded rows only."""
        self.env_steps += count
        self.due += count

    @property
    def ready(self) -> bool:
        """Whether there are enough rows to learn from.

        If a run is resumed without its buffer, the buffer is filled again before learning continues.
        """
        return self.missing_rows <= 0

    @property
    def missing_rows(self) -> int:
        """Number of rows to add until there are enough to learn from; at most 0 if there are."""
        least = self.learning_starts
        return max(least - self.env_steps, min(least, self.rows.capacity) - len(self.rows))

    def add(self, rows: Transitions) -> None:
        self.rows.add(rows)
        self.env_steps += len(rows)
        if self.ready:
            self.due += self.updates_per_step * len(rows)

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        self.rows.truncate_episodes(episodes)

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Sample]:
        while self.due >= 1.0 - ROUNDING and self.ready and not stop():
            count = min(int(self.due + ROUNDING), self.batches_per_draw)
            yield from self.rows.batches(self.batch_size, count)
            self.due -= count

    def update(self, batch: Sample, result: UpdateResult) -> None:
        self.rows.update(batch, result.errors, result.scores)

    def anneal(self, progress: float) -> None:
        self.rows.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        return {"env_steps": self.env_steps, "owed": self.due}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps = int(state["env_steps"])
        self.due = float(state["owed"])
