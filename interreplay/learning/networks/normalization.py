"""Normalization of observations, image pixels and rewards by running statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from interreplay.transitions import Observation, Transitions, map_observation, observation_parts


class Moments:
    """Mean and standard deviation of all observations, in float64 (update of Chan et al. 1983).

    Args:
        shape: Shape of one observation.

    Attributes:
        count: Number of observations.
        mean: ``(*shape)``.
        squares: Sums of squared deviations from the mean, ``(*shape)``.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.count = 0
        self.mean = np.zeros(shape)
        self.squares = np.zeros(shape)

    def observe(self, values: np.ndarray) -> None:
        """Add observations ``(n, *shape)``, float64."""
        if not len(values):
            return
        count = len(values)
        mean = values.mean(axis=0)
        delta = mean - self.mean
        total = self.count + count
        self.squares += np.square(values - mean).sum(axis=0) + np.square(delta) * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation ``(*shape)``."""
        return np.sqrt(self.squares / max(self.count, 1))

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.count = int(state["count"])
        self.mean = np.array(state["mean"])
        self.squares = np.array(state["squares"])


class NormalizedPixels(nn.Module):
    """Normalization of each pixel by its running mean and standard deviation, clipped to ±`LIMIT`.

    Static background vanishes and small moving objects, such as Pong's ball, get large values. Burda et al. 2018
    (arXiv:1810.12894) normalize the inputs of their random networks in this way. Before the first observation, images
    are only scaled.

    Args:
        shape: Shape of one image or stack of frames.
        most: Pixel value that is scaled to 1, for example 255.
    """

    LIMIT = 3.0
    LEAST = 0.02
    """Added to the standard deviations, so that nearly constant pixels stay small."""
    ROWS = 16
    """Maximum number of images that one call of `observe` uses."""
    offset: Tensor
    factor: Tensor

    def __init__(self, shape: tuple[int, ...], most: float):
        super().__init__()
        self.register_buffer("offset", torch.zeros(shape))
        self.register_buffer("factor", torch.full(shape, 1.0 / most))
        self.most = most
        self.moments = Moments(shape)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(n, *shape)`` float32."""
        return torch.addcmul(self.offset, images.to(self.factor.dtype), self.factor).clamp_(-self.LIMIT, self.LIMIT)

    @torch.no_grad()
    def observe(self, images: Tensor) -> None:
        """Add up to `ROWS` evenly spaced images of ``(n, *shape)`` to the statistics."""
        chosen = np.linspace(0, len(images) - 1, min(len(images), self.ROWS)).astype(int)
        self.moments.observe(images[torch.from_numpy(chosen)].numpy(force=True) / self.most)
        self._publish()

    def load(self, state: Mapping[str, Any]) -> None:
        self.moments.load(state)
        self._publish()

    def _publish(self) -> None:
        if self.moments.count:
            scale = 1.0 / (self.moments.deviation + self.LEAST)
            self.offset.copy_(torch.from_numpy(-self.moments.mean * scale))
            self.factor.copy_(torch.from_numpy(scale / self.most))


