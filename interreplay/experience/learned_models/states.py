"""Observations as numbers that a model predicts; what follows from others is recomputed, not predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from interreplay.storage.columns import Columns, observation_columns, part_of
from interreplay.transitions import Observation, join_parts, observation_parts

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"


class StateColumns:
    """Which numbers of an observation a model predicts, and how the observation is made of them.

    All parts of it side by side. Where there are goals, the desired one is what it was, and what is achieved is
    recomputed: it is some of the other numbers, such as a gripper's or an object's position, which `find_copies`
    finds; those of its numbers that are none are predicted as well.

    Args:
        parts: Shapes of an observation's parts by name; ``""`` is the name of a single one.
        copies: Of every number of the achieved goal, which of the other parts' numbers it is, −1 for none.

    Attributes:
        goals: Whether there are goals.
    """

    def __init__(self, parts: Mapping[str, Sequence[int]], copies: Sequence[int] | None = None):
        self.parts = {name: tuple(shape) for name, shape in parts.items()}
        self.goals = {ACHIEVED, DESIRED} <= self.parts.keys()
        self._others = [name for name in self.parts if not self.goals or name not in (ACHIEVED, DESIRED)]
        self._widths = [_width(self.parts[name]) for name in self._others]
        goal = _width(self.parts[ACHIEVED]) if self.goals else 0
        self.copies = tuple(copies) if copies is not None else (-1,) * goal
        if len(self.copies) != goal or any(not -1 <= copy < sum(self._widths) for copy in self.copies):
            raise ValueError(f"copies are {self.copies}; expected {goal} numbers below {sum(self._widths)}")
        self._free = [i for i, copy in enumerate(self.copies) if copy < 0]
        self._copied = [i for i, copy in enumerate(self.copies) if copy >= 0]

    @classmethod
    def of(cls, columns: Columns) -> StateColumns:
        """Return those of stored rows."""
        return cls({part_of(name): shape for name, (shape, _) in observation_columns(columns).items()})

    @property
    def width(self) -> int:
        """Numbers d in a state."""
        return sum(self._widths) + len(self._free)

    def flatten(self, obs: Observation) -> Tensor:
        """Return the states ``(n, d)`` of observations ``(n, ...)``, float32."""
        parts = observation_parts(obs)
        found = [self._flat(parts)]
        if self._free:
            found.append(parts[ACHIEVED].flatten(1)[:, self._free].float())
        return torch.cat(found, dim=1)

    def _flat(self, parts: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([parts[name].reshape(len(parts[name]), -1).float() for name in self._others], dim=1)

    def restore(self, states: Tensor, like: Observation) -> Observation:
        """Return the observations of states ``(n, d)``; what is desired is what it is in `like` ``(n, ...)``."""
        n, given = len(states), observation_parts(like)
        split = states[:, : sum(self._widths)].split(self._widths, dim=1)
        parts = {name: values.reshape(n, *self.parts[name]) for name, values in zip(self._others, split, strict=True)}
        if not self.goals:
            return join_parts(parts)
        achieved = states.new_empty((n, len(self.copies)))
        achieved[:, self._copied] = states[:, [copy for copy in self.copies if copy >= 0]]
        achieved[:, self._free] = states[:, sum(self._widths) :]
        parts |= {ACHIEVED: achieved.reshape(n, *self.parts[ACHIEVED]), DESIRED: given[DESIRED]}
        return join_parts({name: parts[name].to(given[name].dtype) for name in given})

    def find_copies(self, *observations: Observation) -> StateColumns:
        """Return columns whose achieved goal is recomputed as it can be in all of these observations ``(n, ...)``."""
        if not self.goals:
            return self
        copies: list[int] = []
        rows = [observation_parts(obs) for obs in observations]
        others, achieved = (
            torch.cat([self._flat(parts) for parts in rows]),
            torch.cat([parts[ACHIEVED].flatten(1).float() for parts in rows]),
        )
        for goal in achieved.unbind(dim=1):
            same = torch.nonzero((others == goal.unsqueeze(1)).all(dim=0)).flatten()
            copies.append(int(same[0]) if len(same) else -1)
        return StateColumns(self.parts, copies)


def _width(shape: Sequence[int]) -> int:
    return int(torch.Size(shape).numel())
