"""Datasets of recorded experience: files, spaces and rows, and their conversion to rows of a replay buffer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from interreplay.environments.spaces import columns_from_spaces, flat_actions, leaves
from interreplay.errors import InterreplayError, NonFiniteError, UsageError
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.storage.columns import Columns, cast, check_finite, get_column_name, get_columns, is_extra
from interreplay.transitions import Observation, Transitions, map_observation, observation_parts, pick


@dataclass(frozen=True)
class Dataset:
    """Recorded experience that can be read.

    Attributes:
        name: Name in messages.
        files: All files of the dataset; if one of them changes, the rows are read again.
        portions: Reads the rows with their episode ids; the rows of an episode are in order.
        rows: Number of rows; None if it is unknown before they are read.
        observation_space: Observation space of the recorded environment, if known.
        action_space: Action space of the recorded environment, if known.
        normalized: Whether actions are as in a replay buffer: within [−1, 1], or integers from 0.
        env: Id of the environment; "" if unknown.
        id: Identifier that copies of the dataset share; "" without one.
        facts: Returns columns ``(rows,)`` that are not part of transitions: ``version`` of the policy, and ``time``.
    """

    name: str
    files: Sequence[Path]
    portions: Callable[[], Iterator[Transitions]]
    rows: int | None = None
    observation_space: gym.Space | None = None
    action_space: gym.Space | None = None
    normalized: bool = False
    env: str = ""
    id: str = ""
    facts: Callable[[], dict[str, np.ndarray]] = dict


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Report errors of damaged files in one line."""
    try:
        yield
    except InterreplayError:
        raise
    except ImportError as error:
        raise UsageError(f"offline data {name} cannot be read because an import failed: {first_line(error)}") from error
    except Exception as error:
        raise UsageError(f"offline data {name} cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the message of an error on one line, or its class if it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def episode_rows(
    name: str,
    number: int,
    obs: Observation,
    actions: Any,
    rewards: Any,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> Transitions:
    """Return an episode of T steps as rows with its number as id; it is truncated if no step is marked as its end.

    Observations are ``(T + 1, ...)``, the other columns ``(T, ...)``. Only the last step may end the episode.
    """
    steps = len(actions)
    parts = observation_parts(obs)
    lengths = {"observations": set(map(len, parts.values())), "rewards": {len(rewards)}}
    for what, found in lengths.items():
        expected = steps + 1 if what == "observations" else steps
        if found != {expected}:
            given = f"{steps} actions and {min(found - {expected})} {what}"
            raise UsageError(f"offline data {name}: episode {number} has {given}; expected {expected}")
    early = np.flatnonzero((terminated | truncated)[:-1])
    if len(early):
        raise UsageError(
            f"offline data {name}: episode {number} ends at step {early[0] + 1} of {steps}; expected an end at the "
            "last step only"
        )
    truncated = truncated.copy()
    truncated[-1:] |= ~terminated[-1:]
    return Transitions(
        obs=pick(obs, slice(None, -1)),
        actions=actions,
        rewards=rewards,
        next_obs=pick(obs, slice(1, None)),
        terminated=terminated,
        truncated=truncated,
        episode=np.full(steps, number, np.int64),
    )


EXTRAS = ("behavior", SUCCESS_COLUMN)
"""Optional columns of transitions that replay methods use."""
Spaces = tuple[gym.Space, gym.Space]
"""Observation space and action space of one environment."""


class Conversion:
    """Converts the rows of a `dataset` to rows of an environment; without `spaces`, to those of its own spaces."""

    def __init__(self, dataset: Dataset, spaces: Spaces | None):
        self.dataset = dataset
        own: tuple[Any, Any] = (dataset.observation_space, dataset.action_space)
        for what, recorded, expected in zip(("observations", "actions"), own, spaces or (None, None), strict=True):
            _check_space(dataset.name, what, recorded, expected)
        self._actions = spaces[1] if spaces else dataset.action_space
        if self._actions is None and not dataset.normalized:
            raise UsageError(f"offline data {dataset.name} does not define its actions; pass spaces=")
        self._columns: Columns | None = None
        known = spaces or own
        if known[0] is not None and known[1] is not None:
            self._columns = columns_from_spaces(known[0], known[1])
        self._choices = _choices(known[0], self._actions)

    @property
    def described(self) -> str:
        """Columns, bounds of actions and choices, which affect the converted rows, for the key in the cache."""
        bounds = [] if self.dataset.normalized else _bounds(self._actions)
        choices = {}
        for name, (low, high) in self._choices.items():
            choices[name] = [low.tolist(), high.tolist()]
        return repr([self._columns, [np.asarray(bound).tolist() for bound in bounds], choices])

    def portions(self) -> Iterator[Transitions]:
        """Yield the rows with the dtypes of the environment, and actions within [−1, 1] or integers from 0."""
        with reading(self.dataset.name):
            for rows in self.dataset.portions():
                if len(rows):
                    yield self._convert(rows)

    def _convert(self, rows: Transitions) -> Transitions:
        unknown = sorted(set(rows.extras) - set(EXTRAS))
        if unknown:
            raise UsageError(
                f"offline data {self.dataset.name} has the unknown column {unknown[0]}; expected only the columns of "
                f"transitions and {' and '.join(EXTRAS)}"
            )
        actions = rows.actions
        if not self.dataset.normalized and isinstance(self._actions, gym.spaces.Discrete):
            actions = actions.long() - int(self._actions.start)
        elif not self.dataset.normalized:
            low, high = torch.as_tensor(np.array(_bounds(self._actions)), dtype=torch.float64)
            span = high - low
            scaled = 2.0 * (actions.double() - low) / span - 1.0
            actions = torch.where(span > 0.0, scaled, 0.0).clamp(-1.0, 1.0).float()  # 0 where only one value exists
        narrowed = rows.replace(
            obs=map_observation(_narrow, rows.obs),
            next_obs=map_observation(_narrow, rows.next_obs),
            rewards=rows.rewards.float(),
            actions=_narrow(actions),
            discounts=None,
        )
        extras = {name: spec for name, spec in get_columns(narrowed).items() if is_extra(name)}
        self._columns = self._columns or get_columns(narrowed)
        try:
            made = cast(narrowed, self._columns | extras)
        except ValueError as error:
            raise UsageError(f"offline data {self.dataset.name} belongs to another environment: {error}") from None
        self._check_choices(made)
        try:
            check_finite(made.columns())
        except NonFiniteError as error:
            episode = int(rows.episode[error.row]) if rows.episode is not None else 0
            raise UsageError(
                f"offline data {self.dataset.name}: {error.column} holds {error.value} in episode {episode}, row "
                f"{error.row} of the portion read; only finite values can be replayed"
            ) from None
        return made

    def _check_choices(self, rows: Transitions) -> None:
        """Reject rows with a discrete value that its space does not contain, or with actions beyond [−1, 1]."""
        columns = rows.columns()
        for name, (least, most) in self._choices.items():
            column = columns[name]
            outside = (column < least) | (column > most)
            if outside.any():
                value, low, high = (each.expand_as(column)[outside][0].item() for each in (column, least, most))
                raise UsageError(
                    f"offline data {self.dataset.name} belongs to another environment: {name} holds {value}; "
                    f"expected {low} to {high}"
                )


def _choices(observation_space: gym.Space | None, action_space: gym.Space | None) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the smallest and the largest value of actions and of each discrete column of stored rows, by its name."""
    found: dict[str, tuple[Tensor, Tensor]] = {}
    if isinstance(action_space, gym.spaces.Discrete):
        found["actions"] = torch.tensor(0), torch.tensor(int(action_space.n) - 1)
    elif action_space is not None:
        found["actions"] = torch.tensor(-1.0), torch.tensor(1.0)
    if observation_space is None:
        return found
    for part, space in leaves(observation_space).items():
        if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            count = space.n if isinstance(space, gym.spaces.Discrete) else space.nvec
            least = torch.as_tensor(np.asarray(space.start))
            most = least + torch.as_tensor(np.asarray(count)) - 1
            for which in ("obs", "next_obs"):
                found[which + get_column_name(part).removeprefix("obs")] = least, most
    return found


def _bounds(space: Any) -> list[Any]:
    if isinstance(space, gym.spaces.Discrete):
        return [space.start, space.n]
    flat = flat_actions(space)
    if not isinstance(flat, gym.spaces.Box) or not flat.is_bounded():
        raise UsageError(
            f"the action space of offline data is {space}; expected Discrete, or a Box, Dict or Tuple of Boxes with "
            "finite bounds"
        )
    return [flat.low, flat.high]


def _check_space(name: str, what: str, recorded: gym.Space | None, expected: gym.Space | None) -> None:
    """Reject recorded spaces with other parts, shapes, kinds of numbers, choices or action bounds."""
    if recorded is None or expected is None:
        return
    same = _forms(recorded) == _forms(expected)
    if same and what == "actions":
        same = np.allclose(_bounds(recorded), _bounds(expected))
    if not same:
        raise UsageError(
            f"offline data {name} belongs to another environment: its {what} are {recorded}; expected {expected}"
        )


def _forms(space: gym.Space) -> dict[str, Any]:
    """Return the shape, the kind of numbers and the choices of each part."""
    found = {}
    for name, part in leaves(space).items():
        choices = "" if isinstance(part, gym.spaces.Box) else str(part)
        found[name] = (part.shape, np.dtype(part.dtype).kind, choices)
    return found


def _narrow(column: Tensor) -> Tensor:
    return column.float() if column.dtype == torch.float64 else column
