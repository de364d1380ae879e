"""Observations as vectors that a model predicts; goal columns that copy other columns are not predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
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
        self.parts = dict(zip(parts, map(tuple, parts.values()), strict=True))
        self.goals = {ACHIEVED, DESIRED} <= self.parts.keys()
        others = dict(self.parts)
        goal_width = 0
        if self.goals:
            goal_width = prod(others.pop(ACHIEVED))
            del others[DESIRED]
        self._widths = dict(zip(others, map(prod, others.values()), strict=True))
        self._known = sum(self._widths.values())
        if copies is None:
            copies = [-1] * goal_width
        self.copies = tuple(copies)
        found = np.array(self.copies, np.int64)
        if len(found) != goal_width or ((found < -1) | (found >= self._known)).any():
            raise ValueError(f"copies are {self.copies}; expected {goal_width} numbers below {self._known}")
        self._free = np.flatnonzero(found < 0)
        self._copied = np.flatnonzero(found >= 0)

    @classmethod
    def of(cls, columns: Columns) -> StateColumns:
        """Return the state columns of stored rows."""
        parts = {}
        for name, (shape, _) in observation_columns(columns).items():
            parts[part_of(name)] = shape
        return cls(parts)

    @property
    def width(self) -> int:
        """Width d of a state."""
        return self._known + len(self._free)

    def flatten(self, obs: Observation) -> Tensor:
        """Return the float32 states ``(n, d)`` of observations ``(n, ...)``."""
        parts = observation_parts(obs)
        states = self._other_columns(parts)
        if not len(self._free):
            return states
        return torch.cat([states, parts[ACHIEVED].flatten(1)[:, self._free].float()], dim=1)

    def _other_columns(self, parts: Mapping[str, Tensor]) -> Tensor:
        columns = []
        for name in self._widths:
            columns.append(parts[name].reshape(len(parts[name]), -1).float())
        return torch.cat(columns, dim=1)

    def restore(self, states: Tensor, like: Observation) -> Observation:
        """Return the observations of states ``(n, d)``, with the desired goals and dtypes of `like` ``(n, ...)``."""
        n = len(states)
        given = observation_parts(like)
        split = dict(zip(self._widths, states[:, : self._known].split([*self._widths.values()], dim=1), strict=True))
        if self.goals:
            achieved = states.new_empty((n, len(self.copies)))
            achieved[:, self._copied] = states[:, np.array(self.copies, np.int64)[self._copied]]
            achieved[:, self._free] = states[:, self._known :]
            split |= {ACHIEVED: achieved, DESIRED: given[DESIRED]}
        parts = {}
        for name, like in given.items():
            parts[name] = split[name].reshape(n, *self.parts[name])
            if self.goals:
                parts[name] = parts[name].to(like.dtype)
        return join_parts(parts)

    def find_copies(self, *observations: Observation) -> StateColumns:
        """Return state columns with the copies that hold in all these observations ``(n, ...)``."""
        if not self.goals:
            return self
        rows = list(map(observation_parts, observations))
        others = torch.cat(list(map(self._other_columns, rows)))
        achieved = torch.cat([parts[ACHIEVED].flatten(1).float() for parts in rows])
        copies: list[int] = []
        for goal in achieved.unbind(dim=1):
            equal = (others == goal.unsqueeze(1)).all(dim=0).int()
            copies.append(int(equal.argmax()) - int(not equal.any()))
        return StateColumns(self.parts, copies)
