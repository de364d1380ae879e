"""Contracts of the sources that algorithms learn from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.sample import Sample
from interreplay.part import Context
from interreplay.storage.columns import Columns
from interreplay.transitions import Transitions


class RowSource(Protocol):
    """A source of batches: a replay buffer, recorded data, rollouts of a model, or a mix of sources.

    Attributes:
        capacity: Maximum number of stored rows.
        device: Device of the batches.
        columns_wanted: Names of the extra columns to record with each row; see `Part`.
        scores_wanted: Names of the scores of rows that `update` requires; see `Part`.
        brings_critic_loss: Whether batches define the loss of the critics.
        wants_goal_functions: Whether `connect` requires the environment's ``compute_reward``.
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
        """Return the number of rows that can currently be drawn."""
        ...

    def check(self, columns: Columns) -> None:
        """Raise ValueError naming the column if the source does not support rows of these columns."""

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        """Raise ValueError if an algorithm lacks something that the replay method requires."""

    def connect(self, context: Context) -> None:
        """Receive the policy, the goal functions and other parts of an algorithm and its environment."""

    def add(self, transitions: Transitions) -> object:
        """Store new rows of the environment; sources of recorded rows ignore them."""

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """Truncate running episodes that will not be continued."""

    def sample(self, size: int) -> Sample:
        """Draw a batch."""
        ...

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw several batches; if priorities follow errors, call `update` before the next batch."""
        ...

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        """Receive the TD errors ``(n,)`` and the scores ``(n,)`` of a batch of this source."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the completed fraction of the run, 0 to 1."""

    def split_by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        """Split a batch by the buffers of its rows; the name is "" if there is only one buffer."""
        ...

    def statistics(self) -> dict[str, float]:
        """Return metrics of the source for the results of a run."""
        ...

    def recorded_rows(self) -> Iterator[Transitions]:
        """Yield the rows that were recorded before the run, in portions and chronological order."""
        ...

    def nbytes(self, columns: Columns) -> int:
        """Return the memory of the source in bytes when it is full of rows of these columns."""
        ...

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` with arrays that share memory with this object."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state."""
