"""Random transitions of several interleaved episodes, in the order of vectorized environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from interreplay.transitions import Transitions

Row = dict[str, Any]


@dataclass(eq=False)
class Episodes:
    """Random episodes of several environments.

    Attributes:
        obs_shape: Shape of an observation, or a dict of shapes of named parts.
        ends: Probability of termination, and of truncation, at each row.
        gaps: Probability that the next row of an episode does not continue the previous one.
        ids: Whether rows have episode ids.
    """

    seed: int = 0
    envs: int = 1
    obs_shape: Any = (3,)
    obs_dtype: Any = np.float32
    action_shape: tuple[int, ...] = (2,)
    action_dtype: Any = np.float32
    ends: float = 0.1
    gaps: float = 0.0
    ids: bool = True

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.next_id = self.envs
        self.running = [(env, self.observation()) for env in range(self.envs)]

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return random numbers of a shape."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.rng.normal(size=shape).astype(dtype)
        return self.rng.integers(0, 256 if dtype == np.uint8 else 4, shape).astype(dtype)

    def observation(self) -> Any:
        """Return a random observation."""
        if isinstance(self.obs_shape, dict):
            return {name: self.array(shape, self.obs_dtype) for name, shape in self.obs_shape.items()}
        return self.array(self.obs_shape, self.obs_dtype)

    def row(self, env: int) -> Row:
        """Return one step of an environment."""
        episode, obs = self.running[env]
        following = self.observation()
        terminated = bool(self.rng.random() < self.ends)
        truncated = bool(self.rng.random() < self.ends)
        row = {"obs": obs, "next_obs": following, "terminated": terminated, "truncated": truncated, "episode": episode}
        if terminated or truncated or self.rng.random() < self.gaps:
            following = self.observation()
        if terminated or truncated:
            episode = self.next_id
            self.next_id += 1
        self.running[env] = (episode, following)
        row["actions"] = self.array(self.action_shape, self.action_dtype)
        row["rewards"] = np.float32(self.rng.normal())
        return row

    def rows(self, n: int) -> list[Row]:
        """Return `n` rows of randomly chosen environments."""
        return list(map(self.row, self.rng.integers(0, len(self.running), n).tolist()))

    def transitions(self, n: int) -> Transitions:
        """Return `n` rows as columns."""
        return stack(self.rows(n), self.ids)


def stack(rows: list[Row], ids: bool = True) -> Transitions:
    """Return rows as columns; without `ids`, episodes are omitted."""
    columns: dict[str, Any] = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(first, dict):
            columns[name] = {}
            for part in first:
                columns[name][part] = np.stack([value[part] for value in values])
        elif ids or name != "episode":
            columns[name] = np.stack(values)
    return Transitions(**columns)


def make(n: int, **arguments: Any) -> Transitions:
    """Return `n` random rows; further arguments as for `Episodes`."""
    return Episodes(**arguments).transitions(n)
