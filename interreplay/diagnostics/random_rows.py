"""Random transitions: rows of several episodes, in the order in which vectorized environments would give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.transitions import Transitions

Row = dict[str, Any]


class Episodes:
    """Random episodes of several environments.

    Args:
        seed: Of everything.
        envs: How many interleave.
        obs_shape: Of one observation; a dict of such for named parts.
        obs_dtype: Of observations.
        action_shape: Of one action.
        action_dtype: Of actions.
        ends: Probability of termination, and the same again of truncation, at each row.
        gaps: Probability that the next row of an episode does not continue the one before it.
        ids: Whether rows name their episode.
    """

    def __init__(
        self,
        seed: int = 0,
        envs: int = 1,
        obs_shape: Any = (3,),
        obs_dtype: Any = np.float32,
        action_shape: tuple[int, ...] = (2,),
        action_dtype: Any = np.float32,
        ends: float = 0.1,
        gaps: float = 0.0,
        ids: bool = True,
    ):
        self.rng = np.random.default_rng(seed)
        self.obs_shape = obs_shape
        self.obs_dtype = np.dtype(obs_dtype)
        self.action_shape = action_shape
        self.action_dtype = np.dtype(action_dtype)
        self.ends = ends
        self.gaps = gaps
        self.ids = ids
        self.next_id = envs
        self.running = [(env, self.observation()) for env in range(envs)]

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return random numbers of a shape."""
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
        terminated, truncated = bool(self.rng.random() < self.ends), bool(self.rng.random() < self.ends)
        start = self.observation() if terminated or truncated or self.rng.random() < self.gaps else following
        if terminated or truncated:
            episode, self.next_id = self.next_id, self.next_id + 1
        row = {
            "obs": obs,
            "actions": self.array(self.action_shape, self.action_dtype),
            "rewards": np.float32(self.rng.normal()),
            "next_obs": following,
            "terminated": terminated,
            "truncated": truncated,
            "episode": self.running[env][0],
        }
        self.running[env] = (episode, start)
        return row

    def rows(self, n: int) -> list[Row]:
        """Return `n` rows of randomly chosen environments."""
        return [self.row(int(env)) for env in self.rng.integers(0, len(self.running), n)]

    def transitions(self, n: int) -> Transitions:
        """Return the same as columns."""
        return stack(self.rows(n), self.ids)


def stack(rows: list[Row], ids: bool = True) -> Transitions:
    """Return rows as columns; without `ids`, episodes are omitted."""

    def column(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: np.stack([v[name] for v in values]) for name in values[0]}
        return np.stack([np.asarray(v) for v in values])

    names = [name for name in rows[0] if ids or name != "episode"]
    return Transitions(**{name: column([row[name] for row in rows]) for name in names})


def make(n: int, **arguments: Any) -> Transitions:
    """Return `n` random rows; arguments as for `Episodes`."""
    return Episodes(**arguments).transitions(n)
