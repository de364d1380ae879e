"""The algorithms: their configurations, their settings beside those of all, and the actions that they learn."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from interreplay.errors import UsageError

_LOSS = {"actor_l2": 0.0, "critic_l2": 0.0, "huber_delta": "none"}
_DETERMINISTIC = {"exploration_theta": 0.15}
TRAINER_DEFAULTS: dict[str, dict[str, Any]] = {
    "SAC": {"tau": 0.005, "actor_lr": 3e-4, "critic_lr": 3e-4, "hiddens": (256, 256), "train_batch_size": 256}
    | {**_LOSS, "alpha_lr": 3e-4, "initial_alpha": 1.0, "target_entropy": "auto"},
    "TD3": {"tau": 0.005, "actor_lr": 3e-4, "critic_lr": 3e-4, "hiddens": (256, 256), "train_batch_size": 256}
    | {**_LOSS, **_DETERMINISTIC, "exploration": "Gaussian", "exploration_sigma": 0.1}
    | {"policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
    "DDPG": {"tau": 0.001, "actor_lr": 1e-4, "critic_lr": 1e-3, "hiddens": (400, 300), "train_batch_size": 64}
    | {**_LOSS, **_DETERMINISTIC, "critic_l2": 0.01, "exploration": "OrnsteinUhlenbeck", "exploration_sigma": 0.2},
}
"""The settings that each algorithm has beside those of all, as in its paper; `interreplay.rllib` has the same."""
DISCRETE = ("SAC",)
"""The algorithms that learn discrete actions as well."""
OURS = {name: f"{name}Config" for name in TRAINER_DEFAULTS}
"""The name of each algorithm's configuration in `interreplay.rllib`."""


def check_actions(trainer: str, env: str, space: gym.Space, flag: str = "--trainer") -> None:
    """Refuse actions that an algorithm does not learn.

    Args:
        trainer: The algorithm.
        env: The environment's id, for the message.
        space: Of its actions.
        flag: That names the algorithm, for the message.

    Raises:
        UsageError: Naming the space.
    """
    if isinstance(space, gym.spaces.Box) or (trainer in DISCRETE and isinstance(space, gym.spaces.Discrete)):
        return
    if isinstance(space, gym.spaces.Discrete):
        raise UsageError(f"{trainer} acts in a Box of continuous actions; {env} has {space}; {flag} SAC learns it")
    kinds = "a Box of continuous actions, or Discrete ones" if trainer in DISCRETE else "a Box of continuous actions"
    raise UsageError(f"{trainer} acts in {kinds}; {env} has {space}; rllib train --run PPO may learn it")
