"""Events: conditions on a step, by a few words or a callable."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions

SUCCESS = "success"
"""Name of the extra column that says whether the environment reported success with the step."""
COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
REWARD = re.compile(r"\s*reward\s*(>=|<=|>|<)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*")
ACCEPTED = "'reward > 0' (or another comparison), 'terminated', 'truncated', 'success' or a callable"


class Event(Protocol):
    """A condition on stored steps."""

    def __call__(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return whether it happened at the steps in `slots` ``(n,)``, bool ``(n,)``."""
        ...


@dataclass(frozen=True)
class RewardIs:
    """The reward compared with a number."""

    comparison: str
    number: float

    def __call__(self, storage: Storage, slots: Tensor) -> Tensor:
        return COMPARISONS[self.comparison](storage.column("rewards").index_select(0, slots), self.number)


@dataclass(frozen=True)
class Flag:
    """A column that is true, or not 0."""

    column: str

    def __call__(self, storage: Storage, slots: Tensor) -> Tensor:
        if self.column not in storage.columns:
            name = self.column.removeprefix("extras.")
            raise ValueError(f"rows have no extras[{name!r}]; expected it with every row, for the event {name!r}")
        return storage.column(self.column).index_select(0, slots) != 0


@dataclass(frozen=True)
class Condition:
    """What a callable makes of the rows."""

    of_rows: Callable[[Transitions], Tensor]

    def __call__(self, storage: Storage, slots: Tensor) -> Tensor:
        found = torch.as_tensor(self.of_rows(storage[slots]), device=slots.device)
        if found.shape != slots.shape:
            raise ValueError(f"an event has shape {tuple(found.shape)}; expected {tuple(slots.shape)}")
        return found.bool()


def event(given: str | Callable[[Transitions], Tensor]) -> Event:
    """Return the event that a few words or a callable mean.

    Args:
        given: ``"reward > 0"`` with any comparison and number, ``"terminated"``, ``"truncated"``, ``"success"``, or a
            callable of rows ``(n, ...)`` that returns bool ``(n,)``.

    Raises:
        ValueError: For anything else.
    """
    if callable(given):
        return Condition(given)
    if given in ("terminated", "truncated"):
        return Flag(given)
    if given == SUCCESS:
        return Flag(f"extras.{SUCCESS}")
    found = REWARD.fullmatch(given) if isinstance(given, str) else None
    try:
        if found:
            return RewardIs(found[1], float(found[2]))
    except ValueError:
        pass
    raise ValueError(f"the event is {given!r}; expected {ACCEPTED}")
