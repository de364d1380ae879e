"""What a reader of recorded experience gives: where it lies, its spaces, its rows."""

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
        name: What it is called in messages.
        files: All that it is made of; where one changes, it is another dataset.
        portions: Reads its rows, those of an episode in order, with episode ids.
        rows: Their number where it is known before they are read.
        observation_space: Of the environment that was recorded, where that is known.
        action_space: Likewise.
        normalized: Whether actions are as a replay buffer keeps them: within [−1, 1], or numbers from 0 on.
        env: Id of the environment, "" where it is unknown.
        id: What copies of it have in common, "" where nothing does.
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
def readable(name: str) -> Iterator[None]:
    """Turn whatever files that are damaged lead to into one line.

    Raises:
        UsageError: Naming the dataset.
    """
    try:
        yield
    except InterreplayError:
        raise
    except ImportError as error:
        raise UsageError(f"offline data {name} cannot be read here: {first_line(error)}") from error
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
    extras: dict[str, Any] | None = None,
) -> Transitions:
    """Return an episode of T steps as rows; one that ended without a mark is truncated.

    Args:
        name: Of the dataset.
        number: Of the episode, its id from here on.
        obs: All T + 1 of them.
        actions: T of them.
        rewards: Likewise.
        terminated: Likewise, of which the last one alone may be true.
        truncated: Likewise.
        extras: More columns.

    Raises:
        UsageError: The lengths do not fit each other, or it ends before its last step.
    """
    steps, parts = len(actions), observation_parts(obs)
    lengths = {"observations": {len(part) for part in parts.values()}, "rewards": {len(rewards)}}
    for what, found in lengths.items():
        expected = steps + 1 if what == "observations" else steps
        if found != {expected}:
            given = f"{steps} actions and {min(found - {expected})} {what}"
            raise UsageError(f"offline data {name}: episode {number} has {given}; expected {expected}")
    over = np.flatnonzero((terminated | truncated)[:-1])
    if len(over):
        raise UsageError(
            f"offline data {name}: episode {number} ends at step {over[0] + 1} and has {steps}; expected the last one"
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
        extras=extras or {},
    )
