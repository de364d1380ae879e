"""The contracts of what algorithms learn from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.sample import Sample
from interreplay.learning.update import UpdateResult
from interreplay.part import Context
from interreplay.storage.columns import Columns
from interreplay.transitions import Transitions


class RowSource(Protocol):
    """What batches of any size are drawn from: a replay buffer, data of elsewhere, a model's rollouts, a mix of these.

    Attributes:
        capacity: Rows that can be stored.
        device: On which batches are made.
        columns_wanted: Names of the extra columns that it would have recorded with each row; see `Part`.
        scores_wanted: Names of the scores of rows that it would have with the errors of a batch; see `Part`.
        brings_critic_loss: Whether rows come with a loss of the critics.
        wants_goal_functions: Whether `connect` should bring the environment's ``compute_reward``.
    """

    @property
    def capacity(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def columns_wanted(self) -> frozenset[str]: ...
    @property
    def scores_wanted(self) -> frozenset[str]: ...
    @property
    def brings_critic_loss(self) -> bool: ...
    @property
    def wants_goal_functions(self) -> bool: ...

    def __len__(self) -> int:
        """Return the number of rows that can be drawn now."""
        ...

    def check(self, columns: Columns) -> None:
        """Refuse rows that it cannot work with; raise ValueError that names the column."""

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        """Refuse an algorithm that lacks what a replay method needs; raise ValueError that names it."""

    def connect(self, context: Context) -> None:
        """Take what it can use of an algorithm and its environment."""

    def add(self, transitions: Transitions) -> object:
        """Take new rows of the environment; one that keeps none passes them over."""

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """End running episodes that nothing will continue."""

    def sample(self, size: int) -> Sample:
        """Draw a batch."""
        ...

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw several batches, each learned from before the next where priorities follow errors."""
        ...

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        """Take note of the errors ``(n,)`` and the scores ``(n,)`` of a batch that came from here."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""

    def by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        """Take a batch apart by the buffers that its rows came from, each with a name, "" where there is but one."""
        ...

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe it now, beside those of batches, for the results of a run."""
        ...

    def recorded_rows(self) -> Iterator[Transitions]:
        """Yield the rows that were there before the first step, in portions and in order of time."""
        ...

    def nbytes(self, columns: Columns) -> int:
        """Return the bytes that it will take when it is full of rows of these columns."""
        ...

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` without copying."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""


class ExperienceSource(Protocol):
    """What the training loop learns from: it takes what was collected, and says which batches are due.

    *collect → add → for batch in batches(): update the networks, then `update`* serves every algorithm.

    Attributes:
        env_steps: Rows taken in the whole run, over resumes.
    """

    env_steps: int

    def add(self, rows: Transitions) -> None:
        """Take rows that were just collected."""

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """End running episodes that nothing will continue."""

    def batches(self, stop: Callable[[], bool]) -> Iterator[Sample]:
        """Draw the batches that are due.

        Args:
            stop: Asked between draws, whether to leave the rest for the next call.
        """
        ...

    def update(self, batch: Sample, result: UpdateResult) -> None:
        """Take note of what an update found out of a batch."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is due and counted, without the rows, which are saved by themselves."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
