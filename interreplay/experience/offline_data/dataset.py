"""Dataset: files, spaces and rows of recorded experience."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.errors import InterreplayError, UsageError
from interreplay.transitions import Observation, Transitions, join_parts, observation_parts


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
        obs=join_parts({part: values[:-1] for part, values in parts.items()}),
        actions=actions,
        rewards=rewards,
        next_obs=join_parts({part: values[1:] for part, values in parts.items()}),
        terminated=terminated,
        truncated=truncated,
        episode=np.full(steps, number, np.int64),
    )
