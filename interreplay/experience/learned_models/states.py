"""Observations as vectors that a model predicts; goal columns that copy other columns are not predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from interreplay.storage.columns import Columns, observation_columns, part_of
from interreplay.transitions import Observation, join_parts, observation_parts

ACHIEVED = "achieved_goal"
DESIRED = "desired_goal"


class StateColumns:
    """The columns of an observation that a model predicts, and how to rebuild the observation from them.

    The state is the concatenation of all parts of an observation. With goals, the desired goal is not part of it. The
    achieved goal often copies other columns, such as the position of a gripper or an object. `find_copies` finds these
    columns, and only the remaining columns of the achieved goal are predicted.

    Args:
        parts: Shapes of the parts of an observation by name; a single part has the name ``""``.
        copies: For each column of the achieved goal, the column of the other parts that it copies; −1 for none.

    Attributes:
        goals: Whether observations have goals.
    """

    def __init__(self, parts: Mapping[str, Sequence[int]], copies: Sequence[int] | None = None):
        self.parts = {name: tuple(shape) for name, shape in parts.items()}
        self.goals = {ACHIEVED, DESIRED} <= self.parts.keys()
        goal_parts = (ACHIEVED, DESIRED) if self.goals else ()
        self._others = [name for name in self.parts if name not in goal_parts]
        self._widths = [prod(self.parts[name]) for name in self._others]
        goal_width = prod(self.parts[ACHIEVED]) if self.goals else 0
        self.copies = (-1,) * goal_width if copies is None else tuple(copies)
        if len(self.copies) != goal_width or any(not -1 <= copy < sum(self._widths) for copy in self.copies):
            width = sum(self._widths)
            raise ValueError(f"copies are {self.copies}; expected {goal_width} column numbers from -1 to {width - 1}")
        self._free = [i for i, copy in enumerate(self.copies) if copy < 0]
        self._copied = [i for i, copy in enumerate(self.copies) if copy >= 0]

    @classmethod
    def of(cls, columns: Columns) -> StateColumns:
        """Return the state columns of stored rows."""
        return cls({part_of(name): shape for name, (shape, _) in observation_columns(columns).items()})

    @property
    def width(self) -> int:
        """Width d of a state."""
        return sum(self._widths) + len(self._free)

    def flatten(self, obs: Observation) -> Tensor:
        """Return the float32 states ``(n, d)`` of observations ``(n, ...)``."""
        parts = observation_parts(obs)
        states = self._other_columns(parts)
        if not self._free:
            return states
        return torch.cat([states, parts[ACHIEVED].flatten(1)[:, self._free].float()], dim=1)

    def _other_columns(self, parts: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([parts[name].reshape(len(parts[name]), -1).float() for name in self._others], dim=1)

    def restore(self, states: Tensor, like: Observation) -> Observation:
        """Return the observations of states ``(n, d)``, with the desired goals and dtypes of `like` ``(n, ...)``."""
        n = len(states)
        given = observation_parts(like)
        split = states[:, : sum(self._widths)].split(self._widths, dim=1)
        parts = {name: values.reshape(n, *self.parts[name]) for name, values in zip(self._others, split, strict=True)}
        if not self.goals:
            return join_parts(parts)
        achieved = states.new_empty((n, len(self.copies)))
        achieved[:, self._copied] = states[:, [copy for copy in self.copies if copy >= 0]]
        achieved[:, self._free] = states[:, sum(self._widths) :]
        parts[ACHIEVED] = achieved.reshape(n, *self.parts[ACHIEVED])
        parts[DESIRED] = given[DESIRED]
        return join_parts({name: parts[name].to(given[name].dtype) for name in given})

    def find_copies(self, *observations: Observation) -> StateColumns:
        """Return state columns with the copies that hold in all these observations ``(n, ...)``."""
        if not self.goals:
            return self
        rows = [observation_parts(obs) for obs in observations]
        others = torch.cat([self._other_columns(parts) for parts in rows])
        achieved = torch.cat([parts[ACHIEVED].flatten(1).float() for parts in rows])
        copies: list[int] = []
        for goal in achieved.unbind(dim=1):
            equal = torch.nonzero((others == goal.unsqueeze(1)).all(dim=0)).flatten()
            copies.append(int(equal[0]) if len(equal) else -1)
        return StateColumns(self.parts, copies)