class NormalizedEncoder(nn.Module):
    """An encoder with outputs normalized by their running mean and standard deviation, clipped to ±`LIMIT`.

    The statistics cover all observations passed to `observe`. `shift` and `factor` are part of the module's
    state, so that copies in other processes act alike. One-hot features are not normalized; images are normalized
    before they are encoded, see `NormalizedPixels`.

    Args:
        encoder: The encoder.
        continuous: Whether each of its outputs is continuous ``(d,)``, bool.
        pixels: Normalization of images in the encoder, by the names of their parts.
    """

    LIMIT = 10.0
    continuous: Tensor
    shift: Tensor
    factor: Tensor
    limit: Tensor

    def __init__(self, encoder: nn.Module, continuous: Tensor, pixels: Mapping[str, NormalizedPixels] | None = None):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("continuous", continuous, persistent=False)
        self.register_buffer("shift", torch.zeros(len(continuous)))
        self.register_buffer("factor", torch.ones(len(continuous)))
        limits = torch.where(continuous, self.LIMIT, float("inf"))
        self.register_buffer("limit", limits, persistent=False)
        self._pixels = dict(pixels or {})  # registered by the encoder
        self._known = continuous.numpy(force=True).copy()
        self.moments = Moments((len(continuous),))
        self._measures = bool(continuous.any())

    def forward(self, obs: Observation) -> Tensor:
        """Return encoded observations ``(n, d)``, float32."""
        encoded = self.encoder(obs)
        return self.normalize(encoded) if self._measures else encoded

    def normalize(self, values: Tensor) -> Tensor:
        """Return the encoder's outputs ``(..., d)``, normalized."""
        return ((values - self.shift) * self.factor).clamp(-self.limit, self.limit)

    @torch.no_grad()
    def observe(self, obs: Observation) -> None:
        """Add observations ``(n, ...)`` to the statistics."""
        parts = observation_parts(obs)
        for name, pixels in self._pixels.items():
            pixels.observe(parts[name])
        if self._measures:
            tensor = next(chain(self.encoder.parameters(), self.encoder.buffers()), None)
            if tensor is not None:  # otherwise, the encoder works where the observations are
                obs = map_observation(lambda part: part.to(tensor.device), obs)
            self.moments.observe(self.encoder(obs).double().numpy(force=True))
            self._publish()

    def _publish(self) -> None:
        """Compute `shift` and `factor` from the statistics; constant features are only shifted."""
        known = self._known
        deviation = self.moments.deviation
        factor = np.where(known & (deviation > 1e-8), 1.0 / np.maximum(deviation, 1e-8), 1.0)
        self.shift.copy_(torch.from_numpy(np.where(known, self.moments.mean, 0.0)))
        self.factor.copy_(torch.from_numpy(factor))

    def statistics(self) -> dict[str, Any]:
        seen = {name: pixels.moments.state() for name, pixels in self._pixels.items()}
        return self.moments.state() | {"images": seen}

    def load_statistics(self, state: Mapping[str, Any]) -> None:
        self.moments.load(state)
        for name, pixels in self._pixels.items():
            pixels.load(state["images"][name])
        self._publish()


class RewardScale:
    """The divisor of rewards in drawn batches, from the returns G of all rows so far.

    In each episode G ← γG + r, from 0 on. The divisor is max(√(var(G) + 1e-8), max|G| / 5), as in SimbaV2 (Lee et al.
    2025, arXiv:2502.15280) and FlashSAC (arXiv:2604.04539): returns have a deviation of at most 1 and lie in [−5, 5].
    There, the G of an episode's last row is its reward alone and enters the next episode; here it is the whole return,
    and the next episode starts at 0. The first rows count as much as all others.

    Args:
        gamma: Discount factor γ per step.
    """

    LIMIT = 5.0
    EPSILON = 1e-8

    def __init__(self, gamma: float):
        self.gamma = gamma
        self._moments = Moments(())
        self._largest = 0.0
        self._returns: dict[int, float] = {}

    @property
    def divisor(self) -> float:
        """The current divisor; 1 before the first row."""
        if not self._moments.count:
            return 1.0
        deviation = math.sqrt(float(self._moments.deviation) ** 2 + self.EPSILON)
        return max(deviation, self._largest / self.LIMIT)

    def observe(self, rows: Transitions) -> None:
        """Add rows ``(n,)`` with episode ids; the rows of an episode arrive in order."""
        over = (rows.terminated | rows.truncated).tolist()
        returns = []
        for episode, reward, ends in zip(rows.episode.tolist(), rows.rewards.tolist(), over, strict=True):
            value = self.gamma * self._returns.pop(episode, 0.0) + reward
            if not ends:
                self._returns[episode] = value
            returns.append(value)
        self._moments.observe(np.array(returns))
        self._largest = max([self._largest, *map(abs, returns)])

    def forget(self, episodes: Iterable[int] | None = None) -> None:
        """Drop the returns of episodes that no row will continue; None for all."""
        for episode in list(self._returns) if episodes is None else episodes:
            self._returns.pop(int(episode), None)

    def scale(self, rows: Transitions) -> Transitions:
        """Return the rows with their rewards, or sums of n steps, divided by `divisor`."""
        divisor = rows.rewards.new_full((), self.divisor)  # a GPU would multiply by the inverse of a Python number
        return rows.replace(rewards=rows.rewards / divisor)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics and the returns of running episodes."""
        return {
            "moments": self._moments.state(),
            "largest": self._largest,
            "episodes": np.array(list(self._returns), dtype=np.int64),
            "returns": np.array(list(self._returns.values()), dtype=np.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._moments.load(state["moments"])
        self._largest = float(state["largest"])
        episodes = np.asarray(state["episodes"]).tolist()
        returns = np.asarray(state["returns"]).tolist()
        self._returns = dict(zip(episodes, returns, strict=True))
