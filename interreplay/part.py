"""What selectors, neighborhoods and synthesizers have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import PartError
from interreplay.storage.columns import Columns
from interreplay.storage.read_views import OneStep, ReadView
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation, Transitions

Score = Callable[[Transitions, Collection[str]], Mapping[str, Tensor]]
"""Rows and names to scores ``(n,)`` by these names."""


@dataclass(frozen=True)
class Context:
    """What an algorithm has to offer to the parts of its replay buffer; None for what it has not.

    Attributes:
        policy: Observations ``(n, ...)`` to what the current policy gives ``(n, ...)``, without gradients.
        policy_is_gaussian: Whether it gives [mean; log std].
        compute_reward: The environment's, ``(achieved, desired, info)`` of one row or of many, where it has goals.
        compute_terminated: The environment's, likewise.
        observation_space: Of one environment.
        action_space: Of one environment.
        device: On which the policy computes.
        score: Rows ``(n, ...)`` with ``discounts`` and names of scores to these ``(n,)`` under the networks of now, by
            forward passes alone; the names are in `interreplay.learning.update`.
        environment: Its id, where it has one.
        environment_arguments: With which it is made.
        simulate: Rows of any kind to numbers that tell, by name, how far they are from what the simulator does.
    """

    policy: Callable[[Observation], Tensor] | None = None
    policy_is_gaussian: bool = False
    compute_reward: Callable[..., Any] | None = None
    compute_terminated: Callable[..., Any] | None = None
    observation_space: Any = None
    action_space: Any = None
    device: torch.device | None = None
    score: Score | None = None
    environment: str | None = None
    environment_arguments: Mapping[str, Any] | None = None
    simulate: Callable[[Transitions], Mapping[str, float]] | None = None


GOALS = "hindsight_goals"
"""Name of the extra column ``(n, 1 + m, d)`` of goals: for the anchor, then for each of its m partners."""


class Part:
    """A piece of a replay buffer. Every method here has a default that does nothing.

    Attributes:
        independent_rows: Whether the rows of a batch come about without regard to each other, so that parts of one
            large batch are as good as several batches.
        follows_episodes: Whether this part looks at what came before or after a row in its episode.
        columns_wanted: Names of extra columns that this part would have recorded with each row, where an algorithm can:
            ``"behavior"``, what the policy gave when it acted, and ``"success"``, whether infos speak of success.
        scores_wanted: Names of scores that this part would have with the TD errors of each batch, where an algorithm
            can: those in `interreplay.learning.update`.
        needs: Names there of what this part cannot do without.
        wants_goal_functions: Whether `connect` should bring the environment's ``compute_reward``.
        view: How this part reads rows, where what it makes of them depends on that.
    """

    independent_rows = True
    follows_episodes: bool = False
    columns_wanted: frozenset[str] = frozenset()
    scores_wanted: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    wants_goal_functions: bool = False
    view: ReadView = OneStep()

    def use_view(self, view: ReadView) -> None:
        """Read rows by `view` from now on; the buffer calls this at its construction, and when its view changes."""
        self.view = view

    def check(self, columns: Columns) -> None:
        """Refuse rows that this part cannot work with.

        Args:
            columns: What a stored row is made of, ``{name: (shape, dtype)}``.

        Raises:
            ValueError: Naming the column and its dtype.
        """

    def connect(self, context: Context) -> None:
        """Take what this part can use of `context`; called before the first rows, perhaps more than once."""

    def evict(self, storage: Storage, slots: Tensor) -> None:
        """Take leave of the rows in `slots` ``(n,)``, each once, oldest first, which are about to be overwritten."""

    def observe(self, storage: Storage, slots: Tensor) -> None:
        """Take note of rows that were just stored in `slots` ``(n,)``, each slot once, in write order."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""

    def nbytes(self, capacity: int, features: int) -> int:
        """Return bytes that this part takes beside a full storage of rows with `features` numbers in z = [s; a]."""
        return 0

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe the part now, for the results of a run."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on; arrays may share memory with the part."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""


def evict(parts: Iterable[Part], storage: Storage, count: int) -> Tensor | None:
    """Let `parts` take leave of the rows that the next `count`, at most the capacity, replace.

    Returns:
        The slots ``(count,)`` of the next rows, where each of them replaces one and a part had to be asked.
    """
    leaving = [part for part in parts if type(part).evict is not Part.evict]
    if not leaving or storage.written + count <= storage.capacity:
        return None
    slots = storage.next_replaced(count)
    for part in leaving:
        part.evict(storage, slots)
    return slots if len(slots) == count else None


def wrong_answer(part: Part, answer: object, expected: type, how: str) -> PartError:
    """Return the error for a part's answer that is of another type than the contract has it.

    Args:
        part: Whose it is.
        answer: What it returned.
        expected: The type.
        how: Its arguments, for the message.
    """
    name, given = type(part).__name__, type(answer).__name__
    return PartError(f"{name} returned a {given}; expected {expected.__name__}{how}")


def standard_normal(shape: Sequence[int], rng: np.random.Generator, device: torch.device) -> Tensor:
    """Draw standard normal numbers, float32, from a torch generator that `rng` seeds.

    For the 256 rows of a HalfCheetah batch that takes half the time of numpy's own.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**32)))
    return torch.randn(tuple(shape), generator=generator).to(device)
