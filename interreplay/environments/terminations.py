"""Termination functions of environments, for generated transitions.

Transitions of a learned model and blends of two transitions have no termination flag. Thresholds and indices are taken
from Gymnasium and gymnasium-robotics; all versions of an environment share them. Time limits do not terminate.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor

from interreplay.errors import accepted_names
from interreplay.transitions import Observation, as_bools, map_observation, observation_parts

TerminationFn = Callable[[Observation, Tensor, Observation], Tensor]
"""``(s, a, s') -> (n,) bool``: which of these transitions terminate."""

NEVER = "never"
"""Name of the termination function of environments whose episodes end only by a time limit."""
INFINITY = float("inf")
Range = tuple[float, float]


def never(obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return False for every row."""
    return torch.zeros(len(actions), dtype=torch.bool, device=actions.device)


def is_not_finite(state: Tensor) -> Tensor:
    """Return which rows of states ``(n, d)`` contain NaN or infinity."""
    return ~torch.isfinite(state).all(dim=-1)


def _reject_parts(obs: Observation) -> Tensor:
    """Return observations ``(n, d)`` and reject observations with parts."""
    if isinstance(obs, dict):
        raise ValueError(f"the observation has the parts {', '.join(obs)}; expected an observation without parts")
    return obs


def _is_outside(values: Tensor, bounds: Range) -> Tensor:
    """Return which values are not strictly between two bounds, including NaN."""
    low, high = bounds
    return ~((values > low) & (values < high))


def walking(
    obs: Observation,
    actions: Tensor,
    next_obs: Observation,
    positions: int,
    healthy_z_range: Range,
    healthy_angle_range: Range | None = None,
    healthy_state_range: Range | None = None,
    inclusive: bool = False,
    terminate_when_unhealthy: bool = True,
    exclude_current_positions_from_observation: bool = True,
) -> Tensor:
    """Return which rows ``(n,)`` of a walking robot terminate: too low, too high, tilted, or out of its state's range.

    Observations have shape ``(n, d)``. They begin with the height and the angle, or with `positions` columns before
    these unless `exclude_current_positions_from_observation`. Gymnasium's MuJoCo environments define the bounds.
    Velocities observed in Hopper are clipped to ±10, so velocities beyond 100 cannot be detected. With `inclusive`
    bounds of the height, as in Ant, rows that are not finite also terminate.
    """
    state = _reject_parts(next_obs)
    if not exclude_current_positions_from_observation:
        state = state[:, positions:]
    if inclusive:
        low, high = healthy_z_range
        fallen = ~((state[:, 0] >= low) & (state[:, 0] <= high)) | is_not_finite(state)
    else:
        fallen = _is_outside(state[:, 0], healthy_z_range)
    if healthy_angle_range is not None:
        fallen = fallen | _is_outside(state[:, 1], healthy_angle_range)
    if healthy_state_range is not None:
        fallen = fallen | _is_outside(state[:, 1:], healthy_state_range).any(dim=1)
    return fallen & terminate_when_unhealthy


def inverted_pendulum(obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return which rows of InvertedPendulum terminate: the pole is off by more than .2."""
    state = _reject_parts(next_obs)
    return (state[:, 1].abs() > 0.2) | is_not_finite(state)


def inverted_double_pendulum(obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return which rows of InvertedDoublePendulum terminate: the tip of two poles of .6 is not above 1."""
    sines = _reject_parts(next_obs)[:, 1:3]
    cosines = _reject_parts(next_obs)[:, 3:5]
    both = cosines[:, 0] * cosines[:, 1] - sines[:, 0] * sines[:, 1]
    return ~(0.6 * (cosines[:, 0] + both) > 1.0)


def cart_pole(obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return which rows of CartPole terminate: beyond ±2.4, or the pole off by more than 12°."""
    state = _reject_parts(next_obs)
    return (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > math.radians(12))


def acrobot(obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
    """Return which rows of Acrobot terminate: its end is above the bar's length."""
    cos_1, sin_1, cos_2, sin_2 = _reject_parts(next_obs)[:, :4].unbind(dim=1)
    return -cos_1 - (cos_1 * cos_2 - sin_1 * sin_2) > 1.0


def mountain_car(
    obs: Observation, actions: Tensor, next_obs: Observation, position: float = 0.5, goal_velocity: float = 0.0
) -> Tensor:
    """Return which rows of MountainCar terminate: at the flag with at least the required velocity."""
    state = _reject_parts(next_obs)
    return (state[:, 0] >= position) & (state[:, 1] >= goal_velocity)


def maze(obs: Observation, actions: Tensor, next_obs: Observation, continuing_task: bool = True) -> Tensor:
    """Return which rows of a maze terminate: within .45 of the goal, unless the task continues there."""
    parts = observation_parts(next_obs)
    reached = torch.linalg.vector_norm(parts["achieved_goal"] - parts["desired_goal"], dim=-1) <= 0.45
    return reached & (not continuing_task)


# By name without version, where "*" matches anything; further parameters are arguments of the environment.
KNOWN: dict[str, Callable[..., Tensor]] = {
    "Hopper": partial(
        walking,
        positions=1,
        healthy_z_range=(0.7, INFINITY),
        healthy_angle_range=(-0.2, 0.2),
        healthy_state_range=(-100.0, 100.0),
    ),
    "Walker2d": partial(walking, positions=1, healthy_z_range=(0.8, 2.0), healthy_angle_range=(-1.0, 1.0)),
    "Ant": partial(walking, positions=2, healthy_z_range=(0.2, 1.0), inclusive=True),
    "Humanoid": partial(walking, positions=2, healthy_z_range=(1.0, 2.0)),
    "InvertedPendulum": inverted_pendulum,
    "InvertedDoublePendulum": inverted_double_pendulum,
    "CartPole": cart_pole,
    "Acrobot": acrobot,
    "MountainCar": mountain_car,
    "MountainCarContinuous": partial(mountain_car, position=0.45),
    "PointMaze_*": maze,
    "AntMaze_*": maze,
}
_ENDLESS = "HalfCheetah Swimmer Reacher Pusher HumanoidStandup Pendulum Fetch* HandReach* HandManipulate*"
KNOWN |= dict.fromkeys(_ENDLESS.split(), never)


def termination_function(name: str, arguments: Mapping[str, Any] | None = None) -> TerminationFn:
    """Return the termination function of an environment.

    Args:
        name: Id of the environment, such as ``Hopper-v5``, or ``never``.
        arguments: Arguments of the environment; only those that affect termination are used.

    Raises:
        ValueError: The environment has no known termination function.
    """
    arguments = arguments or {}
    if name == NEVER:
        return never
    plain = name.rpartition(":")[2].rpartition("/")[2].rsplit("-v", 1)[0]
    for pattern, function in KNOWN.items():
        if fnmatchcase(plain, pattern):
            taken = inspect.signature(function).parameters.keys() & arguments.keys()
            return partial(function, **{key: arguments[key] for key in taken})
    raise ValueError(
        f"there is no termination function for {name!r}; {accepted_names(plain, [*KNOWN, NEVER])}, or a function "
        "of your own, (s, a, s') -> (n,) bool"
    )


class UserTermination:
    """A user's termination function, with checks of what it returns. It receives copies, which it may change."""

    def __init__(self, function: TerminationFn):
        self._function = function

    def __call__(self, obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
        """Return which of n transitions terminate, bool ``(n,)``.

        Raises:
            PartError: The function returned anything other than one bool, 0 or 1 per row.
        """
        copied_obs = map_observation(Tensor.clone, obs)
        returned = self._function(copied_obs, actions.clone(), map_observation(Tensor.clone, next_obs))
        return as_bools("termination_fn", returned, actions)


def as_termination_fn(given: TerminationFn | str | None) -> TerminationFn | None:
    """Return the termination function of an environment id, or a user's function with checks; None is unchanged.

    Raises:
        ValueError: There is no function for the id, or `given` is something else.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return termination_function(given)
    if not callable(given):
        raise ValueError(
            f"termination_fn is {given!r}; expected a function (s, a, s') -> (n,) bool, or the id of an environment"
        )
    return UserTermination(given)
