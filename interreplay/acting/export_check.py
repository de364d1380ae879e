"""Comparison of an exported policy with the policy itself on random observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from interreplay.acting.actions import NestedActions
from interreplay.acting.observations import column_type
from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.environments.spaces import flat_actions, leaves, nested
from interreplay.errors import InterreplayError
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.networks.normalization import Normalized

ROUNDING = {False: 1e-3, True: 0.1}
"""Tolerance as a fraction of half the range of an action, or of the largest value of Discrete actions. The second one
is for policies with bfloat16 products, which exported policies do not have."""
USUAL = 100.0
"""Larger bounds of observations are treated as infinite when observations are drawn."""


class ExportError(InterreplayError):
    """An exported policy acts differently from the policy."""

    exit_code = 1


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        observations: Number of observations.
        difference: Largest difference of actions, in the environment's units.
        others: Number of observations with a different Discrete action, of equal value up to rounding.
        discrete: Whether actions are discrete.
    """

    observations: int
    difference: float
    others: int
    discrete: bool

    def summary(self) -> str:
        """Return a summary for the end of a line."""
        if self.discrete:
            same = self.observations - self.others
            return f"the policy's own action for {same:,} of {self.observations:,} observations"
        return f"largest difference from the policy over {self.observations:,} observations {self.difference:.2g}"


def drawn_observations(policy: TrainedPolicy, count: int, seed: int) -> dict[str, np.ndarray]:
    """Draw observations ``(count, ...)`` by the names of their parts.

    Numbers are uniform if their bounds are at most `USUAL`, else normal. If the policy normalizes observations, numbers
    are normal with the mean and standard deviation of the training data.
    """
    rng = np.random.default_rng(seed)
    found = {}
    seen = None
    encoder = policy.nets.encoder
    if isinstance(encoder, Normalized) and isinstance(encoder.encoder, Flat):
        seen = (encoder.shift.numpy(force=True), 1.0 / encoder.factor.numpy(force=True))
    begin = 0
    for name, space in sorted(leaves(policy.observation_space).items()):
        found[name] = _drawn(space, count, rng)
        width = gym.spaces.flatdim(space)
        if seen is not None and isinstance(space, gym.spaces.Box) and column_type(space).kind == "f":
            mean, deviation = (part[begin : begin + width].reshape(space.shape) for part in seen)
            normal = mean + deviation * rng.standard_normal((count, *space.shape))
            found[name] = np.clip(normal, space.low, space.high).astype(column_type(space))
        begin += width
    return found


def compared(
    policy: TrainedPolicy, run: Callable[[dict[str, np.ndarray]], np.ndarray], parts: dict[str, np.ndarray]
) -> Comparison:
    """Compare the actions of an exported policy with the policy's, also for a single observation.

    Raises:
        ExportError: The actions differ by more than rounding.
    """
    obs = parts[""] if parts.keys() == {""} else nested(policy.observation_space, parts)
    space = flat_actions(policy.action_space)
    own = policy.act(obs)
    exported = run(parts)
    if space is not policy.action_space:
        own = NestedActions(policy.action_space).flat(own)
    alone = run({name: part[:1] for name, part in parts.items()})
    if exported.shape != own.shape or alone.shape != own[:1].shape:
        raise ExportError(f"the exported policy gives actions {exported.shape} and {alone.shape}; expected {own.shape}")
    narrow = any(isinstance(part, BatchedMLP) and part.matrix_dtype is not None for part in policy.nets.modules())
    count = len(own)
    if isinstance(space, gym.spaces.Discrete):
        values = policy.output(obs)[:, : int(space.n)].numpy(force=True)
        chosen = values[np.arange(count), exported - int(space.start)]
        missed = ((values.max(axis=1) - chosen) / (1.0 + np.abs(values).max(axis=1))).max()
        found = Comparison(count, 0.0, int((own != exported).sum()), True)
    else:
        assert isinstance(space, gym.spaces.Box)
        difference = np.abs(own.astype(np.float64) - exported)
        missed = (difference / np.maximum((space.high - space.low) / 2, 1e-12)).max()
        found = Comparison(count, float(difference.max()), 0, False)
    if not missed <= ROUNDING[narrow]:
        raise ExportError(f"the exported policy acts differently: {found.summary()}; nothing was written")
    return found


def _drawn(space: gym.Space, count: int, rng: np.random.Generator) -> np.ndarray:
    if not isinstance(space, gym.spaces.Box):
        space.seed(int(rng.integers(2**31)))
        return np.stack([np.asarray(space.sample()) for _ in range(count)])
    shape = (count, *space.shape)
    dtype = column_type(space)
    if dtype.kind != "f":
        return rng.integers(space.low, space.high, shape, dtype=space.dtype, endpoint=True).astype(dtype)
    low = np.float64(space.low)
    high = np.float64(space.high)
    usual = (np.abs(low) <= USUAL) & (np.abs(high) <= USUAL)
    uniform = rng.uniform(np.where(usual, low, 0.0), np.where(usual, high, 1.0), shape)
    normal = np.clip(rng.standard_normal(shape), low, high)
    return np.where(usual, uniform, normal).astype(dtype)
