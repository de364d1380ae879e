"""Rollouts of a policy in a learned model, and their lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.environments.goal_functions import ACHIEVED, DESIRED, GoalFn, each
from interreplay.environments.terminations import TerminationFn
from interreplay.experience.learned_models.dynamics import Dynamics
from interreplay.learning.update import flat_rows
from interreplay.storage.columns import Columns, get_part_name, observation_columns
from interreplay.transitions import Observation, Transitions, join_parts, observation_parts, pick


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
        others = dict(self.parts)
        goal_width = 0
        if self.goals:
            goal_width = prod(others.pop(ACHIEVED))
            del others[DESIRED]
        self._widths = {name: prod(shape) for name, shape in others.items()}
        self._known = sum(self._widths.values())
        if copies is None:
            copies = [-1] * goal_width
        self.copies = tuple(copies)
        found = np.array(self.copies, np.int64)
        self._free = np.flatnonzero(found < 0)
        self._copied = np.flatnonzero(found >= 0)

    @classmethod
    def from_columns(cls, columns: Columns) -> StateColumns:
        """Return the state columns of stored rows."""
        parts = {}
        for name, (shape, _) in observation_columns(columns).items():
            parts[get_part_name(name)] = shape
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
        return torch.cat([states, flat_rows(parts[ACHIEVED]).float()[:, self._free]], dim=1)

    def _other_columns(self, parts: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([flat_rows(parts[name]).float() for name in self._widths], dim=1)

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
        for name, part in given.items():
            parts[name] = split[name].reshape(n, *self.parts[name])
            if self.goals:
                parts[name] = parts[name].to(part.dtype)
        return join_parts(parts)

    def find_copies(self, *observations: Observation) -> StateColumns:
        """Return state columns with the copies that are exact in all given observations ``(n, ...)``."""
        if not self.goals:
            return self
        rows = list(map(observation_parts, observations))
        others = torch.cat(list(map(self._other_columns, rows)))
        achieved = torch.cat([flat_rows(parts[ACHIEVED]).float() for parts in rows])
        copies: list[int] = []
        for goal in achieved.unbind(dim=1):
            equal = (others == goal.unsqueeze(1)).all(dim=0).int()
            copies.append(int(equal.argmax()) - int(not equal.any()))
        return StateColumns(self.parts, copies)


Act = Callable[[Observation, np.random.Generator], Tensor]
"""Maps observations ``(n, ...)`` to actions ``(n, *action_shape)``."""


def goal_values(fn: GoalFn, dtype: torch.dtype, obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return the values ``(n,)`` of a goal function of an environment, such as its reward, after n steps."""
    parts = observation_parts(next_obs)
    return torch.from_numpy(each(fn, *(parts[name].numpy() for name in (ACHIEVED, DESIRED)))).to(dtype)


def simulate(
    starts: Observation,
    length: int,
    rng: np.random.Generator,
    *,
    episodes: Tensor,
    dynamics: Dynamics,
    columns: StateColumns,
    act: Act,
    terminated: TerminationFn,
    reward: Callable[[Observation, Tensor, Observation], Tensor] | None = None,
) -> Iterator[Transitions]:
    """Yield the transitions of each step of rollouts in a learned model.

    A rollout ends after `length` steps, when it terminates, or when its prediction is not finite; such a prediction is
    discarded. The last step of all other rollouts is truncated.

    Args:
        starts: Initial observations ``(n, ...)``.
        length: Maximum number of steps.
        rng: Source of randomness.
        episodes: Ids ``(n,)`` of the rollouts.
        dynamics: The model.
        columns: Maps observations to states.
        act: The policy.
        terminated: Termination function.
        reward: Reward function, for models that do not predict rewards.
    """
    obs = starts
    for number in range(1, length + 1):
        if not len(episodes):
            break
        actions = act(obs, rng)
        states, rewards = dynamics.step(columns.flatten(obs), flat_rows(actions).float(), rng)
        finite = torch.isfinite(states).all(dim=1)
        if not bool(finite.all()):
            if not bool(finite.any()):
                break
            obs = pick(obs, finite)
            actions = actions[finite]
            states = states[finite]
            episodes = episodes[finite]
            if rewards is not None:
                rewards = rewards[finite]
        next_obs = columns.restore(states, obs)
        ended = terminated(obs, actions, next_obs).to(torch.bool)
        if reward is not None:
            rewards = reward(obs, actions, next_obs)
        rows = Transitions(
            obs,
            actions,
            rewards,
            next_obs=next_obs,
            terminated=ended,
            truncated=~ended if number == length else torch.zeros_like(ended),
            episode=episodes,
        )
        finite = torch.isfinite(rows.rewards)
        if not bool(finite.all()):
            rows = rows[finite]
        if len(rows):
            yield rows
        alive = ~rows.terminated
        obs = pick(rows.next_obs, alive)
        episodes = rows.episode[alive]


Schedule = tuple[float, float, float, float]
"""Initial length, final length, and the two env steps between which the length grows."""
PUBLISHED: dict[str, Schedule] = {
    "Hopper": (1, 15, 20_000, 150_000),
    "Ant": (1, 25, 20_000, 100_000),
    "Humanoid": (1, 25, 20_000, 300_000),
}
"""Rollout lengths of MBPO's experiments by environment, without version."""
ONE_STEP: Schedule = (1, 1, 0, 0)
"""Rollout length of other environments."""


def as_schedule(given: Any) -> Schedule | None:
    """Return a schedule of rollout lengths, constant for a single number."""
    if given is None:
        return None
    numbers: list[Any] = []
    if isinstance(given, int | float):
        numbers = [given, given, 0, 0]
    elif not isinstance(given, str):
        numbers = list(given)
    valid = len(numbers) == 4 and all(isinstance(number, int | float) and isfinite(number) for number in numbers)
    if not valid or min(numbers[:2]) < 1 or not 0 <= numbers[2] <= numbers[3]:
        raise ValueError(
            f"rollout_length is {given!r}; expected a number of steps, or (start, end, from, to) with lengths of at "
            "least 1 and env steps in order"
        )
    return numbers[0], numbers[1], numbers[2], numbers[3]


def compute_rollout_length(schedule: Schedule, env_steps: int) -> int:
    """Return the rollout length after a number of env steps of the run.

    With the schedule (start, end, from, to), it is `start` up to env step `from`, grows linearly, and is `end` after
    env step `to`; fractions are rounded down.
    """
    start, end, begin, until = schedule
    if until == begin:
        return int(end if env_steps >= until else start)
    progress = min(max((env_steps - begin) / (until - begin), 0.0), 1.0)
    return int(start + (end - start) * progress + 1e-9)
