"""The on-manifold error: the deviation of synthetic transitions from the simulator."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from interreplay.buffer import Sample
from interreplay.transitions import Transitions


class OnManifold:
    """Sets the simulator to the state of a row, applies its action, and compares next state and reward with the row.

    A blend of two transitions is useful if it obeys the dynamics; the error measures the deviation from them. Supported
    are Gymnasium's MuJoCo environments that observe all velocities, and all positions except those along the ground:
    Ant, HalfCheetah, Hopper, Humanoid, HumanoidStandup, InvertedPendulum, Swimmer, Walker2d. Hopper and Walker2d clip
    observed velocities to ±10, so real transitions at higher velocities have an error. Rewards are compared with the
    environment's own, before wrappers.

    Args:
        env: A supported environment that is used by this object only.
        rows: Maximum number of blended rows per batch in `measure_batch`.

    Raises:
        ValueError: If the state of the environment is not determined by an observation.
    """

    def __init__(self, env: gym.Env, rows: int = 32):
        self.rows = rows
        self.env: Any = env.unwrapped
        structure: dict[str, int] = getattr(self.env, "observation_structure", None) or {}
        self.skipped = int(structure.get("skipped_qpos", 0))
        self.positions = int(structure.get("qpos", 0))
        self.velocities = int(structure.get("qvel", 0))
        model = getattr(self.env, "model", None)
        if model is None or (self.skipped + self.positions, self.velocities) != (model.nq, model.nv):
            raise ValueError(
                f"the state of {env} cannot be derived from an observation; expected a MuJoCo environment that "
                "observes positions and velocities, such as HalfCheetah-v5"
            )
        if env.observation_space != self.env.observation_space or env.action_space != self.env.action_space:
            raise ValueError(
                f"the wrappers of {self.env} change observations or actions, which determine the state of the "
                "simulator; expected none with on_manifold_rows"
            )
        self.env.reset(seed=0)

    def measure_batch(self, sample: Sample) -> dict[str, float]:
        """Return the errors of the first blended rows of a batch, or {} if no row is blended."""
        blended = torch.arange(len(sample))
        if sample.mix is not None:
            blended = torch.nonzero(sample.mix < 1).flatten()
        if not len(blended):
            return {}
        return self(sample.transitions[blended[: self.rows]])

    def measure_rows(self, rows: Transitions) -> dict[str, float]:
        """Return the errors of the first rows."""
        return self(rows[: self.rows])

    def __call__(self, rows: Transitions) -> dict[str, float]:
        """Return the errors of n rows with actions in [−1, 1].

        Returns:
            ``on_manifold_state_error``: root mean square of s' − s'_simulated divided by the root mean square of
            s'_simulated − s, per dimension of the state, averaged over the dimensions that move.
            ``on_manifold_reward_error``: root mean square of r − r_simulated. Both are 0 up to rounding for real rows.
        """
        size = self.positions + self.velocities
        obs = rows.obs.numpy(force=True)[:, :size].astype(np.float64)
        next_obs = rows.next_obs.numpy(force=True)[:, :size].astype(np.float64)
        actions = rows.actions.numpy(force=True).astype(np.float64)
        low = self.env.action_space.low
        high = self.env.action_space.high
        simulated = np.empty_like(obs)
        rewards = np.empty(len(obs))
        for row, (state, action) in enumerate(zip(obs, actions, strict=True)):
            self.env.data.qacc_warmstart[:] = 0  # left over from the previous row
            self.env.set_state(np.pad(state[: self.positions], (self.skipped, 0)), state[self.positions :])
            reached, rewards[row], *_ = self.env.step((low + (action + 1.0) * 0.5 * (high - low)).astype(np.float32))
            simulated[row] = reached[:size]
        moved = np.sqrt(np.mean(np.square(simulated - obs), axis=0))
        missed = np.sqrt(np.mean(np.square(next_obs - simulated), axis=0))
        moving = moved > 0
        error = 0.0
        if moving.any():
            error = float(np.mean(missed[moving] / moved[moving]))
        deviation = rows.rewards.numpy(force=True) - rewards
        return {
            "on_manifold_state_error": error,
            "on_manifold_reward_error": float(np.sqrt(np.mean(np.square(deviation)))),
        }
