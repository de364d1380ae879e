"""The reward and termination functions of goal-conditioned environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from ray.rllib.env.env_context import EnvContext

from interreplay.environments import registration
from interreplay.rllib.env_runner.env_creation import creator_of
from interreplay.synthesis.relabel import GoalFn


def goal_functions(config: Any, vector: Any) -> tuple[GoalFn, GoalFn | None]:
    """Return ``compute_reward`` and ``compute_terminated`` of the environment of a configuration.

    Args:
        config: Of the algorithm.
        vector: The environments of this process, or None; one is made where it has none to ask.

    Raises:
        ValueError: When the environment has no ``compute_reward``.
    """
    envs = getattr(getattr(vector, "unwrapped", None), "envs", None)
    env = (envs[0] if envs else make_one(config)).unwrapped
    reward = getattr(env, "compute_reward", None)
    if reward is None:
        raise ValueError(f"hindsight needs an environment with compute_reward(achieved, desired, info); got {env}")
    return reward, getattr(env, "compute_terminated", None)


def make_one(config: Any) -> gym.Env:
    """Return one environment of a configuration, as RLlib's runners would make it."""
    context = EnvContext(config.env_config, worker_index=0)
    creator = creator_of(config.env)
    if creator is not None:
        return creator(context)
    registration.register(config.env)
    return gym.make(config.env, **config.env_config)
