"""How far a made-up transition lies from what the simulator does: the on-manifold error."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from interreplay.buffer import Sample
from interreplay.transitions import Transitions


class OnManifold:
    """Puts the simulator into the state of a row, steps its action, and compares next state and reward with the row's.

    A blend of two transitions is worth learning from where it obeys the dynamics; this measures how far it does not.
    For Gymnasium's MuJoCo environments that observe all positions but those along the ground, and all velocities:
    Ant, HalfCheetah, Hopper, Humanoid, HumanoidStandup, InvertedPendulum, Swimmer, Walker2d. Hopper and Walker2d
    show velocities clipped to ±10; rows that were faster look off although they happened.

    Args:
        env: Such an environment; only this object steps it.
        rows: How many blends of a batch `of_batch` looks at.

    Raises:
        ValueError: When its state cannot be told from an observation.
    """

    def __init__(self, env: gym.Env, rows: int = 32):
        self.rows = rows
        self.env: Any = env.unwrapped
        told: dict[str, int] = getattr(self.env, "observation_structure", None) or {}
        self.skipped, self.positions = int(told.get("skipped_qpos", 0)), int(told.get("qpos", 0))
        self.velocities = int(told.get("qvel", 0))
        model = getattr(self.env, "model", None)
        if model is None or (self.skipped + self.positions, self.velocities) != (model.nq, model.nv):
            raise ValueError(
                f"the state of {env} cannot be told from an observation; expected a MuJoCo environment that observes "
                "positions and velocities, such as HalfCheetah-v5"
            )
        self.env.reset(seed=0)

    def of_batch(self, sample: Sample) -> dict[str, float]:
        """Return the errors of the first blended rows of a batch; nothing where none is blended."""
        blended = torch.arange(len(sample)) if sample.mix is None else torch.nonzero(sample.mix < 1).flatten()
        return self(sample.transitions[blended[: self.rows]]) if len(blended) else {}

    def of_rows(self, rows: Transitions) -> dict[str, float]:
        """Return the errors of the first rows of some."""
        return self(rows[: self.rows])

    def __call__(self, rows: Transitions) -> dict[str, float]:
        """Return errors over the n `rows`, their actions in [−1, 1].

        Returns:
            ``on_manifold_state_error``: root mean square of s' − s'_simulated over that of s'_simulated − s, each
            dimension of the state by itself, averaged over those that move; ``on_manifold_reward_error``: root mean
            square of r − r_simulated. Both are 0 up to rounding for rows as they happened.
        """
        seen = [np.asarray(part.numpy(force=True), np.float64) for part in (rows.obs, rows.next_obs, rows.actions)]
        state = self.positions + self.velocities
        obs, next_obs = seen[0][:, :state], seen[1][:, :state]
        simulated, rewards = zip(*(self._step(s, a) for s, a in zip(obs, seen[2], strict=True)), strict=True)
        reached = np.stack(simulated)[:, :state]
        moved, missed = (np.sqrt(np.mean(np.square(d), axis=0)) for d in (reached - obs, next_obs - reached))
        moving = moved > 0
        error = float(np.mean(missed[moving] / moved[moving])) if moving.any() else 0.0
        off = rows.rewards.numpy(force=True) - np.array(rewards)
        return {
            "on_manifold_state_error": error,
            "on_manifold_reward_error": float(np.sqrt(np.mean(np.square(off)))),
        }

    def _step(self, state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, float]:
        positions = np.concatenate([np.zeros(self.skipped), state[: self.positions]])
        self.env.data.qacc_warmstart[:] = 0  # what is left of the row before
        self.env.set_state(positions, state[self.positions :])
        low, high = self.env.action_space.low, self.env.action_space.high
        obs, reward, *_ = self.env.step((low + (action + 1.0) * 0.5 * (high - low)).astype(np.float32))
        return np.asarray(obs), float(reward)
