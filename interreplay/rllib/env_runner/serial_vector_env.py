"""A vector environment that steps its environments one after the other, without what gymnasium's does around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from gymnasium.wrappers.vector import DictInfoToList

from interreplay.errors import EnvironmentFailure


class SerialEnvs(VectorWrapper):
    """Gymnasium's `SyncVectorEnv`, with infos as a list.

    It steps the same environments and resets them at the same steps. It doesn't walk through spaces, copy observations
    twice, or turn infos into a dictionary of columns and back, which around one MuJoCo environment took longer than
    its physics.

    Attributes:
        seeds: Seeds of the next episodes, taken in the order of the environments at their resets in `step`; None
            leaves the environments' random states alone.

    Args:
        env: One that `fits`. It is kept: gymnasium closes what is inside of a wrapper that nobody holds any more.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        self.seeds: Iterator[int] | None = None
        self._vector, self._space = env.unwrapped, env.single_observation_space
        self._nested = isinstance(env.single_action_space, Dict | Tuple)
        # Checked where numpy would take another shape without a word.
        self._shape = (env.num_envs, *self._space.shape) if isinstance(self._space, Box) else None

    @staticmethod
    def fits(env: Any) -> bool:
        """Return whether `env` is such a vector environment, whose infos gymnasium turns into a list."""
        inner = env.env if type(env) is DictInfoToList else None
        return type(inner) is SyncVectorEnv and inner.autoreset_mode == AutoresetMode.NEXT_STEP

    def step(self, actions: Any) -> Any:
        """Step every environment with its action of ``(n, ...)``, or reset it where its episode was over.

        Returns:
            Observations, rewards ``(n,)``, terminated and truncated ``(n,)``, and a list of infos.
        """
        over = self._vector._autoreset_envs
        if self._nested:
            actions = iterate(self._vector.action_space, actions)
        results = [
            self._reset_one(env) if over[i] else env.step(action)
            for i, (env, action) in enumerate(zip(self._vector.envs, actions, strict=True))
        ]
        try:
            observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
            ended, cut = np.array(terminated, dtype=bool), np.array(truncated, dtype=bool)
            batch, column = self._batch(observations), np.array(rewards, dtype=np.float64)
        except (TypeError, ValueError):
            self._refuse(results)
            raise
        if (
            column.ndim != 1
            or ended.ndim != 1
            or cut.ndim != 1
            or (self._shape is not None and batch.shape != self._shape)
        ):
            self._refuse(results)
        self._vector._autoreset_envs = ended | cut
        return batch, column, ended, cut, list(infos)

    def _reset_one(self, env: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, info = env.reset() if self.seeds is None else env.reset(seed=next(self.seeds))
        return observation, 0.0, False, False, info

    def _refuse(self, results: Sequence[Any]) -> None:
        """Raise EnvironmentFailure for the first environment that gave something that cannot be stored."""
        for env, result in zip(self._vector.envs, results, strict=True):
            if found := _malformed(result, self._space):
                raise EnvironmentFailure(env.spec.id if env.spec else type(env.unwrapped).__name__, found)

    def _batch(self, observations: Sequence[Any]) -> Any:
        if isinstance(self._space, Box):
            return np.array(observations, dtype=self._space.dtype)
        return concatenate(self._space, observations, create_empty_array(self._space, len(observations)))


def _malformed(result: Any, space: Any) -> str | None:
    """Return what is wrong with what one environment's step gave, in words, or None."""
    if not isinstance(result, tuple) or len(result) != 5:
        gave = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        return f"gave {gave} in step; expected five: observation, reward, terminated, truncated, info"
    observation, reward, terminated, truncated, _ = result
    if isinstance(space, Box) and np.shape(observation) != space.shape:
        return f"gave an observation of shape {np.shape(observation)}; its observation space has {space.shape}"
    if isinstance(reward, str | bytes) or np.shape(reward) != ():
        return f"gave the reward {reward!r}; expected one number"
    if np.shape(terminated) != () or np.shape(truncated) != ():
        return f"gave terminated {terminated!r} and truncated {truncated!r}; expected one bool each"
    return None
